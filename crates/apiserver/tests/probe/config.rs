//! ConfigMaps, Secrets and what holds for the metadata and body of every object.

use serde_json::{Value, json};

use super::{Step, delete, get, inside, json_patch, merge, object, post, put};
use crate::behaviour::difference::Difference;

fn config_map(name: &str, rest: Value) -> Step {
    post(inside("configmaps"), object("ConfigMap", name, rest))
}

fn secret(name: &str, rest: Value) -> Step {
    post(inside("secrets"), object("Secret", name, rest))
}

pub(super) fn steps() -> Vec<Step> {
    [bodies(), metadata(), config_maps(), secrets(), patches()].into_iter().flatten().collect()
}

fn bodies() -> Vec<Step> {
    let body = |media: &str, text: &str| post(inside("configmaps"), Value::Null).replaced(media, text);
    vec![
        body("application/json", ""),
        body("application/json", "{}"),
        body("application/json", "null"),
        body("application/json", "[]").unlike(Difference::ParserWords),
        body("application/json", "\"text\"").unlike(Difference::ParserWords),
        body("application/json", "42").unlike(Difference::ParserWords),
        body("application/json", "{"),
        body("application/json", "{]").unlike(Difference::ParserWords),
        body("application/json", r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}} x"#)
            .unlike(Difference::ParserWords),
        body("application/json", r#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"}}"#),
        body("application/json", r#"{"kind":"Odd","apiVersion":"v1","metadata":{"name":"a"}}"#),
        body("application/json", r#"{"kind":"ConfigMap","apiVersion":"v2","metadata":{"name":"a"}}"#),
        body("application/json", r#"{"kind":"ConfigMap","apiVersion":"apps/v1","metadata":{"name":"a"}}"#),
        body("application/json", r#"{"kind":"ConfigMap","metadata":{"name":"no-version"}}"#),
        body("application/json", r#"{"apiVersion":"v1","metadata":{"name":"no-kind"}}"#),
        body("application/json", r#"{"metadata":{"name":"neither"}}"#),
        body("application/json", r#"{"kind":5,"apiVersion":"v1"}"#),
        body("application/json", r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":"text"}"#),
        body("application/json", r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":7}}"#),
        body("application/json", r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"t"},"data":{"a":1}}"#),
        body("application/json", r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"t"},"data":[]}"#),
        body("application/json", r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"t"},"immutable":"yes"}"#),
        body("application/json", r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"t"},"binaryData":{"a":"%"}}"#),
        body("application/json", r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"dup"},"data":{"a":"1","a":"2"},"odd":1}"#),
        body("application/json", r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"case"},"Data":{"a":"1"}}"#),
        body("application/yaml", "kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: from-yaml\ndata:\n  a: b\n"),
        body("application/yaml", "kind: ConfigMap\napiVersion: v1\nmetadata: [\n").unlike(Difference::ParserWords),
        body("application/yaml", "kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: y\n"),
        body("application/yaml", "a: b: c\n").unlike(Difference::ParserWords),
        body("text/plain", "hello"),
        body("application/json; charset=utf-8", r#"{"metadata":{"name":"charset"}}"#),
        body("", r#"{"metadata":{"name":"no-type"}}"#),
        post(format!("{}?fieldValidation=Strict", inside("configmaps")), Value::Null).replaced(
            "application/json",
            r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"strict","odd":1},"data":{"a":"1","a":"2"},"spec":{}}"#,
        ),
        post(format!("{}?fieldValidation=Ignore", inside("configmaps")), Value::Null).replaced(
            "application/json",
            r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"ignored","odd":1},"data":{"a":"1","a":"2"},"spec":{}}"#,
        ),
        post(format!("{}?fieldValidation=Odd", inside("configmaps")), object("ConfigMap", "x", json!({}))),
    ]
}

impl Step {
    /// The same request with other bytes.
    fn replaced(mut self, media: &str, text: &str) -> Self {
        self.call = bellwether_testkit::Call::new(self.call.method.clone(), self.call.path.clone());
        if media.is_empty() {
            self.call = self.call.plain_body(text.to_owned());
            return self;
        }
        self.raw(media, text.to_owned())
    }
}

fn metadata() -> Vec<Step> {
    let with = |name: &str, metadata: Value| config_map(name, json!({"metadata": metadata}));
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u"});
    let with_owner = |name: &str, change: Value| {
        let mut owner = owner.clone();
        super::merge_into(&mut owner, change);
        with(name, json!({"ownerReferences": [owner]}))
    };
    let mut steps = vec![
        post(inside("configmaps"), json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}})),
        with("", json!({})),
        with("Upper", json!({})),
        with("under_score", json!({})),
        with("-dash", json!({})),
        with("a..b", json!({})),
        with("slash/y", json!({})),
        with("percent%", json!({})),
        with(&"a".repeat(254), json!({})),
        with("other-namespace", json!({"namespace": "default"})),
        with("labels", json!({"labels": {"good": "yes", "prefix.io/x": ""}})),
        with("label-key", json!({"labels": {"-bad": "x"}})),
        with("label-key-2", json!({"labels": {"a/b/c": "x"}})),
        with("label-key-3", json!({"labels": {"UPPER.io/x": "x"}})),
        with("label-key-4", json!({"labels": {"": "x"}})),
        with("label-key-5", json!({"labels": {"/x": "x"}})),
        with("label-value", json!({"labels": {"a": "-bad"}})),
        with("label-value-2", json!({"labels": {"a": "x".repeat(64)}})),
        with("annotation", json!({"annotations": {"bad key": "x"}})),
        with("annotation-2", json!({"annotations": {"Good.io/Key": "any ✓ text"}})),
        with("annotation-3", json!({"annotations": {"big": "x".repeat(256 * 1024)}})),
        with("finalizer", json!({"finalizers": ["bad finalizer"]})),
        with("finalizer-2", json!({"finalizers": ["unqualified"]})),
        with("finalizer-3", json!({"finalizers": ["example.com/a", "example.com/a"]})),
        with("finalizer-4", json!({"finalizers": ["orphan", "foregroundDeletion"]})),
        with("uid", json!({"uid": "mine", "creationTimestamp": "2020-01-01T00:00:00Z", "generation": 7})),
        with(
            "deleted",
            json!({"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5}),
        ),
        with("times", json!({"creationTimestamp": "yesterday"})),
        with_owner("owner", json!({"apiVersion": ""})),
        with_owner("owner-2", json!({"kind": ""})),
        with_owner("owner-3", json!({"name": "", "uid": ""})),
        with_owner("owner-4", json!({"kind": "Event"})),
        with_owner("owner-5", json!({"apiVersion": "a/b/c"})),
        with(
            "owner-6",
            json!({"ownerReferences": [
                {"apiVersion": "v1", "kind": "A", "name": "x", "uid": "u", "controller": true},
                {"apiVersion": "v1", "kind": "B", "name": "y", "uid": "v", "controller": true},
            ]}),
        )
        .unlike(Difference::KeyOrder),
        get(inside("configmaps/labels")),
        get(inside("configmaps/missing")),
        get(inside("configmaps/Not_A_Name")),
        get("/api/v1/namespaces/nowhere/configmaps/x"),
        get("/api/v1/namespaces/nowhere/configmaps"),
        post("/api/v1/namespaces/nowhere/configmaps", object("ConfigMap", "x", json!({}))),
        post("/api/v1/configmaps", object("ConfigMap", "x", json!({}))),
    ];
    // Not allowed to be changed afterwards.
    let at = inside("configmaps/labels");
    let put_with =
        |metadata: Value| put(at.clone(), object("ConfigMap", "labels", json!({"metadata": metadata})));
    steps.extend([
        put_with(json!({"uid": "other"})).unlike(Difference::Internals),
        put_with(json!({"resourceVersion": "1"})),
        put_with(json!({"resourceVersion": "abc"})).unlike(Difference::ClientMistakes),
        put_with(json!({"resourceVersion": "0"})),
        put_with(json!({"name": "renamed"})),
        put_with(json!({"name": null})),
        put_with(json!({"namespace": "default"})),
        put_with(json!({"creationTimestamp": "2020-01-01T00:00:00Z", "generation": 9})),
        put_with(json!({"deletionTimestamp": "2020-01-01T00:00:00Z"})),
        put_with(json!({"labels": {"-bad": "x"}})),
        put(inside("configmaps/absent"), object("ConfigMap", "absent", json!({}))),
        put(at.clone(), json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "labels"}})),
    ]);
    steps
}

