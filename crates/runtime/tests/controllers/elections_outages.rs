//! Leader election while the API server does not respond or rejects requests for some time. The API server of
//! these tests serves only the Lease, in process, so that time can be paused.

use std::sync::Arc;
use std::time::Duration;

use bellwether_runtime::{Election, Health, Leadership, Shutdown};
use bellwether_testkit::{eventually, on_paused_time, on_real_time};
use http::{Method, Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

const LEASE_DURATION: Duration = Duration::from_secs(15);

/// How the API server responds to writes of the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Works,
    /// It rejects them with this status code.
    Rejects(u16),
    Resets,
    Hangs,
}

/// An API server that serves one Lease.
#[derive(Clone)]
struct Hub {
    lease: Arc<Mutex<Value>>,
    mode: Arc<Mutex<Mode>>,
    renewed: Arc<Mutex<Vec<Instant>>>,
}

impl Hub {
    fn new() -> Self {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "controllers"}, "spec": {},
        });
        Self {
            lease: Arc::new(Mutex::new(lease)),
            mode: Arc::new(Mutex::new(Mode::Works)),
            renewed: Arc::default(),
        }
    }

    fn client(&self) -> kube::Client {
        let hub = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let hub = hub.clone();
            async move { hub.respond(request).await }
        });
        kube::Client::new(service, "default")
    }

    async fn respond(&self, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
        let writes = request.method() != Method::GET;
        let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let lists = !writes && request.uri().path().ends_with("/leases");
        let mode = *self.mode.lock();
        match mode {
            Mode::Rejects(code) if writes => return Ok(rejection(code)),
            Mode::Resets if writes => return Err(kube::Error::Service("connection reset".into())),
            Mode::Hangs if writes => return std::future::pending().await,
            _ => {}
        }
        if writes {
            let started = Instant::now();
            let patch: Value = serde_json::from_slice(&request.into_body().collect_bytes().await?).unwrap();
            let mut lease = self.lease.lock();
            for (key, value) in patch["spec"].as_object().unwrap() {
                lease["spec"][key] = value.clone();
            }
            if patch["spec"]["renewTime"].is_string() {
                self.renewed.lock().push(started);
            }
        }
        let lease = self.lease.lock().clone();
        let body = match (watches, lists) {
            // A watch has no events.
            (true, _) => return std::future::pending().await,
            (false, true) => json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "LeaseList", "metadata": {"resourceVersion": "1"},
                "items": [lease],
            }),
            (false, false) => lease,
        };
        Ok(Response::new(Body::from(body.to_string().into_bytes())))
    }

    fn set_mode(&self, mode: Mode) {
        *self.mode.lock() = mode;
    }

    fn last_renewal(&self) -> Instant {
        *self.renewed.lock().last().unwrap()
    }

    /// Waits until the Lease has been renewed after this time.
    async fn wait_for_renewal_after(&self, time: Instant) {
        eventually("the Lease is renewed", || async { (self.last_renewal() > time).then_some(()) }).await;
    }
}

fn rejection(code: u16) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "not now",
        "reason": "TooManyRequests"});
    let mut response = Response::new(Body::from(status.to_string().into_bytes()));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
    response
}

/// Starts a candidate and waits until it is leader.
async fn elect_leader(hub: &Hub) -> (Leadership, Shutdown, Health) {
    let (shutdown, health) = (Shutdown::default(), Health::default());
    let election =
        Election { namespace: "default".into(), lease: "controllers".into(), identity: "one".into() };
    let leadership = Leadership::elected(&hub.client(), election, &shutdown, &health);
    leadership.acquired().await;
    (leadership, shutdown, health)
}

#[test]
fn leader_survives_rejected_renewals() {
    for mode in [Mode::Rejects(429), Mode::Rejects(500), Mode::Resets] {
        on_paused_time(async {
            let hub = Hub::new();
            let (leadership, shutdown, health) = elect_leader(&hub).await;
            hub.wait_for_renewal_after(hub.last_renewal()).await;
            hub.set_mode(mode);
            let lost = tokio::time::timeout(Duration::from_secs(10), leadership.lost()).await;
            assert!(lost.is_err(), "the leader gave up a Lease that it still holds");
            let not_ready = health.not_ready();
            assert!(
                matches!(not_ready.as_slice(), [(_, reason)] if reason.contains("still leader")),
                "{not_ready:?}"
            );
            let restored = Instant::now();
            hub.set_mode(Mode::Works);
            hub.wait_for_renewal_after(restored).await;
            assert!(leadership.is_leader());
            eventually("the leader is ready", || async { health.not_ready().is_empty().then_some(()) }).await;
            shutdown.finish().await;
        });
    }
}

#[test]
fn leader_survives_one_late_response() {
    on_real_time(async {
        let hub = Hub::new();
        let (leadership, shutdown, _health) = elect_leader(&hub).await;
        hub.set_mode(Mode::Hangs);
        let restore = async {
            tokio::time::sleep(Duration::from_secs(6)).await;
            let restored = Instant::now();
            hub.set_mode(Mode::Works);
            hub.wait_for_renewal_after(restored).await;
        };
        tokio::select! {
            () = restore => {}
            () = leadership.lost() => panic!("the leader gave up a Lease that it still holds"),
        }
        shutdown.finish().await;
    });
}

#[test]
fn leader_that_cannot_renew_steps_down_before_its_lease_expires_and_leads_again_when_it_can() {
    for mode in [Mode::Rejects(500), Mode::Resets, Mode::Hangs] {
        on_paused_time(async {
            let hub = Hub::new();
            let (leadership, shutdown, _health) = elect_leader(&hub).await;
            hub.wait_for_renewal_after(hub.last_renewal()).await;
            hub.set_mode(mode);
            let renewed = hub.last_renewal();
            tokio::time::timeout(LEASE_DURATION, leadership.lost())
                .await
                .expect("the leader steps down before its Lease expires");
            let held_for = renewed.elapsed();
            assert!(
                held_for <= LEASE_DURATION - Duration::from_secs(2),
                "stepped down too late for a standby whose clock is ahead: {held_for:?}"
            );
            // The Lease still has its identity as holder, but it was not renewed.
            let early = tokio::time::timeout(Duration::from_secs(60), leadership.acquired()).await;
            assert!(early.is_err(), "leader by an expired Lease");
            hub.set_mode(Mode::Works);
            tokio::time::timeout(Duration::from_secs(60), leadership.acquired())
                .await
                .expect("the former leader is leader again");
            shutdown.finish().await;
        });
    }
}

#[test]
fn former_leader_retries_soon_after_many_failed_renewals() {
    on_paused_time(async {
        let hub = Hub::new();
        let (leadership, shutdown, _health) = elect_leader(&hub).await;
        hub.set_mode(Mode::Rejects(500));
        leadership.lost().await;
        hub.set_mode(Mode::Works);
        // The backoff after a first failure is at most one second, and the Lease is renewed every five
        // seconds.
        tokio::time::timeout(Duration::from_secs(7), leadership.acquired())
            .await
            .expect("the former leader is leader again soon");
        shutdown.finish().await;
    });
}

#[test]
fn deleted_lease_ends_the_leadership() {
    on_paused_time(async {
        let hub = Hub::new();
        let (leadership, shutdown, _health) = elect_leader(&hub).await;
        hub.set_mode(Mode::Rejects(404));
        let started = Instant::now();
        leadership.lost().await;
        assert!(
            started.elapsed() < Duration::from_secs(6),
            "still leader for {:?} after the Lease was deleted",
            started.elapsed()
        );
        shutdown.finish().await;
    });
}
