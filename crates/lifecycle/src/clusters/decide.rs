//! What the hub says of a cluster, and which taints follow from that. Pure.
//!
//! `Available` is the agent's; the hub only says that the agent is not heard any more. It does not say when the cluster is
//! back: the agent does, and the taint goes with that.

use bellwether_api::cluster::vocabulary::{
    ACCEPTED, AVAILABLE, DELETING, FINALIZER, LEASE_GRACE, LEASE_STOPPED, NO_RESOURCE, RESOURCE_REMAINING,
    UNAVAILABLE_TAINT, UNREACHABLE_TAINT,
};
use bellwether_api::cluster::{ManagedCluster, Taint, TaintEffect};
use bellwether_api::work::vocabulary::FINALIZER as WORK_FINALIZER;
use bellwether_clock::whole_seconds;
use bellwether_conditions::{ConditionType, Desired, Reason, Status, TransitionKey};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt as _;

use bellwether_conditions::kubernetes::{find, upsert};

/// How long a lease lasts where the cluster does not say, in seconds.
const USUAL_LEASE: i32 = 60;

/// Whether a cluster is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// It is, and counts as such until then unless it is heard again.
    Heard {
        until: Timestamp,
    },
    Silent,
}

/// The namespace of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// It is there, or not wanted.
    Settled,
    /// It cannot be made, in the words of the API server.
    Refused(String),
}

/// What should stand in a cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) conditions: Vec<Condition>,
    pub(super) taints: Vec<Taint>,
    pub(super) finalizers: Vec<String>,
}

/// What is still in the namespace of a cluster that is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Remains {
    pub(super) addons: usize,
    pub(super) works: usize,
}

impl Remains {
    pub(super) fn is_nothing(self) -> bool {
        self.addons == 0 && self.works == 0
    }
}

/// How long the lease of a cluster lasts, in seconds.
pub(super) fn lease_seconds(cluster: &ManagedCluster) -> u32 {
    let asked = cluster.spec.lease_duration_seconds.filter(|seconds| *seconds > 0).unwrap_or(USUAL_LEASE);
    asked.unsigned_abs()
}

/// What the agent says, or the hub in its place.
pub(super) fn availability(conditions: &[Condition]) -> Option<Status> {
    find(conditions, AVAILABLE).map(|condition| Status::as_read(&condition.status))
}

pub(super) fn decide(cluster: &ManagedCluster, reach: Reach, home: &Home, now: Timestamp) -> Wanted {
    let mut conditions = cluster.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    let _ = upsert(&mut conditions, acceptance(cluster, home), TransitionKey::Status, now);
    if reach == Reach::Silent && availability(&conditions).is_some_and(|said| said != Status::Unknown) {
        let _ = upsert(&mut conditions, silence(cluster), TransitionKey::Status, now);
    }
    let taints = taints(&cluster.spec.taints, availability(&conditions), now);
    let mut finalizers = cluster.finalizers().to_vec();
    // From the moment that it may have something that has to go before it.
    if cluster.spec.hub_accepts_client && !finalizers.iter().any(|held| held == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
    }
    Wanted { conditions, taints, finalizers }
}

/// A cluster that is being deleted waits for all that belongs to it, and says so; in every other way it is what it was.
pub(super) fn farewell(cluster: &ManagedCluster, reach: Reach, remains: Remains, now: Timestamp) -> Wanted {
    let mut wanted = decide(cluster, reach, &Home::Settled, now);
    let away = availability(&wanted.conditions) != Some(Status::True);
    let _ = upsert(&mut wanted.conditions, departure(remains, away), TransitionKey::Status, now);
    wanted.finalizers = cluster.finalizers().to_vec();
    if remains.is_nothing() {
        wanted.finalizers.retain(|held| held != FINALIZER);
    }
    wanted
}

fn departure(remains: Remains, away: bool) -> Desired {
    const TYPE: ConditionType = ConditionType::constant(DELETING);
    if remains.is_nothing() {
        let message = "No add-on and no work of the cluster is left; its namespace stays.";
        return Desired::new(TYPE, Status::True, Reason::constant(NO_RESOURCE), message);
    }
    let count = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let parts = [(remains.addons, "add-on"), (remains.works, "work")];
    let parts = parts.iter().filter(|(number, _)| *number > 0).map(|(number, what)| count(*number, what));
    let mut message = format!("Still to be taken away: {}.", parts.collect::<Vec<_>>().join(" and "));
    if away {
        message.push_str(&format!(
            " The agent of the cluster has to do that, and is not heard. Whoever knows that the cluster will not come back \
             takes the finalizer {WORK_FINALIZER} off its works; what they brought then stays on the cluster."
        ));
    }
    Desired::new(TYPE, Status::False, Reason::constant(RESOURCE_REMAINING), message)
}

