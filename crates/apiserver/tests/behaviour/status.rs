//! §1.2: the Status that every refusal is.

use bellwether_testkit::{Call, Cluster};
use serde_json::json;

use super::{cases, config_map, config_maps, revision};

cases! { "status":
    a_missing_object_is_404_with_the_resource_in_details,
    a_kind_with_a_group_is_named_with_it,
    an_unknown_group_is_a_plain_text_404,
    an_unknown_resource_of_a_known_group_is_a_status,
    creating_what_exists_is_409_already_exists,
    replacing_a_newer_object_is_409_conflict,
    an_invalid_object_is_422_with_a_cause_for_each_field,
    a_body_of_another_version_is_400,
    a_body_that_is_no_json_is_400,
    a_method_that_is_not_served_is_405,
    an_unknown_media_type_is_415,
    a_media_type_that_cannot_be_served_is_406,
    strict_validation_names_unknown_and_duplicate_fields_in_document_order,
    unknown_fields_are_warned_of_by_default_and_ignored_on_request,
    a_deeply_nested_body_is_refused_and_the_server_lives,
    invalid_options_name_the_kind_of_the_options,
}

async fn a_missing_object_is_404_with_the_resource_in_details(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let answer = cluster.get(format!("{}/zzz", config_maps(&namespace))).await;
    let refused = answer.expect_failure(404, "NotFound");
    refused.assert_details("", "configmaps", "zzz");
    assert_eq!(refused.message(), "configmaps \"zzz\" not found");
}

async fn a_kind_with_a_group_is_named_with_it(cluster: &Cluster) {
    let answer = cluster.get("/apis/coordination.k8s.io/v1/namespaces/default/leases/zzz").await;
    let refused = answer.expect_failure(404, "NotFound");
    refused.assert_details("coordination.k8s.io", "leases", "zzz");
    assert_eq!(refused.message(), "leases.coordination.k8s.io \"zzz\" not found");
}

async fn an_unknown_group_is_a_plain_text_404(cluster: &Cluster) {
    for path in ["/apis/missing.example.com", "/apis/missing.example.com/v1", "/elsewhere"] {
        let answer = cluster.get(path).await;
        assert_eq!((answer.status, answer.text().as_str()), (404, "404 page not found\n"), "{path}");
        assert!(answer.header("content-type").starts_with("text/plain"), "{path}");
    }
}

async fn an_unknown_resource_of_a_known_group_is_a_status(cluster: &Cluster) {
    for path in ["/api/v1/oddities", "/api/v9", "/apis/coordination.k8s.io/v9/leases"] {
        let answer = cluster.get(path).await;
        answer
            .expect_failure(404, "NotFound")
            .assert_message("the server could not find the requested resource");
    }
}

async fn creating_what_exists_is_409_already_exists(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    cluster.post(config_maps(&namespace), &config_map("a")).await.expect(201);
    let refused =
        cluster.post(config_maps(&namespace), &config_map("a")).await.expect_failure(409, "AlreadyExists");
    refused.assert_details("", "configmaps", "a");
    assert_eq!(refused.message(), "configmaps \"a\" already exists");
}

async fn replacing_a_newer_object_is_409_conflict(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let path = format!("{}/a", config_maps(&namespace));
    let old = cluster.post(config_maps(&namespace), &config_map("a")).await.expect(201);
    cluster.merge(&path, &json!({"data": {"key": "newer"}})).await.expect(200);
    let refused = cluster.put(&path, &old).await.expect_failure(409, "Conflict");
    refused.assert_details("", "configmaps", "a");
    assert_eq!(
        refused.message(),
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again"
    );
}

async fn an_invalid_object_is_422_with_a_cause_for_each_field(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let mut object = config_map("Bad");
    object["data"] = json!({"not a key": "x"});
    let refused = cluster.post(config_maps(&namespace), &object).await.expect_failure(422, "Invalid");
    refused.assert_details("", "ConfigMap", "Bad");
    refused
        .assert_cause("FieldValueInvalid", "metadata.name")
        .assert_cause("FieldValueInvalid", "data[not a key]");
    refused.assert_message("ConfigMap \"Bad\" is invalid: [metadata.name: Invalid value: \"Bad\": ");
}

async fn a_body_of_another_version_is_400(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let event = json!({"kind": "Event", "apiVersion": "v1", "metadata": {"name": "e"}});
    let answer = cluster.post(format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events"), &event).await;
    answer.expect_failure(400, "BadRequest").assert_message(
        "the API version in the data (v1) does not match the expected API version (events.k8s.io/v1)",
    );
    let secret = json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}});
    let answer = cluster.post(config_maps(&namespace), &secret).await;
    answer
        .expect_failure(400, "BadRequest")
        .assert_message("Secret in version \"v1\" cannot be handled as a ConfigMap");
}

