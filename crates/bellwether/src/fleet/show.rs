//! Formats resources, adapter statuses and reports as text. It is pure.

use std::collections::HashMap;

use bellwether_conditions::Status;
use bellwether_fleet::client::WatchEvent;
use bellwether_fleet::resource::{AdapterStatus, Id, LogEntry, Resource, ResourceCondition};
use bellwether_fleet::vocabulary::{is_current, is_last_known};
use jiff::Timestamp;

use super::connection::Noun;
use crate::output::{since, table};

const CLUSTER_HEADER: [&str; 5] = ["NAME", "READY", "AVAILABLE", "GENERATION", "AGE"];
const NODE_POOL_HEADER: [&str; 6] = ["CLUSTER", "NAME", "READY", "AVAILABLE", "GENERATION", "AGE"];
const WIDE_HEADER: [&str; 9] =
    ["CLUSTER", "NAME", "READY", "AVAILABLE", "GENERATION", "AGE", "ID", "LABELS", "MESSAGE"];

/// The names of owners by ID.
pub(super) type Owners = HashMap<Id, String>;

/// Whether a table has the columns of `-o wide`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Narrow,
    Wide,
}

/// Formats a table of resources. A table of node pools has a column with their cluster.
pub(super) fn format_resources(
    items: &[Resource],
    owners: &Owners,
    width: Width,
    now: Timestamp,
) -> Vec<String> {
    let children = items.iter().any(|item| item.owner_references.is_some());
    let rows = items.iter().map(|item| cells(item, owners, now));
    match (width, children) {
        (Width::Wide, true) => table(WIDE_HEADER, rows),
        (Width::Wide, false) => {
            let [_, header @ ..] = WIDE_HEADER;
            table(header, rows.map(|[_, cells @ ..]| cells))
        }
        (Width::Narrow, true) => table(
            NODE_POOL_HEADER,
            rows.map(|[cluster, name, ready, available, generation, age, ..]| {
                [cluster, name, ready, available, generation, age]
            }),
        ),
        (Width::Narrow, false) => table(
            CLUSTER_HEADER,
            rows.map(|[_, name, ready, available, generation, age, ..]| {
                [name, ready, available, generation, age]
            }),
        ),
    }
}

/// The widths of the columns of `get --watch`, which cannot be computed because later rows are unknown. The last column has no
/// limit.
const EVENT_WIDTH: usize = 8;
const COLUMN_WIDTHS: [usize; 9] = [24, 32, 16, 10, 10, 5, 36, 24, 0];

/// Formats a watch event, as a header line and a row.
pub(super) fn format_event(event: &WatchEvent, owners: &Owners, width: Width, now: Timestamp) -> [String; 2] {
    let cells = cells(&event.resource, owners, now);
    let shown = if width == Width::Wide { cells.len() } else { cells.len() - 3 };
    let skipped = usize::from(event.resource.owner_references.is_none());
    let line = |first: &str, cells: &mut dyn Iterator<Item = &str>| {
        let mut line = format!("{first:EVENT_WIDTH$}");
        for (cell, wide) in cells.zip(COLUMN_WIDTHS).take(shown).skip(skipped) {
            line.push_str(&format!("  {cell:wide$}"));
        }
        line.trim_end().to_owned()
    };
    let header = line("EVENT", &mut WIDE_HEADER.iter().copied());
    [header, line(&event.event, &mut cells.iter().map(String::as_str))]
}

fn cells(item: &Resource, owners: &Owners, now: Timestamp) -> [String; 9] {
    let ready = find(item, is_current);
    let labels: Vec<String> = item.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let owner = item.owner().map(|owner| owners.get(&owner).cloned().unwrap_or_else(|| owner.to_string()));
    [
        owner.unwrap_or_default(),
        item.name.clone(),
        format_ready(item),
        format_available(item),
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

/// The cell READY; it also shows that the resource is being deleted.
fn format_ready(item: &Resource) -> String {
    let ready = find(item, is_current).map_or("-", |ready| ready.status.as_str());
    if item.is_deleting() { format!("{ready} (deleting)") } else { ready.to_owned() }
}

/// The cell AVAILABLE; it has the last known good generation if that is not the current one, such as `True@1`.
fn format_available(item: &Resource) -> String {
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

/// Formats a table of adapter statuses.
pub(super) fn format_statuses(items: &[AdapterStatus], now: Timestamp) -> Vec<String> {
    let status_of = |item: &AdapterStatus, type_: &str| {
        let found = item.conditions.iter().find(|condition| condition.type_ == type_);
        found.map_or("-", |condition| condition.status.as_str()).to_owned()
    };
    let rows = items.iter().map(|item| {
        let available = item.conditions.iter().find(|condition| condition.type_ == "Available");
        [
            item.adapter.clone(),
            item.observed_generation.to_string(),
            status_of(item, "Available"),
            status_of(item, "Applied"),
            status_of(item, "Health"),
            since(item.last_updated_time, now),
            since(item.last_report_time, now),
            or_dash(available.and_then(|it| it.message.clone().or(it.reason.clone())).unwrap_or_default()),
        ]
    });
    table(["ADAPTER", "GENERATION", "AVAILABLE", "APPLIED", "HEALTH", "ACCEPTED", "HEARD", "MESSAGE"], rows)
}

/// Formats a table of reports with their verdicts.
pub(super) fn format_log(entries: &[LogEntry]) -> Vec<String> {
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

/// Formats all details of a resource.
pub(super) fn format_details(
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
    lines.extend(indented(format_conditions(&item.status.conditions, now), "  none: no adapter is required"));
    lines.push("Adapters:".to_owned());
    lines.extend(indented(format_statuses(adapters, now), "  no adapter has reported"));
    lines.push("Last reports:".to_owned());
    lines.extend(indented(format_log(entries), "  none"));
    lines
}

fn format_conditions(conditions: &[ResourceCondition], now: Timestamp) -> Vec<String> {
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

/// Indents the lines of a table, or returns `empty` if it has no rows.
fn indented(lines: Vec<String>, empty: &str) -> Vec<String> {
    match lines.len() {
        0 | 1 => vec![empty.to_owned()],
        _ => lines.into_iter().map(|line| format!("  {line}")).collect(),
    }
}
