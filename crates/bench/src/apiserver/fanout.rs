//! Watch fan-out: many watchers of one namespace, few writers, and how long it takes from sending a write until each
//! watcher has its event. Watchers share connections, because that is what clients do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::BytesMut;
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::requests::{LoadResult, collection, configmap, payload};
use crate::connection::{Access, Connection, Content};
use crate::server::create_namespace;
use crate::statistics::Latencies;

/// Below the limit of both servers for streams of a connection.
const WATCHERS_PER_CONNECTION: usize = 50;
/// How long the last events may take to arrive.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(60);
/// The field of an object that has the time of its write.
const SENT_FIELD: &[u8] = br#""sent":""#;

/// How fast the writers write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// One writer with this many writes per second, slow enough that nothing queues: measures latency.
    Writes(u32),
    /// This many writers, each writing again after the response: measures throughput.
    Unlimited { writers: usize },
}

/// Writers and watchers of one namespace.
pub(crate) struct Fanout {
    pub(crate) namespace: &'static str,
    pub(crate) watchers: usize,
    pub(crate) pace: Pace,
    pub(crate) duration: Duration,
}

impl Fanout {
    pub(crate) async fn run(&self, access: &Access) -> anyhow::Result<LoadResult> {
        let mut connection = access.connect().await?;
        create_namespace(&mut connection, self.namespace).await?;
        let writers = match self.pace {
            Pace::Writes(_) => 1,
            Pace::Unlimited { writers } => writers,
        };
        for writer in 0..writers {
            let body = Content::Json(configmap(&object_of(writer), ""));
            connection.send(Method::POST, &collection(self.namespace), body).await?;
        }

        let epoch = Instant::now();
        let seen = Arc::new(AtomicUsize::new(0));
        let mut watchers = self.watch(access, &mut connection, epoch, &seen).await?;
        let begun = Instant::now();
        let mut writing = JoinSet::new();
        for writer in 0..writers {
            let connection = access.connect().await?;
            let writer = Writer { connection, path: self.path(writer), pace: self.pace, epoch };
            writing.spawn(writer.write_for(self.duration));
        }
        let mut written = 0;
        while let Some(count) = writing.join_next().await {
            written += count.context("a writer panicked")??;
        }
        let expected = written * self.watchers;
        let took = wait_for_events(&seen, expected, begun).await?;
        let mut latencies = Latencies::default();
        watchers.tasks.abort_all();
        while watchers.tasks.join_next().await.is_some() {}
        while let Some(samples) = watchers.latencies.recv().await {
            latencies.append(samples);
        }
        Ok(LoadResult { latencies, took })
    }

    fn path(&self, writer: usize) -> String {
        format!("{}/{}", collection(self.namespace), object_of(writer))
    }

    async fn watch(
        &self,
        access: &Access,
        connection: &mut Connection,
        epoch: Instant,
        seen: &Arc<AtomicUsize>,
    ) -> anyhow::Result<Watchers> {
        let list: Value = serde_json::from_slice(&connection.get(&collection(self.namespace)).await?)?;
        let revision = list.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
        let path = format!("{}?watch=true&resourceVersion={revision}", collection(self.namespace));
        let (sender, latencies) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        let mut shared = access.connect().await?;
        for number in 0..self.watchers {
            if number > 0 && number % WATCHERS_PER_CONNECTION == 0 {
                shared = access.connect().await?;
            }
            let stream = shared.stream(Method::GET, &path, Content::None).await?;
            let watcher = Watcher {
                stream,
                epoch,
                seen: seen.clone(),
                latencies: Latencies::default(),
                report: sender.clone(),
            };
            tasks.spawn(watcher.read());
        }
        Ok(Watchers { tasks, latencies })
    }
}

/// The name of the ConfigMap that a writer patches.
fn object_of(writer: usize) -> String {
    format!("written-{writer}")
}

/// Waits until all events have arrived, and returns the time since `begun`.
async fn wait_for_events(seen: &AtomicUsize, expected: usize, begun: Instant) -> anyhow::Result<Duration> {
    let deadline = Instant::now() + DELIVERY_TIMEOUT;
    loop {
        let arrived = seen.load(Ordering::Acquire);
        if arrived >= expected {
            return Ok(begun.elapsed());
        }
        anyhow::ensure!(
            Instant::now() < deadline,
            "only {arrived} of {expected} events arrived within {DELIVERY_TIMEOUT:?} after the last write"
        );
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

struct Watchers {
    tasks: JoinSet<()>,
    /// The latencies of each watcher, which it sends when it ends.
    latencies: mpsc::UnboundedReceiver<Latencies>,
}

struct Watcher {
    stream: Incoming,
    epoch: Instant,
    seen: Arc<AtomicUsize>,
    latencies: Latencies,
    report: mpsc::UnboundedSender<Latencies>,
}

impl Watcher {
    async fn read(mut self) {
        let mut line = BytesMut::new();
        while let Some(Ok(frame)) = self.stream.frame().await {
            let Ok(bytes) = frame.into_data() else { continue };
            let now = self.epoch.elapsed();
            for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
                line.extend_from_slice(piece);
                if !piece.ends_with(b"\n") {
                    continue;
                }
                if let Some(sent) = sent_at(&line) {
                    self.latencies.add(now.saturating_sub(sent));
                    self.seen.fetch_add(1, Ordering::AcqRel);
                }
                line.clear();
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // The receiver is closed if the measurement was stopped.
        let _ = self.report.send(std::mem::take(&mut self.latencies));
    }
}

/// The time at which the write of this event was sent. The event is searched instead of parsed, to save CPU time of the machine
/// that also runs the server.
fn sent_at(event: &[u8]) -> Option<Duration> {
    // From the end, where the data of an object is.
    let at = event.windows(SENT_FIELD.len()).rposition(|window| window == SENT_FIELD)? + SENT_FIELD.len();
    let digits = event.get(at..)?.iter().take_while(|byte| byte.is_ascii_digit());
    Some(Duration::from_nanos(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))))
}

struct Writer {
    connection: Connection,
    path: String,
    pace: Pace,
    epoch: Instant,
}

impl Writer {
    /// Writes for a duration, and returns the number of writes.
    async fn write_for(mut self, duration: Duration) -> anyhow::Result<usize> {
        let mut ticks = match self.pace {
            Pace::Writes(per_second) => {
                let mut ticks = tokio::time::interval(Duration::from_secs(1) / per_second.max(1));
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                Some(ticks)
            }
            Pace::Unlimited { .. } => None,
        };
        let begun = Instant::now();
        let mut written = 0;
        while begun.elapsed() < duration {
            if let Some(ticks) = &mut ticks {
                ticks.tick().await;
            }
            written += 1;
            let (sent, payload) = (self.epoch.elapsed().as_nanos(), payload(written));
            let patch = format!(r#"{{"data":{{"payload":"{payload}","sent":"{sent}"}}}}"#);
            let patch = Content::MergePatch(patch.into_bytes());
            self.connection.send(Method::PATCH, &self.path, patch).await?;
        }
        Ok(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_the_write_is_found_in_an_event() {
        for (event, expected) in [
            (r#"{"object":{"data":{"payload":"x","sent":"1500"}}}"#, Some(Duration::from_nanos(1500))),
            (r#"{"object":{"data":{"payload":"sent"}}}"#, None),
            ("", None),
        ] {
            assert_eq!(sent_at(event.as_bytes()), expected, "{event}");
        }
    }
}
