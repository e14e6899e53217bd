//! `bellwether observability status`: reads or watches the ObservabilityAddons of the hub and its clusters, and prints them.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use bellwether_api::cluster::ManagedCluster;
use bellwether_api::observability::ObservabilityAddon;
use bellwether_observability::cluster_state::ClusterState;
use bellwether_observability::vocabulary::ADDON_NAME;
use bellwether_runtime::{Context, IndexSource as _, Watch, Watches};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams};
use kube::runtime::watcher;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::MissedTickBehavior;

use super::arguments::StatusArgs;
use super::changes::{Change, ChangeKind, Fleet};
use super::table::{self, Width};
use crate::lists::{as_list, list, list_all, resource, without_managed_fields};
use crate::output::{Format, colour, name_some, print, time_of_day, yaml};
use crate::screen::{LiveView, frame};
use crate::signals::StopSignals;
use crate::target::Target;

/// The resource of the add-ons, as kubectl prints it.
const RESOURCE: &str = "observabilityaddon.observability.open-cluster-management.io";
/// How often the output is refreshed while it is watched. It is short enough for ages in seconds.
const REFRESH_INTERVAL: Duration = Duration::from_millis(250);

pub(super) async fn run(arguments: &StatusArgs) -> anyhow::Result<()> {
    let target = Target::find(&arguments.target).await?;
    // Also with --watch: reports what is missing or forbidden at once, where a watch would retry.
    let fleet = read(&target, arguments).await?;
    if arguments.watch {
        return watch(&target, arguments).await;
    }
    match arguments.output {
        Format::Json => Ok(print(&serde_json::to_string_pretty(&as_list(fleet.into_addons()))?)?),
        Format::Yaml => Ok(print(&yaml(&as_list(fleet.into_addons()))?)?),
        Format::Name => fleet.into_addons().iter().try_for_each(|addon| Ok(print(&name(addon))?)),
        Format::Table | Format::Wide => show(&fleet, width(arguments.output)),
    }
}

fn show(fleet: &Fleet, width: Width) -> anyhow::Result<()> {
    let mut rows = fleet.states();
    if rows.is_empty() {
        eprintln!("There are no ObservabilityAddons named {ADDON_NAME}.");
        return Ok(());
    }
    print(&table::lines(&mut rows, width, Timestamp::now(), None, colour()).join("\n"))?;
    if rows.len() > 1 && std::io::stdout().is_terminal() {
        eprintln!("{}", table::summary(&rows));
    }
    Ok(())
}

const fn width(format: Format) -> Width {
    match format {
        Format::Wide => Width::Wide,
        _ => Width::Narrow,
    }
}

/// Reads the add-ons, of one cluster or of all, and which clusters cannot be reached.
async fn read(target: &Target, arguments: &StatusArgs) -> anyhow::Result<Fleet> {
    let api: Api<DynamicObject> = Api::all_with(target.client.clone(), &resource::<ObservabilityAddon>());
    let by_name = ListParams::default().fields(&format!("metadata.name={ADDON_NAME}"));
    let (addons, clusters) = futures::try_join!(
        list(target, "ObservabilityAddon", &api, by_name),
        list_all::<ManagedCluster>(target)
    )?;
    let is_wanted = |addon: &DynamicObject| {
        let wanted = arguments.cluster.as_ref();
        wanted.is_none_or(|wanted| addon.namespace().as_deref() == Some(wanted.as_str()))
    };
    let (wanted, others): (Vec<_>, Vec<_>) = addons.into_iter().partition(is_wanted);
    if let (Some(cluster), true) = (&arguments.cluster, wanted.is_empty()) {
        let others: Vec<String> = others.iter().filter_map(ResourceExt::namespace).collect();
        anyhow::bail!("{}", no_addon(cluster.as_str(), &others));
    }
    let mut fleet = Fleet::default();
    wanted.into_iter().for_each(|addon| fleet.apply_addon(addon));
    clusters.iter().for_each(|cluster| fleet.apply_cluster(cluster));
    Ok(fleet)
}

fn no_addon(cluster: &str, others: &[String]) -> String {
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    let existing = match others.as_slice() {
        [] => "no cluster has one".to_owned(),
        others => format!("these clusters have one: {}", name_some(others, 10)),
    };
    format!("there is no ObservabilityAddon {ADDON_NAME} in the namespace {cluster}; {existing}")
}

/// The arguments that select the object in kubectl.
fn name(addon: &DynamicObject) -> String {
    format!("{RESOURCE}/{ADDON_NAME} -n {}", addon.namespace().unwrap_or_default())
}

