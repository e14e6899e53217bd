//! `bellwether addon rollout`: how far it is, once or until it is over.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal as _, Stdout};
use std::time::Duration;

use bellwether_api::addon::{ClusterManagementAddOn, InstallType, ManagedClusterAddOn};
use bellwether_api::cluster::{Placement, PlacementDecision};
use futures::stream::{BoxStream, SelectAll};
use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use kube::api::{Api, DynamicObject};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, Error, Event, watcher};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, MissedTickBehavior};

use super::arguments::RolloutArgs;
use super::hub::{self, Picture, Placements};
use super::progress::{End, Progress};
use super::view::{self, Detail};
use super::{NAME_OF_ADDON, refuse_manual};
use crate::outcome::NotDone;
use crate::output::{Format, colour, print, some_of, time_of_day, yaml};
use crate::screen::{Screen, frame};
use crate::signals::StopSignals;
use crate::target::Target;

/// How long changes are gathered before they are shown.
const GATHER: Duration = Duration::from_millis(250);
/// How often it is worked out anew where nothing has changed but the time.
const AGAIN: Duration = Duration::from_secs(1);
/// How long failures must have stopped a rollout before that is believed: the first attempt need not be the last.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn run(arguments: &RolloutArgs) -> anyhow::Result<()> {
    let target = Target::find(&arguments.target).await?;
    if arguments.watch {
        return watch(&target, arguments).await;
    }
    let picture = hub::picture(&target, &arguments.name).await?;
    refuse_manual(&picture.addon)?;
    show(&Progress::of(&picture, Timestamp::now()), arguments.output)
}

fn show(progress: &Progress, format: Format) -> anyhow::Result<()> {
    let text = match format {
        Format::Table => view::lines(progress, Detail::Some, colour()).join("\n"),
        Format::Wide => view::lines(progress, Detail::All, colour()).join("\n"),
        Format::Json => serde_json::to_string_pretty(progress)?,
        Format::Yaml => yaml(progress)?,
        Format::Name => format!("{NAME_OF_ADDON}/{}", progress.addon),
    };
    Ok(print(&text)?)
}

async fn watch(target: &Target, arguments: &RolloutArgs) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    // What is asked for must be there, and a first look says what to watch.
    let first = hub::picture(target, &arguments.name).await?;
    refuse_manual(&first.addon)?;
    let follow = follow(target, arguments, &first.addon);
    let limited = async {
        match arguments.timeout {
            Some(limit) => tokio::time::timeout(limit, follow).await,
            None => Ok(follow.await),
        }
    };
    tokio::select! {
        ended = limited => match ended {
            Ok(ended) => ended,
            Err(_) => Err(late(arguments).into()),
        },
        () = signals.next() => Ok(()),
    }
}

fn late(arguments: &RolloutArgs) -> NotDone {
    NotDone::Late(format!(
        "the rollout of {name} is not finished after {:?}; `bellwether addon rollout {name}` says what it waits for",
        arguments.timeout.unwrap_or_default(),
        name = arguments.name,
    ))
}

async fn follow(
    target: &Target,
    arguments: &RolloutArgs,
    first: &ClusterManagementAddOn,
) -> anyhow::Result<()> {
    let mut view = View::choose(arguments.output)?;
    let mut seen = Seen::default();
    let mut events = streams(target, &arguments.name, &hub::namespaces(first));
    let mut ticks = tokio::time::interval(GATHER);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut stopped: Option<(Vec<String>, Instant)> = None;
    let mut trouble = None;
    // When it was last worked out, if nothing has changed since.
    let mut known: Option<Instant> = None;
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(told)) => {
                    (trouble, known) = (None, None);
                    if seen.take_in(told) == Scope::Changed {
                        // Another namespace has a say: what is known of the old ones is read again with it.
                        let namespaces = seen.namespaces();
                        seen = Seen::default();
                        events = streams(target, &arguments.name, &namespaces);
                    }
                }
                Some(Err((attempt, error))) => {
                    let words = format!("{:#}", target.explain_watch(attempt, error));
                    if trouble.as_ref() != Some(&words) {
                        view.complain(&words);
                    }
                    (trouble, known) = (Some(words), None);
                }
                None => anyhow::bail!("the watch of {target} has ended"),
            },
            _ = ticks.tick() => {
                if known.is_some_and(|since| since.elapsed() < AGAIN) {
                    continue;
                }
                known = Some(Instant::now());
                let Some(picture) = seen.picture()? else { continue };
                let progress = Progress::of(&picture, Timestamp::now());
                view.show(&progress, trouble.as_deref())?;
                match progress.end() {
                    None => stopped = None,
                    Some(End::Done) => return view.finish(&progress),
                    Some(End::Blocked(placements)) => {
                        let since = match &stopped {
                            Some((known, since)) if *known == placements => *since,
                            _ => Instant::now(),
                        };
                        if since.elapsed() >= PATIENCE {
                            drop(view);
                            return Err(blocked(&progress, &placements).into());
                        }
                        stopped = Some((placements, since));
                    }
                }
            }
        }
    }
}

