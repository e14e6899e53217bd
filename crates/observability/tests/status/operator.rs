//! The endpoint operator: which collectors it runs, what it reports, and how it follows the hub (B11, A5, A10, A27).

use bellwether_observability::vocabulary::Component::Platform;
use bellwether_observability::vocabulary::ComponentReason::{ForwardFailure, ForwardSuccessful};
use bellwether_testkit::eventually;
use serde_json::{Value, json};

use crate::fixture::{Fixture, brief, text};

impl Fixture<'_> {
    /// Creates what the operator needs on the cluster: the address of the receiver, an allowlist, and the platform's Prometheus.
    pub(crate) async fn create_inputs(&self) {
        let info = "observatorium-api-endpoint: http://receiver.example/api/v1/receive\n";
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hub-info-secret"},
            "stringData": {"hub-info.yaml": info}});
        self.spoke.post(self.core("secrets"), &secret).await.expect(201);
        let list = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "observability-metrics-allowlist"},
            "data": {"metrics_list.yaml": "names: [up]\n", "uwl_metrics_list.yaml": "names: [orders_total]\n"}});
        self.spoke.post(self.core("configmaps"), &list).await.expect(201);
        self.set_platform(true).await;
    }

    fn core(&self, plural: &str) -> String {
        format!("/api/v1/namespaces/{}/{plural}", self.namespace)
    }

    pub(crate) fn deployment_path(&self, name: &str) -> String {
        format!("/apis/apps/v1/namespaces/{}/deployments/{name}", self.namespace)
    }

    /// Creates or deletes the Service of the platform's Prometheus.
    async fn set_platform(&self, is_present: bool) {
        let services = format!("/api/v1/namespaces/{}/services", self.monitoring);
        if is_present {
            let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "prometheus-k8s"},
                "spec": {"ports": [{"port": 9091}]}});
            self.spoke.post(services, &service).await.expect(201);
        } else {
            self.spoke.delete(format!("{services}/prometheus-k8s")).await.expect(200);
        }
    }

    /// Creates or deletes the StatefulSet of the Prometheus of user workloads.
    pub(crate) async fn set_user_workloads(&self, is_present: bool) {
        let sets = format!("/apis/apps/v1/namespaces/{}/statefulsets", self.monitoring);
        if is_present {
            let labels = json!({"app": "prometheus"});
            let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
                "metadata": {"name": "prometheus-user-workload"},
                "spec": {"serviceName": "p", "selector": {"matchLabels": labels}, "template": {
                    "metadata": {"labels": labels}, "spec": {"containers": [{"name": "p", "image": "p"}]}}}});
            self.spoke.post(sets, &set).await.expect(201);
        } else {
            self.spoke.delete(format!("{sets}/prometheus-user-workload")).await.expect(200);
        }
    }

    /// Waits until a Deployment exists with this number of replicas, and returns it.
    pub(crate) async fn wait_for_replicas(&self, name: &str, replicas: i64) -> Value {
        eventually(&format!("{name} has {replicas} replicas"), || async {
            let found = self.spoke.get(self.deployment_path(name)).await;
            (found.status == 200 && found.json()["spec"]["replicas"] == replicas).then(|| found.json())
        })
        .await
    }

    pub(crate) async fn wait_until_deleted(&self, path: &str) {
        eventually(&format!("{path} is deleted"), || async {
            (self.spoke.get(path).await.status == 404).then_some(())
        })
        .await;
    }

    /// Waits until a component has a reason, and returns its message.
    pub(crate) async fn wait_for_component(&self, type_: &str, reason: &str) -> String {
        eventually(&format!("{type_} has the reason {reason}"), || async {
            let addon = self.spoke.get(self.spoke_path()).await.json();
            let conditions = addon["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let found = conditions.iter().find(|one| one["type"] == type_ && one["reason"] == reason);
            found.map(|one| text(&one["message"]))
        })
        .await
    }
}

pub(crate) const PLATFORM: &str = "metrics-collector-deployment";
pub(crate) const USER: &str = "uwl-metrics-collector-deployment";

