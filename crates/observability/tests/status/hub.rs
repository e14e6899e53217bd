//! Faults of the hub: outages, rejected credentials, load, missing and stale objects (B6 to B9, B17, A17 to A19).

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bellwether_observability::vocabulary::Component::Platform;
use bellwether_observability::vocabulary::ComponentReason::{
    ForwardFailure, ForwardSuccessful, UpdateFailure, UpdateSuccesful,
};
use bellwether_testkit::Tap;
use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::json;
use tokio::time::Instant;

use crate::fixture::{Fixture, condition, wait_for_true};

const AVAILABLE: &str = "Available/ForwardSuccessful: MetricsCollector: ForwardSuccessful";

/// A client of the hub that answers every request with a status code instead, while one is set; 0 is no answer at all.
#[derive(Clone)]
struct Fault {
    code: Arc<AtomicU16>,
    times: Arc<Mutex<Vec<Instant>>>,
}

/// How many seconds a hub with too many requests asks to wait.
const RETRY_AFTER: u32 = 3;
/// No fault.
const NONE: u16 = 1;
/// No answer.
const SILENT: u16 = 0;

impl Fault {
    fn on(client: kube::Client, code: u16) -> (kube::Client, Self) {
        let fault = Self { code: Arc::new(AtomicU16::new(code)), times: Arc::default() };
        let this = fault.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (client, fault) = (client.clone(), this.clone());
            async move {
                fault.times.lock().unwrap().push(Instant::now());
                match fault.code.load(Ordering::Relaxed) {
                    NONE => client.send(request).await,
                    SILENT => Err(kube::Error::Service("connection refused".into())),
                    code => {
                        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                            "message": "injected", "reason": "TooManyRequests", "code": code,
                            "details": {"retryAfterSeconds": if code == 429 { RETRY_AFTER } else { 0 }}});
                        let body = Body::from(status.to_string().into_bytes());
                        Ok(Response::builder().status(code).body(body).unwrap())
                    }
                }
            }
        });
        (kube::Client::new(service, "default"), fault)
    }

    fn set(&self, code: u16) {
        self.code.store(code, Ordering::Relaxed);
    }

    fn requests(&self) -> Vec<Instant> {
        self.times.lock().unwrap().clone()
    }
}

pub(crate) async fn only_the_final_state_is_written_after_an_outage(fixture: &Fixture<'_>) {
    fixture.create_addons().await;
    let (hub, tap) = Tap::on(fixture.hub.client());
    let (hub, fault) = Fault::on(hub, SILENT);
    fixture.start_status_controller_with(hub);
    for reason in [ForwardSuccessful, ForwardFailure, ForwardSuccessful] {
        fixture.collector_reports(Platform, reason).await;
        let state = format!(
            "{}/{reason}: MetricsCollector: {reason}",
            if reason == ForwardSuccessful { "Available" } else { "Degraded" }
        );
        wait_for_true(fixture.spoke, &fixture.spoke_path(), &state).await;
        // An hour in all, on paused time.
        let outage = if fixture.hub.is_kubernetes() { 1 } else { 1_200 };
        tokio::time::sleep(Duration::from_secs(outage)).await;
    }
    assert_eq!(tap.requests(), [], "the hub is away");
    fault.set(NONE);
    // The next attempt follows after the backoff of the last one.
    let backoff = if fixture.hub.is_kubernetes() { 0 } else { 120 };
    tokio::time::sleep(Duration::from_secs(backoff)).await;
    fixture.wait_for_state(AVAILABLE).await;
    fixture.wait_for_reconcile().await;
    assert_eq!(tap.writes().len(), 1, "one write of the final state");
}

pub(crate) async fn rejected_credentials_are_replaced_without_a_restart(fixture: &Fixture<'_>) {
    use bellwether_runtime::{Loaded, reloading};
    fixture.create_addons().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_owned();
    let hub = fixture.hub.client();
    let load = move || {
        let is_rotated = std::fs::read_to_string(&path).unwrap() == "rotated";
        let (client, _) = Fault::on(hub.clone(), if is_rotated { NONE } else { 401 });
        std::future::ready(Ok::<_, String>(Loaded { client, files: vec![path.clone()] }))
    };
    let hub = reloading(load).await.unwrap();
    fixture.start_status_controller_with(hub);
    fixture.collector_reports(Platform, ForwardSuccessful).await;
    wait_for_true(fixture.spoke, &fixture.spoke_path(), AVAILABLE).await;
    fixture.wait_for_reconcile().await;
    let before = fixture.hub.get(fixture.hub_path()).await.expect(200);
    assert!(before["status"].is_null(), "the credentials are rejected");
    std::fs::write(file.path(), "rotated").unwrap();
    fixture.wait_for_state(AVAILABLE).await;
}

