//! Prints the progress of rollouts: as a table, as a live view for a terminal, or as a line for each change. Pure.

use bellwether_lifecycle::report::{AddonProgress, PlacementProgress, Stage};
use bellwether_lifecycle::rollout::Counts;

use crate::output::{Colour, Hue, coloured, cut, name_some, table_of};
use crate::screen::Frame;

/// How many clusters are named in a note.
const MAX_NAMES: usize = 3;
/// How many failed clusters have a note of their own with [`Detail::Some`].
const MAX_FAILED: usize = 3;
/// The width of a progress bar.
const BAR_WIDTH: usize = 20;

const HEADER: [&str; 10] = [
    "PLACEMENT",
    "GROUP",
    "VERSION",
    "TOTAL",
    "DONE",
    "IN PROGRESS",
    "WAITING",
    "FAILED",
    "TIMED OUT",
    "STATE",
];

/// How many failed clusters are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    Some,
    All,
}

/// The table, and below it the notes.
pub(super) fn lines(progress: &AddonProgress, detail: Detail, colour: Colour) -> Vec<String> {
    let rows = rows(progress);
    let mut lines = table_of(HEADER, rows.iter().map(|row| cells(row)));
    paint(&mut lines, &rows, colour);
    let notes = notes(progress, detail);
    if !notes.is_empty() {
        lines.push(String::new());
        lines.extend(notes);
    }
    lines
}

/// The live view for a terminal, as much of it as fits.
pub(super) fn live(progress: &AddonProgress, clock: &str, frame: Frame, colour: Colour) -> Vec<String> {
    let rows = rows(progress);
    let header = ["PLACEMENT", "GROUP", "VERSION", "PROGRESS", "STATE"];
    let cells = rows.iter().map(|row| {
        let [placement, group, version, .., state] = cells(row);
        [placement, group, version, bar(&row.counts), state]
    });
    let mut table = table_of(header, cells);
    paint(&mut table, &rows, colour);
    let mut lines =
        vec![format!("{}  {clock}  {}", progress.addon, describe_counts(&progress.total())), String::new()];
    let notes = notes(progress, Detail::Some);
    let table_lines = frame.lines.saturating_sub(lines.len() + notes.len().min(frame.lines / 2) + 1).max(2);
    if table.len() > table_lines {
        let more = table.len() - table_lines + 1;
        table.truncate(table_lines - 1);
        table.push(format!("… and {more} more"));
    }
    lines.extend(table);
    if !notes.is_empty() {
        lines.push(String::new());
        lines.extend(notes);
    }
    lines.truncate(frame.lines.max(1));
    lines.iter().map(|line| cut(line, frame.columns)).collect()
}

/// The lines about placements and groups that differ from those before.
pub(super) fn changes(before: Option<&AddonProgress>, now: &AddonProgress) -> Vec<String> {
    let mut changes = Vec::new();
    for placed in &now.placements {
        let previous =
            before.and_then(|before| before.placements.iter().find(|one| one.placement == placed.placement));
        let known = previous.map(sentences).unwrap_or_default();
        changes.extend(sentences(placed).into_iter().filter(|sentence| !known.contains(sentence)));
        let known = previous.map(|previous| notes_of(previous, Detail::Some)).unwrap_or_default();
        changes.extend(notes_of(placed, Detail::Some).into_iter().filter(|note| !known.contains(note)));
    }
    changes
}

/// A sentence for the placement, and one for each group if there are several.
fn sentences(placed: &PlacementProgress) -> Vec<String> {
    let version = or_dash(&placed.version);
    let describe = |group: &str, counts: &Counts| {
        format!("{}{group} {version}: {}", placed.placement, describe_counts(counts))
    };
    match placed.groups.as_slice() {
        [] | [_] => vec![format!("{}; {}", describe("", &placed.total), placed.stage.as_str())],
        groups => {
            let all = format!("{}; {}", describe("", &placed.total), placed.stage.as_str());
            let groups =
                groups.iter().map(|group| describe(&format!(" group {}", group.label()), &group.counts));
            std::iter::once(all).chain(groups).collect()
        }
    }
}

