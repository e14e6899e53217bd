//! `bellwether heartbeat watch`: watches the AddonInstances of a cluster, and shows them as a table on a terminal or prints their
//! changes. States are computed in `instances`, formatting is in `table`.

use std::pin::pin;
use std::time::Duration;

use bellwether_api::addons_managed::AddonInstance;
use bellwether_clock::{Clock as _, SteadyClock};
use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::watcher::{Event, watcher};
use kube::runtime::{WatchStreamExt as _, watcher::Config};
use tokio::time::MissedTickBehavior;

use super::arguments::WatchArgs;
use super::instances::{Change, WatchedInstances};
use super::table;
use crate::cli::Output;
use crate::output::{colour, print, time_of_day};
use crate::screen::{Frame, LiveView, frame};
use crate::signals::StopSignals;
use crate::target::Target;

/// How often the output is refreshed. It is short enough for ages in seconds.
const REFRESH_INTERVAL: Duration = Duration::from_millis(250);
/// What the command does, for error messages.
const OPERATION: &str = "watch AddonInstances";

pub(super) async fn run(arguments: &WatchArgs) -> anyhow::Result<()> {
    let target = Target::find(&arguments.target).await?;
    let resource = ApiResource::erase::<AddonInstance>(&());
    let client = target.client.clone();
    let instances: Api<DynamicObject> = match &arguments.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    if arguments.once {
        return print_once(&target, instances, arguments.output).await;
    }
    let view = View::choose(arguments.output)?;
    follow(&target, instances, view).await
}

/// Prints the current state, from the first list of a watch, which is read in pages.
async fn print_once(target: &Target, api: Api<DynamicObject>, output: Output) -> anyhow::Result<()> {
    let clock = SteadyClock::default();
    let mut instances = WatchedInstances::default();
    let mut events = pin!(watcher(api, Config::default()));
    while !instances.is_synced() {
        let event = events.try_next().await.map_err(|error| target.explain_watch(OPERATION, error))?;
        let Some(event) = event else { break };
        instances.on_event(event, clock.now());
    }
    let rows = instances.rows(clock.now());
    match output {
        Output::Table => {
            let lines = table::format_table(&rows, &TimeZone::system(), None, colour());
            print(&lines.join("\n"))?;
        }
        Output::Json => {
            let rows: Vec<_> = rows.iter().map(table::to_json).collect();
            print(&serde_json::to_string_pretty(&rows)?)?;
        }
    }
    Ok(())
}

async fn follow(target: &Target, api: Api<DynamicObject>, mut view: View) -> anyhow::Result<()> {
    let clock = SteadyClock::default();
    let mut instances = WatchedInstances::default();
    let mut signals = StopSignals::listen()?;
    let mut events = pin!(watcher(api, Config::default()).default_backoff());
    let mut ticks = tokio::time::interval(REFRESH_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last_error = None;
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => {
                    // The error stays visible until the restarted watch has delivered its whole list.
                    last_error = last_error.filter(|_| matches!(event, Event::Init | Event::InitApply(_)));
                    instances.on_event(event, clock.now());
                }
                Some(Err(error)) => {
                    let message = format!("{:#}", target.explain_watch(OPERATION, error));
                    if last_error.as_ref() != Some(&message) {
                        view.print_error(&message);
                    }
                    last_error = Some(message);
                }
                None => anyhow::bail!("the watch of AddonInstances of {target} has ended unexpectedly"),
            },
            _ = ticks.tick() => view.refresh(&mut instances, last_error.as_deref(), clock.now())?,
            () = signals.next() => return Ok(()),
        }
    }
}

/// How the instances are shown.
enum View {
    /// A table that is redrawn on the terminal.
    Table(LiveView),
    /// A line for each change.
    Lines(Output),
}

impl View {
    fn choose(output: Output) -> std::io::Result<Self> {
        let live = if output == Output::Table { LiveView::on_terminal()? } else { None };
        Ok(live.map_or(Self::Lines(output), Self::Table))
    }

