//! What add-ons do on the wire, on our server and on real Kubernetes: the client library, and the requests of Go
//! clients byte for byte.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

mod bytes;
mod instance;
mod line;
mod reporter;

use std::sync::Arc;

use bellwether_conditions::{Desired, Reason, Status};
use bellwether_heartbeat::client::Instance;
use bellwether_heartbeat::vocabulary::instance::HEALTHY;
use bellwether_testkit::{Cluster, SteadyClock};
use serde_json::{Value, json};

const GROUP: &str = "/apis/addons.managed.openshift.io/v1alpha1";

/// Runs cases on our server, in process and on paused time, and with the feature also on real Kubernetes.
macro_rules! on_every_cluster {
    ($($case:ident),* $(,)?) => {
        mod ours {
            $(#[test]
            fn $case() {
                bellwether_testkit::on_paused_time(async {
                    let cluster = bellwether_testkit::embedded::in_process().await;
                    super::$case(crate::Place::in_cluster(cluster).await).await;
                });
            })*
        }
        #[cfg(feature = "real-kubernetes")]
        mod real {
            $(#[test]
            fn $case() {
                bellwether_testkit::on_real_time(async {
                    let cluster = bellwether_testkit::real::cluster("heartbeat").await;
                    super::$case(crate::Place::in_cluster(cluster).await).await;
                });
            })*
        }
    };
}
pub(crate) use on_every_cluster;

/// Runs cases on our server only, in process and on paused time.
macro_rules! on_paused_cluster {
    ($($case:ident),* $(,)?) => {
        mod ours {
            $(#[test]
            fn $case() {
                bellwether_testkit::on_paused_time(async {
                    let cluster = bellwether_testkit::embedded::in_process().await;
                    super::$case(crate::Place::in_cluster(cluster).await).await;
                });
            })*
        }
    };
}
pub(crate) use on_paused_cluster;
/// A namespace of its own, in which a case may have one instance.
struct Place {
    cluster: Cluster,
    namespace: String,
}

impl Place {
    async fn in_cluster(cluster: Cluster) -> Self {
        let definitions = bellwether_api::crds().into_iter();
        cluster.install_definitions(definitions.map(|definition| json!(definition.crd))).await;
        let namespace = cluster.namespace().await;
        Self { cluster, namespace }
    }

    fn collection(&self) -> String {
        format!("{GROUP}/namespaces/{}/addoninstances", self.namespace)
    }

    fn path(&self) -> String {
        format!("{}/addon-instance", self.collection())
    }

    fn status_path(&self) -> String {
        format!("{}/status", self.path())
    }

    /// Makes the instance with this period.
    async fn install(&self, period: Value) -> Value {
        let spec = if period.is_null() { json!({}) } else { json!({"heartbeatUpdatePeriod": period}) };
        let body = json!({
            "apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "AddonInstance",
            "metadata": {"name": "addon-instance"}, "spec": spec,
        });
        self.cluster.post(self.collection(), &body).await.expect(201)
    }

    async fn stored(&self) -> Value {
        self.cluster.get(self.path()).await.expect(200)
    }

    async fn patch(&self, spec: Value) {
        self.cluster.merge(self.path(), &json!({"spec": spec})).await.expect(200);
    }

    async fn patch_status(&self, status: Value) {
        self.cluster.merge(self.status_path(), &json!({"status": status})).await.expect(200);
    }

    /// The client of the instance, stamping by the clock that the test goes by.
    fn instance(&self) -> Instance {
        self.instance_over(self.cluster.client())
    }

    fn instance_over(&self, client: kube::Client) -> Instance {
        Instance::in_namespace(client, &self.namespace).clock(Arc::new(SteadyClock::default()))
    }
}

fn up() -> Desired {
    Desired::new(HEALTHY, Status::True, Reason::constant("ComponentsUp"), "Reference Addon is operational.")
}

fn down() -> Desired {
    Desired::new(HEALTHY, Status::False, Reason::constant("ComponentDown"), "Component X is non-operational!")
}

/// The condition of a type, or null.
fn condition(stored: &Value, type_: &str) -> Value {
    let conditions = stored["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default()
}

fn health(stored: &Value) -> Value {
    condition(stored, HEALTHY.as_str())
}