async fn a_body_that_is_no_json_is_400(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    for (media, body) in [
        ("application/json", "{"),
        ("application/json", "{]"),
        ("application/json", "{} {}"),
        ("application/json", "\u{fffd}"),
        ("application/yaml", "a: [b"),
        ("application/yaml", "a: b: c"),
    ] {
        let call = Call::new(http::Method::POST, config_maps(&namespace)).body(media, body);
        cluster.send(call).await.expect_failure(400, "BadRequest");
    }
}

async fn a_method_that_is_not_served_is_405(cluster: &Cluster) {
    for call in [
        Call::delete("/api/v1/namespaces"),
        Call::put("/api/v1/namespaces", &json!({})),
        Call::post("/api/v1/configmaps", &json!({})),
        Call::post("/api/v1/namespaces/default/configmaps/a", &json!({})),
    ] {
        cluster.send(call).await.expect_failure(405, "MethodNotAllowed");
    }
}

async fn an_unknown_media_type_is_415(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let call = Call::new(http::Method::POST, config_maps(&namespace)).body("text/plain", "hello");
    cluster.send(call).await.expect_failure(415, "UnsupportedMediaType").assert_message(
        "the body of the request was in an unknown format - accepted media types include: application/json",
    );
}

async fn a_media_type_that_cannot_be_served_is_406(cluster: &Cluster) {
    let answer = cluster.send(Call::get("/api/v1/namespaces").accept("text/html")).await;
    answer
        .expect_failure(406, "NotAcceptable")
        .assert_message("Available representations: application/json, application/yaml");
    let odd = Call::get("/api/v1/namespaces").accept("application/json;as=Odd;v=v1;g=meta.k8s.io");
    let answer = cluster.send(odd).await;
    answer
        .expect_failure(406, "NotAcceptable")
        .assert_message("only the following media types are accepted: application/json");
}

async fn strict_validation_names_unknown_and_duplicate_fields_in_document_order(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let body = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"s","odd":1},"data":{"a":"1","a":"2"},"spec":{}}"#;
    let path = format!("{}?fieldValidation=Strict", config_maps(&namespace));
    let answer = cluster.send(Call::new(http::Method::POST, path).body("application/json", body)).await;
    assert_eq!(
        answer.expect_failure(400, "BadRequest").message(),
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"metadata.odd\", duplicate field \"data.a\", unknown field \"spec\""
    );
}

async fn unknown_fields_are_warned_of_by_default_and_ignored_on_request(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let mut object = config_map("warned");
    object["spec"] = json!({"odd": true});
    let answer = cluster.post(config_maps(&namespace), &object).await;
    assert!(answer.expect(201)["spec"].is_null());
    assert_eq!(answer.header("warning"), "299 - \"unknown field \\\"spec\\\"\"");
    object["metadata"]["name"] = json!("ignored");
    let path = format!("{}?fieldValidation=Ignore", config_maps(&namespace));
    let answer = cluster.post(path, &object).await;
    answer.expect(201);
    assert_eq!(answer.header("warning"), "");
}

async fn a_deeply_nested_body_is_refused_and_the_server_lives(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    for (media, body) in [
        ("application/json", "[".repeat(200_000)),
        ("application/json", format!("{{\"metadata\":{}1{}}}", "{\"a\":".repeat(20_000), "}".repeat(20_000))),
        ("application/yaml", "[".repeat(50_000)),
    ] {
        let call = Call::new(http::Method::POST, config_maps(&namespace)).body(media, body);
        cluster.send(call).await.expect_failure(400, "BadRequest");
    }
    cluster.get("/api/v1/namespaces/default").await.expect(200);
}

async fn invalid_options_name_the_kind_of_the_options(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let maps = config_maps(&namespace);
    let created = cluster.post(&maps, &config_map("a")).await.expect(201);
    assert!(revision(&created) > 0);
    for (call, kind, field) in [
        (Call::post(format!("{maps}?dryRun=Odd"), &config_map("b")), "CreateOptions", "dryRun"),
        (Call::put(format!("{maps}/a?dryRun=Odd"), &created), "UpdateOptions", "dryRun"),
        (Call::merge(format!("{maps}/a?dryRun=Odd"), &json!({})), "PatchOptions", "dryRun"),
        (Call::delete(format!("{maps}/a?dryRun=Odd")), "DeleteOptions", "dryRun"),
        (Call::get(format!("{maps}?resourceVersionMatch=Exact")), "ListOptions", "resourceVersionMatch"),
    ] {
        let refused = cluster.send(call).await.expect_failure(422, "Invalid");
        refused.assert_details("meta.k8s.io", kind, "");
        assert_eq!(refused.0["details"]["causes"][0]["field"], field);
    }
}