pub(crate) async fn collector_is_deployed_from_the_spec_of_the_hub(fixture: &Fixture<'_>) {
    fixture.create_inputs().await;
    fixture.create_on_hub().await;
    let spec = json!({"spec": {"interval": 60, "workers": 2, "resources": {"limits": {"memory": "1Gi"}}}});
    fixture.hub.merge(fixture.hub_path(), &spec).await.expect(200);
    fixture.start_operator();
    let deployment = fixture.wait_for_replicas(PLATFORM, 1).await;
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let arguments: Vec<String> = container["args"].as_array().unwrap().iter().map(text).collect();
    for wanted in [
        "--interval=60s",
        "--worker-number=2",
        "--to-upload=http://receiver.example/api/v1/receive",
        r#"--match={__name__="up"}"#,
        &format!("--label=cluster={}", fixture.hub_namespace),
    ] {
        assert!(arguments.iter().any(|argument| argument == wanted), "{wanted} is missing in {arguments:?}");
    }
    assert_eq!(container["resources"]["limits"]["memory"], "1Gi");
    assert_eq!(deployment["metadata"]["ownerReferences"][0]["kind"], "ObservabilityAddon");
    assert_eq!(
        fixture.wait_for_component("MetricsCollectorStatus", "UpdateSuccesful").await,
        "Metrics collector updated"
    );
    let message = fixture.wait_for_component("UwlMetricsCollectorStatus", "DisabledMetrics").await;
    assert_eq!(message, "UWL Metrics collector disabled");
    let finalizers = fixture.hub.get(fixture.hub_path()).await.json()["metadata"]["finalizers"].clone();
    assert_eq!(finalizers, json!(["observability.open-cluster-management.io/addon-cleanup"]));
}

pub(crate) async fn restart_of_the_operator_changes_nothing(fixture: &Fixture<'_>) {
    fixture.create_inputs().await;
    fixture.create_on_hub().await;
    fixture.start_operator();
    fixture.wait_for_component("UwlMetricsCollectorStatus", "DisabledMetrics").await;
    fixture.collector_reports(Platform, ForwardSuccessful).await;
    fixture.wait_for_reconcile().await;
    let read = || async {
        let version = |object: Value| object["metadata"]["resourceVersion"].clone();
        let addon = fixture.spoke.get(fixture.spoke_path()).await.expect(200);
        (version(addon), version(fixture.spoke.get(fixture.deployment_path(PLATFORM)).await.expect(200)))
    };
    let before = read().await;
    fixture.start_operator();
    fixture.wait_for_reconcile().await;
    assert_eq!(read().await, before);
}

pub(crate) async fn two_copies_of_the_controllers_agree(fixture: &Fixture<'_>) {
    fixture.create_inputs().await;
    fixture.create_on_hub().await;
    for _ in 0..2 {
        fixture.add_operator_with(fixture.spoke.client(), fixture.hub.client());
        fixture.add_status_controller_with(fixture.spoke.client(), fixture.hub.client());
    }
    fixture.wait_for_component("UwlMetricsCollectorStatus", "DisabledMetrics").await;
    fixture.wait_for_component("MetricsCollectorStatus", "UpdateSuccesful").await;
    fixture.wait_for_reconcile().await;
    let report = || fixture.collector_reports(Platform, ForwardSuccessful);
    tokio::join!(report(), report());
    fixture.wait_for_state("Available/ForwardSuccessful: MetricsCollector: ForwardSuccessful").await;
    let read = || async {
        let version = |object: Value| object["metadata"]["resourceVersion"].clone();
        let on_spoke = fixture.spoke.get(fixture.spoke_path()).await.expect(200);
        let on_hub = fixture.hub.get(fixture.hub_path()).await.expect(200);
        let deployment = fixture.spoke.get(fixture.deployment_path(PLATFORM)).await.expect(200);
        [on_spoke, on_hub, deployment].map(version)
    };
    fixture.wait_for_reconcile().await;
    let before = read().await;
    fixture.wait_for_reconcile().await;
    assert_eq!(read().await, before);
}

pub(crate) async fn user_workload_collector_comes_and_goes(fixture: &Fixture<'_>) {
    fixture.create_inputs().await;
    fixture.create_on_hub().await;
    fixture.start_operator();
    fixture.wait_for_replicas(PLATFORM, 1).await;
    fixture.set_user_workloads(true).await;
    fixture.wait_for_replicas(USER, 1).await;
    fixture.wait_for_component("UwlMetricsCollectorStatus", "UpdateSuccesful").await;
    fixture.set_user_workloads(false).await;
    fixture.wait_until_deleted(&fixture.deployment_path(USER)).await;
    fixture.wait_for_component("UwlMetricsCollectorStatus", "DisabledMetrics").await;
}

