//! The arguments and help texts of `bellwether cluster` and `bellwether nodepool`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::cli::duration;
use crate::output::Format;

/// Show, create, update and delete clusters of the fleet API, and show whether they are ready
///
///   bellwether cluster create demo --spec '{"region": "eu-west-1"}' --label env=prod
///   bellwether cluster get
///   bellwether cluster get --search "labels.env = 'prod' and status.conditions.Ready = 'False'"
///   bellwether cluster describe demo
///   bellwether cluster get --watch
///
/// Exit codes: 0 done; 1 error; 2 invalid arguments; 3 not finished in time.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ClusterArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(subcommand)]
    pub(crate) action: Action,
}

/// Show, create, update and delete node pools of the fleet API, and show whether they are ready
///
///   bellwether nodepool create workers --cluster demo --spec '{"replicas": 3}'
///   bellwether nodepool get --cluster demo
///
/// Exit codes: 0 done; 1 error; 2 invalid arguments; 3 not finished in time.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct NodepoolArgs {
    /// The cluster of the node pools, by name or ID. Required to create a node pool, and if node pools of several clusters have
    /// the same name. Default: all clusters.
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) cluster: Option<String>,

    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(subcommand)]
    pub(crate) action: Action,
}

/// The fleet API that a command uses, and the credentials for it.
#[derive(Debug, Args)]
pub(crate) struct ConnectionArgs {
    /// The address of the fleet API, such as http://127.0.0.1:8000. Default: the address in ./.bellwether/endpoints.json,
    /// which `bellwether up` writes.
    #[arg(long, value_name = "URL", env = "BELLWETHER_API", global = true)]
    pub(crate) api: Option<String>,

    /// A file with the bearer token to send. Default: no token.
    #[arg(long, value_name = "FILE", env = "BELLWETHER_TOKEN_FILE", global = true)]
    pub(crate) token_file: Option<PathBuf>,

    /// A file with the CA certificates to trust. Default: those of this machine.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) certificate_authority: Option<PathBuf>,

    /// An HTTP header to send with every request, such as one that names a tenant. Can be given several times.
    #[arg(long = "header", value_name = "NAME: VALUE", global = true)]
    pub(crate) headers: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    Get(GetArgs),
    Describe(DescribeArgs),
    Create(CreateArgs),
    Update(UpdateArgs),
    Delete(DeleteArgs),
    #[command(visible_alias = "status")]
    Statuses(StatusesArgs),
    Log(LogArgs),
}

/// Show clusters or node pools, or watch their changes
///
/// READY is True if all required adapters report the current generation as available. AVAILABLE is True if the last
/// generation that was ready is still available; True@1 means that this is generation 1, and not the current one.
///
///   bellwether cluster get
///   bellwether cluster get demo -o yaml
///   bellwether cluster get --search "labels.env = 'prod' and status.conditions.Ready = 'False'"
///   bellwether cluster get demo --watch
///   bellwether nodepool get --cluster demo --watch
///
/// Exit codes: 0 done, or stopped by a signal; 1 error; 2 invalid arguments.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct GetArgs {
    /// The resources to show, by name or ID. Default: all.
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Show only resources that match, such as "labels.env = 'prod' and generation > 1". docs/fleet-api.md describes the
    /// search language. Default: all.
    #[arg(long, value_name = "SEARCH", conflicts_with_all = ["names", "watch"])]
    pub(crate) search: Option<String>,

    /// The order, such as name or "created_time desc".
    #[arg(long, value_name = "ORDER", default_value = "name", conflicts_with = "watch")]
    pub(crate) order: String,

    /// Keep running and print a line for every change, until Ctrl-C. With names, only the changes of those resources; one that does
    /// not exist yet is waited for.
    #[arg(short, long)]
    pub(crate) watch: bool,

    /// The output format: a table; wide, with ID, labels and messages; JSON or YAML, with --watch a document for each change; or
    /// name, which prints TYPE/NAME.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

