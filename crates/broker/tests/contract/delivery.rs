//! Which events a subscription gets, and when.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::backend::{
    Environment, QUIET, SHORT_VISIBILITY, broker, event, impatient_broker, is_quiet, next, number, publish,
    topic,
};

pub(crate) async fn published_event_is_delivered(environment: &Environment) {
    let (broker, topic) = (broker(environment), topic("deliver"));
    let mut subscriber = broker.subscribe(&topic, "one").await.unwrap();
    let published = event(1);
    broker.publish(&topic, &published).await.unwrap();
    let delivery = next(&mut subscriber).await;
    assert_eq!((&delivery.event, delivery.attempt), (&published, 1));
    delivery.ack().await.unwrap();
}

pub(crate) async fn each_subscription_gets_every_event(environment: &Environment) {
    let (broker, topic) = (broker(environment), topic("fan-out"));
    let mut one = broker.subscribe(&topic, "one").await.unwrap();
    let mut two = broker.subscribe(&topic, "two").await.unwrap();
    for number in 0..3 {
        publish(&*broker, &topic, number).await;
    }
    for subscriber in [&mut one, &mut two] {
        let mut numbers = BTreeSet::new();
        for _ in 0..3 {
            let delivery = next(subscriber).await;
            numbers.insert(number(&delivery));
            delivery.ack().await.unwrap();
        }
        assert_eq!(numbers, BTreeSet::from([0, 1, 2]));
    }
}

pub(crate) async fn subscribers_of_one_subscription_get_each_event_once(environment: &Environment) {
    let (broker, topic) = (broker(environment), topic("compete"));
    let mut one = broker.subscribe(&topic, "shared").await.unwrap();
    let mut two = broker.subscribe(&topic, "shared").await.unwrap();
    for number in 0..20 {
        publish(&*broker, &topic, number).await;
    }
    let mut numbers = Vec::new();
    while numbers.len() < 20 {
        let delivery = tokio::select! {
            delivery = next(&mut one) => delivery,
            delivery = next(&mut two) => delivery,
        };
        numbers.push(number(&delivery));
        delivery.ack().await.unwrap();
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..20).collect::<Vec<_>>());
    assert!(is_quiet(&mut one, QUIET).await && is_quiet(&mut two, QUIET).await);
}

pub(crate) async fn acknowledged_event_is_not_delivered_again(environment: &Environment) {
    let (broker, topic) = (impatient_broker(environment), topic("ack"));
    let mut subscriber = broker.subscribe(&topic, "one").await.unwrap();
    publish(&*broker, &topic, 1).await;
    next(&mut subscriber).await.ack().await.unwrap();
    assert!(is_quiet(&mut subscriber, SHORT_VISIBILITY + QUIET).await);
}

pub(crate) async fn rejected_event_is_delivered_again_after_its_delay(environment: &Environment) {
    let (broker, topic) = (broker(environment), topic("nack"));
    let mut subscriber = broker.subscribe(&topic, "one").await.unwrap();
    publish(&*broker, &topic, 1).await;
    for (attempt, delay) in [(1, 0), (2, 700)].map(|(attempt, delay)| (attempt, Duration::from_millis(delay)))
    {
        let delivery = next(&mut subscriber).await;
        assert_eq!(delivery.attempt, attempt);
        let rejected = Instant::now();
        delivery.nack(delay).await.unwrap();
        if !delay.is_zero() {
            publish(&*broker, &topic, 2).await;
            let other = next(&mut subscriber).await;
            assert_eq!(number(&other), 2, "other events do not wait for the delay");
            other.ack().await.unwrap();
            let delivery = next(&mut subscriber).await;
            assert!(rejected.elapsed() >= delay, "{:?}", rejected.elapsed());
            assert_eq!((number(&delivery), delivery.attempt), (1, 3));
            delivery.ack().await.unwrap();
        }
    }
}

pub(crate) async fn unanswered_event_is_delivered_again_after_the_visibility_timeout(
    environment: &Environment,
) {
    let (broker, topic) = (impatient_broker(environment), topic("visibility"));
    let mut subscriber = broker.subscribe(&topic, "one").await.unwrap();
    publish(&*broker, &topic, 1).await;
    let delivered = Instant::now();
    drop(next(&mut subscriber).await);
    let delivery = next(&mut subscriber).await;
    // The server's timer begins a little before the event arrives here.
    assert!(
        delivered.elapsed() >= SHORT_VISIBILITY - Duration::from_millis(100),
        "{:?}",
        delivered.elapsed()
    );
    assert_eq!((number(&delivery), delivery.attempt), (1, 2));
    delivery.ack().await.unwrap();
}

