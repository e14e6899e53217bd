//! `bellwether broker`: shows what is in the built-in queue, and requeues dead letters. It reads the file of the queue, also while
//! a server uses it.

use std::path::PathBuf;

use anyhow::Context as _;
use bellwether_broker::sqlite::{DeadLetter, Operator, PendingEvent, Requeue, SubscriptionInfo};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::output::{Format, cut, print, since, table, yaml};

/// How much of the data of an event a table shows.
const DATA_WIDTH: usize = 80;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    Status(StatusArgs),
    Peek(PeekArgs),
    DeadLetters(DeadLettersArgs),
    Requeue(RequeueArgs),
}

/// Show the subscriptions of the queue, and how many events wait for each
///
/// WAITING counts the events that are not acknowledged, including those IN FLIGHT, which a subscriber handles now. DROPPED counts
/// events that were removed because nobody read them.
///
///   bellwether broker status
///
/// Exit codes: 0 success; 1 error; 2 invalid arguments.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    common: QueueArgs,
}

/// Show the oldest events that wait in the queue, without removing them
///
///   bellwether broker peek
///   bellwether broker peek clusters --limit 5 -o json
///
/// Exit codes: 0 success; 1 error; 2 invalid arguments.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct PeekArgs {
    /// The topic. Default: all topics.
    topic: Option<String>,

    /// The largest number of events to show.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,

    #[command(flatten)]
    common: QueueArgs,
}

/// Show the events that could not be handled: after 5 deliveries, or because they are not CloudEvents
///
///   bellwether broker dead-letters
///   bellwether broker dead-letters clusters validation -o json
///
/// Exit codes: 0 success; 1 error; 2 invalid arguments.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DeadLettersArgs {
    /// The topic. Default: all topics.
    topic: Option<String>,

    /// The subscription. Default: all subscriptions of the topic.
    subscription: Option<String>,

    #[command(flatten)]
    common: QueueArgs,
}

/// Deliver dead letters again: those with the given IDs, or all of a subscription
///
///   bellwether broker requeue 17 18
///   bellwether broker requeue --topic clusters --subscription validation
///
/// Exit codes: 0 success; 1 error; 2 invalid arguments.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct RequeueArgs {
    /// The IDs of dead letters, as `dead-letters` shows them.
    #[arg(value_name = "ID", required_unless_present = "topic", conflicts_with = "topic")]
    ids: Vec<i64>,

    /// The topic.
    #[arg(long, value_name = "NAME", requires = "subscription")]
    topic: Option<String>,

    /// The subscription.
    #[arg(long, value_name = "NAME", requires = "topic")]
    subscription: Option<String>,

    #[command(flatten)]
    queue: QueueFile,
}

#[derive(Debug, Args)]
struct QueueArgs {
    #[command(flatten)]
    queue: QueueFile,

    /// The output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = parse_format)]
    output: Format,
}

#[derive(Debug, Args)]
struct QueueFile {
    /// The file of the queue: that of `bellwether up`, or of --broker sqlite:FILE.
    #[arg(long = "queue", value_name = "FILE", default_value = ".bellwether/queue.db")]
    path: PathBuf,
}

fn parse_format(text: &str) -> Result<Format, String> {
    match text {
        "table" => Ok(Format::Table),
        "json" => Ok(Format::Json),
        "yaml" => Ok(Format::Yaml),
        _ => Err("must be table, json or yaml".to_owned()),
    }
}

impl QueueFile {
    fn open(&self) -> anyhow::Result<Operator> {
        Operator::open(&self.path).with_context(|| {
            format!("cannot open the queue {}; name the file with --queue, or run this where `bellwether up` was started", self.path.display())
        })
    }
}

