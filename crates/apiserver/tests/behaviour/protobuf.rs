//! §1.5: objects in protobuf, as typed Go clients send them.

use bellwether_testkit::{Answer, Call, Cluster, eventually};
use http::Method;
use serde_json::json;

use super::difference::Difference;
use super::{cases, config_map, config_maps};

cases! { "protobuf":
    an_object_in_protobuf_is_the_same_as_in_json,
    cluster_scoped_objects_and_definitions_come_in_protobuf,
    fields_that_no_type_has_are_skipped_however_strict,
    options_of_a_deletion_come_in_protobuf_for_every_kind,
    a_kind_is_that_of_the_path_unless_another_is_said,
    a_scale_comes_in_protobuf,
    custom_kinds_are_not_read_from_protobuf_nor_written,
    answers_are_json_also_for_those_who_prefer_protobuf,
}

pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A number in seven bits a byte.
fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).unwrap());
    bytes
}

/// A field with text, bytes or a message in it.
pub(crate) fn field(number: usize, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    [varint(number << 3 | 2), varint(bytes.len()), bytes.to_vec()].concat()
}

/// A field with a number in it.
pub(crate) fn number(field: usize, value: usize) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

/// A body: a message, and what it claims to be.
pub(crate) fn body(api_version: &str, kind: &str, message: impl AsRef<[u8]>) -> Vec<u8> {
    let claim = [field(1, api_version), field(2, kind)].concat();
    [b"k8s\0".to_vec(), field(1, claim), field(2, message), field(3, ""), field(4, "")].concat()
}

/// A ConfigMap with one entry, with the empty fields that Go writes.
pub(crate) fn config_map_message(name: &str) -> Vec<u8> {
    let meta =
        [field(1, name), field(2, ""), field(3, ""), field(4, ""), number(7, 0), field(8, "")].concat();
    let entry = [field(1, "key"), field(2, "value")].concat();
    [field(1, meta), field(2, entry)].concat()
}

async fn send(cluster: &Cluster, method: Method, path: &str, body: Vec<u8>) -> Answer {
    cluster.send(Call::new(method, path).body(PROTOBUF, body)).await
}

async fn an_object_in_protobuf_is_the_same_as_in_json(cluster: &Cluster) {
    let maps = config_maps(&cluster.namespace().await);
    let sent = body("v1", "ConfigMap", config_map_message("a"));
    let made = send(cluster, Method::POST, &maps, sent.clone()).await;
    assert_eq!(made.header("content-type"), "application/json");
    assert_eq!(made.expect(201)["data"], json!({"key": "value"}));
    send(cluster, Method::POST, &maps, sent).await.expect_failure(409, "AlreadyExists");

    let in_json = cluster.post(&maps, &config_map("b")).await.expect(201);
    let keys = |object: &serde_json::Value| -> Vec<String> {
        object["metadata"].as_object().unwrap().keys().cloned().collect()
    };
    let stored = cluster.get(format!("{maps}/a")).await.expect(200);
    assert_eq!((keys(&stored), &stored["data"]), (keys(&in_json), &in_json["data"]));

    let replaced = [field(1, field(1, "a")), number(4, 1)].concat();
    let replaced = send(cluster, Method::PUT, &format!("{maps}/a"), body("v1", "ConfigMap", replaced)).await;
    let replaced = replaced.expect(200);
    assert_eq!((&replaced["immutable"], &replaced["data"]), (&json!(true), &json!(null)));
}

