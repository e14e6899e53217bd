//! `bellwether run agent` on real Kubernetes: the permissions of `deploy/agent` are sufficient, and so are those of
//! `deploy/examples/heartbeat-sidecar.yaml` for a sidecar; and of several replicas one is the leader.

use std::time::{Duration, Instant};

use bellwether_testkit::eventually;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::kubernetes::Kubernetes;
use crate::server::{Server, bellwether, run};

const LEADING: &str = r#"bellwether_leading{cluster="local",controller="addon-controller"}"#;

/// How long the Lease of a killed leader is valid.
const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long a standby may take to become the leader after the Lease is released or has expired.
const TAKEOVER_TIMEOUT: Duration = Duration::from_secs(1);

const HEALTHY: &str = "addoninstance addon-instance -n reference-addon";
const REASON: &str = r".status.conditions[?(@.type=='addons.managed.openshift.io/Healthy')].reason";
const LEASE: &str = "lease bellwether-agent -n bellwether-agent";

#[tokio::test]
async fn permissions_of_deploy_agent_are_sufficient() {
    let cluster = Kubernetes::new("agent-rights").await;
    cluster.kubectl("apply -k deploy/agent");
    let kubeconfig = cluster.kubeconfig_of("bellwether-agent", "bellwether-agent");
    let mut agent = Agent::start(&cluster.dir.path().join("agent"), &kubeconfig, &[]);
    eventually("the agent is the leader", || async { (agent.metric(LEADING)? == "1").then_some(()) }).await;
    assert_ne!(cluster.kubectl(&format!("get {LEASE} -o jsonpath={{.spec.holderIdentity}}")), "");

    cluster.kubectl("apply -f deploy/examples/reference-addon.yaml");
    cluster.wait_for("addon reference-addon", ".status.phase", "Ready").await;
    check_sidecar_permissions(&cluster).await;
    check_event_of_an_invalid_period(&cluster).await;
    check_labels_of_an_existing_namespace(&cluster).await;
    check_mark_for_deletion(&cluster).await;
    cluster.kubectl("apply -f deploy/examples/pause-all.yaml");
    cluster.wait_for("addonoperator addon-operator", ".status.phase", "Ready").await;
    cluster.wait_for("addon guest", ".status.conditions[?(@.type=='Paused')].status", "True").await;
    cluster.kubectl("delete addon reference-addon");

    for permission in
        ["delete namespaces", "get secrets -n bellwether-agent", "update addons", "delete leases"]
    {
        assert!(
            !cluster.can("bellwether-agent", "bellwether-agent", permission),
            "the agent can {permission}"
        );
    }
    assert_eq!(agent.process.signal(Signal::TERM).code(), Some(0), "{}", agent.process.log());
    assert_eq!(cluster.kubectl(&format!("get {LEASE} -o jsonpath={{.spec.holderIdentity}}")), "");
    let log = agent.process.log().to_lowercase();
    assert!(!log.contains("forbidden") && !log.contains("unauthorized"), "{log}");
}

/// Runs the sidecar of the example, with its arguments and its ServiceAccount: it sends heartbeats, stops, and sends another one.
async fn check_sidecar_permissions(cluster: &Kubernetes) {
    cluster.kubectl("apply -f deploy/examples/heartbeat-sidecar.yaml");
    let period = json!({"spec": {"heartbeatUpdatePeriod": "2s"}}).to_string();
    cluster.kubectl(&format!("patch {HEALTHY} --type merge -p {period}"));
    let kubeconfig = cluster.kubeconfig_of("reference-addon", "reference-addon");
    let deployment = cluster.kubectl("get deployment reference-addon -n reference-addon -o json");
    let deployment: Value = serde_json::from_str(&deployment).unwrap();
    let arguments = &deployment["spec"]["template"]["spec"]["containers"][1]["args"];
    let arguments = arguments.as_array().unwrap().iter().filter_map(Value::as_str);

    let mut sidecar = Server::launch(
        &cluster.dir.path().join("sidecar"),
        bellwether(arguments).env("KUBECONFIG", &kubeconfig),
    );
    assert!(sidecar.line().contains("sent reference-addon/addon-instance with Healthy=True (ComponentsUp)"));
    cluster.wait_for(HEALTHY, REASON, "ComponentsUp").await;
    assert_eq!(sidecar.signal(Signal::TERM).code(), Some(0), "{}", sidecar.log());
    cluster.wait_for(HEALTHY, REASON, "HeartbeatTimeout").await;
    let sent = run(bellwether(["heartbeat", "send", "--kubeconfig"]).arg(&kubeconfig));
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    cluster.wait_for(HEALTHY, REASON, "ReceivingHeartbeats").await;

    for permission in ["list addoninstances", "update addoninstances", "patch addoninstances", "get addons"] {
        let permission = format!("{permission} -n reference-addon");
        assert!(
            !cluster.can("reference-addon", "reference-addon", &permission),
            "the sidecar can {permission}"
        );
    }
}

