//! The built-in queue.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bellwether_broker::Broker;
use bellwether_broker::sqlite::{Limits, Operator, Queue};
use bellwether_clock::SteadyClock;

use crate::backend::{Backend, DeadLetter, publish};

pub(crate) struct Sqlite {
    directory: tempfile::TempDir,
}

impl Sqlite {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("queue.db")
    }

    fn open(&self, limits: Limits) -> Arc<dyn Broker> {
        Arc::new(Queue::open(&self.path(), limits, Arc::new(SteadyClock::default())).unwrap())
    }
}

#[async_trait]
impl Backend for Sqlite {
    fn connect(&self, visibility_timeout: Duration) -> Arc<dyn Broker> {
        self.open(Limits { visibility_timeout, ..Limits::default() })
    }

    async fn connect_bounded(&self, _topic: &str, _subscription: &str) -> Arc<dyn Broker> {
        self.open(Limits { max_events: 3, ..Limits::default() })
    }

    async fn publish_garbage(&self, broker: &dyn Broker, topic: &str) {
        publish(broker, topic, 1).await;
        // A damaged row: the queue itself accepts only events.
        let connection = rusqlite::Connection::open(self.path()).unwrap();
        let update = "UPDATE event SET body = CAST('garbage' AS BLOB) WHERE topic = ?1";
        connection.execute(update, [topic]).unwrap();
    }

    async fn dead_letters(&self, topic: &str, subscription: &str) -> Vec<DeadLetter> {
        let letters =
            Operator::open(&self.path()).unwrap().dead_letters(Some(topic), Some(subscription)).unwrap();
        let letters = letters.into_iter().map(|letter| DeadLetter {
            attempts: letter.attempts,
            reason: letter.reason,
            body: letter.body.into_bytes(),
        });
        letters.collect()
    }

    fn kill(&self) {}

    fn start_again(&self) {}

    fn has_server(&self) -> bool {
        false
    }
}
