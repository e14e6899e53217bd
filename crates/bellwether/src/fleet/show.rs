//! Resources, statuses and logs as text. Pure.

use std::collections::HashMap;

use bellwether_conditions::Status;
use bellwether_fleet::client::WatchEvent;
use bellwether_fleet::resource::{AdapterStatus, Id, LogEntry, Resource, ResourceCondition};
use bellwether_fleet::vocabulary::{is_current, is_last_known};
use jiff::Timestamp;

use super::connection::Noun;
use crate::output::{since, table};

const HEADER: [&str; 5] = ["NAME", "READY", "AVAILABLE", "GENERATION", "AGE"];
const OF_A_CLUSTER: [&str; 6] = ["CLUSTER", "NAME", "READY", "AVAILABLE", "GENERATION", "AGE"];
const WIDE: [&str; 9] =
    ["CLUSTER", "NAME", "READY", "AVAILABLE", "GENERATION", "AGE", "ID", "LABELS", "MESSAGE"];

/// The names of owners.
pub(super) type Owners = HashMap<Id, String>;

/// How much a table shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Narrow,
    Wide,
}

/// A table of resources. That of children has a column for whom they belong to.
pub(super) fn resources(items: &[Resource], owners: &Owners, width: Width, now: Timestamp) -> Vec<String> {
    let children = items.iter().any(|item| item.owner_references.is_some());
    let rows = items.iter().map(|item| cells(item, owners, now));
    match (width, children) {
        (Width::Wide, true) => table(WIDE, rows),
        (Width::Wide, false) => {
            let [_, header @ ..] = WIDE;
            table(header, rows.map(|[_, cells @ ..]| cells))
        }
        (Width::Narrow, true) => table(
            OF_A_CLUSTER,
            rows.map(|[cluster, name, ready, available, generation, age, ..]| {
                [cluster, name, ready, available, generation, age]
            }),
        ),
        (Width::Narrow, false) => table(
            HEADER,
            rows.map(|[_, name, ready, available, generation, age, ..]| {
                [name, ready, available, generation, age]
            }),
        ),
    }
}

/// How wide the columns are of a table that is printed line by line: nobody knows what comes. The last one may be longer.
const EVENT: usize = 8;
const WIDTHS: [usize; 9] = [24, 32, 16, 10, 10, 5, 36, 24, 0];

/// One change below a header.
pub(super) fn watched(event: &WatchEvent, owners: &Owners, width: Width, now: Timestamp) -> [String; 2] {
    let cells = cells(&event.resource, owners, now);
    let shown = if width == Width::Wide { cells.len() } else { cells.len() - 3 };
    let skipped = usize::from(event.resource.owner_references.is_none());
    let line = |first: &str, cells: &mut dyn Iterator<Item = &str>| {
        let mut line = format!("{first:EVENT$}");
        for (cell, wide) in cells.zip(WIDTHS).take(shown).skip(skipped) {
            line.push_str(&format!("  {cell:wide$}"));
        }
        line.trim_end().to_owned()
    };
    let header = line("EVENT", &mut WIDE.iter().copied());
    [header, line(&event.event, &mut cells.iter().map(String::as_str))]
}

fn cells(item: &Resource, owners: &Owners, now: Timestamp) -> [String; 9] {
    let ready = find(item, is_current);
    let labels: Vec<String> = item.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let owner = item.owner().map(|owner| owners.get(&owner).cloned().unwrap_or_else(|| owner.to_string()));
    [
        owner.unwrap_or_default(),
        item.name.clone(),
        readiness(item),
        availability(item),
        item.generation.to_string(),
        since(item.created_time, now),
        item.id.to_string(),
        or_dash(labels.join(",")),
        or_dash(ready.and_then(|ready| ready.message.clone()).unwrap_or_default()),
    ]
}

fn find(item: &Resource, is: impl Fn(&str) -> bool) -> Option<&ResourceCondition> {
    item.status.conditions.iter().find(|condition| is(&condition.type_))
}

/// Whether it is ready, and that it is on its way out.
fn readiness(item: &Resource) -> String {
    let ready = find(item, is_current).map_or("-", |ready| ready.status.as_str());
    if item.is_deleting() { format!("{ready} (deleting)") } else { ready.to_owned() }
}

/// Whether the last known good generation still is, and which that is where it is not the one asked for.
fn availability(item: &Resource) -> String {
    match find(item, is_last_known) {
        None => "-".to_owned(),
        Some(known) if known.status == Status::True && known.observed_generation != item.generation => {
            format!("True@{}", known.observed_generation)
        }
        Some(known) => known.status.as_str().to_owned(),
    }
}

