//! Computes the status of a ManifestWork: the conditions of each manifest, and those of all manifests together.

use bellwether_api::work::{ManifestResourceMeta, StatusFeedback, vocabulary};
use bellwether_conditions::{ConditionSet, ConditionType, Desired, Reason, Status, TransitionKey, shorten};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::feedback::{Feedback, FeedbackState};
use super::manifest::describe_object;

const APPLIED: ConditionType = ConditionType::constant(vocabulary::APPLIED);
const AVAILABLE: ConditionType = ConditionType::constant(vocabulary::AVAILABLE);
const FEEDBACK: ConditionType = ConditionType::constant(vocabulary::FEEDBACK_SYNCED);
const DELETING: ConditionType = ConditionType::constant(vocabulary::DELETING);

/// The maximum size of a message about one manifest, in bytes.
const MAX_MANIFEST_MESSAGE_BYTES: usize = 1024;
/// The maximum size of a message about all manifests, in bytes.
const MAX_WORK_MESSAGE_BYTES: usize = 8 * 1024;

/// The status of a ManifestWork. Fields of other writers are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WorkStatus {
    pub(crate) conditions: ConditionSet,
    pub(crate) resource_status: ResourceStatus,
    #[serde(flatten)]
    pub(crate) others: Map<String, Value>,
}

/// The status of all manifests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ResourceStatus {
    pub(crate) manifests: Vec<ManifestStatus>,
}

/// The status of one manifest.
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

/// The result of reconciling one manifest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ManifestResult {
    pub(crate) meta: ManifestResourceMeta,
    /// Whether the object is applied, or why not.
    pub(crate) applied: Result<(), String>,
    pub(crate) presence: Presence,
    pub(crate) feedback: Feedback,
}

/// Whether an object exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Present,
    Missing,
    /// Reading the object failed, with this message.
    Unreadable(String),
    /// The manifest does not identify an object.
    NotIdentified,
}

impl WorkStatus {
    /// Parses a status. One that is invalid counts as empty, and the next write replaces it.
    pub(crate) fn parse(status: &Value) -> Self {
        Self::deserialize(status).unwrap_or_default()
    }

    /// The status with the results of all manifests at a generation. `Applied` and `Available` are always set together,
    /// for the same generation.
    pub(crate) fn with_results(&self, results: &[ManifestResult], generation: i64, now: Timestamp) -> Self {
        let mut next = self.clone();
        for desired in [work_applied(results), work_available(results)] {
            let _ = next.conditions.upsert(desired.observed_at(generation), TransitionKey::Status, now);
        }
        next.conditions.remove(&DELETING);
        let manifests = results.iter().map(|result| self.manifest_status(result, generation, now));
        next.resource_status.manifests = manifests.collect();
        next
    }

    /// The status if no manifest could be reconciled. The status of the manifests stays as it was.
    pub(crate) fn with_failure(&self, message: &str, generation: i64, now: Timestamp) -> Self {
        let mut next = self.clone();
        let message =
            format!("Failed to apply manifest work: {}", shorten(message, MAX_MANIFEST_MESSAGE_BYTES));
        let desired =
            Desired::new(APPLIED, Status::False, Reason::constant(vocabulary::WORK_NOT_APPLIED), message);
        let _ = next.conditions.upsert(desired.observed_at(generation), TransitionKey::Status, now);
        next
    }

    /// The status while the ManifestWork is being deleted and waits for objects.
    pub(crate) fn with_deleting(&self, waiting: &[String], generation: i64, now: Timestamp) -> Self {
        let mut next = self.clone();
        let mut message = "ManifestWork is being deleted".to_owned();
        if !waiting.is_empty() {
            let waiting = join_within_limit(waiting);
            message = shorten(&format!("{message}: waiting for {waiting}"), MAX_WORK_MESSAGE_BYTES);
        }
        let desired =
            Desired::new(DELETING, Status::True, Reason::constant(vocabulary::WORK_DELETING), message);
        let _ = next.conditions.upsert(desired.observed_at(generation), TransitionKey::Status, now);
        next
    }

