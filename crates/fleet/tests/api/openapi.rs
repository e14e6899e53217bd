//! What the API answers is what its OpenAPI document says it answers.

use serde_json::{Value, json};

use crate::harness::{Api, Reply, sqlite};

/// The document that the API serves.
async fn document(api: &Api) -> Value {
    let reply = api.get("/openapi").await.expect(200);
    assert_eq!(reply.0.headers["content-type"], "application/json");
    reply.json()
}

/// That an answer has a status and content as declared for an operation.
#[track_caller]
fn assert_declared(document: &Value, operation_id: &str, reply: &Reply) {
    let paths = document["paths"].as_object().expect("paths");
    let operations = paths.values().flat_map(|item| item.as_object().expect("methods").values());
    let operation = operations.into_iter().find(|operation| operation["operationId"] == operation_id);
    let operation = operation.unwrap_or_else(|| panic!("no operation {operation_id}"));
    let response = &operation["responses"][reply.status().to_string()];
    assert!(response.is_object(), "{operation_id} does not declare {}: {}", reply.status(), reply.text());
    assert!(reply.0.headers.contains_key("x-request-id"));
    let Some(media_type) = reply.0.headers.get("content-type") else {
        assert!(response.get("content").is_none() && reply.text().is_empty());
        return;
    };
    let mut schema = document.clone();
    schema["allOf"] = json!([response["content"][media_type.to_str().unwrap()]["schema"]]);
    assert!(schema["allOf"][0].is_object(), "{operation_id} does not declare {media_type:?}");
    let validator = jsonschema::options().should_validate_formats(true).build(&schema).expect("a schema");
    let wrong: Vec<String> = validator.iter_errors(&reply.json()).map(|error| format!("{error}")).collect();
    assert!(wrong.is_empty(), "{operation_id}: {wrong:?} in {}", reply.text());
}

#[tokio::test]
async fn what_is_answered_is_as_declared() {
    let api = Api::start(sqlite()).await;
    let document = document(&api).await;
    let cluster = json!({"kind": "Cluster", "name": "abc", "labels": {"env": "prod"}, "spec": {"a": 1}});
    let made = api.send("POST", "/clusters", Some(cluster.clone())).await.expect(201);
    assert_declared(&document, "create_Cluster", &made);
    let href = made.json()["href"].as_str().unwrap().to_owned();
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let pool = api.node_pool(&href, "pool").await["id"].as_str().unwrap().to_owned();
    api.report(&href, "dns", (1, 0), "True").await.expect(201);

    let of_any = format!("/resources/{id}");
    let log = format!("{href}/statuses/log");
    let statuses = format!("{href}/statuses");
    let pools = format!("{href}/nodepools");
    let node_pool = format!("{pools}/{pool}");
    let force = format!("{href}/force-delete");
    let report = json!({
        "adapter": "validation", "observed_generation": 1, "data": {"x": [1]}, "metadata": {"attempt": 1, "job_name": "a"},
        "conditions": [
            {"type": "Available", "status": "True", "reason": "R", "message": "m"},
            {"type": "Applied", "status": "True"},
            {"type": "Health", "status": "False"},
        ],
    });
    let late = json!({"adapter": "dns", "observed_generation": 7, "conditions": []});
    let rows = [
        ("create_Cluster", "POST", "/clusters", Some(cluster.clone()), 409),
        ("create_Cluster", "POST", "/clusters", Some(json!({"kind": "Cluster"})), 400),
        (
            "create_NodePool",
            "POST",
            "/nodepools",
            Some(json!({"kind": "NodePool", "name": "abc", "spec": {}})),
            422,
        ),
        ("report_status_Cluster", "PUT", &statuses, Some(report), 201),
        ("report_status_Cluster", "PUT", &statuses, Some(late), 204),
        ("get_Cluster", "GET", &href, None, 200),
        ("get_any", "GET", &of_any, None, 200),
        ("get_any", "GET", "/resources/nothing", None, 404),
        ("get_Cluster_NodePool", "GET", &node_pool, None, 200),
        ("list_Cluster", "GET", "/clusters", None, 200),
        ("list_Cluster", "GET", "/clusters?fields=name,spec.a,labels.env,status.conditions.type", None, 200),
        ("list_Cluster", "GET", "/clusters?page=0", None, 400),
        ("list_Cluster", "GET", "/clusters?watch=true&since=999", None, 410),
        ("list_any", "GET", "/resources", None, 200),
        ("list_any", "GET", "/resources?fields=owner_references.id", None, 200),
        ("list_Cluster_NodePool", "GET", &pools, None, 200),
        ("list_statuses_Cluster", "GET", &statuses, None, 200),
        ("list_status_log_Cluster", "GET", &log, None, 200),
        ("patch_Cluster", "PATCH", &href, Some(json!({"spec": {"a": 2}})), 200),
        ("patch_Cluster", "PATCH", &href, Some(json!({})), 400),
        ("force_delete_Cluster", "POST", &force, Some(json!({"reason": "why"})), 409),
        ("delete_Cluster", "DELETE", &href, None, 202),
        ("get_Cluster", "GET", &href, None, 200),
        ("patch_Cluster", "PATCH", &href, Some(json!({"spec": {"a": 3}})), 409),
        ("force_delete_Cluster", "POST", &force, Some(json!({"reason": "why"})), 204),
    ];
    for (operation_id, method, path, body, status) in rows {
        let reply = api.send(method, path, body).await.expect(status);
        assert_declared(&document, operation_id, &reply);
    }
    let reply = api.get("/api/hyperfleet").await.expect(200);
    assert_declared(&document, "get_metadata", &reply);
}

#[tokio::test]
async fn a_page_shows_the_document_and_may_run_nothing() {
    let api = Api::start(sqlite()).await;
    let reply = api.get("/openapi.html").await.expect(200);
    assert_eq!(reply.0.headers["content-type"], "text/html; charset=utf-8");
    let policy = reply.0.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("default-src 'none'") && !policy.contains("script-src"), "{policy}");
    assert!(reply.text().contains("/api/hyperfleet/v1/clusters/{parent_id}/nodepools/{id}"));
}

#[tokio::test]
async fn the_document_can_only_be_read() {
    let api = Api::start(sqlite()).await;
    for path in ["/openapi", "/openapi.html", "/api/hyperfleet"] {
        let reply = api.send("PUT", path, None).await;
        assert_eq!(reply.0.headers["allow"], "GET, HEAD");
        reply.expect_problem(405, "NTF-004", "PUT");
        assert_eq!(api.send("HEAD", path, None).await.expect(200).text(), "");
    }
}
