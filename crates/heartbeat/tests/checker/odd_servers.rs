//! What the checker must do when the API server does what it seldom does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bellwether_heartbeat::checker::Settings;
use bellwether_runtime::Context;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

use crate::stage::{Stage, seconds};

/// More requests than any visit needs. Then there is no answer any more, so that time goes on and the test ends.
const MANY: usize = 100;

async fn read(body: Body) -> Value {
    serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap()
}

/// A server whose data came from a backup counts from an earlier revision, while its objects are the same.
pub(crate) async fn a_server_that_was_set_back(stage: &Stage<'_>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let version = Arc::new(parking_lot::Mutex::new(Value::Null));
    let service = tower::service_fn({
        let (client, asked) = (stage.cluster.client(), asked.clone());
        move |request: Request<Body>| {
            let (client, asked, version) = (client.clone(), asked.clone(), version.clone());
            async move {
                if !request.uri().path().contains("/set-back") {
                    return client.send(request).await;
                }
                if asked.fetch_add(1, Ordering::SeqCst) > MANY {
                    std::future::pending::<()>().await;
                }
                let (parts, body) = request.into_parts();
                let body = if parts.method == Method::PUT {
                    let mut object = read(body).await;
                    object["metadata"]["resourceVersion"] = version.lock().clone();
                    Body::from(object.to_string().into_bytes())
                } else {
                    body
                };
                let (parts, body) = client.send(Request::from_parts(parts, body)).await?.into_parts();
                let mut object = read(body).await;
                *version.lock() = std::mem::replace(&mut object["metadata"]["resourceVersion"], json!("1"));
                Ok(Response::from_parts(parts, Body::from(object.to_string().into_bytes())))
            }
        }
    });
    let client = kube::Client::new(service, "default");
    stage.check_in(Context { client, ..stage.context() }, Settings::default());
    let instance = stage.instance("set-back").await;
    let beat = stage.now();
    instance.report("True", "ComponentsUp").await;
    stage.pass(stage.threshold() + stage.slack()).await;
    let asked = asked.load(Ordering::SeqCst);
    assert!(asked < 10, "{asked} requests for one instance");
    instance.silence_marked_after(beat).await;
}

/// It goes, and comes back with one beat, between the checker's question and the answer.
pub(crate) async fn one_that_is_made_again_during_a_visit(stage: &Stage<'_>) {
    let again = Arc::new(AtomicBool::new(false));
    let service = tower::service_fn({
        let (client, again, clock) = (stage.cluster.client(), again.clone(), stage.clock);
        move |request: Request<Body>| {
            let (client, again) = (client.clone(), again.clone());
            async move {
                let path = request.uri().path().to_owned();
                let visit = request.method() == Method::GET && path.ends_with("/made-again");
                if !visit || again.swap(true, Ordering::SeqCst) {
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
                let answer = client.send(request).await?;
                let object = json!({"apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "AddonInstance",
                    "metadata": {"name": "made-again"}, "spec": {"heartbeatUpdatePeriod": "10s"}});
                send(Method::POST, path.trim_end_matches("/made-again"), object).await?;
                let now = seconds(bellwether_clock::Clock::now(&clock));
                let beat = json!({"status": {"lastHeartbeatTime": now, "conditions": [{
                    "type": "addons.managed.openshift.io/Healthy", "status": "True", "reason": "ComponentsUp",
                    "message": "", "lastTransitionTime": now,
                }]}});
                send(Method::PATCH, &format!("{path}/status"), beat).await?;
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(answer)
            }
        }
    });
    let client = kube::Client::new(service, "default");
    stage.check_in(Context { client, ..stage.context() }, Settings::default());
    let instance = stage.instance("made-again").await;
    instance.report("True", "ComponentsUp").await;
    stage.pass(stage.threshold() + stage.slack()).await;
    assert!(again.load(Ordering::SeqCst), "there was no visit");
    assert!(!instance.is_timed_out().await);
    instance.silence_marked_after(stage.now()).await;
}

/// However long it lasted, who is silent is marked soon after its end: nothing but the checker tells of them.
pub(crate) async fn after_an_outage(stage: &Stage<'_>) {
    let up = Arc::new(AtomicBool::new(true));
    let service = tower::service_fn({
        let (client, up) = (stage.cluster.client(), up.clone());
        move |request: Request<Body>| {
            let (client, up) = (client.clone(), up.clone());
            async move {
                if !up.load(Ordering::SeqCst) {
                    return Err(kube::Error::Service("nobody answers".into()));
                }
                client.send(request).await
            }
        }
    });
    let client = kube::Client::new(service, "default");
    stage.check_in(Context { client, ..stage.context() }, Settings::default());
    let instance = stage.instance("silent").await;
    instance.report("True", "ComponentsUp").await;
    stage.pass(stage.period).await;
    up.store(false, Ordering::SeqCst);
    for minutes in [3, 5, 7] {
        stage.pass(Duration::from_secs(60 * minutes)).await;
    }
    up.store(true, Ordering::SeqCst);
    let back = stage.now();
    let after = instance.silence_marked_after(back).await;
    assert!(after <= Duration::from_secs(10) + stage.slack(), "after {after:?}");
}
