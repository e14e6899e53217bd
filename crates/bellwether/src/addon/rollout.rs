//! `bellwether addon rollout`: shows the progress of the rollouts of an add-on, once or until they end.

use std::sync::Arc;
use std::time::Duration;

use bellwether_lifecycle::hub::{HubCache, watch_addon};
use bellwether_lifecycle::report::{AddonProgress, End, addon_progress};
use bellwether_runtime::{Context, IndexSource as _};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::{Instant, MissedTickBehavior};

use super::arguments::RolloutArgs;
use super::hub::HubSnapshot;
use super::view::{self, Detail};
use super::{ADDON_RESOURCE, require_placements};
use crate::outcome::Unfinished;
use crate::output::{Format, colour, name_some, print, time_of_day, yaml};
use crate::screen::{LiveView, frame};
use crate::signals::StopSignals;
use crate::target::Target;

/// How long changes are debounced before they are shown.
const DEBOUNCE: Duration = Duration::from_millis(250);
/// How often the progress is computed while nothing but the time changes.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// How long failures must have stopped a rollout before the command gives up: the controller may succeed in a retry.
const BLOCKED_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn run(arguments: &RolloutArgs) -> anyhow::Result<()> {
    let target = Target::find(&arguments.target).await?;
    // Also with --watch: reports what is missing or forbidden at once, where a watch would retry.
    let snapshot = HubSnapshot::read(&target, &arguments.name).await?;
    require_placements(&snapshot.addon)?;
    if arguments.watch {
        drop(snapshot);
        return watch(&target, arguments).await;
    }
    show(&addon_progress(&snapshot.cache, &arguments.name), arguments.output)
}

fn show(progress: &AddonProgress, format: Format) -> anyhow::Result<()> {
    let text = match format {
        Format::Table => view::lines(progress, Detail::Some, colour()).join("\n"),
        Format::Wide => view::lines(progress, Detail::All, colour()).join("\n"),
        Format::Json => serde_json::to_string_pretty(progress)?,
        Format::Yaml => yaml(progress)?,
        Format::Name => format!("{ADDON_RESOURCE}/{}", progress.addon),
    };
    Ok(print(&text)?)
}

async fn watch(target: &Target, arguments: &RolloutArgs) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    let follow = follow(target, arguments);
    let limited = async {
        match arguments.timeout {
            Some(limit) => tokio::time::timeout(limit, follow).await,
            None => Ok(follow.await),
        }
    };
    tokio::select! {
        ended = limited => match ended {
            Ok(ended) => ended,
            Err(_) => Err(timed_out(arguments).into()),
        },
        () = signals.next() => Ok(()),
    }
}

fn timed_out(arguments: &RolloutArgs) -> Unfinished {
    Unfinished::TimedOut(format!(
        "the rollout of {name} is not finished after {:?}; `bellwether addon rollout {name}` shows what it waits for",
        arguments.timeout.unwrap_or_default(),
        name = arguments.name,
    ))
}

