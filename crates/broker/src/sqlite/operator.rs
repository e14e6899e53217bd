//! What an operator does with a queue, from another process or beside the running server: look at events, subscriptions and
//! dead letters, and requeue dead letters. These functions block.

use std::path::Path;

use jiff::Timestamp;
use parking_lot::Mutex;
use rusqlite::types::{Type, Value};
use rusqlite::{Connection, Row, TransactionBehavior, params, params_from_iter};
use serde::Serialize;

use super::connection::{Location, Missing};
use crate::{BrokerError, name};

/// The largest number of rows of one answer.
const MAX_ROWS: u32 = 10_000;
/// The number of dead letters that are requeued in one transaction, so that the server does not wait for long.
const REQUEUE_BATCH: usize = 500;

/// An existing queue, for an operator.
pub struct Operator {
    location: Location,
    connection: Mutex<Connection>,
}

/// An event that waits for at least one subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PendingEvent {
    /// The topic.
    pub topic: String,
    /// When it was published.
    pub published_at: Timestamp,
    /// The number of subscriptions that have not acknowledged it.
    pub subscriptions: u64,
    /// The largest number of deliveries to one of them.
    pub attempts: u32,
    /// The body: JSON, unless it is damaged.
    pub body: String,
}

/// The state of a subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SubscriptionInfo {
    /// The topic.
    pub topic: String,
    /// The subscription ID.
    pub subscription: String,
    /// The number of events that are not acknowledged, with those in flight.
    pub depth: u64,
    /// The number of events that a subscriber handles now.
    pub in_flight: u64,
    /// The number of dead letters.
    pub dead_letters: u64,
    /// The number of events that were dropped because nobody read them.
    pub dropped_events: u64,
    /// The number of dead letters that were dropped.
    pub dropped_dead_letters: u64,
    /// When the oldest event that is not acknowledged was published.
    pub oldest: Option<Timestamp>,
}

/// An event that could not be handled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeadLetter {
    /// Identifies it in the queue.
    pub id: i64,
    /// The topic.
    pub topic: String,
    /// The subscription ID.
    pub subscription: String,
    /// The number of deliveries.
    pub attempts: u32,
    /// Why it is a dead letter.
    pub reason: String,
    /// When it was published.
    pub published_at: Timestamp,
    /// When it became a dead letter.
    pub moved_at: Timestamp,
    /// The body: JSON, unless that is why it is a dead letter.
    pub body: String,
}

/// Which dead letters to requeue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// All of a subscription.
    All {
        /// The topic.
        topic: String,
        /// The subscription ID.
        subscription: String,
    },
    /// Those with these IDs.
    Ids(Vec<i64>),
}

impl Operator {
    /// Opens an existing file.
    pub fn open(path: &Path) -> Result<Self, BrokerError> {
        let location = Location::new(path);
        let connection = Mutex::new(location.open(Missing::Fail)?);
        Ok(Self { location, connection })
    }

    /// The oldest events that wait, of one topic or of all.
    pub fn peek(&self, topic: Option<&str>, limit: u32) -> Result<Vec<PendingEvent>, BrokerError> {
        let select =
            "SELECT topic, published_at, (SELECT count(*) FROM delivery WHERE delivery.event = event.id),
            (SELECT max(attempts) FROM delivery WHERE delivery.event = event.id), body
            FROM event WHERE ?1 IS NULL OR topic = ?1 ORDER BY id LIMIT ?2";
        self.rows(select, params![topic, limit.min(MAX_ROWS)], |row| {
            Ok(PendingEvent {
                topic: row.get(0)?,
                published_at: timestamp(row, 1)?,
                subscriptions: count(row, 2)?,
                attempts: row.get(3)?,
                body: text(row, 4)?,
            })
        })
    }

