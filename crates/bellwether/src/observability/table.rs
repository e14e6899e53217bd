//! Prints the states of clusters as a table. Pure.

use bellwether_observability::cluster_state::{ClusterState, LastForwarded, Urgency};
use jiff::Timestamp;

use crate::output::{Colour, Hue, age, coloured, since, table_of};
use crate::screen::Frame;

const HEADER: [&str; 8] =
    ["CLUSTER", "STATE", "SINCE", "PLATFORM", "USER WORKLOADS", "LAST FORWARDED", "REASON", "MESSAGE"];
const STATE: &str = "STATE ";
/// The columns of a table that is not wide.
const NARROW: usize = 7;

/// How many columns a table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Narrow,
    Wide,
}

/// A header and a line for each cluster, the most urgent first. In a frame only as many as fit are shown, and a last line counts
/// the others.
pub(super) fn lines(
    rows: &mut [ClusterState],
    width: Width,
    now: Timestamp,
    frame: Option<Frame>,
    colour: Colour,
) -> Vec<String> {
    rows.sort_by(|one, other| key(one).cmp(&key(other)));
    // One line is for the header and, if not all rows fit, one for the number of hidden rows.
    let capacity = frame.map_or(usize::MAX, |frame| frame.lines.saturating_sub(1).max(1));
    let count = if rows.len() <= capacity { rows.len() } else { capacity.saturating_sub(1) };
    let shown = rows.get(..count).unwrap_or(rows);
    let columns = if width == Width::Wide { HEADER.len() } else { NARROW };
    let mut lines = table_of(
        HEADER.into_iter().take(columns),
        shown.iter().map(|row| cells(row, now).into_iter().take(columns)),
    );
    if colour == Colour::ByState {
        let place = lines.first().and_then(|header| header.find(STATE)).unwrap_or(0);
        for (line, row) in lines.iter_mut().skip(1).zip(shown) {
            *line = coloured(line, place, &row.state.to_string(), hue(row.state.urgency()));
        }
    }
    if rows.len() > count {
        lines.push(format!("… and {} more", rows.len() - count));
    }
    lines
}

/// Counts the clusters by state, the most urgent first: `3 clusters: 1 Degraded, 2 Available`.
pub(super) fn summary(rows: &[ClusterState]) -> String {
    let mut states: Vec<(Urgency, String)> =
        rows.iter().map(|row| (row.state.urgency(), row.state.to_string())).collect();
    states.sort();
    let counts: Vec<String> = states
        .chunk_by(|one, other| one == other)
        .map(|equal| format!("{} {}", equal.len(), equal.first().map_or("", |(_, state)| state)))
        .collect();
    match rows.len() {
        0 => "no clusters".to_owned(),
        1 => format!("1 cluster: {}", counts.join(", ")),
        many => format!("{many} clusters: {}", counts.join(", ")),
    }
}

/// A state with its reason, if there is one: `Degraded (ForwardFailure)`.
pub(super) fn describe(state: &str, reason: &str) -> String {
    if reason.is_empty() { state.to_owned() } else { format!("{state} ({reason})") }
}

fn key(row: &ClusterState) -> (Urgency, &str) {
    (row.state.urgency(), &row.cluster)
}

fn hue(urgency: Urgency) -> Hue {
    match urgency {
        Urgency::Error => Hue::Red,
        Urgency::Warning => Hue::Yellow,
        Urgency::Off => Hue::Faint,
        Urgency::Good => Hue::Green,
    }
}

fn cells(row: &ClusterState, now: Timestamp) -> [String; 8] {
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    [
        row.cluster.clone(),
        row.state.to_string(),
        row.since.map_or("-".to_owned(), |time| since(time, now)),
        or_dash(row.platform.as_deref().unwrap_or_default()),
        or_dash(row.user_workloads.as_deref().unwrap_or_default()),
        match row.last_forwarded {
            LastForwarded::Within(limit) => format!("<{}", age(limit)),
            LastForwarded::Before(time) => format!(">{}", since(time, now)),
            LastForwarded::Unknown => "-".to_owned(),
        },
        or_dash(&row.reason),
        or_dash(&row.message.replace('\n', " ")),
    ]
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use bellwether_observability::cluster_state::{Reported, State};
    use bellwether_observability::vocabulary::StandardType;

    use super::*;

    pub(in crate::observability) fn row(cluster: &str, type_: StandardType, reason: &str) -> ClusterState {
        ClusterState {
            cluster: cluster.into(),
            state: State { reported: Reported::Condition(type_), is_unreachable: false },
            since: Some("2024-05-01T10:00:00Z".parse().unwrap()),
            platform: Some(reason.into()),
            user_workloads: None,
            last_forwarded: match type_ {
                StandardType::Available => LastForwarded::Within(Duration::from_secs(45)),
                StandardType::Degraded => LastForwarded::Before("2024-05-01T10:00:00Z".parse().unwrap()),
                _ => LastForwarded::Unknown,
            },
            reason: reason.into(),
            message: "why".into(),
        }
    }

    fn three() -> [ClusterState; 3] {
        [
            row("a", StandardType::Available, "ForwardSuccessful"),
            row("b", StandardType::Degraded, "ForwardFailure"),
            row("c", StandardType::Disabled, "DisabledMetrics"),
        ]
    }

    fn shown(width: Width, lines_of_frame: Option<usize>, colour: Colour) -> Vec<String> {
        let now = "2024-05-01T10:01:12Z".parse().unwrap();
        lines(&mut three(), width, now, lines_of_frame.map(|lines| Frame { lines, columns: 200 }), colour)
    }

    #[test]
    fn most_urgent_cluster_comes_first() {
        let cells: Vec<String> = shown(Width::Narrow, None, Colour::Plain)
            .iter()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            cells,
            [
                "CLUSTER STATE SINCE PLATFORM USER WORKLOADS LAST FORWARDED REASON",
                "b Degraded 1m12s ForwardFailure - >1m12s ForwardFailure",
                "c Disabled 1m12s DisabledMetrics - - DisabledMetrics",
                "a Available 1m12s ForwardSuccessful - <45s ForwardSuccessful",
            ]
        );
        let wide = shown(Width::Wide, None, Colour::Plain);
        assert!(wide[0].ends_with("MESSAGE") && wide[1].ends_with("why"), "{wide:#?}");
    }

    #[test]
    fn frame_shows_as_many_clusters_as_fit() {
        let fitted = shown(Width::Narrow, Some(3), Colour::Plain);
        assert_eq!((fitted.len(), fitted[2].as_str()), (3, "… and 2 more"));
        assert_eq!(shown(Width::Narrow, Some(4), Colour::Plain).len(), 4);
    }

    #[test]
    fn state_is_coloured() {
        let lines = shown(Width::Narrow, None, Colour::ByState);
        assert!(lines[1].contains("\u{1b}[31mDegraded\u{1b}[0m"), "{:?}", lines[1]);
        assert!(lines[3].contains("\u{1b}[32mAvailable\u{1b}[0m"), "{:?}", lines[3]);
    }

    #[test]
    fn summary_counts_the_most_urgent_first() {
        assert_eq!(summary(&three()), "3 clusters: 1 Degraded, 1 Disabled, 1 Available");
        assert_eq!(summary(&[]), "no clusters");
    }
}
