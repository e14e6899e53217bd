//! What a queue does to its rows, inside of a transaction. The time is passed in.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::limits::Limits;
use crate::{CloudEvent, MAX_ATTEMPTS, exhausted};

/// How many dead letters one claim makes before other operations run.
const MAX_DEAD_LETTERS_PER_CLAIM: usize = 100;
/// After how many dropped events of a subscription another warning is logged.
const DROPS_PER_WARNING: i64 = 1_000;

/// Milliseconds since 1970.
pub(super) type Millis = i64;
/// The row of a subscription.
pub(super) type SubscriptionId = i64;
/// The row of an event.
pub(super) type EventId = i64;

/// The result of a publication.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Published {
    /// It waits for these subscriptions.
    Stored(Vec<SubscriptionId>),
    /// A limit was reached, and nothing changed.
    Full(String),
}

/// One try of a subscriber to get an event.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) outcome: Claimed,
    /// The number of bodies that were not CloudEvents and became dead letters.
    pub(super) rejected: usize,
}

/// What a claim found.
#[derive(Debug)]
pub(super) enum Claimed {
    Event(Box<ClaimedEvent>),
    /// Nothing is visible now. The time is that of the next event that is in flight or delayed.
    Nothing(Option<Millis>),
    /// Many dead letters were made; claim again.
    Again,
}

/// An event in flight.
#[derive(Debug)]
pub(super) struct ClaimedEvent {
    pub(super) id: EventId,
    pub(super) event: CloudEvent,
    pub(super) attempt: u32,
}

