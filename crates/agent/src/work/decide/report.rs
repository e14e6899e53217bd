//! What is said of a work on the hub: of each of its objects, and of all together.

use bellwether_api::work::{ManifestResourceMeta, StatusFeedback, vocabulary as words};
use bellwether_conditions::{ConditionSet, ConditionType, Desired, Reason, Status, TransitionKey, shorten};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::feedback::{Feedback, Verdict};
use super::manifest::described;

const APPLIED: ConditionType = ConditionType::constant(words::APPLIED);
const AVAILABLE: ConditionType = ConditionType::constant(words::AVAILABLE);
const FEEDBACK: ConditionType = ConditionType::constant(words::FEEDBACK_SYNCED);
const DELETING: ConditionType = ConditionType::constant(words::DELETING);

/// The most that is said of one object, in bytes.
const OF_ONE: usize = 1024;
/// The most that is said of all of them.
const OF_ALL: usize = 8 * 1024;

/// The status of a work, with what others keep there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WorkStatus {
    pub(crate) conditions: ConditionSet,
    pub(crate) resource_status: Resources,
    #[serde(flatten)]
    pub(crate) others: Map<String, Value>,
}

/// The objects of a work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Resources {
    pub(crate) manifests: Vec<ManifestStatus>,
}

/// One object of a work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ManifestStatus {
    pub(crate) resource_meta: ManifestResourceMeta,
    #[serde(skip_serializing_if = "is_empty")]
    pub(crate) status_feedback: StatusFeedback,
    pub(crate) conditions: ConditionSet,
}

fn is_empty(feedback: &StatusFeedback) -> bool {
    feedback.values.is_empty()
}

/// What was found of one manifest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) meta: ManifestResourceMeta,
    /// Whether it was written, or why not.
    pub(crate) applied: Result<(), String>,
    pub(crate) presence: Presence,
    pub(crate) feedback: Feedback,
}

/// Whether an object is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    There,
    Missing,
    /// It cannot be read, for this reason.
    Unreadable(String),
    /// It is not known which object is meant.
    Unnamed,
}

impl WorkStatus {
    /// As it was read; what cannot be read is written anew.
    pub(crate) fn read(status: &Value) -> Self {
        Self::deserialize(status).unwrap_or_default()
    }

    /// The status that tells what was found at a generation. It says that objects are there only beside whether they
    /// were written, and of the same generation.
    pub(crate) fn telling(&self, findings: &[Finding], generation: i64, now: Timestamp) -> Self {
        let mut next = self.clone();
        for desired in [of_all_applied(findings), of_all_present(findings)] {
            let _ = next.conditions.upsert(desired.observed_at(generation), TransitionKey::Status, now);
        }
        next.conditions.remove(&DELETING);
        let manifests = findings.iter().map(|finding| self.manifest(finding, generation, now));
        next.resource_status.manifests = manifests.collect();
        next
    }

    /// The status that tells that nothing could be begun, and why. What is known of the objects stays as it was.
    pub(crate) fn refusing(&self, why: &str, generation: i64, now: Timestamp) -> Self {
        let mut next = self.clone();
        let message = format!("Failed to apply manifest work: {}", shorten(why, OF_ONE));
        let desired =
            Desired::new(APPLIED, Status::False, Reason::constant(words::WORK_NOT_APPLIED), message);
        let _ = next.conditions.upsert(desired.observed_at(generation), TransitionKey::Status, now);
        next
    }

    /// The status that tells that the work goes, and what it waits for.
    pub(crate) fn deleting(&self, awaited: &[String], generation: i64, now: Timestamp) -> Self {
        let mut next = self.clone();
        let mut message = "ManifestWork is being deleted".to_owned();
        if !awaited.is_empty() {
            message = shorten(&format!("{message}: it waits for {}", listed(awaited)), OF_ALL);
        }
        let desired = Desired::new(DELETING, Status::True, Reason::constant(words::WORK_DELETING), message);
        let _ = next.conditions.upsert(desired.observed_at(generation), TransitionKey::Status, now);
        next
    }