    /// All subscriptions, by topic and name. Events in flight are those that were claimed and are not visible at `now`.
    pub fn list_subscriptions(&self, now: Timestamp) -> Result<Vec<SubscriptionInfo>, BrokerError> {
        let select = "SELECT topic, name, depth, dead_letters, dropped_events, dropped_dead_letters,
            (SELECT count(*) FROM delivery WHERE delivery.subscription = subscription.id AND claimed = 1 AND visible_at > ?1),
            (SELECT published_at FROM event WHERE id = (SELECT min(event) FROM delivery WHERE delivery.subscription = subscription.id))
            FROM subscription ORDER BY topic, name LIMIT ?2";
        self.rows(select, params![now.as_millisecond(), MAX_ROWS], |row| {
            let has_oldest = row.get::<_, Option<i64>>(7)?.is_some();
            Ok(SubscriptionInfo {
                topic: row.get(0)?,
                subscription: row.get(1)?,
                depth: count(row, 2)?,
                dead_letters: count(row, 3)?,
                dropped_events: count(row, 4)?,
                dropped_dead_letters: count(row, 5)?,
                in_flight: count(row, 6)?,
                oldest: if has_oldest { Some(timestamp(row, 7)?) } else { None },
            })
        })
    }

    /// The dead letters of a subscription, oldest first, or those of all topics and subscriptions.
    pub fn dead_letters(
        &self,
        topic: Option<&str>,
        subscription: Option<&str>,
    ) -> Result<Vec<DeadLetter>, BrokerError> {
        let select = "SELECT dead_letter.id, topic, name, attempts, reason, published_at, moved_at, body
            FROM dead_letter JOIN subscription ON subscription.id = dead_letter.subscription
            WHERE (?1 IS NULL OR topic = ?1) AND (?2 IS NULL OR name = ?2) ORDER BY dead_letter.id LIMIT ?3";
        self.rows(select, params![topic, subscription, MAX_ROWS], |row| {
            Ok(DeadLetter {
                id: row.get(0)?,
                topic: row.get(1)?,
                subscription: row.get(2)?,
                attempts: row.get(3)?,
                reason: row.get(4)?,
                published_at: timestamp(row, 5)?,
                moved_at: timestamp(row, 6)?,
                body: text(row, 7)?,
            })
        })
    }

    /// Makes dead letters events of their subscriptions again, with new attempts, and returns their number. A running server
    /// delivers them within about a second.
    pub fn requeue(&self, which: &Requeue, now: Timestamp) -> Result<usize, BrokerError> {
        let ids = match which {
            Requeue::Ids(ids) => ids.clone(),
            Requeue::All { topic, subscription } => {
                name::validate(topic)?;
                name::validate(subscription)?;
                self.dead_letters(Some(topic), Some(subscription))?.iter().map(|letter| letter.id).collect()
            }
        };
        let mut requeued = 0;
        for batch in ids.chunks(REQUEUE_BATCH) {
            let connection = &mut *self.connection.lock();
            requeued += requeue(connection, batch, now.as_millisecond())
                .map_err(|error| self.location.error(error))?;
        }
        Ok(requeued)
    }

    fn rows<T>(
        &self,
        select: &str,
        parameters: impl rusqlite::Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, BrokerError> {
        let connection = self.connection.lock();
        let read =
            || connection.prepare(select)?.query_map(parameters, read)?.collect::<rusqlite::Result<_>>();
        read().map_err(|error| self.location.error(error))
    }
}

impl std::fmt::Debug for Operator {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Operator").field("address", &self.location.address()).finish_non_exhaustive()
    }
}

fn requeue(connection: &mut Connection, ids: &[i64], now: i64) -> rusqlite::Result<usize> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut requeued = 0;
    for id in ids {
        let insert = "INSERT INTO event (topic, body, bytes, published_at)
            SELECT topic, body, length(body), published_at
            FROM dead_letter JOIN subscription ON subscription.id = dead_letter.subscription WHERE dead_letter.id = ?1";
        if transaction.prepare_cached(insert)?.execute([id])? == 0 {
            continue;
        }
        let event = Value::from(transaction.last_insert_rowid());
        let insert = "INSERT INTO delivery (subscription, event, bytes, visible_at)
            SELECT subscription, ?2, length(body), ?3 FROM dead_letter WHERE id = ?1";
        let parameters = [Value::from(*id), event, Value::from(now)];
        transaction.prepare_cached(insert)?.execute(params_from_iter(parameters))?;
        requeued += transaction.prepare_cached("DELETE FROM dead_letter WHERE id = ?1")?.execute([id])?;
    }
    transaction.commit()?;
    Ok(requeued)
}

fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get(column).map(|count: i64| count.unsigned_abs())
}

fn timestamp(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    let millis: i64 = row.get(column)?;
    Timestamp::from_millisecond(millis)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Integer, Box::new(error)))
}

fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    let bytes: Vec<u8> = row.get(column)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