/// Stores an event for every subscription of its topic. Without a subscription, nothing is stored.
pub(super) fn publish(
    connection: &Connection,
    limits: &Limits,
    topic: &str,
    body: &[u8],
    now: Millis,
) -> rusqlite::Result<Published> {
    let mut statement = connection.prepare_cached("SELECT id FROM subscription WHERE topic = ?1")?;
    let subscriptions: Vec<SubscriptionId> =
        statement.query_map([topic], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    if subscriptions.is_empty() {
        return Ok(Published::Stored(subscriptions));
    }
    let bytes = i64::try_from(body.len()).unwrap_or(i64::MAX);
    if let Some(reached) = reached_limit(connection, limits, bytes)? {
        return Ok(Published::Full(reached));
    }
    let insert = "INSERT INTO event (topic, body, bytes, published_at) VALUES (?1, ?2, ?3, ?4)";
    connection.prepare_cached(insert)?.execute(params![topic, body, bytes, now])?;
    let event = connection.last_insert_rowid();
    let insert = "INSERT INTO delivery (subscription, event, bytes, visible_at) VALUES (?1, ?2, ?3, ?4)";
    for subscription in &subscriptions {
        connection.prepare_cached(insert)?.execute(params![subscription, event, bytes, now])?;
        drop_oldest(connection, limits, *subscription)?;
    }
    Ok(Published::Stored(subscriptions))
}

fn reached_limit(connection: &Connection, limits: &Limits, bytes: i64) -> rusqlite::Result<Option<String>> {
    let mut statement = connection.prepare_cached("SELECT events, bytes FROM totals")?;
    let (events, stored): (i64, i64) = statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (events, stored) = (events.unsigned_abs(), stored.unsigned_abs());
    let advice = "let subscribers catch up, or raise the limit";
    if events >= limits.max_events {
        return Ok(Some(format!("it has {events} events, the limit max_events; {advice}")));
    }
    if stored.saturating_add(bytes.unsigned_abs()) > limits.max_bytes {
        let max = limits.max_bytes;
        return Ok(Some(format!("it has {stored} bytes, and the limit max_bytes is {max}; {advice}")));
    }
    Ok(None)
}

/// Drops the oldest events of a subscription that is above its limits, and counts them.
fn drop_oldest(
    connection: &Connection,
    limits: &Limits,
    subscription: SubscriptionId,
) -> rusqlite::Result<()> {
    let select = "SELECT depth, bytes, topic, name, dropped_events FROM subscription WHERE id = ?1";
    loop {
        let mut statement = connection.prepare_cached(select)?;
        let mut rows = statement.query([subscription])?;
        let Some(row) = rows.next()? else { return Ok(()) };
        let (depth, bytes): (i64, i64) = (row.get(0)?, row.get(1)?);
        let (depth, bytes) = (depth.unsigned_abs(), bytes.unsigned_abs());
        let is_above =
            depth > limits.max_events_per_subscription || bytes > limits.max_bytes_per_subscription;
        // The newest event is kept in any case, so this ends.
        if !is_above || depth <= 1 {
            return Ok(());
        }
        let dropped: i64 = row.get(4)?;
        if dropped % DROPS_PER_WARNING == 0 {
            let (topic, name): (String, String) = (row.get(2)?, row.get(3)?);
            tracing::warn!(
                topic,
                subscription = name,
                depth,
                dropped_events = dropped + 1,
                "the subscription is at its limit, and its oldest events are dropped: start its subscriber, or remove the subscription"
            );
        }
        let delete = "DELETE FROM delivery WHERE subscription = ?1 AND event = (SELECT min(event) FROM delivery WHERE subscription = ?1)";
        connection.prepare_cached(delete)?.execute([subscription])?;
        let count = "UPDATE subscription SET dropped_events = dropped_events + 1 WHERE id = ?1";
        connection.prepare_cached(count)?.execute([subscription])?;
    }
}

/// The subscription of a topic by its name, which is created if it does not exist.
pub(super) fn subscribe(
    connection: &Connection,
    topic: &str,
    name: &str,
) -> rusqlite::Result<SubscriptionId> {
    let insert = "INSERT INTO subscription (topic, name) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    connection.prepare_cached(insert)?.execute([topic, name])?;
    let select = "SELECT id FROM subscription WHERE topic = ?1 AND name = ?2";
    connection.prepare_cached(select)?.query_row([topic, name], |row| row.get(0))
}

/// Claims the event that has been visible for the longest time.
pub(super) fn claim(
    connection: &Connection,
    limits: &Limits,
    subscription: SubscriptionId,
    now: Millis,
) -> rusqlite::Result<Claim> {
    let select = "SELECT event.id, event.body, delivery.attempts FROM delivery JOIN event ON event.id = delivery.event
        WHERE delivery.subscription = ?1 AND delivery.visible_at <= ?2 ORDER BY delivery.visible_at, delivery.event LIMIT 1";
    let mut rejected = 0;
    for _ in 0..MAX_DEAD_LETTERS_PER_CLAIM {
        let mut statement = connection.prepare_cached(select)?;
        let row = statement.query_row([subscription, now], |row| {
            Ok((row.get::<_, EventId>(0)?, row.get::<_, Vec<u8>>(1)?, row.get::<_, u32>(2)?))
        });
        let Some((id, body, attempts)) = row.optional()? else {
            return Ok(Claim {
                outcome: Claimed::Nothing(next_visible(connection, subscription)?),
                rejected,
            });
        };
        if attempts >= MAX_ATTEMPTS {
            dead_letter(connection, limits, (subscription, id), &exhausted(attempts), now)?;
            continue;
        }
        match CloudEvent::parse(&body) {
            Ok(event) => {
                let visible_at = after(now, limits.visibility_timeout);
                let update = "UPDATE delivery SET visible_at = ?3, attempts = attempts + 1, claimed = 1 WHERE subscription = ?1 AND event = ?2";
                connection.prepare_cached(update)?.execute([subscription, id, visible_at])?;
                let claimed = ClaimedEvent { id, event, attempt: attempts + 1 };
                return Ok(Claim { outcome: Claimed::Event(Box::new(claimed)), rejected });
            }
            Err(error) => {
                dead_letter(connection, limits, (subscription, id), &error.to_string(), now)?;
                rejected += 1;
            }
        }
    }
    Ok(Claim { outcome: Claimed::Again, rejected })
}

fn next_visible(connection: &Connection, subscription: SubscriptionId) -> rusqlite::Result<Option<Millis>> {
    let select = "SELECT min(visible_at) FROM delivery WHERE subscription = ?1";
    connection.prepare_cached(select)?.query_row([subscription], |row| row.get(0))
}

/// Moves an event of a subscription to its dead letters.
fn dead_letter(
    connection: &Connection,
    limits: &Limits,
    (subscription, event): (SubscriptionId, EventId),
    reason: &str,
    now: Millis,
) -> rusqlite::Result<()> {
    let insert = "INSERT INTO dead_letter (subscription, body, attempts, reason, published_at, moved_at)
        SELECT ?1, event.body, delivery.attempts, ?3, event.published_at, ?4
        FROM delivery JOIN event ON event.id = delivery.event WHERE delivery.subscription = ?1 AND delivery.event = ?2";
    connection.prepare_cached(insert)?.execute(params![subscription, event, reason, now])?;
    acknowledge(connection, subscription, event)?;
    tracing::warn!(subscription, event, reason, "an event was moved to the dead letters");
    let excess = "SELECT max(dead_letters - ?2, 0) FROM subscription WHERE id = ?1";
    let max = i64::try_from(limits.max_dead_letters_per_subscription).unwrap_or(i64::MAX);
    let excess: i64 = connection.prepare_cached(excess)?.query_row([subscription, max], |row| row.get(0))?;
    if excess > 0 {
        let delete = "DELETE FROM dead_letter WHERE id IN (SELECT id FROM dead_letter WHERE subscription = ?1 ORDER BY id LIMIT ?2)";
        connection.prepare_cached(delete)?.execute([subscription, excess])?;
        let count = "UPDATE subscription SET dropped_dead_letters = dropped_dead_letters + ?2 WHERE id = ?1";
        connection.prepare_cached(count)?.execute([subscription, excess])?;
    }
    Ok(())
}

/// Removes an event of a subscription. A late acknowledgement, after the event was claimed again, removes it too: it was handled.
pub(super) fn acknowledge(
    connection: &Connection,
    subscription: SubscriptionId,
    event: EventId,
) -> rusqlite::Result<()> {
    let delete = "DELETE FROM delivery WHERE subscription = ?1 AND event = ?2";
    connection.prepare_cached(delete)?.execute([subscription, event])?;
    Ok(())
}

/// Makes an event visible at a time, or a dead letter after its last attempt. An event that was claimed again since is left alone.
pub(super) fn reject(
    connection: &Connection,
    limits: &Limits,
    claim: (SubscriptionId, EventId, u32),
    visible_at: Millis,
    now: Millis,
) -> rusqlite::Result<()> {
    let (subscription, event, attempt) = claim;
    let select = "SELECT 1 FROM delivery WHERE subscription = ?1 AND event = ?2 AND attempts = ?3";
    let is_current = connection.prepare_cached(select)?.exists(params![subscription, event, attempt])?;
    if !is_current {
        return Ok(());
    }
    if attempt >= MAX_ATTEMPTS {
        return dead_letter(connection, limits, (subscription, event), &exhausted(attempt), now);
    }
    let update = "UPDATE delivery SET visible_at = ?3, claimed = 0 WHERE subscription = ?1 AND event = ?2";
    connection.prepare_cached(update)?.execute([subscription, event, visible_at])?;
    Ok(())
}

/// Hides a claimed event until a time. An event that was claimed again or rejected since is left alone.
pub(super) fn extend(
    connection: &Connection,
    (subscription, event, attempt): (SubscriptionId, EventId, u32),
    visible_at: Millis,
) -> rusqlite::Result<()> {
    let update = "UPDATE delivery SET visible_at = ?4
        WHERE subscription = ?1 AND event = ?2 AND attempts = ?3 AND claimed = 1";
    connection.prepare_cached(update)?.execute(params![subscription, event, attempt, visible_at])?;
    Ok(())
}

/// Undoes a claim whose event no subscriber has seen.
pub(super) fn release(
    connection: &Connection,
    claim: (SubscriptionId, EventId, u32),
    now: Millis,
) -> rusqlite::Result<()> {
    let (subscription, event, attempt) = claim;
    let update = "UPDATE delivery SET visible_at = ?4, attempts = attempts - 1, claimed = 0
        WHERE subscription = ?1 AND event = ?2 AND attempts = ?3";
    connection.prepare_cached(update)?.execute(params![subscription, event, attempt, now])?;
    Ok(())
}

/// The first millisecond that is not earlier than a delay after now.
pub(super) fn after(now: Millis, delay: Duration) -> Millis {
    if delay.is_zero() {
        return now;
    }
    // Now is rounded down, so that the sum could be almost a millisecond too early.
    now.saturating_add(i64::try_from(delay.as_millis()).unwrap_or(i64::MAX)).saturating_add(1)
}