    fn manifest_status(&self, result: &ManifestResult, generation: i64, now: Timestamp) -> ManifestStatus {
        let previous = self.resource_status.manifests.iter();
        let previous = previous.filter(|previous| is_same_object(&previous.resource_meta, &result.meta));
        // Manifests without a name are distinguished only by their ordinal.
        let previous = previous.min_by_key(|previous| previous.resource_meta.ordinal != result.meta.ordinal);
        let mut conditions = previous.map(|previous| previous.conditions.clone()).unwrap_or_default();
        let desired = [
            manifest_applied(result).observed_at(generation),
            manifest_available(result).observed_at(generation),
            feedback_synced(&result.feedback),
        ];
        for desired in desired {
            let _ = conditions.upsert(desired, TransitionKey::Status, now);
        }
        ManifestStatus {
            resource_meta: result.meta.clone(),
            status_feedback: StatusFeedback { values: result.feedback.values.clone() },
            conditions,
        }
    }
}

fn is_same_object(one: &ManifestResourceMeta, other: &ManifestResourceMeta) -> bool {
    one.group == other.group
        && one.kind == other.kind
        && one.namespace == other.namespace
        && one.name == other.name
}

fn work_applied(results: &[ManifestResult]) -> Desired {
    let failed: Vec<String> = results
        .iter()
        .filter_map(|result| {
            let message = result.applied.as_ref().err()?;
            let ManifestResourceMeta { kind, namespace, name, .. } = &result.meta;
            // The message about a manifest without kind or name contains its ordinal.
            let is_named = !kind.is_empty() && !name.is_empty();
            let message = if is_named {
                format!("{}: {message}", describe_object(kind, namespace, name))
            } else {
                message.clone()
            };
            Some(shorten(&message, MAX_MANIFEST_MESSAGE_BYTES / 2))
        })
        .collect();
    if failed.is_empty() {
        let reason = Reason::constant(vocabulary::WORK_APPLIED);
        return Desired::new(APPLIED, Status::True, reason, "Apply manifest work complete");
    }
    let message = format!("Failed to apply manifest work: {}", join_within_limit(&failed));
    Desired::new(APPLIED, Status::False, Reason::constant(vocabulary::WORK_NOT_APPLIED), message)
}

fn work_available(results: &[ManifestResult]) -> Desired {
    let count = |is: fn(&Presence) -> bool| results.iter().filter(|result| is(&result.presence)).count();
    let missing = count(|presence| *presence == Presence::Missing);
    let unknown = count(|presence| matches!(presence, Presence::Unreadable(_) | Presence::NotIdentified));
    let all = results.len();
    let (status, reason, message) = if missing > 0 {
        let message = format!("{missing} of {all} resources are not available");
        (Status::False, vocabulary::RESOURCES_NOT_AVAILABLE, message)
    } else if unknown > 0 {
        (
            Status::Unknown,
            vocabulary::RESOURCES_UNKNOWN,
            format!("{unknown} of {all} resources have unknown status"),
        )
    } else {
        (Status::True, vocabulary::RESOURCES_AVAILABLE, "All resources are available".to_owned())
    };
    Desired::new(AVAILABLE, status, Reason::constant(reason), message)
}

fn manifest_applied(result: &ManifestResult) -> Desired {
    match &result.applied {
        Ok(()) => Desired::new(
            APPLIED,
            Status::True,
            Reason::constant(vocabulary::MANIFEST_APPLIED),
            "Apply manifest complete",
        ),
        Err(error) => {
            let message = format!("Failed to apply manifest: {}", shorten(error, MAX_MANIFEST_MESSAGE_BYTES));
            let reason = Reason::constant(vocabulary::MANIFEST_NOT_APPLIED);
            Desired::new(APPLIED, Status::False, reason, message)
        }
    }
}

fn manifest_available(result: &ManifestResult) -> Desired {
    let (status, reason, message) = match &result.presence {
        Presence::Present => {
            (Status::True, vocabulary::RESOURCE_AVAILABLE, "Resource is available".to_owned())
        }
        Presence::Missing => {
            (Status::False, vocabulary::RESOURCE_NOT_AVAILABLE, "Resource is not available".to_owned())
        }
        Presence::Unreadable(error) => (
            Status::Unknown,
            vocabulary::RESOURCE_UNREADABLE,
            format!("Failed to read the resource: {}", shorten(error, MAX_MANIFEST_MESSAGE_BYTES)),
        ),
        Presence::NotIdentified => (
            Status::Unknown,
            vocabulary::RESOURCE_UNNAMED,
            "The manifest does not identify a resource; the condition Applied says why".to_owned(),
        ),
    };
    Desired::new(AVAILABLE, status, Reason::constant(reason), message)
}

