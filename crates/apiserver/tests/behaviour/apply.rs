//! §1.12: who owns which field, and server-side apply.

use bellwether_testkit::{Answer, Call, Cluster, eventually};
use http::Method;
use serde_json::{Value, json};

use super::difference::Difference;
use super::{cases, config_map, config_maps, revision};

const APPLY: &str = "application/apply-patch+yaml";

cases! { "apply":
    every_write_records_who_changed_what,
    a_manager_is_named_by_the_request_or_by_the_client,
    what_the_server_provides_is_its_own,
    an_apply_needs_a_manager_and_only_an_apply_takes_force,
    an_apply_creates_and_the_same_again_changes_nothing,
    a_conflict_names_the_managers_and_the_fields_and_force_takes_them,
    fields_go_with_their_last_owner_and_defaults_come_back,
    an_apply_is_refused_when_it_is_of_something_else,
    a_status_and_a_scale_are_tracked_apart,
    a_dry_run_of_an_apply_leaves_nothing,
    keys_that_stand_twice_are_told_or_refused,
    entries_can_be_written_and_taken_away,
    kubectl_migrates_from_applying_on_the_clients_side,
    more_than_ten_updaters_are_merged,
    entries_carry_the_version_they_were_written_in,
    an_event_is_owned_in_the_group_through_which_it_was_last_written,
    what_becomes_one_value_is_owned_as_one,
}

async fn apply(cluster: &Cluster, path: &str, query: &str, body: &Value) -> Answer {
    cluster.send(Call::new(Method::PATCH, format!("{path}?{query}")).body(APPLY, body.to_string())).await
}

/// The entries of an object without their times.
fn managers(object: &Value) -> Vec<(String, String, String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let mut managers: Vec<_> = entries
        .iter()
        .map(|entry| {
            assert_eq!(entry["fieldsType"], "FieldsV1");
            let subresource = text(entry, "subresource");
            (text(entry, "manager"), text(entry, "operation"), subresource, entry["fieldsV1"].clone())
        })
        .collect();
    managers.sort_by_key(|manager| (manager.0.clone(), manager.1.clone(), manager.2.clone()));
    managers
}

fn entry(
    manager: &str,
    operation: &str,
    subresource: &str,
    fields: Value,
) -> (String, String, String, Value) {
    (manager.to_owned(), operation.to_owned(), subresource.to_owned(), fields)
}

fn thing(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "main", "image": "main:1"}]}},
        },
    })
}

async fn every_write_records_who_changed_what(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let path = config_maps(&namespace);
    let created = cluster.post(format!("{path}?fieldManager=one"), &config_map("a")).await.expect(201);
    let data = |keys: &[&str]| {
        let keys: serde_json::Map<String, Value> =
            keys.iter().map(|key| ((*key).to_owned(), json!({}))).collect();
        json!({"f:data": keys})
    };
    assert_eq!(managers(&created), [entry("one", "Update", "", data(&[".", "f:key"]))]);
    let at = format!("{path}/a");
    cluster.merge(format!("{at}?fieldManager=two"), &json!({"data": {"more": "x"}})).await.expect(200);
    let mut object = cluster.get(&at).await.expect(200);
    object["data"]["key"] = "other".into();
    let replaced = cluster.put(format!("{at}?fieldManager=three"), &object).await.expect(200);
    assert_eq!(
        managers(&replaced),
        [
            entry("one", "Update", "", json!({"f:data": {}})),
            entry("three", "Update", "", data(&["f:key"])),
            entry("two", "Update", "", data(&["f:more"])),
        ]
    );
    let patch = json!([{"op": "remove", "path": "/data/more"}]);
    let patched = cluster.send(Call::json_patch(format!("{at}?fieldManager=four"), &patch)).await.expect(200);
    assert_eq!(
        managers(&patched).len(),
        2,
        "who only takes away owns nothing, nor does who has nothing left"
    );
}

