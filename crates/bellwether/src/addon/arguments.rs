//! What a person types after `bellwether addon`.

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

/// Show add-ons on their clusters: which version each has, how it is, and why
///
/// A line for each cluster, those in trouble first.
///
///   bellwether addon status
///   bellwether addon status helloworld
///   bellwether addon status helloworld -o wide
///   bellwether addon status -o name | xargs -L1 kubectl describe
///
/// DESIRED is the version that is asked for, CURRENT the one that is there (`unknown` while that changes), LAST the one
/// that was asked for before. STATE is one of
///
///   Succeed      it has the version that is asked for
///   Installing, Upgrading, Rollingback
///                it is on its way there
///   Waiting      its turn in the rollout has not come; it keeps what it has
///   Failed       it could not be brought there; it is tried again
///   Pending      a version is asked for, and no controller has begun
///   Deleting     it is being taken away
///
/// and, where the version is not all that there is to say, also of
///
///   Unreachable  nothing is heard from its cluster
///   Unavailable  an object is missing, or a workload is not up
///   Silent       its heartbeats stopped
///   Unhealthy    it says itself that it is not well
///   Degraded     it works, and something is wrong
///   Unknown      nobody can tell how it is
///
/// SINCE is the age of the condition that decides, WHY what that says.
///
/// Exit codes: 0 shown; 1 error, or no such add-on; 2 usage.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct StatusArgs {
    /// Only this add-on. Without it: all.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) name: Option<String>,

    /// How to print: a table, wide with placement and conditions, the ManagedClusterAddOns as a list in JSON or YAML,
    /// or their names as kubectl takes them.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,

    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Show how far the rollout of an add-on is: by placement and group, and what clusters wait for
///
/// With --watch it follows the rollout to its end: on a terminal as a picture that is kept up to date, elsewhere as a
/// line for every change.
///
///   bellwether addon rollout helloworld
///   bellwether addon rollout helloworld --watch
///   bellwether addon rollout helloworld --watch --timeout 10m && echo everywhere
///
/// The placements come in the order of the ClusterManagementAddOn. A cluster that several have chosen goes by the last,
/// and is counted there alone.
///
/// Exit codes: 0 shown, or with --watch: every cluster has its version, or stopped by a signal; 1 error; 2 usage;
/// 3 not finished in time; 4 failures keep it from being finished.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct RolloutArgs {
    /// The add-on.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) name: String,

    /// Follow it until it is finished, or until failures stop it.
    #[arg(short, long)]
    pub(crate) watch: bool,

    /// How long to follow it at most, such as 30s or 10m. Without it: as long as it takes.
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "watch")]
    pub(crate) timeout: Option<Duration>,

    /// How to print: a table; wide, with every cluster that fails; JSON or YAML, with --watch a document for each change; or
    /// the name.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,

    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Bring a later version to the clusters of an add-on
///
/// Shows first which clusters change, from what to what and at what pace, and which do not and why. On a terminal it
/// then asks; elsewhere it changes nothing without --yes. What it writes is the version of the placements in the
/// ClusterManagementAddOn; the rollout strategy of each placement sets the pace.
///
///   bellwether addon upgrade helloworld --dry-run
///   bellwether addon upgrade helloworld --version v2 --placement canary-placement
///   bellwether addon upgrade helloworld --yes
///   bellwether addon rollout helloworld --watch
///
/// Exit codes: 0 done, or nothing to do; 1 error; 2 usage; 4 refused, and nothing was written.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct UpgradeArgs {
    /// The version. Without it: the default of the add-on, which is the highest that is no pre-release unless its
    /// ClusterManagementAddOn says otherwise.
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: Option<String>,

    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

/// Bring the clusters of an add-on back to an earlier version
///
/// Shows first which clusters change, as `upgrade` does, and asks. Without --version each cluster goes back to what it
/// had before, if that is the same version for all; else it says which they are, and asks for --version.
///
///   bellwether addon rollback helloworld --dry-run
///   bellwether addon rollback helloworld --placement canary-placement
///   bellwether addon rollback helloworld --version v1 --yes
///
/// Exit codes: 0 done, or nothing to do; 1 error; 2 usage; 4 refused, and nothing was written.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct RollbackArgs {
    /// The version. Without it: the one that the clusters had before.
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: Option<String>,

    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

/// What upgrades and rollbacks have in common.
#[derive(Debug, Args)]
pub(crate) struct ChangeArgs {
    /// The add-on.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) name: String,

    /// Only this placement of the add-on, as NAME or NAMESPACE/NAME. Without it: all.
    #[arg(long, value_name = "PLACEMENT")]
    pub(crate) placement: Option<String>,

    /// Show every cluster that would change, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Do not ask.
    #[arg(short, long, conflicts_with = "dry_run")]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Let no other cluster begin to change
///
/// Clusters that have begun go on; all others keep what they have until `bellwether addon resume`.
///
///   bellwether addon pause helloworld
///   bellwether addon pause helloworld --placement global-placement
///
/// Exit codes: 0 paused; 1 error; 2 usage; 4 refused, and nothing was written.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    pub(crate) what: PausedArgs,
}

/// Let the clusters go on that `bellwether addon pause` holds
///
///   bellwether addon resume helloworld
///   bellwether addon resume helloworld --placement global-placement
///
/// Exit codes: 0 resumed; 1 error; 2 usage; 4 refused, and nothing was written.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    pub(crate) what: PausedArgs,
}

/// What is paused or resumed.
#[derive(Debug, Args)]
pub(crate) struct PausedArgs {
    /// The add-on.
    #[arg(value_name = "NAME", value_parser = name)]
    pub(crate) name: String,

    /// Only this placement of the add-on, as NAME or NAMESPACE/NAME. Without it: all.
    #[arg(long, value_name = "PLACEMENT")]
    pub(crate) placement: Option<String>,

    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// A name that an object can have; it goes into paths and selectors.
fn name(text: &str) -> Result<String, String> {
    let inside =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-.".contains(letter);
    let fits = !text.is_empty() && text.len() <= 253 && text.chars().all(inside);
    if fits && !text.starts_with(['-', '.']) && !text.ends_with(['-', '.']) {
        return Ok(text.to_owned());
    }
    Err("the name of an add-on has small letters, digits, '-' and '.'".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_an_object_can_have() {
        for good in ["helloworld", "a", "hello-world.v1"] {
            assert_eq!(name(good), Ok(good.to_owned()));
        }
        for bad in ["", "a,metadata.namespace=b", "../x", "Hello", "a b", "-a", "a.", &"a".repeat(254)] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }
}