async fn watch(target: &Target, arguments: &StatusArgs) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    tokio::select! {
        ended = follow(target, arguments) => ended,
        () = signals.next() => Ok(()),
    }
}

async fn follow(target: &Target, arguments: &StatusArgs) -> anyhow::Result<()> {
    let format = arguments.output;
    let mut live = if format.is_for_people() { LiveView::on_terminal()? } else { None };
    let fleet = Arc::new(Mutex::new(Fleet::default()));
    let mut watches = watches(target, arguments, fleet.clone());
    let mut ticks = tokio::time::interval(REFRESH_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut error: Option<String> = None;
    loop {
        tokio::select! {
            () = watches.changed() => {}
            _ = ticks.tick() => {
                let failure = watches.error().map(|error| format!("cannot watch {target}: {error}"));
                if failure != error && live.is_none() {
                    let now = time_of_day(Timestamp::now());
                    failure.iter().for_each(|message| eprintln!("{now} {message}; trying again"));
                }
                error = failure;
                if !watches.is_synced() {
                    continue;
                }
                match &mut live {
                    Some(live) => {
                        let mut rows = fleet.lock().states();
                        live.show(live_lines(&mut rows, format, error.is_some()), error.as_deref())?;
                    }
                    None => {
                        let changes = fleet.lock().take_changes();
                        changes.into_iter().try_for_each(|change| print_change(change, format))?;
                    }
                }
            }
        }
    }
}

fn watches(target: &Target, arguments: &StatusArgs, fleet: Arc<Mutex<Fleet>>) -> Watches<Fleet> {
    let context = Context::standalone(target.client.clone());
    let by_name = watcher::Config::default().fields(&format!("metadata.name={ADDON_NAME}"));
    let cluster = arguments.cluster.clone();
    let addons = Watch::new(&target.client, move |client| match cluster {
        Some(cluster) => Api::namespaced_with(client, cluster.as_str(), &resource::<ObservabilityAddon>()),
        None => Api::all_with(client, &resource::<ObservabilityAddon>()),
    })
    .config(by_name)
    .on_apply(|fleet: &mut Fleet, addon| fleet.apply_addon(addon))
    .on_delete(|fleet, deleted| fleet.delete_addon(&deleted.name.namespace));
    let clusters = Watch::new(&target.client, Api::<ManagedCluster>::all)
        .on_apply(|fleet: &mut Fleet, cluster| fleet.apply_cluster(&cluster))
        .on_delete(|fleet, deleted| fleet.delete_cluster(&deleted.name.name));
    Watches::new("observability-status", &context, fleet).with(addons).with(clusters)
}

/// The table, with a summary above, in the frame that an error leaves.
fn live_lines(rows: &mut [ClusterState], format: Format, has_error: bool) -> Vec<String> {
    let now = Timestamp::now();
    let mut lines = vec![format!("{}  {}", time_of_day(now), table::summary(rows)), String::new()];
    let frame = frame().without(lines.len() + usize::from(has_error));
    lines.extend(table::lines(rows, width(format), now, Some(frame), colour()));
    lines
}

/// Prints a change: as a line if the state or the reason changed, or as a watch event of Kubernetes.
fn print_change(change: Change, format: Format) -> anyhow::Result<()> {
    let Change { kind, addon, state, before } = change;
    match format {
        Format::Json | Format::Yaml => {
            let event = json!({"type": kind.as_str(), "object": without_managed_fields(addon)});
            match format {
                Format::Json => Ok(print(&event.to_string())?),
                _ => Ok(print(&format!("---\n{}", yaml(&event)?))?),
            }
        }
        Format::Name => Ok(print(&format!("{} {}", kind.as_str(), name(&addon)))?),
        Format::Table | Format::Wide => {
            let now = time_of_day(Timestamp::now());
            let current = table::describe(&state.state.to_string(), &state.reason);
            let line = match (kind, before) {
                (ChangeKind::Deleted, _) => format!("{now} {} gone", state.cluster),
                (ChangeKind::Added, _) => format!("{now} {} {current}", state.cluster),
                (ChangeKind::Modified, Some((former, reason))) => {
                    format!("{now} {} {} → {current}", state.cluster, table::describe(&former, &reason))
                }
                // Only the message has changed.
                (ChangeKind::Modified, None) => return Ok(()),
            };
            let message = Some(state.message).filter(|message| format == Format::Wide && !message.is_empty());
            Ok(print(&message.map_or(line.clone(), |message| format!("{line}: {message}")))?)
        }
    }
}