async fn a_manager_is_named_by_the_request_or_by_the_client(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    for (name, agent, query, manager) in [
        ("a", "kubectl/v1.36.0 (linux/amd64)", "", "kubectl"),
        ("b", "kubectl/v1.36.0", "?fieldManager=named", "named"),
        ("c", "plain", "", "plain"),
        ("d", "/nothing", "", "unknown"),
    ] {
        let call = Call::post(format!("{}{query}", config_maps(&namespace)), &config_map(name));
        let created = cluster.send(call.header("user-agent", agent)).await.expect(201);
        assert_eq!(managers(&created)[0].0, manager, "{agent}");
    }
    let long = "x".repeat(200);
    let call = Call::post(config_maps(&namespace), &config_map("e")).header("user-agent", &long);
    assert_eq!(managers(&cluster.send(call).await.expect(201))[0].0.len(), 128);
}

async fn what_the_server_provides_is_its_own(cluster: &Cluster) {
    let namespace = cluster.get("/api/v1/namespaces/default").await.expect(200);
    let fields = json!({"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}});
    assert_eq!(managers(&namespace), [entry("kube-apiserver", "Update", "", fields)]);
}

async fn an_apply_needs_a_manager_and_only_an_apply_takes_force(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let at = format!("{}/a", config_maps(&namespace));
    let refused = apply(cluster, &at, "", &thing("a", json!({}))).await.expect_failure(422, "Invalid");
    refused.assert_cause("FieldValueRequired", "fieldManager");
    assert_eq!(
        refused.message(),
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"
    );
    cluster.post(config_maps(&namespace), &config_map("a")).await.expect(201);
    let forced = cluster.merge(format!("{at}?force=true"), &json!({})).await;
    forced.expect_failure(422, "Invalid").assert_cause("FieldValueForbidden", "force");
}

async fn an_apply_creates_and_the_same_again_changes_nothing(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let at = format!("{}/a", config_maps(&namespace));
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: {l: x}\ndata:\n  a: \"1\"\n";
    let call = Call::new(Method::PATCH, format!("{at}?fieldManager=m")).body(APPLY, yaml);
    let created = cluster.send(call.clone()).await.expect(201);
    let fields = json!({"f:data": {"f:a": {}}, "f:metadata": {"f:labels": {"f:l": {}}}});
    assert_eq!(managers(&created), [entry("m", "Apply", "", fields)]);
    assert_eq!(created["data"], json!({"a": "1"}));
    let again = cluster.send(call).await.expect(200);
    assert_eq!(again, created);
}

async fn a_conflict_names_the_managers_and_the_fields_and_force_takes_them(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let at = format!("{}/a", config_maps(&namespace));
    apply(cluster, &at, "fieldManager=m1", &thing("a", json!({"a": "1", "b": "1"}))).await.expect(201);
    let one = apply(cluster, &at, "fieldManager=m2", &thing("a", json!({"a": "2"}))).await;
    let one = one.expect_failure(409, "Conflict");
    assert_eq!(one.message(), "Apply failed with 1 conflict: conflict with \"m1\": .data.a");
    assert_eq!(
        one.0["details"],
        json!({"causes": [{"reason": "FieldManagerConflict", "message": "conflict with \"m1\"", "field": ".data.a"}]})
    );
    cluster.merge(format!("{at}?fieldManager=ctl"), &json!({"data": {"c": "1"}})).await.expect(200);
    let wanted = thing("a", json!({"a": "2", "b": "2", "c": "2"}));
    let many = apply(cluster, &at, "fieldManager=m2", &wanted)
        .await
        .expect_failure(409, "Conflict")
        .message()
        .to_owned();
    assert_eq!(
        many,
        "Apply failed with 3 conflicts: conflicts with \"ctl\" using v1:\n- .data.c\nconflicts with \"m1\":\n- .data.a\n- .data.b"
    );
    let forced = apply(cluster, &at, "fieldManager=m2&force=true", &wanted).await.expect(200);
    assert_eq!(forced["data"], wanted["data"]);
    let fields = json!({"f:data": {"f:a": {}, "f:b": {}, "f:c": {}}});
    assert_eq!(managers(&forced), [entry("m2", "Apply", "", fields)]);
    // The same value is shared rather than contested.
    let shared = apply(cluster, &at, "fieldManager=m3", &thing("a", json!({"a": "2"}))).await.expect(200);
    assert_eq!(managers(&shared).len(), 2);
}

async fn fields_go_with_their_last_owner_and_defaults_come_back(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let at = format!("/apis/apps/v1/namespaces/{namespace}/deployments/a");
    let mut wanted = deployment("a");
    wanted["spec"]["replicas"] = 3.into();
    wanted["metadata"]["labels"] = json!({"mine": "x", "ours": "x"});
    apply(cluster, &at, "fieldManager=one", &wanted).await.expect(201);
    let shared = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "labels": {"ours": "x"}}});
    apply(cluster, &at, "fieldManager=two", &shared).await.expect(200);
    let less = apply(cluster, &at, "fieldManager=one", &deployment("a")).await.expect(200);
    assert_eq!(less["metadata"]["labels"], json!({"ours": "x"}));
    assert_eq!(less["spec"]["replicas"], 1);
    let bare = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}});
    let gone = apply(cluster, &at, "fieldManager=two", &bare).await.expect(200);
    assert_eq!(gone["metadata"]["labels"], Value::Null);
    assert_eq!(managers(&gone).len(), 1);
}