fn acceptance(cluster: &ManagedCluster, home: &Home) -> Desired {
    const TYPE: ConditionType = ConditionType::constant(ACCEPTED);
    match (cluster.spec.hub_accepts_client, home) {
        (false, _) => Desired::new(
            TYPE,
            Status::False,
            Reason::constant("HubClusterAdminDenied"),
            "The hub does not accept the cluster: .spec.hubAcceptsClient is not true.",
        ),
        (true, Home::Settled) => Desired::new(
            TYPE,
            Status::True,
            Reason::constant("HubClusterAdminAccepted"),
            "The hub accepts the cluster, which has its namespace.",
        ),
        (true, Home::Refused(words)) => Desired::new(
            TYPE,
            Status::False,
            Reason::constant("Error"),
            format!("The hub accepts the cluster, but its namespace cannot be made: {words}"),
        ),
    }
}

fn silence(cluster: &ManagedCluster) -> Desired {
    Desired::new(
        ConditionType::constant(AVAILABLE),
        Status::Unknown,
        Reason::constant(LEASE_STOPPED),
        format!(
            "The cluster is out of reach: its lease of {} s was not renewed for {LEASE_GRACE} times as long.",
            lease_seconds(cluster)
        ),
    )
}

/// One taint at most says how the cluster is; the others are somebody else's, and get at most the time at which they were
/// first seen, by which tolerations end.
fn taints(held: &[Taint], available: Option<Status>, now: Timestamp) -> Vec<Taint> {
    // One that is not known here could not be written back as it was.
    if held.iter().any(|taint| taint.effect == TaintEffect::Other) {
        return held.to_vec();
    }
    let now = Time(whole_seconds(now));
    let wanted = match available {
        Some(Status::True) => None,
        Some(Status::False) => Some(UNAVAILABLE_TAINT),
        Some(Status::Unknown) | None => Some(UNREACHABLE_TAINT),
    };
    let is_ours = |taint: &Taint| {
        taint.effect == TaintEffect::NoSelect && [UNAVAILABLE_TAINT, UNREACHABLE_TAINT].contains(&&*taint.key)
    };
    let kept = held.iter().filter(|taint| !is_ours(taint) || wanted == Some(taint.key.as_str()));
    let mut taints: Vec<Taint> = kept.cloned().collect();
    if let Some(key) = wanted
        && !taints.iter().any(is_ours)
    {
        taints.push(Taint { key: key.to_owned(), effect: TaintEffect::NoSelect, ..Taint::default() });
    }
    for taint in &mut taints {
        taint.time_added.get_or_insert_with(|| now.clone());
    }
    taints
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn cluster(spec: Value, available: Option<&str>) -> ManagedCluster {
        let conditions: Vec<Value> = available
            .into_iter()
            .map(|status| {
                json!({"type": AVAILABLE, "status": status, "reason": "AsTheAgentSays", "message": "",
                    "lastTransitionTime": "1970-01-01T00:00:10Z"})
            })
            .collect();
        serde_json::from_value(json!({"metadata": {}, "spec": spec, "status": {"conditions": conditions}}))
            .unwrap()
    }

    const HEARD: Reach = Reach::Heard { until: Timestamp::MAX };

    #[test]
    fn a_cluster_is_accepted_when_it_has_its_namespace() {
        let rows = [
            ("not asked yet", json!({}), Home::Settled, "False", "HubClusterAdminDenied"),
            ("accepted", json!({"hubAcceptsClient": true}), Home::Settled, "True", "HubClusterAdminAccepted"),
            ("nowhere", json!({"hubAcceptsClient": true}), Home::Refused("no".into()), "False", "Error"),
        ];
        for (sentence, spec, home, status, reason) in rows {
            let wanted = decide(&cluster(spec, None), HEARD, &home, at(100));
            let said = find(&wanted.conditions, ACCEPTED).unwrap();
            assert_eq!((said.status.as_str(), said.reason.as_str()), (status, reason), "{sentence}");
        }
    }

    #[test]
    fn the_hub_speaks_of_reach_only_when_the_agent_is_silent() {
        let rows = [
            ("heard and well", Some("True"), HEARD, Some("AsTheAgentSays")),
            ("heard and unwell", Some("False"), HEARD, Some("AsTheAgentSays")),
            ("silent", Some("True"), Reach::Silent, Some(LEASE_STOPPED)),
            ("silent and unwell", Some("False"), Reach::Silent, Some(LEASE_STOPPED)),
            ("silent, and said so", Some("Unknown"), Reach::Silent, Some("AsTheAgentSays")),
            ("never joined", None, Reach::Silent, None),
        ];
        for (sentence, available, reach, reason) in rows {
            let wanted = decide(&cluster(json!({}), available), reach, &Home::Settled, at(100));
            let said = find(&wanted.conditions, AVAILABLE).map(|condition| condition.reason.as_str());
            assert_eq!(said, reason, "{sentence}");
        }
    }

    #[test]
    fn a_cluster_that_may_have_add_ons_waits_for_them_at_its_end() {
        let finalizers =
            |spec: Value| decide(&cluster(spec, None), HEARD, &Home::Settled, at(100)).finalizers;
        assert_eq!(finalizers(json!({"hubAcceptsClient": false})), [""; 0]);
        assert_eq!(finalizers(json!({"hubAcceptsClient": true})), [FINALIZER]);
        let mut leaving = cluster(json!({"hubAcceptsClient": true}), Some("True"));
        leaving.metadata.finalizers = Some(vec!["theirs".into(), FINALIZER.into()]);
        let away = "The agent of the cluster has to do that, and is not heard.";
        let rows = [
            ((2, 3), "True", "False/ResourceRemaining: Still to be taken away: 2 add-ons and 3 works.", ""),
            ((0, 1), "True", "False/ResourceRemaining: Still to be taken away: 1 work.", ""),
            ((1, 0), "Unknown", "False/ResourceRemaining: Still to be taken away: 1 add-on.", away),
            (
                (0, 0),
                "Unknown",
                "True/NoResource: No add-on and no work of the cluster is left; its namespace stays.",
                "",
            ),
        ];
        for ((addons, works), available, wanted, more) in rows {
            leaving.status = cluster(json!({}), Some(available)).status;
            let decided = farewell(&leaving, HEARD, Remains { addons, works }, at(100));
            let said = find(&decided.conditions, DELETING).unwrap();
            let words = format!("{}/{}: {}", said.status, said.reason, said.message);
            assert!(words.starts_with(wanted) && words.contains(more), "{words}");
            assert_eq!(words.len() > wanted.len(), !more.is_empty(), "{words}");
            let held: &[&str] = if addons + works == 0 { &["theirs"] } else { &["theirs", FINALIZER] };
            assert_eq!(decided.finalizers, held, "{words}");
        }
    }

    #[test]
    fn taints_follow_what_is_said_and_those_of_others_stay() {
        let ours = |key: &str, second: i64| json!({"key": key, "effect": "NoSelect", "timeAdded": at(second).to_string()});
        let others =
            json!({"key": "gpu", "value": "x", "effect": "NoSelectIfNew", "timeAdded": at(3).to_string()});
        let alike =
            json!({"key": UNREACHABLE_TAINT, "effect": "NoSelectIfNew", "timeAdded": at(3).to_string()});
        let undated = json!({"key": "gpu", "effect": "NoSelect"});
        let dated = json!({"key": "gpu", "effect": "NoSelect", "timeAdded": at(100).to_string()});
        let (gone, lost) = (UNAVAILABLE_TAINT, UNREACHABLE_TAINT);
        let rows = [
            ("well", "True", json!([]), json!([])),
            ("well again", "True", json!([others, ours(lost, 50)]), json!([others])),
            ("unwell", "False", json!([]), json!([ours(gone, 100)])),
            ("still unwell", "False", json!([ours(gone, 50)]), json!([ours(gone, 50)])),
            ("lost", "Unknown", json!([]), json!([ours(lost, 100)])),
            (
                "lost after unwell",
                "Unknown",
                json!([ours(gone, 50), others]),
                json!([others, ours(lost, 100)]),
            ),
            ("never joined", "", json!([]), json!([ours(lost, 100)])),
            ("one that only looks like ours", "True", json!([alike]), json!([alike])),
            ("one without a time gets it", "True", json!([undated]), json!([dated])),
        ];
        for (sentence, available, held, wanted) in rows {
            let available = Some(available).filter(|available| !available.is_empty());
            let decided =
                decide(&cluster(json!({"taints": held}), available), HEARD, &Home::Settled, at(100));
            let wanted: Vec<Taint> = serde_json::from_value(wanted).unwrap();
            assert_eq!(decided.taints, wanted, "{sentence}");
            let again = decide(
                &cluster(json!({"taints": decided.taints}), available),
                HEARD,
                &Home::Settled,
                at(200),
            );
            assert_eq!(again.taints, wanted, "{sentence}: and it stays so");
        }
    }
}
