//! What a person types. Help texts live here; what the commands do does not.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use jiff::SignedDuration;

use crate::controllers::{HeartbeatArgs, Selection};

/// The status and rollout plane for fleets of Kubernetes clusters.
///
/// Start everything on this machine with `bellwether up`, then use kubectl:
///
///   bellwether up
///   export KUBECONFIG=.bellwether/kubeconfig
///   kubectl get namespaces
#[derive(Debug, Parser)]
#[command(name = "bellwether", version, verbatim_doc_comment)]
pub(crate) struct Cli {
    /// How log lines on stderr look. What is logged is set by RUST_LOG, for example RUST_LOG=debug.
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

// A variant without words has those of its arguments, also the long ones.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Up(UpArgs),
    Crds(CrdsArgs),
    /// Add-ons of the fleet: how they are, how far a rollout is, and upgrades, rollbacks and pauses.
    #[command(subcommand)]
    Addon(crate::addon::arguments::Action),
    /// Send heartbeats for an add-on, or watch which add-ons are alive.
    #[command(subcommand)]
    Heartbeat(crate::heartbeat::arguments::Action),
    Cluster(crate::fleet::arguments::ClusterArgs),
    Nodepool(crate::fleet::arguments::NodepoolArgs),
    /// Measure on this machine what our published figures claim.
    Bench {
        #[command(subcommand)]
        subject: Subject,
    },
    /// Run one role, for production.
    Run {
        #[command(subcommand)]
        role: Role,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Subject {
    /// The embedded Kubernetes API server, beside the real kube-apiserver and etcd where those are at hand.
    Apiserver(BenchArgs),
    Heartbeat(crate::bench::heartbeat::HeartbeatArgs),
    Fleet(crate::bench::fleet::FleetArgs),
    Lifecycle(crate::bench::lifecycle::LifecycleArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// The embedded Kubernetes API server alone.
    Apiserver(ApiserverArgs),
    Hub(crate::hub::HubArgs),
    Agent(crate::agent::AgentArgs),
    FleetApi(crate::fleet_api::FleetApiArgs),
}

/// Run everything on this machine: a Kubernetes API for a hub and its spokes, their controllers, and the fleet API, with
/// data on local disk.
///
/// The first start makes a CA, certificates and a kubeconfig with the contexts `hub`, `spoke-1`, … in the data
/// directory. Every later start continues with the data that is there. Ctrl-C or SIGTERM stops cleanly.
#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Where everything is kept: objects, certificates, kubeconfig.
    #[arg(long, value_name = "DIR", default_value = ".bellwether")]
    pub(crate) data_dir: PathBuf,

    /// Where the Kubernetes API listens, over TLS. Port 0 picks a free port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6440")]
    pub(crate) listen: SocketAddr,

    /// Where plain HTTP listens: the fleet API at /api/hyperfleet/v1, /healthz, /readyz and /metrics. Port 0 picks a free
    /// port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8000")]
    pub(crate) http: SocketAddr,

    /// How many spokes to serve, named spoke-1, spoke-2, …. A spoke that is no longer counted keeps its data.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(crate) spokes: u16,

    /// Simulate what clusters would do that have nodes: the default. Deployments, StatefulSets and DaemonSets become
    /// available and Jobs complete, though no pod ever runs. The annotation bellwether.io/simulate on an object or on
    /// its pod template changes its lot: fail, never, or delay=5s. The spokes are registered as clusters of the fleet,
    /// and have an add-on, helloworld, in two versions: see `bellwether addon status`.
    #[arg(long, overrides_with = "no_demo")]
    pub(crate) demo: bool,

    /// Leave out the simulation: the status of a workload is what its clients write, and the fleet is empty at first and
    /// has no add-on. The spokes are joined to the hub all the same.
    #[arg(long)]
    pub(crate) no_demo: bool,

    /// How long a simulated rollout takes, such as 500ms, 5s or 1m.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    pub(crate) simulate_delay: Duration,

    /// Which controllers run: all but some (-addon-controller), or some alone (heartbeat-checker). There are those of a
    /// hub and those of an agent; `bellwether run hub --help` and `bellwether run agent --help` say what each is for.
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
    pub(crate) fleet: crate::fleet_api::CommonArgs,
}

/// Which cluster a command talks to.
#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    /// The kubeconfig that names the cluster. Without it: KUBECONFIG, then ./.bellwether/kubeconfig, then
    /// ~/.kube/config, then the ServiceAccount of the pod that this runs in.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig to use. Without it: the current one.
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

/// Print the definitions (CRDs) of Bellwether's own kinds as YAML, or install them in a cluster
///
/// Installing writes only what differs, and waits until the cluster serves the kinds. Definitions that Bellwether
/// installs have the label app.kubernetes.io/managed-by=bellwether; one without it belongs to somebody else and is
/// not replaced, unless with --adopt.
///
///   bellwether crds > crds.yaml
///   bellwether crds --install --context spoke-1
///
/// Exit codes: 0 done, 1 error, 2 usage, 3 not established in time, 4 refused.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CrdsArgs {
    /// Install the definitions instead of printing them.
    #[arg(long)]
    pub(crate) install: bool,

    /// Also replace definitions that somebody else installed, and keep them from now on.
    #[arg(long, requires = "install")]
    pub(crate) adopt: bool,

    /// How long installing may take, such as 30s or 2m.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(crate) timeout: Duration,

    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// The longest wait that can be asked for.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// `500ms`, `5s`, `1m30s`
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let parsed: Option<SignedDuration> = text.parse().ok();
    parsed
        .and_then(|duration| Duration::try_from(duration).ok())
        .filter(|duration| *duration <= LONGEST)
        .ok_or_else(|| {
            "a duration is a number with a unit, such as 500ms, 5s or 1m30s, and at most 24h".into()
        })
}

/// Run the embedded Kubernetes API server alone.
#[derive(Debug, Args)]
pub(crate) struct ApiserverArgs {
    /// Where everything is kept: objects, certificates, kubeconfig.
    #[arg(long, value_name = "DIR", default_value = ".bellwether")]
    pub(crate) data_dir: PathBuf,

