//! Works that the hub does not take, and works that others have changed.

use std::time::Duration;

use bellwether_lifecycle::addon;
use bellwether_testkit::rights::Refusals;
use bellwether_testkit::{Call, Cluster, eventually};
use http::Method;
use serde_json::{Value, json};

use crate::fleet::{Fleet, Manner};
use crate::rollouts::at_v1;

const DONE: &str = "False/Succeed: install completed with no errors.";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const LABEL: &str = "open-cluster-management.io/addon-name";

pub(crate) async fn delete_option_changes_with_version(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &[]).await;
    let tap = fleet.start();
    let spec = |version: &str, option: Value| {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "hello", "namespace": "default"}, "data": {"version": version}});
        json!({"workload": {"manifests": [map]}, "deleteOption": option})
    };
    let rule = json!({"resource": "configmaps", "namespace": "default", "name": "hello"});
    let some =
        json!({"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": [rule]}});
    fleet.publish_as("v1", spec("v1", some.clone())).await.expect(201);
    fleet.publish_as("v2", spec("v2", json!({"propagationPolicy": "Foreground"}))).await.expect(201);
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    fleet.until_said("c1", &format!("C=v1 L= {DONE}")).await;
    assert_eq!(fleet.work("c1").await["spec"]["deleteOption"], some);
    fleet.place(json!([fleet.placed("global", "v2")])).await;
    fleet.until_said("c1", &format!("C=v2 L=v1 {DONE}")).await;
    assert_eq!(fleet.work("c1").await["spec"]["deleteOption"], json!({"propagationPolicy": "Foreground"}));
    fleet.pass(Duration::from_secs(1)).await;
    let before = tap.writes().len();
    fleet.pass(Duration::from_secs(3)).await;
    assert_eq!(tap.writes().len(), before, "{:#?}", tap.writes().get(before..));
}

pub(crate) async fn rejected_work_is_reported_and_others_continue(hub: &Cluster) {
    let mut fleet = Fleet::new(hub, 1, &["v1"]).await;
    let good = fleet.addon.clone();
    // A name that is one, and too long for the label of a work.
    fleet.addon = format!("{good}-{}", "x".repeat(64));
    fleet.publish("v1").await;
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    let refused = format!(
        "C=unknown L= False/Failed: could not install version v1: work addon-{}-deploy-0 was rejected: ",
        fleet.addon
    );
    eventually("it is told why", async || {
        let said = fleet.said("c1").await;
        (said.starts_with(&refused) && said.contains("metadata.labels")).then_some(())
    })
    .await;
    hub.get(fleet.work_path("c1", 0)).await.expect(404);
    let (refused, on_cluster) = (fleet.management_path(), fleet.path("c1"));
    fleet.addon = good;
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    fleet.until_said("c1", &format!("C=v1 L= {DONE}")).await;
    // It would be tried again for as long as it is there, also beside the scenarios that come next.
    hub.delete(refused).await.expect(200);
    fleet.until_gone(on_cluster).await;
}

