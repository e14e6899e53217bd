//! Formats rows: as a table for people, as JSON for programs. It is pure; writing to the terminal is left to `watch`.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::liveness::{Row, State};
use crate::output::{Colour, Hue, age, coloured, cut, table};
use crate::screen::Frame;

const HEADER: [&str; 7] = ["NAMESPACE", "NAME", "STATE", "AGE", "LAST HEARTBEAT", "PERIOD", "REASON"];
const STATE_COLUMN: &str = "STATE";

/// Formats a header and a line for each row. In a frame only as many rows as fit are shown, and a last line counts the others.
pub(super) fn format_table(
    rows: &[Row],
    zone: &TimeZone,
    frame: Option<Frame>,
    colour: Colour,
) -> Vec<String> {
    if rows.is_empty() {
        return vec!["There are no AddonInstances.".to_owned()];
    }
    // One line is for the header and, if not all rows fit, one for the number of hidden rows.
    let capacity = frame.map_or(usize::MAX, |frame| frame.lines.saturating_sub(1).max(1));
    let shown = if rows.len() <= capacity { rows.len() } else { capacity.saturating_sub(1) };
    let shown_rows = rows.get(..shown).unwrap_or(rows);

    let mut lines = format_plain(shown_rows, zone);
    let column = lines.first().and_then(|header| header.find(STATE_COLUMN)).unwrap_or(0);
    if rows.len() > shown {
        lines.push(format!("… and {} more", rows.len() - shown));
    }
    if let Some(frame) = frame {
        lines.iter_mut().for_each(|line| *line = cut(line, frame.columns));
    }
    if colour == Colour::ByState {
        for (line, row) in lines.iter_mut().skip(1).zip(shown_rows) {
            *line = coloured(line, column, row.state.as_str(), hue_of(row.state));
        }
    }
    lines
}

/// Counts the rows by state, such as `3 AddonInstances: 1 Silent, 2 Alive`.
pub(super) fn summarize(rows: &[Row]) -> String {
    let counts: Vec<String> = State::ALL
        .into_iter()
        .map(|state| (state, rows.iter().filter(|row| row.state == state).count()))
        .filter(|(_, count)| *count > 0)
        .map(|(state, count)| format!("{count} {}", state.as_str()))
        .collect();
    match rows.len() {
        0 => "no AddonInstances".to_owned(),
        1 => format!("1 AddonInstance: {}", counts.join(", ")),
        many => format!("{many} AddonInstances: {}", counts.join(", ")),
    }
}

pub(super) fn to_json(row: &Row) -> Value {
    json!({
        "namespace": row.namespace,
        "name": row.name,
        "lastHeartbeatTime": row.last_heartbeat,
        "ageSeconds": row.age.map(|age| age.as_secs()),
        "periodSeconds": row.effective_period.as_secs_f64(),
        "state": row.state.as_str(),
        "reason": row.reason,
        "message": row.message,
    })
}

/// Formats a state with its reason, if there is one: `Down (ComponentDown)`.
pub(super) fn format_state(state: State, reason: &str) -> String {
    if reason.is_empty() { state.as_str().to_owned() } else { format!("{} ({reason})", state.as_str()) }
}

fn format_plain(rows: &[Row], zone: &TimeZone) -> Vec<String> {
    let cells = |row: &Row| {
        [
            row.namespace.clone(),
            row.name.clone(),
            row.state.as_str().to_owned(),
            row.age.map_or("-".to_owned(), age),
            row.last_heartbeat.map_or("-".to_owned(), |time| format_time(time, zone)),
            row.period.clone(),
            if row.reason.is_empty() { "-".to_owned() } else { row.reason.clone() },
        ]
    };
    table(HEADER, rows.iter().map(cells))
}