pub(crate) async fn disabled_metrics_stop_the_collectors(fixture: &Fixture<'_>) {
    fixture.create_inputs().await;
    fixture.create_on_hub().await;
    fixture.start_operator();
    fixture.wait_for_replicas(PLATFORM, 1).await;
    fixture.hub.merge(fixture.hub_path(), &json!({"spec": {"enableMetrics": false}})).await.expect(200);
    fixture.wait_for_replicas(PLATFORM, 0).await;
    let message = fixture.wait_for_component("MetricsCollectorStatus", "DisabledMetrics").await;
    assert_eq!(message, "Metrics collector disabled");
    fixture.hub.merge(fixture.hub_path(), &json!({"spec": {"enableMetrics": true}})).await.expect(200);
    fixture.wait_for_replicas(PLATFORM, 1).await;
    fixture.wait_for_component("MetricsCollectorStatus", "UpdateSuccesful").await;
}

pub(crate) async fn cluster_without_prometheus_is_not_supported(fixture: &Fixture<'_>) {
    fixture.create_inputs().await;
    fixture.set_platform(false).await;
    fixture.create_on_hub().await;
    fixture.start_operator();
    let message = fixture.wait_for_component("MetricsCollectorStatus", "NotSupported").await;
    assert_eq!(message, "Prometheus service not found");
    assert_eq!(fixture.spoke.get(fixture.deployment_path(PLATFORM)).await.status, 404);
    fixture.set_platform(true).await;
    fixture.wait_for_replicas(PLATFORM, 1).await;
    fixture.wait_for_component("MetricsCollectorStatus", "UpdateSuccesful").await;
}

pub(crate) async fn failed_update_is_reported_and_ends_with_a_clean_reconcile(fixture: &Fixture<'_>) {
    fixture.create_inputs().await;
    fixture.create_on_hub().await;
    fixture.start_operator();
    fixture.wait_for_replicas(PLATFORM, 1).await;
    fixture.wait_for_component("MetricsCollectorStatus", "UpdateSuccesful").await;
    let list = format!("{}/observability-metrics-allowlist", fixture.core("configmaps"));
    fixture.spoke.merge(&list, &json!({"data": {"metrics_list.yaml": "names: 7"}})).await.expect(200);
    let message = fixture.wait_for_component("MetricsCollectorStatus", "UpdateFailure").await;
    assert!(message.starts_with("Failed to update metrics collector: ConfigMap "), "{message}");
    // The Deployment is as it was, and still: the failure ends.
    fixture.spoke.merge(&list, &json!({"data": {"metrics_list.yaml": "names: [up]\n"}})).await.expect(200);
    fixture.wait_for_component("MetricsCollectorStatus", "UpdateSuccesful").await;
    fixture.collector_reports(Platform, ForwardFailure).await;
    fixture.wait_for_component("MetricsCollectorStatus", "ForwardFailure").await;
}

pub(crate) async fn changed_deployment_is_restored(fixture: &Fixture<'_>) {
    fixture.create_inputs().await;
    fixture.create_on_hub().await;
    fixture.start_operator();
    fixture.wait_for_replicas(PLATFORM, 1).await;
    let scaled = json!({"spec": {"replicas": 5}});
    fixture.spoke.merge(fixture.deployment_path(PLATFORM), &scaled).await.expect(200);
    fixture.wait_for_replicas(PLATFORM, 1).await;
}

pub(crate) async fn deletion_on_the_hub_removes_the_collectors_first(fixture: &Fixture<'_>) {
    fixture.create_inputs().await;
    fixture.create_on_hub().await;
    fixture.start_operator();
    fixture.wait_for_replicas(PLATFORM, 1).await;
    eventually("the finalizer is set", || async {
        let addon = fixture.hub.get(fixture.hub_path()).await.json();
        (!brief(&addon).is_empty() || addon["metadata"]["finalizers"].is_array()).then_some(())
    })
    .await;
    fixture.hub.delete(fixture.hub_path()).await.expect(200);
    eventually("the add-on of the hub is deleted", || async {
        (fixture.hub.get(fixture.hub_path()).await.status == 404).then_some(())
    })
    .await;
    assert_eq!(fixture.spoke.get(fixture.spoke_path()).await.status, 404);
    fixture.wait_until_deleted(&fixture.deployment_path(PLATFORM)).await;
}