async fn cluster_scoped_objects_and_definitions_come_in_protobuf(cluster: &Cluster) {
    let name = cluster.namespace().await;
    let sent = body("v1", "Namespace", field(1, field(1, format!("other-{name}"))));
    let namespace = send(cluster, Method::POST, "/api/v1/namespaces", sent).await.expect(201);
    assert_eq!(namespace["status"]["phase"], "Active");

    let group = format!("{name}.example.com");
    let size = [field(5, "integer"), field(8, field(1, "3"))].concat();
    let size = [field(1, "size"), field(2, size)].concat();
    let spec = [field(5, "object"), field(29, size)].concat();
    let spec = [field(1, "spec"), field(2, spec)].concat();
    let schema = field(1, [field(5, "object"), field(29, spec)].concat());
    let version = [field(1, "v1"), number(2, 1), number(3, 1), field(4, schema)].concat();
    let names = [field(1, "widgets"), field(2, ""), field(4, "Widget"), field(5, "")].concat();
    let definition = [field(1, &group), field(3, names), field(4, "Namespaced"), field(7, version)].concat();
    let definition = [field(1, field(1, format!("widgets.{group}"))), field(2, definition)].concat();
    let sent = body("apiextensions.k8s.io/v1", "CustomResourceDefinition", definition);
    let at = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let made = send(cluster, Method::POST, at, sent).await.expect(201);
    let schema = &made["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(schema["properties"]["spec"]["properties"]["size"], json!({"type": "integer", "default": 3}));

    let widgets = format!("/apis/{group}/v1/namespaces/{name}/widgets");
    let widget = json!({
        "kind": "Widget", "apiVersion": format!("{group}/v1"), "metadata": {"name": "w"}, "spec": {},
    });
    let widget = eventually("the kind is served", || async {
        let answer = cluster.post(&widgets, &widget).await;
        (answer.status == 201).then(|| answer.json())
    })
    .await;
    assert_eq!(widget["spec"], json!({"size": 3}));
    cluster.send(Call::delete(format!("{at}/widgets.{group}"))).await.expect(200);
}

async fn fields_that_no_type_has_are_skipped_however_strict(cluster: &Cluster) {
    let maps = config_maps(&cluster.namespace().await);
    let message = [config_map_message("a"), field(99, "odd"), number(98, 5)].concat();
    let answer = send(
        cluster,
        Method::POST,
        &format!("{maps}?fieldValidation=Strict"),
        body("v1", "ConfigMap", message),
    )
    .await;
    answer.expect(201);
}

/// Options: the uid that the object must have, and whether it is only a trial.
fn options(uid: &str, dry_run: &[&str]) -> Vec<u8> {
    let uid = if uid.is_empty() { Vec::new() } else { field(2, field(1, uid)) };
    [uid, dry_run.iter().flat_map(|value| field(5, value)).collect()].concat()
}

async fn options_of_a_deletion_come_in_protobuf_for_every_kind(cluster: &Cluster) {
    let maps = config_maps(&cluster.namespace().await);
    let made = cluster.post(&maps, &config_map("a")).await.expect(201);
    let at = format!("{maps}/a");
    let delete = async |api_version: &str, kind: &str, options: Vec<u8>| {
        send(cluster, Method::DELETE, &at, body(api_version, kind, options)).await
    };
    delete("v1", "DeleteOptions", options("another", &[]))
        .await
        .expect_failure(409, "Conflict")
        .assert_message("the UID in the precondition (another) does not match the UID in record");
    delete("v1", "ConfigMap", Vec::new())
        .await
        .expect_failure(400, "BadRequest")
        .assert_message("no kind \"ConfigMap\" is registered for version \"v1\"");
    delete("v1", "DeleteOptions", number(2, 1))
        .await
        .expect_failure(400, "BadRequest")
        .assert_message("proto: wrong wireType = 0 for field Preconditions");
    for api_version in ["v1", "meta.k8s.io/v1", "apps/v1", ""] {
        delete(api_version, "DeleteOptions", options("", &["All"])).await.expect(200);
    }
    let uid = made["metadata"]["uid"].as_str().unwrap();
    delete("", "", options(uid, &[])).await.expect(200);
    cluster.get(&at).await.expect_failure(404, "NotFound");

    cluster.post(&maps, &config_map("b")).await.expect(201);
    send(cluster, Method::DELETE, &maps, body("v1", "DeleteOptions", options("", &[]))).await.expect(200);
    cluster.get(format!("{maps}/b")).await.expect_failure(404, "NotFound");
}

async fn a_kind_is_that_of_the_path_unless_another_is_said(cluster: &Cluster) {
    let maps = config_maps(&cluster.namespace().await);
    for (api_version, kind, name) in
        [("", "", "neither"), ("v1", "", "no-kind"), ("", "ConfigMap", "no-version"), ("a/b/c", "", "none")]
    {
        let sent = body(api_version, kind, config_map_message(name));
        send(cluster, Method::POST, &maps, sent).await.expect(201);
    }
    for (api_version, kind, says) in [
        (
            "v1",
            "Secret",
            "Secret in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion",
        ),
        (
            "v1",
            "Odd",
            "Odd in version \"v1\" cannot be handled as a ConfigMap: no kind \"Odd\" is registered for version \"v1\"",
        ),
        (
            "odd/v9",
            "ConfigMap",
            "ConfigMap in version \"v9\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered for version \"odd/v9\"",
        ),
    ] {
        let sent = body(api_version, kind, field(1, field(1, "a")));
        send(cluster, Method::POST, &maps, sent).await.expect_failure(400, "BadRequest").assert_message(says);
    }
}

async fn a_scale_comes_in_protobuf(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let deployments = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    let deployment = json!({
        "kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    });
    cluster.post(&deployments, &deployment).await.expect(201);
    let scale = [field(1, [field(1, "d"), field(3, &namespace)].concat()), field(2, number(1, 4))].concat();
    let at = format!("{deployments}/d/scale");
    let scaled = send(cluster, Method::PUT, &at, body("autoscaling/v1", "Scale", &scale)).await.expect(200);
    assert_eq!(scaled["spec"], json!({"replicas": 4}));
    send(cluster, Method::PUT, &at, body("autoscaling/v2", "Scale", &scale))
        .await
        .expect_failure(400, "BadRequest")
        .assert_message("no kind \"Scale\" is registered for version \"autoscaling/v2\"");
    let in_json = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "d"}});
    cluster
        .put(&at, &in_json)
        .await
        .expect_failure(400, "BadRequest")
        .assert_message("ConfigMap in version \"v1\" cannot be handled as a Scale: converting (v1.ConfigMap) to (autoscaling.Scale): unknown conversion");
}

