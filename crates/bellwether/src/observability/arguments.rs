//! The arguments of `bellwether observability`.

use bellwether_agent::ClusterName;
use clap::{Args, Subcommand};

use crate::cli::TargetArgs;
use crate::output::Format;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    Status(StatusArgs),
}

/// Show for every cluster whether it forwards its metrics to the hub, and why not
///
/// Prints a line for each ObservabilityAddon of the hub, the most urgent first. With --watch it follows them until Ctrl-C:
/// on a terminal as a live table, otherwise as a line for each change.
///
///   bellwether observability status
///   bellwether observability status spoke-1 -o wide
///   bellwether observability status --watch
///   bellwether observability status -o name | xargs -L1 kubectl describe
///
/// STATE is one of
///
///   Available     metrics are forwarded
///   Progressing   a collector was created or changed, and has not forwarded metrics since
///   Degraded      a collector cannot forward metrics, or could not be updated
///   Disabled      spec.enableMetrics is false
///   NotSupported  the cluster has no Prometheus: there is no Service openshift-monitoring/prometheus-k8s
///   Pending       the cluster has not reported anything
///   Deleting      the add-on is being removed from the cluster
///
/// The first five are conditions of the ObservabilityAddon, of which exactly one is True. If the cluster does not renew its
/// Lease, its report may be outdated, and the state is for example Available,Unreachable.
///
/// SINCE is the time since the state began. PLATFORM and USER WORKLOADS are the reasons of the two collectors; REASON is
/// the one that decides the state, and -o wide shows its message. LAST FORWARDED is a limit, not an exact time, because
/// collectors report only changes. <45s: less than 45 s ago, which is three times the interval; a collector that fails
/// longer reports it. >2m10s: more than 2m10s ago, when a collector reported that it fails. -: not known.
///
/// Exit codes: 0 success, or stopped by a signal; 1 error, or no such cluster; 2 invalid arguments.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct StatusArgs {
    /// The name of the cluster. Default: all clusters.
    #[arg(value_name = "CLUSTER")]
    pub(crate) cluster: Option<ClusterName>,

    /// Follow changes.
    #[arg(short, long)]
    pub(crate) watch: bool,

    /// The output format: a table; wide, with the message; the list of ObservabilityAddons as JSON or YAML, with --watch a
    /// watch event for each change; or their names as arguments for kubectl.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,

    #[command(flatten)]
    pub(crate) target: TargetArgs,
}
