//! What a cluster says of itself on the hub, and whether that is said already. Pure.

use bellwether_api::cluster::vocabulary::{AVAILABLE, JOINED};
use bellwether_api::cluster::{ClusterClaim, ManagedCluster, ManagedClusterStatus};
use bellwether_conditions::{Condition, ConditionSet, ConditionType, Desired, Reason, Status, TransitionKey};
use jiff::Timestamp;
use kube::Resource as _;
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::ClusterName;

/// The claim of which cluster it is.
const ID_CLAIM: &str = "id.k8s.io";
/// The claim of which Kubernetes runs there.
const VERSION_CLAIM: &str = "kubeversion.open-cluster-management.io";

/// What a cluster knows of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) cluster: ClusterName,
    /// The version of Kubernetes.
    pub(crate) version: String,
}

impl Facts {
    fn claims(&self) -> [ClusterClaim; 2] {
        let claim = |name: &str, value: &str| ClusterClaim { name: name.into(), value: value.into() };
        [claim(ID_CLAIM, self.cluster.as_str()), claim(VERSION_CLAIM, &self.version)]
    }
}

/// What is to be applied to the status of the ManagedCluster; nothing, where it says so already.
pub(crate) fn said(status: &Value, facts: &Facts, now: Timestamp) -> Option<Value> {
    let before = ManagedClusterStatus::deserialize(status).unwrap_or_default();
    let held = status.get("conditions").cloned().unwrap_or_default();
    let mut conditions: ConditionSet = serde_json::from_value(held).unwrap_or_default();
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
    let version = before.version.and_then(|version| version.kubernetes);
    changed |= version.as_deref() != Some(&facts.version);
    changed |= facts.claims().iter().any(|claim| !before.cluster_claims.contains(claim));
    let is_ours = |condition: &&Condition| ours.iter().any(|(type_, ..)| condition.type_.as_str() == *type_);
    changed.then(|| {
        json!({
            "apiVersion": ManagedCluster::api_version(&()),
            "kind": ManagedCluster::kind(&()),
            "metadata": {"name": facts.cluster.as_str()},
            "status": {
                "conditions": conditions.iter().filter(is_ours).collect::<Vec<_>>(),
                "version": {"kubernetes": facts.version},
                "clusterClaims": facts.claims(),
            },
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts { cluster: "spoke-1".parse().unwrap(), version: "v1.35.0".into() }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    #[test]
    fn what_is_said_is_not_said_again() {
        let first = said(&Value::Null, &facts(), at(0)).unwrap();
        let status = &first["status"];
        assert_eq!(status["conditions"].as_array().unwrap().len(), 2);
        assert_eq!(status["version"]["kubernetes"], "v1.35.0");
        assert_eq!(status["clusterClaims"][0], json!({"name": "id.k8s.io", "value": "spoke-1"}));
        assert_eq!(said(status, &facts(), at(60)), None);
    }

    #[test]
    fn only_what_is_our_own_is_said() {
        let status = json!({
            "conditions": [{"type": "HubAcceptedManagedCluster", "status": "True", "reason": "HubClusterAdminAccepted",
                "message": "", "lastTransitionTime": "2024-05-01T10:00:00Z"}],
            "clusterClaims": [{"name": "region", "value": "north"}],
        });
        let said = said(&status, &facts(), at(0)).unwrap();
        let types: Vec<&str> = said["status"]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|held| held["type"].as_str())
            .collect();
        assert_eq!(types, ["ManagedClusterJoined", "ManagedClusterConditionAvailable"]);
        assert_eq!(said["status"]["clusterClaims"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn a_cluster_that_was_out_of_reach_is_back_from_now_on() {
        let mut status = said(&Value::Null, &facts(), at(0)).unwrap()["status"].clone();
        status["conditions"][1]["status"] = json!("Unknown");
        status["conditions"][1]["reason"] = json!("ManagedClusterLeaseUpdateStopped");
        let back = said(&status, &facts(), at(60)).unwrap();
        let since = |place: usize| back["status"]["conditions"][place]["lastTransitionTime"].clone();
        assert_eq!((since(0), since(1)), (json!(at(0).to_string()), json!(at(60).to_string())));
        let upgraded = Facts { version: "v1.36.0".into(), ..facts() };
        let told = said(&status, &upgraded, at(60)).unwrap();
        assert_eq!(told["status"]["clusterClaims"][1]["value"], "v1.36.0");
    }
}
