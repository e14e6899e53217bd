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

use super::connection::{Access, Connection, Content};
use super::contestant::make_namespace;
use super::load::{Ran, collection, configmap, payload};
use super::statistics::Latencies;

/// Below the streams that either server allows on a connection.
const WATCHERS_PER_CONNECTION: usize = 50;
/// How long the last events may take to arrive.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where a write says when it was sent.
const STAMP: &[u8] = br#""sent":""#;

/// How fast writers write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// So many writes a second, by one writer, slow enough that nothing queues: shows latency.
    Writes(u32),
    /// As fast as this many writers are answered: shows throughput.
    FlatOut { writers: usize },
}

pub(crate) struct Fanout {
    pub(crate) namespace: &'static str,
    pub(crate) watchers: usize,
    pub(crate) pace: Pace,
    pub(crate) lasts: Duration,
}

impl Fanout {
    pub(crate) async fn run(&self, access: &Access) -> anyhow::Result<Ran> {
        let mut connection = access.connect().await?;
        make_namespace(&mut connection, self.namespace).await?;
        let writers = match self.pace {
            Pace::Writes(_) => 1,
            Pace::FlatOut { writers } => writers,
        };
        for writer in 0..writers {
            let body = Content::Json(configmap(&beacon(writer), ""));
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
            writing.spawn(writer.write_for(self.lasts));
        }
        let mut written = 0;
        while let Some(count) = writing.join_next().await {
            written += count.context("a writer failed")??;
        }
        let expected = written * self.watchers;
        let took = until_all(&seen, expected, begun).await?;
        let mut latencies = Latencies::default();
        watchers.tasks.abort_all();
        while watchers.tasks.join_next().await.is_some() {}
        while let Some(of_one) = watchers.latencies.recv().await {
            latencies.append(of_one);
        }
        Ok(Ran { latencies, took })
    }

    fn path(&self, writer: usize) -> String {
        format!("{}/{}", collection(self.namespace), beacon(writer))
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
            let stream = shared.begin(Method::GET, &path, Content::None).await?;
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

fn beacon(writer: usize) -> String {
    format!("beacon-{writer}")
}

/// Waits until all events have arrived, and says how long that took from the beginning.
async fn until_all(seen: &AtomicUsize, expected: usize, begun: Instant) -> anyhow::Result<Duration> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let arrived = seen.load(Ordering::Acquire);
        if arrived >= expected {
            return Ok(begun.elapsed());
        }
        anyhow::ensure!(
            Instant::now() < deadline,
            "{arrived} of {expected} events arrived within {PATIENCE:?} after the last write"
        );
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

struct Watchers {
    tasks: JoinSet<()>,
    /// What each watcher measured, sent when it ends.
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
        // Nobody asks any more when the measurement was given up.
        let _ = self.report.send(std::mem::take(&mut self.latencies));
    }
}

/// When the write of this event was sent. The event is searched, not parsed: the watchers share the machine.
fn sent_at(event: &[u8]) -> Option<Duration> {
    // From the end, where the data of an object stands.
    let at = event.windows(STAMP.len()).rposition(|window| window == STAMP)? + STAMP.len();
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
    /// Writes for a while, and says how often.
    async fn write_for(mut self, lasts: Duration) -> anyhow::Result<usize> {
        let mut ticks = match self.pace {
            Pace::Writes(per_second) => {
                let mut ticks = tokio::time::interval(Duration::from_secs(1) / per_second.max(1));
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                Some(ticks)
            }
            Pace::FlatOut { .. } => None,
        };
        let begun = Instant::now();
        let mut written = 0;
        while begun.elapsed() < lasts {
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
    fn the_time_of_sending_is_found_in_an_event() {
        for (event, expected) in [
            (r#"{"object":{"data":{"payload":"x","sent":"1500"}}}"#, Some(Duration::from_nanos(1500))),
            (r#"{"object":{"data":{"payload":"sent"}}}"#, None),
            ("", None),
        ] {
            assert_eq!(sent_at(event.as_bytes()), expected, "{event}");
        }
    }
}
