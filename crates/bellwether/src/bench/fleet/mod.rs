//! `bellwether bench fleet`: how many reports the fleet API takes in, durably, and how fast it finds things among many
//! clusters, on SQLite and on PostgreSQL. The server is a process of its own.

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
use super::report::{Report, Side, Unit};
use super::statistics::Latencies;
use super::{Figures, Progress, interruptible, print};
use crate::cli::Output;

/// The steps of a run on one database, for the progress bar.
const STEPS: u64 = 4;
/// How many clients create and report at the same time.
const CLIENTS: usize = 64;
/// How many times each read is asked.
const READS: usize = 200;
const ADAPTERS: [&str; 2] = ["validation", "dns"];
const REGIONS: usize = 50;

/// Measure the fleet API: durable status reports, and reads among many clusters.
///
/// Starts `bellwether run fleet-api` on SQLite, and where --postgres names one on an empty PostgreSQL database, registers
/// clusters, and then reports statuses of them from 64 connections; every answer comes after its commit. Then lists, gets
/// and searches.
///
///   bellwether bench fleet
///   bellwether bench fleet --postgres postgres://postgres@127.0.0.1/bench --clusters 100000 -o json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct FleetArgs {
    /// An empty PostgreSQL database to measure as well. What the measurement writes stays in it.
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,

    /// How many clusters there are.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    clusters: u32,

    /// How many seconds reports come in.
    #[arg(long, value_name = "S", default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..=3600))]
    seconds: u16,

    /// A few clusters for a second: shows that everything works, and no more.
    #[arg(long, conflicts_with_all = ["clusters", "seconds"])]
    quick: bool,

    /// How to print the figures.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// How much is measured.
struct Plan {
    clusters: usize,
    lasts: Duration,
    reads: usize,
}

impl Plan {
    fn of(arguments: &FleetArgs) -> Self {
        if arguments.quick {
            return Self { clusters: 200, lasts: Duration::from_secs(1), reads: 5 };
        }
        let lasts = Duration::from_secs(arguments.seconds.into());
        Self { clusters: arguments.clusters as usize, lasts, reads: READS }
    }
}

pub(crate) fn run(arguments: &FleetArgs) -> anyhow::Result<()> {
    let plan = Plan::of(arguments);
    let mut databases = vec![("SQLite", None)];
    databases.extend(arguments.postgres.as_deref().map(|url| ("PostgreSQL", Some(url))));
    let figures = interruptible(async {
        let progress = Progress::new(STEPS * databases.len() as u64);
        let mut figures = Figures::default();
        for (name, url) in &databases {
            measure(name, *url, &plan, &progress, &mut figures).await?;
        }
        progress.bar.finish_and_clear();
        Ok(figures.0)
    })?;
    let mut report = Report::default();
    report.add(Side::Ours, figures);
    let notes = [
        format!(
            "{} clusters with two required adapters; {CLIENTS} connections over loopback, plain HTTP/1.1; each report is \
             answered after its commit is on disk; release build: {}.",
            plan.clusters,
            if cfg!(debug_assertions) { "no, so the figures mean nothing" } else { "yes" }
        ),
        format!("Reads are of one connection, {} of each; lists show 100 of a page.", plan.reads),
        "The load generator, and PostgreSQL, run on the same machine.".to_owned(),
    ];
    print(&report, &notes, arguments.output);
    Ok(())
}

