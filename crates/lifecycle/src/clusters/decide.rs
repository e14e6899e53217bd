//! Decides the conditions, taints and finalizers of a ManagedCluster. Pure; writing them is left to `controller`.
//!
//! The agent owns the condition Available; the hub only sets it to Unknown when the Lease expires. When the cluster is back,
//! the agent sets it again, and then the hub removes the taint.

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

/// The lease duration in seconds if the cluster does not set one.
const DEFAULT_LEASE_SECONDS: i32 = 60;

/// Whether the agent of a cluster renews its Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The Lease is current, and expires at `until` unless it is renewed.
    Reachable { until: Timestamp },
    /// The Lease has expired.
    Unreachable,
}

/// The state of the namespace of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NamespaceState {
    /// It exists, or the cluster needs none.
    Ready,
    /// The API server rejected it, with this message.
    Rejected(String),
}

/// The desired conditions, taints and finalizers of a ManagedCluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DesiredCluster {
    pub(super) conditions: Vec<Condition>,
    pub(super) taints: Vec<Taint>,
    pub(super) finalizers: Vec<String>,
}

/// The number of objects that remain in the namespace of a cluster that is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RemainingObjects {
    pub(super) addons: usize,
    pub(super) works: usize,
}

impl RemainingObjects {
    pub(super) fn is_empty(self) -> bool {
        self.addons == 0 && self.works == 0
    }
}

/// The lease duration of a cluster in seconds.
pub(super) fn lease_seconds(cluster: &ManagedCluster) -> u32 {
    let seconds =
        cluster.spec.lease_duration_seconds.filter(|seconds| *seconds > 0).unwrap_or(DEFAULT_LEASE_SECONDS);
    seconds.unsigned_abs()
}

/// The status of the condition Available.
pub(super) fn availability(conditions: &[Condition]) -> Option<Status> {
    find(conditions, AVAILABLE).map(|condition| Status::as_read(&condition.status))
}

/// Decides for a cluster that is not being deleted.
pub(super) fn decide(
    cluster: &ManagedCluster,
    reach: Reach,
    namespace: &NamespaceState,
    now: Timestamp,
) -> DesiredCluster {
    let mut conditions = cluster.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    let _ = upsert(&mut conditions, accepted_condition(cluster, namespace), TransitionKey::Status, now);
    if reach == Reach::Unreachable
        && availability(&conditions).is_some_and(|status| status != Status::Unknown)
    {
        let _ = upsert(&mut conditions, unreachable_condition(cluster), TransitionKey::Status, now);
    }
    let taints = taints(&cluster.spec.taints, availability(&conditions), now);
    let mut finalizers = cluster.finalizers().to_vec();
    // From acceptance on, the cluster may have add-ons and ManifestWorks that must be deleted before it.
    if cluster.spec.hub_accepts_client && !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
    }
    DesiredCluster { conditions, taints, finalizers }
}

/// Decides for a cluster that is being deleted: it keeps its finalizer and reports what remains until its add-ons and
/// ManifestWorks are deleted.
pub(super) fn decide_deletion(
    cluster: &ManagedCluster,
    reach: Reach,
    remaining: RemainingObjects,
    now: Timestamp,
) -> DesiredCluster {
    let mut desired = decide(cluster, reach, &NamespaceState::Ready, now);
    let is_unreachable = availability(&desired.conditions) != Some(Status::True);
    let _ = upsert(
        &mut desired.conditions,
        deleting_condition(remaining, is_unreachable),
        TransitionKey::Status,
        now,
    );
    desired.finalizers = cluster.finalizers().to_vec();
    if remaining.is_empty() {
        desired.finalizers.retain(|finalizer| finalizer != FINALIZER);
    }
    desired
}

fn deleting_condition(remaining: RemainingObjects, is_unreachable: bool) -> Desired {
    const TYPE: ConditionType = ConditionType::constant(DELETING);
    if remaining.is_empty() {
        let message = "All add-ons and ManifestWorks of the cluster are deleted; its namespace stays.";
        return Desired::new(TYPE, Status::True, Reason::constant(NO_RESOURCE), message);
    }
    let count = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let parts = [(remaining.addons, "add-on"), (remaining.works, "ManifestWork")];
    let parts = parts.iter().filter(|(number, _)| *number > 0).map(|(number, what)| count(*number, what));
    let mut message = format!("Still to be deleted: {}.", parts.collect::<Vec<_>>().join(" and "));
    if is_unreachable {
        message.push_str(&format!(
            " The agent of the cluster must do that, and is unreachable. If the cluster will not come back, remove the \
             finalizer {WORK_FINALIZER} from its ManifestWorks; the objects that they applied then stay on the cluster."
        ));
    }
    Desired::new(TYPE, Status::False, Reason::constant(RESOURCE_REMAINING), message)
}