async fn check_event_of_an_invalid_period(cluster: &Kubernetes) {
    cluster.kubectl("create namespace odd");
    cluster.apply(&json!({
        "apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "AddonInstance",
        "metadata": {"name": "odd", "namespace": "odd"}, "spec": {"heartbeatUpdatePeriod": "banana"},
    }));
    cluster.wait_for("events -n odd", ".items[*].reason", "InvalidHeartbeatUpdatePeriod").await;
    // Another invalid period increments the count of the same Event.
    let period = json!({"spec": {"heartbeatUpdatePeriod": "pear"}}).to_string();
    cluster.kubectl(&format!("patch addoninstance odd -n odd --type merge -p {period}"));
    cluster.wait_for("events.events.k8s.io -n odd", ".items[*].series.count", "2").await;
}

async fn check_labels_of_an_existing_namespace(cluster: &Kubernetes) {
    cluster.kubectl("create namespace there-before");
    cluster.apply(&json!({
        "apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "Addon", "metadata": {"name": "guest"},
        "spec": {
            "displayName": "Guest", "commonLabels": {"team": "guests"}, "namespaces": [{"name": "there-before"}],
            "install": {"type": "External", "external": {"namespace": "there-before"}},
        },
    }));
    cluster.wait_for("namespace there-before", ".metadata.labels.team", "guests").await;
    cluster.wait_for("addon guest", ".status.phase", "Ready").await;
}

async fn check_mark_for_deletion(cluster: &Kubernetes) {
    cluster.kubectl("apply -f deploy/examples/careful-addon.yaml");
    cluster
        .wait_for("addon careful-addon", ".status.conditions[*].reason", "AddonInstanceNotInstalled")
        .await;
    cluster.kubectl("annotate addon careful-addon addons.managed.openshift.io/delete=");
    cluster
        .wait_for("addoninstance addon-instance -n careful-addon", ".spec.markedForDeletion", "true")
        .await;
}

#[tokio::test]
async fn standby_takes_over_when_the_leader_is_killed_or_stopped() {
    let cluster = Kubernetes::new("agents").await;
    let start = |name: &str| Agent::start(&cluster.dir.path().join(name), &cluster.kubeconfig, &[]);
    let wait_until_leader = async |agent: &Agent| {
        eventually("the agent is the leader", || async { (agent.metric(LEADING)? == "1").then_some(()) })
            .await;
    };
    let mut first = start("first");
    wait_until_leader(&first).await;
    let mut second = start("second");
    cluster.kubectl("apply -f deploy/examples/reference-addon.yaml");
    cluster.wait_for("addon reference-addon", ".status.phase", "Ready").await;
    assert_eq!(second.metric(LEADING).as_deref(), Some("0"));

    first.process.kill();
    let killed = Instant::now();
    cluster.kubectl("delete addon reference-addon --wait=false");
    wait_until_leader(&second).await;
    println!("the second agent became leader {:?} after the first was killed", killed.elapsed());
    assert!(killed.elapsed() <= LEASE_DURATION + TAKEOVER_TIMEOUT, "{:?}", killed.elapsed());
    // The first agent did not remove the finalizer.
    eventually("the finalizer of the Addon is removed", || async {
        cluster.try_kubectl(["get", "addon", "reference-addon"]).is_err().then_some(())
    })
    .await;

    let third = start("third");
    eventually("the third is ready", || async { third.is_ready().then_some(()) }).await;
    let stopped = Instant::now();
    assert_eq!(second.process.signal(Signal::TERM).code(), Some(0), "{}", second.process.log());
    wait_until_leader(&third).await;
    println!("the third agent became leader {:?} after SIGTERM of the second", stopped.elapsed());
    assert!(stopped.elapsed() <= TAKEOVER_TIMEOUT, "{:?}", stopped.elapsed());
}
