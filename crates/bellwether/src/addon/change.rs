//! `bellwether addon upgrade` and `rollback`: show the blast radius, ask for confirmation, and write the change.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use bellwether_lifecycle::report::{BlastRadius, NoPreviousVersion, blast_radius, previous_version};
use bellwether_lifecycle::version::Version;

use super::arguments::{ChangeArgs, RollbackArgs, UpgradeArgs};
use super::blast_radius::{Intent, contradiction, lines};
use super::hub::HubSnapshot;
use super::write::{WriteResult, request_version, write};
use super::{placement_indices, require_placements};
use crate::outcome::Unfinished;
use crate::output::{name_some, print};
use crate::target::Target;

/// How many clusters are listed in each table before the user is asked.
const MAX_LISTED_CLUSTERS: usize = 20;
/// How many clusters are named in a sentence.
const MAX_NAMES: usize = 5;

pub(super) async fn upgrade(arguments: &UpgradeArgs) -> anyhow::Result<()> {
    run(Intent::Upgrade, arguments.version.as_deref(), &arguments.change).await
}

pub(super) async fn rollback(arguments: &RollbackArgs) -> anyhow::Result<()> {
    run(Intent::Rollback, arguments.version.as_deref(), &arguments.change).await
}

async fn run(intent: Intent, version: Option<&str>, arguments: &ChangeArgs) -> anyhow::Result<()> {
    let target = Target::find(&arguments.target).await?;
    loop {
        let snapshot = HubSnapshot::read(&target, &arguments.name).await?;
        require_placements(&snapshot.addon)?;
        let radius = plan_change(intent, version, arguments, &snapshot)?;
        if radius.edits.is_empty() {
            return report_nothing_to_do(&radius);
        }
        let limit = if arguments.dry_run { usize::MAX } else { MAX_LISTED_CLUSTERS };
        print(&lines(&radius, limit).join("\n"))?;
        if arguments.dry_run {
            eprintln!("Nothing was changed: this was a dry run.");
            return Ok(());
        }
        let confirmation = confirm(intent, &radius, arguments)?;
        let edit = |placements: &mut Vec<_>| {
            let version = radius.version.as_str();
            radius.edits.iter().for_each(|edit| request_version(placements, edit.index, version));
        };
        let addon = &radius.addon;
        match (write(&target, &snapshot, edit).await?, confirmation) {
            (WriteResult::Done, _) => return report_written(&radius),
            (WriteResult::Outdated, Confirmation::Terminal) => {
                eprintln!(
                    "{addon} was changed by another client meanwhile; nothing was written. Now it would be:"
                );
            }
            (WriteResult::Outdated, Confirmation::Flag) => {
                let message = format!(
                    "{addon} was changed by another client meanwhile; nothing was written, run the command again"
                );
                return Err(Unfinished::Rejected(message).into());
            }
        }
    }
}

/// The blast radius of the requested change, if the change is valid.
fn plan_change(
    intent: Intent,
    version: Option<&str>,
    arguments: &ChangeArgs,
    snapshot: &HubSnapshot,
) -> anyhow::Result<BlastRadius> {
    let (cache, name) = (&snapshot.cache, snapshot.name());
    let indices = placement_indices(&snapshot.addon, arguments.placement.as_deref())?;
    let radius = match (version, intent) {
        (Some(version), _) => blast_radius(cache, &name, &indices, &existing_version(snapshot, version)?),
        (None, Intent::Upgrade) => {
            let default = cache.catalogue(&name).and_then(|catalogue| catalogue.default_version());
            let default = default.map(Version::as_str).unwrap_or_default();
            blast_radius(cache, &name, &indices, &existing_version(snapshot, default)?)
        }
        (None, Intent::Rollback) => {
            let previous = previous_version(cache, &name, &indices)
                .map_err(|reason| Unfinished::Rejected(explain_no_previous(snapshot, &reason)))?;
            let version = existing_version(snapshot, previous.version.as_str())?;
            let mut radius = blast_radius(cache, &name, &previous.placements, &version);
            let others: Vec<usize> =
                indices.into_iter().filter(|index| !previous.placements.contains(index)).collect();
            radius.add_without_previous(cache, &others);
            radius
        }
    };
    match contradiction(&radius, intent, arguments.placement.as_deref()) {
        Some(message) => Err(Unfinished::Rejected(message).into()),
        None => Ok(radius),
    }
}

