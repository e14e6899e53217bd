//! Elections while the API does not answer, or rejects requests for a while. The API serves nothing but the Lease, so that
//! time can be paused.

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

/// How the API responds to writes of the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Works,
    /// With this status.
    Rejects(u16),
    Resets,
    Hangs,
}

/// An API that serves one Lease.
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
            async move { hub.answer(request).await }
        });
        kube::Client::new(service, "default")
    }

    async fn answer(&self, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
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
            let begun = Instant::now();
            let patch: Value = serde_json::from_slice(&request.into_body().collect_bytes().await?).unwrap();
            let mut lease = self.lease.lock();
            for (key, value) in patch["spec"].as_object().unwrap() {
                lease["spec"][key] = value.clone();
            }
            if patch["spec"]["renewTime"].is_string() {
                self.renewed.lock().push(begun);
            }
        }
        let lease = self.lease.lock().clone();
        let body = match (watches, lists) {
            // No events.
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

    /// Waits until the lease has been renewed after this.
    async fn renewal_after(&self, moment: Instant) {
        eventually("it is renewed", || async { (self.last_renewal() > moment).then_some(()) }).await;
    }
}

fn rejection(code: u16) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "not now",
        "reason": "TooManyRequests"});
    let mut answer = Response::new(Body::from(status.to_string().into_bytes()));
    *answer.status_mut() = http::StatusCode::from_u16(code).unwrap();
    answer
}

/// A leader.
async fn leader(hub: &Hub) -> (Leadership, Shutdown, Health) {
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
            let (leadership, shutdown, health) = leader(&hub).await;
            hub.renewal_after(hub.last_renewal()).await;
            hub.set_mode(mode);
            let lost = tokio::time::timeout(Duration::from_secs(10), leadership.lost()).await;
            assert!(lost.is_err(), "it gave up a Lease that is its own");
            let not_ready = health.not_ready();
            assert!(
                matches!(not_ready.as_slice(), [(_, reason)] if reason.contains("still leader")),
                "{not_ready:?}"
            );
            let back = Instant::now();
            hub.set_mode(Mode::Works);
            hub.renewal_after(back).await;
            assert!(leadership.is_leader());
            eventually("it is ready", || async { health.not_ready().is_empty().then_some(()) }).await;
            shutdown.finish().await;
        });
    }
}

#[test]
fn leader_survives_one_late_response() {
    on_real_time(async {
        let hub = Hub::new();
        let (leadership, shutdown, _health) = leader(&hub).await;
        hub.set_mode(Mode::Hangs);
        let fine = async {
            tokio::time::sleep(Duration::from_secs(6)).await;
            let back = Instant::now();
            hub.set_mode(Mode::Works);
            hub.renewal_after(back).await;
        };
        tokio::select! {
            () = fine => {}
            () = leadership.lost() => panic!("it gave up a Lease that is its own"),
        }
        shutdown.finish().await;
    });
}

#[test]
fn leader_that_cannot_renew_steps_down_before_its_lease_expires_and_leads_again_when_it_can() {
    for mode in [Mode::Rejects(500), Mode::Resets, Mode::Hangs] {
        on_paused_time(async {
            let hub = Hub::new();
            let (leadership, shutdown, _health) = leader(&hub).await;
            hub.renewal_after(hub.last_renewal()).await;
            hub.set_mode(mode);
            let renewed = hub.last_renewal();
            tokio::time::timeout(LEASE_DURATION, leadership.lost())
                .await
                .expect("it is no leader beyond its term");
            let held = renewed.elapsed();
            assert!(
                held <= LEASE_DURATION - Duration::from_secs(2),
                "too late for clocks that differ: {held:?}"
            );
            // The Lease still carries its identity, which is not enough.
            let early = tokio::time::timeout(Duration::from_secs(60), leadership.acquired()).await;
            assert!(early.is_err(), "leader by a term that is over");
            hub.set_mode(Mode::Works);
            tokio::time::timeout(Duration::from_secs(60), leadership.acquired())
                .await
                .expect("it is leader again");
            shutdown.finish().await;
        });
    }
}

#[test]
fn former_leader_retries_soon_after_many_failed_renewals() {
    on_paused_time(async {
        let hub = Hub::new();
        let (leadership, shutdown, _health) = leader(&hub).await;
        hub.set_mode(Mode::Rejects(500));
        leadership.lost().await;
        hub.set_mode(Mode::Works);
        // The delay of a first failure is at most a second, and the Lease is renewed every five.
        tokio::time::timeout(Duration::from_secs(7), leadership.acquired())
            .await
            .expect("it is leader again soon");
        shutdown.finish().await;
    });
}

#[test]
fn deleted_lease_ends_the_leadership() {
    on_paused_time(async {
        let hub = Hub::new();
        let (leadership, shutdown, _health) = leader(&hub).await;
        hub.set_mode(Mode::Rejects(404));
        let begun = Instant::now();
        leadership.lost().await;
        assert!(begun.elapsed() < Duration::from_secs(6), "it stayed leader for {:?}", begun.elapsed());
        shutdown.finish().await;
    });
}