fn format_time(time: Timestamp, zone: &TimeZone) -> String {
    time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn hue_of(state: State) -> Hue {
    match state {
        State::Silent | State::Down => Hue::Red,
        State::Late | State::Unknown => Hue::Yellow,
        State::Never => Hue::Faint,
        State::Alive => Hue::Green,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn row(name: &str, state: State, reason: &str) -> Row {
        let last_heartbeat = (state != State::Never).then(|| "2024-05-01T10:00:00Z".parse().unwrap());
        Row {
            namespace: "reference-addon".into(),
            name: name.into(),
            last_heartbeat,
            age: last_heartbeat.map(|_| Duration::from_secs(72)),
            period: "10s".into(),
            effective_period: Duration::from_secs(10),
            state,
            reason: reason.into(),
            message: String::new(),
        }
    }

    fn three_rows() -> [Row; 3] {
        [
            row("addon-instance", State::Silent, "HeartbeatTimeout"),
            row("b", State::Never, ""),
            row("c", State::Alive, "ComponentsUp"),
        ]
    }

    #[test]
    fn table_has_a_line_for_each_row() {
        let lines = format_table(&three_rows(), &TimeZone::UTC, None, Colour::Plain);
        let cells: Vec<Vec<&str>> = lines
            .iter()
            .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect();
        assert_eq!(
            cells,
            [
                HEADER.to_vec(),
                vec![
                    "reference-addon",
                    "addon-instance",
                    "Silent",
                    "1m12s",
                    "2024-05-01 10:00:00",
                    "10s",
                    "HeartbeatTimeout",
                ],
                vec!["reference-addon", "b", "Never", "-", "-", "10s", "-"],
                vec!["reference-addon", "c", "Alive", "1m12s", "2024-05-01 10:00:00", "10s", "ComponentsUp"],
            ],
            "{lines:#?}"
        );
    }

    #[test]
    fn empty_table_has_a_message() {
        assert_eq!(
            format_table(&[], &TimeZone::UTC, None, Colour::ByState),
            ["There are no AddonInstances."]
        );
    }

    #[test]
    fn hidden_rows_are_counted() {
        let rows: Vec<Row> = (0..217).map(|number| row(&format!("n{number}"), State::Alive, "")).collect();
        for (height, shown, last) in [
            (300, 218, None),
            (218, 218, None),
            (217, 217, Some("… and 2 more")),
            (5, 5, Some("… and 214 more")),
            (2, 2, Some("… and 217 more")),
            (0, 2, Some("… and 217 more")),
        ] {
            let frame = Frame { lines: height, columns: 200 };
            let lines = format_table(&rows, &TimeZone::UTC, Some(frame), Colour::Plain);
            assert_eq!(lines.len(), shown, "{height}");
            if let Some(last) = last {
                assert_eq!(lines.last().unwrap(), last, "{height}");
            }
        }
    }

    #[test]
    fn lines_fit_the_width_of_the_frame() {
        for columns in [10, 40, 70, 80, 200] {
            let frame = Frame { lines: 10, columns };
            for line in format_table(&three_rows(), &TimeZone::UTC, Some(frame), Colour::ByState) {
                assert!(console::measure_text_width(&line) <= columns, "{columns}: {line}");
            }
        }
    }

    #[test]
    fn states_are_coloured() {
        let lines = format_table(&three_rows(), &TimeZone::UTC, None, Colour::ByState);
        assert!(lines[1].contains("\u{1b}[31mSilent\u{1b}[0m"), "{:?}", lines[1]);
        assert!(lines[3].contains("\u{1b}[32mAlive\u{1b}[0m"), "{:?}", lines[3]);
    }

    #[test]
    fn summary_counts_the_worst_state_first() {
        assert_eq!(summarize(&three_rows()), "3 AddonInstances: 1 Silent, 1 Never, 1 Alive");
        assert_eq!(summarize(&three_rows()[2..]), "1 AddonInstance: 1 Alive");
        assert_eq!(summarize(&[]), "no AddonInstances");
    }
}
