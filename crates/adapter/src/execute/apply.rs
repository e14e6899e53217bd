//! Brings one object to its manifest: reads it, plans, and writes with the precondition that it has not changed since. After
//! a conflict it reads and plans again, so that an older generation never overwrites a newer one.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::config::Propagation;
use crate::decide::{JOB_ATTEMPTS, Plan, plan};
use crate::trace::Operation;
use crate::transport::{ObjectKey, Transport, TransportError};

/// How often an object is read and planned again after a conflict.
const MAX_CONFLICTS: u32 = 5;
/// How long a deleted object is waited for before it is created again.
const DELETION_TIMEOUT: Duration = Duration::from_secs(30);
const DELETION_POLL: Duration = Duration::from_millis(100);

/// What was done.
#[derive(Clone, Debug)]
pub(super) struct Applied {
    pub(super) operation: Operation,
    pub(super) reason: String,
}

/// Brings an object to its manifest.
pub(super) async fn apply(
    transport: &dyn Transport,
    key: &ObjectKey,
    manifest: &Value,
    recreate_on_change: bool,
    now: Timestamp,
) -> Result<Applied, String> {
    let mut last = None;
    for _ in 0..MAX_CONFLICTS {
        let live = transport.get(key).await.map_err(|error| error.to_string())?;
        let planned = plan(manifest, live.as_ref(), recreate_on_change, now)
            .map_err(|error| format!("{key}: {error}"))?;
        match execute(transport, key, manifest, live.as_ref(), planned).await {
            Err(error @ TransportError::Conflict { .. }) => last = Some(error),
            outcome => return outcome.map_err(|error| error.to_string()),
        }
    }
    let cause = last.map(|error| error.to_string()).unwrap_or_default();
    Err(format!("{cause}, {MAX_CONFLICTS} times in a row; find out who else writes it"))
}

async fn execute(
    transport: &dyn Transport,
    key: &ObjectKey,
    manifest: &Value,
    live: Option<&Value>,
    plan: Plan,
) -> Result<Applied, TransportError> {
    let done = |operation, reason: String| Ok(Applied { operation, reason });
    match (plan, live) {
        (Plan::Create, _) | (Plan::Update { .. } | Plan::Recreate { .. }, None) => {
            transport.create(manifest).await?;
            done(Operation::Create, "the object does not exist".into())
        }
        (Plan::Update { reason }, Some(live)) => {
            let updated = transport.update(manifest, live).await?;
            match content(&updated) == content(live) {
                // The API server normalises values, so that a manifest can look different and be the same.
                true => done(Operation::Skip, "the object is as its manifest says".into()),
                false => done(Operation::Update, reason),
            }
        }
        (Plan::Recreate { reason, attempts }, Some(live)) => {
            transport.delete(live, Propagation::Background).await?;
            if !wait_until_gone(transport, key, live).await? {
                return done(
                    Operation::Skip,
                    format!("{reason}; the deletion of the old object is not finished"),
                );
            }
            transport.create(&with_attempts(manifest, attempts)).await?;
            done(Operation::Recreate, reason)
        }
        (Plan::Keep { reason } | Plan::Refuse { reason }, _) => done(Operation::Skip, reason),
    }
}

/// An object without what changes when the adapter takes over its fields.
fn content(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        metadata.remove("resourceVersion");
    }
    object
}

fn uid(object: &Value) -> Option<&str> {
    object.pointer("/metadata/uid")?.as_str()
}

/// Waits until the very object is gone; one of the same name with another UID is another object.
async fn wait_until_gone(
    transport: &dyn Transport,
    key: &ObjectKey,
    live: &Value,
) -> Result<bool, TransportError> {
    let deadline = Instant::now() + DELETION_TIMEOUT;
    loop {
        match transport.get(key).await? {
            None => return Ok(true),
            Some(found) if uid(&found) != uid(live) => return Ok(true),
            Some(_) if Instant::now() >= deadline => return Ok(false),
            Some(_) => tokio::time::sleep(DELETION_POLL).await,
        }
    }
}

/// The manifest with the number of failures, from which the next backoff is computed.
fn with_attempts(manifest: &Value, attempts: u32) -> Value {
    let mut manifest = manifest.clone();
    if attempts > 0
        && let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut)
    {
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(JOB_ATTEMPTS.to_owned(), json!(attempts.to_string()));
        }
    }
    manifest
}
