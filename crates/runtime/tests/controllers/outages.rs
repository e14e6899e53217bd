//! The readiness of a controller while the API server fails, and afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bellwether_runtime::{Context, run};
use bellwether_testkit::{embedded, eventually, on_paused_time};
use kube::client::Body;

use crate::{Recorder, context, create_config_map};

/// A client whose first `times` requests with this part of the query fail.
fn failing_client(client: kube::Client, part_of_query: &'static str, times: usize) -> kube::Client {
    let left = Arc::new(AtomicUsize::new(times));
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (client, left) = (client.clone(), left.clone());
        async move {
            let is_matching = request.uri().query().is_some_and(|query| query.contains(part_of_query));
            let decrement = |left: usize| left.checked_sub(1);
            if is_matching && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, decrement).is_ok() {
                return Err(kube::Error::Service("no response".into()));
            }
            client.send(request).await
        }
    });
    kube::Client::new(service, "default")
}

/// A client that can be interrupted: meanwhile, watches get `410 Gone` and all other requests fail.
pub(crate) fn interruptible_client(client: kube::Client) -> (kube::Client, Interruption) {
    let interrupted = Arc::new(AtomicBool::new(false));
    let switch = interrupted.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (client, interrupted) = (client.clone(), switch.load(Ordering::SeqCst));
        async move {
            let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            match (interrupted, watches) {
                (false, _) => client.send(request).await,
                (true, true) => {
                    let gone = r#"{"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old",
                        "reason": "Expired", "status": "Failure"}}"#;
                    Ok(http::Response::new(Body::from(format!("{}\n", gone.replace('\n', "")).into_bytes())))
                }
                (true, false) => Err(kube::Error::Service("no response".into())),
            }
        }
    });
    (kube::Client::new(service, "default"), Interruption(interrupted))
}

pub(crate) struct Interruption(Arc<AtomicBool>);

impl Interruption {
    pub(crate) fn interrupt(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn restore(&self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

#[test]
fn resumed_watch_makes_the_controller_ready_without_any_change() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let client = failing_client(cluster.client(), "watch=true", 1);
        let (recorder, context) = (Recorder::default(), Context { client, ..context(&cluster) });
        context.shutdown.spawn(run(recorder.clone(), context.clone()));
        eventually("the watch has failed", || async {
            context.health.not_ready().iter().any(|(_, reason)| reason.contains("watch")).then_some(())
        })
        .await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(context.health.not_ready(), []);
        let namespace = cluster.namespace().await;
        create_config_map(&cluster, &namespace, "later").await;
        recorder.wait_for_reconciles("later", 1).await;
    });
}

#[test]
fn controller_is_not_ready_before_the_first_response() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let unresponsive = tower::service_fn(|_: http::Request<Body>| {
            std::future::pending::<Result<http::Response<Body>, kube::Error>>()
        });
        let client = kube::Client::new(unresponsive, "default");
        let context = Context { client, ..context(&cluster) };
        context.shutdown.spawn(run(Recorder::default(), context.clone()));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(context.health.not_ready().len(), 1, "{:?}", context.health.not_ready());
    });
}