fn feedback_synced(feedback: &Feedback) -> Desired {
    let (status, reason, message) = match &feedback.state {
        FeedbackState::NotRequested => (Status::True, vocabulary::NO_FEEDBACK, String::new()),
        FeedbackState::Complete => (Status::True, vocabulary::FEEDBACK_FOUND, String::new()),
        FeedbackState::Incomplete(error) => (Status::False, vocabulary::FEEDBACK_NOT_FOUND, error.clone()),
    };
    Desired::new(FEEDBACK, status, Reason::constant(reason), message)
}

/// Joins as many texts as fit into a message about all manifests, and appends the number of those left out.
fn join_within_limit(all: &[String]) -> String {
    let (mut text, mut joined) = (String::new(), 0);
    for one in all {
        if joined > 0 && text.len() + one.len() > MAX_WORK_MESSAGE_BYTES - 64 {
            return format!("{text}; and {} more", all.len() - joined);
        }
        if joined > 0 {
            text.push_str("; ");
        }
        text.push_str(one);
        joined += 1;
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

    fn result(ordinal: i32, name: &str) -> ManifestResult {
        ManifestResult {
            meta: meta(ordinal, name),
            applied: Ok(()),
            presence: Presence::Present,
            feedback: Feedback::default(),
        }
    }

    /// A condition as `<status>/<reason>@<generation> <message>`.
    fn brief(conditions: &ConditionSet, type_: &ConditionType) -> String {
        let held = conditions.get(type_).unwrap();
        let generation = held.observed_generation.unwrap_or_default();
        format!("{}/{}@{generation} {}", held.status, held.reason, held.message)
    }

    #[test]
    fn conditions_of_the_work_aggregate_those_of_its_manifests() {
        let failed =
            |name: &str, error: &str| ManifestResult { applied: Err(error.into()), ..result(0, name) };
        let with = |presence: Presence| ManifestResult { presence, ..result(0, "b") };
        let rows = [
            (
                "there is no manifest",
                vec![],
                "True/AppliedManifestWorkComplete@3 Apply manifest work complete",
                "True/ResourcesAvailable@3 All resources are available",
            ),
            (
                "every manifest is applied and available",
                vec![result(0, "a")],
                "True/AppliedManifestWorkComplete@3 Apply manifest work complete",
                "True/ResourcesAvailable@3 All resources are available",
            ),
            (
                "two manifests fail",
                vec![failed("a", "no"), result(1, "b"), failed("c", "never")],
                "False/AppliedManifestWorkFailed@3 Failed to apply manifest work: ConfigMap ns/a: no; ConfigMap ns/c: never",
                "True/ResourcesAvailable@3 All resources are available",
            ),
            (
                "one object is missing",
                vec![result(0, "a"), with(Presence::Missing)],
                "True/AppliedManifestWorkComplete@3 Apply manifest work complete",
                "False/ResourcesNotAvailable@3 1 of 2 resources are not available",
            ),
            (
                "one object cannot be read",
                vec![result(0, "a"), with(Presence::Unreadable("no".into()))],
                "True/AppliedManifestWorkComplete@3 Apply manifest work complete",
                "Unknown/ResourcesStatusUnknown@3 1 of 2 resources have unknown status",
            ),
            (
                "missing takes precedence over unknown",
                vec![with(Presence::NotIdentified), with(Presence::Missing)],
                "True/AppliedManifestWorkComplete@3 Apply manifest work complete",
                "False/ResourcesNotAvailable@3 1 of 2 resources are not available",
            ),
        ];
        for (case, results, applied, available) in rows {
            let status = WorkStatus::default().with_results(&results, 3, at(0));
            assert_eq!(brief(&status.conditions, &APPLIED), applied, "{case}");
            assert_eq!(brief(&status.conditions, &AVAILABLE), available, "{case}");
        }
    }

    #[test]
    fn each_manifest_has_its_own_conditions() {
        let mut found = result(0, "a");
        found.applied = Err("no".into());
        found.presence = Presence::Missing;
        found.feedback.state = FeedbackState::Incomplete("why".into());
        let status = WorkStatus::default().with_results(&[found], 3, at(0));
        let conditions = &status.resource_status.manifests[0].conditions;
        assert_eq!(brief(conditions, &APPLIED), "False/AppliedManifestFailed@3 Failed to apply manifest: no");
        assert_eq!(brief(conditions, &AVAILABLE), "False/ResourceNotAvailable@3 Resource is not available");
        assert_eq!(brief(conditions, &FEEDBACK), "False/StatusFeedbackSyncFailed@0 why");
    }

    #[test]
    fn transition_time_follows_the_object_when_manifests_are_reordered() {
        let first = WorkStatus::default().with_results(&[result(0, "a"), result(1, "b")], 1, at(0));
        let missing = ManifestResult { presence: Presence::Missing, ..result(0, "b") };
        let second = first.with_results(&[missing, result(1, "a")], 2, at(9));
        let since = |conditions: &ConditionSet, type_: &ConditionType| {
            conditions.get(type_).unwrap().last_transition_time
        };
        assert_eq!(since(&second.conditions, &APPLIED), at(0));
        assert_eq!(since(&second.conditions, &AVAILABLE), at(9));
        let [b, a] = second.resource_status.manifests.as_slice() else { panic!("two manifests") };
        assert_eq!((since(&a.conditions, &AVAILABLE), since(&b.conditions, &AVAILABLE)), (at(0), at(9)));
        assert_eq!(
            second.with_results(&[], 1, at(20)).conditions,
            second.conditions,
            "observedGeneration never decreases"
        );
    }

    #[test]
    fn condition_deleting_lists_the_remaining_objects() {
        let status = WorkStatus::default().with_deleting(&[], 2, at(0));
        assert_eq!(brief(&status.conditions, &DELETING), "True/WorkDeleting@2 ManifestWork is being deleted");
        let status = status.with_deleting(&["configmaps ns/a".into()], 2, at(5));
        assert_eq!(
            brief(&status.conditions, &DELETING),
            "True/WorkDeleting@2 ManifestWork is being deleted: waiting for configmaps ns/a"
        );
        assert_eq!(status.conditions.get(&DELETING).unwrap().last_transition_time, at(0));
    }

    #[test]
    fn messages_are_bounded() {
        let many: Vec<ManifestResult> = (0..500)
            .map(|n| ManifestResult { applied: Err("x".repeat(100_000)), ..result(n, &n.to_string()) })
            .collect();
        let status = WorkStatus::default().with_results(&many, 1, at(0));
        let message = &status.conditions.get(&APPLIED).unwrap().message;
        assert!(message.len() < 9000, "{}", message.len());
        assert!(message.ends_with("more"), "{message}");
        assert!(serde_json::to_string(&status).unwrap().len() < 1_000_000);
    }

    #[test]
    fn fields_of_others_are_kept_and_an_invalid_status_is_replaced() {
        let parsed =
            WorkStatus::parse(&json!({"own": 1, "conditions": [{"type": "Complete", "status": "True"}]}));
        let status = serde_json::to_value(parsed.with_results(&[], 1, at(0))).unwrap();
        assert_eq!((&status["own"], &status["conditions"][0]["type"]), (&json!(1), &json!("Complete")));
        for invalid in [Value::Null, json!([]), json!({"conditions": 7}), json!("x")] {
            assert_eq!(WorkStatus::parse(&invalid), WorkStatus::default(), "{invalid}");
        }
    }

    proptest! {
        #[test]
        fn same_results_do_not_change_the_status(states in proptest::collection::vec((any::<bool>(), 0..4_u8), 0..6), generation in 1..5_i64) {
            let results: Vec<ManifestResult> = states.iter().zip(0..).map(|((applied, presence), n)| ManifestResult {
                applied: if *applied { Ok(()) } else { Err("no".into()) },
                presence: match presence {
                    0 => Presence::Present,
                    1 => Presence::Missing,
                    2 => Presence::Unreadable("no".into()),
                    _ => Presence::NotIdentified,
                },
                ..result(n, &n.to_string())
            }).collect();
            let status = WorkStatus::default().with_results(&results, generation, at(0));
            prop_assert_eq!(&status.with_results(&results, generation, at(60)), &status);
            // The same holds after the status was written and read again.
            let read = WorkStatus::parse(&serde_json::to_value(&status).unwrap());
            prop_assert_eq!(&read, &status);
            let (applied, available) = (status.conditions.get(&APPLIED).unwrap(), status.conditions.get(&AVAILABLE).unwrap());
            prop_assert!(applied.observed_generation >= available.observed_generation);
        }
    }
}
