//! How an add-on is on a cluster, in words: how far its version is, and whether it is up. Pure.

use bellwether_api::addon::ManagedClusterAddOn;
use bellwether_api::addon::vocabulary::{AVAILABLE, CONFIGURED, DEGRADED, INSTALLED_BY, PROGRESSING};
use bellwether_lifecycle::addon::decide::available::reason as up;
use bellwether_lifecycle::addon::decide::progress::reason as progress;
use bellwether_lifecycle::fields::{is_overridden, version_managers};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;

use crate::output::Hue;

/// The condition of an add-on that is being taken away.
const DELETING: &str = "Deleting";

/// What is known of the add-on as a whole.
#[derive(Clone, Copy, Debug)]
pub(super) enum Management<'a> {
    /// It has a ClusterManagementAddOn with this default version, which may be empty.
    By { default_version: &'a str },
    /// It has none: whoever writes its conditions is all that there is to go by.
    Nobody,
}

/// An add-on on a cluster, as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) addon: String,
    pub(super) cluster: String,
    /// The placement that it was made for.
    pub(super) placement: Option<String>,
    /// Versions; empty where there is none.
    pub(super) desired: String,
    pub(super) current: String,
    pub(super) last: String,
    pub(super) state: State,
    pub(super) since: Option<Timestamp>,
    pub(super) why: String,
    /// The words of conditions, in the order of [`CONDITIONS`].
    pub(super) conditions: [String; 3],
}

/// The conditions that are shown beside the state.
pub(super) const CONDITIONS: [&str; 3] = [AVAILABLE, bellwether_api::addon::vocabulary::HEARTBEAT, DEGRADED];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) course: Course,
    pub(super) trouble: Option<Trouble>,
}

/// How far the version is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// It cannot be read.
    Unreadable,
    /// It could not be brought there.
    Failed,
    /// It is being taken away.
    Deleting,
    /// It is asked for, and nobody has begun.
    Pending,
    /// Others come first.
    Waiting,
    /// It is on its way, in the word of the controller: Installing, Upgrading, Rollingback.
    Moving(String),
    /// It is there.
    Succeed,
    /// Nobody manages versions of it.
    Unmanaged,
}

/// What there is to say beside the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    Unreachable,
    Unavailable,
    Silent,
    Unhealthy,
    Unknown,
    Degraded,
}

impl Trouble {
    pub(super) fn word(self) -> &'static str {
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

impl State {
    /// `Succeed`, `Waiting`, `Succeed,Silent`.
    pub(super) fn word(&self) -> String {
        let course = match &self.course {
            Course::Unreadable => "Unreadable",
            Course::Failed => "Failed",
            Course::Deleting => "Deleting",
            Course::Pending => "Pending",
            Course::Waiting => "Waiting",
            Course::Moving(word) => word,
            Course::Succeed => "Succeed",
            Course::Unmanaged => return self.trouble.map_or("Available", Trouble::word).to_owned(),
        };
        match self.trouble {
            None => course.to_owned(),
            Some(trouble) => format!("{course},{}", trouble.word()),
        }
    }

    pub(super) fn hue(&self) -> Hue {
        let red = matches!(self.course, Course::Unreadable | Course::Failed);
        match self.trouble {
            _ if red => Hue::Red,
            Some(Trouble::Unknown | Trouble::Degraded) => Hue::Yellow,
            Some(_) => Hue::Red,
            None if matches!(self.course, Course::Succeed | Course::Unmanaged) => Hue::Green,
            None => Hue::Yellow,
        }
    }

