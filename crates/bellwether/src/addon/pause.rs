//! `bellwether addon pause` and `resume`: whether clusters begin to change.

use jiff::Timestamp;
use kube::ResourceExt as _;

use super::arguments::PausedArgs;
use super::hub::{self, Picture};
use super::progress::Progress;
use super::reach;
use super::write::{Written, set_paused, write};
use super::{places, refuse_manual};
use crate::outcome::NotDone;
use crate::output::print;
use crate::target::Target;

/// How often it is tried against others who change the add-on.
const ATTEMPTS: usize = 3;

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Pause,
    Resume,
}

impl Wish {
    /// How a placement is then, where that is new, and where it is not.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Pause => ("is paused", "was paused already"),
            Self::Resume => ("goes on", "was not paused"),
        }
    }
}

pub(super) async fn run(wish: Wish, arguments: &PausedArgs) -> anyhow::Result<()> {
    let target = Target::find(&arguments.target).await?;
    // Whatever else somebody has changed, this is still wanted.
    for _ in 0..ATTEMPTS {
        let picture = hub::picture(&target, &arguments.name).await?;
        refuse_manual(&picture.addon)?;
        let places = places(&picture.addon, arguments.placement.as_deref())?;
        let change = to_change(&picture, &places, wish);
        let edit = |placements: &mut Vec<_>| {
            change.iter().for_each(|place| set_paused(placements, *place, wish == Wish::Pause));
        };
        if !change.is_empty() && write(&target, &picture, edit).await? == Written::Outdated {
            continue;
        }
        tell(wish, &picture, &places, &change)?;
        let (moving, waiting) = match wish {
            // Who had begun by then is known only now; who waited, before.
            Wish::Pause => in_flight(&hub::picture(&target, &arguments.name).await?, &places),
            Wish::Resume => in_flight(&picture, &change),
        };
        eprintln!("{}", sentence(wish, &arguments.name, moving, waiting));
        return Ok(());
    }
    let words =
        format!("{} is changed by others all the time; nothing was written, try again", arguments.name);
    Err(NotDone::Refused(words).into())
}

/// The places of those that are not so already.
fn to_change(picture: &Picture, places: &[usize], wish: Wish) -> Vec<usize> {
    let placements = picture.addon.spec.install_strategy.placements.iter().enumerate();
    placements
        .filter(|(place, placement)| places.contains(place) && placement.paused != (wish == Wish::Pause))
        .map(|(place, _)| place)
        .collect()
}

fn tell(wish: Wish, picture: &Picture, places: &[usize], changed: &[usize]) -> anyhow::Result<()> {
    let name = picture.addon.name_any();
    let placements = picture.addon.spec.install_strategy.placements.iter().enumerate();
    for (place, placement) in placements.filter(|(place, _)| places.contains(place)) {
        let (new, old) = wish.words();
        let word = if changed.contains(&place) { new } else { old };
        print(&format!("{name}: {} {word}", reach::name(placement)))?;
    }
    Ok(())
}

/// How many clusters of these placements change, and how many wait.
fn in_flight(picture: &Picture, places: &[usize]) -> (usize, usize) {
    let progress = Progress::of(picture, Timestamp::now());
    let placed = progress.placements.iter().enumerate().filter(|(place, _)| places.contains(place));
    placed.fold((0, 0), |(moving, waiting), (_, placed)| {
        (moving + placed.total.in_progress, waiting + placed.total.waiting)
    })
}

/// What comes of it.
fn sentence(wish: Wish, name: &str, moving: usize, waiting: usize) -> String {
    let clusters =
        |count: usize| if count == 1 { "1 cluster".to_owned() } else { format!("{count} clusters") };
    let moves = match moving {
        0 => "No cluster is in flight".to_owned(),
        1 => "1 cluster is in flight and will finish".to_owned(),
        moving => format!("{moving} clusters are in flight and will finish"),
    };
    let rest = match (moving, waiting) {
        (0, 0) => "none begins".to_owned(),
        (_, 0) => "no other begins".to_owned(),
        (_, 1) => "1 waits".to_owned(),
        (_, waiting) => format!("{waiting} wait"),
    };
    match wish {
        Wish::Pause => format!("{moves}; {rest} until: bellwether addon resume {name}"),
        Wish::Resume if waiting == 0 => "No cluster waits.".to_owned(),
        Wish::Resume => format!(
            "{} waited, and may begin now. Follow it with: bellwether addon rollout {name} --watch",
            clusters(waiting)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_of_it_is_said() {
        let rows = [
            (Wish::Pause, 0, 0, "No cluster is in flight; none begins until: bellwether addon resume hello"),
            (
                Wish::Pause,
                1,
                12,
                "1 cluster is in flight and will finish; 12 wait until: bellwether addon resume hello",
            ),
            (Wish::Resume, 0, 0, "No cluster waits."),
            (
                Wish::Resume,
                0,
                2,
                "2 clusters waited, and may begin now. Follow it with: bellwether addon rollout hello --watch",
            ),
        ];
        for (wish, moving, waiting, wanted) in rows {
            assert_eq!(sentence(wish, "hello", moving, waiting), wanted);
        }
    }
}
