//! `bellwether addon pause` and `resume`: whether more clusters start to change.

use bellwether_lifecycle::assignment::placement_name;
use bellwether_lifecycle::report::addon_progress;

use super::arguments::PausedArgs;
use super::hub::HubSnapshot;
use super::write::{WriteResult, set_paused, write};
use super::{placement_indices, require_placements};
use crate::outcome::Unfinished;
use crate::output::print;
use crate::target::Target;

/// How often the write is retried after others changed the add-on.
const MAX_ATTEMPTS: usize = 3;

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PauseAction {
    Pause,
    Resume,
}

pub(super) async fn run(action: PauseAction, arguments: &PausedArgs) -> anyhow::Result<()> {
    let target = Target::find(&arguments.target).await?;
    // Whatever else another user has changed, this is still wanted.
    for _ in 0..MAX_ATTEMPTS {
        let snapshot = HubSnapshot::read(&target, &arguments.name).await?;
        require_placements(&snapshot.addon)?;
        let indices = placement_indices(&snapshot.addon, arguments.placement.as_deref())?;
        let paused = action == PauseAction::Pause;
        let placements = &snapshot.addon.spec.install_strategy.placements;
        let differs = |index: &usize| placements.get(*index).is_some_and(|one| one.paused != paused);
        let changed: Vec<usize> = indices.iter().copied().filter(differs).collect();
        let edit = |placements: &mut Vec<_>| {
            changed.iter().for_each(|index| set_paused(placements, *index, paused));
        };
        if !changed.is_empty() && write(&target, &snapshot, edit).await? == WriteResult::Outdated {
            continue;
        }
        print_result(action, &snapshot, &indices, &changed)?;
        let (changing, waiting) = match action {
            // Which clusters had started is known only after the write; which clusters waited, only before it.
            PauseAction::Pause => count(&HubSnapshot::read(&target, &arguments.name).await?, &indices),
            PauseAction::Resume => count(&snapshot, &changed),
        };
        eprintln!("{}", summarize(action, &arguments.name, changing, waiting));
        return Ok(());
    }
    let message = format!(
        "{} was changed by another client {MAX_ATTEMPTS} times in a row; nothing was written, try again",
        arguments.name
    );
    Err(Unfinished::Rejected(message).into())
}

fn print_result(
    action: PauseAction,
    snapshot: &HubSnapshot,
    indices: &[usize],
    changed: &[usize],
) -> anyhow::Result<()> {
    let name = snapshot.name();
    let placements = snapshot.addon.spec.install_strategy.placements.iter().enumerate();
    for (index, placement) in placements.filter(|(index, _)| indices.contains(index)) {
        let state = match (action, changed.contains(&index)) {
            (PauseAction::Pause, true) => "is paused",
            (PauseAction::Pause, false) => "was already paused",
            (PauseAction::Resume, true) => "is resumed",
            (PauseAction::Resume, false) => "was not paused",
        };
        print(&format!("{name}: {} {state}", placement_name(placement)))?;
    }
    Ok(())
}

/// How many clusters of these placements are changing, and how many wait.
fn count(snapshot: &HubSnapshot, indices: &[usize]) -> (usize, usize) {
    let progress = addon_progress(&snapshot.cache, &snapshot.name());
    let counts = progress.placements.iter().enumerate().filter(|(index, _)| indices.contains(index));
    counts.fold((0, 0), |(changing, waiting), (_, one)| {
        (changing + one.total.changing, waiting + one.total.waiting)
    })
}

/// The effect on the clusters.
fn summarize(action: PauseAction, name: &str, changing: usize, waiting: usize) -> String {
    let in_progress = match changing {
        0 => "No cluster is changing".to_owned(),
        1 => "1 cluster is changing and will finish".to_owned(),
        changing => format!("{changing} clusters are changing and will finish"),
    };
    let rest = match (changing, waiting) {
        (0, 0) => ", and none starts".to_owned(),
        (_, 0) => "; no other cluster starts".to_owned(),
        (_, 1) => "; 1 waits".to_owned(),
        (_, waiting) => format!("; {waiting} wait"),
    };
    let clusters = if waiting == 1 { "cluster was" } else { "clusters were" };
    match action {
        PauseAction::Pause => format!("{in_progress}{rest} until you run: bellwether addon resume {name}"),
        PauseAction::Resume if waiting == 0 => "No cluster waits.".to_owned(),
        PauseAction::Resume => format!(
            "{waiting} {clusters} waiting; the rollout strategy of each placement decides when they start. Follow the rollout \
             with: bellwether addon rollout {name} --watch"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_counts_changing_and_waiting_clusters() {
        let rows = [
            (
                PauseAction::Pause,
                0,
                0,
                "No cluster is changing, and none starts until you run: bellwether addon resume hello",
            ),
            (
                PauseAction::Pause,
                1,
                12,
                "1 cluster is changing and will finish; 12 wait until you run: bellwether addon resume hello",
            ),
            (PauseAction::Resume, 0, 0, "No cluster waits."),
            (
                PauseAction::Resume,
                0,
                2,
                "2 clusters were waiting; the rollout strategy of each placement decides when they start. Follow the rollout with: bellwether addon rollout hello --watch",
            ),
        ];
        for (action, changing, waiting, expected) in rows {
            assert_eq!(summarize(action, "hello", changing, waiting), expected);
        }
    }
}