    fn manifest(&self, finding: &Finding, generation: i64, now: Timestamp) -> ManifestStatus {
        let known = self.resource_status.manifests.iter();
        let before = known.filter(|known| is_same(&known.resource_meta, &finding.meta));
        // Two manifests that name nothing are told apart by their place alone.
        let before = before.min_by_key(|known| known.resource_meta.ordinal != finding.meta.ordinal);
        let mut conditions = before.map(|before| before.conditions.clone()).unwrap_or_default();
        let desired = [
            of_applied(finding).observed_at(generation),
            of_presence(finding).observed_at(generation),
            of_feedback(&finding.feedback),
        ];
        for desired in desired {
            let _ = conditions.upsert(desired, TransitionKey::Status, now);
        }
        ManifestStatus {
            resource_meta: finding.meta.clone(),
            status_feedback: StatusFeedback { values: finding.feedback.values.clone() },
            conditions,
        }
    }
}

fn is_same(one: &ManifestResourceMeta, other: &ManifestResourceMeta) -> bool {
    one.group == other.group
        && one.kind == other.kind
        && one.namespace == other.namespace
        && one.name == other.name
}

fn of_all_applied(findings: &[Finding]) -> Desired {
    let failed: Vec<String> = findings
        .iter()
        .filter_map(|finding| {
            let words = finding.applied.as_ref().err()?;
            let ManifestResourceMeta { kind, namespace, name, .. } = &finding.meta;
            // What names nothing says which manifest it is.
            let named = !kind.is_empty() && !name.is_empty();
            let said =
                if named { format!("{}: {words}", described(kind, namespace, name)) } else { words.clone() };
            Some(shorten(&said, OF_ONE / 2))
        })
        .collect();
    if failed.is_empty() {
        let reason = Reason::constant(words::WORK_APPLIED);
        return Desired::new(APPLIED, Status::True, reason, "Apply manifest work complete");
    }
    let message = format!("Failed to apply manifest work: {}", listed(&failed));
    Desired::new(APPLIED, Status::False, Reason::constant(words::WORK_NOT_APPLIED), message)
}

fn of_all_present(findings: &[Finding]) -> Desired {
    let count = |is: fn(&Presence) -> bool| findings.iter().filter(|finding| is(&finding.presence)).count();
    let missing = count(|presence| *presence == Presence::Missing);
    let unknown = count(|presence| matches!(presence, Presence::Unreadable(_) | Presence::Unnamed));
    let all = findings.len();
    let (status, reason, message) = if missing > 0 {
        let message = format!("{missing} of {all} resources are not available");
        (Status::False, words::RESOURCES_NOT_AVAILABLE, message)
    } else if unknown > 0 {
        (
            Status::Unknown,
            words::RESOURCES_UNKNOWN,
            format!("{unknown} of {all} resources have unknown status"),
        )
    } else {
        (Status::True, words::RESOURCES_AVAILABLE, "All resources are available".to_owned())
    };
    Desired::new(AVAILABLE, status, Reason::constant(reason), message)
}

fn of_applied(finding: &Finding) -> Desired {
    match &finding.applied {
        Ok(()) => Desired::new(
            APPLIED,
            Status::True,
            Reason::constant(words::MANIFEST_APPLIED),
            "Apply manifest complete",
        ),
        Err(why) => {
            let message = format!("Failed to apply manifest: {}", shorten(why, OF_ONE));
            Desired::new(APPLIED, Status::False, Reason::constant(words::MANIFEST_NOT_APPLIED), message)
        }
    }
}

fn of_presence(finding: &Finding) -> Desired {
    let (status, reason, message) = match &finding.presence {
        Presence::There => (Status::True, words::RESOURCE_AVAILABLE, "Resource is available".to_owned()),
        Presence::Missing => {
            (Status::False, words::RESOURCE_NOT_AVAILABLE, "Resource is not available".to_owned())
        }
        Presence::Unreadable(why) => (
            Status::Unknown,
            words::RESOURCE_UNREADABLE,
            format!("It cannot be read: {}", shorten(why, OF_ONE)),
        ),
        Presence::Unnamed => {
            (Status::Unknown, words::RESOURCE_UNNAMED, "It is not known which resource is meant".to_owned())
        }
    };
    Desired::new(AVAILABLE, status, Reason::constant(reason), message)
}

