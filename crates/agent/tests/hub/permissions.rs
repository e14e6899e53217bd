//! An agent with exactly the permissions of `deploy/` can do its work, and cannot access objects of another cluster.

use bellwether_agent::{lease, mirror, work};
use bellwether_testkit::{Cluster, eventually};
use http::{HeaderValue, Request};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::fixture::Fixture;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const ON_THE_HUB: &str = include_str!("../../../../deploy/hub/spoke-agent.yaml");
const JOINING: &str = include_str!("../../../../deploy/examples/join-cluster.yaml");
const ON_THE_CLUSTER: &str = include_str!("../../../../deploy/spoke/rbac.yaml");

/// A client that impersonates a user.
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

/// The ClusterRole of an agent for its own ManagedCluster, and its ClusterRoleBinding.
fn own_cluster(cluster: &str, user: &str) -> Vec<Value> {
    let objects = documents(&JOINING.replace("my-cluster", cluster)).into_iter();
    let mut own: Vec<Value> =
        objects.filter(|object| object["kind"].as_str().unwrap().starts_with("ClusterRole")).collect();
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user});
    own[1]["subjects"] = json!([subject]);
    own
}

async fn create(cluster: &Cluster, object: &Value) {
    let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
    let path = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{RBAC}/namespaces/{namespace}/{plural}"),
        None => format!("{RBAC}/{plural}"),
    };
    let response = cluster.post(path, object).await;
    assert!(matches!(response.status, 201 | 409), "{}", response.text());
}

fn binding(kind: &str, name: &str, namespace: Option<&str>, role: &str, user: &str) -> Value {
    let group = "rbac.authorization.k8s.io";
    json!({
        "apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    })
}

pub(crate) async fn deployed_permissions_are_sufficient_and_minimal(fixture: &Fixture<'_>) {
    let cluster = fixture.cluster.as_str();
    let user = format!("bellwether:agent:{cluster}");
    for object in documents(ON_THE_HUB).into_iter().chain(own_cluster(cluster, &user)) {
        create(fixture.hub, &object).await;
    }
    create(fixture.hub, &binding("RoleBinding", "agent", Some(cluster), "bellwether:spoke-agent", &user))
        .await;
    for role in documents(ON_THE_CLUSTER).iter().filter(|object| object["kind"] == "ClusterRole") {
        create(fixture.spoke, role).await;
    }
    for name in [work::NAME, mirror::NAME, lease::NAME] {
        let name = format!("bellwether:{name}");
        create(fixture.spoke, &binding("ClusterRoleBinding", &name, None, &name, &name)).await;
    }

    let mut tasks = JoinSet::new();
    let agent = || fixture.agent_with(as_user(fixture.hub.client(), &user));
    let context =
        |name: &str| Fixture::context_with(as_user(fixture.spoke.client(), &format!("bellwether:{name}")));
    tasks.spawn(work::run(agent(), context(work::NAME)));
    tasks.spawn(lease::run(agent(), context(lease::NAME)));
    tasks.spawn(mirror::run(agent(), context(mirror::NAME)));

    fixture.create_cluster(json!({"hubAcceptsClient": true})).await;
    let exists = |lease: &Value| lease["spec"]["renewTime"].is_string().then_some(());
    fixture.wait_for(&fixture.lease_path(), "exists", exists).await;
    let joined = |cluster: &Value| cluster["status"]["version"]["kubernetes"].is_string().then_some(());
    fixture.wait_for(&fixture.cluster_path(), "has joined", joined).await;

    fixture.create_addon("metrics").await;
    fixture.create_instance("i", "metrics").await;
    fixture.report_health("i", "Unknown", "HeartbeatTimeout", 1).await;
    fixture.wait_for_heartbeat("metrics", "Unknown", "HeartbeatTimeout").await;

    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "r", "namespace": fixture.namespace},
        "rules": [{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["frobnicate"]}]});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": fixture.namespace}});
    let work = json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": "w"}, "spec": {"workload": {"manifests": [role, map]}}});
    let works = format!("/apis/work.open-cluster-management.io/v1/namespaces/{cluster}/manifestworks");
    fixture.hub.post(&works, &work).await.expect(201);
    let path = format!("{works}/w");
    let is_available = |work: &Value| {
        let available = crate::fixture::condition(work, "Available");
        (available["status"] == "True" && crate::fixture::condition(work, "Applied")["status"] == "True")
            .then_some(())
    };
    fixture.wait_for(&path, "is applied and available", is_available).await;
    fixture.hub.delete(&path).await.expect(200);
    eventually("the ManifestWork is deleted", || async {
        (fixture.hub.get(&path).await.status == 404).then_some(())
    })
    .await;

    let agent = as_user(fixture.hub.client(), &user);
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