fn versions(snapshot: &HubSnapshot) -> Vec<&str> {
    let catalogue = snapshot.addon.metadata.name.as_deref().and_then(|name| snapshot.cache.catalogue(name));
    catalogue.into_iter().flat_map(|catalogue| catalogue.supported()).map(Version::as_str).collect()
}

/// A version that the add-on has; otherwise an error that names those that it has.
fn existing_version(snapshot: &HubSnapshot, version: &str) -> Result<Version, Unfinished> {
    let (name, versions) = (snapshot.name(), versions(snapshot));
    match Version::new(version) {
        _ if versions.is_empty() => Err(Unfinished::Rejected(format!(
            "{name} has no versions: there is no AddOnTemplate with spec.addonName {name}"
        ))),
        Some(version) if versions.contains(&version.as_str()) => Ok(version),
        _ => Err(Unfinished::Rejected(format!(
            "{name} has no version {version}; there are: {}",
            versions.join(", ")
        ))),
    }
}

fn explain_no_previous(snapshot: &HubSnapshot, reason: &NoPreviousVersion) -> String {
    let name = snapshot.name();
    match reason {
        NoPreviousVersion::None => format!(
            "no cluster of {name} had an earlier version; select one with --version: {}",
            versions(snapshot).join(", ")
        ),
        NoPreviousVersion::Different(clusters) => {
            let groups = clusters.iter().map(|(version, clusters)| {
                let clusters: Vec<&str> = clusters.iter().map(String::as_str).collect();
                format!("{version} on {}", name_some(&clusters, MAX_NAMES))
            });
            let groups: Vec<String> = groups.collect();
            format!(
                "the clusters of {name} had different versions before: {}; select one with --version, or some of the \
                 clusters with --placement",
                groups.join("; ")
            )
        }
    }
}

fn report_nothing_to_do(radius: &BlastRadius) -> anyhow::Result<()> {
    let (name, version) = (&radius.addon, &radius.version);
    print(&format!("Nothing to do: the placements of {name} already request {version}."))?;
    let lacks_it = |found: Option<&Version>| found != Some(version);
    if !radius.paused.is_empty() || radius.unchanged.iter().any(|one| lacks_it(one.version.as_ref())) {
        eprintln!("Not every cluster has it; `bellwether addon rollout {name}` shows why.");
    }
    Ok(())
}

/// How the change was confirmed.
#[derive(Clone, Copy)]
enum Confirmation {
    Terminal,
    Flag,
}

fn confirm(intent: Intent, radius: &BlastRadius, arguments: &ChangeArgs) -> anyhow::Result<Confirmation> {
    if arguments.yes {
        return Ok(Confirmation::Flag);
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        let message = "nothing was changed, because there is no terminal to ask for confirmation; --yes makes the \
                       change without confirmation, --dry-run only shows it";
        return Err(Unfinished::Rejected(message.to_owned()).into());
    }
    let verb = match intent {
        Intent::Upgrade => "Upgrade",
        Intent::Rollback => "Roll back",
    };
    let noun = if radius.changes.len() == 1 { "cluster" } else { "clusters" };
    eprint!("\n{verb} {} {noun}? [y/N] ", radius.changes.len());
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(Confirmation::Terminal),
        _ => Err(Unfinished::Rejected("nothing was changed".to_owned()).into()),
    }
}

fn report_written(radius: &BlastRadius) -> anyhow::Result<()> {
    print("")?;
    for edit in &radius.edits {
        let before = edit.from.as_ref().map(|from| format!(" (was {from})")).unwrap_or_default();
        print(&format!("{}: {} requests {}{before}", radius.addon, edit.placement, radius.version))?;
    }
    eprintln!("Follow the rollout with: bellwether addon rollout {} --watch", radius.addon);
    Ok(())
}
