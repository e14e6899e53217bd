//! `bellwether run sentinel` and `run adapter` as `deploy/` deploys them on real Kubernetes: with its arguments, configuration files and
//! permissions.

use std::path::PathBuf;

use axum::http::Method;
use bellwether_fleet::client::ListOf;
use bellwether_fleet::resource::Resource;
use bellwether_testkit::eventually;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::kubernetes::Kubernetes;
use crate::server::{FleetApi, Server, bellwether, fleet_api};

const NAMESPACE: &str = "bellwether-fleet";

fn get(kubernetes: &Kubernetes, object: &str) -> Value {
    serde_json::from_str(&kubernetes.kubectl(&format!("get {object} -n {NAMESPACE} -o json"))).unwrap()
}

/// Runs the container of a Deployment as a process, with the ServiceAccount of its pods.
fn run_deployment(kubernetes: &Kubernetes, name: &str, api: &FleetApi, broker: &str) -> Server {
    let deployment = get(kubernetes, &format!("deployment {name}"));
    let pod = &deployment["spec"]["template"]["spec"];
    let dir: PathBuf = kubernetes.dir.path().join(name);
    std::fs::create_dir(&dir).unwrap();
    let config_map =
        get(kubernetes, &format!("configmap {}", pod["volumes"][0]["configMap"]["name"].as_str().unwrap()));
    for (file, text) in config_map["data"].as_object().unwrap() {
        std::fs::write(dir.join(file), text.as_str().unwrap()).unwrap();
    }
    let mounted = pod["containers"][0]["volumeMounts"][0]["mountPath"].as_str().unwrap();
    let arguments = pod["containers"][0]["args"].as_array().unwrap().iter().filter_map(Value::as_str);
    let arguments = arguments.filter(|one| !one.starts_with("--listen=") && !one.starts_with("--log-format"));
    let arguments: Vec<String> = arguments.map(|one| one.replace(mounted, dir.to_str().unwrap())).collect();
    let mut command = bellwether(arguments.iter().map(String::as_str));
    let account = pod["serviceAccountName"].as_str().unwrap();
    command.args(["--listen=127.0.0.1:0", "--api", api.address()]).env("RUST_LOG", "info");
    command.env("BELLWETHER_BROKER", broker).env("KUBECONFIG", kubernetes.kubeconfig_of(account, NAMESPACE));
    let process = Server::launch(&kubernetes.dir.path().join(format!("{name}-process")), &mut command);
    process.line();
    process
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_and_adapter_need_only_the_permissions_of_deploy() {
    let kubernetes = Kubernetes::new("fleet").await;
    kubernetes.kubectl("apply -k deploy/sentinel");
    kubernetes.kubectl("apply -k deploy/examples/adapter/namespace");
    let dir = kubernetes.dir.path();
    let config = dir.join("fleet.yaml");
    std::fs::write(&config, "entities: [{kind: Cluster, plural: clusters, required_adapters: [namespace]}]")
        .unwrap();
    let database = format!("sqlite:{}", dir.join("fleet.db").display());
    let api = FleetApi::start(&dir.join("fleet"), fleet_api(&database).arg("--config").arg(&config));
    let broker = format!("sqlite:{}", dir.join("queue.db").display());
    let mut adapter = run_deployment(&kubernetes, "adapter-namespace", &api, &broker);
    let mut sentinel = run_deployment(&kubernetes, "sentinel", &api, &broker);

    let client = api.client();
    let body = json!({"kind": "Cluster", "name": "abc", "spec": {"region": "eu-west-1"}});
    let created: Resource = client.call(Method::POST, "/clusters", Some(&body)).await.unwrap();
    let is_ready = "/clusters?search=status.conditions.Ready='True'";
    let count =
        async |query: &str| client.call::<ListOf<Resource>>(Method::GET, query, None).await.unwrap().total;
    eventually("the cluster is ready", || async { (count(is_ready).await == 1).then_some(()) }).await;
    let namespace = format!("namespace cluster-{}", created.id);
    assert_eq!(get(&kubernetes, &namespace)["status"]["phase"], "Active");

    // A new generation is applied, and a field that somebody changes is repaired at the next pulse.
    let config_map = format!("configmap cluster-config -n cluster-{}", created.id);
    for region in ["eu-west-2", "eu-west-3"] {
        kubernetes
            .kubectl(&format!("patch {config_map} --type merge -p {{\"data\":{{\"region\":\"nowhere\"}}}}"));
        let body = json!({"spec": {"region": region}});
        client.call_raw(Method::PATCH, &format!("/clusters/{}", created.id), Some(&body)).await.unwrap();
        kubernetes.wait_for(&config_map, ".data.region", region).await;
    }
    eventually("the cluster is ready again", || async { (count(is_ready).await == 1).then_some(()) }).await;

    client.call_raw(Method::DELETE, &format!("/clusters/{}", created.id), None).await.unwrap();
    eventually("the cluster is gone", || async { (count("/clusters").await == 0).then_some(()) }).await;
    kubernetes.wait_for_deletion(&namespace).await;
    for process in [&mut adapter, &mut sentinel] {
        assert_eq!(process.signal(Signal::TERM).code(), Some(0), "{}", process.log());
        let log = process.log().to_lowercase();
        assert!(!log.contains("forbidden") && !log.contains("unauthorized"), "{log}");
    }
}
