//! Sends status reports: as many as the server accepts, one of each adapter for every cluster, or at a rate in the background.
//!
//! Every connection has its own clusters. Otherwise a report could overtake an earlier one, and would rightly be discarded.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use jiff::Timestamp;
use serde_json::json;

use super::server::{Connection, Server};
use crate::statistics::Latencies;

/// The required adapters: two, so that conditions are combined.
pub(crate) const ADAPTERS: [&str; 2] = ["validation", "dns"];
/// One of so many clusters gets no reports, and is not Ready.
const CLUSTERS_PER_UNREADY: usize = 200;

/// Whether a cluster gets no reports.
pub(crate) fn is_kept_unready(number: usize) -> bool {
    number % CLUSTERS_PER_UNREADY == CLUSTERS_PER_UNREADY - 1
}

/// The reports that were sent.
#[derive(Default)]
pub(crate) struct SentReports {
    pub(crate) latencies: Latencies,
    pub(crate) took: Duration,
    /// How many responses were not 201, and the first of them.
    rejected: usize,
    first_rejection: Option<String>,
}

impl SentReports {
    pub(crate) fn per_second(&self) -> f64 {
        self.latencies.count() as f64 / self.took.as_secs_f64().max(f64::EPSILON)
    }

    /// Returns an error if a report was not accepted.
    pub(crate) fn check_all_accepted(&self) -> anyhow::Result<()> {
        let Some(first) = &self.first_rejection else { return Ok(()) };
        let sent = self.latencies.count() + self.rejected;
        anyhow::bail!("{} of {sent} reports were not accepted; the first: {first}", self.rejected)
    }

    async fn send(&mut self, connection: &mut Connection, id: &str, adapter: &str) -> anyhow::Result<()> {
        let sent = Instant::now();
        match send_report(connection, id, adapter).await? {
            None => self.latencies.add(sent.elapsed()),
            Some(rejection) => {
                self.rejected += 1;
                self.first_rejection.get_or_insert(rejection);
            }
        }
        Ok(())
    }

    fn append(&mut self, other: Self) {
        self.latencies.append(other.latencies);
        self.rejected += other.rejected;
        self.first_rejection = self.first_rejection.take().or(other.first_rejection);
    }

    fn sum(parts: Vec<Self>, took: Duration) -> Self {
        let mut all = Self { took, ..Self::default() };
        for part in parts {
            all.append(part);
        }
        all
    }
}

/// Reports that a cluster is available. Returns the response if the report was not accepted.
pub(crate) async fn send_report(
    connection: &mut Connection,
    id: &str,
    adapter: &str,
) -> anyhow::Result<Option<String>> {
    let body = json!({
        "adapter": adapter,
        "observed_generation": 1,
        "observed_time": Timestamp::now().to_string(),
        "conditions": [
            {"type": "Available", "status": "True", "reason": "AllGood", "message": "All components are up"},
            {"type": "Applied", "status": "True"},
            {"type": "Health", "status": "True"},
        ],
        "data": {"phase": "done"},
    });
    let path = format!("/clusters/{id}/statuses");
    let (status, response) = connection.send(Method::PUT, &path, body.to_string()).await?;
    let rejection = || format!("PUT {path}: HTTP {status}: {}", String::from_utf8_lossy(&response));
    Ok((status != StatusCode::CREATED).then(rejection))
}

/// Sends reports about random clusters for a duration; each connection sends the next one after the response.
pub(crate) async fn send_reports(
    server: &Server,
    ids: &[String],
    connections: usize,
    duration: Duration,
) -> anyhow::Result<SentReports> {
    let begun = Instant::now();
    let clients = (0..connections).map(|client| async move {
        let mut connection = server.connect().await?;
        let mut sent = SentReports::default();
        while begun.elapsed() < duration {
            let (id, adapter) = random_report(ids, client, connections)?;
            sent.send(&mut connection, id, adapter).await?;
        }
        Ok::<_, anyhow::Error>(sent)
    });
    let sent = futures::future::try_join_all(clients).await?;
    Ok(SentReports::sum(sent, begun.elapsed()))
}

/// Sends a report of each adapter for every cluster whose number satisfies a predicate.
pub(crate) async fn report_all(
    server: &Server,
    ids: &[String],
    adapters: &[&str],
    connections: usize,
    is_reported: impl Fn(usize) -> bool,
) -> anyhow::Result<SentReports> {
    let next = AtomicUsize::new(0);
    let begun = Instant::now();
    let clients = (0..connections).map(|_| async {
        let mut connection = server.connect().await?;
        let mut sent = SentReports::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(id) = ids.get(number) else { return Ok::<_, anyhow::Error>(sent) };
            if !is_reported(number) {
                continue;
            }
            for adapter in adapters {
                sent.send(&mut connection, id, adapter).await?;
            }
        }
    });
    let sent = futures::future::try_join_all(clients).await?;
    Ok(SentReports::sum(sent, begun.elapsed()))
}

/// Sends reports about random clusters at a rate until it is dropped, and counts them. It returns only with an error.
pub(crate) async fn send_at_rate(
    server: &Server,
    ids: &[String],
    connections: usize,
    per_second: u32,
    accepted: &AtomicUsize,
) -> anyhow::Result<()> {
    let clients = (0..connections).map(|client| async move {
        let mut connection = server.connect().await?;
        let period = Duration::from_secs(1) * u32::try_from(connections)? / per_second.max(1);
        // A late report does not make the next ones late, so that the rate is kept.
        let first = Instant::now() + period * u32::try_from(client)? / u32::try_from(connections)?;
        let mut ticks = tokio::time::interval_at(first.into(), period);
        loop {
            ticks.tick().await;
            let (id, adapter) = random_report(ids, client, connections)?;
            if let Some(rejection) = send_report(&mut connection, id, adapter).await? {
                anyhow::bail!("a report in the background was not accepted: {rejection}");
            }
            accepted.fetch_add(1, Ordering::Relaxed);
        }
    });
    futures::future::try_join_all(clients).await.map(|_: Vec<()>| ())
}

/// A random cluster among those of a client, and a random adapter.
fn random_report(ids: &[String], client: usize, clients: usize) -> anyhow::Result<(&str, &'static str)> {
    let own = ids.len() / clients.max(1);
    anyhow::ensure!(own > 0, "{clients} connections need as many clusters; increase --clusters");
    let adapter = if rand::random() { ADAPTERS[0] } else { ADAPTERS[1] };
    loop {
        let number = rand::random_range(0..own) * clients + client;
        match ids.get(number) {
            Some(id) if !is_kept_unready(number) => return Ok((id, adapter)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_report_about_their_own_clusters() {
        let ids: Vec<String> = (0..200).map(|number| number.to_string()).collect();
        for client in 0..64 {
            for _ in 0..50 {
                let (id, _) = random_report(&ids, client, 64).unwrap();
                let number: usize = id.parse().unwrap();
                assert_eq!(number % 64, client);
                assert!(!is_kept_unready(number));
            }
        }
    }

    #[test]
    fn report_that_is_not_accepted_is_an_error_with_its_response() {
        let rejected = SentReports {
            rejected: 1,
            first_rejection: Some("HTTP 204".to_owned()),
            ..SentReports::default()
        };
        let sum = SentReports::sum(vec![SentReports::default(), rejected], Duration::from_secs(1));
        let error = sum.check_all_accepted().unwrap_err().to_string();
        assert_eq!(error, "1 of 1 reports were not accepted; the first: HTTP 204");
    }
}
