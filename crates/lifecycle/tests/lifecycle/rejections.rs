//! ManifestWorks that the API server rejects, and ManifestWorks that other clients have changed.

use std::time::Duration;

use bellwether_lifecycle::addon;
use bellwether_testkit::rights::Refusals;
use bellwether_testkit::{Call, Cluster, eventually};
use http::Method;
use serde_json::{Value, json};

use crate::fleet::{AgentBehaviour, Fleet};
use crate::rollouts::fleet_at_v1;

const SUCCEEDED: &str = "False/Succeed: install completed with no errors.";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const LABEL: &str = "open-cluster-management.io/addon-name";

pub(crate) async fn delete_option_changes_with_version(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &[]).await;
    let tap = fleet.start_controllers();
    let spec = |version: &str, option: Value| {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "hello", "namespace": "default"}, "data": {"version": version}});
        json!({"workload": {"manifests": [map]}, "deleteOption": option})
    };
    let rule = json!({"resource": "configmaps", "namespace": "default", "name": "hello"});
    let selective =
        json!({"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": [rule]}});
    fleet.create_version_with_spec("v1", spec("v1", selective.clone())).await.expect(201);
    fleet
        .create_version_with_spec("v2", spec("v2", json!({"propagationPolicy": "Foreground"})))
        .await
        .expect(201);
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    fleet.wait_for_status("c1", &format!("C=v1 L= {SUCCEEDED}")).await;
    assert_eq!(fleet.get_work("c1").await["spec"]["deleteOption"], selective);
    fleet.set_placements(json!([fleet.placement_strategy("global", "v2")])).await;
    fleet.wait_for_status("c1", &format!("C=v2 L=v1 {SUCCEEDED}")).await;
    assert_eq!(
        fleet.get_work("c1").await["spec"]["deleteOption"],
        json!({"propagationPolicy": "Foreground"})
    );
    fleet.sleep(Duration::from_secs(1)).await;
    let before = tap.writes().len();
    fleet.sleep(Duration::from_secs(3)).await;
    assert_eq!(tap.writes().len(), before, "{:#?}", tap.writes().get(before..));
}

pub(crate) async fn rejected_work_is_reported_and_others_continue(hub: &Cluster) {
    let mut fleet = Fleet::new(hub, 1, &["v1"]).await;
    let valid_name = fleet.addon_name.clone();
    // This is a valid name of an add-on, but it is too long for the value of the label of the ManifestWork.
    fleet.addon_name = format!("{valid_name}-{}", "x".repeat(64));
    fleet.create_version("v1").await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    let rejected = format!(
        "C=unknown L= False/Failed: could not install version v1: work addon-{}-deploy-0 was rejected: ",
        fleet.addon_name
    );
    eventually("the status has the error of the API server", async || {
        let status = fleet.status_line("c1").await;
        (status.starts_with(&rejected) && status.contains("metadata.labels")).then_some(())
    })
    .await;
    hub.get(fleet.work_path("c1", 0)).await.expect(404);
    let (rejected_management_addon, rejected_addon) = (fleet.management_addon_path(), fleet.addon_path("c1"));
    fleet.addon_name = valid_name;
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    fleet.wait_for_status("c1", &format!("C=v1 L= {SUCCEEDED}")).await;
    // Otherwise the controllers would retry the rejected ManifestWork during the scenarios that follow on
    // this hub.
    hub.delete(rejected_management_addon).await.expect(200);
    fleet.wait_for_deletion(rejected_addon).await;
}