    /// The worst has the lowest.
    pub(super) fn rank(&self) -> u8 {
        match self.hue() {
            Hue::Red => 0,
            Hue::Yellow => 1,
            Hue::Green | Hue::Faint => 2,
        }
    }
}

/// What a condition comes to: since when, and why.
struct Told {
    since: Option<Timestamp>,
    why: String,
}

impl Told {
    fn by(condition: &Condition, why: impl Into<String>) -> Self {
        Self { since: Some(condition.last_transition_time.0), why: why.into() }
    }
}

/// The row of an add-on on a cluster.
pub(super) fn row(object: &ManagedClusterAddOn, management: Management<'_>) -> Row {
    let status = object.status.clone().unwrap_or_default();
    let desired = desired(object, management);
    let (course, told) = course(object, &desired, management);
    let trouble = trouble(&status.conditions, &course);
    let state = State { course, trouble: trouble.as_ref().map(|(trouble, _)| *trouble) };
    let settled = matches!(state.course, Course::Succeed | Course::Unmanaged);
    let Told { since, why } = match trouble {
        Some((_, trouble)) if settled => trouble,
        Some((_, trouble)) => Told { why: format!("{}; {}", told.why, trouble.why), ..told },
        None => told,
    };
    let condition = |type_| {
        let said = find(&status.conditions, type_);
        said.map(|said| format!("{}/{}", said.status, said.reason)).unwrap_or_default()
    };
    Row {
        addon: object.name_any(),
        cluster: object.namespace().unwrap_or_default(),
        placement: object.annotations().get(INSTALLED_BY).cloned(),
        desired,
        current: status.current_version,
        last: status.last_version,
        state,
        since,
        why: one_line(&why),
        conditions: CONDITIONS.map(condition),
    }
}

/// The row of an object that makes no sense, which spoils no other.
pub(super) fn unreadable(addon: &str, cluster: &str, why: &str) -> Row {
    Row {
        addon: addon.to_owned(),
        cluster: cluster.to_owned(),
        placement: None,
        desired: String::new(),
        current: String::new(),
        last: String::new(),
        state: State { course: Course::Unreadable, trouble: None },
        since: None,
        why: one_line(why),
        conditions: CONDITIONS.map(|_| String::new()),
    }
}

/// The version that is asked for.
fn desired(object: &ManagedClusterAddOn, management: Management<'_>) -> String {
    match (object.spec.install_version.as_str(), management) {
        ("", Management::By { default_version }) => default_version.to_owned(),
        (asked, _) => asked.to_owned(),
    }
}

fn course(object: &ManagedClusterAddOn, desired: &str, management: Management<'_>) -> (Course, Told) {
    let status = object.status.clone().unwrap_or_default();
    let progressing = find(&status.conditions, PROGRESSING);
    if let Some(begun) = &object.metadata.deletion_timestamp {
        let why = find(&status.conditions, DELETING).map(|said| said.message.clone()).unwrap_or_default();
        return (Course::Deleting, Told { since: Some(begun.0), why });
    }
    if let Some(said) = find(&status.conditions, CONFIGURED)
        && (said.status.as_str(), said.reason.as_str()) == ("False", progress::WAITING)
    {
        return (Course::Waiting, Told::by(said, &said.message));
    }
    let Some(said) = progressing else {
        if matches!(management, Management::Nobody) {
            let available = find(&status.conditions, AVAILABLE);
            let since = available.map(|said| said.last_transition_time.0);
            return (Course::Unmanaged, Told { since, why: String::new() });
        }
        return (Course::Pending, Told { since: None, why: "no controller has looked at it yet".to_owned() });
    };
    if !desired.is_empty() && status.install_version != desired {
        let why = format!("{desired} is asked for, and no controller has begun with it");
        return (Course::Pending, Told { since: None, why });
    }
    match (said.status.as_str(), said.reason.as_str()) {
        (_, progress::SUCCEED) => (Course::Succeed, Told::by(said, set_by(object))),
        (_, progress::FAILED) => (Course::Failed, Told::by(said, &said.message)),
        (_, word) => (Course::Moving(word.to_owned()), Told::by(said, &said.message)),
    }
}

/// Who has set the version in place of the placement, if anybody has.
pub(super) fn set_by(object: &ManagedClusterAddOn) -> String {
    if !is_overridden(object) {
        return String::new();
    }
    match version_managers(object).as_slice() {
        [] => "its version is not set by its placement".to_owned(),
        managers => format!("its version is set by {}, not by its placement", managers.join(" and ")),
    }
}

/// What is wrong beside the version, if anything is.
fn trouble(conditions: &[Condition], course: &Course) -> Option<(Trouble, Told)> {
    let told = |said: &Condition| {
        let why = match said.message.as_str() {
            "" => said.reason.clone(),
            message if message.starts_with(&said.reason) => message.to_owned(),
            message => format!("{}: {message}", said.reason),
        };
        Told::by(said, why)
    };
    let settled = matches!(course, Course::Succeed | Course::Unmanaged);
    if let Some(said) = find(conditions, AVAILABLE)
        && said.status != "True"
        && (settled || !is_of_the_change(&said.reason, course))
    {
        let trouble = match (said.status.as_str(), said.reason.as_str()) {
            (_, up::CLUSTER_LOST) => Trouble::Unreachable,
            (_, up::SILENT) => Trouble::Silent,
            (_, up::UNHEALTHY) => Trouble::Unhealthy,
            ("False", _) => Trouble::Unavailable,
            _ => Trouble::Unknown,
        };
        return Some((trouble, told(said)));
    }
    if let Some(wrong) = find(conditions, DEGRADED).filter(|said| said.status == "True") {
        return Some((Trouble::Degraded, told(wrong)));
    }
    // Where nobody manages it, that it is up is all that there would be to say.
    let silence = *course == Course::Unmanaged && find(conditions, AVAILABLE).is_none();
    silence.then(|| (Trouble::Unknown, Told { since: None, why: "nobody has said how it is".to_owned() }))
}

/// Whether it is no wonder that an add-on is not up, as long as its version is on its way or cannot be brought.
fn is_of_the_change(reason: &str, course: &Course) -> bool {
    match reason {
        up::NOT_FOUND | up::NOT_REPORTED | up::APPLY_FAILED => true,
        up::NOT_AVAILABLE | up::PROBE_UNAVAILABLE | up::NO_PROBE => matches!(course, Course::Moving(_)),
        _ => false,
    }
}

pub(super) fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// A table has a line for each.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const BY: Management<'static> = Management::By { default_version: "v2" };

    fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({"type": type_, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2024-05-01T10:00:00Z"})
    }

    fn addon(asked: &str, versions: [&str; 3], conditions: &[Value]) -> ManagedClusterAddOn {
        let [begun, current, last] = versions;
        serde_json::from_value(json!({
            "metadata": {"name": "hello", "namespace": "c1",
                "annotations": {INSTALLED_BY: "default/p"},
                "managedFields": [{"manager": "addon-install-controller", "operation": "Apply",
                    "fieldsV1": {"f:spec": {"f:installVersion": {}}}}]},
            "spec": {"installVersion": asked},
            "status": {"installVersion": begun, "currentVersion": current, "lastVersion": last,
                "conditions": conditions},
        }))
        .unwrap()
    }

    #[test]
    fn the_state_is_what_an_operator_wants_to_know_first() {
        let succeed = condition("Progressing", "False", "Succeed", "install completed with no errors.");
        let upgrading = condition("Progressing", "True", "Upgrading", "Upgrading addon to version v2.");
        let failed = condition("Progressing", "False", "Failed", "could not upgrade to version v2: no");
        let waits = condition("Configured", "False", "WaitingForTurn", "at most 1 at a time");
        let up = condition("Available", "True", "WorkApplied", "All objects are there.");
        let down = condition("Available", "False", "ProbeUnavailable", "0 of 1 copies are ready.");
        let not_yet = condition("Available", "Unknown", "WorkNotApplied", "no answer yet");
        let refused = condition("Available", "False", "WorkApplyFailed", "no");
        let lost = condition("Available", "Unknown", "ManagedClusterLeaseUpdateStopped", "out of reach");
        let silent = condition("Available", "Unknown", "HeartbeatTimeout", "HeartbeatTimeout: no beat");
        let ill = condition("Available", "False", "AddonUnhealthy", "OutOfMemory: more");
        let odd = condition("Available", "Unknown", "NoProbeResult", "nothing is known");
        let degraded = condition("Degraded", "True", "Slow", "it is slow");
        let there = ["v2", "v2", "v1"];
        let moving = ["v2", "unknown", "v1"];
        type Row<'a> = (&'a str, [&'a str; 3], Vec<&'a Value>, &'a str, &'a str);
        let rows: Vec<Row<'_>> = vec![
            ("v2", there, vec![&succeed, &up], "Succeed", ""),
            ("", there, vec![&succeed, &up], "Succeed", ""),
            (
                "v2",
                there,
                vec![&succeed, &down],
                "Succeed,Unavailable",
                "ProbeUnavailable: 0 of 1 copies are ready.",
            ),
            ("v2", there, vec![&succeed, &not_yet], "Succeed,Unknown", "WorkNotApplied: no answer yet"),
            (
                "v2",
                there,
                vec![&succeed, &lost],
                "Succeed,Unreachable",
                "ManagedClusterLeaseUpdateStopped: out of reach",
            ),
            ("v2", there, vec![&succeed, &silent], "Succeed,Silent", "HeartbeatTimeout: no beat"),
            ("v2", there, vec![&succeed, &ill], "Succeed,Unhealthy", "AddonUnhealthy: OutOfMemory: more"),
            ("v2", there, vec![&succeed, &odd], "Succeed,Unknown", "NoProbeResult: nothing is known"),
            ("v2", there, vec![&succeed, &up, &degraded], "Succeed,Degraded", "Slow: it is slow"),
            ("v2", moving, vec![&upgrading, &not_yet], "Upgrading", "Upgrading addon to version v2."),
            ("v2", moving, vec![&upgrading, &down], "Upgrading", "Upgrading addon to version v2."),
            (
                "v2",
                moving,
                vec![&upgrading, &lost],
                "Upgrading,Unreachable",
                "Upgrading addon to version v2.; ManagedClusterLeaseUpdateStopped: out of reach",
            ),
            ("v2", moving, vec![&failed, &refused], "Failed", "could not upgrade to version v2: no"),
            (
                "v2",
                moving,
                vec![&failed, &down],
                "Failed,Unavailable",
                "could not upgrade to version v2: no; ProbeUnavailable: 0 of 1 copies are ready.",
            ),
            ("v3", there, vec![&succeed, &waits, &up], "Waiting", "at most 1 at a time"),
            (
                "v3",
                there,
                vec![&succeed, &waits, &down],
                "Waiting,Unavailable",
                "at most 1 at a time; ProbeUnavailable: 0 of 1 copies are ready.",
            ),
            (
                "v3",
                there,
                vec![&succeed, &up],
                "Pending",
                "v3 is asked for, and no controller has begun with it",
            ),
            ("v3", ["", "", ""], vec![], "Pending", "no controller has looked at it yet"),
        ];
        for (asked, versions, conditions, word, why) in rows {
            let conditions: Vec<Value> = conditions.into_iter().cloned().collect();
            let row = row(&addon(asked, versions, &conditions), BY);
            assert_eq!((row.state.word().as_str(), row.why.as_str()), (word, why));
        }
    }

