//! Credentials of `up`: what they allow and what they do not, and the audit log of their requests.

use std::path::Path;

use bellwether_testkit::eventually;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding};
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::server::{Server, up};

/// A client with a kubeconfig that `up` wrote, after `change` has modified it.
async fn client_of(path: &Path, change: impl FnOnce(&mut Value)) -> kube::Client {
    let mut config: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    change(&mut config);
    let config: Kubeconfig = serde_json::from_value(config).unwrap();
    let mut config =
        kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    config.default_retry = false;
    kube::Client::try_from(config).unwrap()
}

fn code<T>(outcome: kube::Result<T>) -> u16 {
    match outcome {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(other) => panic!("{other}"),
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_can_use_only_its_own_namespace_on_the_hub() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data, up(&data).args(["--no-demo", "--spokes", "2"]));
    let agent = client_of(&data.join("agents/spoke-1.kubeconfig"), |_| {}).await;
    let leases = |namespace: &str| -> Api<k8s_openapi::api::coordination::v1::Lease> {
        Api::namespaced(agent.clone(), namespace)
    };
    let lease = serde_json::from_value(json!({"metadata": {"name": "alive"}})).unwrap();
    let create = PostParams::default();
    let all = ListParams::default();
    assert_eq!(code(leases("spoke-1").create(&create, &lease).await), 200);
    assert_eq!(code(leases("spoke-2").create(&create, &lease).await), 403);
    assert_eq!(code(leases("spoke-2").get("alive").await), 403);
    assert_eq!(code(leases("default").list(&all).await), 403);
    for namespace in ["spoke-1", "spoke-2", "default", "kube-system"] {
        assert_eq!(code(Api::<Secret>::namespaced(agent.clone(), namespace).list(&all).await), 403);
    }
    assert_eq!(code(Api::<Secret>::all(agent.clone()).list(&all).await), 403);
    assert_eq!(code(Api::<Namespace>::all(agent.clone()).list(&all).await), 403);
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "mine"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bellwether:spoke-agent"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bellwether:agent:spoke-1"}],
    }))
    .unwrap();
    for namespace in ["spoke-1", "spoke-2"] {
        let bindings: Api<RoleBinding> = Api::namespaced(agent.clone(), namespace);
        assert_eq!(code(bindings.create(&create, &binding).await), 403);
        assert_eq!(code(bindings.delete("bellwether:spoke-agent", &DeleteParams::default()).await), 403);
    }

    // The same certificate has no permissions on spokes, not even on its own.
    for spoke in ["spoke-1", "spoke-2"] {
        let spoke_client = client_of(&data.join("agents/spoke-1.kubeconfig"), |config| {
            let server = &mut config["clusters"][0]["cluster"]["server"];
            *server = format!("{}/clusters/{spoke}", server.as_str().unwrap()).into();
        })
        .await;
        assert_eq!(code(Api::<ConfigMap>::namespaced(spoke_client, "default").list(&all).await), 403);
    }
    drop(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn token_is_valid_after_a_restart_and_only_on_its_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut server = Server::start(&data, up(&data).args(["--no-demo", "--spokes", "1"]));
    let accounts: Api<ServiceAccount> = Api::namespaced(server.client("hub").await, "default");
    let account = ServiceAccount { metadata: named("robot"), ..ServiceAccount::default() };
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let request = serde_json::from_value(json!({"metadata": {}, "spec": {"audiences": []}})).unwrap();
    let token = accounts.create_token_request("robot", &PostParams::default(), &request).await.unwrap();
    let token = token.status.unwrap().token;
    server.terminate();
    let server = Server::start(&data, up(&data).args(["--no-demo", "--spokes", "1"]));

    let bearer = |path: &'static str, token: String| {
        let kubeconfig = data.join("kubeconfig");
        async move {
            let client = client_of(&kubeconfig, |config| {
                config["users"][0]["user"] = json!({"token": token});
                let server = &mut config["clusters"][0]["cluster"]["server"];
                *server = format!("{}{path}", server.as_str().unwrap()).into();
            })
            .await;
            code(Api::<ConfigMap>::namespaced(client, "default").list(&ListParams::default()).await)
        }
    };
    // Authenticated, but without permissions.
    assert_eq!(bearer("", token.clone()).await, 403);
    assert_eq!(bearer("/clusters/spoke-1", token.clone()).await, 401);
    assert_eq!(bearer("/clusters/nowhere", token.clone()).await, 401);
    assert_eq!(bearer("", format!("{token}x")).await, 401);
    drop(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn break_glass_kubeconfig_works_and_a_restart_restores_the_admin_binding() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut server = Server::start(&data, up(&data).args(["--no-demo", "--spokes", "0"]));
    let admin = server.client("hub").await;
    let bindings: Api<ClusterRoleBinding> = Api::all(admin.clone());
    bindings.delete("bellwether:admins", &DeleteParams::default()).await.unwrap();
    assert_eq!(code(bindings.list(&ListParams::default()).await), 403);
    let master = client_of(&data.join("pki/break-glass.kubeconfig"), |_| {}).await;
    assert_eq!(code(Api::<ClusterRoleBinding>::all(master).list(&ListParams::default()).await), 200);
    server.terminate();
    let server = Server::start(&data, up(&data).args(["--no-demo", "--spokes", "0"]));
    let bindings: Api<ClusterRoleBinding> = Api::all(server.client("hub").await);
    assert_eq!(code(bindings.get("bellwether:admins").await), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_log_has_all_requests_without_their_bodies_and_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data, up(&data).args(["--no-demo", "--spokes", "0"]));
    let secrets: Api<Secret> = Api::namespaced(server.client("hub").await, "default");
    let secret = Secret {
        metadata: named("password"),
        string_data: Some([("key".to_owned(), "do-not-tell".to_owned())].into()),
        ..Secret::default()
    };
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    secrets.get("password").await.unwrap();
    let unauthenticated = client_of(&data.join("kubeconfig"), |config| {
        config["users"][0]["user"] = json!({"token": "nonsense-token"});
    })
    .await;
    assert_eq!(code(Api::<Secret>::all(unauthenticated).list(&ListParams::default()).await), 401);

    let lines = || -> Vec<Value> {
        let text = std::fs::read_to_string(data.join("audit.log")).unwrap();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    let secret_entries = || {
        let about = |line: &Value| line["objectRef"]["resource"] == "secrets";
        lines().into_iter().filter(about).collect::<Vec<Value>>()
    };
    eventually("the audit log has the three requests", || async {
        (secret_entries().len() >= 3).then_some(())
    })
    .await;
    let found = secret_entries();
    let brief = |line: &Value| {
        json!([
            line["verb"],
            line["user"]["username"],
            line["responseStatus"]["code"],
            line["objectRef"]["name"]
        ])
    };
    let briefs: Vec<Value> = found.iter().map(brief).collect();
    assert!(briefs.contains(&json!(["create", "admin", 201, "password"])), "{briefs:?}");
    assert!(briefs.contains(&json!(["get", "admin", 200, "password"])), "{briefs:?}");
    assert!(briefs.contains(&json!(["list", null, 401, null])), "{briefs:?}");
    let text = std::fs::read_to_string(data.join("audit.log")).unwrap();
    for hidden in ["do-not-tell", "ZG8tbm90LXRlbGw=", "nonsense-token"] {
        assert!(!text.contains(hidden), "{hidden}");
    }
    assert!(found.iter().all(|line| line["level"] == "Metadata" && line["sourceIPs"][0] == "127.0.0.1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_on_the_tls_port_require_a_permission() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data, up(&data).args(["--no-demo", "--spokes", "1"]));
    let metrics = || http::Request::get("/metrics").body(Vec::new()).unwrap();
    let text = server.client("hub").await.request_text(metrics()).await.unwrap();
    for series in [
        "apiserver_request_total{",
        "apiserver_request_duration_seconds_bucket{",
        "bellwether_store_revision",
    ] {
        assert!(text.contains(series), "{series} is missing:\n{text}");
    }
    let agent = client_of(&data.join("agents/spoke-1.kubeconfig"), |_| {}).await;
    assert_eq!(code(agent.request_text(metrics()).await), 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_of_up_get_no_403_and_are_not_system_masters() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut server = Server::start(&data, up(&data).args(["--spokes", "1"]));
    let addon = std::fs::read_to_string("../../deploy/examples/reference-addon.yaml").unwrap();
    let addon: Value = serde_saphyr::from_str(addon.split("\n---\n").next().unwrap()).unwrap();
    let resource = kube::core::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(
        "addons.managed.openshift.io",
        "v1alpha1",
        "Addon",
    ));
    let addons: Api<kube::core::DynamicObject> = Api::all_with(server.client("spoke-1").await, &resource);
    let addon: kube::core::DynamicObject = serde_json::from_value(addon).unwrap();
    addons.create(&PostParams::default(), &addon).await.unwrap();
    let name = addon.metadata.name.clone().unwrap();
    eventually("the Addon is ready", || async {
        let addon = addons.get(&name).await.unwrap();
        (addon.data["status"]["phase"] == "Ready").then_some(())
    })
    .await;
    assert!(server.terminate().success());
    let text = std::fs::read_to_string(data.join("audit.log")).unwrap();
    let ours = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ours: Vec<Value> = ours
        .filter(|line| line["user"]["username"].as_str().is_some_and(|user| user.starts_with("bellwether:")))
        .collect();
    let forbidden: Vec<&Value> = ours.iter().filter(|line| line["responseStatus"]["code"] == 403).collect();
    assert!(forbidden.is_empty(), "{forbidden:#?}");
    let users = |user: &str| ours.iter().any(|line| line["user"]["username"] == user);
    for user in
        ["bellwether:addon-controller", "bellwether:heartbeat-checker", "bellwether:workload-simulator"]
    {
        assert!(users(user), "{user} sent no request");
    }
    let masters = |line: &&Value| {
        line["user"]["groups"].as_array().is_some_and(|groups| groups.contains(&json!("system:masters")))
    };
    assert!(!ours.iter().any(|line| masters(&line)), "a controller is in the group system:masters");
}
