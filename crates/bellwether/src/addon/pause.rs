//! `bellwether addon pause` and `resume`: whether clusters begin to change.

use jiff::Timestamp;

use super::arguments::PausedArgs;
use super::hub::{self, Picture};
use super::progress::{Placed, Progress};
use super::reach;
use super::write::{Written, set_paused, write};
use super::{NAME_OF_ADDON, places, refuse_manual};
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
    /// How a placement is then.
    fn word(self) -> &'static str {
        match self {
            Self::Pause => "paused",
            Self::Resume => "resumed",
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
        if change.is_empty() || write(&target, &picture, edit).await? == Written::Done {
            return tell(wish, &picture, &places, &change);
        }
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
    let progress = Progress::of(picture, Timestamp::now());
    let name = &progress.addon;
    let placements = picture.addon.spec.install_strategy.placements.iter().enumerate();
    for (place, placement) in placements.filter(|(place, _)| places.contains(place)) {
        let already = if changed.contains(&place) { "" } else { "already " };
        let already = if wish == Wish::Resume && !already.is_empty() { "not paused" } else { already };
        let word =
            if already == "not paused" { already.to_owned() } else { format!("{already}{}", wish.word()) };
        print(&format!("{NAME_OF_ADDON}/{name}: {} {word}", reach::name(placement)))?;
    }
    let placed: Vec<&Placed> = progress
        .placements
        .iter()
        .enumerate()
        .filter(|(place, _)| places.contains(place))
        .map(|(_, placed)| placed)
        .collect();
    let count = |of: fn(&Placed) -> usize| placed.iter().map(|placed| of(placed)).sum::<usize>();
    let (moving, waiting) = (count(|one| one.total.in_progress), count(|one| one.total.waiting));
    for line in sentences(wish, name, moving, waiting) {
        eprintln!("{line}");
    }
    Ok(())
}

/// What comes of it.
fn sentences(wish: Wish, name: &str, moving: usize, waiting: usize) -> Vec<String> {
    let clusters =
        |count: usize| if count == 1 { "1 cluster".to_owned() } else { format!("{count} clusters") };
    let has = |count: usize| if count == 1 { "has" } else { "have" };
    match wish {
        Wish::Pause => vec![
            match moving {
                0 => "No cluster is in flight.".to_owned(),
                moving => format!("{} {} begun, and will finish.", clusters(moving), has(moving)),
            },
            format!(
                "{} {} not begun, and will not until: bellwether addon resume {name}",
                if waiting == 0 { "Others".to_owned() } else { clusters(waiting) },
                if waiting == 0 { "have" } else { has(waiting) },
            ),
        ],
        Wish::Resume if waiting == 0 => vec!["No cluster waits.".to_owned()],
        Wish::Resume => vec![format!(
            "{} waited, and may begin now. Follow it with: bellwether addon rollout {name} --watch",
            clusters(waiting)
        )],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_of_it_is_said() {
        let rows: [(Wish, usize, usize, &[&str]); 5] = [
            (
                Wish::Pause,
                0,
                0,
                &[
                    "No cluster is in flight.",
                    "Others have not begun, and will not until: bellwether addon resume hello",
                ],
            ),
            (
                Wish::Pause,
                1,
                1,
                &[
                    "1 cluster has begun, and will finish.",
                    "1 cluster has not begun, and will not until: bellwether addon resume hello",
                ],
            ),
            (
                Wish::Pause,
                2,
                12,
                &[
                    "2 clusters have begun, and will finish.",
                    "12 clusters have not begun, and will not until: bellwether addon resume hello",
                ],
            ),
            (Wish::Resume, 0, 0, &["No cluster waits."]),
            (
                Wish::Resume,
                0,
                2,
                &[
                    "2 clusters waited, and may begin now. Follow it with: bellwether addon rollout hello --watch",
                ],
            ),
        ];
        for (wish, moving, waiting, wanted) in rows {
            assert_eq!(sentences(wish, "hello", moving, waiting), wanted);
        }
    }
}