fn or_dash(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}

/// What adapters said: a line for each.
pub(super) fn statuses(items: &[AdapterStatus], now: Timestamp) -> Vec<String> {
    let says = |item: &AdapterStatus, type_: &str| {
        let found = item.conditions.iter().find(|condition| condition.type_ == type_);
        found.map_or("-", |condition| condition.status.as_str()).to_owned()
    };
    let rows = items.iter().map(|item| {
        let available = item.conditions.iter().find(|condition| condition.type_ == "Available");
        [
            item.adapter.clone(),
            item.observed_generation.to_string(),
            says(item, "Available"),
            says(item, "Applied"),
            says(item, "Health"),
            since(item.last_updated_time, now),
            since(item.last_report_time, now),
            or_dash(available.and_then(|it| it.message.clone().or(it.reason.clone())).unwrap_or_default()),
        ]
    });
    table(["ADAPTER", "GENERATION", "AVAILABLE", "APPLIED", "HEALTH", "ACCEPTED", "HEARD", "MESSAGE"], rows)
}

/// Reports and what became of them.
pub(super) fn log(entries: &[LogEntry]) -> Vec<String> {
    let rows = entries.iter().map(|entry| {
        let conditions: Vec<String> =
            entry.conditions.iter().map(|it| format!("{}={}", it.type_, it.status.as_str())).collect();
        [
            entry.received_time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            entry.adapter.clone(),
            format!("{}/{}", entry.observed_generation, entry.generation),
            format!("{:?}", entry.verdict),
            or_dash(conditions.join(",")),
            or_dash(entry.why.clone()),
        ]
    });
    table(["RECEIVED", "ADAPTER", "GENERATION", "VERDICT", "CONDITIONS", "WHY"], rows)
}

/// All that is known of one.
pub(super) fn describe(
    noun: Noun,
    item: &Resource,
    owner: Option<&str>,
    adapters: &[AdapterStatus],
    entries: &[LogEntry],
    now: Timestamp,
) -> Vec<String> {
    let mut lines = vec![
        format!("Name:        {}", item.name),
        format!("Kind:        {}", noun.kind),
        format!("ID:          {}", item.id),
    ];
    lines.extend(owner.map(|owner| format!("Cluster:     {owner}")));
    lines.push(format!("Generation:  {}", item.generation));
    let label = |(key, value): (&String, &String)| format!("{key}={value}");
    lines.push(format!(
        "Labels:      {}",
        or_dash(item.labels.iter().map(label).collect::<Vec<_>>().join(", "))
    ));
    if !item.tenancy.is_empty() {
        lines.push(format!("Tenant:      {}", item.tenancy.iter().map(label).collect::<Vec<_>>().join(", ")));
    }
    lines.push(format!("Created:     {} ago, by {}", since(item.created_time, now), item.created_by));
    lines.push(format!("Updated:     {} ago, by {}", since(item.updated_time, now), item.updated_by));
    if let (Some(time), Some(by)) = (item.deleted_time, &item.deleted_by) {
        lines.push(format!("Deleting:    since {} by {by}", since(time, now)));
    }
    lines.push("Spec:".to_owned());
    let spec = serde_json::to_string_pretty(&item.spec).unwrap_or_default();
    lines.extend(spec.lines().map(|line| format!("  {line}")));
    lines.push("Conditions:".to_owned());
    lines.extend(indented(conditions(&item.status.conditions, now), "  none: no adapter is required"));
    lines.push("Adapters:".to_owned());
    lines.extend(indented(statuses(adapters, now), "  none has reported"));
    lines.push("Last reports:".to_owned());
    lines.extend(indented(log(entries), "  none"));
    lines
}

fn conditions(conditions: &[ResourceCondition], now: Timestamp) -> Vec<String> {
    let rows = conditions.iter().map(|condition| {
        [
            condition.type_.clone(),
            condition.status.as_str().to_owned(),
            condition.observed_generation.to_string(),
            since(condition.last_transition_time, now),
            or_dash(condition.reason.clone().unwrap_or_default()),
            or_dash(condition.message.clone().unwrap_or_default()),
        ]
    });
    table(["TYPE", "STATUS", "GENERATION", "SINCE", "REASON", "MESSAGE"], rows)
}

/// The lines of a table that has rows, or else a word.
fn indented(lines: Vec<String>, otherwise: &str) -> Vec<String> {
    match lines.len() {
        0 | 1 => vec![otherwise.to_owned()],
        _ => lines.into_iter().map(|line| format!("  {line}")).collect(),
    }
}
