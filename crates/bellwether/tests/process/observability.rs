//! `bellwether observability status`, and metrics in the demo of `up`: what the hub shows while a user breaks forwarding.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;

use bellwether_api::observability::ObservabilityAddon;
use bellwether_testkit::eventually;
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::server::{Ended, Server, bellwether, get, run, up};

/// Runs `bellwether observability status` on the hub of a server.
fn status(server: &Server, arguments: &[&str]) -> Ended {
    let mut command = bellwether(["observability", "status", "--kubeconfig"]);
    run(command.arg(server.kubeconfig()).args(arguments))
}

/// The states by cluster, the most urgent first.
fn states(server: &Server) -> Vec<String> {
    let ended = status(server, &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let cells = |line: &str| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    ended.stdout.lines().skip(1).map(cells).collect()
}

async fn wait_for_states(server: &Server, wanted: &[&str]) {
    eventually(&format!("the states are {wanted:?}"), || async { (states(server) == wanted).then_some(()) })
        .await;
}

#[tokio::test]
async fn metrics_of_every_spoke_are_forwarded_in_the_demo() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let arguments = ["--spokes", "2", "--simulate-delay", "100ms"];
    let mut server = Server::start(&dir, up(&dir).args(arguments));
    wait_for_states(&server, &["spoke-1 Available", "spoke-2 Available"]).await;
    let http = server.address("http").strip_prefix("http://").unwrap().to_owned();
    let (_, received) = get(&http, "/demo/receiver/metrics");
    for series in [
        r#"up{cluster="spoke-2",job="kube-state-metrics"} 1"#,
        r#"kube_deployment_spec_replicas{cluster="spoke-1",deployment="metrics-collector-deployment",namespace="open-cluster-management-addon-observability"} 1"#,
    ] {
        assert!(received.lines().any(|line| line == series), "{series} is missing in\n{received}");
    }

    // A Prometheus that fails makes the state Degraded on this cluster only, and recovers.
    let services: Api<Service> = Api::namespaced(server.client("spoke-2").await, "openshift-monitoring");
    let annotate =
        |value: Value| Patch::Merge(json!({"metadata": {"annotations": {"bellwether.io/simulate": value}}}));
    services.patch("prometheus-k8s", &PatchParams::default(), &annotate(json!("fail"))).await.unwrap();
    wait_for_states(&server, &["spoke-2 Degraded", "spoke-1 Available"]).await;
    let shown = status(&server, &["spoke-2", "-o", "wide"]).stdout;
    assert!(shown.contains("ForwardFailure") && shown.contains("answered 503"), "{shown}");
    services.patch("prometheus-k8s", &PatchParams::default(), &annotate(Value::Null)).await.unwrap();
    wait_for_states(&server, &["spoke-1 Available", "spoke-2 Available"]).await;

    services.delete("prometheus-k8s", &DeleteParams::default()).await.unwrap();
    wait_for_states(&server, &["spoke-2 NotSupported", "spoke-1 Available"]).await;

    // What a user has changed stays so after a restart, also on another HTTP port.
    assert!(server.terminate().success());
    let server = Server::start(&dir, up(&dir).args(arguments));
    wait_for_states(&server, &["spoke-2 NotSupported", "spoke-1 Available"]).await;
}

#[tokio::test]
async fn formats_and_errors() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let server = Server::start(&dir, up(&dir).args(["--no-demo", "--spokes", "2"]));
    let empty = status(&server, &[]);
    assert_eq!((empty.code, empty.stdout.as_str()), (Some(0), ""));
    assert_eq!(empty.stderr, "There are no ObservabilityAddons named observability-addon.\n");
    let addons: Api<ObservabilityAddon> = Api::namespaced(server.client("hub").await, "spoke-1");
    let addon = json!({"metadata": {"name": "observability-addon"}, "spec": {}});
    addons.create(&Default::default(), &serde_json::from_value(addon).unwrap()).await.unwrap();

    let missing = status(&server, &["spoke-3"]);
    assert_eq!(missing.code, Some(1));
    assert_eq!(
        missing.stderr,
        "error: there is no ObservabilityAddon observability-addon in the namespace spoke-3; these clusters have one: spoke-1\n"
    );
    assert_eq!(status(&server, &["Spoke 3"]).code, Some(2));
    // Without Prometheus on the spoke, the endpoint operator says so.
    wait_for_states(&server, &["spoke-1 NotSupported"]).await;
    let list: Value = serde_json::from_str(&status(&server, &["-o", "json"]).stdout).unwrap();
    assert_eq!((&list["kind"], &list["items"][0]["kind"]), (&json!("List"), &json!("ObservabilityAddon")));
    assert!(status(&server, &["-o", "yaml"]).stdout.starts_with("apiVersion: v1\n"));
    assert_eq!(
        status(&server, &["-o", "name"]).stdout,
        "observabilityaddon.observability.open-cluster-management.io/observability-addon -n spoke-1\n"
    );
}

