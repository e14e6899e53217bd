//! A rollout as text: a table, a picture for a terminal, a line for each change. Pure.

use super::progress::{Placed, Progress, Stage, Tally};
use crate::output::{Colour, Hue, coloured, cut, some_of, table_of};
use crate::screen::Frame;

/// How many clusters are named that wait for the same thing, and how many that failed.
const NAMED: usize = 3;
/// How many clusters that failed have a line of their own, unless all are wanted.
const FAILED: usize = 3;
/// How wide a bar is.
const BAR: usize = 20;

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

/// How much is told of clusters that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    Some,
    All,
}

/// The table, and below it what is to be known besides.
pub(super) fn lines(progress: &Progress, detail: Detail, colour: Colour) -> Vec<String> {
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

/// What is drawn on a terminal, as much of it as fits.
pub(super) fn picture(progress: &Progress, clock: &str, frame: Frame, colour: Colour) -> Vec<String> {
    let rows = rows(progress);
    let header = ["PLACEMENT", "GROUP", "VERSION", "PROGRESS", "STATE"];
    let cells = rows.iter().map(|row| {
        let [placement, group, version, .., state] = cells(row);
        [placement, group, version, bar(&row.tally), state]
    });
    let mut table = table_of(header, cells);
    paint(&mut table, &rows, colour);
    let mut lines =
        vec![format!("{}  {clock}  {}", progress.addon, tally_in_words(&progress.total())), String::new()];
    let notes = notes(progress, Detail::Some);
    let room = frame.lines.saturating_sub(lines.len() + notes.len().min(frame.lines / 2) + 1).max(2);
    if table.len() > room {
        let more = table.len() - room + 1;
        table.truncate(room - 1);
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

/// What has changed between two looks, a line for each: of groups where they are, and of what newly failed.
pub(super) fn news(before: Option<&Progress>, now: &Progress) -> Vec<String> {
    let mut news = Vec::new();
    for placed in &now.placements {
        let known = before
            .and_then(|before| before.placements.iter().find(|known| known.placement == placed.placement));
        let told = known.map(sentences).unwrap_or_default();
        news.extend(sentences(placed).into_iter().filter(|sentence| !told.contains(sentence)));
        let told: Vec<String> = known.map(|known| notes_of(known, Detail::Some)).unwrap_or_default();
        news.extend(notes_of(placed, Detail::Some).into_iter().filter(|note| !told.contains(note)));
    }
    news
}

/// How far each group is.
fn sentences(placed: &Placed) -> Vec<String> {
    let version = or_dash(&placed.version);
    let say = |group: &str, tally: &Tally| {
        format!("{}{group} {version}: {}", placed.placement, tally_in_words(tally))
    };
    match placed.groups.as_slice() {
        [] | [_] => vec![format!("{}; {}", say("", &placed.total), placed.stage.word())],
        groups => {
            let all = format!("{}; {}", say("", &placed.total), placed.stage.word());
            let groups = groups.iter().map(|group| say(&format!(" group {}", group.label()), &group.tally));
            std::iter::once(all).chain(groups).collect()
        }
    }
}

/// `3 of 6 clusters done, 1 in progress, 2 waiting`
pub(super) fn tally_in_words(tally: &Tally) -> String {
    let wanted = tally.total - tally.overridden;
    let noun = if wanted == 1 { "cluster" } else { "clusters" };
    let mut words = format!("{} of {wanted} {noun} done", tally.done);
    let parts = [
        (tally.in_progress, "in progress"),
        (tally.waiting, "waiting"),
        (tally.failed, "failed"),
        (tally.timed_out, "timed out"),
        (tally.overridden, "set by hand"),
    ];
    for (count, word) in parts.into_iter().filter(|(count, _)| *count > 0) {
        words.push_str(&format!(", {count} {word}"));
    }
    words
}

/// A line of the table.
struct Line<'a> {
    placed: &'a Placed,
    group: String,
    tally: Tally,
    /// Of the placement as a whole, which its first line has.
    stage: Option<Stage>,
}

/// A line for each placement, and below it one for each group where there are several.
fn rows(progress: &Progress) -> Vec<Line<'_>> {
    let mut rows = Vec::new();
    for placed in &progress.placements {
        let stage = Some(placed.stage);
        match placed.groups.as_slice() {
            [] => rows.push(Line { placed, group: "-".to_owned(), tally: placed.total, stage }),
            [one] => rows.push(Line { placed, group: one.label(), tally: one.tally, stage }),
            several => {
                rows.push(Line { placed, group: "(all)".to_owned(), tally: placed.total, stage });
                rows.extend(several.iter().map(|group| Line {
                    placed,
                    group: group.label(),
                    tally: group.tally,
                    stage: None,
                }));
            }
        }
    }
    rows
}

fn cells(line: &Line<'_>) -> [String; 10] {
    let Tally { total, done, in_progress, waiting, failed, timed_out, .. } = line.tally;
    let [total, done, in_progress, waiting, failed, timed_out] =
        [total, done, in_progress, waiting, failed, timed_out].map(|count| count.to_string());
    [
        line.placed.placement.clone(),
        line.group.clone(),
        or_dash(&line.placed.version),
        total,
        done,
        in_progress,
        waiting,
        failed,
        timed_out,
        line.stage.map_or(String::new(), |stage| stage.word().to_owned()),
    ]
}

fn paint(lines: &mut [String], rows: &[Line<'_>], colour: Colour) {
    let place = lines.first().and_then(|header| header.rfind("STATE"));
    let (Colour::ByState, Some(place)) = (colour, place) else { return };
    for (line, row) in lines.iter_mut().skip(1).zip(rows) {
        // The place is one of characters: a bar is of some that have several bytes.
        let start = line.char_indices().nth(place).map(|(start, _)| start);
        if let (Some(stage), Some(start)) = (row.stage, start) {
            *line = coloured(line, start, stage.word(), hue(stage));
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
fn bar(tally: &Tally) -> String {
    let wanted = tally.total - tally.overridden;
    let failed = tally.failed + tally.timed_out;
    // Whatever there is of is to be seen, however little.
    let part = |count: usize| match count {
        0 => 0,
        count => (count * BAR).checked_div(wanted).unwrap_or_default().max(1),
    };
    let (done, moving, failed) = (part(tally.done), part(tally.in_progress), part(failed));
    let done = done.min(BAR.saturating_sub(moving + failed));
    let rest = if tally.waiting == 0 { 0 } else { BAR.saturating_sub(done + moving + failed) };
    let done = if tally.waiting == 0 && wanted > 0 { BAR.saturating_sub(moving + failed) } else { done };
    let bar = ["█".repeat(done), "▒".repeat(moving), "░".repeat(rest), "×".repeat(failed)].concat();
    format!("{bar:BAR$} {}/{wanted}", tally.done)
}

fn notes(progress: &Progress, detail: Detail) -> Vec<String> {
    progress.placements.iter().flat_map(|placed| notes_of(placed, detail)).collect()
}

/// What is to be known of a placement beside numbers.
fn notes_of(placed: &Placed, detail: Detail) -> Vec<String> {
    let name = &placed.placement;
    let mut notes = Vec::new();
    if let Some(doubt) = &placed.doubt {
        notes.push(format!("{name}: it is not known which clusters it has: {doubt}"));
    }
    for waiting in &placed.waiting {
        let names: Vec<&str> = waiting.clusters.iter().map(String::as_str).take(NAMED).collect();
        let more = waiting.count.saturating_sub(names.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let verb = if waiting.count == 1 { "waits" } else { "wait" };
        notes.push(format!("{name}: {}{more} {verb}: {}", names.join(", "), waiting.for_));
    }
    let most = if detail == Detail::All { usize::MAX } else { FAILED };
    notes.extend(
        placed.failed.iter().take(most).map(|one| format!("{name}: {} failed: {}", one.cluster, one.why)),
    );
    if let Some(rest) = placed.failed.get(most..).filter(|rest| !rest.is_empty()) {
        notes.push(format!("{name}: and {} more failed; -o wide names them all", rest.len()));
    }
    if placed.total.overridden > 0 {
        let noun = if placed.total.overridden == 1 { "cluster goes" } else { "clusters go" };
        notes.push(format!("{name}: {} {noun} by a version that a person has set", placed.total.overridden));
    }
    let taken: Vec<&str> = placed.taken.iter().map(|one| one.cluster.as_str()).collect();
    if let Some(first) = placed.taken.first() {
        let by = if placed.taken.iter().all(|one| one.by == first.by) {
            first.by.as_str()
        } else {
            "later placements"
        };
        let verb = if taken.len() == 1 { "goes" } else { "go" };
        notes.push(format!("{name}: {} {verb} by {by}", some_of(&taken, NAMED)));
    }
    notes
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addon::progress::{Failed, Group, Waiting};
    use crate::addon::reach::Taken;

    fn tally(done: usize, in_progress: usize, waiting: usize, failed: usize) -> Tally {
        let total = done + in_progress + waiting + failed;
        Tally { total, done, in_progress, waiting, failed, ..Tally::default() }
    }

    fn placed(name: &str, stage: Stage, groups: &[(&str, Tally)]) -> Placed {
        let mut total = Tally::default();
        for (_, one) in groups {
            total.total += one.total;
            total.done += one.done;
            total.in_progress += one.in_progress;
            total.waiting += one.waiting;
            total.failed += one.failed;
        }
        Placed {
            placement: format!("default/{name}"),
            version: "v2".into(),
            stage,
            strategy: "all at once".into(),
            total,
            groups: groups
                .iter()
                .enumerate()
                .map(|(index, (name, tally))| Group { index, name: (*name).into(), tally: *tally })
                .collect(),
            waiting: Vec::new(),
            failed: Vec::new(),
            taken: Vec::new(),
            doubt: None,
        }
    }

    fn example() -> Progress {
        let mut global =
            placed("global", Stage::Blocked, &[("canary", tally(0, 0, 0, 1)), ("", tally(0, 0, 14, 0))]);
        global.waiting = vec![Waiting {
            for_: "the rollout stopped: 1 failed, 0 may: a".into(),
            count: 14,
            clusters: ["b", "c", "d", "e"].map(String::from).to_vec(),
        }];
        global.failed =
            vec![Failed { cluster: "a".into(), why: "could not upgrade to version v2: no".into() }];
        global.taken = vec![Taken { cluster: "z".into(), by: "default/canary".into() }];
        let canary = placed("canary", Stage::Completed, &[("", tally(1, 0, 0, 0))]);
        Progress { addon: "hello".into(), placements: vec![global, canary] }
    }

    #[test]
    fn the_table_has_a_line_for_each_group_and_names_what_is_waited_for() {
        let wanted = [
            "PLACEMENT       GROUP   VERSION  TOTAL  DONE  IN PROGRESS  WAITING  FAILED  TIMED OUT  STATE",
            "default/global  (all)   v2       15     0     0            14       1       0          Blocked",
            "default/global  canary  v2       1      0     0            0        1       0",
            "default/global  1       v2       14     0     0            14       0       0",
            "default/canary  0       v2       1      1     0            0        0       0          Completed",
            "",
            "default/global: b, c, d and 11 more wait: the rollout stopped: 1 failed, 0 may: a",
            "default/global: a failed: could not upgrade to version v2: no",
            "default/global: z goes by default/canary",
        ];
        let found = lines(&example(), Detail::Some, Colour::Plain);
        assert_eq!(found.iter().map(|line| line.trim_end()).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn the_picture_fits_the_terminal() {
        for lines in [1, 3, 5, 8, 24] {
            for columns in [20, 80, 200] {
                let found = picture(&example(), "10:00:00", Frame { lines, columns }, Colour::ByState);
                assert!(found.len() <= lines, "{lines}: {found:#?}");
                assert!(found.iter().all(|line| console::measure_text_width(line) <= columns), "{found:#?}");
            }
        }
        let found = picture(&example(), "10:00:00", Frame { lines: 24, columns: 200 }, Colour::ByState);
        assert_eq!(found[0], "hello  10:00:00  1 of 16 clusters done, 14 waiting, 1 failed");
        assert!(
            found[3].contains("░×") && found[3].contains("0/15") && found[3].contains("\u{1b}[31mBlocked"),
            "{found:#?}"
        );
    }

    #[test]
    fn a_bar_shows_whatever_there_is_of() {
        let rows = [
            (tally(10, 0, 0, 0), "████████████████████ 10/10"),
            (tally(5, 0, 5, 0), "██████████░░░░░░░░░░ 5/10"),
            (tally(9_998, 1, 0, 1), "██████████████████▒× 9998/10000"),
            (tally(0, 1, 2, 0), "▒▒▒▒▒▒░░░░░░░░░░░░░░ 0/3"),
            (tally(0, 0, 0, 2), "×××××××××××××××××××× 0/2"),
            (tally(0, 0, 0, 0), "                     0/0"),
        ];
        for (tally, wanted) in rows {
            assert_eq!(bar(&tally), wanted);
        }
    }

    #[test]
    fn only_changes_are_news() {
        let before = example();
        assert_eq!(news(Some(&before), &before), Vec::<String>::new());
        assert_eq!(news(None, &before).len(), 3 + 3 + 1);
        let mut after = before.clone();
        after.placements[1].total = tally(0, 1, 0, 0);
        after.placements[1].groups[0].tally = tally(0, 1, 0, 0);
        after.placements[1].stage = Stage::Progressing;
        assert_eq!(
            news(Some(&before), &after),
            ["default/canary v2: 0 of 1 cluster done, 1 in progress; Progressing"]
        );
    }
}