async fn an_apply_is_refused_when_it_is_of_something_else(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let at = format!("{}/a", config_maps(&namespace));
    let with = |change: fn(&mut Value)| {
        let mut body = thing("a", json!({"a": "1"}));
        change(&mut body);
        body
    };
    for (body, message) in [
        (with(|body| body["kind"] = "Secret".into()), "invalid object type: /v1, Kind=Secret"),
        (with(|body| body["apiVersion"] = "apps/v1".into()), "invalid object type: apps/v1, Kind=ConfigMap"),
        (json!({}), "invalid object type: /, Kind="),
        (
            with(|body| body["metadata"]["name"] = "b".into()),
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        (with(|body| body["metadata"]["managedFields"] = json!([])), "metadata.managedFields must be nil"),
    ] {
        let answer = apply(cluster, &at, "fieldManager=m", &body).await;
        assert_eq!(answer.expect_failure(400, "BadRequest").message(), message);
    }
    let unknown = apply(cluster, &at, "fieldManager=m", &with(|body| body["odd"] = 1.into())).await;
    assert_eq!(unknown.status, Difference::ClientMistakes.expect(cluster, 500, 400));
    assert_eq!(
        unknown.json()["message"],
        "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .odd: field not declared in schema"
    );
    let absent = with(|body| body["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555".into());
    let refused = apply(cluster, &at, "fieldManager=m", &absent)
        .await
        .expect_failure(409, "Conflict")
        .message()
        .to_owned();
    assert!(refused.ends_with("uid mismatch: the provided object specified uid 11111111-2222-3333-4444-555555555555, and no existing object was found"), "{refused}");
    assert_eq!(cluster.get(&at).await.status, 404);
}

async fn a_status_and_a_scale_are_tracked_apart(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let at = format!("/apis/apps/v1/namespaces/{namespace}/deployments/a");
    let mut wanted = deployment("a");
    wanted["spec"]["replicas"] = 1.into();
    apply(cluster, &at, "fieldManager=one", &wanted).await.expect(201);
    let status = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "spec": {"replicas": 9}, "status": {"observedGeneration": 1},
    });
    let through = apply(cluster, &format!("{at}/status"), "fieldManager=ctl", &status).await.expect(200);
    assert_eq!(
        (&through["spec"]["replicas"], &through["status"]["observedGeneration"]),
        (&json!(1), &json!(1))
    );
    let owned = managers(&through);
    assert_eq!(owned[0], entry("ctl", "Apply", "status", json!({"f:status": {"f:observedGeneration": {}}})));
    let scale = json!({"spec": {"replicas": 4}});
    let scaled = cluster.merge(format!("{at}/scale?fieldManager=scaler"), &scale).await.expect(200);
    assert_eq!(scaled["spec"]["replicas"], 4);
    let object = cluster.get(&at).await.expect(200);
    let scaler = managers(&object).into_iter().find(|entry| entry.0 == "scaler");
    assert_eq!(scaler, Some(entry("scaler", "Update", "scale", json!({"f:spec": {"f:replicas": {}}}))));
    let contested = apply(cluster, &at, "fieldManager=one", &wanted)
        .await
        .expect_failure(409, "Conflict")
        .message()
        .to_owned();
    assert_eq!(
        contested,
        "Apply failed with 1 conflict: conflict with \"scaler\" with subresource \"scale\" using apps/v1: .spec.replicas"
    );
    let applied = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 2},
    });
    let query = "fieldManager=applier&force=true";
    let applied = apply(cluster, &format!("{at}/scale"), query, &applied).await.expect(200);
    assert_eq!(applied["spec"]["replicas"], 2);
    let object = cluster.get(&at).await.expect(200);
    assert!(managers(&object).contains(&entry(
        "applier",
        "Apply",
        "scale",
        json!({"f:spec": {"f:replicas": {}}})
    )));
}

