//! The state of an add-on on one cluster, for people: how far its version is, and what is wrong besides. Pure.

use std::fmt;

use bellwether_api::addon::ManagedClusterAddOn;
use bellwether_api::addon::vocabulary::{AVAILABLE, CONFIGURED, DEGRADED, HEARTBEAT, PROGRESSING};
use bellwether_conditions::kubernetes::find;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;

use super::decide::available::reason as available;
use super::decide::progress::reason as progress;
use crate::fields::{describe_override, installed_for, is_overridden};

/// The condition of an add-on that is being deleted.
const DELETING: &str = "Deleting";

/// Which controller is responsible for the version of an add-on.
#[derive(Clone, Copy, Debug)]
pub enum Management<'a> {
    /// It has a ClusterManagementAddOn with this default version, which may be empty.
    Managed {
        /// The default version.
        default_version: &'a str,
    },
    /// It has none: only its own conditions say anything about it.
    Unmanaged,
}

/// An add-on on a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct AddonState {
    /// The add-on.
    pub addon: String,
    /// The cluster.
    pub cluster: String,
    /// The placement that it was created for, `<namespace>/<name>`.
    pub placement: Option<String>,
    /// The requested version; versions are empty where there is none.
    pub desired: String,
    /// The version that runs.
    pub current: String,
    /// The version before.
    pub last: String,
    /// The state in short.
    pub state: State,
    /// Since when the condition that decides the state has been as it is.
    pub since: Option<Timestamp>,
    /// Why it is in this state, in one line; empty if there is nothing to explain.
    pub why: String,
    /// `status/reason` of the conditions [`SHOWN_CONDITIONS`]; empty if a condition is not reported.
    pub conditions: [String; 3],
}

/// The conditions that are shown beside the state.
pub const SHOWN_CONDITIONS: [&str; 3] = [AVAILABLE, HEARTBEAT, DEGRADED];

/// The state of an add-on on a cluster, such as `Succeed` or `Succeed,Silent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// How far the version is.
    pub phase: Phase,
    /// What is wrong besides.
    pub problem: Option<Problem>,
}

/// How far the version of an add-on is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The object is invalid.
    Unreadable,
    /// The version could not be applied; the controller keeps trying.
    Failed,
    /// The add-on is being deleted.
    Deleting,
    /// The version is requested, and no controller has started.
    Pending,
    /// The rollout has not admitted the cluster.
    Waiting,
    /// The change is in progress, as the reason of Progressing names it: Installing, Upgrading, Rollingback.
    InProgress(String),
    /// The cluster has the version.
    Succeed,
    /// No controller manages versions of the add-on.
    Unmanaged,
}

/// What is wrong with an add-on besides its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "explained in `bellwether addon status --help`")]
pub enum Problem {
    Unreachable,
    Unavailable,
    Silent,
    Unhealthy,
    Unknown,
    Degraded,
}

/// How urgent a state is, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Something is broken.
    Error,
    /// Something is in progress, waiting, degraded or unknown.
    Warning,
    /// Everything is as requested.
    Good,
}

impl Problem {
    /// The name of the problem.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "Unreachable",
            Self::Unavailable => "Unavailable",
            Self::Silent => "Silent",
            Self::Unhealthy => "Unhealthy",
            Self::Unknown => "Unknown",
            Self::Degraded => "Degraded",
        }
    }
}

impl Phase {
    fn is_settled(&self) -> bool {
        matches!(self, Self::Succeed | Self::Unmanaged)
    }
}

impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = match &self.phase {
            Phase::Unreadable => "Unreadable",
            Phase::Failed => "Failed",
            Phase::Deleting => "Deleting",
            Phase::Pending => "Pending",
            Phase::Waiting => "Waiting",
            Phase::InProgress(reason) => reason,
            Phase::Succeed => "Succeed",
            Phase::Unmanaged => {
                return formatter.write_str(self.problem.map_or("Available", Problem::as_str));
            }
        };
        formatter.write_str(phase)?;
        self.problem.map_or(Ok(()), |problem| write!(formatter, ",{}", problem.as_str()))
    }
}

impl State {
    /// How urgent the state is.
    pub fn urgency(&self) -> Urgency {
        match (&self.phase, self.problem) {
            (Phase::Unreadable | Phase::Failed, _) => Urgency::Error,
            (_, Some(Problem::Unknown | Problem::Degraded)) => Urgency::Warning,
            (_, Some(_)) => Urgency::Error,
            (phase, None) if phase.is_settled() => Urgency::Good,
            (_, None) => Urgency::Warning,
        }
    }
}

