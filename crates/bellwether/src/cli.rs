//! The command line: commands, options and their help texts. The commands themselves are in other modules.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use jiff::SignedDuration;

use crate::controllers::{HeartbeatArgs, ObservabilityArgs, Selection};

/// Show the state of a fleet of Kubernetes clusters, and roll out changes to it
///
/// `bellwether up` starts everything on this machine: a hub, three spokes, their controllers, and the fleet API. It runs
/// until Ctrl-C. In another terminal, in the same directory:
///
///   export KUBECONFIG=.bellwether/kubeconfig
///   kubectl get namespaces
///   bellwether addon status
///   bellwether observability status
///
/// On real Kubernetes, run each role separately: `bellwether run --help`.
///
/// Exit codes: 0 done; 1 error; 2 invalid arguments; 3 not finished in time; 4 rejected, or failures stopped a rollout. The
/// help of each command lists the exit codes that it uses.
#[derive(Debug, Parser)]
#[command(name = "bellwether", version, term_width = 120, verbatim_doc_comment)]
pub(crate) struct Cli {
    /// The format of log lines on stderr. RUST_LOG sets the level, for example RUST_LOG=debug.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

// A variant without a doc comment has the help text of its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Up(UpArgs),
    Crds(CrdsArgs),
    /// Show the status of add-ons and rollouts, and upgrade, roll back, pause or resume an add-on
    ///
    ///   bellwether addon status
    ///   bellwether addon upgrade helloworld --version v2
    ///   bellwether addon rollout helloworld --watch
    ///
    /// Exit codes: see the help of each command.
    #[command(subcommand, verbatim_doc_comment)]
    Addon(crate::addon::arguments::Action),
    /// Send heartbeats for an add-on, or watch which add-ons are alive
    ///
    ///   bellwether heartbeat send --namespace reference-addon --every --context spoke-1
    ///   bellwether heartbeat watch --context spoke-1
    ///
    /// Exit codes: see the help of each command.
    #[command(subcommand, verbatim_doc_comment)]
    Heartbeat(crate::heartbeat::arguments::Action),
    /// Show whether clusters forward their metrics
    ///
    ///   bellwether observability status
    ///   bellwether observability status --watch
    ///
    /// Exit codes: see the help of each command.
    #[command(subcommand, verbatim_doc_comment)]
    Observability(crate::observability::arguments::Action),
    /// Show what is in the built-in queue, and deliver dead letters again
    ///
    ///   bellwether broker status
    ///   bellwether broker peek
    ///   bellwether broker dead-letters
    ///
    /// Exit codes: see the help of each command.
    #[command(subcommand, verbatim_doc_comment)]
    Broker(crate::broker::Action),
    Cluster(crate::fleet::arguments::ClusterArgs),
    Nodepool(crate::fleet::arguments::NodepoolArgs),
    /// Run one component, for production
    ///
    /// A component runs until Ctrl-C or SIGTERM. A second signal stops it at once.
    ///
    ///   bellwether run hub --context hub
    ///   bellwether run agent --hub-kubeconfig hub.kubeconfig --cluster-name spoke-1
    ///   bellwether run collector --match '{__name__="up"}' --to-upload https://hub.example.com/api/v1/receive
    ///
    /// Exit codes: 0 stopped by a signal; 1 error; 2 invalid arguments.
    #[command(verbatim_doc_comment)]
    Run {
        #[command(subcommand)]
        role: Role,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    Apiserver(ApiserverArgs),
    Hub(crate::hub::HubArgs),
    Agent(crate::agent::AgentArgs),
    // Boxed: some have many more arguments than the others.
    Collector(Box<crate::collector::CollectorArgs>),
    FleetApi(crate::fleet_api::FleetApiArgs),
    Sentinel(Box<crate::sentinel::SentinelArgs>),
    Adapter(Box<crate::adapter::AdapterArgs>),
}

/// Run everything on this machine: the Kubernetes API of a hub and its spokes, their controllers, and the fleet API
///
/// The first start creates a CA, certificates and a kubeconfig with the contexts `hub`, `spoke-1`, … in the data
/// directory. Later starts continue with the data in it. Ctrl-C or SIGTERM stops all of it cleanly.
///
///   bellwether up
///   bellwether up --spokes 10 --data-dir /var/lib/bellwether
///   bellwether up --no-demo --listen 127.0.0.1:0 --http 127.0.0.1:0
///
/// Exit codes: 0 stopped by a signal; 1 error; 2 invalid arguments.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct UpArgs {
    /// The directory for all data: objects, certificates, kubeconfigs, and the database of the fleet API. Other commands look
    /// in .bellwether; with another directory, set KUBECONFIG=DIR/kubeconfig, and --api of `cluster` and `nodepool`.
    #[arg(long, value_name = "DIR", default_value = ".bellwether")]
    pub(crate) data_dir: PathBuf,

    /// The address of the Kubernetes API, over TLS. Port 0 selects a free port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6440")]
    pub(crate) listen: SocketAddr,

