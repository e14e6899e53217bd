//! Whether a ManagedCluster can be reached, as every controller of the hub reads it from the object. Pure.

use bellwether_api::cluster::ManagedCluster;
use bellwether_api::cluster::vocabulary::{AVAILABLE, JOINED, UNAVAILABLE_TAINT, UNREACHABLE_TAINT};
use jiff::Timestamp;

use bellwether_conditions::kubernetes::find;

/// Whether a cluster can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reachability {
    /// Its agent answers.
    Reachable,
    /// Its agent answers again since then, after it did not.
    Returned(Timestamp),
    /// Its agent answers and reports that the cluster is not healthy.
    Unhealthy,
    /// Its agent does not answer.
    Unreachable,
    /// A taint keeps placements away, though its agent reports no problem: it never reported, or has just returned.
    Tainted,
}

/// What counts of a cluster for its add-ons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterState {
    /// Whether it can be reached.
    pub reachability: Reachability,
    /// Whether it is being deleted: nothing is installed there any more.
    pub is_deleting: bool,
}

impl ClusterState {
    /// Reads it from a cluster.
    pub fn of(cluster: &ManagedCluster) -> Self {
        let conditions =
            cluster.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let has_taint = |key: &str| cluster.spec.taints.iter().any(|taint| taint.key == key);
        let status = |type_: &str| find(conditions, type_).map(|condition| condition.status.as_str());
        let since = |type_: &str| {
            let condition = find(conditions, type_).filter(|condition| condition.status == "True");
            condition.map(|condition| condition.last_transition_time.0)
        };
        let reachability = match (status(AVAILABLE), since(JOINED), since(AVAILABLE)) {
            (Some("Unknown"), ..) => Reachability::Unreachable,
            (Some("False"), ..) => Reachability::Unhealthy,
            _ if has_taint(UNREACHABLE_TAINT) || has_taint(UNAVAILABLE_TAINT) => Reachability::Tainted,
            // An agent reports both together at first, and Joined never changes.
            (_, Some(joined), Some(available)) if joined < available => Reachability::Returned(available),
            _ => Reachability::Reachable,
        };
        Self { reachability, is_deleting: cluster.metadata.deletion_timestamp.is_some() }
    }

    /// Whether placements may have dropped the cluster only because it cannot be reached.
    pub fn may_be_unreachable(self) -> bool {
        matches!(
            self.reachability,
            Reachability::Unhealthy | Reachability::Unreachable | Reachability::Tainted
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reachability_follows_conditions_and_taints() {
        let condition = |type_: &str, status: &str, second: i64| {
            json!({"type": type_, "status": status, "reason": "R", "message": "",
                "lastTransitionTime": Timestamp::from_second(second).unwrap().to_string()})
        };
        let joined = condition(JOINED, "True", 10);
        let available = |status: &str, second: i64| condition(AVAILABLE, status, second);
        let back = Timestamp::from_second(90).unwrap();
        let rows = [
            ("new", json!([]), "", Reachability::Reachable),
            ("joined just now", json!([joined, available("True", 10)]), "", Reachability::Reachable),
            ("came back", json!([joined, available("True", 90)]), "", Reachability::Returned(back)),
            ("not healthy", json!([joined, available("False", 90)]), "", Reachability::Unhealthy),
            ("silent", json!([joined, available("Unknown", 90)]), "", Reachability::Unreachable),
            (
                "taint remains",
                json!([joined, available("True", 90)]),
                UNREACHABLE_TAINT,
                Reachability::Tainted,
            ),
            ("never reported", json!([]), UNREACHABLE_TAINT, Reachability::Tainted),
            (
                "silent and tainted",
                json!([joined, available("Unknown", 90)]),
                UNREACHABLE_TAINT,
                Reachability::Unreachable,
            ),
        ];
        for (sentence, conditions, taint, expected) in rows {
            let taints =
                if taint.is_empty() { json!([]) } else { json!([{"key": taint, "effect": "NoSelect"}]) };
            let cluster = serde_json::from_value(json!({
                "metadata": {"name": "c"}, "spec": {"taints": taints}, "status": {"conditions": conditions},
            }))
            .unwrap();
            let state = ClusterState::of(&cluster);
            assert_eq!((state.reachability, state.is_deleting), (expected, false), "{sentence}");
        }
    }
}
