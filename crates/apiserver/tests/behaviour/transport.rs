//! §1.1: headers, limits, timeouts.

use bellwether_testkit::{Call, Cluster};
use serde_json::json;

use super::difference::Difference;
use super::{cases, config_map, config_maps};

cases! { "transport":
    every_answer_has_an_audit_id_and_forbids_caching,
    an_audit_id_that_the_client_sent_comes_back,
    a_body_of_more_than_3_mib_is_refused_with_413,
    a_timeout_that_is_no_duration_is_refused_with_400,
    a_timeout_of_zero_or_too_long_is_the_servers_own,
    a_resource_version_on_create_is_refused,
}

async fn every_answer_has_an_audit_id_and_forbids_caching(cluster: &Cluster) {
    for path in ["/api/v1/namespaces/default", "/api/v1/namespaces/missing", "/api/v1/namespaces"] {
        let answer = cluster.get(path).await;
        assert_eq!(answer.header("audit-id").len(), 36, "{path}");
        assert_eq!(answer.header("cache-control"), "no-cache, private", "{path}");
        assert_eq!(answer.header("content-type"), "application/json", "{path}");
    }
}

async fn an_audit_id_that_the_client_sent_comes_back(cluster: &Cluster) {
    let call = Call::get("/api/v1/namespaces/default").header("audit-id", "f0e1d2c3");
    assert_eq!(cluster.send(call).await.header("audit-id"), "f0e1d2c3");
}

async fn a_body_of_more_than_3_mib_is_refused_with_413(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let mut object = config_map("large");
    object["data"]["key"] = "x".repeat(3 * 1024 * 1024).into();
    let answer = cluster.post(config_maps(&namespace), &object).await;
    answer
        .expect_failure(413, "RequestEntityTooLarge")
        .assert_message("Request entity too large: limit is 3145728");
}

async fn a_timeout_that_is_no_duration_is_refused_with_400(cluster: &Cluster) {
    let answer = cluster.get("/api/v1/namespaces?timeout=soon").await;
    answer.expect_failure(400, "BadRequest").assert_message("invalid timeout specified in the request URL");
}

async fn a_timeout_of_zero_or_too_long_is_the_servers_own(cluster: &Cluster) {
    for timeout in ["0s", "10h", "5s"] {
        cluster.get(format!("/api/v1/namespaces?timeout={timeout}")).await.expect(200);
    }
}

async fn a_resource_version_on_create_is_refused(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let mut object = config_map("versioned");
    object["metadata"]["resourceVersion"] = json!("5");
    let answer = cluster.post(config_maps(&namespace), &object).await;
    let (code, reason) = Difference::ClientMistakes.expect(cluster, (500, ""), (400, "BadRequest"));
    answer
        .expect_failure(code, reason)
        .assert_message("resourceVersion should not be set on objects to be created");
}