pub(crate) fn run(action: Action) -> anyhow::Result<()> {
    let now = Timestamp::now();
    match action {
        Action::Status(StatusArgs { common }) => {
            let subscriptions = common.queue.open()?.list_subscriptions(now)?;
            show(&subscriptions, common.output, "There are no subscriptions.", |rows| {
                subscription_table(rows, now)
            })
        }
        Action::Peek(PeekArgs { topic, limit, common }) => {
            let events = common.queue.open()?.peek(topic.as_deref(), limit)?;
            show(&events, common.output, "No events wait.", |rows| event_table(rows, now))
        }
        Action::DeadLetters(DeadLettersArgs { topic, subscription, common }) => {
            let letters = common.queue.open()?.dead_letters(topic.as_deref(), subscription.as_deref())?;
            show(&letters, common.output, "There are no dead letters.", |rows| dead_letter_table(rows, now))
        }
        Action::Requeue(RequeueArgs { ids, topic, subscription, queue }) => {
            let which = match (topic, subscription) {
                (Some(topic), Some(subscription)) => Requeue::All { topic, subscription },
                _ => Requeue::Ids(ids.clone()),
            };
            let requeued = queue.open()?.requeue(&which, now)?;
            if requeued < ids.len() {
                anyhow::bail!(
                    "{requeued} of {} dead letters were requeued; the others do not exist: see `bellwether broker dead-letters`",
                    ids.len()
                );
            }
            Ok(print(&format!("{requeued} requeued"))?)
        }
    }
}

fn show<T: Serialize>(
    rows: &[T],
    format: Format,
    none: &str,
    lines: impl Fn(&[T]) -> Vec<String>,
) -> anyhow::Result<()> {
    match format {
        Format::Json => Ok(print(&serde_json::to_string_pretty(rows)?)?),
        Format::Yaml => Ok(print(&yaml(&rows)?)?),
        _ if rows.is_empty() => {
            eprintln!("{none}");
            Ok(())
        }
        _ => Ok(print(&lines(rows).join("\n"))?),
    }
}

fn subscription_table(rows: &[SubscriptionInfo], now: Timestamp) -> Vec<String> {
    let rows = rows.iter().map(|row| {
        [
            row.topic.clone(),
            row.subscription.clone(),
            row.depth.to_string(),
            row.in_flight.to_string(),
            row.oldest.map_or_else(|| "-".to_owned(), |oldest| since(oldest, now)),
            row.dead_letters.to_string(),
            row.dropped_events.to_string(),
        ]
    });
    table(["TOPIC", "SUBSCRIPTION", "WAITING", "IN FLIGHT", "OLDEST", "DEAD LETTERS", "DROPPED"], rows)
}

fn event_table(rows: &[PendingEvent], now: Timestamp) -> Vec<String> {
    let rows = rows.iter().map(|row| {
        [
            row.topic.clone(),
            since(row.published_at, now),
            row.subscriptions.to_string(),
            row.attempts.to_string(),
            data_of(&row.body),
        ]
    });
    table(["TOPIC", "AGE", "SUBSCRIPTIONS", "ATTEMPTS", "DATA"], rows)
}

fn dead_letter_table(rows: &[DeadLetter], now: Timestamp) -> Vec<String> {
    let rows = rows.iter().map(|row| {
        [
            row.id.to_string(),
            row.topic.clone(),
            row.subscription.clone(),
            row.attempts.to_string(),
            since(row.moved_at, now),
            row.reason.clone(),
            data_of(&row.body),
        ]
    });
    table(["ID", "TOPIC", "SUBSCRIPTION", "ATTEMPTS", "SINCE", "REASON", "DATA"], rows)
}

/// The data of an event in one line, or the beginning of a body that is no event.
fn data_of(body: &str) -> String {
    let parsed: Option<Value> = serde_json::from_str(body).ok();
    let data = parsed.and_then(|event| Some(event.get("data")?.to_string()));
    let text =
        data.unwrap_or_else(|| body.chars().filter(|c| !c.is_control()).take(DATA_WIDTH + 1).collect());
    cut(&text, DATA_WIDTH)
}