/// Since when something is so, and why.
struct Explanation {
    since: Option<Timestamp>,
    why: String,
}

impl Explanation {
    fn by(condition: &Condition, why: impl Into<String>) -> Self {
        Self { since: Some(condition.last_transition_time.0), why: why.into() }
    }

    fn without_time(why: impl Into<String>) -> Self {
        Self { since: None, why: why.into() }
    }
}

impl AddonState {
    /// The state of an add-on on a cluster.
    pub fn of(object: &ManagedClusterAddOn, management: Management<'_>) -> Self {
        let status = object.status.clone().unwrap_or_default();
        let desired = match (object.spec.install_version.as_str(), management) {
            ("", Management::Managed { default_version }) => default_version.to_owned(),
            (requested, _) => requested.to_owned(),
        };
        let (phase, explanation) = phase(object, &desired, management);
        let problem = problem(&status.conditions, &phase);
        let Explanation { since, why } = match &problem {
            Some((_, problem)) if phase.is_settled() => {
                Explanation { since: problem.since, why: problem.why.clone() }
            }
            Some((_, problem)) => {
                Explanation { why: format!("{}; {}", explanation.why, problem.why), ..explanation }
            }
            None => explanation,
        };
        let condition = |type_| {
            let condition = find(&status.conditions, type_);
            condition.map(|one| format!("{}/{}", one.status, one.reason)).unwrap_or_default()
        };
        Self {
            addon: object.name_any(),
            cluster: object.namespace().unwrap_or_default(),
            placement: installed_for(object).map(str::to_owned),
            desired,
            state: State { phase, problem: problem.map(|(problem, _)| problem) },
            since,
            why: one_line(&why),
            conditions: SHOWN_CONDITIONS.map(condition),
            current: status.current_version,
            last: status.last_version,
        }
    }

    /// The state of an object that is invalid; it does not affect others.
    pub fn unreadable(addon: &str, cluster: &str, why: &str) -> Self {
        Self {
            addon: addon.to_owned(),
            cluster: cluster.to_owned(),
            placement: None,
            desired: String::new(),
            current: String::new(),
            last: String::new(),
            state: State { phase: Phase::Unreadable, problem: None },
            since: None,
            why: one_line(why),
            conditions: SHOWN_CONDITIONS.map(|_| String::new()),
        }
    }
}

fn phase(object: &ManagedClusterAddOn, desired: &str, management: Management<'_>) -> (Phase, Explanation) {
    let status = object.status.clone().unwrap_or_default();
    if let Some(deletion) = &object.metadata.deletion_timestamp {
        let why = find(&status.conditions, DELETING).map(|condition| condition.message.clone());
        return (Phase::Deleting, Explanation { since: Some(deletion.0), why: why.unwrap_or_default() });
    }
    if let Some(condition) = find(&status.conditions, CONFIGURED)
        && (condition.status.as_str(), condition.reason.as_str()) == ("False", progress::WAITING)
    {
        return (Phase::Waiting, Explanation::by(condition, &condition.message));
    }
    let Some(condition) = find(&status.conditions, PROGRESSING) else {
        if matches!(management, Management::Unmanaged) {
            let since = find(&status.conditions, AVAILABLE).map(|one| one.last_transition_time.0);
            return (Phase::Unmanaged, Explanation { since, why: String::new() });
        }
        return (Phase::Pending, Explanation::without_time("no controller has reconciled it yet"));
    };
    if !desired.is_empty() && status.install_version != desired {
        let why = format!("{desired} is requested, and no controller has started the change");
        return (Phase::Pending, Explanation::without_time(why));
    }
    match condition.reason.as_str() {
        progress::SUCCEED if is_overridden(object) => {
            (Phase::Succeed, Explanation::by(condition, describe_override(object)))
        }
        progress::SUCCEED => (Phase::Succeed, Explanation::by(condition, "")),
        progress::FAILED => (Phase::Failed, Explanation::by(condition, &condition.message)),
        reason => (Phase::InProgress(reason.to_owned()), Explanation::by(condition, &condition.message)),
    }
}

