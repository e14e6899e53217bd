//! `bellwether-bench fleet`: how many reports the fleet API commits per second, and how fast it reads and searches many clusters,
//! on SQLite and on PostgreSQL. The server is a separate process.

mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use http::{Method, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use self::server::{Connection, Server};
use crate::bellwether::Bellwether;
use crate::measurement::{Figures, Output, Progress, build_note, print_report, run_until_signal};
use crate::report::{Report, Side, Unit};
use crate::statistics::Latencies;

/// The number of steps of a run on one database, for the progress bar.
const STEPS: u64 = 4;
/// How many clients send requests concurrently.
const CLIENTS: usize = 64;
/// How often each read is measured.
const READS: usize = 200;
const ADAPTERS: [&str; 2] = ["validation", "dns"];
const REGIONS: usize = 50;

/// Measure the fleet API: status reports, and reads and searches of many clusters
///
/// Starts `bellwether run fleet-api` on SQLite, and with --postgres also on PostgreSQL. Creates clusters, reports their
/// statuses over 64 connections, and then gets, lists and searches clusters. Every report is committed before its response.
///
///   bellwether-bench fleet
///   bellwether-bench fleet --postgres postgres://postgres@127.0.0.1/bench --clusters 100000 -o json
///
/// Exit codes: 0 measured; 1 error; 2 invalid usage.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct FleetArgs {
    /// The URL of an empty PostgreSQL database to measure, too. Its data is not removed afterwards. Default: only SQLite.
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,

    /// The number of clusters, from 100 to 10000000.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    clusters: u32,

    /// How long reports are sent, in seconds, from 1 to 3600.
    #[arg(long, value_name = "S", default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..=3600))]
    seconds: u16,

    /// 200 clusters for one second, to check that the benchmark works. Its figures are not comparable.
    #[arg(long, conflicts_with_all = ["clusters", "seconds"])]
    quick: bool,

    /// The output format.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// The size of the benchmark.
struct Plan {
    clusters: usize,
    report_duration: Duration,
    reads: usize,
}

impl Plan {
    fn of(arguments: &FleetArgs) -> Self {
        if arguments.quick {
            return Self { clusters: 200, report_duration: Duration::from_secs(1), reads: 5 };
        }
        let report_duration = Duration::from_secs(arguments.seconds.into());
        Self { clusters: arguments.clusters as usize, report_duration, reads: READS }
    }
}

pub(crate) fn run(bellwether: &Bellwether, arguments: &FleetArgs) -> anyhow::Result<()> {
    let plan = Plan::of(arguments);
    let mut databases = vec![("SQLite", None)];
    databases.extend(arguments.postgres.as_deref().map(|url| ("PostgreSQL", Some(url))));
    let figures = run_until_signal(async {
        let progress = Progress::new(STEPS * databases.len() as u64);
        let mut figures = Figures::default();
        for (name, url) in &databases {
            measure(bellwether, name, *url, &plan, &progress, &mut figures).await?;
        }
        progress.bar.finish_and_clear();
        Ok(figures.0)
    })?;
    let mut report = Report::default();
    report.add(Side::Bellwether, figures);
    let notes = [
        format!(
            "{} clusters with two required adapters; {CLIENTS} connections over loopback, plain HTTP/1.1; each report is \
             synced to disk before its response; {}.",
            plan.clusters,
            build_note()
        ),
        format!("Reads use one connection, {} of each kind; lists have pages of 100.", plan.reads),
        "The load generator and PostgreSQL run on the same machine.".to_owned(),
    ];
    print_report(&report, &notes, arguments.output);
    Ok(())
}

async fn measure(
    bellwether: &Bellwether,
    name: &str,
    postgres: Option<&str>,
    plan: &Plan,
    progress: &Progress,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    progress.part(name);
    progress.step("start");
    let server = Server::start(bellwether, postgres).await?;
    let mut figures = DatabaseFigures { name, figures };

    progress.step("create clusters");
    let CreatedClusters { ids, per_second } = create_clusters(&server, plan.clusters).await?;
    figures.add("clusters created", Unit::PerSecond, per_second);

    progress.step("report");
    let cpu_before = server.process.cpu_time()?;
    let (mut latencies, took) = send_reports(&server, &ids, plan.report_duration).await?;
    let rate = latencies.count() as f64 / took.as_secs_f64();
    figures.add("reports accepted", Unit::PerSecond, rate);
    figures.add_latencies("report", &mut latencies);
    let cpu = (server.process.cpu_time()? - cpu_before).as_secs_f64() / took.as_secs_f64();
    figures.add("reports: CPU of the server", Unit::Percent, cpu * 100.0);

    progress.step("read");
    let one = ids.get(ids.len() / 2).context("no cluster was created")?;
    let last_page = plan.clusters / 100;
    let reads = [
        ("get", format!("/clusters/{one}")),
        ("list, first page", "/clusters?size=100".to_owned()),
        ("list, last page by name", format!("/clusters?size=100&order=name&page={last_page}")),
        ("search by name", "/clusters?size=100&search=name%3D%27cluster-77%27".to_owned()),
        ("search by label, 2 %", "/clusters?size=100&search=labels.region%3D%27r7%27".to_owned()),
        ("search not ready", "/clusters?size=100&search=status.conditions.Ready%3D%27False%27".to_owned()),
        ("search in spec, 1 %", "/clusters?size=100&search=spec.replicas%3D7".to_owned()),
    ];
    let mut connection = server.connect().await?;
    for (name, path) in reads {
        let mut latencies = Latencies::default();
        for _ in 0..plan.reads {
            let begun = Instant::now();
            let (status, body) = connection.send(Method::GET, &path, "").await?;
            anyhow::ensure!(
                status == StatusCode::OK,
                "GET {path}: HTTP {status}: {}",
                String::from_utf8_lossy(&body)
            );
            latencies.add(begun.elapsed());
        }
        figures.add_latencies(name, &mut latencies);
    }
    figures.add("memory", Unit::Megabytes, server.process.resident_bytes()? as f64 / 1e6);
    Ok(())
}

/// Adds figures with the name of a database.
struct DatabaseFigures<'a> {
    name: &'a str,
    figures: &'a mut Figures,
}

