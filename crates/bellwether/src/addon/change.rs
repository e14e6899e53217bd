//! `bellwether addon upgrade` and `rollback`: shows what would change, asks, and changes it.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use super::arguments::{ChangeArgs, RollbackArgs, UpgradeArgs};
use super::hub::{self, Picture};
use super::radius::{Intent, Radius, default_version, radius, supported_version, way_back};
use super::write::{Written, ask_for, write};
use super::{places, refuse_manual};
use crate::outcome::NotDone;
use crate::output::print;
use crate::target::Target;

/// How many clusters are shown of each kind before a person is asked.
const SHOWN: usize = 20;

pub(super) async fn upgrade(arguments: &UpgradeArgs) -> anyhow::Result<()> {
    run(Intent::Upgrade, arguments.version.as_deref(), &arguments.change).await
}

pub(super) async fn rollback(arguments: &RollbackArgs) -> anyhow::Result<()> {
    run(Intent::Rollback, arguments.version.as_deref(), &arguments.change).await
}

async fn run(intent: Intent, version: Option<&str>, arguments: &ChangeArgs) -> anyhow::Result<()> {
    let target = Target::find(&arguments.target).await?;
    loop {
        let picture = hub::picture(&target, &arguments.name).await?;
        refuse_manual(&picture.addon)?;
        let radius = plan(intent, version, arguments, &picture)?;
        if radius.edits.is_empty() {
            return nothing_to_do(&radius);
        }
        let most = if arguments.dry_run { usize::MAX } else { SHOWN };
        print(&radius.lines(most).join("\n"))?;
        if arguments.dry_run {
            eprintln!("Nothing was changed: this was a dry run.");
            return Ok(());
        }
        let asked = confirm(intent, &radius, arguments)?;
        let edit = |placements: &mut Vec<_>| {
            radius.edits.iter().for_each(|edit| ask_for(placements, edit.place, &radius.version));
        };
        match (write(&target, &picture, edit).await?, asked) {
            (Written::Done, _) => return done(&radius),
            (Written::Outdated, Asked::Terminal) => {
                eprintln!(
                    "Somebody has changed {} meanwhile; nothing was written. Now it would be:",
                    radius.addon
                );
            }
            (Written::Outdated, Asked::Nobody) => {
                let words = format!(
                    "somebody has changed {} meanwhile; nothing was written, look again",
                    radius.addon
                );
                return Err(NotDone::Refused(words).into());
            }
        }
    }
}

/// What is to be done, if it makes sense.
fn plan(
    intent: Intent,
    version: Option<&str>,
    arguments: &ChangeArgs,
    picture: &Picture,
) -> anyhow::Result<Radius> {
    let places = places(&picture.addon, arguments.placement.as_deref())?;
    let supported = |version: &str| supported_version(&picture.addon, version).map_err(NotDone::Refused);
    let radius = match (version, intent) {
        (Some(version), _) => radius(picture, &places, &supported(version)?),
        (None, Intent::Upgrade) => {
            radius(picture, &places, &default_version(&picture.addon).map_err(NotDone::Refused)?)
        }
        (None, Intent::Rollback) => {
            let back = way_back(picture, &places).map_err(NotDone::Refused)?;
            let mut radius = radius(picture, &back.places, &supported(&back.version)?);
            let stay: Vec<usize> = places.into_iter().filter(|place| !back.places.contains(place)).collect();
            radius.spare(picture, &stay);
            radius
        }
    };
    match radius.contradicts(intent, arguments.placement.as_deref()) {
        Some(words) => Err(NotDone::Refused(words).into()),
        None => Ok(radius),
    }
}

fn nothing_to_do(radius: &Radius) -> anyhow::Result<()> {
    let (name, version) = (&radius.addon, &radius.version);
    let waiting = radius.spared.iter().any(|one| one.version != *version);
    print(&format!("Nothing to do: {version} of {name} is asked for already."))?;
    if waiting {
        eprintln!("Not every cluster has it; `bellwether addon rollout {name}` says why.");
    }
    Ok(())
}

/// Who has said yes.
#[derive(Clone, Copy)]
enum Asked {
    Terminal,
    Nobody,
}

fn confirm(intent: Intent, radius: &Radius, arguments: &ChangeArgs) -> anyhow::Result<Asked> {
    if arguments.yes {
        return Ok(Asked::Nobody);
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        let words = "nothing was changed, because there is no terminal to ask on: --yes does it without being asked, \
                     --dry-run only shows it";
        return Err(NotDone::Refused(words.to_owned()).into());
    }
    let verb = match intent {
        Intent::Upgrade => "Upgrade",
        Intent::Rollback => "Roll back",
    };
    let noun = if radius.touched.len() == 1 { "cluster" } else { "clusters" };
    eprint!("\n{verb} {} {noun}? [y/N] ", radius.touched.len());
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(Asked::Terminal),
        _ => Err(NotDone::Refused("nothing was changed".to_owned()).into()),
    }
}

fn done(radius: &Radius) -> anyhow::Result<()> {
    print("")?;
    for edit in &radius.edits {
        let before = if edit.from.is_empty() { String::new() } else { format!(", {} before", edit.from) };
        print(&format!("{}: {} asks for {}{before}", radius.addon, edit.placement, radius.version))?;
    }
    eprintln!("Follow it with: bellwether addon rollout {} --watch", radius.addon);
    Ok(())
}