fn of_feedback(feedback: &Feedback) -> Desired {
    let (status, reason, message) = match &feedback.verdict {
        Verdict::Nothing => (Status::True, words::NO_FEEDBACK, String::new()),
        Verdict::Found => (Status::True, words::FEEDBACK_FOUND, String::new()),
        Verdict::Lacking(why) => (Status::False, words::FEEDBACK_NOT_FOUND, why.clone()),
    };
    Desired::new(FEEDBACK, status, Reason::constant(reason), message)
}

/// As many as there is room for, and how many more there are.
fn listed(all: &[String]) -> String {
    let (mut text, mut told) = (String::new(), 0);
    for one in all {
        if told > 0 && text.len() + one.len() > OF_ALL - 64 {
            return format!("{text}; and {} more", all.len() - told);
        }
        if told > 0 {
            text.push_str("; ");
        }
        text.push_str(one);
        told += 1;
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    fn meta(ordinal: i32, name: &str) -> ManifestResourceMeta {
        ManifestResourceMeta {
            ordinal,
            version: "v1".into(),
            kind: "ConfigMap".into(),
            resource: "configmaps".into(),
            name: name.into(),
            namespace: "ns".into(),
            ..ManifestResourceMeta::default()
        }
    }

    fn finding(ordinal: i32, name: &str) -> Finding {
        Finding {
            meta: meta(ordinal, name),
            applied: Ok(()),
            presence: Presence::There,
            feedback: Feedback::default(),
        }
    }

    /// A condition in short.
    fn brief(conditions: &ConditionSet, type_: &ConditionType) -> String {
        let held = conditions.get(type_).unwrap();
        let generation = held.observed_generation.unwrap_or_default();
        format!("{}/{}@{generation} {}", held.status, held.reason, held.message)
    }

    #[test]
    fn a_work_is_what_its_objects_are() {
        let failed = |name: &str, words: &str| Finding { applied: Err(words.into()), ..finding(0, name) };
        let with = |presence: Presence| Finding { presence, ..finding(0, "b") };
        let rows = [
            (
                "nothing is asked for",
                vec![],
                "True/AppliedManifestWorkComplete@3 Apply manifest work complete",
                "True/ResourcesAvailable@3 All resources are available",
            ),
            (
                "all is well",
                vec![finding(0, "a")],
                "True/AppliedManifestWorkComplete@3 Apply manifest work complete",
                "True/ResourcesAvailable@3 All resources are available",
            ),
            (
                "two fail",
                vec![failed("a", "no"), finding(1, "b"), failed("c", "never")],
                "False/AppliedManifestWorkFailed@3 Failed to apply manifest work: ConfigMap ns/a: no; ConfigMap ns/c: never",
                "True/ResourcesAvailable@3 All resources are available",
            ),
            (
                "one is missing",
                vec![finding(0, "a"), with(Presence::Missing)],
                "True/AppliedManifestWorkComplete@3 Apply manifest work complete",
                "False/ResourcesNotAvailable@3 1 of 2 resources are not available",
            ),
            (
                "one cannot be read",
                vec![finding(0, "a"), with(Presence::Unreadable("no".into()))],
                "True/AppliedManifestWorkComplete@3 Apply manifest work complete",
                "Unknown/ResourcesStatusUnknown@3 1 of 2 resources have unknown status",
            ),
            (
                "what is missing counts before what is unknown",
                vec![with(Presence::Unnamed), with(Presence::Missing)],
                "True/AppliedManifestWorkComplete@3 Apply manifest work complete",
                "False/ResourcesNotAvailable@3 1 of 2 resources are not available",
            ),
        ];
        for (sentence, findings, applied, available) in rows {
            let told = WorkStatus::default().telling(&findings, 3, at(0));
            assert_eq!(brief(&told.conditions, &APPLIED), applied, "{sentence}");
            assert_eq!(brief(&told.conditions, &AVAILABLE), available, "{sentence}");
        }
    }

    #[test]
    fn an_object_is_told_of_in_its_own_conditions() {
        let mut found = finding(0, "a");
        found.applied = Err("no".into());
        found.presence = Presence::Missing;
        found.feedback.verdict = Verdict::Lacking("why".into());
        let told = WorkStatus::default().telling(&[found], 3, at(0));
        let conditions = &told.resource_status.manifests[0].conditions;
        assert_eq!(brief(conditions, &APPLIED), "False/AppliedManifestFailed@3 Failed to apply manifest: no");
        assert_eq!(brief(conditions, &AVAILABLE), "False/ResourceNotAvailable@3 Resource is not available");
        assert_eq!(brief(conditions, &FEEDBACK), "False/StatusFeedbackSyncFailed@0 why");
    }

    #[test]
    fn times_move_when_the_status_does_and_follow_their_object() {
        let first = WorkStatus::default().telling(&[finding(0, "a"), finding(1, "b")], 1, at(0));
        let missing = Finding { presence: Presence::Missing, ..finding(0, "b") };
        let second = first.telling(&[missing, finding(1, "a")], 2, at(9));
        let since = |conditions: &ConditionSet, type_: &ConditionType| {
            conditions.get(type_).unwrap().last_transition_time
        };
        assert_eq!(since(&second.conditions, &APPLIED), at(0));
        assert_eq!(since(&second.conditions, &AVAILABLE), at(9));
        let [b, a] = second.resource_status.manifests.as_slice() else { panic!("there are two") };
        assert_eq!((since(&a.conditions, &AVAILABLE), since(&b.conditions, &AVAILABLE)), (at(0), at(9)));
        assert_eq!(
            second.telling(&[], 1, at(20)).conditions,
            second.conditions,
            "a generation never goes back"
        );
    }

    #[test]
    fn a_work_that_goes_says_what_it_waits_for() {
        let told = WorkStatus::default().deleting(&[], 2, at(0));
        assert_eq!(brief(&told.conditions, &DELETING), "True/WorkDeleting@2 ManifestWork is being deleted");
        let told = told.deleting(&["configmaps ns/a".into()], 2, at(5));
        assert_eq!(
            brief(&told.conditions, &DELETING),
            "True/WorkDeleting@2 ManifestWork is being deleted: it waits for configmaps ns/a"
        );
        assert_eq!(told.conditions.get(&DELETING).unwrap().last_transition_time, at(0));
    }

    #[test]
    fn many_long_words_are_kept_within_bounds() {
        let many: Vec<Finding> = (0..500)
            .map(|n| Finding { applied: Err("x".repeat(100_000)), ..finding(n, &n.to_string()) })
            .collect();
        let told = WorkStatus::default().telling(&many, 1, at(0));
        let message = &told.conditions.get(&APPLIED).unwrap().message;
        assert!(message.len() < 9000, "{}", message.len());
        assert!(message.ends_with("more"), "{message}");
        assert!(serde_json::to_string(&told).unwrap().len() < 1_000_000);
    }

    #[test]
    fn what_others_keep_stays_and_nonsense_is_written_anew() {
        let read =
            WorkStatus::read(&json!({"own": 1, "conditions": [{"type": "Complete", "status": "True"}]}));
        let told = serde_json::to_value(read.telling(&[], 1, at(0))).unwrap();
        assert_eq!((&told["own"], &told["conditions"][0]["type"]), (&json!(1), &json!("Complete")));
        for nonsense in [Value::Null, json!([]), json!({"conditions": 7}), json!("x")] {
            assert_eq!(WorkStatus::read(&nonsense), WorkStatus::default(), "{nonsense}");
        }
    }

    proptest! {
        #[test]
        fn the_same_again_changes_nothing(states in proptest::collection::vec((any::<bool>(), 0..4_u8), 0..6), generation in 1..5_i64) {
            let findings: Vec<Finding> = states.iter().zip(0..).map(|((applied, presence), n)| Finding {
                applied: if *applied { Ok(()) } else { Err("no".into()) },
                presence: match presence {
                    0 => Presence::There,
                    1 => Presence::Missing,
                    2 => Presence::Unreadable("no".into()),
                    _ => Presence::Unnamed,
                },
                ..finding(n, &n.to_string())
            }).collect();
            let told = WorkStatus::default().telling(&findings, generation, at(0));
            prop_assert_eq!(&told.telling(&findings, generation, at(60)), &told);
            // Also after it was written and read again.
            let read = WorkStatus::read(&serde_json::to_value(&told).unwrap());
            prop_assert_eq!(&read, &told);
            let (applied, available) = (told.conditions.get(&APPLIED).unwrap(), told.conditions.get(&AVAILABLE).unwrap());
            prop_assert!(applied.observed_generation >= available.observed_generation);
        }
    }
}