impl DatabaseFigures<'_> {
    fn add(&mut self, label: &str, unit: Unit, value: f64) {
        self.figures.add(&format!("{}: {label}", self.name), unit, value);
    }

    fn add_latencies(&mut self, label: &str, latencies: &mut Latencies) {
        for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
            if let Some(millis) = latencies.quantile_millis(part) {
                self.add(&format!("{label}, {name}"), Unit::Milliseconds, millis);
            }
        }
    }
}

struct CreatedClusters {
    ids: Vec<String>,
    per_second: f64,
}

async fn create_clusters(server: &Server, clusters: usize) -> anyhow::Result<CreatedClusters> {
    let next = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let clients = (0..CLIENTS).map(|_| {
        let next = next.clone();
        async move {
            let mut connection = server.connect().await?;
            let mut ids = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= clusters {
                    return Ok::<_, anyhow::Error>(ids);
                }
                ids.push(create_cluster(&mut connection, number).await?);
            }
        }
    });
    let ids: Vec<String> = futures::future::try_join_all(clients).await?.into_iter().flatten().collect();
    let per_second = ids.len() as f64 / begun.elapsed().as_secs_f64();
    Ok(CreatedClusters { ids, per_second })
}

async fn create_cluster(connection: &mut Connection, number: usize) -> anyhow::Result<String> {
    let body = json!({
        "kind": "Cluster",
        "name": format!("cluster-{number}"),
        "labels": {"region": format!("r{}", number % REGIONS), "env": "prod"},
        "spec": {"provider": "gcp", "replicas": number % 100, "release": {"version": "4.19.3", "channel": "stable"}},
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

/// Sends reports from all clients; each sends the next one after the response to the last one.
async fn send_reports(
    server: &Server,
    ids: &[String],
    duration: Duration,
) -> anyhow::Result<(Latencies, Duration)> {
    let begun = Instant::now();
    let clients = (0..CLIENTS).map(|client| async move {
        let mut connection = server.connect().await?;
        let mut latencies = Latencies::default();
        // Every client has its own clusters, so that no report is older than the one before it.
        for step in 0.. {
            if begun.elapsed() >= duration {
                break;
            }
            let index = (client + step / ADAPTERS.len() * CLIENTS) % ids.len().max(1);
            let adapter = ADAPTERS.get(step % ADAPTERS.len()).copied().unwrap_or_default();
            let Some(id) = ids.get(index) else { break };
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
            let sent = Instant::now();
            let (status, response) =
                connection.send(Method::PUT, &format!("/clusters/{id}/statuses"), body.to_string()).await?;
            anyhow::ensure!(status == StatusCode::CREATED, "PUT /clusters/{id}/statuses: HTTP {status}: {}", String::from_utf8_lossy(&response));
            latencies.add(sent.elapsed());
        }
        Ok::<_, anyhow::Error>(latencies)
    });
    let mut all = Latencies::default();
    for latencies in futures::future::try_join_all(clients).await? {
        all.append(latencies);
    }
    Ok((all, begun.elapsed()))
}
