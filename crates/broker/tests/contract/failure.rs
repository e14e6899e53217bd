//! Events that cannot be handled, stored or published.

use std::time::Duration;

use bellwether_broker::{BrokerError, CloudEvent, MAX_ATTEMPTS, MAX_EVENT_BYTES};
use serde_json::json;

use crate::backend::{
    Environment, QUIET, broker, event, impatient_broker, is_quiet, next, number, publish, topic,
};

pub(crate) async fn event_rejected_five_times_is_a_dead_letter(environment: &Environment) {
    let (broker, topic) = (broker(environment), topic("dead-letter"));
    let mut subscriber = broker.subscribe(&topic, "one").await.unwrap();
    let published = event(1);
    broker.publish(&topic, &published).await.unwrap();
    for attempt in 1..=MAX_ATTEMPTS {
        let delivery = next(&mut subscriber).await;
        assert_eq!((number(&delivery), delivery.attempt), (1, attempt));
        delivery.nack(Duration::ZERO).await.unwrap();
    }
    publish(&*broker, &topic, 2).await;
    let delivery = next(&mut subscriber).await;
    assert_eq!(number(&delivery), 2);
    delivery.ack().await.unwrap();
    let letters = environment.dead_letters(&topic, "one").await;
    assert_eq!((letters.len(), letters[0].attempts), (1, MAX_ATTEMPTS), "{letters:?}");
    assert_eq!(letters[0].reason, "it was delivered 5 times without being acknowledged");
    assert_eq!(CloudEvent::parse(&letters[0].body).unwrap(), published);
}

pub(crate) async fn event_unanswered_five_times_is_a_dead_letter(environment: &Environment) {
    let (broker, topic) = (impatient_broker(environment), topic("unanswered"));
    let mut subscriber = broker.subscribe(&topic, "one").await.unwrap();
    publish(&*broker, &topic, 1).await;
    for attempt in 1..=MAX_ATTEMPTS {
        let delivery = next(&mut subscriber).await;
        assert_eq!(delivery.attempt, attempt);
        match attempt {
            // Only the last one times out, so that the test does not take longer than it must.
            MAX_ATTEMPTS => drop(delivery),
            _ => delivery.nack(Duration::ZERO).await.unwrap(),
        }
    }
    assert!(is_quiet(&mut subscriber, crate::backend::SHORT_VISIBILITY + 2 * QUIET).await);
    let letters = environment.dead_letters(&topic, "one").await;
    assert_eq!((letters.len(), letters[0].attempts), (1, MAX_ATTEMPTS), "{letters:?}");
}

pub(crate) async fn body_that_is_not_an_event_is_a_dead_letter_and_the_next_event_is_delivered(
    environment: &Environment,
) {
    let (broker, topic) = (broker(environment), topic("poison"));
    let mut subscriber = broker.subscribe(&topic, "one").await.unwrap();
    environment.publish_garbage(&*broker, &topic).await;
    publish(&*broker, &topic, 2).await;
    let delivery = next(&mut subscriber).await;
    assert_eq!((number(&delivery), delivery.attempt), (2, 1));
    delivery.ack().await.unwrap();
    let letters = environment.dead_letters(&topic, "one").await;
    assert_eq!((letters.len(), letters[0].body.as_slice()), (1, b"garbage".as_slice()), "{letters:?}");
    assert!(letters[0].reason.starts_with("the body is not a CloudEvent in JSON: "), "{letters:?}");
}

pub(crate) async fn full_broker_rejects_an_event_and_keeps_the_others(environment: &Environment) {
    let topic = topic("full");
    let broker = environment.connect_bounded(&topic, "one").await;
    drop(broker.subscribe(&topic, "one").await.unwrap());
    let mut stored = 0;
    let error = loop {
        assert!(stored < 100, "the broker is not bounded");
        match broker.publish(&topic, &event(stored)).await {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, BrokerError::Full { .. }), "{error}");
    assert!(error.to_string().contains("let subscribers catch up, or raise the limit"), "{error}");
    let mut subscriber = broker.subscribe(&topic, "one").await.unwrap();
    for _ in 0..stored {
        let delivery = next(&mut subscriber).await;
        assert!(number(&delivery) < stored);
        delivery.ack().await.unwrap();
    }
    assert!(is_quiet(&mut subscriber, QUIET).await, "the rejected event is not delivered");
    publish(&*broker, &topic, 200).await;
    let delivery = next(&mut subscriber).await;
    assert_eq!(number(&delivery), 200);
    delivery.ack().await.unwrap();
}

pub(crate) async fn invalid_names_and_events_are_rejected(environment: &Environment) {
    let broker = broker(environment);
    for name in ["", "a b", "a/b", "a*", &"a".repeat(201)] {
        assert!(matches!(broker.publish(name, &event(1)).await, Err(BrokerError::Name(_))), "{name}");
        assert!(matches!(broker.subscribe(name, "one").await.err(), Some(BrokerError::Name(_))), "{name}");
        assert!(matches!(broker.subscribe("topic", name).await.err(), Some(BrokerError::Name(_))), "{name}");
    }
    let mut large = event(1);
    large.data = json!("x".repeat(MAX_EVENT_BYTES));
    let error = broker.publish(&topic("large"), &large).await.unwrap_err();
    assert!(matches!(error, BrokerError::Rejected { .. }), "{error}");
}

pub(crate) async fn running_broker_is_healthy(environment: &Environment) {
    broker(environment).health().await.unwrap();
}
