//! Elections of which the API stops to answer, or refuses for a while. Nothing but the lease is there, so that time can be
//! paused.

use std::sync::Arc;
use std::time::Duration;

use bellwether_runtime::{Election, Health, Leadership, Shutdown};
use bellwether_testkit::{eventually, on_paused_time, on_real_time};
use http::{Method, Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

const TERM: Duration = Duration::from_secs(15);

/// How writes of the lease are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Fine,
    /// With this status.
    Refusing(u16),
    Reset,
    Silent,
}

/// The lease, and what becomes of who asks for it.
#[derive(Clone)]
struct Hub {
    lease: Arc<Mutex<Value>>,
    mood: Arc<Mutex<Mood>>,
    renewed: Arc<Mutex<Vec<Instant>>>,
}

impl Hub {
    fn new() -> Self {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "controllers"}, "spec": {},
        });
        Self {
            lease: Arc::new(Mutex::new(lease)),
            mood: Arc::new(Mutex::new(Mood::Fine)),
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
        let mood = *self.mood.lock();
        match mood {
            Mood::Refusing(code) if writes => return Ok(refusal(code)),
            Mood::Reset if writes => return Err(kube::Error::Service("connection reset".into())),
            Mood::Silent if writes => return std::future::pending().await,
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
        Ok(Response::new(Body::from(self.lease.lock().to_string().into_bytes())))
    }

    fn is(&self, mood: Mood) {
        *self.mood.lock() = mood;
    }

    fn last_renewal(&self) -> Instant {
        *self.renewed.lock().last().unwrap()
    }

    /// Waits until the lease has been renewed after this.
    async fn renewal_after(&self, moment: Instant) {
        eventually("it is renewed", || async { (self.last_renewal() > moment).then_some(()) }).await;
    }
}

fn refusal(code: u16) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "not now",
        "reason": "TooManyRequests"});
    let mut answer = Response::new(Body::from(status.to_string().into_bytes()));
    *answer.status_mut() = http::StatusCode::from_u16(code).unwrap();
    answer
}

/// A candidate that leads.
async fn leader(hub: &Hub) -> (Leadership, Shutdown, Health) {
    let (shutdown, health) = (Shutdown::default(), Health::default());
    let election =
        Election { namespace: "default".into(), lease: "controllers".into(), candidate: "one".into() };
    let leadership = Leadership::elected(hub.client(), election, &shutdown, &health);
    leadership.held().await;
    (leadership, shutdown, health)
}

#[test]
fn who_is_refused_for_a_while_leads_on() {
    for mood in [Mood::Refusing(429), Mood::Refusing(500), Mood::Reset] {
        on_paused_time(async {
            let hub = Hub::new();
            let (leadership, shutdown, health) = leader(&hub).await;
            hub.renewal_after(hub.last_renewal()).await;
            hub.is(mood);
            let lost = tokio::time::timeout(Duration::from_secs(10), leadership.lost()).await;
            assert!(lost.is_err(), "it let go of a lease that is its own");
            let words = health.troubles();
            assert!(matches!(words.as_slice(), [(_, words)] if words.contains("leads on")), "{words:?}");
            let back = Instant::now();
            hub.is(Mood::Fine);
            hub.renewal_after(back).await;
            assert!(leadership.is_held());
            eventually("all is well", || async { health.troubles().is_empty().then_some(()) }).await;
            shutdown.finish().await;
        });
    }
}

/// On real time, by which the next try is planned.
#[test]
fn who_is_not_answered_once_asks_again_and_leads_on() {
    on_real_time(async {
        let hub = Hub::new();
        let (leadership, shutdown, _health) = leader(&hub).await;
        hub.is(Mood::Silent);
        let fine = async {
            tokio::time::sleep(Duration::from_secs(6)).await;
            let back = Instant::now();
            hub.is(Mood::Fine);
            hub.renewal_after(back).await;
        };
        tokio::select! {
            () = fine => {}
            () = leadership.lost() => panic!("it let go of a lease that is its own"),
        }
        shutdown.finish().await;
    });
}

#[test]
fn who_cannot_renew_stands_back_before_the_term_is_over_and_leads_again_when_it_can() {
    for mood in [Mood::Refusing(500), Mood::Reset, Mood::Silent] {
        on_paused_time(async {
            let hub = Hub::new();
            let (leadership, shutdown, _health) = leader(&hub).await;
            hub.renewal_after(hub.last_renewal()).await;
            hub.is(mood);
            let renewed = hub.last_renewal();
            tokio::time::timeout(TERM, leadership.lost()).await.expect("it does not lead beyond its term");
            let held = renewed.elapsed();
            assert!(held <= TERM - Duration::from_secs(2), "too late for clocks that differ: {held:?}");
            // The lease still has its name, which is not enough.
            let early = tokio::time::timeout(Duration::from_secs(60), leadership.held()).await;
            assert!(early.is_err(), "it leads by a term that is over");
            hub.is(Mood::Fine);
            tokio::time::timeout(Duration::from_secs(60), leadership.held()).await.expect("it leads again");
            shutdown.finish().await;
        });
    }
}

#[test]
fn who_stood_back_asks_again_soon_however_often_it_had_tried_to_renew() {
    on_paused_time(async {
        let hub = Hub::new();
        let (leadership, shutdown, _health) = leader(&hub).await;
        hub.is(Mood::Refusing(500));
        leadership.lost().await;
        hub.is(Mood::Fine);
        // The wait of a first failure, a second at the most, and five until the lease is renewed.
        tokio::time::timeout(Duration::from_secs(7), leadership.held()).await.expect("it leads again soon");
        shutdown.finish().await;
    });
}

#[test]
fn a_lease_that_is_gone_is_nobodys() {
    on_paused_time(async {
        let hub = Hub::new();
        let (leadership, shutdown, _health) = leader(&hub).await;
        hub.is(Mood::Refusing(404));
        let begun = Instant::now();
        leadership.lost().await;
        assert!(begun.elapsed() < Duration::from_secs(6), "it asked on for {:?}", begun.elapsed());
        shutdown.finish().await;
    });
}