async fn a_dry_run_of_an_apply_leaves_nothing(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let at = format!("{}/a", config_maps(&namespace));
    let tried =
        apply(cluster, &at, "fieldManager=m&dryRun=All", &thing("a", json!({"a": "1"}))).await.expect(201);
    assert_eq!((managers(&tried).len(), &tried["metadata"]["resourceVersion"]), (1, &Value::Null));
    assert_eq!(cluster.get(&at).await.status, 404);
    let created = apply(cluster, &at, "fieldManager=m", &thing("a", json!({"a": "1"}))).await.expect(201);
    let tried =
        apply(cluster, &at, "fieldManager=m&dryRun=All", &thing("a", json!({"a": "2"}))).await.expect(200);
    assert_eq!(tried["data"]["a"], "2");
    assert_eq!(cluster.get(&at).await.expect(200), created);
}

async fn keys_that_stand_twice_are_told_or_refused(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let at = format!("{}/a", config_maps(&namespace));
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: \"1\"\n  a: \"2\"\n";
    let json = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"1","a":"2"}}"#;
    for body in [yaml, json] {
        let call = |validation: &str| {
            let path = format!("{at}?fieldManager=m&dryRun=All&fieldValidation={validation}");
            Call::new(Method::PATCH, path).body(APPLY, body)
        };
        let strict = cluster.send(call("Strict")).await;
        let message = strict.expect_failure(400, "BadRequest").message().to_owned();
        let line = body.lines().count();
        assert_eq!(
            message,
            format!(
                "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line {line}: key \"a\" already set in map"
            )
        );
        let warned = cluster.send(call("Warn")).await;
        assert_eq!(warned.expect(201)["data"]["a"], "2");
        let warning = format!("299 - \"line {line}: key \\\"a\\\" already set in map\"");
        assert_eq!(warned.header("warning"), warning);
        assert_eq!(cluster.send(call("Ignore")).await.header("warning"), "");
    }
}

