//! Tests of the client library, and of the requests of Go clients byte for byte: on the embedded API server, and with the
//! feature `real-kubernetes` also on real Kubernetes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed test panics"
)]

mod faulty_connection;
mod instance;
mod reporter;
mod wire;

use std::sync::Arc;

use bellwether_conditions::{Desired, Reason, Status};
use bellwether_heartbeat::client::Instance;
use bellwether_heartbeat::vocabulary::instance::HEALTHY;
use bellwether_testkit::{Cluster, SteadyClock};
use serde_json::{Value, json};

const GROUP: &str = "/apis/addons.managed.openshift.io/v1alpha1";

/// Runs cases on the embedded API server with paused time, and with the feature `real-kubernetes` also on real Kubernetes.
macro_rules! on_every_cluster {
    ($($case:ident),* $(,)?) => {
        mod embedded {
            $(#[test]
            fn $case() {
                bellwether_testkit::on_paused_time(async {
                    let cluster = bellwether_testkit::embedded::in_process().await;
                    super::$case(crate::Fixture::in_cluster(cluster).await).await;
                });
            })*
        }
        #[cfg(feature = "real-kubernetes")]
        mod real {
            $(#[test]
            fn $case() {
                bellwether_testkit::on_real_time(async {
                    let cluster = bellwether_testkit::real::cluster("heartbeat").await;
                    super::$case(crate::Fixture::in_cluster(cluster).await).await;
                });
            })*
        }
    };
}
pub(crate) use on_every_cluster;

/// Runs cases only on the embedded API server, with paused time.
macro_rules! on_paused_cluster {
    ($($case:ident),* $(,)?) => {
        mod embedded {
            $(#[test]
            fn $case() {
                bellwether_testkit::on_paused_time(async {
                    let cluster = bellwether_testkit::embedded::in_process().await;
                    super::$case(crate::Fixture::in_cluster(cluster).await).await;
                });
            })*
        }
    };
}
pub(crate) use on_paused_cluster;

/// A cluster with a namespace for one case, which may create one instance there.
struct Fixture {
    cluster: Cluster,
    namespace: String,
}

impl Fixture {
    async fn in_cluster(cluster: Cluster) -> Self {
        let crds = bellwether_api::crds().into_iter();
        cluster.install_crds(crds.map(|definition| json!(definition.crd))).await;
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

    /// Creates the instance with this period.
    async fn create_instance(&self, period: Value) -> Value {
        let spec = if period.is_null() { json!({}) } else { json!({"heartbeatUpdatePeriod": period}) };
        let body = json!({
            "apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "AddonInstance",
            "metadata": {"name": "addon-instance"}, "spec": spec,
        });
        self.cluster.post(self.collection(), &body).await.expect(201)
    }

    async fn read_instance(&self) -> Value {
        self.cluster.get(self.path()).await.expect(200)
    }

    async fn patch_spec(&self, spec: Value) {
        self.cluster.merge(self.path(), &json!({"spec": spec})).await.expect(200);
    }

    async fn patch_status(&self, status: Value) {
        self.cluster.merge(self.status_path(), &json!({"status": status})).await.expect(200);
    }

    /// The heartbeat client of the instance, with the clock of the test.
    fn client(&self) -> Instance {
        self.client_over(self.cluster.client())
    }

    fn client_over(&self, client: kube::Client) -> Instance {
        Instance::in_namespace(client, &self.namespace).with_clock(Arc::new(SteadyClock::default()))
    }
}

fn up() -> Desired {
    Desired::new(HEALTHY, Status::True, Reason::constant("ComponentsUp"), "Reference Addon is operational.")
}

fn down() -> Desired {
    Desired::new(HEALTHY, Status::False, Reason::constant("ComponentDown"), "Component X is non-operational!")
}

/// The condition of this type, or null.
fn condition(object: &Value, type_: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default()
}

fn health(object: &Value) -> Value {
    condition(object, HEALTHY.as_str())
}