/// Show all details of a cluster or node pool: spec, conditions with their causes, adapter statuses, and the last reports
///
///   bellwether cluster describe demo
///   bellwether nodepool describe workers --cluster demo
///
/// Exit codes: 0 done; 1 error; 2 invalid arguments.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DescribeArgs {
    /// The resource, by name or ID.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Create a cluster or node pool
///
///   bellwether cluster create demo --spec '{"region": "eu-west-1"}' --label env=prod
///   bellwether nodepool create workers --cluster demo --spec-file workers.yaml
///
/// Exit codes: 0 done; 1 error; 2 invalid arguments.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CreateArgs {
    /// The name of the new resource.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) spec: SpecArgs,

    /// A label to set. Can be given several times.
    #[arg(short, long = "label", value_name = "KEY=VALUE")]
    pub(crate) labels: Vec<String>,

    /// The output format.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Name)]
    pub(crate) output: Format,
}

/// The spec of a resource.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct SpecArgs {
    /// The spec as JSON or YAML. Default: for `create` an empty spec, for `update` the current spec.
    #[arg(long, value_name = "TEXT")]
    pub(crate) spec: Option<String>,

    /// A file with the spec as JSON or YAML; - reads standard input.
    #[arg(short = 'f', long, value_name = "FILE")]
    pub(crate) spec_file: Option<PathBuf>,
}

/// Change the spec or the labels of a cluster or node pool
///
/// --spec and --spec-file replace the whole spec. --label changes single labels: the current labels are read, changed and
/// written back. If two clients change labels at the same time, the last write wins.
///
///   bellwether cluster update demo --spec '{"region": "eu-west-2"}'
///   bellwether cluster update demo --label env=test --label tier-
///   bellwether nodepool update workers --cluster demo --label env=test
///
/// Exit codes: 0 done, or nothing to change; 1 error; 2 invalid arguments.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct UpdateArgs {
    /// The resource, by name or ID.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) spec: SpecArgs,

    /// A label to set; KEY- removes a label. Can be given several times.
    #[arg(short, long = "label", value_name = "KEY=VALUE")]
    pub(crate) labels: Vec<String>,

    /// The output format.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Name)]
    pub(crate) output: Format,
}

/// Delete a cluster with its node pools, or a node pool
///
/// It is removed when all its adapters have reported that they have cleaned up. Without --wait the command returns when the
/// deletion is requested. With --force it is removed at once, and objects that the adapters manage may remain. The command
/// does not ask for confirmation.
///
/// If the configuration of the fleet API has `on_parent_delete: restrict` for a kind of children, the command fails while
/// there are some.
///
///   bellwether cluster delete demo --wait --timeout 10m
///   bellwether nodepool delete workers --cluster demo
///   bellwether cluster delete demo --force --reason 'the cluster was never created'
///
/// Exit codes: 0 requested, with --wait: removed; 1 error; 2 invalid arguments; 3 not removed before --timeout.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DeleteArgs {
    /// The resource, by name or ID.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Wait until the resource is removed.
    #[arg(long)]
    pub(crate) wait: bool,

    /// The time limit of --wait, such as 30s or 5m.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration, requires = "wait")]
    pub(crate) timeout: Duration,

    /// Remove the resource at once, without waiting for adapters to clean up.
    #[arg(long, requires = "reason")]
    pub(crate) force: bool,

    /// Why no cleanup is needed. It is required with --force, and recorded.
    #[arg(long, value_name = "TEXT", requires = "force")]
    pub(crate) reason: Option<String>,
}

/// Show the last accepted report of each adapter of a cluster or node pool
///
///   bellwether cluster statuses demo
///   bellwether nodepool statuses workers --cluster demo
///
/// Exit codes: 0 done; 1 error; 2 invalid arguments.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct StatusesArgs {
    /// The resource, by name or ID.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// The output format.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

/// Show the reports of adapters, newest first, and whether each was accepted
///
///   bellwether cluster log demo --last 5
///   bellwether nodepool log workers --cluster demo --last 5
///
/// Exit codes: 0 done; 1 error; 2 invalid arguments.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct LogArgs {
    /// The resource, by name or ID.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// The number of reports to show, from 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) last: u16,

    /// The output format.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}
