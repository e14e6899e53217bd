//! `bellwether run hub` and `run agent` on two clusters of real Kubernetes, with only the permissions of `deploy/`: an add-on is
//! installed on the spoke, upgraded, and deleted, and the spoke forwards its metrics.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bellwether_testkit::eventually;
use bellwether_testkit::prometheus::Prometheus;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::kubernetes::Kubernetes;
use crate::server::{Server, bellwether, run};

const ADDON: &str = "managedclusteraddon helloworld -n my-cluster";
const WORK: &str = "manifestwork addon-helloworld-deploy-0 -n my-cluster";
const REASON: &str = ".status.conditions[?(@.type=='Progressing')].reason";
const DEPLOYMENT: &str = "deployment helloworld -n helloworld";
const IMAGE: &str = ".spec.template.spec.containers[0].image";

fn run_hub(log: &Path, kubeconfig: &Path) -> Server {
    let mut command = bellwether(["run", "hub", "--listen", "127.0.0.1:0", "--kubeconfig"]);
    let process = Server::launch(log, command.arg(kubeconfig).env("RUST_LOG", "info"));
    assert!(process.line().starts_with("The hub of"));
    process
}

/// Runs `bellwether addon` with the arguments of a line, and returns its output.
fn addon(hub: &Kubernetes, line: &str) -> String {
    let ended = run(bellwether(["addon"]).args(line.split(' ')).arg("--kubeconfig").arg(&hub.kubeconfig));
    assert_eq!(ended.code, Some(0), "{line}: {}", ended.stderr);
    ended.stdout
}

/// The rows of a table whose first cell is the cluster, with single spaces.
fn rows(table: &str) -> Vec<String> {
    let cells = |row: &str| row.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
    let rows = table.lines().map(cells).filter(|row| row.first().is_some_and(|first| first == "my-cluster"));
    rows.map(|row| row.join(" ")).collect()
}

/// The configuration of a Prometheus that scrapes a target at which nothing listens, so that it has the series `up`.
const SCRAPES_NOTHING: &str = "scrape_configs: [{job_name: nothing, scrape_interval: 1s, \
    static_configs: [{targets: ['127.0.0.1:9']}]}]\n";
const METRICS: &str = "observabilityaddon observability-addon -n my-cluster";
const METRICS_NAMESPACE: &str = "open-cluster-management-addon-observability";

/// Turns metrics on, runs the collector that is deployed, by its ServiceAccount, and turns metrics off again.
async fn forward_metrics(hub: &Kubernetes, spoke: &Kubernetes, prometheus: &Prometheus) {
    spoke.kubectl("apply -f deploy/examples/platform-monitoring.yaml");
    let info = format!("observatorium-api-endpoint: {}/api/v1/write\n", prometheus.url());
    spoke.apply(&json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "hub-info-secret", "namespace": METRICS_NAMESPACE},
        "data": {"hub-info.yaml": STANDARD.encode(info)}}));
    hub.apply(&json!({"apiVersion": "observability.open-cluster-management.io/v1beta1",
        "kind": "ObservabilityAddon", "spec": {"interval": 15},
        "metadata": {"name": "observability-addon", "namespace": "my-cluster"}}));
    let status = |type_: &str| format!(".status.conditions[?(@.type=='{type_}')].status");
    hub.wait_for(METRICS, &status("Progressing"), "True").await;

    let deployment = format!("get deployment metrics-collector-deployment -n {METRICS_NAMESPACE} -o json");
    let deployment: Value = serde_json::from_str(&spoke.kubectl(&deployment)).unwrap();
    let arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
    let arguments = arguments.iter().filter_map(Value::as_str).filter(|one| !one.starts_with("--listen="));
    let kubeconfig = spoke.kubeconfig_of("metrics-collector", METRICS_NAMESPACE);
    let mut command = bellwether(arguments);
    command.arg("--listen=127.0.0.1:0").env("KUBECONFIG", kubeconfig).env("RUST_LOG", "info");
    let mut collector = Server::launch(&spoke.dir.path().join("collector"), &mut command);
    hub.wait_for(METRICS, &status("Available"), "True").await;
    eventually("the receiver has the series with the label of the cluster", || async {
        (!prometheus.query("up{cluster=\"my-cluster\"}").await.is_empty()).then_some(())
    })
    .await;
    let ended =
        run(bellwether(["observability", "status", "my-cluster", "--kubeconfig"]).arg(&hub.kubeconfig));
    let shown = rows(&ended.stdout);
    let [row] = shown.as_slice() else { panic!("{}{}", ended.stdout, ended.stderr) };
    let cells: Vec<&str> = row.split(' ').collect();
    assert_eq!(cells[1], "Available", "{row}");
    assert_eq!(cells[3..], ["ForwardSuccessful", "DisabledMetrics", "<45s", "ForwardSuccessful"], "{row}");

    assert_eq!(collector.signal(Signal::TERM).code(), Some(0), "{}", collector.log());
    let log = collector.log().to_lowercase();
    assert!(!log.contains("forbidden") && !log.contains("unauthorized"), "{log}");
    hub.kubectl(&format!("delete {METRICS}"));
    hub.wait_for_deletion(METRICS).await;
    spoke.wait_for_deletion(&format!("deployment metrics-collector-deployment -n {METRICS_NAMESPACE}")).await;
}

