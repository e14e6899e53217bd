//! The requests of the controller: none for heartbeats, none without changes, and retries after conflicts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bellwether_heartbeat::addon::MirrorTimeouts;
use bellwether_testkit::Cluster;
use http::Request;
use kube::client::Body;
use serde_json::{Value, json};

use crate::fixture::{Case, condition, start_controller, start_controller_with, wait_for_reconcile};

/// A client that counts its requests, except watches.
fn counting_client(client: kube::Client) -> (kube::Client, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        // Watches expire and are restarted, whatever happens to the objects.
        if !request.uri().query().unwrap_or_default().contains("watch=true") {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        let client = client.clone();
        async move { client.send(request).await }
    });
    (kube::Client::new(service, "default"), count)
}

pub(crate) async fn heartbeats_cause_no_requests(cluster: &Cluster) {
    let (client, count) = counting_client(cluster.client());
    let _controller = start_controller_with(client, MirrorTimeouts::On);
    let case = Case::create(cluster, json!({"installAckRequired": true})).await;
    case.instance().await;
    case.send_heartbeat(0, Some(("Installed", "True", "SetupComplete"))).await;
    case.wait_until_ready().await;
    wait_for_reconcile(cluster).await;
    let (before, version) =
        (count.load(Ordering::Relaxed), case.read().await["metadata"]["resourceVersion"].clone());
    for second in 1..=100 {
        case.send_heartbeat(second, None).await;
    }
    wait_for_reconcile(cluster).await;
    assert_eq!(count.load(Ordering::Relaxed), before, "heartbeats cause requests");
    assert_eq!(case.read().await["metadata"]["resourceVersion"], version);

    case.send_heartbeat(101, Some(("Installed", "False", "TeardownComplete"))).await;
    case.wait_for_condition("Available", "False", "AddonInstanceNotInstalled").await;
    assert!(count.load(Ordering::Relaxed) > before, "the counter does not count");
}

/// A client that causes conflicts: it changes the Addon just before the first writes of its status.
fn conflicting_client(case: &Case<'_>) -> (kube::Client, Arc<AtomicUsize>) {
    const CONFLICTS: usize = 3;
    let count = Arc::new(AtomicUsize::new(0));
    let (client, counted, path) = (case.cluster.client(), count.clone(), case.path());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, counted, path) = (client.clone(), counted.clone(), path.clone());
        async move {
            let is_status =
                request.method() == http::Method::PUT && request.uri().path() == format!("{path}/status");
            if is_status && counted.load(Ordering::Relaxed) < CONFLICTS {
                let times = counted.fetch_add(1, Ordering::Relaxed);
                let patch = json!({"metadata": {"labels": {"times": times.to_string()}}}).to_string();
                let change = Request::patch(path)
                    .header("content-type", "application/merge-patch+json")
                    .body(Body::from(patch.into_bytes()))
                    .unwrap();
                client.send(change).await?;
            }
            client.send(request).await
        }
    });
    (kube::Client::new(service, "default"), count)
}

pub(crate) async fn status_conflict_makes_the_addon_be_read_again(cluster: &Cluster) {
    let case = Case::create(cluster, json!({})).await;
    let (client, count) = conflicting_client(&case);
    let _controller = start_controller_with(client, MirrorTimeouts::Off);
    let addon = case.wait_until_ready().await;
    assert_eq!(count.load(Ordering::Relaxed), 3);
    assert_eq!(addon["metadata"]["labels"]["times"], "2", "the last concurrent change is kept");
}

pub(crate) async fn restart_without_changes_writes_nothing(cluster: &Cluster) {
    let controller = start_controller(cluster);
    let case = Case::create(cluster, json!({"namespaces": []})).await;
    let listed = json!({"spec": {"namespaces": [{"name": case.namespace, "labels": {"a": "b"}}]}});
    case.merge(listed).await;
    case.wait_until_ready().await;
    case.merge(json!({"metadata": {"labels": {"touched": "yes"}}})).await;
    wait_for_reconcile(cluster).await;
    let versions = async || {
        let mut versions: Vec<Value> = Vec::new();
        for path in [case.path(), case.instance_path(), case.namespace_path()] {
            versions.push(cluster.get(path).await.expect(200)["metadata"]["resourceVersion"].take());
        }
        versions
    };
    let before = versions().await;
    drop(controller);
    let _controller = start_controller(cluster);
    wait_for_reconcile(cluster).await;
    assert_eq!(versions().await, before);
}

pub(crate) async fn heartbeat_timeout_is_mirrored_only_if_enabled(cluster: &Cluster) {
    let silent = Some(("Healthy", "Unknown", "HeartbeatTimeout"));
    let controller = start_controller(cluster);
    let case = Case::create(cluster, json!({})).await;
    case.wait_until_ready().await;
    case.send_heartbeat(1, silent).await;
    wait_for_reconcile(cluster).await;
    assert_eq!(condition(&case.read().await, "HeartbeatTimeout"), Value::Null);
    drop(controller);

    let controller = start_controller_with(cluster.client(), MirrorTimeouts::On);
    case.wait_for_condition("HeartbeatTimeout", "True", "HeartbeatTimeout").await;
    assert_eq!(condition(&case.read().await, "Available")["status"], "True");
    case.send_heartbeat(2, Some(("Healthy", "True", "ReceivingHeartbeats"))).await;
    case.wait_until_absent("HeartbeatTimeout").await;
    case.send_heartbeat(3, silent).await;
    case.wait_for_condition("HeartbeatTimeout", "True", "HeartbeatTimeout").await;
    drop(controller);

    let _controller = start_controller(cluster);
    case.wait_until_absent("HeartbeatTimeout").await;
}