fn accepted_condition(cluster: &ManagedCluster, namespace: &NamespaceState) -> Desired {
    const TYPE: ConditionType = ConditionType::constant(ACCEPTED);
    match (cluster.spec.hub_accepts_client, namespace) {
        (false, _) => Desired::new(
            TYPE,
            Status::False,
            Reason::constant("HubClusterAdminDenied"),
            "The hub does not accept the cluster: .spec.hubAcceptsClient is not true.",
        ),
        (true, NamespaceState::Ready) => Desired::new(
            TYPE,
            Status::True,
            Reason::constant("HubClusterAdminAccepted"),
            "The hub accepts the cluster, and its namespace exists.",
        ),
        (true, NamespaceState::Rejected(message)) => Desired::new(
            TYPE,
            Status::False,
            Reason::constant("Error"),
            format!("The hub accepts the cluster, but its namespace cannot be created: {message}"),
        ),
    }
}

fn unreachable_condition(cluster: &ManagedCluster) -> Desired {
    Desired::new(
        ConditionType::constant(AVAILABLE),
        Status::Unknown,
        Reason::constant(LEASE_STOPPED),
        format!(
            "The cluster is unreachable: its Lease of {} s was not renewed for {LEASE_GRACE} lease durations.",
            lease_seconds(cluster)
        ),
    )
}

