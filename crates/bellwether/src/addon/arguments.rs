//! The arguments of `bellwether addon`.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::cli::{TargetArgs, duration};
use crate::output::Format;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    Status(StatusArgs),
    Rollout(RolloutArgs),
    Upgrade(UpgradeArgs),
    Rollback(RollbackArgs),
    Pause(PauseArgs),
    Resume(ResumeArgs),
}

/// Show add-ons on their clusters: version, state, and why
///
/// Prints a line for each add-on on each cluster, the most urgent first.
///
///   bellwether addon status
///   bellwether addon status helloworld
///   bellwether addon status helloworld -o wide
///   bellwether addon status -o name | xargs -L1 kubectl describe
///
/// DESIRED is the requested version, CURRENT the version whose manifests are completely applied (`unknown` during a change
/// and after a failed one), LAST the version before the last change, to which `addon rollback` returns. STATE is one of
///
///   Succeed      the cluster has the requested version
///   Installing, Upgrading, Rollingback
///                the cluster is changing to the requested version
///   Waiting      the rollout has not reached the cluster, which keeps its version; WHY is what it waits for
///   Failed       the version could not be applied; the controller keeps trying, unless the version does not exist
///   Pending      a version is requested, and no controller has started the change
///   Deleting     the add-on is being deleted from the cluster
///
/// followed by a problem that does not depend on the version, if there is one, for example Succeed,Unreachable:
///
///   Unreachable  the cluster does not renew its Lease
///   Unavailable  an object does not exist, or a workload is not available
///   Silent       the add-on stopped sending heartbeats, or its health is unknown for the reason in WHY
///   Unhealthy    the add-on reports that it is not healthy (`bellwether heartbeat watch` shows it as Down)
///   Degraded     the condition Degraded is True: the add-on reports it, or its running version is no longer provided
///   Unknown      the hub has no current report about the objects and workloads of the add-on
///
/// SINCE is the age of the condition that decides the state. WHY is its message, or why the version is not that of the
/// placement.
///
/// Exit codes: 0 success; 1 error, or no such add-on; 2 invalid arguments.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct StatusArgs {
    /// The name of the add-on. Default: all add-ons.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) name: Option<String>,

    /// The output format: a table; wide, with placement and conditions; the list of ManagedClusterAddOns as JSON or YAML; or
    /// their names as arguments for kubectl.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,

    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Show the progress of the rollouts of an add-on, and what clusters wait for
///
/// Prints a line for each placement and decision group. With --watch it follows the rollouts until they end: on a terminal
/// as a live view, otherwise as a line for each change.
///
///   bellwether addon rollout helloworld
///   bellwether addon rollout helloworld --watch
///   bellwether addon rollout helloworld --watch --timeout 10m
///
/// STATE is one of
///
///   Completed    every cluster has the version
///   Empty        the placement selects no cluster
///   Progressing  clusters are changing
///   Waiting      clusters wait, and none is changing
///   Paused       clusters wait because the rollout is paused
///   Blocked      clusters wait because too many failed, or because the strategy is invalid
///   Failed       no cluster is changing or waiting, and some failed
///   Unknown      the selected clusters are not known
///
/// Placements are listed in the order of the ClusterManagementAddOn. A cluster that several placements select is assigned
/// to the last of them, and counted only there. A cluster that becomes unreachable during its change still counts as
/// changing.
///
/// Exit codes: 0 shown; 1 error; 2 invalid arguments. With --watch: 0 every cluster has its version, or stopped by a
/// signal; 3 not finished before --timeout; 4 a placement is Failed or Blocked. It keeps waiting while a placement is Paused or
/// Unknown.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct RolloutArgs {
    /// The name of the add-on.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) name: String,

    /// Follow the rollouts until they are finished, or until failures stop them.
    #[arg(short, long)]
    pub(crate) watch: bool,

    /// With --watch, the maximum time to follow the rollouts, such as 30s or 10m. Default: no limit.
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "watch")]
    pub(crate) timeout: Option<Duration>,

    /// The output format: a table; wide, with every failed cluster; JSON or YAML, with --watch a document for each change; or
    /// name, which prints the ClusterManagementAddOn as TYPE/NAME.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,

    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Upgrade an add-on to a later version
