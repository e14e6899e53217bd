//! Loads of single requests: each client has a connection of its own and sends the next request when the last one
//! is answered. What came back is not looked at beyond its status.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use http::Method;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::connection::{Access, Connection, Content};
use super::statistics::Latencies;

/// The namespace of these loads.
pub(crate) const NAMESPACE: &str = "bench";
const PAYLOAD: usize = 1024;

/// What the clients do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// Create new objects; the names begin with this.
    Create(&'static str),
    /// Merge-patch one object each.
    Patch,
    /// Get one after another of this many filled objects.
    Get(usize),
}

/// When the clients stop.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    Elapsed(Duration),
    /// This many requests by all clients together.
    Count(usize),
}

pub(crate) struct Load {
    pub(crate) work: Work,
    pub(crate) clients: usize,
    pub(crate) until: Until,
}

/// How a load, or a fan-out of events, went.
pub(crate) struct Ran {
    pub(crate) latencies: Latencies,
    pub(crate) took: Duration,
}

impl Ran {
    pub(crate) fn per_second(&self) -> f64 {
        self.latencies.count() as f64 / self.took.as_secs_f64()
    }
}

impl Load {
    pub(crate) async fn run(&self, access: &Access) -> anyhow::Result<Ran> {
        let start = Arc::new(Barrier::new(self.clients + 1));
        let mut clients = JoinSet::new();
        for number in 0..self.clients {
            let mut client = Client { connection: access.connect().await?, work: self.work, number };
            client.prepare().await?;
            let until = match self.until {
                Until::Elapsed(duration) => Until::Elapsed(duration),
                Until::Count(all) => {
                    Until::Count(all / self.clients + usize::from(number < all % self.clients))
                }
            };
            let start = start.clone();
            clients.spawn(async move {
                start.wait().await;
                client.work_until(until).await
            });
        }
        start.wait().await;
        let begun = Instant::now();
        let mut latencies = Latencies::default();
        while let Some(client) = clients.join_next().await {
            latencies.append(client.context("a client failed")??);
        }
        Ok(Ran { latencies, took: begun.elapsed() })
    }
}

struct Client {
    connection: Connection,
    work: Work,
    number: usize,
}

impl Client {
    async fn prepare(&mut self) -> anyhow::Result<()> {
        if let Work::Patch = self.work {
            let body = Content::Json(configmap(&format!("patched-{}", self.number), &payload(0)));
            self.connection.send(Method::POST, &collection(NAMESPACE), body).await?;
        }
        Ok(())
    }

    async fn work_until(mut self, until: Until) -> anyhow::Result<Latencies> {
        let mut latencies = Latencies::default();
        let begun = Instant::now();
        for round in 1.. {
            let more = match until {
                Until::Elapsed(duration) => begun.elapsed() < duration,
                Until::Count(count) => round <= count,
            };
            if !more {
                break;
            }
            let sent = Instant::now();
            self.request(round).await?;
            latencies.add(sent.elapsed());
        }
        Ok(latencies)
    }

    async fn request(&mut self, round: usize) -> anyhow::Result<Bytes> {
        let number = self.number;
        match self.work {
            Work::Create(prefix) => {
                let body = configmap(&format!("{prefix}-{number}-{round}"), &payload(round));
                self.connection.send(Method::POST, &collection(NAMESPACE), Content::Json(body)).await
            }
            Work::Patch => {
                let path = format!("{}/patched-{number}", collection(NAMESPACE));
                let patch = format!(r#"{{"data":{{"payload":"{}"}}}}"#, payload(round));
                self.connection.send(Method::PATCH, &path, Content::MergePatch(patch.into_bytes())).await
            }
            Work::Get(objects) => {
                let (owner, index) = filled((number + round * 7919) % objects);
                self.connection.get(&format!("{}/{FILL}-{owner}-{index}", collection(NAMESPACE))).await
            }
        }
    }
}

/// The objects that a server is filled with.
pub(crate) const FILL: &str = "fill";
const FILLERS: usize = 16;

/// Fills the namespace with objects.
pub(crate) fn fill(objects: usize) -> Load {
    Load { work: Work::Create(FILL), clients: FILLERS, until: Until::Count(objects) }
}

/// Which client made the object of this index when the namespace was filled, and in which of its rounds.
fn filled(index: usize) -> (usize, usize) {
    (index % FILLERS, index / FILLERS + 1)
}

/// The path of the ConfigMaps of a namespace.
pub(crate) fn collection(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// 1 KB that differs from round to round.
pub(crate) fn payload(round: usize) -> String {
    format!("{round:x<PAYLOAD$}")
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
    fn the_index_of_a_filled_object_leads_to_an_object_that_was_made() {
        for objects in [1, 15, 16, 500, 10_000] {
            let made: BTreeSet<_> = (0..FILLERS)
                .flat_map(|client| {
                    let share = objects / FILLERS + usize::from(client < objects % FILLERS);
                    (1..=share).map(move |round| (client, round))
                })
                .collect();
            assert_eq!((0..objects).map(filled).collect::<BTreeSet<_>>(), made, "{objects}");
        }
    }

    #[test]
    fn a_payload_has_one_kilobyte() {
        assert_eq!((payload(1).len(), payload(99_999).len()), (PAYLOAD, PAYLOAD));
    }
}