/// A definition of a kind without a schema to speak of.
async fn defined(cluster: &Cluster, group: &str) {
    let definition = json!({
        "kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    cluster.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.expect(201);
}

async fn custom_kinds_are_not_read_from_protobuf_nor_written(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let group = format!("{namespace}.example.com");
    defined(cluster, &group).await;
    let widgets = format!("/apis/{group}/v1/namespaces/{namespace}/widgets");
    let widget = json!({"kind": "Widget", "apiVersion": format!("{group}/v1"), "metadata": {"name": "w"}});
    eventually("the kind is served", || async {
        (cluster.post(&widgets, &widget).await.status == 201).then_some(())
    })
    .await;
    let sent = body(&format!("{group}/v1"), "Widget", field(1, field(1, "x")));
    // Unless fields are to be ignored, kube-apiserver drops the connection.
    let answer = send(cluster, Method::POST, &format!("{widgets}?fieldValidation=Ignore"), sent).await;
    let (code, reason, says) = Difference::NoProtobuf.expect(
        cluster,
        (400, "BadRequest", "Object 'Kind' is missing"),
        (415, "UnsupportedMediaType", "accepted media types include: application/json, application/yaml"),
    );
    answer.expect_failure(code, reason).assert_message(says);

    let at = format!("{widgets}/w");
    let refused =
        send(cluster, Method::DELETE, &at, body("v1", "DeleteOptions", options("another", &[]))).await;
    refused.expect_failure(409, "Conflict");
    send(cluster, Method::DELETE, &at, body("v1", "DeleteOptions", options("", &[]))).await.expect(200);
    for accept in ["text/html", "application/json;as=Odd;v=v1;g=meta.k8s.io"] {
        let refused = cluster.send(Call::get(&widgets).accept(accept)).await;
        refused.expect_failure(406, "NotAcceptable").assert_message(
            "only the following media types are accepted: application/json, application/yaml",
        );
    }
    let definition = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{group}");
    cluster.send(Call::delete(definition)).await.expect(200);
}

async fn answers_are_json_also_for_those_who_prefer_protobuf(cluster: &Cluster) {
    let at = "/api/v1/namespaces/default";
    for accept in [format!("{PROTOBUF},application/json"), format!("{PROTOBUF}, */*")] {
        let answer = cluster.send(Call::get(at).accept(&accept)).await;
        let expected = Difference::NoProtobuf.expect(cluster, PROTOBUF, "application/json");
        assert_eq!((answer.status, answer.header("content-type")), (200, expected), "{accept}");
    }
    let only = cluster.send(Call::get(at).accept(PROTOBUF)).await;
    assert_eq!(only.status, Difference::NoProtobuf.expect(cluster, 200, 406));
    if !cluster.is_kubernetes() {
        only.expect_failure(406, "NotAcceptable").assert_message(
            "only the following media types are accepted: application/json, application/yaml",
        );
    }
}