fn blocked(progress: &Progress, placements: &[String]) -> NotDone {
    let total = progress.total();
    let (name, wanted) = (&progress.addon, total.total - total.overridden);
    let failed: Vec<&str> = progress
        .placements
        .iter()
        .flat_map(|placed| &placed.failed)
        .map(|one| one.cluster.as_str())
        .collect();
    let only = match placements {
        [only] if progress.placements.len() > 1 => format!(" --placement {only}"),
        _ => String::new(),
    };
    let words = match failed.as_slice() {
        [] => format!("`bellwether addon rollout {name}` says why"),
        failed => format!(
            "{} of {wanted} clusters failed: {}; `bellwether addon status {name}` says why, `bellwether addon rollback \
             {name}{only}` goes back",
            failed.len(),
            some_of(failed, 3)
        ),
    };
    NotDone::Refused(format!("the rollout of {name} has stopped: {words}"))
}

/// What a watch says.
enum Told {
    Addon(Event<DynamicObject>),
    Instance(Event<DynamicObject>),
    Placement(String, Event<Placement>),
    Decision(String, Event<PlacementDecision>),
}

type Heard = Result<Told, (&'static str, Error)>;

/// Watches all that decides how far a rollout is.
fn streams(
    target: &Target,
    name: &str,
    namespaces: &BTreeSet<String>,
) -> SelectAll<BoxStream<'static, Heard>> {
    let client = || target.client.clone();
    let named = || Config::default().fields(&hub::selector(name));
    let addon = Api::all_with(client(), &hub::resource::<ClusterManagementAddOn>());
    let addon = watcher(addon, named()).default_backoff().map_ok(Told::Addon);
    let instances = Api::all_with(client(), &hub::resource::<ManagedClusterAddOn>());
    let instances = watcher(instances, named()).default_backoff().map_ok(Told::Instance);
    let mut all: SelectAll<BoxStream<'static, Heard>> = SelectAll::new();
    all.push(addon.map_err(|error| ("watch ClusterManagementAddOns", error)).boxed());
    all.push(instances.map_err(|error| ("watch ManagedClusterAddOns", error)).boxed());
    for namespace in namespaces {
        let place = namespace.clone();
        let placements = of_namespace::<Placement>(target, namespace, "watch Placements");
        all.push(placements.map_ok(move |event| Told::Placement(place.clone(), event)).boxed());
        let place = namespace.clone();
        let decisions = of_namespace::<PlacementDecision>(target, namespace, "watch PlacementDecisions");
        all.push(decisions.map_ok(move |event| Told::Decision(place.clone(), event)).boxed());
    }
    all
}

fn of_namespace<K>(
    target: &Target,
    namespace: &str,
    attempt: &'static str,
) -> BoxStream<'static, Result<Event<K>, (&'static str, Error)>>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + 'static,
{
    let api: Api<K> = Api::namespaced(target.client.clone(), namespace);
    watcher(api, Config::default()).default_backoff().map_err(move |error| (attempt, error)).boxed()
}

/// Whether what is watched is still what is to be watched.
#[derive(PartialEq, Eq)]
enum Scope {
    Same,
    Changed,
}

/// All that the watches have said.
#[derive(Default)]
struct Seen {
    addon: Listed<DynamicObject>,
    instances: Listed<ManagedClusterAddOn>,
    placements: BTreeMap<String, Listed<Placement>>,
    decisions: BTreeMap<String, Listed<PlacementDecision>>,
    /// Those that are watched: the first that the add-on named.
    watched: Option<BTreeSet<String>>,
}

impl Seen {
    fn take_in(&mut self, told: Told) -> Scope {
        match told {
            Told::Addon(event) => {
                self.addon.see(event, Some);
                let wanted = self.namespaces();
                if wanted.is_empty() {
                    return Scope::Same;
                }
                let watched = self.watched.get_or_insert_with(|| wanted.clone());
                return if *watched == wanted { Scope::Same } else { Scope::Changed };
            }
            Told::Instance(event) => {
                self.instances.see(event, |object| hub::readable(&object).map(|(_, instance)| instance));
            }
            Told::Placement(namespace, event) => {
                self.placements.entry(namespace).or_default().see(event, Some)
            }
            Told::Decision(namespace, event) => self.decisions.entry(namespace).or_default().see(event, Some),
        }
        Scope::Same
    }

    fn addon(&self) -> Option<ClusterManagementAddOn> {
        hub::typed(self.addon.items.values().next()?).ok()
    }

    fn namespaces(&self) -> BTreeSet<String> {
        self.addon().map(|addon| hub::namespaces(&addon)).unwrap_or_default()
    }