    #[test]
    fn an_add_on_that_nobody_manages_is_as_its_conditions_say() {
        let up = condition("Available", "True", "AddonAvailable", "fine");
        let rows = [
            (vec![up], "Available"),
            (vec![condition("Available", "False", "Broken", "no")], "Unavailable"),
            (vec![], "Unknown"),
        ];
        for (conditions, word) in rows {
            assert_eq!(row(&addon("", ["", "", ""], &conditions), Management::Nobody).state.word(), word);
        }
    }

    #[test]
    fn one_that_goes_says_what_it_waits_for() {
        let waits = condition("Deleting", "True", "WaitingForAgent", "The agent of c1 has to take away w.");
        let mut going = addon("v2", ["v2", "v2", ""], &[waits]);
        going.metadata.deletion_timestamp = serde_json::from_value(json!("2024-05-01T10:00:00Z")).unwrap();
        let row = row(&going, BY);
        assert_eq!(
            (row.state.word().as_str(), row.why.as_str()),
            ("Deleting", "The agent of c1 has to take away w.")
        );
    }

    #[test]
    fn a_version_that_a_person_has_set_is_told() {
        let succeed = condition("Progressing", "False", "Succeed", "install completed with no errors.");
        let mut object = addon("v1", ["v1", "v1", "v2"], &[succeed]);
        let managed = json!([{"manager": "kubectl-patch", "operation": "Update",
            "fieldsV1": {"f:spec": {"f:installVersion": {}}}}]);
        object.metadata.managed_fields = serde_json::from_value(managed).unwrap();
        let row = row(&object, BY);
        assert_eq!(row.why, "its version is set by kubectl-patch, not by its placement");
        assert_eq!((row.desired.as_str(), row.state.word().as_str()), ("v1", "Succeed"));
    }
}