pub(crate) async fn hub_that_asks_to_wait_is_left_alone_for_that_time(fixture: &Fixture<'_>) {
    fixture.create_addons().await;
    let (hub, fault) = Fault::on(fixture.hub.client(), 429);
    fixture.start_status_controller_with(hub);
    fixture.collector_reports(Platform, ForwardSuccessful).await;
    wait_for_true(fixture.spoke, &fixture.spoke_path(), AVAILABLE).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    // A change meanwhile does not shorten the wait.
    fixture.operator_reports(Platform, UpdateFailure).await;
    fixture.operator_reports(Platform, UpdateSuccesful).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let times = fault.requests();
    let waits: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
    let wanted = f64::from(RETRY_AFTER)..f64::from(RETRY_AFTER) + 1.0;
    assert!(waits.len() >= 3 && waits.iter().all(|wait| wanted.contains(wait)), "{waits:?}");
    fault.set(NONE);
    fixture.wait_for_state("Progressing/UpdateSuccesful: MetricsCollector: UpdateSuccesful").await;
}

pub(crate) async fn missing_object_on_the_hub_is_waited_for(fixture: &Fixture<'_>) {
    fixture.create_on_spoke().await;
    let taps = fixture.start_status_controller();
    fixture.collector_reports(Platform, ForwardSuccessful).await;
    wait_for_true(fixture.spoke, &fixture.spoke_path(), AVAILABLE).await;
    fixture.wait_for_reconcile().await;
    assert_eq!(fixture.hub.get(fixture.hub_path()).await.status, 404, "it is not created");
    assert_eq!(taps.hub.writes(), []);
    fixture.create_on_hub().await;
    fixture.wait_for_state(AVAILABLE).await;
}

pub(crate) async fn stale_hub_is_synced_at_the_start(fixture: &Fixture<'_>) {
    fixture.create_addons().await;
    let time = "2024-06-13T10:00:00Z";
    let settled = json!([
        condition("MetricsCollectorStatus", "True", "ForwardSuccessful", time),
        {"type": "Available", "status": "True", "reason": "ForwardSuccessful", "lastTransitionTime": time,
         "message": "MetricsCollector: ForwardSuccessful: m"},
    ]);
    fixture.write_conditions(fixture.spoke, &fixture.spoke_path(), settled).await;
    let stale = json!([condition("Degraded", "True", "ForwardFailure", time)]);
    fixture.write_conditions(fixture.hub, &fixture.hub_path(), stale).await;
    let start = Instant::now();
    fixture.start_status_controller();
    fixture.wait_for_state("Available/ForwardSuccessful: MetricsCollector: ForwardSuccessful: m").await;
    assert!(start.elapsed() <= Duration::from_secs(5), "{:?}", start.elapsed());
}

pub(crate) async fn change_by_another_writer_on_the_hub_is_undone(fixture: &Fixture<'_>) {
    fixture.create_addons().await;
    fixture.start_status_controller();
    fixture.collector_reports(Platform, ForwardSuccessful).await;
    fixture.wait_for_state(AVAILABLE).await;
    let foreign = json!([condition("Degraded", "True", "ForwardFailure", "2024-06-13T10:00:00Z")]);
    fixture.write_conditions(fixture.hub, &fixture.hub_path(), foreign).await;
    fixture.wait_for_resync().await;
    fixture.wait_for_state(AVAILABLE).await;
}

pub(crate) async fn conflict_on_the_hub_is_decided_again(fixture: &Fixture<'_>) {
    fixture.create_addons().await;
    let taps = fixture.start_status_controller();
    let (hub, path) = (fixture.hub.client(), fixture.hub_path());
    taps.hub.before(Method::PUT, "/status", move || async move {
        let request = Request::patch(path)
            .header("content-type", "application/merge-patch+json")
            .body(Body::from(
                json!({"metadata": {"labels": {"changed": "meanwhile"}}}).to_string().into_bytes(),
            ))
            .unwrap();
        hub.send(request).await.unwrap();
    });
    fixture.collector_reports(Platform, ForwardSuccessful).await;
    fixture.wait_for_state(AVAILABLE).await;
    assert!(!taps.hub.is_set(), "the other writer was faster");
    let labels = fixture.hub.get(fixture.hub_path()).await.expect(200)["metadata"]["labels"].clone();
    assert_eq!(labels["changed"], "meanwhile", "its change is kept");
}
