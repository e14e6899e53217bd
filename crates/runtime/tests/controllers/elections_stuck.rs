//! An election of which the API stops to answer. Nothing but the lease is there, so that time can be paused.

use std::time::Duration;

use bellwether_runtime::{Election, Health, Leadership, Shutdown};
use bellwether_testkit::on_paused_time;
use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::json;

/// Whoever asks holds the lease, and cannot renew it: that is not answered.
fn stuck(candidate: &'static str) -> kube::Client {
    let service = tower::service_fn(move |request: Request<Body>| async move {
        if request.method() != Method::GET {
            std::future::pending::<()>().await;
        }
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "controllers"},
            "spec": {
                "holderIdentity": candidate, "leaseDurationSeconds": 15,
                "renewTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
            },
        });
        Ok::<_, kube::Error>(Response::new(Body::from(lease.to_string().into_bytes())))
    });
    kube::Client::new(service, "default")
}

#[test]
fn who_gets_no_answer_stands_back_before_the_term_is_over() {
    on_paused_time(async {
        let (shutdown, health) = (Shutdown::default(), Health::default());
        let election =
            Election { namespace: "default".into(), lease: "controllers".into(), candidate: "one".into() };
        let leadership = Leadership::elected(stuck("one"), election, &shutdown, &health);
        leadership.held().await;
        let term = Duration::from_secs(15);
        tokio::time::timeout(term, leadership.lost()).await.expect("it does not lead beyond its term");
        shutdown.finish().await;
    });
}
