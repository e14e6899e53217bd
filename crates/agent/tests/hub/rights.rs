//! An agent with the rights of `deploy/` and no others does all it has to, and reaches nothing of another cluster.

use bellwether_agent::{lease, mirror, work};
use bellwether_testkit::{Cluster, eventually};
use http::{HeaderValue, Request};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::stage::Stage;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const ON_THE_HUB: &str = include_str!("../../../../deploy/hub/spoke-agent.yaml");
const JOINING: &str = include_str!("../../../../deploy/examples/join-cluster.yaml");
const ON_THE_CLUSTER: &str = include_str!("../../../../deploy/spoke/rbac.yaml");

/// The same client, for somebody else.
fn as_user(client: kube::Client, user: &str) -> kube::Client {
    let user = HeaderValue::from_str(user).unwrap();
    let service = tower::service_fn(move |mut request: Request<Body>| {
        request.headers_mut().insert("impersonate-user", user.clone());
        let client = client.clone();
        async move { client.send(request).await }
    });
    kube::Client::new(service, "default")
}

fn documents(text: &str) -> Vec<Value> {
    let documents = text.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap());
    documents.filter(|document: &Value| document.is_object()).collect()
}

/// The role of an agent for its own cluster, and that it has it.
fn own_cluster(cluster: &str, user: &str) -> Vec<Value> {
    let objects = documents(&JOINING.replace("my-cluster", cluster)).into_iter();
    let mut own: Vec<Value> =
        objects.filter(|object| object["kind"].as_str().unwrap().starts_with("ClusterRole")).collect();
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user});
    own[1]["subjects"] = json!([subject]);
    own
}

async fn make(cluster: &Cluster, object: &Value) {
    let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
    let path = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{RBAC}/namespaces/{namespace}/{plural}"),
        None => format!("{RBAC}/{plural}"),
    };
    let made = cluster.post(path, object).await;
    assert!(matches!(made.status, 201 | 409), "{}", made.text());
}

fn binding(kind: &str, name: &str, namespace: Option<&str>, role: &str, user: &str) -> Value {
    let group = "rbac.authorization.k8s.io";
    json!({
        "apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    })
}

pub(crate) async fn the_rights_of_an_agent_are_enough_and_not_too_much(stage: &Stage<'_>) {
    let cluster = stage.cluster.as_str();
    let user = format!("bellwether:agent:{cluster}");
    for object in documents(ON_THE_HUB).into_iter().chain(own_cluster(cluster, &user)) {
        make(stage.hub, &object).await;
    }
    make(stage.hub, &binding("RoleBinding", "agent", Some(cluster), "bellwether:spoke-agent", &user)).await;
    for role in documents(ON_THE_CLUSTER).iter().filter(|object| object["kind"] == "ClusterRole") {
        make(stage.spoke, role).await;
    }
    for name in [work::NAME, mirror::NAME, lease::NAME] {
        let name = format!("bellwether:{name}");
        make(stage.spoke, &binding("ClusterRoleBinding", &name, None, &name, &name)).await;
    }

    let mut tasks = JoinSet::new();
    let agent = || stage.agent_by(as_user(stage.hub.client(), &user));
    let context =
        |name: &str| Stage::context_by(as_user(stage.spoke.client(), &format!("bellwether:{name}")));
    tasks.spawn(work::run(agent(), context(work::NAME)));
    tasks.spawn(lease::run(agent(), context(lease::NAME)));
    tasks.spawn(mirror::run(agent(), context(mirror::NAME)));

    stage.join(json!({"hubAcceptsClient": true})).await;
    let there = |lease: &Value| lease["spec"]["renewTime"].is_string().then_some(());
    stage.until(&stage.lease_path(), "is there", there).await;
    let joined = |cluster: &Value| cluster["status"]["version"]["kubernetes"].is_string().then_some(());
    stage.until(&stage.cluster_path(), "has joined", joined).await;

    stage.install("metrics").await;
    stage.instance("i", "metrics").await;
    stage.say("i", "Unknown", "HeartbeatTimeout", 1).await;
    stage.until_told("metrics", "Unknown", "HeartbeatTimeout").await;

    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "r", "namespace": stage.namespace},
        "rules": [{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["frobnicate"]}]});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": stage.namespace}});
    let work = json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": "w"}, "spec": {"workload": {"manifests": [role, map]}}});
    let works = format!("/apis/work.open-cluster-management.io/v1/namespaces/{cluster}/manifestworks");
    stage.hub.post(&works, &work).await.expect(201);
    let path = format!("{works}/w");
    let well = |work: &Value| {
        let held = crate::stage::condition(work, "Available");
        (held["status"] == "True" && crate::stage::condition(work, "Applied")["status"] == "True")
            .then_some(())
    };
    stage.until(&path, "is applied", well).await;
    stage.hub.delete(&path).await.expect(200);
    eventually("the work is gone", || async { (stage.hub.get(&path).await.status == 404).then_some(()) })
        .await;

    let agent = as_user(stage.hub.client(), &user);
    for path in [
        "/apis/cluster.open-cluster-management.io/v1/managedclusters",
        "/apis/cluster.open-cluster-management.io/v1/managedclusters/another",
        "/apis/work.open-cluster-management.io/v1/manifestworks",
        "/apis/work.open-cluster-management.io/v1/namespaces/default/manifestworks",
        "/apis/addon.open-cluster-management.io/v1alpha1/namespaces/default/managedclusteraddons",
        "/api/v1/secrets",
    ] {
        let request = Request::get(path).body(Body::from(Vec::new())).unwrap();
        assert_eq!(agent.send(request).await.unwrap().status(), 403, "{path}");
    }
}