/// What is wrong besides the version, if anything is.
fn problem(conditions: &[Condition], phase: &Phase) -> Option<(Problem, Explanation)> {
    let explain = |condition: &Condition| {
        let why = match condition.message.as_str() {
            "" => condition.reason.clone(),
            message if message.starts_with(&condition.reason) => message.to_owned(),
            message => format!("{}: {message}", condition.reason),
        };
        Explanation::by(condition, why)
    };
    if let Some(condition) = find(conditions, AVAILABLE)
        && condition.status != "True"
        && (phase.is_settled() || !is_expected_during(phase, &condition.reason))
    {
        let problem = match (condition.status.as_str(), condition.reason.as_str()) {
            (_, available::CLUSTER_LOST) => Problem::Unreachable,
            (_, available::SILENT) => Problem::Silent,
            (_, available::UNHEALTHY) => Problem::Unhealthy,
            ("False", _) => Problem::Unavailable,
            _ => Problem::Unknown,
        };
        return Some((problem, explain(condition)));
    }
    if let Some(degraded) = find(conditions, DEGRADED).filter(|condition| condition.status == "True") {
        return Some((Problem::Degraded, explain(degraded)));
    }
    // Of an add-on that no controller manages, Available is all that is known.
    let is_unreported = *phase == Phase::Unmanaged && find(conditions, AVAILABLE).is_none();
    is_unreported
        .then(|| (Problem::Unknown, Explanation::without_time("its condition Available is not reported")))
}

