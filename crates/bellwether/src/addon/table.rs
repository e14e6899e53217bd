//! Prints the states of add-ons as a table. Pure.

use bellwether_lifecycle::addon::state::{AddonState, Urgency};
use jiff::Timestamp;

use crate::output::{Colour, Hue, coloured, since, table_of};

/// The optional columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) addon: bool,
    pub(super) wide: bool,
}

impl Columns {
    /// The cells of the selected columns.
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

/// A header and a line for each add-on on a cluster: by add-on, the most urgent first.
pub(super) fn lines(
    rows: &mut [AddonState],
    columns: Columns,
    now: Timestamp,
    colour: Colour,
) -> Vec<String> {
    rows.sort_by(|one, other| key(one).cmp(&key(other)));
    let mut lines =
        table_of(columns.of(HEADER), rows.iter().map(|row| columns.of(cells(row, now)).collect::<Vec<_>>()));
    if colour == Colour::ByState {
        let place = lines.first().and_then(|header| header.find(STATE)).map_or(0, |place| place + 1);
        for (line, row) in lines.iter_mut().skip(1).zip(rows.iter()) {
            *line = coloured(line, place, &row.state.to_string(), hue(row.state.urgency()));
        }
    }
    lines
}

fn key(row: &AddonState) -> (&str, Urgency, &str) {
    (&row.addon, row.state.urgency(), &row.cluster)
}

fn hue(urgency: Urgency) -> Hue {
    match urgency {
        Urgency::Error => Hue::Red,
        Urgency::Warning => Hue::Yellow,
        Urgency::Good => Hue::Green,
    }
}

/// The number of add-ons in each state.
pub(super) fn summary(rows: &[AddonState]) -> String {
    let mut counts: Vec<(String, Urgency, usize)> = Vec::new();
    for row in rows {
        let state = row.state.to_string();
        match counts.iter_mut().find(|(known, ..)| *known == state) {
            Some((_, _, count)) => *count += 1,
            None => counts.push((state, row.state.urgency(), 1)),
        }
    }
    counts.sort_by(|one, other| (one.1, &one.0).cmp(&(other.1, &other.0)));
    let counts: Vec<String> =
        counts.into_iter().map(|(state, _, count)| format!("{count} {state}")).collect();
    counts.join(", ")
}

fn cells(row: &AddonState, now: Timestamp) -> [String; 12] {
    let [available, heartbeat, degraded] = row.conditions.each_ref().map(|condition| or_dash(condition));
    [
        row.addon.clone(),
        row.cluster.clone(),
        or_dash(&row.desired),
        or_dash(&row.current),
        or_dash(&row.last),
        row.state.to_string(),
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
    use bellwether_lifecycle::addon::state::{Phase, Problem, State};

    use super::*;

    fn row(addon: &str, cluster: &str, phase: Phase, problem: Option<Problem>) -> AddonState {
        AddonState {
            addon: addon.into(),
            cluster: cluster.into(),
            placement: Some("default/p".into()),
            desired: "v2".into(),
            current: "v1".into(),
            last: String::new(),
            state: State { phase, problem },
            since: Some("2024-05-01T10:00:00Z".parse().unwrap()),
            why: String::new(),
            conditions: ["True/Up".into(), String::new(), String::new()],
        }
    }

    fn three() -> [AddonState; 3] {
        [
            row("b", "c1", Phase::Succeed, None),
            row("a", "c2", Phase::Succeed, Some(Problem::Silent)),
            row("a", "c1", Phase::Waiting, None),
        ]
    }

    fn shown(columns: Columns, colour: Colour) -> Vec<String> {
        lines(&mut three(), columns, "2024-05-01T10:01:12Z".parse().unwrap(), colour)
    }

    #[test]
    fn most_urgent_clusters_of_each_add_on_come_first() {
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
    fn wide_table_has_more_columns_and_that_of_one_add_on_no_name() {
        let split = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let wide = shown(Columns { addon: false, wide: true }, Colour::Plain);
        assert_eq!(split(&wide[0]).join(" "), HEADER[1..].join(" "));
        assert_eq!(split(&wide[1]).join(" "), "c2 v2 v1 - Succeed,Silent 1m12s default/p True/Up - - -");
    }

    #[test]
    fn state_is_coloured() {
        let lines = shown(Columns { addon: true, wide: false }, Colour::ByState);
        assert!(lines[1].contains("\u{1b}[31mSucceed,Silent\u{1b}[0m"), "{:?}", lines[1]);
        assert!(lines[3].contains("\u{1b}[32mSucceed\u{1b}[0m"), "{:?}", lines[3]);
    }

    #[test]
    fn summary_counts_the_most_urgent_first() {
        assert_eq!(summary(&three()), "1 Succeed,Silent, 1 Waiting, 1 Succeed");
    }
}
