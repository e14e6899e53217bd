//! Unreachable API servers, wrong responses, and kinds whose versions change.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bellwether_testkit::{eventually, on_paused_time};
use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use crate::fixture::{Fixture, condition, has_condition, unique};

/// The fault of an API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None = 0,
    /// Requests get no response.
    Unreachable = 1,
    /// Every response is 503.
    Unavailable = 2,
    /// The response to every write is 404.
    NotFound = 3,
}

fn error_response(code: u16, reason: &str, message: &str) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": reason, "message": message});
    Response::builder().status(code).body(Body::from(status.to_string().into_bytes())).unwrap()
}

/// A client of an API server, and a function that sets the fault of the server.
fn faulty_client(client: kube::Client) -> (kube::Client, impl Fn(Fault)) {
    let fault = Arc::new(AtomicUsize::new(Fault::None as usize));
    let service = tower::service_fn({
        let fault = fault.clone();
        move |request: Request<Body>| {
            let (fault, client) = (fault.load(Ordering::Relaxed), client.clone());
            async move {
                if fault == Fault::Unreachable as usize {
                    return Err(kube::Error::Service("connection refused".into()));
                }
                if fault == Fault::Unavailable as usize {
                    return Ok(error_response(503, "ServiceUnavailable", "the server is overloaded"));
                }
                if fault == Fault::NotFound as usize && request.method() != Method::GET {
                    return Ok(error_response(404, "NotFound", "not found"));
                }
                client.send(request).await
            }
        }
    });
    (kube::Client::new(service, "default"), move |to: Fault| fault.store(to as usize, Ordering::Relaxed))
}

pub(crate) async fn objects_are_repaired_while_the_hub_is_unreachable(fixture: &Fixture<'_>) {
    let (hub, set_fault) = faulty_client(fixture.hub.client());
    let _agent = fixture.start_agent_with(hub, fixture.spoke.client());
    fixture.create_work("w", json!([fixture.config_map("a", json!({"k": "v"}))])).await;
    fixture.wait_until_available("w").await;
    fixture.wait_until_idle().await;
    let before = fixture.get_work("w").await;
    set_fault(Fault::Unreachable);
    fixture.spoke.merge(fixture.config_map_path("a"), &json!({"data": {"k": "other"}})).await.expect(200);
    fixture.wait_for_config_map("a", "is reverted", |map| map["data"] == json!({"k": "v"})).await;
    fixture.set_manifests("w", json!([fixture.config_map("a", json!({"k": "w"}))])).await;
    fixture.sleep(20).await;
    assert_eq!(fixture.get_work("w").await["status"], before["status"]);
    set_fault(Fault::None);
    fixture.wait_until_available("w").await;
    assert_eq!(fixture.get_config_map("a").await.expect(200)["data"], json!({"k": "w"}));
}

/// This runs only with paused time, because the agent resyncs after ten minutes.
#[test]
fn work_wrongly_reported_as_not_found_is_reconciled_again() {
    on_paused_time(async {
        let clusters = crate::embedded().await;
        let fixture = Fixture::new(&clusters).await;
        let (hub, set_fault) = faulty_client(fixture.hub.client());
        set_fault(Fault::NotFound);
        let _agent = fixture.start_agent_with(hub, fixture.spoke.client());
        fixture.create_work("w", json!([fixture.config_map("a", json!({}))])).await;
        fixture.wait_until_idle().await;
        set_fault(Fault::None);
        fixture.sleep(900).await;
        fixture.get_config_map("a").await.expect(200);
        assert!(has_condition(&fixture.get_work("w").await, "Applied", "True"));
    });
}

pub(crate) async fn unreachable_cluster_is_not_reported_as_apply_failure(fixture: &Fixture<'_>) {
    let (spoke, set_fault) = faulty_client(fixture.spoke.client());
    let _agent = fixture.start_agent_with(fixture.hub.client(), spoke);
    fixture.create_work("w", json!([fixture.config_map("a", json!({"k": "1"}))])).await;
    fixture.wait_until_available("w").await;
    for (fault, value) in [(Fault::Unreachable, "2"), (Fault::Unavailable, "3")] {
        set_fault(fault);
        fixture.set_manifests("w", json!([fixture.config_map("a", json!({"k": value}))])).await;
        tokio::time::sleep(std::time::Duration::from_millis(700)).await;
        let work = fixture.get_work("w").await;
        assert_eq!(condition(&work, "Applied")["status"], "True", "{fault:?}");
        assert_ne!(
            condition(&work, "Applied")["observedGeneration"],
            work["metadata"]["generation"],
            "{fault:?}"
        );
        set_fault(Fault::None);
        fixture.wait_until_available("w").await;
        assert_eq!(fixture.get_config_map("a").await.expect(200)["data"]["k"], value);
    }
    // A ManifestWork that is deleted while its cluster is unreachable waits for the cluster.
    set_fault(Fault::Unreachable);
    fixture.delete_work("w").await;
    fixture.sleep(20).await;
    assert_eq!(condition(&fixture.get_work("w").await, "Deleting")["status"], "True");
    set_fault(Fault::None);
    eventually("the ManifestWork is deleted", || async {
        (fixture.hub.get(fixture.work_path("w")).await.status == 404).then_some(())
    })
    .await;
    assert!(fixture.config_map_names().await.is_empty());
}