    /// Where the Kubernetes API listens, over TLS. Port 0 picks a free port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6440")]
    pub(crate) listen: SocketAddr,

    /// The logical clusters to serve beside `hub`, at /clusters/NAME.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) logical_clusters: Vec<String>,
}

/// Measure the embedded Kubernetes API server, beside the real one.
///
/// Every round starts a fresh server on a temporary directory, on loopback, and drives it with the same load over
/// TLS: starting, filling it with ConfigMaps of 1 KB, listing, creating, patching, getting, and watching. Where
/// kube-apiserver and etcd are at hand, each round measures them right after. The table shows the median of the
/// rounds.
///
/// Figures mean something when nothing else runs on the machine and this binary is a release build.
///
///   bellwether bench apiserver --quick
///   KUBEBUILDER_ASSETS=DIR bellwether bench apiserver --rounds 5
///   bellwether bench apiserver -o json > figures.json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct BenchArgs {
    /// The directory with the programs kube-apiserver and etcd to compare with. Without it only we are measured.
    #[arg(long, value_name = "DIR", env = "KUBEBUILDER_ASSETS")]
    pub(crate) assets: Option<PathBuf>,

    /// How many rounds to take the median of.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) rounds: u16,

    /// How many seconds each load lasts.
    #[arg(long, value_name = "S", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=60))]
    pub(crate) seconds: u16,

    /// One short round with few objects: shows that everything works, and no more.
    #[arg(long, conflicts_with_all = ["rounds", "seconds"])]
    pub(crate) quick: bool,

    /// How to print the figures.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Table,
    Json,
}
