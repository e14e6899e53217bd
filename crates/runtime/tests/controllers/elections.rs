//! Elections, on our server and on real Kubernetes.

use std::time::Duration;

use bellwether_runtime::{Election, Health, Leadership, Shutdown};
#[cfg(feature = "real-kubernetes")]
use bellwether_testkit::real;
use bellwether_testkit::{Cluster, embedded, on_real_time};

fn election(namespace: &str, candidate: &str) -> Election {
    Election { namespace: namespace.into(), lease: "controllers".into(), candidate: candidate.into() }
}

#[test]
fn one_of_several_leads_and_another_when_it_stops() {
    on_real_time(async { one_of_several_leads(embedded::in_process().await).await });
}

#[cfg(feature = "real-kubernetes")]
#[test]
fn one_of_several_leads_and_another_when_it_stops_on_kubernetes() {
    on_real_time(async { one_of_several_leads(real::cluster("elections").await).await });
}

#[test]
fn who_cannot_reach_the_lease_does_not_lead() {
    on_real_time(async { nobody_leads_without_a_lease(embedded::in_process().await).await });
}

#[cfg(feature = "real-kubernetes")]
#[test]
fn who_cannot_reach_the_lease_does_not_lead_on_kubernetes() {
    on_real_time(async { nobody_leads_without_a_lease(real::cluster("elections").await).await });
}

async fn one_of_several_leads(cluster: Cluster) {
    let namespace = cluster.namespace().await;
    let (one, other, health) = (Shutdown::default(), Shutdown::default(), Health::default());
    let first = Leadership::elected(cluster.client(), election(&namespace, "one"), &one, &health);
    first.held().await;
    let second = Leadership::elected(cluster.client(), election(&namespace, "other"), &other, &health);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(first.is_held() && !second.is_held());
    assert_eq!(health.troubles(), [], "to stand by is no trouble");

    // It lets go of the lease at its end, so that nobody waits for the term to pass.
    one.finish().await;
    assert!(!first.is_held());
    tokio::time::timeout(Duration::from_secs(30), second.held()).await.expect("the other one leads");
    other.finish().await;
}

async fn nobody_leads_without_a_lease(cluster: Cluster) {
    let (shutdown, health) = (Shutdown::default(), Health::default());
    let nowhere = election("there-is-no-such-namespace", "one");
    let leadership = Leadership::elected(cluster.client(), nowhere, &shutdown, &health);
    let early = tokio::time::timeout(Duration::from_secs(3), leadership.held()).await;
    assert!(early.is_err(), "it leads without a lease");
    let troubles = health.troubles();
    assert!(matches!(troubles.as_slice(), [(_, words)] if words.contains("not found")), "{troubles:?}");
    shutdown.finish().await;
}