/// `3 of 6 clusters done, 1 in progress, 2 waiting`
pub(super) fn describe_counts(counts: &Counts) -> String {
    let wanted = counts.selected - counts.overridden;
    let noun = if wanted == 1 { "cluster" } else { "clusters" };
    let mut text = format!("{} of {wanted} {noun} done", counts.done);
    let parts = [
        (counts.changing, "in progress"),
        (counts.waiting, "waiting"),
        (counts.failed, "failed"),
        (counts.timed_out, "timed out"),
        (counts.overridden, "overridden"),
    ];
    for (count, word) in parts.into_iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!(", {count} {word}"));
    }
    text
}

/// A line of the table.
struct Line<'a> {
    placed: &'a PlacementProgress,
    group: String,
    counts: Counts,
    /// The stage of the placement, on its first line.
    stage: Option<Stage>,
}

/// A line for each placement, and below it one for each group where there are several.
fn rows(progress: &AddonProgress) -> Vec<Line<'_>> {
    let mut rows = Vec::new();
    for placed in &progress.placements {
        let stage = Some(placed.stage);
        match placed.groups.as_slice() {
            [] => rows.push(Line { placed, group: "-".to_owned(), counts: placed.total, stage }),
            [one] => rows.push(Line { placed, group: one.label(), counts: one.counts, stage }),
            several => {
                rows.push(Line { placed, group: "(all)".to_owned(), counts: placed.total, stage });
                rows.extend(several.iter().map(|group| Line {
                    placed,
                    group: group.label(),
                    counts: group.counts,
                    stage: None,
                }));
            }
        }
    }
    rows
}

fn cells(line: &Line<'_>) -> [String; 10] {
    let Counts { selected, done, changing, waiting, failed, timed_out, .. } = line.counts;
    let [selected, done, changing, waiting, failed, timed_out] =
        [selected, done, changing, waiting, failed, timed_out].map(|count| count.to_string());
    [
        line.placed.placement.clone(),
        line.group.clone(),
        or_dash(&line.placed.version),
        selected,
        done,
        changing,
        waiting,
        failed,
        timed_out,
        line.stage.map_or(String::new(), |stage| stage.as_str().to_owned()),
    ]
}