async fn entries_can_be_written_and_taken_away(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let at = format!("{}/a", config_maps(&namespace));
    let created = apply(cluster, &at, "fieldManager=m", &thing("a", json!({"a": "1"}))).await.expect(201);
    // Entries that make no sense, or none at all, leave what is there.
    for entries in [json!(null), json!([{"manager": "x", "operation": "Odd"}])] {
        let kept = cluster.merge(&at, &json!({"metadata": {"managedFields": entries}})).await.expect(200);
        assert_eq!(kept, created);
    }
    for (times, nothing) in [json!([]), json!([{}])].into_iter().enumerate() {
        let disowned = cluster.merge(&at, &json!({"metadata": {"managedFields": nothing}})).await.expect(200);
        assert_eq!(disowned["metadata"]["managedFields"], Value::Null);
        let label = json!({"metadata": {"labels": {"x": format!("{times}")}}});
        let untracked = cluster.merge(&at, &label).await.expect(200);
        assert_eq!(untracked["metadata"]["managedFields"], Value::Null);
        let first = apply(cluster, &at, "fieldManager=m", &thing("a", json!({"a": "1"}))).await.expect(200);
        let fields =
            json!({"f:data": {".": {}, "f:a": {}}, "f:metadata": {"f:labels": {".": {}, "f:x": {}}}});
        assert_eq!(managers(&first)[0], entry("before-first-apply", "Update", "", fields));
        assert_eq!(managers(&first)[1].0, "m");
    }
    let long = json!([{
        "manager": "x".repeat(200), "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:a": {}}},
    }]);
    let refused = cluster.merge(&at, &json!({"metadata": {"managedFields": long}})).await;
    refused
        .expect_failure(422, "Invalid")
        .assert_cause("FieldValueTooLong", "metadata.managedFields[0].manager");
}

async fn kubectl_migrates_from_applying_on_the_clients_side(cluster: &Cluster) {
    const LAST: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let namespace = cluster.namespace().await;
    let at = format!("{}/a", config_maps(&namespace));
    let mut object = thing("a", json!({"a": "1", "b": "1"}));
    object["metadata"]["annotations"] = json!({LAST: object.to_string()});
    let query = "?fieldManager=kubectl-client-side-apply";
    let created = cluster.post(format!("{}{query}", config_maps(&namespace)), &object).await.expect(201);

    // What the client applied before is not contested when it is kubectl.
    let taken = apply(cluster, &at, "fieldManager=kubectl", &thing("a", json!({"a": "2", "b": "1"})))
        .await
        .expect(200);
    assert_eq!(taken["data"]["a"], "2");
    let noted: Value =
        serde_json::from_str(taken["metadata"]["annotations"][LAST].as_str().unwrap()).unwrap();
    assert_eq!(noted["data"]["a"], "2");

    // This is how kubectl hands the entry of its old ways over to its new ones.
    let mut entries = created["metadata"]["managedFields"].clone();
    entries[0]["manager"] = "kubectl".into();
    entries[0]["operation"] = "Apply".into();
    let patch = json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": entries},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": taken["metadata"]["resourceVersion"]},
    ]);
    let migrated = cluster.send(Call::json_patch(&at, &patch)).await.expect(200);
    let owned = managers(&migrated);
    assert_eq!((owned.len(), owned[0].0.as_str(), owned[0].1.as_str()), (1, "kubectl", "Apply"));
    assert!(revision(&migrated) > revision(&taken));
}

async fn more_than_ten_updaters_are_merged(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let at = format!("{}/a", config_maps(&namespace));
    cluster.post(format!("{}?fieldManager=m00", config_maps(&namespace)), &config_map("a")).await.expect(201);
    let mut last = Value::Null;
    for writer in 1..14 {
        let patch = json!({"data": {format!("k{writer}"): "x"}});
        last = cluster.merge(format!("{at}?fieldManager=m{writer:02}"), &patch).await.expect(200);
    }
    let owned = managers(&last);
    assert_eq!((owned.len(), owned[0].0.as_str()), (10, "ancient-changes"));
    let fields = json!({"f:data": {".": {}, "f:key": {}, "f:k1": {}, "f:k2": {}, "f:k3": {}, "f:k4": {}}});
    assert_eq!(owned[0].3, fields);
}

