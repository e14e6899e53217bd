//! Prints the blast radius of a change, and checks that it goes in the direction that the user wants. Pure.

use bellwether_lifecycle::report::{BlastRadius, Direction};
use bellwether_lifecycle::version::Version;

use crate::output::{name_some, table};

/// How many clusters are named in a sentence.
const MAX_NAMES: usize = 5;

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    Upgrade,
    Rollback,
}

impl Intent {
    fn command(self) -> &'static str {
        match self {
            Self::Upgrade => "upgrade",
            Self::Rollback => "rollback",
        }
    }
}

/// Why the change is not what the user wants, if it is not: an upgrade goes to later versions, a rollback to earlier ones.
pub(super) fn contradiction(radius: &BlastRadius, intent: Intent, placement: Option<&str>) -> Option<String> {
    let (wrong, other, relation) = match intent {
        Intent::Upgrade => (Direction::Rollback, Intent::Rollback, "earlier"),
        Intent::Rollback => (Direction::Upgrade, Intent::Upgrade, "later"),
    };
    let against = radius.going(wrong);
    if against.is_empty() {
        return None;
    }
    let (addon, version) = (&radius.addon, &radius.version);
    let next_step = if against.len() == radius.changes.len() + radius.paused.len() {
        let placement = placement.map(|name| format!(" --placement {name}")).unwrap_or_default();
        format!("use `bellwether addon {} {addon} --version {version}{placement}`", other.command())
    } else {
        "other clusters would go in the other direction, so select clusters with --placement".to_owned()
    };
    let names: Vec<String> =
        against.iter().map(|one| format!("{} ({})", one.cluster, or_dash(one.from.as_ref()))).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let names = name_some(&names, MAX_NAMES);
    Some(format!("{version} is {relation} than the version of {names}; {next_step}"))
}

/// The blast radius as text, with at most `limit` clusters in each table.
pub(super) fn lines(radius: &BlastRadius, limit: usize) -> Vec<String> {
    let mut lines = vec![headline(radius)];
    lines.extend(radius.unknown.iter().map(|why| format!("More clusters may be affected. {why}")));
    if !radius.changes.is_empty() {
        lines.push(String::new());
        let rows = radius.changes.iter().take(limit).map(|change| {
            let from = match (&change.from, &change.unfinished) {
                (Some(from), Some(progress)) => format!("{from} ({progress})"),
                (from, _) => or_dash(from.as_ref()),
            };
            let direction = change.direction.as_str().to_owned();
            let (placement, strategy) = (change.placement.clone(), change.strategy.clone());
            [change.cluster.clone(), from, radius.version.to_string(), direction, placement, strategy]
        });
        lines.extend(table(["CLUSTER", "FROM", "TO", "DIRECTION", "PLACEMENT", "STRATEGY"], rows));
        lines.extend(count_more(radius.changes.len(), limit));
    }
    let paused = radius.paused.iter().map(|change| {
        let why = format!(
            "{} is paused; the cluster changes after `bellwether addon resume {}`",
            change.placement, radius.addon
        );
        [change.cluster.clone(), or_dash(change.from.as_ref()), why]
    });
    let unchanged = radius
        .unchanged
        .iter()
        .map(|one| [one.cluster.clone(), or_dash(one.version.as_ref()), one.reason.to_string()]);
    let mut rows: Vec<[String; 3]> = paused.chain(unchanged).collect();
    rows.sort();
    if !rows.is_empty() {
        lines.push(String::new());
        let more = count_more(rows.len(), limit);
        lines.extend(table(["UNCHANGED", "VERSION", "WHY"], rows.into_iter().take(limit)));
        lines.extend(more);
    }
    lines
}

fn headline(radius: &BlastRadius) -> String {
    let changing = radius.changes.len();
    let all = changing + radius.paused.len() + radius.unchanged.len();
    let noun = if all == 1 { "cluster" } else { "clusters" };
    let verb = if changing == 1 { "changes" } else { "change" };
    let of = if changing == all { String::new() } else { format!(" of {all}") };
    format!("{} to {}: {changing}{of} {noun} {verb}.", radius.addon, radius.version)
}

fn count_more(all: usize, limit: usize) -> Option<String> {
    let more = all.saturating_sub(limit);
    (more > 0).then(|| format!("… and {more} more; --dry-run shows them all"))
}

fn or_dash(version: Option<&Version>) -> String {
    version.map_or_else(|| "-".to_owned(), Version::to_string)
}

#[cfg(test)]
mod tests {
    use bellwether_lifecycle::report::{ClusterChange, UnchangedCluster, UnchangedReason};

    use super::*;

    fn version(name: &str) -> Version {
        Version::new(name).unwrap()
    }

    fn change(cluster: &str, from: &str, direction: Direction) -> ClusterChange {
        ClusterChange {
            cluster: cluster.into(),
            from: Version::new(from),
            unfinished: None,
            direction,
            placement: "default/global".into(),
            strategy: "all at once".into(),
        }
    }

    fn radius(to: &str, changes: Vec<ClusterChange>) -> BlastRadius {
        let has_it = UnchangedCluster {
            cluster: "a".into(),
            version: Some(version(to)),
            reason: UnchangedReason::HasVersion,
        };
        BlastRadius {
            addon: "hello".into(),
            version: version(to),
            changes,
            paused: Vec::new(),
            unchanged: vec![has_it],
            edits: Vec::new(),
            unknown: Vec::new(),
        }
    }

    #[test]
    fn tables_are_limited_and_count_the_rest() {
        let mut found = radius("v2", vec![change("b", "v1", Direction::Upgrade)]);
        found.paused = vec![change("c", "", Direction::Install)];
        assert_eq!(
            lines(&found, 20),
            [
                "hello to v2: 1 of 3 clusters changes.",
                "",
                "CLUSTER  FROM  TO  DIRECTION  PLACEMENT       STRATEGY",
                "b        v1    v2  upgrade    default/global  all at once",
                "",
                "UNCHANGED  VERSION  WHY",
                "a          v2       already has it",
                "c          -        default/global is paused; the cluster changes after `bellwether addon resume hello`",
            ]
        );
        assert_eq!(lines(&found, 1).last().unwrap(), "… and 1 more; --dry-run shows them all");
    }

    #[test]
    fn upgrade_to_an_earlier_version_and_rollback_to_a_later_one_are_rejected() {
        let up = || change("b", "v1", Direction::Upgrade);
        let down = || change("a", "v3", Direction::Rollback);
        let rows = [
            (radius("v2", vec![up()]), Intent::Upgrade, None),
            (radius("v2", vec![down()]), Intent::Rollback, None),
            (
                radius("v2", vec![down()]),
                Intent::Upgrade,
                Some(
                    "v2 is earlier than the version of a (v3); use `bellwether addon rollback hello --version v2 --placement p`",
                ),
            ),
            (
                radius("v2", vec![up()]),
                Intent::Rollback,
                Some(
                    "v2 is later than the version of b (v1); use `bellwether addon upgrade hello --version v2 --placement p`",
                ),
            ),
            (
                radius("v2", vec![up(), down()]),
                Intent::Upgrade,
                Some(
                    "v2 is earlier than the version of a (v3); other clusters would go in the other direction, so select clusters with --placement",
                ),
            ),
        ];
        for (radius, intent, expected) in rows {
            assert_eq!(contradiction(&radius, intent, Some("p")).as_deref(), expected);
        }
    }
}