/// Sets at most one taint for availability and removes the other. Taints of users stay; if one has no `timeAdded`, it gets the
/// current time, because `tolerationSeconds` counts from it.
fn taints(held: &[Taint], available: Option<Status>, now: Timestamp) -> Vec<Taint> {
    // A taint with an unknown effect could not be written back unchanged.
    if held.iter().any(|taint| taint.effect == TaintEffect::Other) {
        return held.to_vec();
    }
    let now = Time(whole_seconds(now));
    let desired = match available {
        Some(Status::True) => None,
        Some(Status::False) => Some(UNAVAILABLE_TAINT),
        Some(Status::Unknown) | None => Some(UNREACHABLE_TAINT),
    };
    let is_managed = |taint: &Taint| {
        taint.effect == TaintEffect::NoSelect && [UNAVAILABLE_TAINT, UNREACHABLE_TAINT].contains(&&*taint.key)
    };
    let kept = held.iter().filter(|taint| !is_managed(taint) || desired == Some(taint.key.as_str()));
    let mut taints: Vec<Taint> = kept.cloned().collect();
    if let Some(key) = desired
        && !taints.iter().any(is_managed)
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
                json!({"type": AVAILABLE, "status": status, "reason": "ReportedByAgent", "message": "",
                    "lastTransitionTime": "1970-01-01T00:00:10Z"})
            })
            .collect();
        serde_json::from_value(json!({"metadata": {}, "spec": spec, "status": {"conditions": conditions}}))
            .unwrap()
    }

    const REACHABLE: Reach = Reach::Reachable { until: Timestamp::MAX };

    #[test]
    fn cluster_is_accepted_when_its_namespace_exists() {
        let rows = [
            ("not accepted", json!({}), NamespaceState::Ready, "False", "HubClusterAdminDenied"),
            (
                "accepted",
                json!({"hubAcceptsClient": true}),
                NamespaceState::Ready,
                "True",
                "HubClusterAdminAccepted",
            ),
            (
                "namespace rejected",
                json!({"hubAcceptsClient": true}),
                NamespaceState::Rejected("no".into()),
                "False",
                "Error",
            ),
        ];
        for (case, spec, home, status, reason) in rows {
            let desired = decide(&cluster(spec, None), REACHABLE, &home, at(100));
            let accepted = find(&desired.conditions, ACCEPTED).unwrap();
            assert_eq!((accepted.status.as_str(), accepted.reason.as_str()), (status, reason), "{case}");
        }
    }

    #[test]
    fn hub_sets_available_only_when_lease_expired() {
        let rows = [
            ("reachable and healthy", Some("True"), REACHABLE, Some("ReportedByAgent")),
            ("reachable and unhealthy", Some("False"), REACHABLE, Some("ReportedByAgent")),
            ("unreachable", Some("True"), Reach::Unreachable, Some(LEASE_STOPPED)),
            ("unreachable and unhealthy", Some("False"), Reach::Unreachable, Some(LEASE_STOPPED)),
            ("unreachable, already reported", Some("Unknown"), Reach::Unreachable, Some("ReportedByAgent")),
            ("never joined", None, Reach::Unreachable, None),
        ];
        for (case, available, reach, reason) in rows {
            let desired = decide(&cluster(json!({}), available), reach, &NamespaceState::Ready, at(100));
            let found = find(&desired.conditions, AVAILABLE).map(|condition| condition.reason.as_str());
            assert_eq!(found, reason, "{case}");
        }
    }

    #[test]
    fn deletion_of_accepted_cluster_waits_for_addons_and_works() {
        let finalizers =
            |spec: Value| decide(&cluster(spec, None), REACHABLE, &NamespaceState::Ready, at(100)).finalizers;
        assert_eq!(finalizers(json!({"hubAcceptsClient": false})), [""; 0]);
        assert_eq!(finalizers(json!({"hubAcceptsClient": true})), [FINALIZER]);
        let mut deleted = cluster(json!({"hubAcceptsClient": true}), Some("True"));
        deleted.metadata.finalizers = Some(vec!["theirs".into(), FINALIZER.into()]);
        let unreachable = "The agent of the cluster must do that, and is unreachable.";
        let rows = [
            (
                (2, 3),
                "True",
                "False/ResourceRemaining: Still to be deleted: 2 add-ons and 3 ManifestWorks.",
                "",
            ),
            ((0, 1), "True", "False/ResourceRemaining: Still to be deleted: 1 ManifestWork.", ""),
            ((1, 0), "Unknown", "False/ResourceRemaining: Still to be deleted: 1 add-on.", unreachable),
            (
                (0, 0),
                "Unknown",
                "True/NoResource: All add-ons and ManifestWorks of the cluster are deleted; its namespace stays.",
                "",
            ),
        ];
        for ((addons, works), available, expected, more) in rows {
            deleted.status = cluster(json!({}), Some(available)).status;
            let decided = decide_deletion(&deleted, REACHABLE, RemainingObjects { addons, works }, at(100));
            let deleting = find(&decided.conditions, DELETING).unwrap();
            let text = format!("{}/{}: {}", deleting.status, deleting.reason, deleting.message);
            assert!(text.starts_with(expected) && text.contains(more), "{text}");
            assert_eq!(text.len() > expected.len(), !more.is_empty(), "{text}");
            let finalizers: &[&str] = if addons + works == 0 { &["theirs"] } else { &["theirs", FINALIZER] };
            assert_eq!(decided.finalizers, finalizers, "{text}");
        }
    }

    #[test]
    fn taints_follow_availability_and_taints_of_users_stay() {
        let managed = |key: &str, second: i64| json!({"key": key, "effect": "NoSelect", "timeAdded": at(second).to_string()});
        let others =
            json!({"key": "gpu", "value": "x", "effect": "NoSelectIfNew", "timeAdded": at(3).to_string()});
        let alike =
            json!({"key": UNREACHABLE_TAINT, "effect": "NoSelectIfNew", "timeAdded": at(3).to_string()});
        let undated = json!({"key": "gpu", "effect": "NoSelect"});
        let dated = json!({"key": "gpu", "effect": "NoSelect", "timeAdded": at(100).to_string()});
        let (unavailable, unreachable) = (UNAVAILABLE_TAINT, UNREACHABLE_TAINT);
        let rows = [
            ("available", "True", json!([]), json!([])),
            ("available again", "True", json!([others, managed(unreachable, 50)]), json!([others])),
            ("unavailable", "False", json!([]), json!([managed(unavailable, 100)])),
            (
                "still unavailable",
                "False",
                json!([managed(unavailable, 50)]),
                json!([managed(unavailable, 50)]),
            ),
            ("unreachable", "Unknown", json!([]), json!([managed(unreachable, 100)])),
            (
                "unreachable after unavailable",
                "Unknown",
                json!([managed(unavailable, 50), others]),
                json!([others, managed(unreachable, 100)]),
            ),
            ("never joined", "", json!([]), json!([managed(unreachable, 100)])),
            ("same key with another effect", "True", json!([alike]), json!([alike])),
            ("taint without timeAdded gets it", "True", json!([undated]), json!([dated])),
        ];
        for (case, available, current, expected) in rows {
            let available = Some(available).filter(|available| !available.is_empty());
            let decided = decide(
                &cluster(json!({"taints": current}), available),
                REACHABLE,
                &NamespaceState::Ready,
                at(100),
            );
            let expected: Vec<Taint> = serde_json::from_value(expected).unwrap();
            assert_eq!(decided.taints, expected, "{case}");
            let again = decide(
                &cluster(json!({"taints": decided.taints}), available),
                REACHABLE,
                &NamespaceState::Ready,
                at(200),
            );
            assert_eq!(again.taints, expected, "{case}: a second decision changes nothing");
        }
    }
}
