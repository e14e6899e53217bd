//! The state of metrics forwarding of a cluster, as its ObservabilityAddon on the hub shows it to people. Pure.

use std::fmt;
use std::time::Duration;

use bellwether_conditions::guard::GuardedReason as _;
use bellwether_conditions::{Condition, ConditionSet, Status};
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::collector::config::DEFAULT_FAILURE_THRESHOLD;
use crate::decide::transition::current;
use crate::operator::DEFAULT_INTERVAL_SECONDS;
use crate::reporter::conditions_of;
use crate::vocabulary::{Component, ComponentReason, StandardType};

/// The state of metrics forwarding of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterState {
    /// The name of the cluster.
    pub cluster: String,
    /// The state.
    pub state: State,
    /// When the state began.
    pub since: Option<Timestamp>,
    /// The reason of the platform's collector.
    pub platform: Option<String>,
    /// The reason of the collector of user workloads.
    pub user_workloads: Option<String>,
    /// When metrics were last forwarded.
    pub last_forwarded: LastForwarded,
    /// The reason of the state.
    pub reason: String,
    /// The state of each collector.
    pub message: String,
}

/// What the add-on reports, and whether the cluster can still report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// What the add-on reported last.
    pub reported: Reported,
    /// Whether the agent of the cluster does not answer, so that the report may be outdated.
    pub is_unreachable: bool,
}

/// What an add-on reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// Nothing yet.
    Pending,
    /// A standard condition is True.
    Condition(StandardType),
    /// The add-on is being deleted from the cluster.
    Deleting,
}

/// How urgent a state is. Ordered from the most urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Metrics are not forwarded although they should be, or nobody knows.
    Error,
    /// Something is in progress.
    Warning,
    /// Nothing is to be forwarded.
    Off,
    /// Metrics are forwarded.
    Good,
}

/// When metrics were last forwarded. A collector reports only changes, so that this is a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastForwarded {
    /// At most so long ago: a collector that fails longer reports it.
    Within(Duration),
    /// Before this time, when a collector reported that it fails.
    Before(Timestamp),
    /// There is no report about it.
    Unknown,
}

impl State {
    /// How urgent the state is.
    pub const fn urgency(self) -> Urgency {
        match self {
            Self { is_unreachable: true, .. } => Urgency::Error,
            Self { reported: Reported::Condition(StandardType::Degraded), .. } => Urgency::Error,
            Self { reported: Reported::Condition(StandardType::Available), .. } => Urgency::Good,
            Self {
                reported: Reported::Condition(StandardType::Disabled | StandardType::NotSupported),
                ..
            } => Urgency::Off,
            Self {
                reported:
                    Reported::Pending | Reported::Deleting | Reported::Condition(StandardType::Progressing),
                ..
            } => Urgency::Warning,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.reported {
            Reported::Pending => "Pending",
            Reported::Condition(type_) => type_.as_str(),
            Reported::Deleting => "Deleting",
        })?;
        if self.is_unreachable { formatter.write_str(",Unreachable") } else { Ok(()) }
    }
}

impl ClusterState {
    /// Reads the state from the add-on of a cluster on the hub. Malformed fields are ignored, so that the cluster is still shown.
    pub fn of(addon: &DynamicObject, is_unreachable: bool) -> Self {
        let conditions = conditions_of(addon);
        let standard = standard_condition(&conditions);
        let collectors = Component::ALL.map(|component| current(&conditions, component));
        let [platform, user_workloads] = collectors.map(|found| found.map(|found| found.reason.to_string()));
        let (reported, since) = match (&addon.metadata.deletion_timestamp, standard) {
            (Some(deleted), _) => (Reported::Deleting, Some(deleted.0)),
            (None, Some((type_, condition))) => {
                (Reported::Condition(type_), Some(condition.last_transition_time))
            }
            (None, None) => {
                (Reported::Pending, addon.metadata.creation_timestamp.as_ref().map(|time| time.0))
            }
        };
        let (reason, message) = standard.map_or_else(Default::default, |(_, condition)| {
            (condition.reason.to_string(), condition.message.clone())
        });
        Self {
            cluster: addon.namespace().unwrap_or_default(),
            state: State { reported, is_unreachable },
            since,
            platform,
            user_workloads,
            last_forwarded: match is_unreachable {
                true => LastForwarded::Unknown,
                false => last_forwarded(&collectors, interval(addon)),
            },
            reason,
            message,
        }
    }
}

/// The standard condition that is True; the worst, if another writer made several of them True.
fn standard_condition(conditions: &ConditionSet) -> Option<(StandardType, &Condition)> {
    use StandardType::{Available, Degraded, Disabled, NotSupported, Progressing};
    [Degraded, NotSupported, Disabled, Progressing, Available].into_iter().find_map(|type_| {
        let condition = conditions.get(&type_.condition_type())?;
        // Upstream reports a collector that is off as Degraded; the reason is more precise.
        let by_reason = ComponentReason::parse(&condition.reason).map(ComponentReason::standard_type);
        let precise = by_reason.filter(|type_| matches!(type_, Disabled | NotSupported));
        (condition.status == Status::True).then_some((precise.unwrap_or(type_), condition))
    })
}

