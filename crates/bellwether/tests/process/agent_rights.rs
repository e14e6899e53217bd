//! `bellwether run agent` on real Kubernetes: what `deploy/agent` allows is enough for it, and what
//! `deploy/examples/heartbeat-sidecar.yaml` allows for a sidecar; and of two copies one acts.

use std::time::{Duration, Instant};

use bellwether_testkit::eventually;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::kubernetes::Kubernetes;
use crate::server::{Server, bellwether, run};

const LEADING: &str = r#"bellwether_leading{cluster="local",controller="addon-controller"}"#;

/// How long the Lease of a leader that was killed is held, and how long a standby may take to notice that it is free.
const LEASE_DURATION: Duration = Duration::from_secs(15);
const HANDOVER: Duration = Duration::from_secs(1);

const HEALTHY: &str = "addoninstance addon-instance -n reference-addon";
const REASON: &str = r".status.conditions[?(@.type=='addons.managed.openshift.io/Healthy')].reason";
const LEASE: &str = "lease bellwether-agent -n bellwether-agent";

#[tokio::test]
async fn its_rights_are_enough() {
    let cluster = Kubernetes::new("agent-rights").await;
    cluster.kubectl("apply -k deploy/agent");
    let kubeconfig = cluster.kubeconfig_of("bellwether-agent", "bellwether-agent");
    let mut agent = Agent::start(&cluster.dir.path().join("agent"), &kubeconfig, &[]);
    eventually("it leads", || async { (agent.metric(LEADING)? == "1").then_some(()) }).await;
    assert_ne!(cluster.kubectl(&format!("get {LEASE} -o jsonpath={{.spec.holderIdentity}}")), "");

    cluster.kubectl("apply -f deploy/examples/reference-addon.yaml");
    cluster.until("addon reference-addon", ".status.phase", "Ready").await;
    a_sidecar_has_rights_enough(&cluster).await;
    a_senseless_period_is_told(&cluster).await;
    a_namespace_is_labelled(&cluster).await;
    an_instance_is_marked(&cluster).await;
    cluster.kubectl("apply -f deploy/examples/pause-all.yaml");
    cluster.until("addonoperator addon-operator", ".status.phase", "Ready").await;
    cluster.until("addon guest", ".status.conditions[?(@.type=='Paused')].status", "True").await;
    cluster.kubectl("delete addon reference-addon");

    for what in ["delete namespaces", "get secrets -n bellwether-agent", "update addons", "delete leases"] {
        assert!(!cluster.may("bellwether-agent", "bellwether-agent", what), "it may {what}");
    }
    assert_eq!(agent.process.signal(Signal::TERM).code(), Some(0), "{}", agent.process.log());
    assert_eq!(cluster.kubectl(&format!("get {LEASE} -o jsonpath={{.spec.holderIdentity}}")), "");
    let log = agent.process.log().to_lowercase();
    assert!(!log.contains("forbidden") && !log.contains("unauthorized"), "{log}");
}

/// The sidecar of the example, with its arguments and its account: it beats, it falls silent, and one more beat is heard.
async fn a_sidecar_has_rights_enough(cluster: &Kubernetes) {
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
    cluster.until(HEALTHY, REASON, "ComponentsUp").await;
    assert_eq!(sidecar.signal(Signal::TERM).code(), Some(0), "{}", sidecar.log());
    cluster.until(HEALTHY, REASON, "HeartbeatTimeout").await;
    let sent = run(bellwether(["heartbeat", "send", "--kubeconfig"]).arg(&kubeconfig));
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    cluster.until(HEALTHY, REASON, "ReceivingHeartbeats").await;

    for what in ["list addoninstances", "update addoninstances", "patch addoninstances", "get addons"] {
        let what = format!("{what} -n reference-addon");
        assert!(!cluster.may("reference-addon", "reference-addon", &what), "it may {what}");
    }
}

async fn a_senseless_period_is_told(cluster: &Kubernetes) {
    cluster.kubectl("create namespace odd");
    cluster.apply(&json!({
        "apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "AddonInstance",
        "metadata": {"name": "odd", "namespace": "odd"}, "spec": {"heartbeatUpdatePeriod": "banana"},
    }));
    cluster.until("events -n odd", ".items[*].reason", "InvalidHeartbeatUpdatePeriod").await;
    // The same again is counted on the event that is there.
    let period = json!({"spec": {"heartbeatUpdatePeriod": "pear"}}).to_string();
    cluster.kubectl(&format!("patch addoninstance odd -n odd --type merge -p {period}"));
    cluster.until("events.events.k8s.io -n odd", ".items[*].series.count", "2").await;
}

async fn a_namespace_is_labelled(cluster: &Kubernetes) {
    cluster.kubectl("create namespace there-before");
    cluster.apply(&json!({
        "apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "Addon", "metadata": {"name": "guest"},
        "spec": {
            "displayName": "Guest", "commonLabels": {"team": "guests"}, "namespaces": [{"name": "there-before"}],
            "install": {"type": "External", "external": {"namespace": "there-before"}},
        },
    }));
    cluster.until("namespace there-before", ".metadata.labels.team", "guests").await;
    cluster.until("addon guest", ".status.phase", "Ready").await;
}

async fn an_instance_is_marked(cluster: &Kubernetes) {
    cluster.kubectl("apply -f deploy/examples/careful-addon.yaml");
    cluster.until("addon careful-addon", ".status.conditions[*].reason", "AddonInstanceNotInstalled").await;
    cluster.kubectl("annotate addon careful-addon addons.managed.openshift.io/delete=");
    cluster.until("addoninstance addon-instance -n careful-addon", ".spec.markedForDeletion", "true").await;
}

#[tokio::test]
async fn standby_takes_over_when_the_leader_is_killed_or_stopped() {
    let cluster = Kubernetes::new("agents").await;
    let start = |name: &str| Agent::start(&cluster.dir.path().join(name), &cluster.kubeconfig, &[]);
    let leads = async |agent: &Agent| {
        eventually("it leads", || async { (agent.metric(LEADING)? == "1").then_some(()) }).await;
    };
    let mut first = start("first");
    leads(&first).await;
    let mut second = start("second");
    cluster.kubectl("apply -f deploy/examples/reference-addon.yaml");
    cluster.until("addon reference-addon", ".status.phase", "Ready").await;
    assert_eq!(second.metric(LEADING).as_deref(), Some("0"));

    first.process.kill();
    let killed = Instant::now();
    cluster.kubectl("delete addon reference-addon --wait=false");
    leads(&second).await;
    println!("the second leads {:?} after the first was killed", killed.elapsed());
    assert!(killed.elapsed() <= LEASE_DURATION + HANDOVER, "{:?}", killed.elapsed());
    // The first has left this undone.
    eventually("the finalizer of the Addon is removed", || async {
        cluster.try_kubectl(["get", "addon", "reference-addon"]).is_err().then_some(())
    })
    .await;

    let third = start("third");
    eventually("the third is ready", || async { third.is_ready().then_some(()) }).await;
    let stopped = Instant::now();
    assert_eq!(second.process.signal(Signal::TERM).code(), Some(0), "{}", second.process.log());
    leads(&third).await;
    println!("the third leads {:?} after SIGTERM of the second", stopped.elapsed());
    assert!(stopped.elapsed() <= HANDOVER, "{:?}", stopped.elapsed());
}