pub(crate) async fn object_is_deleted_after_its_version_is_no_longer_served(fixture: &Fixture<'_>) {
    let group = format!("{}.example.com", unique("versions"));
    let version = |name: &str, served: bool, storage: bool| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": schema}})
    };
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", true, false), version("v2", true, true)],
        },
    });
    fixture.spoke.install_crds([crd.clone()]).await;
    let _agent = fixture.start_agent();
    let widget = json!({"apiVersion": format!("{group}/v1"), "kind": "Widget",
        "metadata": {"name": "w", "namespace": fixture.namespace}, "spec": {"size": 1}});
    fixture.create_work("w", json!([widget, fixture.config_map("a", json!({}))])).await;
    fixture.wait_until_available("w").await;
    let path = |version: &str| format!("/apis/{group}/{version}/namespaces/{}/widgets/w", fixture.namespace);
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let patch = json!({"spec": {"versions": [version("v1", false, false), version("v2", true, true)]}});
    fixture.spoke.merge(format!("{crds}/widgets.{group}"), &patch).await.expect(200);
    eventually("version v1 is no longer served", || async {
        (fixture.spoke.get(path("v1")).await.status == 404).then_some(())
    })
    .await;
    fixture.spoke.get(path("v2")).await.expect(200);
    fixture.set_manifests("w", json!([fixture.config_map("a", json!({}))])).await;
    eventually("the object is deleted", || async {
        (fixture.spoke.get(path("v2")).await.status == 404).then_some(())
    })
    .await;
    eventually("the object is removed from the record", || async {
        (fixture.applied_resources("w").await.len() == 1).then_some(())
    })
    .await;
}

pub(crate) async fn restarted_agent_does_not_write_objects_of_common_kinds(fixture: &Fixture<'_>) {
    use bellwether_testkit::Tap;
    let agent = fixture.start_agent();
    let named = |name: &str| json!({"name": name, "namespace": fixture.namespace, "labels": {"app": name}});
    let pod = |policy: &str| {
        json!({"metadata": {"labels": {"app": "x"}}, "spec": {"restartPolicy": policy, "serviceAccountName": "x",
            "containers": [
                {"name": "one", "image": "example/one:1", "args": ["a", "b"],
                    "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                    "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP", "name": "dns"}],
                    "volumeMounts": [{"name": "v", "mountPath": "/v"}], "resources": {"limits": {"memory": "64Mi"}}},
                {"name": "two", "image": "example/two:1"},
            ],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "tolerations": [{"key": "k", "operator": "Exists"}]}})
    };
    let selector = json!({"matchLabels": {"app": "x"}});
    let objects: Vec<Value> = [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named("x")}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": named("x"), "type": "Opaque", "data": {"k": "djE="}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": named("x"),
            "spec": {"selector": {"app": "x"}, "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 53, "protocol": "UDP"}]}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": named("x"),
            "spec": {"replicas": 2, "selector": selector, "template": pod("Always")}}),
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": named("x"),
            "spec": {"selector": selector, "template": pod("Always")}}),
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": named("x"),
            "spec": {"backoffLimit": 2, "template": {"spec": pod("Never")["spec"]}}}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": named("x"),
            "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"ports": [{"port": 80}]}]}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": named("x"),
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("{}-own", fixture.namespace)}}),
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": named("x"),
            "spec": {"serviceName": "x", "selector": selector, "template": pod("Always")}}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": named("x"),
            "spec": {"maxUnavailable": 1, "selector": selector}}),
    ]
    .into();
    fixture.create_work("w", json!(objects)).await;
    fixture.wait_until_available("w").await;
    fixture.wait_until_idle().await;
    drop(agent);
    let (spoke, tap) = Tap::on(fixture.spoke.client());
    let _agent = fixture.start_agent_with(fixture.hub.client(), spoke);
    fixture.wait_until_idle().await;
    assert!(!tap.requests().is_empty());
    assert_eq!(tap.writes(), []);
}