    fn refresh(
        &mut self,
        instances: &mut WatchedInstances,
        error: Option<&str>,
        now: Timestamp,
    ) -> std::io::Result<()> {
        match self {
            Self::Table(live) => {
                live.show(render(instances, now, frame().without(usize::from(error.is_some()))), error)
            }
            Self::Lines(_) if !instances.is_synced() => Ok(()),
            Self::Lines(output) => {
                let changes = instances.take_changes(now);
                changes.iter().try_for_each(|change| print(&format_change(change, *output, now)))
            }
        }
    }

    /// Prints an error to stderr, unless the table shows it.
    fn print_error(&self, message: &str) {
        if let Self::Lines(_) = self {
            eprintln!("{} {message}; trying again", time_of_day(Timestamp::now()));
        }
    }
}

/// Renders the table, with a summary above.
fn render(instances: &WatchedInstances, now: Timestamp, frame: Frame) -> Vec<String> {
    if !instances.is_synced() {
        return Vec::new();
    }
    let rows = instances.rows(now);
    let mut lines = vec![format!("{}  {}", time_of_day(now), table::summarize(&rows)), String::new()];
    lines.extend(table::format_table(&rows, &TimeZone::system(), Some(frame.without(lines.len())), colour()));
    lines
}

fn format_change(change: &Change, output: Output, now: Timestamp) -> String {
    match (change, output) {
        (Change::State { row, .. }, Output::Json) => table::to_json(row).to_string(),
        (Change::Deleted { namespace, name }, Output::Json) => {
            serde_json::json!({"namespace": namespace, "name": name, "state": "Gone"}).to_string()
        }
        (Change::State { row, before }, Output::Table) => {
            let before = before.as_ref().map(|(state, reason)| table::format_state(*state, reason) + " → ");
            let current = table::format_state(row.state, &row.reason);
            format!(
                "{} {}/{} {}{current}",
                time_of_day(now),
                row.namespace,
                row.name,
                before.unwrap_or_default()
            )
        }
        (Change::Deleted { namespace, name }, Output::Table) => {
            format!("{} {namespace}/{name} gone", time_of_day(now))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::fit;

    fn watched(count: usize) -> (WatchedInstances, Timestamp) {
        let mut instances = WatchedInstances::default();
        let now = "2024-05-01T10:00:00Z".parse().unwrap();
        instances.on_event(Event::Init, now);
        for number in 0..count {
            let metadata = serde_json::json!({"namespace": format!("n{number}"), "name": "addon-instance"});
            let object = serde_json::from_value(serde_json::json!({"metadata": metadata})).unwrap();
            instances.on_event(Event::InitApply(object), now);
        }
        instances.on_event(Event::InitDone, now);
        (instances, now)
    }

    fn shown(instances: &WatchedInstances, error: Option<&str>, now: Timestamp, frame: Frame) -> Vec<String> {
        fit(render(instances, now, frame.without(usize::from(error.is_some()))), error, frame)
    }

    #[test]
    fn rendered_lines_fit_the_terminal() {
        let (instances, now) = watched(50);
        for lines in [1, 3, 4, 5, 10, 53, 54, 100] {
            for error in [None, Some("no answer")] {
                let rendered = shown(&instances, error, now, Frame { lines, columns: 60 });
                assert!(rendered.len() <= lines, "{lines}: {rendered:#?}");
                assert!(rendered.iter().all(|line| console::measure_text_width(line) <= 60), "{rendered:#?}");
            }
        }
        let whole = shown(&instances, None, now, Frame { lines: 53, columns: 200 });
        assert!(whole.last().unwrap().contains("n9"), "{whole:#?}");
        let part = shown(&instances, Some("no answer"), now, Frame { lines: 13, columns: 200 });
        let ends: Vec<&str> = part.iter().rev().take(2).map(String::as_str).collect();
        assert_eq!(ends, ["no answer; trying again", "… and 42 more"]);
    }
}
