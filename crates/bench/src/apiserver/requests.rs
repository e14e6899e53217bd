//! Loads of single requests: each client has its own connection, and sends the next request after the response to the last one.
//! Of a response, only the status is checked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use http::Method;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::connection::{Access, Connection, Content};
use crate::statistics::Latencies;

/// The namespace of all these requests.
pub(crate) const NAMESPACE: &str = "bench";
const PAYLOAD_BYTES: usize = 1024;

/// The requests that the clients send.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    /// Create objects whose names begin with this prefix.
    Create(&'static str),
    /// Merge-patch an object; each client has its own.
    Patch,
    /// Get different objects of this many that `fill` has created.
    Get(usize),
}

/// When the clients stop.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StopAfter {
    Elapsed(Duration),
    /// This many requests of all clients together.
    Count(usize),
}

/// Concurrent clients that send requests.
pub(crate) struct Load {
    pub(crate) operation: Operation,
    pub(crate) clients: usize,
    pub(crate) stop_after: StopAfter,
}

/// The result of a load, or of a fan-out of events.
pub(crate) struct LoadResult {
    pub(crate) latencies: Latencies,
    pub(crate) took: Duration,
}

impl LoadResult {
    pub(crate) fn per_second(&self) -> f64 {
        self.latencies.count() as f64 / self.took.as_secs_f64()
    }
}

impl Load {
    pub(crate) async fn run(&self, access: &Access) -> anyhow::Result<LoadResult> {
        let start = Arc::new(Barrier::new(self.clients + 1));
        let mut clients = JoinSet::new();
        for number in 0..self.clients {
            let mut client =
                Client { connection: access.connect().await?, operation: self.operation, number };
            client.prepare().await?;
            let stop_after = match self.stop_after {
                StopAfter::Elapsed(duration) => StopAfter::Elapsed(duration),
                StopAfter::Count(all) => {
                    StopAfter::Count(all / self.clients + usize::from(number < all % self.clients))
                }
            };
            let start = start.clone();
            clients.spawn(async move {
                start.wait().await;
                client.run(stop_after).await
            });
        }
        start.wait().await;
        let begun = Instant::now();
        let mut latencies = Latencies::default();
        while let Some(client) = clients.join_next().await {
            latencies.append(client.context("a client of the load generator panicked")??);
        }
        Ok(LoadResult { latencies, took: begun.elapsed() })
    }
}

struct Client {
    connection: Connection,
    operation: Operation,
    number: usize,
}

impl Client {
    async fn prepare(&mut self) -> anyhow::Result<()> {
        if let Operation::Patch = self.operation {
            let body = Content::Json(configmap(&format!("patched-{}", self.number), &payload(0)));
            self.connection.send(Method::POST, &collection(NAMESPACE), body).await?;
        }
        Ok(())
    }

    async fn run(mut self, stop_after: StopAfter) -> anyhow::Result<Latencies> {
        let mut latencies = Latencies::default();
        let begun = Instant::now();
        for sequence in 1.. {
            let continues = match stop_after {
                StopAfter::Elapsed(duration) => begun.elapsed() < duration,
                StopAfter::Count(count) => sequence <= count,
            };
            if !continues {
                break;
            }
            let sent = Instant::now();
            self.request(sequence).await?;
            latencies.add(sent.elapsed());
        }
        Ok(latencies)
    }

    async fn request(&mut self, sequence: usize) -> anyhow::Result<Bytes> {
        let number = self.number;
        match self.operation {
            Operation::Create(prefix) => {
                let body = configmap(&format!("{prefix}-{number}-{sequence}"), &payload(sequence));
                self.connection.send(Method::POST, &collection(NAMESPACE), Content::Json(body)).await
            }
            Operation::Patch => {
                let path = format!("{}/patched-{number}", collection(NAMESPACE));
                let patch = format!(r#"{{"data":{{"payload":"{}"}}}}"#, payload(sequence));
                self.connection.send(Method::PATCH, &path, Content::MergePatch(patch.into_bytes())).await
            }
            Operation::Get(objects) => {
                let (client, sequence) = creator_of((number + sequence * 7919) % objects);
                self.connection
                    .get(&format!("{}/{FILL_PREFIX}-{client}-{sequence}", collection(NAMESPACE)))
                    .await
            }
        }
    }
}

/// The name prefix of the objects that `fill` creates.
pub(crate) const FILL_PREFIX: &str = "fill";
const FILL_CLIENTS: usize = 16;

/// Creates this many objects in the namespace.
pub(crate) fn fill(objects: usize) -> Load {
    let operation = Operation::Create(FILL_PREFIX);
    Load { operation, clients: FILL_CLIENTS, stop_after: StopAfter::Count(objects) }
}

/// The client that `fill` created the object of this index with, and the number of its request.
fn creator_of(index: usize) -> (usize, usize) {
    (index % FILL_CLIENTS, index / FILL_CLIENTS + 1)
}

/// The path of the ConfigMaps of a namespace.
pub(crate) fn collection(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// 1 KB that differs for each sequence number.
pub(crate) fn payload(sequence: usize) -> String {
    format!("{sequence:x<PAYLOAD_BYTES$}")
}

/// A ConfigMap as JSON.
pub(crate) fn configmap(name: &str, payload: &str) -> Vec<u8> {
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"payload":"{payload}"}}}}"#
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_index_belongs_to_a_created_object() {
        for objects in [1, 15, 16, 500, 10_000] {
            let created: BTreeSet<_> = (0..FILL_CLIENTS)
                .flat_map(|client| {
                    let share = objects / FILL_CLIENTS + usize::from(client < objects % FILL_CLIENTS);
                    (1..=share).map(move |sequence| (client, sequence))
                })
                .collect();
            assert_eq!((0..objects).map(creator_of).collect::<BTreeSet<_>>(), created, "{objects}");
        }
    }

    #[test]
    fn payload_has_one_kilobyte() {
        assert_eq!((payload(1).len(), payload(99_999).len()), (PAYLOAD_BYTES, PAYLOAD_BYTES));
    }
}
