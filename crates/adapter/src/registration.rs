//! Registers the clusters that have joined the hub: every ManagedCluster that the hub accepts has a Cluster of its name in the fleet
//! API. It only creates: a cluster that leaves the hub stays in the fleet API until a user deletes it.

use std::sync::Arc;
use std::time::Duration;

use bellwether_api::cluster::ManagedCluster;
use bellwether_fleet::client::{Client, ClientError, ListOf};
use bellwether_fleet::resource::Resource;
use bellwether_runtime::{Context, IndexOf, Next, ReconcileError, Reconciler, Watches};
use http::Method;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

/// The identity of the controller on the hub.
pub const IDENTITY: &str = "fleet-registration";
/// The label of clusters that were registered from a ManagedCluster.
pub const LABEL: &str = "bellwether.io/managed-cluster";
/// How long to wait before the next check, while the old Cluster of the name is being deleted.
const DELETION_CHECK_PERIOD: Duration = Duration::from_secs(10);

/// Why a cluster was not registered.
#[derive(Debug, thiserror::Error)]
#[error("cannot register the cluster {cluster} in the fleet API: {cause}")]
pub struct RegistrationError {
    cluster: String,
    cause: ClientError,
}

impl ReconcileError for RegistrationError {
    fn label(&self) -> &'static str {
        "fleet-api"
    }
}

/// What to do for a ManagedCluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Register,
    /// A Cluster of the name is being deleted.
    Wait,
    Nothing,
}

/// Decides by the ManagedCluster and the Clusters of its name.
fn decide(managed: &ManagedCluster, clusters: &[Resource]) -> Decision {
    let joined = managed.spec.hub_accepts_client && managed.metadata.deletion_timestamp.is_none();
    if !joined || clusters.iter().any(|cluster| !cluster.is_deleting()) {
        Decision::Nothing
    } else if clusters.is_empty() {
        Decision::Register
    } else {
        Decision::Wait
    }
}

/// The controller.
#[derive(Clone)]
pub struct Registration {
    fleet: Client,
}

impl Registration {
    /// Registers the clusters of the hub of a context, until shutdown is requested.
    pub async fn run(fleet: Client, context: Context) {
        bellwether_runtime::run(Self { fleet }, context).await;
    }

    async fn find(&self, name: &str) -> Result<Vec<Resource>, ClientError> {
        let search = utf8_percent_encode(&format!("name = '{name}'"), NON_ALPHANUMERIC).to_string();
        let found: ListOf<Resource> =
            self.fleet.call(Method::GET, &format!("/clusters?search={search}"), None).await?;
        Ok(found.items)
    }

    async fn register(&self, name: &str) -> Result<(), ClientError> {
        let body = json!({"kind": "Cluster", "name": name, "spec": {}, "labels": {LABEL: "true"}});
        match self.fleet.call_raw(Method::POST, "/clusters", Some(&body)).await {
            Ok(_) => tracing::info!(cluster = name, "registered a joined cluster in the fleet API"),
            // Someone else was faster.
            Err(error) if error.status().is_some_and(|status| status == 409) => (),
            // The fleet API has stricter rules for names than Kubernetes. A retry would not help.
            Err(error) if error.status().is_some_and(|status| status == 400) => {
                tracing::warn!(cluster = name, %error, "the fleet API rejects a joined cluster");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl Reconciler for Registration {
    type Object = ManagedCluster;
    type Related = ();
    type Error = RegistrationError;
    const NAME: &'static str = IDENTITY;

    fn watch(&self, watches: Watches<IndexOf<Self>>) -> Watches<IndexOf<Self>> {
        watches
    }

    async fn reconcile(
        &self,
        managed: Arc<ManagedCluster>,
        _: &Mutex<IndexOf<Self>>,
    ) -> Result<Next, RegistrationError> {
        let name = managed.name_any();
        let failed = |cause| RegistrationError { cluster: name.clone(), cause };
        match decide(&managed, &self.find(&name).await.map_err(failed)?) {
            Decision::Nothing => Ok(Next::OnChange),
            Decision::Wait => Ok(Next::After(DELETION_CHECK_PERIOD)),
            Decision::Register => self.register(&name).await.map(|()| Next::OnChange).map_err(failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn cluster(deleting: bool) -> Resource {
        let mut cluster = json!({
            "id": "0190c0de-0000-7000-8000-000000000000", "kind": "Cluster", "name": "abc", "href": "/a", "spec": {},
            "generation": 1, "created_time": "2026-05-01T00:00:00Z", "created_by": "a",
            "updated_time": "2026-05-01T00:00:00Z", "updated_by": "a",
        });
        if deleting {
            cluster["deleted_time"] = json!("2026-05-01T00:00:00Z");
            cluster["deleted_by"] = json!("a");
        }
        serde_json::from_value(cluster).unwrap()
    }

    #[rstest]
    #[case::joined(json!({"spec": {"hubAcceptsClient": true}}), &[], Decision::Register)]
    #[case::not_accepted(json!({"spec": {"hubAcceptsClient": false}}), &[], Decision::Nothing)]
    #[case::leaving(
        json!({"metadata": {"deletionTimestamp": "2026-05-01T00:00:00Z"}, "spec": {"hubAcceptsClient": true}}),
        &[],
        Decision::Nothing
    )]
    #[case::registered(json!({"spec": {"hubAcceptsClient": true}}), &[false], Decision::Nothing)]
    #[case::being_deleted(json!({"spec": {"hubAcceptsClient": true}}), &[true], Decision::Wait)]
    #[case::created_again(json!({"spec": {"hubAcceptsClient": true}}), &[true, false], Decision::Nothing)]
    fn joined_cluster_is_registered_once(
        #[case] managed: serde_json::Value,
        #[case] clusters: &[bool],
        #[case] expected: Decision,
    ) {
        let mut managed = managed;
        managed["apiVersion"] = json!("cluster.open-cluster-management.io/v1");
        managed["kind"] = json!("ManagedCluster");
        if managed.get("metadata").is_none() {
            managed["metadata"] = json!({});
        }
        let managed: ManagedCluster = serde_json::from_value(managed).unwrap();
        let clusters: Vec<Resource> = clusters.iter().map(|deleting| cluster(*deleting)).collect();
        assert_eq!(decide(&managed, &clusters), expected);
    }
}
