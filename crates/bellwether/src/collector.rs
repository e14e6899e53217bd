//! `bellwether run collector`: forwards the metrics of a cluster to the hub, and reports whether that works.

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bellwether_clock::SystemClock;
use bellwether_observability::collector::config::{
    AddedLabel, CollectorConfig, ConfigError, CredentialFiles, DEFAULT_ELIDED_LABELS,
    DEFAULT_FAILURE_THRESHOLD, DEFAULT_LIMIT_BYTES, HttpUrl, LabelName, LabelRules, RecordingRule, Rename,
    Selector, Source, parse_match_file,
};
use bellwether_observability::collector::{Collector, Environment};
use bellwether_observability::decide::transition::Actor;
use bellwether_observability::reporter::Reporter;
use bellwether_observability::vocabulary::{ADDON_NAMESPACE, Component, Vocabulary};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Parser as _, ValueEnum};

use crate::cli::{self, Cli, Command, TargetArgs, duration};
use crate::role::Role;
use crate::target::Target;

/// Forward the metrics of a cluster to the hub, and report whether that works
///
/// At every interval it reads the series that --match selects from Prometheus (/federate), evaluates the recording rules
/// (/api/v1/query), changes labels, and sends the samples by remote write. It reports the result in the ObservabilityAddon
/// observability-addon of its namespace: ForwardSuccessful at once, ForwardFailure after --failure-threshold failed cycles
/// in a row.
///
/// Every file with credentials is read again when it changes.
///
///   bellwether run collector --from http://localhost:9090 --match '{__name__="up"}' --label cluster=spoke-1 \
///     --to-upload https://hub.example.com/api/metrics/v1/default/api/v1/receive \
///     --to-upload-ca ca.crt --to-upload-cert tls.crt --to-upload-key tls.key
///   bellwether run collector --match-file selectors.txt --worker-number 4 --to-upload http://localhost:9091/api/v1/write
///   bellwether run collector --component uwl --match 'up{namespace="shop"}' --to-upload http://localhost:9091/api/v1/write
///   bellwether run collector --recordingrule '{"name":"cluster:up:sum","query":"sum(up)"}' --disable-status-reporting \
///     --to-upload http://localhost:9091/api/v1/write
///
/// Exit codes: 0 stopped by a signal; 1 error; 2 invalid arguments.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CollectorArgs {
    #[command(flatten)]
    target: TargetArgs,

    /// The address of Prometheus. Without a path, series are read from /federate.
    #[arg(long, value_name = "URL", default_value = "http://localhost:9090")]
    from: HttpUrl,

    /// The address for instant queries. Without a path, it is /api/v1/query. Default: the server of --from.
    #[arg(long, value_name = "URL")]
    from_query: Option<HttpUrl>,

    /// The file with the bearer token for Prometheus. Default: no token.
    #[arg(long, value_name = "FILE")]
    from_token_file: Option<PathBuf>,

    /// The CA certificates that the certificate of Prometheus must be signed by. Default: those of the machine.
    #[arg(long, value_name = "FILE")]
    from_ca_file: Option<PathBuf>,

    /// The address that receives remote write.
    #[arg(long, value_name = "URL")]
    to_upload: HttpUrl,

    /// The CA certificates that the certificate of the receiver must be signed by. Default: those of the machine.
    #[arg(long, value_name = "FILE")]
    to_upload_ca: Option<PathBuf>,

    /// The client certificate for the receiver. Default: none.
    #[arg(long, value_name = "FILE", requires = "to_upload_key")]
    to_upload_cert: Option<PathBuf>,

    /// The private key of the client certificate.
    #[arg(long, value_name = "FILE", requires = "to_upload_cert")]
    to_upload_key: Option<PathBuf>,

    /// The file with the bearer token for the receiver. Default: no token.
    #[arg(long, value_name = "FILE")]
    to_upload_token_file: Option<PathBuf>,

    /// The time between the beginnings of two cycles, and the time limit of a cycle; at least 1s.
    #[arg(long, value_name = "DURATION", default_value = "4m30s", value_parser = duration)]
    interval: Duration,

    /// The maximum size of one response of Prometheus, in bytes. A larger response fails the cycle.
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_LIMIT_BYTES)]
    limit_bytes: u64,

    /// A selector of series to forward, such as '{__name__="up"}'. Can be repeated. At least one of --match, --match-file and
    /// --recordingrule is required.
    #[arg(long = "match", value_name = "SELECTOR")]
    matches: Vec<Selector>,

    /// A file with further selectors: one per line, or a YAML list.
    #[arg(long, value_name = "FILE")]
    match_file: Option<PathBuf>,

    /// A query whose result is forwarded as a metric, as JSON: {"name":"cluster:up:sum","query":"sum(up)"}. Can be
    /// repeated.
    #[arg(long = "recordingrule", value_name = "JSON")]
    recording_rules: Vec<RecordingRule>,

    /// A label that every series gets. It replaces a label of the same name. Can be repeated.
    #[arg(long = "label", value_name = "NAME=VALUE")]
    labels: Vec<AddedLabel>,

    /// A new name of a metric. Can be repeated.
    #[arg(long = "rename", value_name = "OLD=NEW")]
    renames: Vec<Rename>,

    /// A label that is removed from all series of Prometheus. Can be repeated; replaces the default.
    #[arg(long = "elide-label", value_name = "NAME", default_values = DEFAULT_ELIDED_LABELS)]
    elided_labels: Vec<LabelName>,

    /// The number of parallel requests to /federate, among which the selectors are divided; at most the number of selectors.
    #[arg(long, value_name = "N", default_value = "1")]
    worker_number: NonZeroUsize,

    /// The number of failed cycles in a row after which ForwardFailure is reported; at least 1.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_FAILURE_THRESHOLD)]
    failure_threshold: NonZeroU32,

    /// The collector whose state is reported: that of the platform, or that of user workloads (UWL).
    #[arg(long, value_enum, default_value_t = ComponentArg::Platform)]
    component: ComponentArg,

    /// The namespace of the ObservabilityAddon.
    #[arg(long, value_name = "NAME", default_value = ADDON_NAMESPACE)]
    namespace: String,

    /// The names of the reported reasons and condition types: seed (ForwardFailure, MetricsCollectorStatus) or upstream
    /// (ForwardFailed, MetricsCollector).
    #[arg(long, value_name = "seed|upstream", default_value = "seed")]
    vocabulary: Vocabulary,

    /// Only forward metrics. The collector then needs no cluster.
    #[arg(long)]
    disable_status_reporting: bool,

    /// The address for plain HTTP: /healthz, /readyz and /metrics. In a pod, use 0.0.0.0 so that probes can reach it. Port 0
    /// selects a free port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9002")]
    listen: SocketAddr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ComponentArg {
    Platform,
    Uwl,
}

