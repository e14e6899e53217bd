//! The changes of the simulated clusters: when each was made, and when a watch on the hub showed it. A cluster has at most one
//! change that is not shown yet, so that none can be skipped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bellwether_observability::vocabulary::{Component, Vocabulary};
use http::Method;
use parking_lot::Mutex;
use serde::Deserialize;

use super::spokes::{HUB_ADDONS, spoke_number};
use crate::connection::{Access, Content, for_each_line};
use crate::statistics::Latencies;

/// How soon the watch is started again after it ended.
const WATCH_RETRY: Duration = Duration::from_millis(50);
/// How often a condition is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
const MESSAGE_PREFIX: &str = "change ";

/// The message of a change, by its number.
pub(super) fn message(number: u64) -> String {
    format!("{MESSAGE_PREFIX}{number}")
}

/// The changes of all clusters. Clones share the same state.
#[derive(Clone)]
pub(super) struct Changes(Arc<Mutex<State>>);

struct State {
    spokes: Vec<SpokeState>,
    pending: usize,
    latencies: Latencies,
    /// When the last change was shown.
    last_shown: Option<Instant>,
}

#[derive(Clone, Default)]
struct SpokeState {
    /// The number of the last change; they are numbered from 1.
    last: u64,
    /// When the last change was made, until the hub shows it.
    pending_since: Option<Instant>,
}

impl Changes {
    pub(super) fn new(spokes: usize) -> Self {
        let spokes = vec![SpokeState::default(); spokes];
        let latencies = Latencies::default();
        Self(Arc::new(Mutex::new(State { spokes, pending: 0, latencies, last_shown: None })))
    }

    /// Begins a change of a cluster and returns its number; nothing if its last change is still pending.
    pub(super) fn begin(&self, spoke: usize) -> Option<u64> {
        let mut state = self.0.lock();
        let changed = state.spokes.get_mut(spoke).filter(|spoke| spoke.pending_since.is_none())?;
        changed.last += 1;
        changed.pending_since = Some(Instant::now());
        let number = changed.last;
        state.pending += 1;
        Some(number)
    }

    /// The hub shows a change of a cluster.
    fn show(&self, spoke: usize, number: u64) {
        let state = &mut *self.0.lock();
        let Some(shown) = state.spokes.get_mut(spoke) else { return };
        if shown.last != number {
            return;
        }
        if let Some(since) = shown.pending_since.take() {
            state.latencies.add(since.elapsed());
            state.last_shown = Some(Instant::now());
            state.pending -= 1;
        }
    }

    /// How many changes the hub has not shown yet.
    pub(super) fn pending(&self) -> usize {
        self.0.lock().pending
    }

    /// Waits until the hub has shown all changes, for at most `timeout`. Returns when it showed the last one.
    pub(super) async fn wait_until_shown(&self, timeout: Duration) -> anyhow::Result<Option<Instant>> {
        let deadline = Instant::now() + timeout;
        while self.pending() > 0 {
            anyhow::ensure!(
                Instant::now() < deadline,
                "{} changes were not on the hub after {timeout:?}",
                self.pending()
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(self.0.lock().last_shown)
    }

    /// The latencies since the last call.
    pub(super) fn take_latencies(&self) -> Latencies {
        std::mem::take(&mut self.0.lock().latencies)
    }

    /// Watches the hub until the task is dropped. The watch is started again whenever it ends; it begins with all objects.
    pub(super) async fn follow(self, access: Access) {
        loop {
            let watch = async {
                let mut connection = access.connect().await?;
                let path = format!("{HUB_ADDONS}?watch=true");
                let stream = connection.stream(Method::GET, &path, Content::None).await?;
                anyhow::Ok((stream, connection))
            };
            if let Ok((stream, connection)) = watch.await {
                for_each_line(stream, connection, |line| {
                    if let Some((spoke, number)) = parse_event(line) {
                        self.show(spoke, number);
                    }
                })
                .await;
            }
            tokio::time::sleep(WATCH_RETRY).await;
        }
    }
}

/// The part of a watch event that is used.
#[derive(Deserialize)]
struct Event {
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Metadata {
    namespace: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    message: String,
}

/// The cluster of a watch event, and the number of the change that it shows.
fn parse_event(line: &[u8]) -> Option<(usize, u64)> {
    let object = serde_json::from_slice::<Event>(line).ok()?.object;
    let component = Component::Platform.condition_type(Vocabulary::Seed);
    let condition = object.status.conditions.iter().find(|one| one.type_ == component.as_str())?;
    let number = condition.message.strip_prefix(MESSAGE_PREFIX)?.parse().ok()?;
    Some((spoke_number(&object.metadata.namespace)?, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_change_of_a_cluster_is_waited_for() {
        let changes = Changes::new(2);
        assert_eq!(changes.begin(0), Some(1));
        assert_eq!(changes.begin(0), None, "one at a time");
        changes.show(1, 1);
        assert_eq!(changes.pending(), 1, "another cluster");
        changes.show(0, 1);
        changes.show(0, 1);
        assert_eq!((changes.pending(), changes.take_latencies().count()), (0, 1));
        assert_eq!(changes.begin(0), Some(2));
        changes.show(0, 1);
        assert_eq!(changes.pending(), 1, "a change before it");
    }

    #[test]
    fn event_shows_the_change_in_the_condition_of_the_collector() {
        let event = |type_: &str| {
            format!(
                r#"{{"type":"MODIFIED","object":{{"metadata":{{"namespace":"spoke-00042"}},"status":{{"conditions":[
                {{"type":"Available","message":"MetricsCollector: ForwardSuccessful: change 6"}},
                {{"type":"{type_}","message":"change 7"}}]}}}}}}"#
            )
        };
        assert_eq!(parse_event(event("MetricsCollectorStatus").as_bytes()), Some((42, 7)));
        assert_eq!(parse_event(event("UwlMetricsCollectorStatus").as_bytes()), None);
    }
}