///
/// Shows which clusters change, from which version and at what pace, and which do not and why. Then it asks for
/// confirmation on a terminal; without a terminal it changes nothing unless --yes is set. The command writes the version to
/// addonTemplate.installVersion of the placements in the ClusterManagementAddOn; the rollout strategy of each placement
/// sets the pace. The command does not wait for the rollout: `bellwether addon rollout NAME --watch` does.
///
///   bellwether addon upgrade helloworld --dry-run
///   bellwether addon upgrade helloworld --version v2 --placement canary-placement
///   bellwether addon upgrade helloworld --yes
///   bellwether addon rollout helloworld --watch
///
/// Exit codes: 0 written, or nothing to do; 1 error; 2 invalid arguments; 4 rejected or not confirmed, and nothing was
/// written.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct UpgradeArgs {
    /// The version to upgrade to. Default: the default version of the add-on, spec.defaultVersion of its ClusterManagementAddOn,
    /// otherwise the highest version that is not a pre-release.
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: Option<String>,

    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

/// Roll an add-on back to an earlier version
///
/// Shows which clusters change and asks for confirmation, as `upgrade` does. Without --version the clusters return to their
/// previous version, if it is the same for all of them; otherwise the command lists the previous versions, changes nothing,
/// and exits with 4.
///
///   bellwether addon rollback helloworld --dry-run
///   bellwether addon rollback helloworld --placement canary-placement
///   bellwether addon rollback helloworld --version v1 --yes
///
/// Exit codes: 0 written, or nothing to do; 1 error; 2 invalid arguments; 4 rejected or not confirmed, and nothing was
/// written.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct RollbackArgs {
    /// The version to return to. Default: the previous version of the clusters.
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: Option<String>,

    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

/// The arguments that upgrade and rollback share.
#[derive(Debug, Args)]
pub(crate) struct ChangeArgs {
    /// The name of the add-on.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) name: String,

    /// Only this placement of the add-on, as NAME or NAMESPACE/NAME. Default: all placements.
    #[arg(long, value_name = "PLACEMENT")]
    pub(crate) placement: Option<String>,

    /// Only show the clusters that would change.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Make the change without asking for confirmation.
    #[arg(short, long, conflicts_with = "dry_run")]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Pause the rollouts of an add-on
///
/// Clusters that have started to change finish; all others keep their version until `bellwether addon resume`.
///
///   bellwether addon pause helloworld
///   bellwether addon pause helloworld --placement global-placement
///
/// Exit codes: 0 paused; 1 error; 2 invalid arguments; 4 rejected, and nothing was written.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    pub(crate) what: PausedArgs,
}

/// Resume rollouts that `bellwether addon pause` paused
///
///   bellwether addon resume helloworld
///   bellwether addon resume helloworld --placement global-placement
///
/// Exit codes: 0 resumed; 1 error; 2 invalid arguments; 4 rejected, and nothing was written.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    pub(crate) what: PausedArgs,
}

/// The rollouts to pause or resume.
#[derive(Debug, Args)]
pub(crate) struct PausedArgs {
    /// The name of the add-on.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) name: String,

    /// Only this placement of the add-on, as NAME or NAMESPACE/NAME. Default: all placements.
    #[arg(long, value_name = "PLACEMENT")]
    pub(crate) placement: Option<String>,

    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Parses the name of an object, which becomes part of paths and selectors.
fn name(text: &str) -> Result<String, String> {
    let inside =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-.".contains(letter);
    let fits = !text.is_empty() && text.len() <= 253 && text.chars().all(inside);
    if fits && !text.starts_with(['-', '.']) && !text.ends_with(['-', '.']) {
        return Ok(text.to_owned());
    }
    Err("the name of an add-on consists of lower-case letters, digits, '-' and '.'".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_must_be_a_valid_object_name() {
        for good in ["helloworld", "a", "hello-addon.v1"] {
            assert_eq!(name(good), Ok(good.to_owned()));
        }
        for bad in ["", "a,metadata.namespace=b", "../x", "Hello", "a b", "-a", "a.", &"a".repeat(254)] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }
}