pub(crate) async fn extended_event_is_delivered_once_however_long_it_takes(environment: &Environment) {
    let (broker, topic) = (impatient_broker(environment), topic("extend"));
    let mut subscriber = broker.subscribe(&topic, "one").await.unwrap();
    publish(&*broker, &topic, 1).await;
    let delivery = next(&mut subscriber).await;
    assert_eq!(delivery.visibility_timeout(), SHORT_VISIBILITY);
    let delivered = Instant::now();
    while delivered.elapsed() < 3 * SHORT_VISIBILITY {
        assert!(is_quiet(&mut subscriber, SHORT_VISIBILITY / 3).await, "after {:?}", delivered.elapsed());
        delivery.extend().await.unwrap();
    }
    delivery.ack().await.unwrap();
    assert!(is_quiet(&mut subscriber, SHORT_VISIBILITY + QUIET).await, "the acknowledgement counts");
}

pub(crate) async fn event_is_delivered_again_when_its_extensions_end(environment: &Environment) {
    let (broker, topic) = (impatient_broker(environment), topic("extend-end"));
    let mut subscriber = broker.subscribe(&topic, "one").await.unwrap();
    publish(&*broker, &topic, 1).await;
    let delivery = next(&mut subscriber).await;
    assert!(is_quiet(&mut subscriber, SHORT_VISIBILITY / 2).await);
    delivery.extend().await.unwrap();
    let extended = Instant::now();
    drop(delivery);
    let delivery = next(&mut subscriber).await;
    assert!(extended.elapsed() >= SHORT_VISIBILITY - Duration::from_millis(100), "{:?}", extended.elapsed());
    assert_eq!((number(&delivery), delivery.attempt), (1, 2), "an extension is no attempt");
    delivery.extend().await.unwrap();
    delivery.nack(Duration::ZERO).await.unwrap();
    let delivery = next(&mut subscriber).await;
    assert_eq!(delivery.attempt, 3, "an extended event can be rejected");
    delivery.ack().await.unwrap();
}

pub(crate) async fn subscription_keeps_events_while_nobody_listens(environment: &Environment) {
    let (broker, topic) = (broker(environment), topic("keep"));
    publish(&*broker, &topic, 0).await;
    drop(broker.subscribe(&topic, "one").await.unwrap());
    publish(&*broker, &topic, 1).await;
    let mut subscriber = broker.subscribe(&topic, "one").await.unwrap();
    let delivery = next(&mut subscriber).await;
    assert_eq!(number(&delivery), 1, "events from before the subscription are not delivered");
    delivery.ack().await.unwrap();
}

pub(crate) async fn topics_with_similar_names_are_separate(environment: &Environment) {
    let (broker, base) = (broker(environment), topic("similar"));
    let topics = [format!("{base}.a"), format!("{base}-a"), format!("{base}_a"), format!("{base}.A")];
    let mut subscribers = Vec::new();
    for topic in &topics {
        subscribers.push(broker.subscribe(topic, "a.b").await.unwrap());
    }
    for (number, topic) in topics.iter().enumerate() {
        publish(&*broker, topic, number).await;
    }
    for (expected, subscriber) in subscribers.iter_mut().enumerate() {
        let delivery = next(subscriber).await;
        assert_eq!(number(&delivery), expected);
        delivery.ack().await.unwrap();
    }
}

pub(crate) async fn cancelled_next_loses_nothing(environment: &Environment) {
    const EVENTS: usize = 30;
    let (broker, topic) = (impatient_broker(environment), topic("cancel"));
    let mut subscriber = broker.subscribe(&topic, "one").await.unwrap();
    let publisher = tokio::spawn({
        let (broker, topic) = (broker.clone(), topic.clone());
        async move {
            for number in 0..EVENTS {
                publish(&*broker, &topic, number).await;
            }
        }
    });
    let (mut numbers, mut cancelled, began) = (BTreeSet::new(), 0, Instant::now());
    while numbers.len() < EVENTS {
        assert!(began.elapsed() < crate::backend::TIMEOUT, "{} of {EVENTS} events", numbers.len());
        let timeout = Duration::from_micros(100 * (cancelled % 40));
        match tokio::time::timeout(timeout, subscriber.next()).await {
            Ok(delivery) => {
                let delivery = delivery.unwrap();
                numbers.insert(number(&delivery));
                delivery.ack().await.unwrap();
            }
            Err(_) => cancelled += 1,
        }
    }
    publisher.await.unwrap();
    assert!(cancelled > 0);
}

pub(crate) async fn event_can_be_answered_after_its_subscriber_is_gone(environment: &Environment) {
    let (broker, topic) = (broker(environment), topic("gone"));
    let mut subscriber = broker.subscribe(&topic, "one").await.unwrap();
    publish(&*broker, &topic, 1).await;
    let delivery = next(&mut subscriber).await;
    drop(subscriber);
    delivery.ack().await.unwrap();
    let mut subscriber = broker.subscribe(&topic, "one").await.unwrap();
    assert!(is_quiet(&mut subscriber, QUIET).await);
}