fn config_maps() -> Vec<Step> {
    vec![
        config_map("good", json!({"data": {"a.b-c_D": "x", "empty": ""}, "binaryData": {"b": "AAEC"}})),
        config_map("good", json!({})),
        config_map("nulls", json!({"data": null, "binaryData": {}, "immutable": null})),
        config_map("null-value", json!({"data": {"a": null}})),
        config_map("key-1", json!({"data": {"a b": "x"}})),
        config_map("key-2", json!({"data": {".": "x"}})),
        config_map("key-3", json!({"data": {"..": "x"}})),
        config_map("key-4", json!({"data": {"..c": "x"}})),
        config_map("key-5", json!({"data": {"a/b": "x"}})),
        config_map("key-6", json!({"data": {"": "x"}})),
        config_map("key-length", json!({"data": {"x".repeat(254): "x"}})),
        config_map("both", json!({"data": {"a": "x"}, "binaryData": {"a": "AAEC"}})),
        config_map("large", json!({"data": {"a": "x".repeat(1024 * 1024 + 1)}})),
        config_map("frozen", json!({"data": {"a": "x"}, "immutable": true})),
        merge(inside("configmaps/frozen"), json!({"data": {"a": "y"}})),
        merge(inside("configmaps/frozen"), json!({"binaryData": {"b": "AAEC"}})),
        merge(inside("configmaps/frozen"), json!({"immutable": false})),
        merge(inside("configmaps/frozen"), json!({"immutable": null})),
        merge(inside("configmaps/frozen"), json!({"metadata": {"labels": {"still": "possible"}}})),
        delete(inside("configmaps/frozen")),
        delete(inside("configmaps/frozen")),
        get(inside("configmaps/good")).accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
        get(inside("configmaps/good")).accept("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
        get(inside("configmaps/good"))
            .accept("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
        get(inside("configmaps/good"))
            .accept("application/json;as=Odd;v=v1;g=meta.k8s.io")
            .unlike(Difference::NoProtobuf),
        get(inside("configmaps/good")).accept("application/json;as=Table;v=v1beta1;g=meta.k8s.io"),
        get(inside("configmaps/good")).accept("text/html").unlike(Difference::NoProtobuf),
        get(inside("configmaps/good")).accept("text/html, */*"),
        get(inside("configmaps/good")).accept("application/yaml;q=0.1, application/json"),
        get(inside("configmaps/good/status")),
        get(inside("configmaps/good/odd")),
        get(inside("configmaps?fieldSelector=metadata.name%3Dgood"))
            .accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
        get(inside("configmaps?fieldSelector=metadata.name%3Dgood&includeObject=None"))
            .accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
        get(inside("configmaps?fieldSelector=metadata.name%3Dgood&includeObject=Object"))
            .accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
        get(inside("configmaps?fieldSelector=metadata.name%3Dgood&includeObject=Odd"))
            .accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
    ]
}

fn secrets() -> Vec<Step> {
    vec![
        secret("plain", json!({"stringData": {"a": "text"}, "data": {"b": "AAEC"}})),
        secret("both", json!({"stringData": {"a": "text"}, "data": {"a": "AAEC"}})),
        secret("bad-base64", json!({"data": {"a": "no base64!"}})),
        secret("bad-base64-2", json!({"data": {"a": "AAE"}})),
        secret("bad-key", json!({"data": {"a b": "AAEC"}})),
        secret("large", json!({"stringData": {"a": "x".repeat(1024 * 1024 + 1)}})),
        secret("typed", json!({"type": "example.com/any", "stringData": {"a": "b"}})),
        secret("tls", json!({"type": "kubernetes.io/tls"})),
        secret("tls-2", json!({"type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}}))
            .unlike(Difference::ContentWarnings),
        secret("token", json!({"type": "kubernetes.io/service-account-token"})),
        secret("docker", json!({"type": "kubernetes.io/dockercfg"})),
        secret(
            "docker-2",
            json!({"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{}"}}),
        ),
        secret(
            "docker-3",
            json!({"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{"}}),
        ),
        secret("basic", json!({"type": "kubernetes.io/basic-auth"})),
        secret("ssh", json!({"type": "kubernetes.io/ssh-auth", "data": {"ssh-privatekey": ""}})),
        secret("frozen", json!({"immutable": true, "stringData": {"a": "b"}})),
        merge(inside("secrets/frozen"), json!({"stringData": {"a": "c"}})),
        merge(inside("secrets/typed"), json!({"type": "Opaque"})),
        merge(inside("secrets/typed"), json!({"stringData": {"c": "d"}})),
        merge(inside("secrets/typed"), json!({"data": {"a": null}})),
        get(inside("secrets/typed")).accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
        get(inside("secrets?fieldSelector=type%3Dexample.com/any")),
        delete(inside("secrets/typed")),
    ]
}

fn patches() -> Vec<Step> {
    let at = inside("configmaps/good");
    let raw = |media: &str, body: &str| {
        Step::from(
            bellwether_testkit::Call::new(http::Method::PATCH, at.clone()).body(media, body.to_owned()),
        )
    };
    vec![
        raw("application/json", "{}"),
        raw("application/merge-patch+json", "{"),
        raw("application/merge-patch+json", "[]"),
        raw("application/merge-patch+json", "null"),
        raw("application/json-patch+json", "{}"),
        raw("application/json-patch+json", "[1]"),
        json_patch(at.clone(), json!([])),
        json_patch(at.clone(), json!([{"op": "odd", "path": "/data"}])),
        json_patch(at.clone(), json!([{"op": "add"}])),
        json_patch(at.clone(), json!([{"op": "add", "path": "/data/new"}])),
        json_patch(at.clone(), json!([{"op": "add", "path": "data/new", "value": "x"}])),
        json_patch(at.clone(), json!([{"op": "add", "path": "/data/new", "value": "x"}])),
        json_patch(at.clone(), json!([{"op": "test", "path": "/data/new", "value": "y"}])),
        json_patch(at.clone(), json!([{"op": "test", "path": "/data/absent", "value": "y"}])),
        json_patch(at.clone(), json!([{"op": "test", "path": "/data/absent", "value": null}])),
        json_patch(at.clone(), json!([{"op": "test", "path": "/none/absent", "value": null}])),
        json_patch(at.clone(), json!([{"op": "remove", "path": "/data/absent"}])),
        json_patch(at.clone(), json!([{"op": "replace", "path": "/data/absent", "value": "x"}])),
        json_patch(at.clone(), json!([{"op": "move", "from": "/data/new", "path": "/data/moved"}])),
        json_patch(at.clone(), json!([{"op": "copy", "from": "/data/moved", "path": "/data/copied"}])),
        json_patch(at.clone(), json!([{"op": "copy", "from": "/data/none", "path": "/data/copied"}])),
        json_patch(at.clone(), json!([{"op": "add", "path": "/none/x", "value": "x"}])),
        json_patch(at.clone(), json!([{"op": "remove", "path": "/metadata"}])),
        json_patch(at.clone(), json!([{"op": "replace", "path": "/kind", "value": "Secret"}]))
            .unlike(Difference::Internals),
        json_patch(at.clone(), json!([{"op": "replace", "path": "", "value": {}}])),
        json_patch(at.clone(), json!([{"op": "replace", "path": "/metadata/name", "value": "x"}])),
        json_patch(inside("configmaps/absent"), json!([])),
        merge(inside("configmaps/absent"), json!({})),
        merge(at.clone(), json!({})),
        merge(at.clone(), json!({"data": {"a.b-c_D": null, "merged": "x"}})),
        merge(at.clone(), json!({"data": {"number": 1}})),
        merge(at.clone(), json!({"data": null})),
        merge(at.clone(), json!({"odd": {"field": 1}})),
        merge(format!("{at}?fieldValidation=Strict"), json!({"odd": {"field": 1}})),
        merge(at.clone(), json!({"metadata": {"name": "x"}})),
        merge(at.clone(), json!({"metadata": {"namespace": "x"}})),
        merge(at.clone(), json!({"metadata": {"uid": "x"}})),
        merge(at.clone(), json!({"metadata": {"resourceVersion": "1"}})),
        merge(at.clone(), json!({"metadata": {"resourceVersion": ""}})),
        merge(at.clone(), json!({"metadata": {"labels": {"-": "x"}}})),
        merge(at.clone(), json!({"kind": "Secret"})),
        merge(at.clone(), json!({"apiVersion": "v2"})),
        merge(format!("{at}?force=true"), json!({})),
        merge(format!("{at}?fieldManager={}", "x".repeat(129)), json!({})),
        merge(format!("{at}?fieldManager=a%07b"), json!({})).unlike(Difference::ParserWords),
        merge(format!("{at}?dryRun=All"), json!({"data": {"dry": "run"}})),
        merge(format!("{at}?dryRun=Odd"), json!({})),
        get(at.clone()),
    ]
}
