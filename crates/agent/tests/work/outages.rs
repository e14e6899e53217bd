//! Servers that do not answer, and kinds that change.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bellwether_testkit::{eventually, on_paused_time};
use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use crate::stage::{Stage, condition, says, unique};

/// How a server behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Well = 0,
    /// Nobody answers.
    Away = 1,
    /// It answers that it has no time.
    Busy = 2,
    /// It answers writes as if there was nothing to be written.
    Lost = 3,
}

fn refusal(code: u16, reason: &str, message: &str) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": reason, "message": message});
    Response::builder().status(code).body(Body::from(status.to_string().into_bytes())).unwrap()
}

/// A client of a server whose mood a test sets.
fn moody(client: kube::Client) -> (kube::Client, impl Fn(Mood)) {
    let mood = Arc::new(AtomicUsize::new(Mood::Well as usize));
    let service = tower::service_fn({
        let mood = mood.clone();
        move |request: Request<Body>| {
            let (mood, client) = (mood.load(Ordering::Relaxed), client.clone());
            async move {
                if mood == Mood::Away as usize {
                    return Err(kube::Error::Service("nobody is there".into()));
                }
                if mood == Mood::Busy as usize {
                    return Ok(refusal(503, "ServiceUnavailable", "the server has no time"));
                }
                if mood == Mood::Lost as usize && request.method() != Method::GET {
                    return Ok(refusal(404, "NotFound", "there is nothing of that name"));
                }
                client.send(request).await
            }
        }
    });
    (kube::Client::new(service, "default"), move |to: Mood| mood.store(to as usize, Ordering::Relaxed))
}

pub(crate) async fn a_cluster_is_kept_as_it_should_be_while_its_hub_is_away(stage: &Stage<'_>) {
    let (hub, set) = moody(stage.hub.client());
    let _agent = stage.run_by(hub, stage.spoke.client());
    stage.ask("w", json!([stage.map("a", json!({"k": "v"}))])).await;
    stage.until_well("w").await;
    stage.calm().await;
    let before = stage.read("w").await;
    set(Mood::Away);
    stage.spoke.merge(stage.map_path("a"), &json!({"data": {"k": "other"}})).await.expect(200);
    stage.map_until("a", "is changed back", |map| map["data"] == json!({"k": "v"})).await;
    stage.change("w", json!([stage.map("a", json!({"k": "w"}))])).await;
    stage.pass(20).await;
    assert_eq!(stage.read("w").await["status"], before["status"]);
    set(Mood::Well);
    stage.until_well("w").await;
    assert_eq!(stage.map_now("a").await.expect(200)["data"], json!({"k": "w"}));
}

/// Only where time is paused: it is a matter of ten minutes.
#[test]
fn a_work_that_the_hub_did_not_find_once_is_looked_at_again() {
    on_paused_time(async {
        let theatre = crate::embedded().await;
        let stage = Stage::new(&theatre).await;
        let (hub, set) = moody(stage.hub.client());
        set(Mood::Lost);
        let _agent = stage.run_by(hub, stage.spoke.client());
        stage.ask("w", json!([stage.map("a", json!({}))])).await;
        stage.calm().await;
        set(Mood::Well);
        stage.pass(900).await;
        stage.map_now("a").await.expect(200);
        assert!(says(&stage.read("w").await, "Applied", "True"));
    });
}

pub(crate) async fn a_cluster_that_is_away_is_no_failure_of_a_work(stage: &Stage<'_>) {
    let (spoke, set) = moody(stage.spoke.client());
    let _agent = stage.run_by(stage.hub.client(), spoke);
    stage.ask("w", json!([stage.map("a", json!({"k": "1"}))])).await;
    stage.until_well("w").await;
    for (mood, value) in [(Mood::Away, "2"), (Mood::Busy, "3")] {
        set(mood);
        stage.change("w", json!([stage.map("a", json!({"k": value}))])).await;
        tokio::time::sleep(std::time::Duration::from_millis(700)).await;
        let work = stage.read("w").await;
        assert_eq!(condition(&work, "Applied")["status"], "True", "{mood:?}");
        assert_ne!(
            condition(&work, "Applied")["observedGeneration"],
            work["metadata"]["generation"],
            "{mood:?}"
        );
        set(Mood::Well);
        stage.until_well("w").await;
        assert_eq!(stage.map_now("a").await.expect(200)["data"]["k"], value);
    }
    // One that leaves while its cluster is away waits for it.
    set(Mood::Away);
    stage.delete("w").await;
    stage.pass(20).await;
    assert_eq!(condition(&stage.read("w").await, "Deleting")["status"], "True");
    set(Mood::Well);
    eventually("the work is gone", || async {
        (stage.hub.get(stage.work_path("w")).await.status == 404).then_some(())
    })
    .await;
    assert!(stage.maps().await.is_empty());
}

pub(crate) async fn an_object_goes_also_when_its_version_is_no_longer_served(stage: &Stage<'_>) {
    let group = format!("{}.example.com", unique("versions"));
    let version = |name: &str, served: bool, storage: bool| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": schema}})
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", true, false), version("v2", true, true)],
        },
    });
    stage.spoke.install_definitions([definition.clone()]).await;
    let _agent = stage.run();
    let widget = json!({"apiVersion": format!("{group}/v1"), "kind": "Widget",
        "metadata": {"name": "w", "namespace": stage.namespace}, "spec": {"size": 1}});
    stage.ask("w", json!([widget, stage.map("a", json!({}))])).await;
    stage.until_well("w").await;
    let path = |version: &str| format!("/apis/{group}/{version}/namespaces/{}/widgets/w", stage.namespace);
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let patch = json!({"spec": {"versions": [version("v1", false, false), version("v2", true, true)]}});
    stage.spoke.merge(format!("{definitions}/widgets.{group}"), &patch).await.expect(200);
    eventually("the version is gone", || async {
        (stage.spoke.get(path("v1")).await.status == 404).then_some(())
    })
    .await;
    stage.spoke.get(path("v2")).await.expect(200);
    stage.change("w", json!([stage.map("a", json!({}))])).await;
    eventually("the object is gone", || async {
        (stage.spoke.get(path("v2")).await.status == 404).then_some(())
    })
    .await;
    eventually("the record forgets it", || async { (stage.recorded("w").await.len() == 1).then_some(()) })
        .await;
}

pub(crate) async fn what_the_server_keeps_as_it_was_said_is_not_said_again(stage: &Stage<'_>) {
    use bellwether_testkit::Tap;
    let agent = stage.run();
    let named = |name: &str| json!({"name": name, "namespace": stage.namespace, "labels": {"app": name}});
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
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("{}-own", stage.namespace)}}),
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": named("x"),
            "spec": {"serviceName": "x", "selector": selector, "template": pod("Always")}}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": named("x"),
            "spec": {"maxUnavailable": 1, "selector": selector}}),
    ]
    .into();
    stage.ask("w", json!(objects)).await;
    stage.until_well("w").await;
    stage.calm().await;
    drop(agent);
    let (spoke, tap) = Tap::on(stage.spoke.client());
    let _agent = stage.run_by(stage.hub.client(), spoke);
    stage.calm().await;
    assert!(!tap.requests().is_empty());
    assert_eq!(tap.writes(), []);
}
