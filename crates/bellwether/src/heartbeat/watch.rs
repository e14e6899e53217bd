//! `bellwether heartbeat watch`: follows the instances of a cluster, and shows them on a terminal or tells what changes.

use std::io::{IsTerminal as _, Stdout};
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
use super::board::{Board, News};
use super::table;
use crate::cli::Output;
use crate::output::{colour, print, time_of_day};
use crate::screen::{Frame, Screen, frame};
use crate::signals::StopSignals;
use crate::target::Target;

/// How long changes are gathered before they are shown; ages are right to the second.
const GATHER: Duration = Duration::from_millis(250);
/// What was tried, in the words of an error.
const ATTEMPT: &str = "watch AddonInstances";

pub(super) async fn run(arguments: &WatchArgs) -> anyhow::Result<()> {
    let target = Target::find(&arguments.target).await?;
    let resource = ApiResource::erase::<AddonInstance>(&());
    let client = target.client.clone();
    let instances: Api<DynamicObject> = match &arguments.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    if arguments.once {
        return once(&target, instances, arguments.output).await;
    }
    let view = View::choose(arguments.output)?;
    follow(&target, instances, view).await
}

/// The table as it is now: the first list that a watch gives, in pages.
async fn once(target: &Target, instances: Api<DynamicObject>, output: Output) -> anyhow::Result<()> {
    let clock = SteadyClock::default();
    let mut board = Board::default();
    let mut events = pin!(watcher(instances, Config::default()));
    while !board.is_complete() {
        let event = events.try_next().await.map_err(|error| target.explain_watch(ATTEMPT, error))?;
        let Some(event) = event else { break };
        board.see(event, clock.now());
    }
    let rows = board.rows(clock.now());
    match output {
        Output::Table => {
            let lines = table::lines(&rows, &TimeZone::system(), None, colour());
            print(&lines.join("\n"))?;
        }
        Output::Json => {
            let rows: Vec<_> = rows.iter().map(table::json).collect();
            print(&serde_json::to_string_pretty(&rows)?)?;
        }
    }
    Ok(())
}

async fn follow(target: &Target, instances: Api<DynamicObject>, mut view: View) -> anyhow::Result<()> {
    let clock = SteadyClock::default();
    let mut board = Board::default();
    let mut signals = StopSignals::listen()?;
    let mut events = pin!(watcher(instances, Config::default()).default_backoff());
    let mut ticks = tokio::time::interval(GATHER);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut trouble = None;
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => {
                    trouble = trouble.filter(|_| matches!(event, Event::Init | Event::InitApply(_)));
                    board.see(event, clock.now());
                }
                Some(Err(error)) => {
                    let words = format!("{:#}", target.explain_watch(ATTEMPT, error));
                    if trouble.as_ref() != Some(&words) {
                        view.complain(&words);
                    }
                    trouble = Some(words);
                }
                None => anyhow::bail!("the watch of {target} has ended"),
            },
            _ = ticks.tick() => view.show(&mut board, trouble.as_deref(), clock.now())?,
            () = signals.next() => return Ok(()),
        }
    }
}

/// Where the instances are shown.
enum View {
    /// A table in place, which was last drawn like this.
    Table { screen: Screen<Stdout>, drawn: Vec<String> },
    /// A line for each change.
    Lines(Output),
}

impl View {
    fn choose(output: Output) -> std::io::Result<Self> {
        if output == Output::Table && std::io::stdout().is_terminal() {
            return Ok(Self::Table { screen: Screen::on(std::io::stdout())?, drawn: Vec::new() });
        }
        Ok(Self::Lines(output))
    }

    fn show(&mut self, board: &mut Board, trouble: Option<&str>, now: Timestamp) -> std::io::Result<()> {
        match self {
            Self::Table { screen, drawn } => {
                let lines = picture(board, trouble, now, frame());
                if lines != *drawn {
                    screen.draw(&lines)?;
                    *drawn = lines;
                }
                Ok(())
            }
            Self::Lines(_) if !board.is_complete() => Ok(()),
            Self::Lines(output) => {
                board.news(now).iter().try_for_each(|news| print(&line(news, *output, now)))
            }
        }
    }

    /// A table has room for trouble of its own.
    fn complain(&self, words: &str) {
        if let Self::Lines(_) = self {
            eprintln!("{} {words}; trying again", time_of_day(Timestamp::now()));
        }
    }
}

/// The table, with a line above that counts and one below that complains.
fn picture(board: &Board, trouble: Option<&str>, now: Timestamp, frame: Frame) -> Vec<String> {
    let rows = board.rows(now);
    let around = 2 + usize::from(trouble.is_some());
    let inner = Frame { lines: frame.lines.saturating_sub(around), ..frame };
    let mut lines = Vec::new();
    if board.is_complete() {
        lines.extend([format!("{}  {}", time_of_day(now), table::summary(&rows)), String::new()]);
        lines.extend(table::lines(&rows, &TimeZone::system(), Some(inner), colour()));
    }
    lines.extend(trouble.map(|words| format!("{words}; trying again")));
    // A terminal of very few lines.
    lines.truncate(frame.lines.max(1));
    lines.iter().map(|line| console::truncate_str(line, frame.columns, "…").into_owned()).collect()
}

fn line(news: &News, output: Output, now: Timestamp) -> String {
    match (news, output) {
        (News::Is { row, .. }, Output::Json) => table::json(row).to_string(),
        (News::Gone { namespace, name }, Output::Json) => {
            serde_json::json!({"namespace": namespace, "name": name, "state": "Gone"}).to_string()
        }
        (News::Is { row, before }, Output::Table) => {
            let before = before.as_ref().map(|(state, reason)| table::state_in_words(*state, reason) + " → ");
            let is = table::state_in_words(row.state, &row.reason);
            format!("{} {}/{} {}{is}", time_of_day(now), row.namespace, row.name, before.unwrap_or_default())
        }
        (News::Gone { namespace, name }, Output::Table) => {
            format!("{} {namespace}/{name} gone", time_of_day(now))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(count: usize) -> (Board, Timestamp) {
        let mut board = Board::default();
        let now = "2024-05-01T10:00:00Z".parse().unwrap();
        board.see(Event::Init, now);
        for number in 0..count {
            let metadata = serde_json::json!({"namespace": format!("n{number}"), "name": "addon-instance"});
            let object = serde_json::from_value(serde_json::json!({"metadata": metadata})).unwrap();
            board.see(Event::InitApply(object), now);
        }
        board.see(Event::InitDone, now);
        (board, now)
    }

    #[test]
    fn the_picture_fits_the_terminal() {
        let (board, now) = board(50);
        for lines in [1, 3, 4, 5, 10, 53, 54, 100] {
            for trouble in [None, Some("no answer")] {
                let picture = picture(&board, trouble, now, Frame { lines, columns: 60 });
                assert!(picture.len() <= lines, "{lines}: {picture:#?}");
                assert!(picture.iter().all(|line| console::measure_text_width(line) <= 60), "{picture:#?}");
            }
        }
        let whole = picture(&board, None, now, Frame { lines: 53, columns: 200 });
        assert!(whole.last().unwrap().contains("n9"), "{whole:#?}");
        let part = picture(&board, Some("no answer"), now, Frame { lines: 13, columns: 200 });
        let ends: Vec<&str> = part.iter().rev().take(2).map(String::as_str).collect();
        assert_eq!(ends, ["no answer; trying again", "… and 42 more"]);
    }
}