/// Creates the Service of the platform's Prometheus.
async fn create_service(client: &kube::Client) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = json!({"metadata": {"name": "openshift-monitoring"}});
    namespaces.create(&Default::default(), &serde_json::from_value(namespace).unwrap()).await.unwrap();
    let services: Api<Service> = Api::namespaced(client.clone(), "openshift-monitoring");
    let service = json!({"metadata": {"name": "prometheus-k8s"}, "spec": {"ports": [{"port": 9091}]}});
    services.create(&Default::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
}

#[tokio::test]
async fn agent_reads_the_kubeconfig_of_the_hub_again_when_it_is_rejected() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let without_agents =
        "--controllers=-work-agent,-cluster-lease,-heartbeat-mirror,-endpoint-operator,-observability-status";
    let server = Server::start(&dir, up(&dir).args(["--no-demo", "--spokes", "1", without_agents]));
    let valid = std::fs::read_to_string(dir.join("agents/spoke-1.kubeconfig")).unwrap();
    let kubeconfig = parent.path().join("hub.kubeconfig");
    std::fs::write(&kubeconfig, &valid).unwrap();
    let arguments = ["--context", "spoke-1", "--cluster-name", "spoke-1", "--leader-election=false"];
    let hub_arguments = ["--hub-kubeconfig", kubeconfig.to_str().unwrap()];
    let log = parent.path().join("agent");
    let agent = Agent::start(&log, &server.kubeconfig(), &[&arguments[..], &hub_arguments].concat());
    let addons: Api<ObservabilityAddon> = Api::namespaced(server.client("hub").await, "spoke-1");
    let addon = json!({"metadata": {"name": "observability-addon"}, "spec": {}});
    addons.create(&Default::default(), &serde_json::from_value(addon).unwrap()).await.unwrap();
    wait_for_states(&server, &["spoke-1 NotSupported"]).await;

    let mut rejected: Value = serde_saphyr::from_str(&valid).unwrap();
    rejected["users"][0]["user"] = json!({"token": "expired"});
    std::fs::write(&kubeconfig, rejected.to_string()).unwrap();
    // The agent checks its files at most once a second.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    create_service(&server.client("spoke-1").await).await;
    let failures = r#"bellwether_observability_hub_sync_failures_total{cluster="spoke-1",class="denied"}"#;
    eventually("the hub rejects the agent", || async { agent.metric(failures).map(drop) }).await;
    assert_eq!(states(&server), ["spoke-1 NotSupported"]);
    std::fs::write(&kubeconfig, &valid).unwrap();
    wait_for_states(&server, &["spoke-1 Degraded"]).await;
}

#[tokio::test]
async fn watch_prints_a_line_for_each_change() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let server = Server::start(&dir, up(&dir).args(["--spokes", "1"]));
    wait_for_states(&server, &["spoke-1 Available"]).await;
    let watch = |format: &str| {
        let mut command = bellwether(["observability", "status", "--watch", "-o", format, "--kubeconfig"]);
        command.arg(server.kubeconfig()).stdout(Stdio::piped()).spawn().unwrap()
    };
    let (mut lines, mut events) = (watch("table"), watch("json"));
    let mut read_lines = BufReader::new(lines.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut read_events = BufReader::new(events.stdout.take().unwrap()).lines().map(Result::unwrap);
    let without_time = |line: String| line.split_once(' ').unwrap().1.to_owned();
    assert_eq!(without_time(read_lines.next().unwrap()), "spoke-1 Available (ForwardSuccessful)");
    let first: Value = serde_json::from_str(&read_events.next().unwrap()).unwrap();
    assert_eq!(
        (&first["type"], &first["object"]["metadata"]["namespace"]),
        (&json!("ADDED"), &json!("spoke-1"))
    );

    let addons: Api<ObservabilityAddon> = Api::namespaced(server.client("hub").await, "spoke-1");
    let disable = Patch::Merge(json!({"spec": {"enableMetrics": false}}));
    addons.patch("observability-addon", &PatchParams::default(), &disable).await.unwrap();
    let changed = without_time(read_lines.next().unwrap());
    assert_eq!(changed, "spoke-1 Available (ForwardSuccessful) → Disabled (DisabledMetrics)");
    let event: Value = serde_json::from_str(&read_events.next().unwrap()).unwrap();
    assert_eq!(event["type"], "MODIFIED");
    for process in [&mut lines, &mut events] {
        process.kill().unwrap();
        process.wait().unwrap();
    }
}