pub(crate) async fn rejected_work_recovers_when_accepted(hub: &Cluster) {
    let fleet = Fleet::new(hub, 2, &["v1"]).await;
    let user = format!("bellwether:{}", fleet.addon);
    let read = ["get", "list", "watch"];
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": user},
    "rules": [
        {"apiGroups": ["addon.open-cluster-management.io", "cluster.open-cluster-management.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["work.open-cluster-management.io"], "resources": ["manifestworks"], "verbs": read},
    ]});
    let bound = |kind: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": user},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]})
    };
    hub.post(format!("{RBAC}/clusterroles"), &role).await.expect(201);
    let mut binding = bound("ClusterRole");
    binding["kind"] = json!("ClusterRoleBinding");
    hub.post(format!("{RBAC}/clusterrolebindings"), &binding).await.expect(201);
    let allow = async |cluster: &str| {
        let all = format!("{RBAC}/namespaces/{}", fleet.cluster(cluster));
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": user},
            "rules": [{"apiGroups": ["work.open-cluster-management.io"], "resources": ["manifestworks"], "verbs": ["*"]}]});
        hub.post(format!("{all}/roles"), &role).await.expect(201);
        let mut binding = bound("Role");
        binding["kind"] = json!("RoleBinding");
        hub.post(format!("{all}/rolebindings"), &binding).await.expect(201);
    };
    allow("c2").await;
    eventually("the rights are known", async || {
        let path = "/apis/work.open-cluster-management.io/v1/manifestworks";
        (hub.send(Call::get(path).header("impersonate-user", &user)).await.status == 200).then_some(())
    })
    .await;
    let refusals = Refusals::default();
    fleet.start_as(|controller| match controller {
        addon::NAME => refusals.client(&hub.client(), &fleet.addon),
        _ => hub.client(),
    });
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    fleet.until_said("c2", &format!("C=v1 L= {DONE}")).await;
    let words = format!(
        "C=unknown L= False/Failed: could not install version v1: work addon-{}-deploy-0 was rejected: ",
        fleet.addon
    );
    eventually("it is told why", async || {
        let said = fleet.said("c1").await;
        (said.starts_with(&words) && said.contains("forbidden")).then_some(())
    })
    .await;
    allow("c1").await;
    fleet.until_said("c1", &format!("C=v1 L= {DONE}")).await;
}

pub(crate) async fn work_without_label_gets_label_back(hub: &Cluster) {
    let fleet = at_v1(hub, 1).await;
    let uid = fleet.work("c1").await["metadata"]["uid"].clone();
    let without = json!({"metadata": {"labels": {LABEL: null}}});
    hub.merge(fleet.work_path("c1", 0), &without).await.expect(200);
    eventually("it is labelled", async || {
        (fleet.work("c1").await["metadata"]["labels"][LABEL] == fleet.addon.as_str()).then_some(())
    })
    .await;
    fleet.until_said("c1", &format!("C=v1 L= {DONE}")).await;
    assert_eq!(fleet.work("c1").await["metadata"]["uid"], uid, "it is the same one");
}

pub(crate) async fn changed_work_without_label_gets_label_back(hub: &Cluster) {
    let fleet = at_v1(hub, 1).await;
    let tap = fleet.start();
    fleet.pass(Duration::from_secs(1)).await;
    let (other, path) = (hub.client(), fleet.work_path("c1", 0));
    tap.before(Method::PATCH, "/manifestworks/", move || async move {
        let request = http::Request::patch(path)
            .header("content-type", "application/merge-patch+json")
            .body(json!({"metadata": {"annotations": {"changed": "meanwhile"}}}).to_string().into_bytes())
            .unwrap();
        other.request::<Value>(request).await.unwrap();
    });
    hub.merge(fleet.work_path("c1", 0), &json!({"metadata": {"labels": {LABEL: null}}})).await.expect(200);
    eventually("it is labelled", async || {
        (fleet.work("c1").await["metadata"]["labels"][LABEL] == fleet.addon.as_str()).then_some(())
    })
    .await;
    assert!(!tap.is_set());
    fleet.until_said("c1", &format!("C=v1 L= {DONE}")).await;
}

pub(crate) async fn deleted_work_without_label_is_recreated(hub: &Cluster) {
    let fleet = at_v1(hub, 1).await;
    let uid = fleet.work("c1").await["metadata"]["uid"].clone();
    fleet.behaves("c1", Manner::Silent);
    let tap = fleet.start();
    fleet.pass(Duration::from_secs(1)).await;
    hub.delete(fleet.work_path("c1", 0)).await.expect(200);
    hub.merge(fleet.work_path("c1", 0), &json!({"metadata": {"labels": {LABEL: null}}})).await.expect(200);
    eventually("it is to be made, and is still there", async || {
        tap.writes().iter().any(|sent| sent.method == Method::POST).then_some(())
    })
    .await;
    fleet.pass(Duration::from_secs(1)).await;
    fleet.behaves("c1", Manner::Well);
    fleet.wake();
    eventually("there is another", async || {
        let found = fleet.work("c1").await["metadata"]["uid"].clone();
        (found.is_string() && found != uid).then_some(())
    })
    .await;
    fleet.until_said("c1", &format!("C=v1 L= {DONE}")).await;
}
