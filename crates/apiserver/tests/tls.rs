//! The TLS port: who gets in, how much goes through one connection, and how it stops.

use bellwether_apiserver::HUB;
use bellwether_testkit::{Call, Flavour, embedded};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_get_401_except_for_health() {
    let server = embedded::builder().start().await.unwrap();
    let url = embedded::serve(&server).await;
    let stranger = embedded::logical_cluster_over_tls(&server, &url, HUB).await.anonymous();
    for path in ["/api", "/api/v1/namespaces", "/version", "/nowhere", "/clusters/hub/api/v1/namespaces"] {
        let answer = stranger.send(Call::get(path)).await;
        answer.expect_failure(401, "Unauthorized").assert_message("Unauthorized");
    }
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(stranger.get(path).await.text(), "ok", "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_requests_share_a_connection() {
    let cluster = embedded::over_tls().await;
    assert_eq!(cluster.flavour(), Flavour::Tls);
    let namespace = cluster.namespace().await;
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    // Watches stay open, so that all of them are streams of one connection at the same time.
    let mut watches = Vec::new();
    for _ in 0..100 {
        watches.push(cluster.watch(format!("{maps}?watch=1&resourceVersion=0")).await);
    }
    for watch in &mut watches {
        watch.expect("ADDED", "kube-root-ca.crt").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_watches_and_refuses_new_requests() {
    let server = embedded::builder().start().await.unwrap();
    let url = embedded::serve(&server).await;
    let cluster = embedded::logical_cluster_over_tls(&server, &url, HUB).await;
    let mut watch = cluster.watch("/api/v1/namespaces?watch=1&resourceVersion=0").await;
    watch.event().await;
    server.stop().await;
    while watch.next().await.is_some() {}
    let inside = embedded::logical_cluster(&server, HUB);
    let answer = inside.get("/api/v1/namespaces").await;
    answer.expect_failure(503, "ServiceUnavailable");
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!(inside.get("/readyz").await.status, 500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logical_clusters_are_apart() {
    let server = embedded::builder().clusters(["spoke-1", "spoke-2"]).start().await.unwrap();
    let url = embedded::serve(&server).await;
    let one = embedded::logical_cluster_over_tls(&server, &url, "spoke-1").await;
    let two = embedded::logical_cluster_over_tls(&server, &url, "spoke-2").await;
    let namespace = one.namespace().await;
    one.get(format!("/api/v1/namespaces/{namespace}")).await.expect(200);
    two.get(format!("/api/v1/namespaces/{namespace}")).await.expect_failure(404, "NotFound");
    let hub = embedded::logical_cluster_over_tls(&server, &url, HUB).await;
    hub.get(format!("/api/v1/namespaces/{namespace}")).await.expect_failure(404, "NotFound");
    hub.get(format!("/clusters/spoke-1/api/v1/namespaces/{namespace}")).await.expect(200);
    hub.get("/clusters/nobody/api/v1/namespaces").await.expect_failure(404, "NotFound");
}