#[tokio::test]
async fn addon_and_metrics_need_only_the_permissions_of_deploy() {
    let prometheus = Prometheus::start(SCRAPES_NOTHING, &["--web.enable-remote-write-receiver"]);
    let (hub, spoke) = (Kubernetes::new("hub-of-one").await, Kubernetes::new("spoke-of-one").await);
    hub.kubectl("apply -k deploy/hub");
    let kubeconfig = hub.kubeconfig_of("bellwether-hub", "bellwether-hub");
    let log = hub.dir.path().join("hub");
    let mut controllers = run_hub(&log, &kubeconfig);
    hub.kubectl("apply -f deploy/examples/cluster-set.yaml");
    hub.kubectl("apply -f deploy/examples/join-cluster.yaml");
    hub.kubectl("apply -f deploy/examples/helloworld.yaml");

    spoke.kubectl("apply -k deploy/spoke");
    let on_the_hub = hub.kubeconfig_of("bellwether-agent", "my-cluster");
    let on_the_spoke = spoke.kubeconfig_of("bellwether-agent", "bellwether-agent");
    let arguments = [
        "--hub-kubeconfig",
        on_the_hub.to_str().unwrap(),
        "--cluster-name",
        "my-cluster",
        "--leader-election=false",
        "--prometheus",
        &prometheus.url(),
    ];
    let mut agent = Agent::start(&spoke.dir.path().join("agent"), &on_the_spoke, &arguments);

    let available = ".status.conditions[?(@.type=='ManagedClusterConditionAvailable')].status";
    hub.wait_for("managedcluster my-cluster", available, "True").await;
    hub.wait_for(ADDON, ".status.currentVersion", "v1").await;
    hub.wait_for(ADDON, REASON, "Succeed").await;
    spoke.wait_for(DEPLOYMENT, IMAGE, "helloworld:v1").await;

    forward_metrics(&hub, &spoke, &prometheus).await;

    // The add-on is changed while the hub is stopped.
    assert_eq!(controllers.signal(Signal::TERM).code(), Some(0), "{}", controllers.log());
    let change = "my-cluster v1 v2 upgrade default/global-placement 1 at a time";
    assert_eq!(rows(&addon(&hub, "upgrade helloworld --version v2 --dry-run")), [change]);
    let written = "helloworld: default/global-placement requests v2 (was v1)";
    assert!(addon(&hub, "upgrade helloworld --version v2 --yes").contains(written));
    let mut controllers = run_hub(&log, &kubeconfig);
    hub.wait_for(ADDON, ".status.currentVersion", "v2").await;
    hub.wait_for(ADDON, ".status.lastVersion", "v1").await;
    spoke.wait_for(DEPLOYMENT, IMAGE, "helloworld:v2").await;
    // No controller runs Deployments on the spoke, so their availability is unknown.
    let shown = rows(&addon(&hub, "status helloworld"));
    assert!(shown.iter().all(|row| row.starts_with("my-cluster v2 v2 v1 Succeed,Unknown ")), "{shown:?}");
    let back = "my-cluster v2 v1 rollback default/global-placement 1 at a time";
    assert_eq!(rows(&addon(&hub, "rollback helloworld --dry-run")), [back]);

    hub.kubectl("delete clustermanagementaddon helloworld");
    hub.wait_for_deletion(ADDON).await;
    hub.wait_for_deletion(WORK).await;
    spoke.wait_for_deletion(DEPLOYMENT).await;
    hub.kubectl("delete managedcluster my-cluster");
    hub.wait_for_deletion("managedcluster my-cluster").await;
    for (name, process) in [("hub", &mut controllers), ("agent", &mut agent.process)] {
        assert_eq!(process.signal(Signal::TERM).code(), Some(0), "{}", process.log());
        let log = process.log().to_lowercase();
        assert!(!log.contains("forbidden") && !log.contains("unauthorized"), "{name}: {log}");
    }
}
