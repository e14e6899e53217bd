//! How the checker handles rare situations of the API server: restored backups, objects that are recreated during a request, and
//! outages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bellwether_heartbeat::checker::Settings;
use bellwether_runtime::Context;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

use crate::fixture::{Fixture, format_seconds};

/// More requests than any reconcile needs. Further requests get no response, so that paused time advances and the test ends.
const REQUEST_LIMIT: usize = 100;

async fn parse_body(body: Body) -> Value {
    serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap()
}

/// After the data of a server was restored from a backup, resourceVersions start from an earlier number.
pub(crate) async fn server_restored_from_a_backup(fixture: &Fixture<'_>) {
    let requests = Arc::new(AtomicUsize::new(0));
    let version = Arc::new(parking_lot::Mutex::new(Value::Null));
    let service = tower::service_fn({
        let (client, requests) = (fixture.cluster.client(), requests.clone());
        move |request: Request<Body>| {
            let (client, requests, version) = (client.clone(), requests.clone(), version.clone());
            async move {
                if !request.uri().path().contains("/restored") {
                    return client.send(request).await;
                }
                if requests.fetch_add(1, Ordering::SeqCst) > REQUEST_LIMIT {
                    std::future::pending::<()>().await;
                }
                let (parts, body) = request.into_parts();
                let body = if parts.method == Method::PUT {
                    let mut object = parse_body(body).await;
                    object["metadata"]["resourceVersion"] = version.lock().clone();
                    Body::from(object.to_string().into_bytes())
                } else {
                    body
                };
                let (parts, body) = client.send(Request::from_parts(parts, body)).await?.into_parts();
                let mut object = parse_body(body).await;
                *version.lock() = std::mem::replace(&mut object["metadata"]["resourceVersion"], json!("1"));
                Ok(Response::from_parts(parts, Body::from(object.to_string().into_bytes())))
            }
        }
    });
    let client = kube::Client::new(service, "default");
    fixture.start_checker_in(Context { client, ..fixture.context() }, Settings::default());
    let instance = fixture.create_instance("restored").await;
    let heartbeat = fixture.now();
    instance.report("True", "ComponentsUp").await;
    fixture.sleep(fixture.threshold() + fixture.tolerance()).await;
    let requests = requests.load(Ordering::SeqCst);
    assert!(requests < 10, "{requests} requests for one instance");
    instance.wait_for_timeout_since(heartbeat).await;
}

/// The instance is deleted and created again with one heartbeat while the checker reads it.
pub(crate) async fn instance_recreated_during_a_reconcile(fixture: &Fixture<'_>) {
    let recreated = Arc::new(AtomicBool::new(false));
    let service = tower::service_fn({
        let (client, recreated, clock) = (fixture.cluster.client(), recreated.clone(), fixture.clock);
        move |request: Request<Body>| {
            let (client, recreated) = (client.clone(), recreated.clone());
            async move {
                let path = request.uri().path().to_owned();
                let is_reconcile = request.method() == Method::GET && path.ends_with("/recreated");
                if !is_reconcile || recreated.swap(true, Ordering::SeqCst) {
                    return client.send(request).await;
                }
                let send = |method: Method, path: &str, body: Value| {
                    let request = Request::builder().method(method.clone()).uri(path);
                    let kind = if method == Method::PATCH {
                        "application/merge-patch+json"
                    } else {
                        "application/json"
                    };
                    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
                    client.send(request.header("content-type", kind).body(body.into()).unwrap())
                };
                send(Method::DELETE, &path, Value::Null).await?;
                let response = client.send(request).await?;
                let object = json!({"apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "AddonInstance",
                    "metadata": {"name": "recreated"}, "spec": {"heartbeatUpdatePeriod": "10s"}});
                send(Method::POST, path.trim_end_matches("/recreated"), object).await?;
                let now = format_seconds(bellwether_clock::Clock::now(&clock));
                let heartbeat = json!({"status": {"lastHeartbeatTime": now, "conditions": [{
                    "type": "addons.managed.openshift.io/Healthy", "status": "True", "reason": "ComponentsUp",
                    "message": "", "lastTransitionTime": now,
                }]}});
                send(Method::PATCH, &format!("{path}/status"), heartbeat).await?;
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(response)
            }
        }
    });
    let client = kube::Client::new(service, "default");
    fixture.start_checker_in(Context { client, ..fixture.context() }, Settings::default());
    let instance = fixture.create_instance("recreated").await;
    instance.report("True", "ComponentsUp").await;
    fixture.sleep(fixture.threshold() + fixture.tolerance()).await;
    assert!(recreated.load(Ordering::SeqCst), "the instance was not reconciled");
    assert!(!instance.is_timed_out().await);
    instance.wait_for_timeout_since(fixture.now()).await;
}

/// After an outage of any duration, silent instances are marked soon: no event triggers it, only the retry of the checker.
pub(crate) async fn silence_after_an_api_outage(fixture: &Fixture<'_>) {
    let up = Arc::new(AtomicBool::new(true));
    let service = tower::service_fn({
        let (client, up) = (fixture.cluster.client(), up.clone());
        move |request: Request<Body>| {
            let (client, up) = (client.clone(), up.clone());
            async move {
                if !up.load(Ordering::SeqCst) {
                    return Err(kube::Error::Service("the API server is down".into()));
                }
                client.send(request).await
            }
        }
    });
    let client = kube::Client::new(service, "default");
    fixture.start_checker_in(Context { client, ..fixture.context() }, Settings::default());
    let instance = fixture.create_instance("silent").await;
    instance.report("True", "ComponentsUp").await;
    fixture.sleep(fixture.period).await;
    up.store(false, Ordering::SeqCst);
    for minutes in [3, 5, 7] {
        fixture.sleep(Duration::from_secs(60 * minutes)).await;
    }
    up.store(true, Ordering::SeqCst);
    let restored = fixture.now();
    let after = instance.wait_for_timeout_since(restored).await;
    assert!(after <= Duration::from_secs(10) + fixture.tolerance(), "after {after:?}");
}