/// When the metrics of all collectors that run were last forwarded.
fn last_forwarded(collectors: &[Option<&Condition>; 2], interval: Duration) -> LastForwarded {
    let mut result = LastForwarded::Unknown;
    for condition in collectors.iter().flatten() {
        match ComponentReason::parse(&condition.reason) {
            Some(ComponentReason::ForwardFailure) => {
                return LastForwarded::Before(condition.last_transition_time);
            }
            Some(ComponentReason::ForwardSuccessful) => {
                result = LastForwarded::Within(interval * DEFAULT_FAILURE_THRESHOLD.get());
            }
            Some(ComponentReason::DisabledMetrics | ComponentReason::NotSupported) => {}
            Some(ComponentReason::UpdateSuccesful | ComponentReason::UpdateFailure) | None => {
                return LastForwarded::Unknown;
            }
        }
    }
    result
}

fn interval(addon: &DynamicObject) -> Duration {
    let seconds = addon.data.pointer("/spec/interval").and_then(Value::as_u64);
    Duration::from_secs(seconds.unwrap_or(DEFAULT_INTERVAL_SECONDS.unsigned_abs().into()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: &str = "2024-05-01T10:00:00Z";

    fn condition(type_: &str, status: &str, reason: &str) -> Value {
        json!({"type": type_, "status": status, "reason": reason, "message": "m", "lastTransitionTime": NOW})
    }

    fn of(conditions: Value, is_unreachable: bool) -> ClusterState {
        let addon = json!({"metadata": {"namespace": "spoke-1", "name": "observability-addon"},
            "spec": {"interval": 15}, "status": {"conditions": conditions}});
        ClusterState::of(&serde_json::from_value(addon).unwrap(), is_unreachable)
    }

    #[test]
    fn state_is_the_standard_condition_that_is_true() {
        let before = LastForwarded::Before(NOW.parse().unwrap());
        let within = LastForwarded::Within(Duration::from_secs(45));
        let platform = |reason: &str| condition("MetricsCollectorStatus", "True", reason);
        let user = |reason: &str| condition("UwlMetricsCollectorStatus", "True", reason);
        let rows: [(Value, &str, Urgency, LastForwarded); 9] = [
            (json!(null), "Pending", Urgency::Warning, LastForwarded::Unknown),
            (json!("broken"), "Pending", Urgency::Warning, LastForwarded::Unknown),
            (
                json!([
                    platform("ForwardSuccessful"),
                    condition("Available", "True", "ForwardSuccessful"),
                    condition("Degraded", "False", "ForwardSuccessful")
                ]),
                "Available",
                Urgency::Good,
                within,
            ),
            (
                json!([
                    platform("ForwardSuccessful"),
                    user("ForwardFailure"),
                    condition("Degraded", "True", "ForwardFailure")
                ]),
                "Degraded",
                Urgency::Error,
                before,
            ),
            (
                json!([
                    platform("ForwardSuccessful"),
                    user("DisabledMetrics"),
                    condition("Available", "True", "ForwardSuccessful")
                ]),
                "Available",
                Urgency::Good,
                within,
            ),
            (
                json!([platform("UpdateSuccesful"), condition("Progressing", "True", "UpdateSuccesful")]),
                "Progressing",
                Urgency::Warning,
                LastForwarded::Unknown,
            ),
            (
                json!([platform("DisabledMetrics"), condition("Disabled", "True", "DisabledMetrics")]),
                "Disabled",
                Urgency::Off,
                LastForwarded::Unknown,
            ),
            (
                json!([platform("NotSupported"), condition("Degraded", "True", "NotSupported")]),
                "NotSupported",
                Urgency::Off,
                LastForwarded::Unknown,
            ),
            (
                json!([
                    condition("Available", "True", "ForwardSuccessful"),
                    condition("Degraded", "True", "Other")
                ]),
                "Degraded",
                Urgency::Error,
                LastForwarded::Unknown,
            ),
        ];
        for (conditions, state, urgency, last_forwarded) in rows {
            let read = of(conditions.clone(), false);
            let found = (read.state.to_string(), read.state.urgency(), read.last_forwarded);
            assert_eq!(found, (state.to_owned(), urgency, last_forwarded), "{conditions}");
        }
    }

    #[test]
    fn report_of_an_unreachable_cluster_may_be_outdated() {
        let conditions = json!([
            condition("MetricsCollectorStatus", "True", "ForwardSuccessful"),
            condition("Available", "True", "ForwardSuccessful")
        ]);
        let read = of(conditions, true);
        assert_eq!(read.state.to_string(), "Available,Unreachable");
        assert_eq!((read.state.urgency(), read.last_forwarded), (Urgency::Error, LastForwarded::Unknown));
    }

    #[test]
    fn add_on_that_is_being_deleted_is_shown_so() {
        let addon = json!({"metadata": {"namespace": "spoke-1", "name": "observability-addon", "deletionTimestamp": NOW},
            "status": {"conditions": [condition("Available", "True", "ForwardSuccessful")]}});
        let read = ClusterState::of(&serde_json::from_value(addon).unwrap(), false);
        assert_eq!(read.state.to_string(), "Deleting");
        assert_eq!(read.since, Some(NOW.parse().unwrap()));
    }
}