/// Whether a reason for not being available is expected while the version changes or cannot be applied.
fn is_expected_during(phase: &Phase, reason: &str) -> bool {
    match reason {
        available::NOT_FOUND | available::NOT_REPORTED | available::APPLY_FAILED => true,
        available::NOT_AVAILABLE | available::PROBE_UNAVAILABLE | available::NO_PROBE => {
            matches!(phase, Phase::InProgress(_))
        }
        _ => false,
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use bellwether_api::addon::vocabulary::INSTALLED_BY;
    use serde_json::{Value, json};

    use super::*;

    const MANAGED: Management<'static> = Management::Managed { default_version: "v2" };

    fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({"type": type_, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2024-05-01T10:00:00Z"})
    }

    fn addon(requested: &str, versions: [&str; 3], conditions: &[Value]) -> ManagedClusterAddOn {
        let [begun, current, last] = versions;
        serde_json::from_value(json!({
            "metadata": {"name": "hello", "namespace": "c1",
                "annotations": {INSTALLED_BY: "default/p"},
                "managedFields": [{"manager": "addon-install-controller", "operation": "Apply",
                    "fieldsV1": {"f:spec": {"f:installVersion": {}}}}]},
            "spec": {"installVersion": requested},
            "status": {"installVersion": begun, "currentVersion": current, "lastVersion": last,
                "conditions": conditions},
        }))
        .unwrap()
    }

    #[test]
    fn state_combines_phase_and_problem() {
        let succeed = condition("Progressing", "False", "Succeed", "install completed with no errors.");
        let upgrading = condition("Progressing", "True", "Upgrading", "Upgrading addon to version v2.");
        let failed = condition("Progressing", "False", "Failed", "could not upgrade to version v2: no");
        let waiting = condition("Configured", "False", "WaitingForTurn", "at most 1 at a time");
        let up = condition("Available", "True", "WorkApplied", "All objects are there.");
        let down = condition("Available", "False", "ProbeUnavailable", "0 of 1 copies are ready.");
        let not_yet = condition("Available", "Unknown", "WorkNotApplied", "no answer yet");
        let rejected = condition("Available", "False", "WorkApplyFailed", "no");
        let lost = condition("Available", "Unknown", "ManagedClusterLeaseUpdateStopped", "unreachable");
        let silent = condition("Available", "Unknown", "HeartbeatTimeout", "HeartbeatTimeout: no heartbeat");
        let unhealthy = condition("Available", "False", "AddonUnhealthy", "OutOfMemory: more");
        let no_probe = condition("Available", "Unknown", "NoProbeResult", "nothing is known");
        let degraded = condition("Degraded", "True", "Slow", "it is slow");
        let settled = ["v2", "v2", "v1"];
        let moving = ["v2", "unknown", "v1"];
        type Row<'a> = (&'a str, [&'a str; 3], Vec<&'a Value>, &'a str, &'a str);
        let rows: Vec<Row<'_>> = vec![
            ("v2", settled, vec![&succeed, &up], "Succeed", ""),
            ("", settled, vec![&succeed, &up], "Succeed", ""),
            (
                "v2",
                settled,
                vec![&succeed, &down],
                "Succeed,Unavailable",
                "ProbeUnavailable: 0 of 1 copies are ready.",
            ),
            ("v2", settled, vec![&succeed, &not_yet], "Succeed,Unknown", "WorkNotApplied: no answer yet"),
            (
                "v2",
                settled,
                vec![&succeed, &lost],
                "Succeed,Unreachable",
                "ManagedClusterLeaseUpdateStopped: unreachable",
            ),
            ("v2", settled, vec![&succeed, &silent], "Succeed,Silent", "HeartbeatTimeout: no heartbeat"),
            (
                "v2",
                settled,
                vec![&succeed, &unhealthy],
                "Succeed,Unhealthy",
                "AddonUnhealthy: OutOfMemory: more",
            ),
            ("v2", settled, vec![&succeed, &no_probe], "Succeed,Unknown", "NoProbeResult: nothing is known"),
            ("v2", settled, vec![&succeed, &up, &degraded], "Succeed,Degraded", "Slow: it is slow"),
            ("v2", moving, vec![&upgrading, &not_yet], "Upgrading", "Upgrading addon to version v2."),
            ("v2", moving, vec![&upgrading, &down], "Upgrading", "Upgrading addon to version v2."),
            (
                "v2",
                moving,
                vec![&upgrading, &lost],
                "Upgrading,Unreachable",
                "Upgrading addon to version v2.; ManagedClusterLeaseUpdateStopped: unreachable",
            ),
            ("v2", moving, vec![&failed, &rejected], "Failed", "could not upgrade to version v2: no"),
            (
                "v2",
                moving,
                vec![&failed, &down],
                "Failed,Unavailable",
                "could not upgrade to version v2: no; ProbeUnavailable: 0 of 1 copies are ready.",
            ),
            ("v3", settled, vec![&succeed, &waiting, &up], "Waiting", "at most 1 at a time"),
            (
                "v3",
                settled,
                vec![&succeed, &waiting, &down],
                "Waiting,Unavailable",
                "at most 1 at a time; ProbeUnavailable: 0 of 1 copies are ready.",
            ),
            (
                "v3",
                settled,
                vec![&succeed, &up],
                "Pending",
                "v3 is requested, and no controller has started the change",
            ),
            ("v3", ["", "", ""], vec![], "Pending", "no controller has reconciled it yet"),
        ];
        for (requested, versions, conditions, word, why) in rows {
            let conditions: Vec<Value> = conditions.into_iter().cloned().collect();
            let found = AddonState::of(&addon(requested, versions, &conditions), MANAGED);
            assert_eq!((found.state.to_string().as_str(), found.why.as_str()), (word, why));
        }
    }

    #[test]
    fn state_of_an_unmanaged_add_on_is_its_condition_available() {
        let up = condition("Available", "True", "AddonAvailable", "fine");
        let rows = [
            (vec![up], "Available"),
            (vec![condition("Available", "False", "Broken", "no")], "Unavailable"),
            (vec![], "Unknown"),
        ];
        for (conditions, word) in rows {
            assert_eq!(
                AddonState::of(&addon("", ["", "", ""], &conditions), Management::Unmanaged)
                    .state
                    .to_string(),
                word
            );
        }
    }

    #[test]
    fn deleting_add_on_says_what_it_waits_for() {
        let waiting = condition("Deleting", "True", "WaitingForAgent", "The agent of c1 has to delete w.");
        let mut deleting = addon("v2", ["v2", "v2", ""], &[waiting]);
        deleting.metadata.deletion_timestamp = serde_json::from_value(json!("2024-05-01T10:00:00Z")).unwrap();
        let found = AddonState::of(&deleting, MANAGED);
        assert_eq!(
            (found.state.to_string().as_str(), found.why.as_str()),
            ("Deleting", "The agent of c1 has to delete w.")
        );
    }

    #[test]
    fn version_that_a_user_has_set_is_explained() {
        let succeed = condition("Progressing", "False", "Succeed", "install completed with no errors.");
        let mut object = addon("v1", ["v1", "v1", "v2"], &[succeed]);
        let managed = json!([{"manager": "kubectl-patch", "operation": "Update",
            "fieldsV1": {"f:spec": {"f:installVersion": {}}}}]);
        object.metadata.managed_fields = serde_json::from_value(managed).unwrap();
        let found = AddonState::of(&object, MANAGED);
        assert_eq!(found.why, "its version is set by kubectl-patch, not by its placement");
        assert_eq!((found.desired.as_str(), found.state.to_string().as_str()), ("v1", "Succeed"));
    }
}
