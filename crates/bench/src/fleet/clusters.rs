//! Creates the clusters over many connections, and measures how fast that is from the first cluster to the last.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::server::{Connection, Server};
use crate::statistics::Latencies;

/// The number of regions and of replica counts: a search for one of them matches 1 % of the clusters.
const HUNDRED: usize = 100;

/// The clusters that were created.
pub(crate) struct CreatedClusters {
    /// The IDs; cluster N is at position N.
    pub(crate) ids: Vec<String>,
    pub(crate) latencies: Latencies,
    /// The times of the responses since the first request, in order.
    responses: Vec<Duration>,
}

impl CreatedClusters {
    /// The rate of all creates.
    pub(crate) fn per_second(&self) -> f64 {
        rate(&self.responses, 0..self.responses.len())
    }

    /// The rate of the first tenth of the creates.
    pub(crate) fn first_tenth_per_second(&self) -> f64 {
        rate(&self.responses, 0..self.responses.len().div_ceil(10))
    }

    /// The rate of the last tenth of the creates.
    pub(crate) fn last_tenth_per_second(&self) -> f64 {
        let all = self.responses.len();
        rate(&self.responses, all - all.div_ceil(10)..all)
    }
}

/// The rate of the responses in a range, from the response before it to its last one.
fn rate(responses: &[Duration], range: Range<usize>) -> f64 {
    let time_at = |index: Option<usize>| index.and_then(|index| responses.get(index)).copied();
    let begun = time_at(range.start.checked_sub(1)).unwrap_or_default();
    let ended = time_at(range.end.checked_sub(1)).unwrap_or_default();
    range.len() as f64 / ended.saturating_sub(begun).as_secs_f64().max(f64::EPSILON)
}

/// Creates clusters with the numbers from 0, each connection the next one after its response.
pub(crate) async fn create_clusters(
    server: &Server,
    clusters: usize,
    connections: usize,
) -> anyhow::Result<CreatedClusters> {
    let next = AtomicUsize::new(0);
    let begun = Instant::now();
    let clients = (0..connections).map(|_| async {
        let mut connection = server.connect().await?;
        let mut created = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= clusters {
                return Ok::<_, anyhow::Error>(created);
            }
            let sent = Instant::now();
            let id = create_cluster(&mut connection, number).await?;
            created.push((number, id, sent.elapsed(), begun.elapsed()));
        }
    });
    let mut created: Vec<_> = futures::future::try_join_all(clients).await?.into_iter().flatten().collect();
    created.sort_unstable_by_key(|(number, ..)| *number);
    let mut latencies = Latencies::default();
    let (mut ids, mut responses) = (Vec::with_capacity(created.len()), Vec::with_capacity(created.len()));
    for (_, id, took, at) in created {
        ids.push(id);
        latencies.add(took);
        responses.push(at);
    }
    responses.sort_unstable();
    Ok(CreatedClusters { ids, latencies, responses })
}

/// Creates the cluster with a number, and returns its ID. Labels and spec follow from the number, so that searches match a
/// known share.
pub(crate) async fn create_cluster(connection: &mut Connection, number: usize) -> anyhow::Result<String> {
    let half =
        |number: usize, [even, odd]: [&'static str; 2]| if number.is_multiple_of(2) { even } else { odd };
    let body = json!({
        "kind": "Cluster",
        "name": format!("cluster-{number}"),
        "labels": {"region": format!("r{}", number % HUNDRED), "env": half(number, ["prod", "test"])},
        "spec": {
            "region": format!("r{}", number % HUNDRED),
            "provider": half(number / 2, ["gcp", "aws"]),
            "replicas": number % HUNDRED,
            "release": {"version": "4.19.3", "channel": "stable"},
        },
    });
    let (status, response) = connection.send(Method::POST, "/clusters", body.to_string()).await?;
    anyhow::ensure!(
        status == StatusCode::CREATED,
        "POST /clusters: HTTP {status}: {}",
        String::from_utf8_lossy(&response)
    );
    let cluster: Value = serde_json::from_slice(&response)?;
    Ok(cluster.get("id").and_then(Value::as_str).context("the created cluster has no id")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_start_shows_in_the_first_tenth() {
        let seconds = |seconds: &[u64]| seconds.iter().copied().map(Duration::from_secs).collect();
        let created = CreatedClusters {
            ids: Vec::new(),
            latencies: Latencies::default(),
            responses: seconds(&[10, 11, 12, 13, 14, 15, 16, 17, 18, 20]),
        };
        assert_eq!(created.per_second(), 0.5);
        assert_eq!(created.first_tenth_per_second(), 0.1);
        assert_eq!(created.last_tenth_per_second(), 0.5);
    }
}