fn paint(lines: &mut [String], rows: &[Line<'_>], colour: Colour) {
    let place = lines.first().and_then(|header| header.rfind("STATE"));
    let (Colour::ByState, Some(place)) = (colour, place) else { return };
    for (line, row) in lines.iter_mut().skip(1).zip(rows) {
        // `place` counts characters; those of a bar have several bytes.
        let start = line.char_indices().nth(place).map(|(start, _)| start);
        if let (Some(stage), Some(start)) = (row.stage, start) {
            *line = coloured(line, start, stage.as_str(), hue(stage));
        }
    }
}

fn hue(stage: Stage) -> Hue {
    match stage {
        Stage::Completed => Hue::Green,
        Stage::Empty => Hue::Faint,
        Stage::Progressing | Stage::Waiting | Stage::Paused | Stage::Unknown => Hue::Yellow,
        Stage::Blocked | Stage::Failed => Hue::Red,
    }
}

/// `████▒▒░░×× 4/10`: done, in progress, waiting, failed.
fn bar(counts: &Counts) -> String {
    let wanted = counts.selected - counts.overridden;
    let failed = counts.failed + counts.timed_out;
    // Even one cluster is visible.
    let part = |count: usize| match count {
        0 => 0,
        count => (count * BAR_WIDTH).checked_div(wanted).unwrap_or_default().max(1),
    };
    let (done, changing, failed) = (part(counts.done), part(counts.changing), part(failed));
    let done = done.min(BAR_WIDTH.saturating_sub(changing + failed));
    let rest = if counts.waiting == 0 { 0 } else { BAR_WIDTH.saturating_sub(done + changing + failed) };
    let done =
        if counts.waiting == 0 && wanted > 0 { BAR_WIDTH.saturating_sub(changing + failed) } else { done };
    let bar = ["█".repeat(done), "▒".repeat(changing), "░".repeat(rest), "×".repeat(failed)].concat();
    format!("{bar:BAR_WIDTH$} {}/{wanted}", counts.done)
}

fn notes(progress: &AddonProgress, detail: Detail) -> Vec<String> {
    progress.placements.iter().flat_map(|placed| notes_of(placed, detail)).collect()
}

/// What the numbers of a placement do not say.
fn notes_of(placed: &PlacementProgress, detail: Detail) -> Vec<String> {
    let name = &placed.placement;
    let mut notes = Vec::new();
    if let Some(why) = &placed.unknown {
        notes.push(format!("{name}: the selected clusters are unknown: {why}"));
    }
    for waiting in &placed.waiting {
        let names: Vec<&str> = waiting.clusters.iter().map(String::as_str).take(MAX_NAMES).collect();
        let more = usize::try_from(waiting.count).unwrap_or(usize::MAX).saturating_sub(names.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let verb = if waiting.count == 1 { "waits" } else { "wait" };
        notes.push(format!("{name}: {}{more} {verb}: {}", names.join(", "), waiting.for_));
    }
    if placed.may_start > 0 {
        let noun = if placed.may_start == 1 { "cluster" } else { "clusters" };
        notes.push(format!(
            "{name}: {} {noun} may start; the controller has not started them yet",
            placed.may_start
        ));
    }
    let limit = if detail == Detail::All { usize::MAX } else { MAX_FAILED };
    notes.extend(
        placed.failed.iter().take(limit).map(|one| format!("{name}: {} failed: {}", one.cluster, one.why)),
    );
    if let Some(rest) = placed.failed.get(limit..).filter(|rest| !rest.is_empty()) {
        notes.push(format!("{name}: and {} more failed; -o wide names them all", rest.len()));
    }
    if placed.total.overridden > 0 {
        let noun = if placed.total.overridden == 1 { "cluster has" } else { "clusters have" };
        notes.push(format!("{name}: {} {noun} a version that a user has set", placed.total.overridden));
    }
    let elsewhere = &placed.assigned_elsewhere;
    let clusters: Vec<&str> = elsewhere.iter().map(|one| one.cluster.as_str()).collect();
    if let Some(first) = elsewhere.first() {
        let to = if elsewhere.iter().all(|one| one.placement == first.placement) {
            first.placement.as_str()
        } else {
            "later placements"
        };
        let verb = if clusters.len() == 1 { "is" } else { "are" };
        notes.push(format!("{name}: {} {verb} assigned to {to}", name_some(&clusters, MAX_NAMES)));
    }
    notes
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use bellwether_api::addon::WaitingClusters;
    use bellwether_lifecycle::hub::AssignedElsewhere;
    use bellwether_lifecycle::report::{FailedCluster, GroupProgress};

    use super::*;

    fn counts(done: usize, changing: usize, waiting: usize, failed: usize) -> Counts {
        let selected = done + changing + waiting + failed;
        Counts { selected, done, changing, waiting, failed, ..Counts::default() }
    }

    fn placed(name: &str, stage: Stage, groups: &[(&str, Counts)]) -> PlacementProgress {
        PlacementProgress {
            placement: format!("default/{name}"),
            version: "v2".into(),
            stage,
            strategy: "all at once".into(),
            total: groups.iter().map(|(_, counts)| *counts).sum(),
            groups: groups
                .iter()
                .enumerate()
                .map(|(index, (name, counts))| GroupProgress { index, name: (*name).into(), counts: *counts })
                .collect(),
            waiting: Vec::new(),
            failed: Vec::new(),
            may_start: 0,
            assigned_elsewhere: Vec::new(),
            unknown: None,
        }
    }

    fn example() -> AddonProgress {
        let mut global =
            placed("global", Stage::Blocked, &[("canary", counts(0, 0, 0, 1)), ("", counts(0, 0, 14, 0))]);
        global.waiting = vec![WaitingClusters {
            reason: "Stopped".into(),
            for_: "the rollout stopped: 1 failed, 0 may: a".into(),
            count: 14,
            clusters: ["b", "c", "d", "e"].map(String::from).to_vec(),
        }];
        global.failed =
            vec![FailedCluster { cluster: "a".into(), why: "could not upgrade to version v2: no".into() }];
        global.assigned_elsewhere =
            vec![AssignedElsewhere { cluster: "z".into(), placement: "default/canary".into() }];
        let canary = placed("canary", Stage::Completed, &[("", counts(1, 0, 0, 0))]);
        AddonProgress { addon: "hello".into(), placements: vec![global, canary] }
    }

    #[test]
    fn table_has_a_row_for_each_group_and_notes_below() {
        let wanted = [
            "PLACEMENT       GROUP   VERSION  TOTAL  DONE  IN PROGRESS  WAITING  FAILED  TIMED OUT  STATE",
            "default/global  (all)   v2       15     0     0            14       1       0          Blocked",
            "default/global  canary  v2       1      0     0            0        1       0",
            "default/global  1       v2       14     0     0            14       0       0",
            "default/canary  0       v2       1      1     0            0        0       0          Completed",
            "",
            "default/global: b, c, d and 11 more wait: the rollout stopped: 1 failed, 0 may: a",
            "default/global: a failed: could not upgrade to version v2: no",
            "default/global: z is assigned to default/canary",
        ];
        let found = lines(&example(), Detail::Some, Colour::Plain);
        assert_eq!(found.iter().map(|line| line.trim_end()).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn live_view_fits_the_terminal() {
        for lines in [1, 3, 5, 8, 24] {
            for columns in [20, 80, 200] {
                let found = live(&example(), "10:00:00", Frame { lines, columns }, Colour::ByState);
                assert!(found.len() <= lines, "{lines}: {found:#?}");
                assert!(found.iter().all(|line| console::measure_text_width(line) <= columns), "{found:#?}");
            }
        }
        let found = live(&example(), "10:00:00", Frame { lines: 24, columns: 200 }, Colour::ByState);
        assert_eq!(found[0], "hello  10:00:00  1 of 16 clusters done, 14 waiting, 1 failed");
        assert!(
            found[3].contains("░×") && found[3].contains("0/15") && found[3].contains("\u{1b}[31mBlocked"),
            "{found:#?}"
        );
    }

    #[test]
    fn bar_shows_every_state_that_a_cluster_is_in() {
        let rows = [
            (counts(10, 0, 0, 0), "████████████████████ 10/10"),
            (counts(5, 0, 5, 0), "██████████░░░░░░░░░░ 5/10"),
            (counts(9_998, 1, 0, 1), "██████████████████▒× 9998/10000"),
            (counts(0, 1, 2, 0), "▒▒▒▒▒▒░░░░░░░░░░░░░░ 0/3"),
            (counts(0, 0, 0, 2), "×××××××××××××××××××× 0/2"),
            (counts(0, 0, 0, 0), "                     0/0"),
        ];
        for (counts, wanted) in rows {
            assert_eq!(bar(&counts), wanted);
        }
    }

    #[test]
    fn only_lines_that_differ_are_changes() {
        let before = example();
        assert_eq!(changes(Some(&before), &before), Vec::<String>::new());
        assert_eq!(changes(None, &before).len(), 3 + 3 + 1);
        let mut after = before.clone();
        after.placements[1].total = counts(0, 1, 0, 0);
        after.placements[1].groups[0].counts = counts(0, 1, 0, 0);
        after.placements[1].stage = Stage::Progressing;
        assert_eq!(
            changes(Some(&before), &after),
            ["default/canary v2: 0 of 1 cluster done, 1 in progress; Progressing"]
        );
    }
}
