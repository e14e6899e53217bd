//! Leader election, on the embedded API server and on real Kubernetes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bellwether_runtime::{Election, Health, Leadership, Shutdown};
#[cfg(feature = "real-kubernetes")]
use bellwether_testkit::real;
use bellwether_testkit::{Cluster, embedded, on_real_time};
use tokio::time::Instant;

fn election(namespace: &str, identity: &str) -> Election {
    Election { namespace: namespace.into(), lease: "controllers".into(), identity: identity.into() }
}

#[test]
fn standby_takes_over_within_a_second_of_a_release() {
    on_real_time(async { standby_takes_over(embedded::in_process().await).await });
}

#[cfg(feature = "real-kubernetes")]
#[test]
fn standby_takes_over_within_a_second_of_a_release_on_kubernetes() {
    on_real_time(async { standby_takes_over(real::cluster("elections").await).await });
}

#[test]
fn standby_takes_over_within_the_lease_duration_of_a_crash() {
    on_real_time(async { standby_takes_over_after_a_crash(embedded::in_process().await).await });
}

#[cfg(feature = "real-kubernetes")]
#[test]
fn standby_takes_over_within_the_lease_duration_of_a_crash_on_kubernetes() {
    on_real_time(async { standby_takes_over_after_a_crash(real::cluster("elections").await).await });
}

#[test]
fn candidate_without_a_lease_is_not_leader() {
    on_real_time(async { no_leader_without_a_lease(embedded::in_process().await).await });
}

#[cfg(feature = "real-kubernetes")]
#[test]
fn candidate_without_a_lease_is_not_leader_on_kubernetes() {
    on_real_time(async { no_leader_without_a_lease(real::cluster("elections").await).await });
}

async fn standby_takes_over(cluster: Cluster) {
    let namespace = cluster.namespace().await;
    let (one, other, health) = (Shutdown::default(), Shutdown::default(), Health::default());
    let first = Leadership::elected(&cluster.client(), election(&namespace, "one"), &one, &health);
    first.acquired().await;
    let second = Leadership::elected(&cluster.client(), election(&namespace, "other"), &other, &health);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(first.is_leader() && !second.is_leader());
    assert_eq!(health.not_ready(), [], "a standby is ready");

    // The Lease is released at the end, so that the standby does not wait for its expiry.
    one.finish().await;
    assert!(!first.is_leader());
    tokio::time::timeout(Duration::from_secs(1), second.acquired()).await.expect("the standby takes over");
    other.finish().await;
}

async fn standby_takes_over_after_a_crash(cluster: Cluster) {
    let namespace = cluster.namespace().await;
    let (one, other, health) = (Shutdown::default(), Shutdown::default(), Health::default());
    let (client, crashed) = crashable_client(cluster.client());
    let first = Leadership::elected(&client, election(&namespace, "crashes"), &one, &health);
    first.acquired().await;
    let second = Leadership::elected(&cluster.client(), election(&namespace, "standby"), &other, &health);
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert!(first.is_leader() && !second.is_leader());
    crashed.store(true, Ordering::SeqCst);
    let crash = Instant::now();
    tokio::time::timeout(Duration::from_secs(30), second.acquired()).await.expect("the standby takes over");
    assert!(crash.elapsed() <= Duration::from_secs(15 + 1), "{:?}", crash.elapsed());
    assert!(!first.is_leader(), "two leaders");
    other.finish().await;
}

/// A client of a process that crashes when the flag is set: after that, it can neither renew nor release its
/// Lease.
fn crashable_client(client: kube::Client) -> (kube::Client, Arc<AtomicBool>) {
    let crashed = Arc::new(AtomicBool::new(false));
    let switch = crashed.clone();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (client, crashed) = (client.clone(), switch.load(Ordering::SeqCst));
        async move {
            if crashed {
                std::future::pending::<()>().await;
            }
            client.send(request).await
        }
    });
    (kube::Client::new(service, "default"), crashed)
}

async fn no_leader_without_a_lease(cluster: Cluster) {
    let (shutdown, health) = (Shutdown::default(), Health::default());
    let election_without_namespace = election("there-is-no-such-namespace", "one");
    let leadership = Leadership::elected(&cluster.client(), election_without_namespace, &shutdown, &health);
    let early = tokio::time::timeout(Duration::from_secs(3), leadership.acquired()).await;
    assert!(early.is_err(), "leader without a Lease");
    let not_ready = health.not_ready();
    assert!(matches!(not_ready.as_slice(), [(_, reason)] if reason.contains("not found")), "{not_ready:?}");
    shutdown.finish().await;
}