/// Defines a kind with two versions, and waits for it; the group that it is in.
async fn two_versions(cluster: &Cluster) -> String {
    let group = format!("g{}.example.com", &uuid::Uuid::new_v4().simple().to_string()[..8]);
    let text = json!({"type": "string"});
    let spec = json!({"type": "object", "properties": {"a": text, "b": text, "c": text}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    let version =
        |name: &str| json!({"name": name, "served": true, "storage": name == "v1", "schema": schema});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
            "versions": [version("v1"), version("v2")],
        },
    });
    cluster.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.expect(201);
    for version in ["v1", "v2"] {
        let objects = format!("/apis/{group}/{version}/namespaces/default/things");
        eventually("objects", || async { (cluster.get(&objects).await.status == 200).then_some(()) }).await;
    }
    group
}

async fn entries_carry_the_version_they_were_written_in(cluster: &Cluster) {
    let group = two_versions(cluster).await;
    let path = |version: &str| format!("/apis/{group}/{version}/namespaces/default/things/a");
    let body = |version: &str, spec: Value| {
        let api_version = format!("{group}/{version}");
        json!({"apiVersion": api_version, "kind": "Thing", "metadata": {"name": "a"}, "spec": spec})
    };
    let one = body("v1", json!({"a": "1"}));
    apply(cluster, &path("v1"), "fieldManager=one", &one).await.expect(201);
    let two =
        apply(cluster, &path("v2"), "fieldManager=two", &body("v2", json!({"b": "2"}))).await.expect(200);
    let written: Vec<&Value> = two["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["apiVersion"])
        .collect();
    assert_eq!(written, [&json!(format!("{group}/v1")), &json!(format!("{group}/v2"))]);
    let contested = apply(cluster, &path("v2"), "fieldManager=two", &body("v2", json!({"a": "x"}))).await;
    let message = contested.expect_failure(409, "Conflict").message().to_owned();
    assert_eq!(message, "Apply failed with 1 conflict: conflict with \"one\": .spec.a");
    // Who applies has one entry, in the version of the last time.
    let moved =
        apply(cluster, &path("v2"), "fieldManager=one", &body("v2", json!({"c": "3"}))).await.expect(200);
    assert_eq!(moved["spec"], json!({"b": "2", "c": "3"}));
    assert_eq!(managers(&moved).len(), 2);
}

async fn an_event_is_owned_in_the_group_through_which_it_was_last_written(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a"}, "reason": "Why", "note": "said",
        "type": "Normal", "action": "Doing", "eventTime": "2021-01-01T00:00:00.000000Z",
        "reportingController": "example.com/controller", "reportingInstance": "one",
        "regarding": {"kind": "ConfigMap", "namespace": namespace, "name": "x"},
    });
    let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    cluster.post(format!("{path}?fieldManager=events"), &event).await.expect(201);
    let other = format!("/api/v1/namespaces/{namespace}/events/a?fieldManager=core");
    let patched = cluster.merge(other, &json!({"message": "changed"})).await.expect(200);
    assert_eq!(patched["message"], "changed");
    assert_eq!(managers(&patched), [entry("core", "Update", "", json!({"f:message": {}}))]);
}

async fn what_becomes_one_value_is_owned_as_one(cluster: &Cluster) {
    let group = two_versions(cluster).await;
    let definition = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{group}");
    let at = format!("/apis/{group}/v1/namespaces/default/things/a");
    let body = |spec: Value| json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "a"}, "spec": spec});
    apply(cluster, &at, "fieldManager=one", &body(json!({"a": "1"}))).await.expect(201);
    let fields = |object: &Value| managers(object)[0].3.clone();
    let whole = json!([{
        "op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-map-type", "value": "atomic",
    }]);
    cluster.send(Call::json_patch(&definition, &whole)).await.expect(200);
    eventually("the whole to be owned", || async {
        let query = "fieldManager=two&force=true&dryRun=All";
        let tried = apply(cluster, &at, query, &body(json!({"a": "1"}))).await.expect(200);
        (fields(&tried) == json!({"f:spec": {}})).then_some(())
    })
    .await;
}
