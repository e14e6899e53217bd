//! Reads clusters one request at a time: gets, pages of lists, and searches that match many or few clusters.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use http::{Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::server::{Connection, Server};
use crate::statistics::Latencies;

const PAGE_SIZE: usize = 100;
/// A read that takes long is repeated less often, but so often at least.
const MIN_READS: usize = 10;
/// How long one kind of read is repeated.
pub(super) const MAX_DURATION: Duration = Duration::from_secs(5);

/// A kind of read.
pub(super) struct Read {
    pub(super) label: &'static str,
    path: String,
}

impl Read {
    fn list(label: &'static str, parameters: &str) -> Self {
        Self { label, path: format!("/clusters?size={PAGE_SIZE}{parameters}") }
    }

    fn search(label: &'static str, search: &str) -> Self {
        Self::list(label, &format!("&search={}", utf8_percent_encode(search, NON_ALPHANUMERIC)))
    }
}

/// The reads to measure.
pub(super) fn reads(ids: &[String]) -> anyhow::Result<Vec<Read>> {
    let one = ids.get(ids.len() / 2).context("no cluster was created")?;
    let last_page = ids.len().div_ceil(PAGE_SIZE);
    let middle_page = last_page.div_ceil(2);
    Ok(vec![
        Read { label: "get", path: format!("/clusters/{one}") },
        Read::list("list, first page", ""),
        Read::list("list, middle page", &format!("&page={middle_page}")),
        Read::list("list, last page", &format!("&page={last_page}")),
        Read::list("list by name, last page", &format!("&order=name&page={last_page}")),
        Read::search("search by name", "name = 'cluster-77'"),
        Read::search("search by prefix of the name, 1 %", "name like 'cluster-12%'"),
        Read::search("search by label, 1 %", "labels.region = 'r7'"),
        Read::search("search by label, 50 %", "labels.env = 'prod'"),
        Read::search("search by condition, 99.5 %", "status.conditions.Ready = 'True'"),
        Read::search("search by condition, 0.5 %", "status.conditions.Ready = 'False'"),
        Read::search("search in spec, 1 %", "spec.region = 'r7'"),
        Read::search("search in spec, 50 %", "spec.provider = 'gcp'"),
        Read::search("search in spec by number, 1 %", "spec.replicas = 7"),
    ])
}

/// Repeats a read, one request at a time, at most `count` times.
async fn measure(connection: &mut Connection, read: &Read, count: usize) -> anyhow::Result<Latencies> {
    // The first one is not measured: databases prepare statements, and fill their caches.
    check_matches(&get(connection, read).await?, read)?;
    let mut latencies = Latencies::default();
    let begun = Instant::now();
    while latencies.count() < count && (begun.elapsed() < MAX_DURATION || latencies.count() < MIN_READS) {
        let sent = Instant::now();
        get(connection, read).await?;
        latencies.add(sent.elapsed());
    }
    Ok(latencies)
}

/// Measures all reads on one connection.
pub(super) async fn measure_all(
    server: &Server,
    reads: &[Read],
    count: usize,
) -> anyhow::Result<Vec<Latencies>> {
    let mut connection = server.connect().await?;
    let mut measured = Vec::with_capacity(reads.len());
    for read in reads {
        measured.push(measure(&mut connection, read, count).await?);
    }
    Ok(measured)
}

async fn get(connection: &mut Connection, read: &Read) -> anyhow::Result<bytes::Bytes> {
    let (status, body) = connection.send(Method::GET, &read.path, "").await?;
    anyhow::ensure!(
        status == StatusCode::OK,
        "GET {}: HTTP {status}: {}",
        read.path,
        String::from_utf8_lossy(&body)
    );
    Ok(body)
}

/// Fails if a list is empty: nothing would be measured.
fn check_matches(body: &[u8], read: &Read) -> anyhow::Result<()> {
    let body: Value = serde_json::from_slice(body)?;
    let is_empty = body.get("items").and_then(Value::as_array).is_some_and(Vec::is_empty);
    anyhow::ensure!(!is_empty, "GET {} has no items; increase --clusters", read.path);
    Ok(())
}
