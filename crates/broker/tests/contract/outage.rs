//! The broker is killed and comes back. These scenarios do not share their server.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bellwether_broker::BrokerError;

use crate::backend::{Environment, broker, event, next, number, publish, topic};

/// How long an operation may take on a broker that is down.
const MAX_WAIT: Duration = Duration::from_secs(15);
const EVENTS: usize = 20;

pub(crate) async fn restart_loses_nothing(environment: &Environment) {
    let topic = topic("restart");
    let before = broker(environment);
    let mut subscriber = before.subscribe(&topic, "one").await.unwrap();
    for number in 0..EVENTS {
        publish(&*before, &topic, number).await;
    }
    let delivery = next(&mut subscriber).await;
    let acknowledged = number(&delivery);
    delivery.ack().await.unwrap();
    drop(subscriber);
    drop(before);
    environment.kill();
    environment.start_again();
    let after = broker(environment);
    let mut subscriber = after.subscribe(&topic, "one").await.unwrap();
    let mut numbers = BTreeSet::from([acknowledged]);
    while numbers.len() < EVENTS {
        let delivery = next(&mut subscriber).await;
        numbers.insert(number(&delivery));
        delivery.ack().await.unwrap();
    }
}

pub(crate) async fn stopped_broker_is_unreachable_and_recovers(environment: &Environment) {
    if !environment.has_server() {
        return;
    }
    let (broker, topic) = (broker(environment), topic("outage"));
    let mut subscriber = broker.subscribe(&topic, "one").await.unwrap();
    publish(&*broker, &topic, 1).await;
    environment.kill();
    let began = Instant::now();
    let published = event(2);
    // A connection that is made while the server is down is an error of its use, not of its start.
    let late = crate::backend::broker(environment);
    let receive = async {
        loop {
            match subscriber.next().await {
                // It may have been on its way.
                Ok(delivery) => drop(delivery),
                Err(error) => break error,
            }
        }
    };
    let (publish_error, health_error, subscribe_error, next_error) = tokio::join!(
        broker.publish(&topic, &published),
        broker.health(),
        late.subscribe(&topic, "two"),
        receive
    );
    assert!(began.elapsed() < MAX_WAIT, "{:?}", began.elapsed());
    let errors = [publish_error.err(), health_error.err(), subscribe_error.err(), Some(next_error)];
    for error in errors.map(Option::unwrap) {
        assert!(matches!(error, BrokerError::Unreachable { .. }), "{error}");
        assert!(!error.to_string().contains("guest"), "{error}");
    }

    environment.start_again();
    publish(&*broker, &topic, 3).await;
    publish(&*late, &topic, 4).await;
    broker.health().await.unwrap();
    let mut numbers = BTreeSet::new();
    while !(numbers.contains(&3) && numbers.contains(&4)) {
        let delivery = next(&mut subscriber).await;
        numbers.insert(number(&delivery));
        delivery.ack().await.unwrap();
    }
}
