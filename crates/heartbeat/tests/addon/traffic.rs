//! What the controller asks of the API server, and what it does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bellwether_heartbeat::addon::MirrorTimeouts;
use bellwether_testkit::Cluster;
use http::Request;
use kube::client::Body;
use serde_json::{Value, json};

use crate::fixture::{Case, condition, control, control_as, pass};

/// A client that counts what it is asked.
fn counting(client: kube::Client) -> (kube::Client, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        // A watch ends after a while and begins again, whatever happens.
        if !request.uri().query().unwrap_or_default().contains("watch=true") {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        let client = client.clone();
        async move { client.send(request).await }
    });
    (kube::Client::new(service, "default"), count)
}

pub(crate) async fn heartbeats_cause_no_request(cluster: &Cluster) {
    let (client, count) = counting(cluster.client());
    let _controller = control_as(client, MirrorTimeouts::On);
    let case = Case::create(cluster, json!({"installAckRequired": true})).await;
    case.instance().await;
    case.pulse(0, Some(("Installed", "True", "SetupComplete"))).await;
    case.until_ready().await;
    pass(cluster).await;
    let (before, version) =
        (count.load(Ordering::Relaxed), case.read().await["metadata"]["resourceVersion"].clone());
    for second in 1..=100 {
        case.pulse(second, None).await;
    }
    pass(cluster).await;
    assert_eq!(count.load(Ordering::Relaxed), before, "heartbeats are nobody's business here");
    assert_eq!(case.read().await["metadata"]["resourceVersion"], version);

    case.pulse(101, Some(("Installed", "False", "TeardownComplete"))).await;
    case.until_condition("Available", "False", "AddonInstanceNotInstalled").await;
    assert!(count.load(Ordering::Relaxed) > before, "the counter counts");
}

/// A client behind whose back an Addon changes just before its status is written, the first few times.
fn meddling(case: &Case<'_>) -> (kube::Client, Arc<AtomicUsize>) {
    const TIMES: usize = 3;
    let count = Arc::new(AtomicUsize::new(0));
    let (client, counted, path) = (case.cluster.client(), count.clone(), case.path());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, counted, path) = (client.clone(), counted.clone(), path.clone());
        async move {
            let is_status =
                request.method() == http::Method::PUT && request.uri().path() == format!("{path}/status");
            if is_status && counted.load(Ordering::Relaxed) < TIMES {
                let times = counted.fetch_add(1, Ordering::Relaxed);
                let patch = json!({"metadata": {"labels": {"times": times.to_string()}}}).to_string();
                let meddled = Request::patch(path)
                    .header("content-type", "application/merge-patch+json")
                    .body(Body::from(patch.into_bytes()))
                    .unwrap();
                client.send(meddled).await?;
            }
            client.send(request).await
        }
    });
    (kube::Client::new(service, "default"), count)
}

pub(crate) async fn an_addon_that_changes_meanwhile_is_read_again(cluster: &Cluster) {
    let case = Case::create(cluster, json!({})).await;
    let (client, count) = meddling(&case);
    let _controller = control_as(client, MirrorTimeouts::Off);
    let addon = case.until_ready().await;
    assert_eq!(count.load(Ordering::Relaxed), 3);
    assert_eq!(addon["metadata"]["labels"]["times"], "2", "nobody's change is lost");
}

pub(crate) async fn nothing_is_written_when_nothing_changed(cluster: &Cluster) {
    let controller = control(cluster);
    let case = Case::create(cluster, json!({"namespaces": []})).await;
    let listed = json!({"spec": {"namespaces": [{"name": case.namespace, "labels": {"a": "b"}}]}});
    case.merge(listed).await;
    case.until_ready().await;
    case.merge(json!({"metadata": {"labels": {"touched": "yes"}}})).await;
    pass(cluster).await;
    let versions = async || {
        let mut versions: Vec<Value> = Vec::new();
        for path in [case.path(), case.instance_path(), case.namespace_path()] {
            versions.push(cluster.get(path).await.expect(200)["metadata"]["resourceVersion"].take());
        }
        versions
    };
    let before = versions().await;
    drop(controller);
    let _controller = control(cluster);
    pass(cluster).await;
    assert_eq!(versions().await, before);
}

pub(crate) async fn a_timeout_is_mirrored_where_that_is_asked_for(cluster: &Cluster) {
    let silent = Some(("Healthy", "Unknown", "HeartbeatTimeout"));
    let controller = control(cluster);
    let case = Case::create(cluster, json!({})).await;
    case.until_ready().await;
    case.pulse(1, silent).await;
    pass(cluster).await;
    assert_eq!(condition(&case.read().await, "HeartbeatTimeout"), Value::Null);
    drop(controller);

    let controller = control_as(cluster.client(), MirrorTimeouts::On);
    case.until_condition("HeartbeatTimeout", "True", "HeartbeatTimeout").await;
    assert_eq!(condition(&case.read().await, "Available")["status"], "True");
    case.pulse(2, Some(("Healthy", "True", "ReceivingHeartbeats"))).await;
    case.until_no("HeartbeatTimeout").await;
    case.pulse(3, silent).await;
    case.until_condition("HeartbeatTimeout", "True", "HeartbeatTimeout").await;
    drop(controller);

    let _controller = control(cluster);
    case.until_no("HeartbeatTimeout").await;
}
