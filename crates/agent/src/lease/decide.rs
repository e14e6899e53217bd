//! Computes the status that the agent reports for its ManagedCluster: conditions, version and claims. Pure.

use bellwether_api::cluster::vocabulary::{AVAILABLE, JOINED};
use bellwether_api::cluster::{ClusterClaim, ManagedCluster, ManagedClusterStatus};
use bellwether_conditions::{Condition, ConditionType, Desired, Reason, Status, TransitionKey, kubernetes};
use jiff::Timestamp;
use kube::Resource as _;
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::ClusterName;

/// The claim with the name of the cluster.
const ID_CLAIM: &str = "id.k8s.io";
/// The claim with the Kubernetes version.
const VERSION_CLAIM: &str = "kubeversion.open-cluster-management.io";

/// What the agent reports about its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterInfo {
    pub(crate) cluster: ClusterName,
    /// The Kubernetes version.
    pub(crate) version: String,
}

impl ClusterInfo {
    fn claims(&self) -> [ClusterClaim; 2] {
        let claim = |name: &str, value: &str| ClusterClaim { name: name.into(), value: value.into() };
        [claim(ID_CLAIM, self.cluster.as_str()), claim(VERSION_CLAIM, &self.version)]
    }
}

/// The object to apply to the status of the ManagedCluster; nothing if its status is current.
pub(crate) fn status_to_apply(status: &Value, info: &ClusterInfo, now: Timestamp) -> Option<Value> {
    let current = ManagedClusterStatus::deserialize(status).unwrap_or_default();
    let mut conditions = kubernetes::parse_list(status.get("conditions"));
    let ours = [
        (JOINED, "ManagedClusterJoined", "Managed cluster joined"),
        (AVAILABLE, "ManagedClusterAvailable", "Managed cluster is available"),
    ];
    let mut changed = false;
    for (type_, reason, message) in ours {
        let desired =
            Desired::new(ConditionType::constant(type_), Status::True, Reason::constant(reason), message);
        changed |= conditions.upsert(desired, TransitionKey::Status, now).changed();
    }
    let version = current.version.and_then(|version| version.kubernetes);
    changed |= version.as_deref() != Some(&info.version);
    changed |= info.claims().iter().any(|claim| !current.cluster_claims.contains(claim));
    let is_ours = |condition: &&Condition| ours.iter().any(|(type_, ..)| condition.type_.as_str() == *type_);
    changed.then(|| {
        json!({
            "apiVersion": ManagedCluster::api_version(&()),
            "kind": ManagedCluster::kind(&()),
            "metadata": {"name": info.cluster.as_str()},
            "status": {
                "conditions": conditions.iter().filter(is_ours).collect::<Vec<_>>(),
                "version": {"kubernetes": info.version},
                "clusterClaims": info.claims(),
            },
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> ClusterInfo {
        ClusterInfo { cluster: "spoke-1".parse().unwrap(), version: "v1.35.0".into() }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    #[test]
    fn current_status_is_not_applied_again() {
        let first = status_to_apply(&Value::Null, &info(), at(0)).unwrap();
        let status = &first["status"];
        assert_eq!(status["conditions"].as_array().unwrap().len(), 2);
        assert_eq!(status["version"]["kubernetes"], "v1.35.0");
        assert_eq!(status["clusterClaims"][0], json!({"name": "id.k8s.io", "value": "spoke-1"}));
        assert_eq!(status_to_apply(status, &info(), at(60)), None);
    }

    #[test]
    fn conditions_and_claims_of_others_are_not_applied() {
        let status = json!({
            "conditions": [{"type": "HubAcceptedManagedCluster", "status": "True", "reason": "HubClusterAdminAccepted",
                "message": "", "lastTransitionTime": "2024-05-01T10:00:00Z"}],
            "clusterClaims": [{"name": "region", "value": "north"}],
        });
        let applied = status_to_apply(&status, &info(), at(0)).unwrap();
        let types: Vec<&str> = applied["status"]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|held| held["type"].as_str())
            .collect();
        assert_eq!(types, ["ManagedClusterJoined", "ManagedClusterConditionAvailable"]);
        assert_eq!(applied["status"]["clusterClaims"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn cluster_that_was_unreachable_becomes_available_with_a_new_transition_time() {
        let mut status = status_to_apply(&Value::Null, &info(), at(0)).unwrap()["status"].clone();
        status["conditions"][1]["status"] = json!("Unknown");
        status["conditions"][1]["reason"] = json!("ManagedClusterLeaseUpdateStopped");
        let applied = status_to_apply(&status, &info(), at(60)).unwrap();
        let since = |index: usize| applied["status"]["conditions"][index]["lastTransitionTime"].clone();
        assert_eq!((since(0), since(1)), (json!(at(0).to_string()), json!(at(60).to_string())));
        let upgraded = ClusterInfo { version: "v1.36.0".into(), ..info() };
        let applied = status_to_apply(&status, &upgraded, at(60)).unwrap();
        assert_eq!(applied["status"]["clusterClaims"][1]["value"], "v1.36.0");
    }
}
