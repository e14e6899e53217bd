//! Full queues and forgotten subscriptions.

use bellwether_broker::sqlite::{Limits, Operator};
use bellwether_broker::{Broker, BrokerError};
use jiff::Timestamp;
use serde_json::json;

use crate::{event, next, number, open};

#[tokio::test]
async fn forgotten_subscription_loses_its_oldest_events_and_blocks_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits { max_events: 100, max_events_per_subscription: 3, ..Limits::default() };
    let queue = open(directory.path(), limits);
    let mut forgotten = queue.subscribe("t", "forgotten").await.unwrap();
    let mut read = queue.subscribe("t", "read").await.unwrap();
    for published in 0..200 {
        queue.publish("t", &event(published)).await.unwrap();
        let delivery = next(&mut read).await;
        assert_eq!(number(&delivery), published as u64);
        delivery.ack().await.unwrap();
    }
    let infos = Operator::open(&directory.path().join("queue.db")).unwrap();
    let infos = infos.list_subscriptions(Timestamp::now()).unwrap();
    let counts: Vec<_> =
        infos.iter().map(|info| (info.subscription.as_str(), info.depth, info.dropped_events)).collect();
    assert_eq!(counts, [("forgotten", 3, 197), ("read", 0, 0)]);
    for expected in 197..200 {
        let delivery = next(&mut forgotten).await;
        assert_eq!(number(&delivery), expected);
        delivery.ack().await.unwrap();
    }
}

#[tokio::test]
async fn bytes_are_bounded_for_the_queue_and_for_a_subscription() {
    let directory = tempfile::tempdir().unwrap();
    let queue = open(directory.path(), Limits { max_bytes: 5_000, ..Limits::default() });
    drop(queue.subscribe("t", "s").await.unwrap());
    let mut large = event(1);
    large.data = json!("x".repeat(2_000));
    queue.publish("t", &large).await.unwrap();
    queue.publish("t", &large).await.unwrap();
    let error = queue.publish("t", &large).await.unwrap_err();
    assert!(
        matches!(&error, BrokerError::Full { cause, .. } if cause.contains("max_bytes is 5000")),
        "{error}"
    );
    queue.publish("no-subscription", &large).await.expect("an event that nobody gets needs no space");
    drop(queue);

    let queue = open(directory.path(), Limits { max_bytes_per_subscription: 5_000, ..Limits::default() });
    queue.publish("t", &large).await.unwrap();
    let info = Operator::open(&directory.path().join("queue.db")).unwrap();
    let info = info.list_subscriptions(Timestamp::now()).unwrap().remove(0);
    assert_eq!((info.depth, info.dropped_events), (2, 1));
}

#[tokio::test]
async fn full_disk_is_full_and_changes_nothing_and_events_can_be_consumed() {
    let directory = tempfile::tempdir().unwrap();
    let queue = open(directory.path(), Limits { max_file_bytes: 300_000, ..Limits::default() });
    let mut subscriber = queue.subscribe("t", "s").await.unwrap();
    let mut stored = 0;
    let error = loop {
        assert!(stored < 1_000);
        let mut large = event(stored);
        large.extensions.insert("padding".into(), json!("x".repeat(4_000)));
        match queue.publish("t", &large).await {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
    };
    assert!(
        matches!(&error, BrokerError::Full { cause, .. } if cause.contains("raise max_file_bytes")),
        "{error}"
    );
    for _ in 0..stored {
        next(&mut subscriber).await.ack().await.unwrap();
    }
    queue.publish("t", &event(7)).await.unwrap();
    let delivery = next(&mut subscriber).await;
    assert_eq!(number(&delivery), 7);
}

#[tokio::test]
async fn dead_letters_are_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let queue = open(directory.path(), Limits { max_dead_letters_per_subscription: 2, ..Limits::default() });
    let mut subscriber = queue.subscribe("t", "s").await.unwrap();
    for published in 0..3 {
        queue.publish("t", &event(published)).await.unwrap();
        for _ in 0..bellwether_broker::MAX_ATTEMPTS {
            next(&mut subscriber).await.nack(std::time::Duration::ZERO).await.unwrap();
        }
    }
    let operator = Operator::open(&directory.path().join("queue.db")).unwrap();
    let letters = operator.dead_letters(Some("t"), Some("s")).unwrap();
    assert_eq!(letters.len(), 2);
    assert!(letters[0].body.contains(r#""number":1"#), "the oldest is dropped: {letters:?}");
    let info = operator.list_subscriptions(Timestamp::now()).unwrap().remove(0);
    assert_eq!((info.dead_letters, info.dropped_dead_letters), (2, 1));
}
