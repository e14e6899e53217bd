//! What a person types after `bellwether cluster` and `bellwether nodepool`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::cli::duration;
use crate::output::Format;

/// Clusters of the fleet: what there is, whether it is ready at the generation that was asked for, and changes to it
///
///   bellwether cluster create demo --spec '{"region": "eu-west-1"}' --label env=prod
///   bellwether cluster get
///   bellwether cluster get --search "labels.env = 'prod' and status.conditions.Ready = 'False'"
///   bellwether cluster describe demo
///   bellwether cluster get --watch
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ClusterArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(subcommand)]
    pub(crate) action: Action,
}

/// Node pools of the fleet's clusters
///
///   bellwether nodepool create workers --cluster demo --spec '{"replicas": 3}'
///   bellwether nodepool get --cluster demo
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct NodepoolArgs {
    /// The cluster of the node pools, by name or id. Needed to create one, and wherever the name alone is not enough.
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) cluster: Option<String>,

    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(subcommand)]
    pub(crate) action: Action,
}

/// Which fleet API a command talks to, and as whom.
#[derive(Debug, Args)]
pub(crate) struct ConnectionArgs {
    /// The address of the fleet API, such as http://127.0.0.1:8000. Without it: ./.bellwether/endpoints.json, which
    /// `bellwether up` keeps.
    #[arg(long, value_name = "URL", env = "BELLWETHER_API", global = true)]
    pub(crate) api: Option<String>,

    /// A file with a bearer token to be known by.
    #[arg(long, value_name = "FILE", env = "BELLWETHER_TOKEN_FILE", global = true)]
    pub(crate) token_file: Option<PathBuf>,

    /// A file with the certificates to trust instead of those of this machine.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) certificate_authority: Option<PathBuf>,

    /// A header to send along, such as one that names a tenant. May be given again.
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
    Statuses(StatusesArgs),
    Log(LogArgs),
}

/// Show what there is
///
/// READY says whether every required adapter is well at the generation that is asked for now; AVAILABLE whether the last
/// generation at which all were well still is, and which generation that was where it is an older one.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// Only these, by name or id.
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Only those that match, such as "labels.env = 'prod' and generation > 1". docs/fleet-api.md has the language.
    #[arg(long, value_name = "SEARCH", conflicts_with_all = ["names", "watch"])]
    pub(crate) search: Option<String>,

    /// In which order, such as name, or "created_time desc".
    #[arg(long, value_name = "ORDER", default_value = "name", conflicts_with = "watch")]
    pub(crate) order: String,

    /// Go on: print a line for every change, until Ctrl-C.
    #[arg(short, long, conflicts_with = "names")]
    pub(crate) watch: bool,

    /// How to print.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

/// Show one with all that is known of it: its conditions and why, what its adapters say, the last reports
#[derive(Debug, Args)]
pub(crate) struct DescribeArgs {
    /// Which, by name or id.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Create one
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Its name.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) spec: SpecArgs,

    /// A label. May be given again.
    #[arg(short, long = "label", value_name = "KEY=VALUE")]
    pub(crate) labels: Vec<String>,

    /// How to print it.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Name)]
    pub(crate) output: Format,
}

/// What is wanted.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct SpecArgs {
    /// The spec, as JSON or YAML.
    #[arg(long, value_name = "TEXT")]
    pub(crate) spec: Option<String>,

    /// A file with the spec, as JSON or YAML; - is standard input.
    #[arg(short = 'f', long, value_name = "FILE")]
    pub(crate) spec_file: Option<PathBuf>,
}

/// Change what is wanted of one
///
/// A spec replaces the one that was. Labels are added to those that are there, which are read first; KEY- removes one. Of
/// two who change labels at the same moment the later wins.
#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    /// Which, by name or id.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) spec: SpecArgs,

    /// A label to set, or with KEY- to remove. May be given again.
    #[arg(short, long = "label", value_name = "KEY=VALUE")]
    pub(crate) labels: Vec<String>,

    /// How to print it.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Name)]
    pub(crate) output: Format,
}

/// Delete one, and all that belongs to it
///
/// It goes when its adapters have cleaned up after it. With --force it goes at once, and what they look after stays behind.
///
/// Exit codes: 0 done, 1 error, 2 usage, 3 not gone in time.
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// Which, by name or id.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Wait until it is gone.
    #[arg(long)]
    pub(crate) wait: bool,

    /// How long to wait at most, such as 30s or 5m.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration, requires = "wait")]
    pub(crate) timeout: Duration,

    /// Remove it at once, whoever still has to clean up.
    #[arg(long, requires = "reason")]
    pub(crate) force: bool,

    /// Why nobody needs to clean up.
    #[arg(long, value_name = "TEXT", requires = "force")]
    pub(crate) reason: Option<String>,
}

/// Show what its adapters last said
#[derive(Debug, Args)]
pub(crate) struct StatusesArgs {
    /// Which, by name or id.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// How to print.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

/// Show the reports that came in, newest first, and what became of each
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Which, by name or id.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// How many.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) last: u16,

    /// How to print.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}
