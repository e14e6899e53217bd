//! The metrics collector: reads metrics from the Prometheus of a cluster, sends them to the hub by remote write, and reports
//! whether that works. Who deploys it, and what the reports mean for the add-on, is left to others.
//!
//! | module | what it does |
//! |---|---|
//! | [`config`] | the configuration, parsed and checked; pure |
//! | `exposition`, `query` | parse what Prometheus sends; pure |
//! | `transform` | which samples are forwarded, with which labels; pure |
//! | [`remote_write`] | encodes and compresses series in batches; pure |
//! | `retry`, [`outcome`] | decide what follows a request, and what is reported after a pass; pure |
//! | `client`, `tls`, `sender` | requests, credentials from files, and retries |
//! | `cycle` | one cycle of one worker |
//! | `metrics` | what the collector reports about itself |
//!
//! A worker reads the response of Prometheus line by line and sends a batch as soon as it is full, so that its memory is bounded
//! by one batch, one line, and a hash per series, and these by the size limit.

mod client;
pub mod config;
mod cycle;
mod exposition;
mod metrics;
pub mod outcome;
mod query;
pub mod remote_write;
mod retry;
mod sender;
mod tls;
mod transform;

use std::sync::Arc;
use std::time::Duration;

use bellwether_clock::Clock;
use bellwether_runtime::{BackoffPolicy, Health, Metrics, Shutdown};
use futures::future::join_all;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use self::client::{Client, Peer};
use self::config::{CollectorConfig, ConfigError};
use self::cycle::{Work, Worker};
use self::metrics::{CollectorMetrics, SampleCounts};
use self::outcome::{OutcomeTracker, Report, failure_message};
use self::sender::Sender;
pub use self::tls::CredentialError;
use crate::reporter::{Reported, Reporter};
use crate::vocabulary::{Component, ComponentReason};

/// The name of the collector as a health component.
const NAME: &str = "metrics-collector";
/// How long to wait after a report that failed.
const REPORT_BACKOFF: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(60) };

/// The process that a collector runs in.
#[derive(Clone)]
pub struct Environment {
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// The metrics of the process.
    pub metrics: Metrics,
    /// The health of the process.
    pub health: Health,
    /// The shutdown of the process.
    pub shutdown: Shutdown,
}

/// Why a collector cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file with credentials cannot be used.
    #[error(transparent)]
    Credentials(#[from] CredentialError),
}

/// A collector that is ready to run.
pub struct Collector {
    config: Arc<CollectorConfig>,
    workers: Vec<Worker>,
    environment: Environment,
    metrics: CollectorMetrics,
}

impl Collector {
    /// Checks the configuration and reads the files with credentials. It sends no request.
    pub fn new(config: CollectorConfig, environment: Environment) -> Result<Self, StartError> {
        config.validate()?;
        let metrics = CollectorMetrics::new(config.component, &environment.metrics);
        let source = &config.source;
        let prometheus = |url: &config::HttpUrl| {
            Client::new(Peer::Prometheus, url.clone(), source.files.clone()).map(Arc::new)
        };
        let (federate_client, query_client) = (prometheus(&source.federate)?, prometheus(&source.query)?);
        let receiver = Client::new(Peer::Receiver, config.receiver.clone(), config.receiver_files.clone())?;
        let receiver = Arc::new(receiver);

        let shards = config.shards().into_iter().map(Work::Federate);
        let rules =
            (!config.recording_rules.is_empty()).then(|| Work::Evaluate(config.recording_rules.clone()));
        let config = Arc::new(config.clone());
        let worker = |work| Worker {
            work,
            config: config.clone(),
            federate_client: federate_client.clone(),
            query_client: query_client.clone(),
            sender: Sender::new(
                receiver.clone(),
                config.receiver.clone(),
                config.interval,
                environment.clock.clone(),
                metrics.clone(),
            ),
            clock: environment.clock.clone(),
            metrics: metrics.clone(),
        };
        let workers = shards.chain(rules).map(worker).collect();
        Ok(Self { config, workers, environment, metrics })
    }

    /// Forwards metrics until the shutdown: at once, and then at every interval. Without a reporter nothing is reported.
    ///
    /// It is a health component from this call on, and ready after the first cycle, whether that succeeded or not.
    pub fn run(self, reporter: Option<Reporter>) -> impl Future<Output = ()> + Send {
        let readiness = self.environment.health.component(NAME);
        let shutdown = self.environment.shutdown.clone();
        let (reports, receiver) = watch::channel(None);
        let component = self.config.component;
        async move {
            let forward = self.forward(&reports, &readiness);
            let report = async {
                match reporter {
                    Some(reporter) => send_reports(&reporter, component, receiver).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = shutdown.requested() => {}
                () = async { tokio::join!(forward, report); } => {}
            }
        }
    }

    async fn forward(
        mut self,
        reports: &watch::Sender<Option<Report>>,
        readiness: &bellwether_runtime::Component,
    ) {
        let mut outcomes = OutcomeTracker::new(self.config.failure_threshold);
        let mut ticks = interval(self.config.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            let report = self.run_pass(&mut outcomes).await;
            readiness.ready();
            if report.is_some() {
                reports.send_replace(report);
            }
        }
    }

    /// Runs one cycle of every worker, and returns what to report.
    async fn run_pass(&mut self, outcomes: &mut OutcomeTracker) -> Option<Report> {
        let end = Instant::now() + self.config.interval;
        let cycles = join_all(self.workers.iter_mut().map(|worker| worker.run_cycle(end))).await;
        let mut counts = SampleCounts::default();
        let mut pass = Vec::with_capacity(cycles.len());
        for (outcome, counted) in cycles {
            counts += counted;
            pass.push(outcome);
        }
        let failure = failure_message(&pass);
        let failures_before = outcomes.failures();
        let report = outcomes.observe(&pass);
        self.metrics.set_samples(counts);
        let component = self.config.component;
        if let Some(message) = failure {
            self.metrics.record_failure();
            tracing::warn!(
                "{component}: {message}; failed cycles in a row: {}, reported from {} on",
                outcomes.failures(),
                self.config.failure_threshold,
            );
        } else {
            self.metrics.record_success(self.environment.clock.now());
            if failures_before > 0 {
                tracing::info!(
                    "{component}: metrics are forwarded again after {failures_before} failed cycles"
                );
            }
        }
        report
    }
}

/// Sends each report, or the latest if several arrived meanwhile. A failed one is retried until it is replaced.
async fn send_reports(
    reporter: &Reporter,
    component: Component,
    mut reports: watch::Receiver<Option<Report>>,
) {
    let mut failures = 0_u32;
    while reports.changed().await.is_ok() {
        loop {
            let Some(Report { reason, message }) = reports.borrow_and_update().clone() else { break };
            let Err(error) = send_report(reporter, component, reason, &message).await else {
                failures = 0;
                break;
            };
            failures = failures.saturating_add(1);
            let delay = REPORT_BACKOFF.delay(failures, rand::random());
            tracing::warn!("{component}: cannot report {reason}: {error}; retry in {delay:.1?}");
            sleep(delay).await;
        }
    }
}

async fn send_report(
    reporter: &Reporter,
    component: Component,
    reason: ComponentReason,
    message: &str,
) -> Result<(), crate::reporter::ReportError> {
    match reporter.report(component, reason, message).await? {
        Reported::Refused(denial) => tracing::debug!("{component}: {denial}"),
        Reported::Updated => tracing::info!("{component}: reported {reason}: {message}"),
        Reported::Unchanged => {}
    }
    Ok(())
}