async fn measure(
    name: &str,
    postgres: Option<&str>,
    plan: &Plan,
    progress: &Progress,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    progress.part(name);
    progress.step("start");
    let server = Server::start(postgres).await?;
    let mut label = Labels { name, figures };

    progress.step("register clusters");
    let Registered { ids, per_second } = register(&server, plan.clusters).await?;
    label.add("clusters registered", Unit::PerSecond, per_second);

    progress.step("report");
    let cpu = server.process.cpu_time()?;
    let (mut latencies, took) = report(&server, &ids, plan.lasts).await?;
    let rate = latencies.count() as f64 / took.as_secs_f64();
    label.add("reports accepted", Unit::PerSecond, rate);
    label.latencies("report", &mut latencies);
    let spent = (server.process.cpu_time()? - cpu).as_secs_f64() / took.as_secs_f64();
    label.add("report: CPU of the server", Unit::Percent, spent * 100.0);

    progress.step("read");
    let one = ids.get(ids.len() / 2).context("there are clusters")?;
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
    for (what, path) in reads {
        let mut latencies = Latencies::default();
        for _ in 0..plan.reads {
            let begun = Instant::now();
            let (status, body) = connection.send(Method::GET, &path, "").await?;
            anyhow::ensure!(status == StatusCode::OK, "{path}: {}", String::from_utf8_lossy(&body));
            latencies.add(begun.elapsed());
        }
        label.latencies(what, &mut latencies);
    }
    label.add("memory", Unit::Megabytes, server.process.resident_bytes()? as f64 / 1e6);
    Ok(())
}

/// Figures of one database.
struct Labels<'a> {
    name: &'a str,
    figures: &'a mut Figures,
}

impl Labels<'_> {
    fn add(&mut self, label: &str, unit: Unit, value: f64) {
        self.figures.add(&format!("{}: {label}", self.name), unit, value);
    }

    fn latencies(&mut self, label: &str, latencies: &mut Latencies) {
        for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
            if let Some(millis) = latencies.quantile_millis(part) {
                self.add(&format!("{label}, {name}"), Unit::Milliseconds, millis);
            }
        }
    }
}

struct Registered {
    ids: Vec<String>,
    per_second: f64,
}

async fn register(server: &Server, clusters: usize) -> anyhow::Result<Registered> {
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
                ids.push(create(&mut connection, number).await?);
            }
        }
    });
    let ids: Vec<String> = futures::future::try_join_all(clients).await?.into_iter().flatten().collect();
    let per_second = ids.len() as f64 / begun.elapsed().as_secs_f64();
    Ok(Registered { ids, per_second })
}

async fn create(connection: &mut Connection, number: usize) -> anyhow::Result<String> {
    let body = json!({
        "kind": "Cluster",
        "name": format!("cluster-{number}"),
        "labels": {"region": format!("r{}", number % REGIONS), "env": "prod"},
        "spec": {"provider": "gcp", "replicas": number % 100, "release": {"version": "4.19.3", "channel": "stable"}},
    });
    let (status, answer) = connection.send(Method::POST, "/clusters", body.to_string()).await?;
    anyhow::ensure!(status == StatusCode::CREATED, "not created: {}", String::from_utf8_lossy(&answer));
    let cluster: Value = serde_json::from_slice(&answer)?;
    Ok(cluster.get("id").and_then(Value::as_str).context("a cluster has an id")?.to_owned())
}

/// Reports from all clients at once, each as soon as its last one was answered.
async fn report(server: &Server, ids: &[String], lasts: Duration) -> anyhow::Result<(Latencies, Duration)> {
    let begun = Instant::now();
    let clients = (0..CLIENTS).map(|client| async move {
        let mut connection = server.connect().await?;
        let mut latencies = Latencies::default();
        // Every client goes through clusters of its own, so that no report is older than one before it.
        for step in 0.. {
            if begun.elapsed() >= lasts {
                break;
            }
            let place = (client + step / ADAPTERS.len() * CLIENTS) % ids.len().max(1);
            let adapter = ADAPTERS.get(step % ADAPTERS.len()).copied().unwrap_or_default();
            let Some(id) = ids.get(place) else { break };
            let body = json!({
                "adapter": adapter,
                "observed_generation": 1,
                "observed_time": Timestamp::now().to_string(),
                "conditions": [
                    {"type": "Available", "status": "True", "reason": "AllGood", "message": "All is well"},
                    {"type": "Applied", "status": "True"},
                    {"type": "Health", "status": "True"},
                ],
                "data": {"phase": "done"},
            });
            let sent = Instant::now();
            let (status, answer) =
                connection.send(Method::PUT, &format!("/clusters/{id}/statuses"), body.to_string()).await?;
            anyhow::ensure!(status == StatusCode::CREATED, "{status}: {}", String::from_utf8_lossy(&answer));
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