/// Shows the progress after every change, until the rollouts end.
async fn follow(target: &Target, arguments: &RolloutArgs) -> anyhow::Result<()> {
    let name = arguments.name.as_str();
    let mut view = View::choose(arguments.output)?;
    let cache = Arc::new(Mutex::new(HubCache::default()));
    let context = Context::standalone(target.client.clone());
    let mut watches = watch_addon("addon-rollout", &context, cache.clone(), name);
    let mut ticks = tokio::time::interval(DEBOUNCE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut blocked: Option<(Vec<String>, Instant)> = None;
    let mut error: Option<String> = None;
    // When the progress was last computed, if nothing has changed since.
    let mut computed: Option<Instant> = None;
    loop {
        tokio::select! {
            () = watches.changed() => computed = None,
            _ = ticks.tick() => {
                let failure = watches.error().map(|error| format!("cannot watch {target}: {error}"));
                if failure != error {
                    failure.iter().for_each(|message| view.warn(message));
                    (error, computed) = (failure, None);
                }
                let is_current = computed.is_some_and(|since| since.elapsed() < REFRESH_INTERVAL);
                if !watches.is_synced() || is_current {
                    continue;
                }
                computed = Some(Instant::now());
                let progress = compute(&mut cache.lock(), name)?;
                view.show(&progress, error.as_deref())?;
                match progress.end() {
                    None => blocked = None,
                    Some(End::Completed) => return view.finish(&progress),
                    Some(End::Blocked(placements)) => {
                        let since = match &blocked {
                            Some((known, since)) if *known == placements => *since,
                            _ => Instant::now(),
                        };
                        if since.elapsed() >= BLOCKED_TIMEOUT {
                            drop(view);
                            return Err(stopped(&progress, &placements).into());
                        }
                        blocked = Some((placements, since));
                    }
                }
            }
        }
    }
}

/// Plans the rollouts as the lifecycle controller does.
fn compute(cache: &mut HubCache, name: &str) -> anyhow::Result<AddonProgress> {
    let Some(addon) = cache.management_object(name) else {
        anyhow::bail!("the ClusterManagementAddOn {name} was deleted");
    };
    require_placements(addon)?;
    cache.plan(name, Timestamp::now());
    Ok(addon_progress(cache, name))
}

fn stopped(progress: &AddonProgress, placements: &[String]) -> Unfinished {
    let total = progress.total();
    let (name, count) = (&progress.addon, total.selected - total.overridden);
    let failed: Vec<&str> =
        progress.placements.iter().flat_map(|one| &one.failed).map(|one| one.cluster.as_str()).collect();
    let only = match placements {
        [only] if progress.placements.len() > 1 => format!(" --placement {only}"),
        _ => String::new(),
    };
    let next_step = match failed.as_slice() {
        [] => format!("`bellwether addon rollout {name}` shows why"),
        failed => format!(
            "{} of {count} clusters failed: {}; `bellwether addon status {name}` shows why, `bellwether addon rollback \
             {name}{only}` returns to the previous version",
            failed.len(),
            name_some(failed, 3)
        ),
    };
    Unfinished::Rejected(format!("the rollout of {name} has stopped: {next_step}"))
}

/// How the progress is shown.
enum View {
    /// Drawn in place on a terminal.
    Live(LiveView),
    /// A line or a document for each change.
    Changes { format: Format, shown: Option<AddonProgress> },
}

impl View {
    fn choose(format: Format) -> std::io::Result<Self> {
        let live = if format.is_for_people() { LiveView::on_terminal()? } else { None };
        Ok(live.map_or(Self::Changes { format, shown: None }, Self::Live))
    }

    fn show(&mut self, progress: &AddonProgress, error: Option<&str>) -> anyhow::Result<()> {
        match self {
            Self::Live(live) => {
                let clock = time_of_day(Timestamp::now());
                live.show(view::live(progress, &clock, frame(), colour()), error)?;
            }
            Self::Changes { shown: Some(shown), .. } if shown == progress => {}
            Self::Changes { format, shown } => {
                let clock = time_of_day(Timestamp::now());
                match format {
                    Format::Json => print(&serde_json::to_string(progress)?)?,
                    Format::Yaml => print(&format!("---\n{}", yaml(progress)?))?,
                    Format::Name => {}
                    Format::Table | Format::Wide => {
                        let changes = view::changes(shown.as_ref(), progress);
                        changes.iter().try_for_each(|line| print(&format!("{clock} {line}")))?;
                    }
                }
                *shown = Some(progress.clone());
            }
        }
        Ok(())
    }

    /// Prints the result, unless it is on the terminal already.
    fn finish(&self, progress: &AddonProgress) -> anyhow::Result<()> {
        match self {
            Self::Changes { format: Format::Name, .. } => show(progress, Format::Name),
            Self::Changes { format: Format::Table | Format::Wide, .. } => {
                let counts = view::describe_counts(&progress.total());
                Ok(print(&format!(
                    "{} {} is finished: {counts}",
                    time_of_day(Timestamp::now()),
                    progress.addon
                ))?)
            }
            Self::Changes { .. } | Self::Live(_) => Ok(()),
        }
    }

    /// Prints a warning, unless the live view shows it.
    fn warn(&self, message: &str) {
        if let Self::Changes { .. } = self {
            eprintln!("{} {message}; trying again", time_of_day(Timestamp::now()));
        }
    }
}
