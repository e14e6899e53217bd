//! Rows as text: for a person as a table, for scripts as JSON. Pure.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::liveness::{Row, State};
use crate::output::{Colour, Hue, age, coloured, cut, table};
use crate::screen::Frame;

const HEADER: [&str; 7] = ["NAMESPACE", "NAME", "STATE", "AGE", "LAST HEARTBEAT", "PERIOD", "REASON"];
const STATE_COLUMN: &str = "STATE";

/// A line for each row below a header; in a frame only as many as fit, with a word on the rest.
pub(super) fn lines(rows: &[Row], zone: &TimeZone, frame: Option<Frame>, colour: Colour) -> Vec<String> {
    if rows.is_empty() {
        return vec!["There are no AddonInstances.".to_owned()];
    }
    // The header, and if there is not enough room, the word on the rest.
    let room = frame.map_or(usize::MAX, |frame| frame.lines.saturating_sub(1).max(1));
    let shown = if rows.len() <= room { rows.len() } else { room.saturating_sub(1) };
    let shown_rows = rows.get(..shown).unwrap_or(rows);

    let mut lines = plain(shown_rows, zone);
    let place = lines.first().and_then(|header| header.find(STATE_COLUMN)).unwrap_or(0);
    if rows.len() > shown {
        lines.push(format!("… and {} more", rows.len() - shown));
    }
    if let Some(frame) = frame {
        lines.iter_mut().for_each(|line| *line = cut(line, frame.columns));
    }
    if colour == Colour::ByState {
        for (line, row) in lines.iter_mut().skip(1).zip(shown_rows) {
            *line = coloured(line, place, row.state.word(), hue(row.state));
        }
    }
    lines
}

/// How many there are of each state.
pub(super) fn summary(rows: &[Row]) -> String {
    let counts: Vec<String> = State::ALL
        .into_iter()
        .map(|state| (state, rows.iter().filter(|row| row.state == state).count()))
        .filter(|(_, count)| *count > 0)
        .map(|(state, count)| format!("{count} {}", state.word()))
        .collect();
    match rows.len() {
        0 => "no AddonInstances".to_owned(),
        1 => format!("1 AddonInstance: {}", counts.join(", ")),
        many => format!("{many} AddonInstances: {}", counts.join(", ")),
    }
}

pub(super) fn json(row: &Row) -> Value {
    json!({
        "namespace": row.namespace,
        "name": row.name,
        "lastHeartbeatTime": row.stamp,
        "ageSeconds": row.age.map(|age| age.as_secs()),
        "periodSeconds": row.effective_period.as_secs_f64(),
        "state": row.state.word(),
        "reason": row.reason,
        "message": row.message,
    })
}

/// The state, and why, where there is a reason.
pub(super) fn state_in_words(state: State, reason: &str) -> String {
    if reason.is_empty() { state.word().to_owned() } else { format!("{} ({reason})", state.word()) }
}

fn plain(rows: &[Row], zone: &TimeZone) -> Vec<String> {
    let cells = |row: &Row| {
        [
            row.namespace.clone(),
            row.name.clone(),
            row.state.word().to_owned(),
            row.age.map_or("-".to_owned(), age),
            row.stamp.map_or("-".to_owned(), |stamp| date(stamp, zone)),
            row.period.clone(),
            if row.reason.is_empty() { "-".to_owned() } else { row.reason.clone() },
        ]
    };
    table(HEADER, rows.iter().map(cells))
}

fn date(stamp: Timestamp, zone: &TimeZone) -> String {
    stamp.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn hue(state: State) -> Hue {
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
        let stamp = (state != State::Never).then(|| "2024-05-01T10:00:00Z".parse().unwrap());
        Row {
            namespace: "reference-addon".into(),
            name: name.into(),
            stamp,
            age: stamp.map(|_| Duration::from_secs(72)),
            period: "10s".into(),
            effective_period: Duration::from_secs(10),
            state,
            reason: reason.into(),
            message: String::new(),
        }
    }

    fn three() -> [Row; 3] {
        [
            row("addon-instance", State::Silent, "HeartbeatTimeout"),
            row("b", State::Never, ""),
            row("c", State::Alive, "ComponentsUp"),
        ]
    }

    #[test]
    fn the_table_has_a_line_for_each_row() {
        let lines = lines(&three(), &TimeZone::UTC, None, Colour::Plain);
        let words: Vec<Vec<&str>> = lines
            .iter()
            .map(|line| line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect())
            .collect();
        assert_eq!(
            words,
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
    fn nothing_to_show_is_said() {
        assert_eq!(lines(&[], &TimeZone::UTC, None, Colour::ByState), ["There are no AddonInstances."]);
    }

    #[test]
    fn what_does_not_fit_is_counted() {
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
            let lines = lines(&rows, &TimeZone::UTC, Some(frame), Colour::Plain);
            assert_eq!(lines.len(), shown, "{height}");
            if let Some(last) = last {
                assert_eq!(lines.last().unwrap(), last, "{height}");
            }
        }
    }

    #[test]
    fn no_line_is_wider_than_the_frame() {
        for columns in [10, 40, 70, 80, 200] {
            let frame = Frame { lines: 10, columns };
            for line in lines(&three(), &TimeZone::UTC, Some(frame), Colour::ByState) {
                assert!(console::measure_text_width(&line) <= columns, "{columns}: {line}");
            }
        }
    }

    #[test]
    fn the_state_has_a_colour() {
        let lines = lines(&three(), &TimeZone::UTC, None, Colour::ByState);
        assert!(lines[1].contains("\u{1b}[31mSilent\u{1b}[0m"), "{:?}", lines[1]);
        assert!(lines[3].contains("\u{1b}[32mAlive\u{1b}[0m"), "{:?}", lines[3]);
    }

    #[test]
    fn the_summary_counts_the_worst_first() {
        assert_eq!(summary(&three()), "3 AddonInstances: 1 Silent, 1 Never, 1 Alive");
        assert_eq!(summary(&three()[2..]), "1 AddonInstance: 1 Alive");
        assert_eq!(summary(&[]), "no AddonInstances");
    }
}
