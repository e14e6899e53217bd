//! `bellwether run hub` and an agent that serves it, on two clusters of real Kubernetes, each with the rights of `deploy/`
//! and no others: an add-on reaches the spoke, goes from version to version, and leaves.

use std::path::Path;

use rustix::process::Signal;

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

/// What a person types, and sees.
fn addon(hub: &Kubernetes, line: &str) -> String {
    let ended = run(bellwether(["addon"]).args(line.split(' ')).arg("--kubeconfig").arg(&hub.kubeconfig));
    assert_eq!(ended.code, Some(0), "{line}: {}", ended.stderr);
    ended.stdout
}

/// The rows of a table that begin with the cluster, with one space between their words.
fn rows(table: &str) -> Vec<String> {
    let words = |row: &str| row.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
    let rows = table.lines().map(words).filter(|row| row.first().is_some_and(|first| first == "my-cluster"));
    rows.map(|row| row.join(" ")).collect()
}

#[tokio::test]
async fn an_addon_reaches_a_real_cluster_and_leaves_it_by_the_rights_that_are_written_down() {
    let (hub, spoke) = (Kubernetes::new("hub-of-one").await, Kubernetes::new("spoke-of-one").await);
    hub.kubectl("apply -k deploy/hub");
    let rights = hub.kubeconfig_of("bellwether-hub", "bellwether-hub");
    let log = hub.dir.path().join("hub");
    let mut controllers = run_hub(&log, &rights);
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
    ];
    let mut agent = Agent::start(&spoke.dir.path().join("agent"), &on_the_spoke, &arguments);

    let available = ".status.conditions[?(@.type=='ManagedClusterConditionAvailable')].status";
    hub.until("managedcluster my-cluster", available, "True").await;
    hub.until(ADDON, ".status.currentVersion", "v1").await;
    hub.until(ADDON, REASON, "Succeed").await;
    spoke.until(DEPLOYMENT, IMAGE, "helloworld:v1").await;

    // The hub goes, and comes back to a change that nobody saw.
    assert_eq!(controllers.signal(Signal::TERM).code(), Some(0), "{}", controllers.log());
    let change = "my-cluster v1 v2 upgrade default/global-placement 1 at a time";
    assert_eq!(rows(&addon(&hub, "upgrade helloworld --version v2 --dry-run")), [change]);
    let asked = "helloworld: default/global-placement asks for v2, v1 before";
    assert!(addon(&hub, "upgrade helloworld --version v2 --yes").contains(asked));
    let mut controllers = run_hub(&log, &rights);
    hub.until(ADDON, ".status.currentVersion", "v2").await;
    hub.until(ADDON, ".status.lastVersion", "v1").await;
    spoke.until(DEPLOYMENT, IMAGE, "helloworld:v2").await;
    // Nothing runs Deployments there.
    let shown = rows(&addon(&hub, "status helloworld"));
    assert!(shown.iter().all(|row| row.starts_with("my-cluster v2 v2 v1 Succeed,Unknown ")), "{shown:?}");
    let back = "my-cluster v2 v1 rollback default/global-placement 1 at a time";
    assert_eq!(rows(&addon(&hub, "rollback helloworld --dry-run")), [back]);

    hub.kubectl("delete clustermanagementaddon helloworld");
    hub.until_gone(ADDON).await;
    hub.until_gone(WORK).await;
    spoke.until_gone(DEPLOYMENT).await;
    hub.kubectl("delete managedcluster my-cluster");
    hub.until_gone("managedcluster my-cluster").await;
    for (name, process) in [("hub", &mut controllers), ("agent", &mut agent.process)] {
        assert_eq!(process.signal(Signal::TERM).code(), Some(0), "{}", process.log());
        let log = process.log().to_lowercase();
        assert!(!log.contains("forbidden") && !log.contains("unauthorized"), "{name}: {log}");
    }
}
