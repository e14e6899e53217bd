//! The add-ons of a fleet as a table. Pure.

use jiff::Timestamp;

use super::state::Row;
use crate::output::{Colour, coloured, since, table_of};

/// Which columns there are beside those that there always are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) addon: bool,
    pub(super) wide: bool,
}

impl Columns {
    /// Those cells that are shown.
    fn of<T>(self, cells: [T; 12]) -> impl Iterator<Item = T> {
        let shown = move |place: &usize| match place {
            0 => self.addon,
            7..=10 => self.wide,
            _ => true,
        };
        cells.into_iter().enumerate().filter(move |(place, _)| shown(place)).map(|(_, cell)| cell)
    }
}

const HEADER: [&str; 12] = [
    "ADD-ON",
    "CLUSTER",
    "DESIRED",
    "CURRENT",
    "LAST",
    "STATE",
    "SINCE",
    "PLACEMENT",
    "AVAILABLE",
    "HEARTBEAT",
    "DEGRADED",
    "WHY",
];
const STATE: &str = " STATE ";

/// A line for each row below a header, by add-on, those in trouble first.
pub(super) fn lines(rows: &mut [Row], columns: Columns, now: Timestamp, colour: Colour) -> Vec<String> {
    rows.sort_by(|one, other| key(one).cmp(&key(other)));
    let mut lines =
        table_of(columns.of(HEADER), rows.iter().map(|row| columns.of(cells(row, now)).collect::<Vec<_>>()));
    if colour == Colour::ByState {
        let place = lines.first().and_then(|header| header.find(STATE)).map_or(0, |place| place + 1);
        for (line, row) in lines.iter_mut().skip(1).zip(rows.iter()) {
            *line = coloured(line, place, &row.state.word(), row.state.hue());
        }
    }
    lines
}

fn key(row: &Row) -> (&str, u8, &str) {
    (&row.addon, row.state.rank(), &row.cluster)
}

/// How many there are of each state.
pub(super) fn summary(rows: &[Row]) -> String {
    let mut counts: Vec<(String, u8, usize)> = Vec::new();
    for row in rows {
        let word = row.state.word();
        match counts.iter_mut().find(|(known, ..)| *known == word) {
            Some((_, _, count)) => *count += 1,
            None => counts.push((word, row.state.rank(), 1)),
        }
    }
    counts.sort_by(|one, other| (one.1, &one.0).cmp(&(other.1, &other.0)));
    let counts: Vec<String> = counts.into_iter().map(|(word, _, count)| format!("{count} {word}")).collect();
    counts.join(", ")
}

fn cells(row: &Row, now: Timestamp) -> [String; 12] {
    let [available, heartbeat, degraded] = row.conditions.each_ref().map(|words| or_dash(words));
    [
        row.addon.clone(),
        row.cluster.clone(),
        or_dash(&row.desired),
        or_dash(&row.current),
        or_dash(&row.last),
        row.state.word(),
        row.since.map_or("-".to_owned(), |time| since(time, now)),
        or_dash(row.placement.as_deref().unwrap_or_default()),
        available,
        heartbeat,
        degraded,
        or_dash(&row.why),
    ]
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addon::state::{Course, State, Trouble};

    fn row(addon: &str, cluster: &str, course: Course, trouble: Option<Trouble>) -> Row {
        Row {
            addon: addon.into(),
            cluster: cluster.into(),
            placement: Some("default/p".into()),
            desired: "v2".into(),
            current: "v1".into(),
            last: String::new(),
            state: State { course, trouble },
            since: Some("2024-05-01T10:00:00Z".parse().unwrap()),
            why: String::new(),
            conditions: ["True/Up".into(), String::new(), String::new()],
        }
    }

    fn three() -> [Row; 3] {
        [
            row("b", "c1", Course::Succeed, None),
            row("a", "c2", Course::Succeed, Some(Trouble::Silent)),
            row("a", "c1", Course::Waiting, None),
        ]
    }

    fn shown(columns: Columns, colour: Colour) -> Vec<String> {
        lines(&mut three(), columns, "2024-05-01T10:01:12Z".parse().unwrap(), colour)
    }

    #[test]
    fn trouble_comes_first_in_each_add_on() {
        assert_eq!(
            shown(Columns { addon: true, wide: false }, Colour::Plain),
            [
                "ADD-ON  CLUSTER  DESIRED  CURRENT  LAST  STATE           SINCE  WHY",
                "a       c2       v2       v1       -     Succeed,Silent  1m12s  -",
                "a       c1       v2       v1       -     Waiting         1m12s  -",
                "b       c1       v2       v1       -     Succeed         1m12s  -",
            ]
        );
    }

    #[test]
    fn a_wide_table_has_more_and_that_of_one_add_on_less() {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let wide = shown(Columns { addon: false, wide: true }, Colour::Plain);
        assert_eq!(words(&wide[0]).join(" "), HEADER[1..].join(" "));
        assert_eq!(words(&wide[1]).join(" "), "c2 v2 v1 - Succeed,Silent 1m12s default/p True/Up - - -");
    }

    #[test]
    fn the_state_has_a_colour() {
        let lines = shown(Columns { addon: true, wide: false }, Colour::ByState);
        assert!(lines[1].contains("\u{1b}[31mSucceed,Silent\u{1b}[0m"), "{:?}", lines[1]);
        assert!(lines[3].contains("\u{1b}[32mSucceed\u{1b}[0m"), "{:?}", lines[3]);
    }

    #[test]
    fn the_summary_counts_the_worst_first() {
        assert_eq!(summary(&three()), "1 Succeed,Silent, 1 Waiting, 1 Succeed");
    }
}
