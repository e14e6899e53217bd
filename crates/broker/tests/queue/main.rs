//! What only the built-in queue does: limits, functions for operators, other processes, and crashes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod crash;
mod limits;
mod metrics;
mod operator;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Poll;
use std::time::Duration;

use bellwether_broker::sqlite::{Limits, Queue};
use bellwether_broker::{Broker, CloudEvent, Delivery, Subscriber};
use bellwether_clock::{Clock, SteadyClock};
use jiff::Timestamp;
use serde_json::json;

const TIMEOUT: Duration = Duration::from_secs(20);

/// A clock that a test sets.
#[derive(Default)]
struct HandClock(AtomicI64);

impl HandClock {
    fn advance(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.0.load(Ordering::Relaxed)).unwrap()
    }
}

fn open(directory: &Path, limits: Limits) -> Queue {
    Queue::open(&directory.join("queue.db"), limits, Arc::new(SteadyClock::default())).unwrap()
}

fn event(number: usize) -> CloudEvent {
    CloudEvent::new("tests", "com.example.numbered", json!({ "number": number }), Timestamp::now())
}

fn number(delivery: &Delivery) -> u64 {
    delivery.event.data["number"].as_u64().unwrap()
}

async fn next(subscriber: &mut Box<dyn Subscriber>) -> Delivery {
    tokio::time::timeout(TIMEOUT, subscriber.next()).await.expect("an event is delivered").unwrap()
}

#[tokio::test]
async fn concurrent_publishes_are_all_stored() {
    let directory = tempfile::tempdir().unwrap();
    let queue = Arc::new(open(directory.path(), Limits::default()));
    let mut subscriber = queue.subscribe("t", "s").await.unwrap();
    let publishes = (0..200).map(|number| {
        let queue = Arc::clone(&queue);
        async move { queue.publish("t", &event(number)).await.unwrap() }
    });
    futures::future::join_all(publishes).await;
    let mut numbers = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let delivery = next(&mut subscriber).await;
        numbers.insert(number(&delivery));
        delivery.ack().await.unwrap();
    }
    assert_eq!(numbers.len(), 200);
}

#[tokio::test]
async fn late_acknowledgement_removes_the_event_and_a_late_rejection_does_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let visibility_timeout = Duration::from_millis(100);
    let queue = open(directory.path(), Limits { visibility_timeout, ..Limits::default() });
    let mut subscriber = queue.subscribe("t", "s").await.unwrap();
    queue.publish("t", &event(1)).await.unwrap();
    let first = next(&mut subscriber).await;
    let second = next(&mut subscriber).await;
    assert_eq!((first.attempt, second.attempt), (1, 2));
    first.nack(Duration::from_secs(3600)).await.unwrap();
    let third = next(&mut subscriber).await;
    assert_eq!(third.attempt, 3, "the rejection of an old delivery does not delay a new one");
    second.ack().await.unwrap();
    let again = tokio::time::timeout(3 * visibility_timeout, subscriber.next()).await;
    assert!(again.is_err(), "the event was handled");
}

#[tokio::test]
async fn extension_of_an_old_delivery_does_not_hide_the_event() {
    let directory = tempfile::tempdir().unwrap();
    let (clock, path) = (Arc::new(HandClock::default()), directory.path().join("queue.db"));
    let queue = Queue::open(&path, Limits::default(), clock.clone()).unwrap();
    let mut subscriber = queue.subscribe("t", "s").await.unwrap();
    queue.publish("t", &event(1)).await.unwrap();
    let first = next(&mut subscriber).await;
    clock.advance(31);
    let second = next(&mut subscriber).await;
    clock.advance(15);
    first.extend().await.unwrap();
    clock.advance(16);
    let third = next(&mut subscriber).await;
    assert_eq!((first.attempt, second.attempt, third.attempt), (1, 2, 3));
}

#[tokio::test]
async fn event_of_a_dropped_subscriber_is_visible_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let queue = open(directory.path(), Limits::default());
    for round in 0..50 {
        let mut subscriber = queue.subscribe("t", "s").await.unwrap();
        queue.publish("t", &event(round)).await.unwrap();
        // Polled once, so that a claim may be under way.
        if let Poll::Ready(delivery) = futures::poll!(subscriber.next()) {
            delivery.unwrap().ack().await.unwrap();
            continue;
        }
        drop(subscriber);
        let mut subscriber = queue.subscribe("t", "s").await.unwrap();
        let delivery = next(&mut subscriber).await;
        assert_eq!(delivery.attempt, 1);
        delivery.ack().await.unwrap();
    }
}

#[test]
fn foreign_and_missing_files_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other");
    let open = |path: &Path| Queue::open(path, Limits::default(), Arc::new(SteadyClock::default()));
    std::fs::write(&path, "this is not a database, but it is long enough to look like one".repeat(20))
        .unwrap();
    let error = open(&path).unwrap_err().to_string();
    assert!(error.contains("is not an SQLite database; choose another path"), "{error}");
    std::fs::remove_file(&path).unwrap();
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE other (id)").unwrap();
    let error = open(&path).unwrap_err().to_string();
    assert!(error.contains("it is a database of another program; choose another path"), "{error}");
    let error = open(&directory.path().join("missing/queue.db")).unwrap_err().to_string();
    assert!(error.contains("No such file or directory"), "{error}");
}