pub(crate) async fn rejected_work_recovers_when_accepted(hub: &Cluster) {
    let fleet = Fleet::new(hub, 2, &["v1"]).await;
    let user = format!("bellwether:{}", fleet.addon_name);
    let read = ["get", "list", "watch"];
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": user},
    "rules": [
        {"apiGroups": ["addon.open-cluster-management.io", "cluster.open-cluster-management.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["work.open-cluster-management.io"], "resources": ["manifestworks"], "verbs": read},
    ]});
    let binding_to = |kind: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": user},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]})
    };
    hub.post(format!("{RBAC}/clusterroles"), &role).await.expect(201);
    let mut binding = binding_to("ClusterRole");
    binding["kind"] = json!("ClusterRoleBinding");
    hub.post(format!("{RBAC}/clusterrolebindings"), &binding).await.expect(201);
    let allow_writes = async |cluster: &str| {
        let namespace = format!("{RBAC}/namespaces/{}", fleet.cluster_name(cluster));
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": user},
            "rules": [{"apiGroups": ["work.open-cluster-management.io"], "resources": ["manifestworks"], "verbs": ["*"]}]});
        hub.post(format!("{namespace}/roles"), &role).await.expect(201);
        let mut binding = binding_to("Role");
        binding["kind"] = json!("RoleBinding");
        hub.post(format!("{namespace}/rolebindings"), &binding).await.expect(201);
    };
    allow_writes("c2").await;
    eventually("the ClusterRole takes effect", async || {
        let path = "/apis/work.open-cluster-management.io/v1/manifestworks";
        (hub.send(Call::get(path).header("impersonate-user", &user)).await.status == 200).then_some(())
    })
    .await;
    let forbidden = Refusals::default();
    fleet.start_controllers_with(|controller| match controller {
        addon::NAME => forbidden.client(&hub.client(), &fleet.addon_name),
        _ => hub.client(),
    });
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    fleet.wait_for_status("c2", &format!("C=v1 L= {SUCCEEDED}")).await;
    let expected = format!(
        "C=unknown L= False/Failed: could not install version v1: work addon-{}-deploy-0 was rejected: ",
        fleet.addon_name
    );
    eventually("the status has the error of the API server", async || {
        let status = fleet.status_line("c1").await;
        (status.starts_with(&expected) && status.contains("forbidden")).then_some(())
    })
    .await;
    allow_writes("c1").await;
    fleet.wait_for_status("c1", &format!("C=v1 L= {SUCCEEDED}")).await;
}

pub(crate) async fn work_without_label_gets_label_back(hub: &Cluster) {
    let fleet = fleet_at_v1(hub, 1).await;
    let uid = fleet.get_work("c1").await["metadata"]["uid"].clone();
    let without = json!({"metadata": {"labels": {LABEL: null}}});
    hub.merge(fleet.work_path("c1", 0), &without).await.expect(200);
    eventually("the label is restored", async || {
        (fleet.get_work("c1").await["metadata"]["labels"][LABEL] == fleet.addon_name.as_str()).then_some(())
    })
    .await;
    fleet.wait_for_status("c1", &format!("C=v1 L= {SUCCEEDED}")).await;
    assert_eq!(fleet.get_work("c1").await["metadata"]["uid"], uid, "the ManifestWork was not recreated");
}

pub(crate) async fn changed_work_without_label_gets_label_back(hub: &Cluster) {
    let fleet = fleet_at_v1(hub, 1).await;
    let tap = fleet.start_controllers();
    fleet.sleep(Duration::from_secs(1)).await;
    let (other, path) = (hub.client(), fleet.work_path("c1", 0));
    tap.before(Method::PATCH, "/manifestworks/", move || async move {
        let request = http::Request::patch(path)
            .header("content-type", "application/merge-patch+json")
            .body(json!({"metadata": {"annotations": {"changed": "meanwhile"}}}).to_string().into_bytes())
            .unwrap();
        other.request::<Value>(request).await.unwrap();
    });
    hub.merge(fleet.work_path("c1", 0), &json!({"metadata": {"labels": {LABEL: null}}})).await.expect(200);
    eventually("the label is restored", async || {
        (fleet.get_work("c1").await["metadata"]["labels"][LABEL] == fleet.addon_name.as_str()).then_some(())
    })
    .await;
    assert!(!tap.is_set());
    fleet.wait_for_status("c1", &format!("C=v1 L= {SUCCEEDED}")).await;
}

pub(crate) async fn deleted_work_without_label_is_recreated(hub: &Cluster) {
    let fleet = fleet_at_v1(hub, 1).await;
    let uid = fleet.get_work("c1").await["metadata"]["uid"].clone();
    fleet.set_agent_behaviour("c1", AgentBehaviour::Silent);
    let tap = fleet.start_controllers();
    fleet.sleep(Duration::from_secs(1)).await;
    hub.delete(fleet.work_path("c1", 0)).await.expect(200);
    hub.merge(fleet.work_path("c1", 0), &json!({"metadata": {"labels": {LABEL: null}}})).await.expect(200);
    eventually(
        "the controller tries to create the ManifestWork while the old one still exists",
        async || tap.writes().iter().any(|sent| sent.method == Method::POST).then_some(()),
    )
    .await;
    fleet.sleep(Duration::from_secs(1)).await;
    fleet.set_agent_behaviour("c1", AgentBehaviour::Healthy);
    fleet.restart_agent();
    eventually("the ManifestWork is recreated", async || {
        let found = fleet.get_work("c1").await["metadata"]["uid"].clone();
        (found.is_string() && found != uid).then_some(())
    })
    .await;
    fleet.wait_for_status("c1", &format!("C=v1 L= {SUCCEEDED}")).await;
}