    /// All that is known, once it is complete.
    fn picture(&self) -> anyhow::Result<Option<Picture>> {
        let namespaces = self.namespaces();
        let complete = |namespace: &String| {
            self.placements.get(namespace).is_some_and(|listed| listed.complete)
                && self.decisions.get(namespace).is_some_and(|listed| listed.complete)
        };
        if !self.addon.complete || !self.instances.complete || !namespaces.iter().all(complete) {
            return Ok(None);
        }
        let Some(sent) = self.addon.items.values().next().cloned() else {
            anyhow::bail!("the add-on is gone: its ClusterManagementAddOn was deleted");
        };
        let addon: ClusterManagementAddOn = hub::typed(&sent)?;
        if addon.spec.install_strategy.type_ != InstallType::Placements {
            refuse_manual(&addon)?;
        }
        let placements = Placements {
            placements: self.placements.values().flat_map(|listed| listed.items.values().cloned()).collect(),
            decisions: self.decisions.values().flat_map(|listed| listed.items.values().cloned()).collect(),
        };
        let instances = self.instances.items.iter().map(|((cluster, _), one)| (cluster.clone(), one.clone()));
        let (chosen, instances) = (placements.chosen(&addon), instances.collect());
        Ok(Some(Picture { addon, sent, chosen, instances }))
    }
}

/// Objects that are watched, by namespace and name.
struct Listed<K> {
    items: BTreeMap<(String, String), K>,
    /// What a list that is under way has named so far.
    listing: BTreeMap<(String, String), K>,
    complete: bool,
}

impl<K> Default for Listed<K> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), listing: BTreeMap::new(), complete: false }
    }
}

impl<K> Listed<K> {
    fn see<O: ResourceExt>(&mut self, event: Event<O>, read: impl Fn(O) -> Option<K>) {
        let keyed = |object: O| {
            let key = (object.namespace().unwrap_or_default(), object.name_any());
            read(object).map(|item| (key, item))
        };
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(object) => self.listing.extend(keyed(object)),
            Event::InitDone => {
                self.items = std::mem::take(&mut self.listing);
                self.complete = true;
            }
            Event::Apply(object) => self.items.extend(keyed(object)),
            Event::Delete(object) => {
                self.items.remove(&(object.namespace().unwrap_or_default(), object.name_any()));
            }
        }
    }
}

/// Where a rollout is shown.
enum View {
    /// In place, which was last drawn like this.
    Picture { screen: Screen<Stdout>, drawn: Vec<String> },
    /// What changes.
    Changes { format: Format, told: Option<Progress> },
}

impl View {
    fn choose(format: Format) -> std::io::Result<Self> {
        if format.is_for_people() && std::io::stdout().is_terminal() {
            return Ok(Self::Picture { screen: Screen::on(std::io::stdout())?, drawn: Vec::new() });
        }
        Ok(Self::Changes { format, told: None })
    }

    fn show(&mut self, progress: &Progress, trouble: Option<&str>) -> anyhow::Result<()> {
        match self {
            Self::Picture { screen, drawn } => {
                let frame = frame();
                let clock = time_of_day(Timestamp::now());
                let mut lines = view::picture(progress, &clock, frame, colour());
                if let Some(words) = trouble {
                    lines.truncate(frame.lines.saturating_sub(1));
                    lines.push(crate::output::cut(&format!("{words}; trying again"), frame.columns));
                }
                if lines != *drawn {
                    screen.draw(&lines)?;
                    *drawn = lines;
                }
            }
            Self::Changes { told: Some(told), .. } if told == progress => {}
            Self::Changes { format, told } => {
                let clock = time_of_day(Timestamp::now());
                match format {
                    Format::Json => print(&serde_json::to_string(progress)?)?,
                    Format::Yaml => print(&format!("---\n{}", yaml(progress)?))?,
                    Format::Name => {}
                    Format::Table | Format::Wide => {
                        let news = view::news(told.as_ref(), progress);
                        news.iter().try_for_each(|line| print(&format!("{clock} {line}")))?;
                    }
                }
                *told = Some(progress.clone());
            }
        }
        Ok(())
    }

    /// The picture stays, and says it all.
    fn finish(&self, progress: &Progress) -> anyhow::Result<()> {
        match self {
            Self::Changes { format: Format::Name, .. } => show(progress, Format::Name),
            Self::Changes { format: Format::Table | Format::Wide, .. } => {
                let words = view::tally_in_words(&progress.total());
                Ok(print(&format!(
                    "{} {} is finished: {words}",
                    time_of_day(Timestamp::now()),
                    progress.addon
                ))?)
            }
            Self::Changes { .. } | Self::Picture { .. } => Ok(()),
        }
    }

    /// A picture has room for trouble of its own.
    fn complain(&self, words: &str) {
        if let Self::Changes { .. } = self {
            eprintln!("{} {words}; trying again", time_of_day(Timestamp::now()));
        }
    }
}