impl CollectorArgs {
    /// Parses the arguments of a collector's container.
    pub(crate) fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let program = Cli::command().get_name().to_owned();
        let cli = Cli::try_parse_from(std::iter::once(&program).chain(arguments))?;
        match cli.command {
            Command::Run { role: cli::Role::Collector(arguments) } => Ok(*arguments),
            _ => anyhow::bail!("its arguments do not begin with `run collector`"),
        }
    }

    /// A collector that forwards metrics until the shutdown, and reports by a client.
    pub(crate) fn collector(
        &self,
        config: CollectorConfig,
        client: Option<kube::Client>,
        environment: Environment,
    ) -> anyhow::Result<impl Future<Output = ()> + Send + use<>> {
        let reporter = client.map(|client| {
            Reporter::new(
                client,
                &self.namespace,
                Actor::Collector,
                self.vocabulary,
                environment.clock.clone(),
                &environment.metrics,
            )
        });
        Ok(Collector::new(config, environment)?.run(reporter))
    }

    pub(crate) fn config(&self) -> anyhow::Result<CollectorConfig> {
        let mut matches = self.matches.clone();
        if let Some(path) = &self.match_file {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read --match-file {}", path.display()))?;
            let parsed = parse_match_file(&text)
                .map_err(|error| anyhow::anyhow!("--match-file {}: {error}", path.display()))?;
            matches.extend(parsed);
        }
        let source_files = CredentialFiles {
            ca: self.from_ca_file.clone(),
            token: self.from_token_file.clone(),
            ..CredentialFiles::default()
        };
        let config = CollectorConfig {
            component: match self.component {
                ComponentArg::Platform => Component::Platform,
                ComponentArg::Uwl => Component::UserWorkload,
            },
            source: Source::new(&self.from, self.from_query.as_ref(), source_files),
            receiver: self.to_upload.clone(),
            receiver_files: CredentialFiles {
                ca: self.to_upload_ca.clone(),
                certificate: self.to_upload_cert.clone(),
                key: self.to_upload_key.clone(),
                token: self.to_upload_token_file.clone(),
            },
            interval: self.interval,
            limit_bytes: self.limit_bytes,
            matches,
            recording_rules: self.recording_rules.clone(),
            labels: LabelRules::new(&self.labels, &self.renames, self.elided_labels.clone())?,
            workers: self.worker_number,
            failure_threshold: self.failure_threshold,
        };
        config.validate()?;
        Ok(config)
    }
}

pub(crate) fn run(arguments: &CollectorArgs) -> anyhow::Result<()> {
    let config = match arguments.config() {
        // As clap does with an argument that is invalid alone.
        Err(error) if error.is::<ConfigError>() => {
            Cli::command().error(ErrorKind::ValueValidation, error).exit();
        }
        config => config?,
    };
    // One thread: forwarding mostly waits for Prometheus and the receiver, and its memory is small.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(serve(arguments, config));
    runtime.shutdown_timeout(Duration::from_millis(200));
    outcome
}

async fn serve(arguments: &CollectorArgs, config: CollectorConfig) -> anyhow::Result<()> {
    let role = Role { name: "collector", listen: arguments.listen, leader_election: false, cluster: "local" };
    let subject = config.source.federate.to_string();
    // There is no check of the CRDs: metrics are forwarded even if it does not respond.
    let target = match arguments.disable_status_reporting {
        true => None,
        false => Some(Target::find(&arguments.target).await?),
    };
    role.serve_process(&subject, |process| {
        let environment = Environment {
            clock: Arc::new(SystemClock),
            metrics: process.metrics.clone(),
            health: process.health.clone(),
            shutdown: process.shutdown.clone(),
        };
        let client = target.map(|target| target.client);
        process.shutdown.spawn(arguments.collector(config, client, environment)?);
        Ok(())
    })
    .await
}
