//! The broker is killed and comes back. These scenarios do not share their server.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bellwether_broker::BrokerError;

use crate::backend::{Environment, TIMEOUT, broker, event, next, number, publish, topic};

/// How long an operation may take on a broker that is down.
const MAX_WAIT: Duration = Duration::from_secs(15);
const EVENTS: usize = 20;
/// How many callers publish while the broker is down. They must not wait for each other.
const PUBLISHERS: usize = 8;

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
    let publish_all = futures::future::join_all((0..PUBLISHERS).map(|_| broker.publish(&topic, &published)));
    let (publish_errors, health_error, subscribe_error, next_error) =
        tokio::join!(publish_all, broker.health(), late.subscribe(&topic, "two"), receive);
    assert!(began.elapsed() < MAX_WAIT, "{:?}", began.elapsed());
    let mut errors: Vec<_> = publish_errors.into_iter().map(Result::unwrap_err).collect();
    errors.extend([health_error.unwrap_err(), subscribe_error.err().unwrap(), next_error]);
    for error in errors {
        assert!(matches!(error, BrokerError::Unreachable { .. }), "{error}");
        assert!(!error.to_string().contains("guest"), "{error}");
    }

    environment.start_again();
    publish(&*broker, &topic, 3).await;
    publish(&*late, &topic, 4).await;
    broker.health().await.unwrap();
    let mut numbers = BTreeSet::new();
    while !(numbers.contains(&3) && numbers.contains(&4)) {
        let Ok(delivery) = tokio::time::timeout(TIMEOUT, subscriber.next()).await else {
            panic!("only {numbers:?} arrived; {}", environment.describe(&topic, "one").await);
        };
        let delivery = delivery.unwrap();
        numbers.insert(number(&delivery));
        delivery.ack().await.unwrap();
    }
}