    /// The address for plain HTTP: the fleet API at /api/hyperfleet/v1, /healthz, /readyz and /metrics, and in the demo
    /// /demo/receiver/metrics with the metrics that were forwarded. Port 0 selects a free port. An address that other machines
    /// can reach requires --insecure-no-auth.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8000")]
    pub(crate) http: SocketAddr,

    /// The number of spokes to serve, from 0 to 1000; they are named spoke-1, spoke-2, …. If a later start serves fewer,
    /// the others keep their data.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(crate) spokes: u16,

    /// Simulate workloads, install a sample add-on, and forward metrics. This is the default.
    ///
    /// Deployments, StatefulSets and DaemonSets become available and Jobs complete, although no pod runs. The annotation
    /// bellwether.io/simulate on a workload or its pod template changes that: `fail` lets the rollout fail, `never` lets it
    /// never finish, `delay=5s` lets it take 5 s. The add-on helloworld is installed in two versions: see `bellwether addon
    /// status`. Every spoke forwards metrics about its Deployments: see `bellwether observability status`. Adapters report on
    /// every cluster, until it is ready: see `bellwether cluster get`.
    #[arg(long, overrides_with = "no_demo")]
    pub(crate) demo: bool,

    /// Do not simulate workloads, do not install the sample add-on, do not forward metrics, and do not register the spokes in
    /// the fleet API. The spokes still join the hub.
    #[arg(long)]
    pub(crate) no_demo: bool,

    /// How long the rollout of a simulated workload takes, such as 500ms, 5s or 1m.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    pub(crate) simulate_delay: Duration,

    /// The controllers to run: `a,b` runs only a and b, `-a,-b` all but a and b (write --controllers=-a). Default: all.
    /// `bellwether run hub --help` and `bellwether run agent --help` list them.
    #[arg(
        long,
        value_name = "[+|-]NAME,…",
        allow_hyphen_values = true,
        default_value = "",
        hide_default_value = true,
        value_parser = Selection::of_all
    )]
    pub(crate) controllers: Selection,

    #[command(flatten)]
    pub(crate) heartbeats: HeartbeatArgs,

    #[command(flatten)]
    pub(crate) observability: ObservabilityArgs,

    #[command(flatten)]
    pub(crate) fleet: crate::fleet_api::CommonArgs,
}

/// The cluster that a command uses.
#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    /// The kubeconfig of the cluster that the command uses; for `addon`, `observability` and `run hub` it is the hub. Default:
    /// $KUBECONFIG if set, otherwise the first that exists of ./.bellwether/kubeconfig, ~/.kube/config, and the ServiceAccount
    /// of the pod.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig. Default: the current context.
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

/// Print the CRDs of Bellwether as YAML, or install them in a cluster
///
/// --install writes only the CRDs that differ, and waits until the cluster serves them. Installed CRDs have the label
/// app.kubernetes.io/managed-by=bellwether. If one of the CRDs exists without this label, another tool installed it:
/// the command then installs no CRD, unless --adopt is given.
///
///   bellwether crds > crds.yaml
///   bellwether crds --install --context spoke-1
///
/// Exit codes: 0 done; 1 error; 2 invalid arguments; 3 not established in time; 4 rejected, because of a CRD without the
/// label.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CrdsArgs {
    /// Install the CRDs instead of printing them.
    #[arg(long)]
    pub(crate) install: bool,

    /// Also replace CRDs that another tool installed, and label them as managed by Bellwether.
    #[arg(long, requires = "install")]
    pub(crate) adopt: bool,

    /// The time limit of --install, such as 30s or 2m.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(crate) timeout: Duration,

    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// The longest duration that an option accepts.
const MAX_DURATION: Duration = Duration::from_secs(24 * 60 * 60);

/// Parses a duration such as `500ms`, `5s` or `1m30s`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let parsed: Option<SignedDuration> = text.parse().ok();
    parsed
        .and_then(|duration| Duration::try_from(duration).ok())
        .filter(|duration| *duration <= MAX_DURATION)
        .ok_or_else(|| {
            "a duration is a number with a unit, such as 500ms, 5s or 1m30s, and at most 24h".into()
        })
}

/// Run the embedded Kubernetes API server, without controllers
///
/// The first start creates a CA, certificates and a kubeconfig in the data directory. Later starts continue with the data
/// in it.
///
///   bellwether run apiserver
///   bellwether run apiserver --listen 127.0.0.1:0 --logical-clusters spoke-1,spoke-2
///
/// Exit codes: 0 stopped by a signal; 1 error; 2 invalid arguments.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ApiserverArgs {
    /// The directory for all data: objects, certificates, kubeconfig.
    #[arg(long, value_name = "DIR", default_value = ".bellwether")]
    pub(crate) data_dir: PathBuf,

    /// The address of the Kubernetes API, over TLS. Port 0 selects a free port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6440")]
    pub(crate) listen: SocketAddr,

    /// The logical clusters to serve at /clusters/NAME, in addition to `hub`. Default: none.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) logical_clusters: Vec<String>,
}

/// The output formats of commands that have no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Table,
    Json,
}
