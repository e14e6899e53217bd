//! Functions for operators, on a file that a server has open.

use std::time::Duration;

use bellwether_broker::sqlite::{Limits, Operator, Requeue};
use bellwether_broker::{Broker, MAX_ATTEMPTS};
use jiff::Timestamp;

use crate::{event, next, number, open};

#[tokio::test]
async fn operator_sees_events_and_subscriptions() {
    let directory = tempfile::tempdir().unwrap();
    let queue = open(directory.path(), Limits::default());
    let mut subscriber = queue.subscribe("t", "s").await.unwrap();
    drop(queue.subscribe("t", "other").await.unwrap());
    drop(queue.subscribe("u", "s").await.unwrap());
    let before = Timestamp::now();
    for number in 0..3 {
        queue.publish("t", &event(number)).await.unwrap();
    }
    let held = next(&mut subscriber).await;
    next(&mut subscriber).await.ack().await.unwrap();

    let operator = Operator::open(&directory.path().join("queue.db")).unwrap();
    let events = operator.peek(Some("t"), 2).unwrap();
    let seen: Vec<_> = events.iter().map(|event| (event.subscriptions, event.attempts)).collect();
    assert_eq!(seen, [(2, 1), (1, 0)]);
    assert!(events[0].body.contains(r#""number":0"#), "{events:?}");
    assert_eq!((operator.peek(None, 10).unwrap().len(), operator.peek(Some("u"), 10).unwrap().len()), (3, 0));

    let infos = operator.list_subscriptions(Timestamp::now()).unwrap();
    let counts: Vec<_> = infos
        .iter()
        .map(|info| (info.topic.as_str(), info.subscription.as_str(), info.depth, info.in_flight))
        .collect();
    assert_eq!(counts, [("t", "other", 3, 0), ("t", "s", 2, 1), ("u", "s", 0, 0)]);
    let age = infos[0].oldest.unwrap().duration_since(before);
    assert!(age.abs() < jiff::SignedDuration::from_secs(10), "{age:?}");
    assert_eq!(infos[2].oldest, None);
    held.ack().await.unwrap();
}

#[tokio::test]
async fn requeued_dead_letters_are_delivered_by_the_running_server() {
    let directory = tempfile::tempdir().unwrap();
    let queue = open(directory.path(), Limits::default());
    let mut subscriber = queue.subscribe("t", "s").await.unwrap();
    for published in 0..2 {
        queue.publish("t", &event(published)).await.unwrap();
        for _ in 0..MAX_ATTEMPTS {
            next(&mut subscriber).await.nack(Duration::ZERO).await.unwrap();
        }
    }
    // Waits already when the dead letters are requeued, so only the other process can wake it.
    let waiting = tokio::spawn(async move {
        let delivery = next(&mut subscriber).await;
        (subscriber, delivery)
    });
    tokio::task::yield_now().await;
    let operator = Operator::open(&directory.path().join("queue.db")).unwrap();
    let letters = operator.dead_letters(None, None).unwrap();
    assert_eq!(letters.len(), 2);
    assert_eq!((letters[0].topic.as_str(), letters[0].subscription.as_str()), ("t", "s"));
    let which = Requeue::Ids(vec![letters[1].id, 4_711]);
    assert_eq!(operator.requeue(&which, Timestamp::now()).unwrap(), 1);
    let (mut subscriber, delivery) = waiting.await.unwrap();
    assert_eq!((number(&delivery), delivery.attempt), (1, 1));
    delivery.ack().await.unwrap();
    let all = Requeue::All { topic: "t".into(), subscription: "s".into() };
    assert_eq!(operator.requeue(&all, Timestamp::now()).unwrap(), 1);
    assert_eq!(number(&next(&mut subscriber).await), 0);
    assert!(operator.dead_letters(None, None).unwrap().is_empty());
}

#[test]
fn operator_does_not_create_a_queue() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    let error = Operator::open(&path).unwrap_err().to_string();
    assert!(error.contains("unable to open database file"), "{error}");
    assert!(!path.exists());
}
