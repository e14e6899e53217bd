//! Definitions that somebody made to hurt: each is refused or served quickly, with words, and the server goes on.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test that cannot go on ends with a panic"
)]

use std::time::{Duration, Instant};

use bellwether_testkit::{Call, Cluster, embedded};
use serde_json::{Map, Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// How long any of them may take, on a slow machine and without optimisation.
const LONGEST: Duration = Duration::from_secs(20);

fn definition(spec: Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.hostile.example.com"},
        "spec": {
            "group": "hostile.example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn fields(count: usize) -> Value {
    let fields: Map<String, Value> =
        (0..count).map(|at| (format!("f{at}"), json!({"type": "string"}))).collect();
    json!({"type": "object", "properties": fields})
}

fn nested(depth: usize) -> Value {
    (0..depth)
        .fold(json!({"type": "string"}), |inner, _| json!({"type": "object", "properties": {"a": inner}}))
}

fn lists(depth: usize) -> Value {
    (0..depth).fold(json!({"type": "string"}), |inner, _| json!({"type": "array", "items": inner}))
}

fn versions(count: usize) -> Value {
    let mut definition = definition(json!({"type": "object"}));
    let first = definition["spec"]["versions"][0].clone();
    let version = |at: usize| {
        let mut version = first.clone();
        version["name"] = format!("v{}", at + 1).into();
        version["storage"] = (at == 0).into();
        version
    };
    definition["spec"]["versions"] = (0..count).map(version).collect();
    definition
}

fn values(count: usize) -> Value {
    json!({"type": "string", "enum": (0..count).map(|at| format!("value-{at}")).collect::<Vec<_>>()})
}

/// What is sent, the code that answers it, and words of the answer.
fn rows() -> Vec<(&'static str, Value, u16, &'static str)> {
    let long = "x".repeat(3 * 1024 * 1024);
    vec![
        ("more than 3 MiB", definition(json!({"type": "object", "description": long})), 413, "too large"),
        (
            "60,000 fields",
            definition(fields(60_000)),
            422,
            "a schema may nest 64 levels and hold 50000 schemas",
        ),
        ("20,000 fields", definition(fields(20_000)), 201, ""),
        ("200 levels", definition(nested(200)), 400, "recursion limit exceeded"),
        ("70 lists in each other", definition(lists(70)), 422, "a schema may nest 64 levels"),
        (
            "a reference",
            definition(json!({"$ref": "#/definitions/x", "type": "object"})),
            422,
            "$ref is not supported",
        ),
        (
            "a pattern that would be huge",
            definition(json!({"type": "string", "pattern": "(a{1000}){1000}"})),
            422,
            "too large",
        ),
        (
            "a pattern that others find slow",
            definition(json!({"type": "string", "pattern": "^(a+)+$"})),
            201,
            "",
        ),
        ("10,000 values", definition(values(10_000)), 201, ""),
        ("1,000 versions", versions(1_000), 201, ""),
    ]
}

async fn is_well(cluster: &Cluster) {
    cluster.get("/readyz").await.expect(200);
    cluster.get("/api/v1/namespaces").await.expect(200);
}

#[tokio::test]
async fn no_definition_harms_the_server() {
    let mut wrong = Vec::new();
    for (what, definition, code, words) in rows() {
        let cluster = embedded::in_process().await;
        let started = Instant::now();
        let answer = cluster.post(DEFINITIONS, &definition).await;
        let took = started.elapsed();
        println!("{what}: {} after {took:.1?}", answer.status);
        if answer.status != code || !answer.text().contains(words) {
            wrong.push(format!(
                "{what}: {} {}",
                answer.status,
                answer.text().chars().take(300).collect::<String>()
            ));
        }
        if took > LONGEST {
            wrong.push(format!("{what}: took {took:?}"));
        }
        is_well(&cluster).await;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_pattern_that_others_find_slow_is_quick_here() {
    let cluster = embedded::in_process().await;
    cluster.post(DEFINITIONS, &definition(json!({"type": "string", "pattern": "^(a+)+$"}))).await.expect(201);
    let text = format!("{}b", "a".repeat(200_000));
    let object = json!({
        "apiVersion": "hostile.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": text,
    });
    let started = Instant::now();
    let path = "/apis/hostile.example.com/v1/namespaces/default/widgets";
    cluster
        .post(path, &object)
        .await
        .expect_failure(422, "Invalid")
        .assert_cause("FieldValueInvalid", "spec");
    assert!(started.elapsed() < LONGEST);
}

/// An object of a built-in kind with a megabyte of something, which a third of a body is.
fn crowded(kind: &str, group: &str, pointer: &str, item: impl Fn(usize) -> String) -> (String, String) {
    const ROOM: usize = 1_000_000;
    let (mut items, mut at) = (String::new(), 0);
    while items.len() < ROOM {
        items.push_str(if at == 0 { "" } else { "," });
        items.push_str(&item(at));
        at += 1;
    }
    let mut object = json!({"apiVersion": group, "kind": kind, "metadata": {"generateName": "crowded-"}});
    let (open, close) = if items.starts_with('"') && items.contains("\":") { ("{", "}") } else { ("[", "]") };
    let mut into = &mut object;
    for key in pointer.split('.') {
        into = &mut into[key];
    }
    *into = "ITEMS".into();
    let prefix = if group == "v1" { "/api/v1".to_owned() } else { format!("/apis/{group}") };
    let path = format!("{prefix}/namespaces/default/{}s", kind.to_lowercase());
    (path, object.to_string().replace("\"ITEMS\"", &format!("{open}{items}{close}")))
}

fn crowds() -> Vec<(&'static str, (String, String))> {
    let empty = |_: usize| "{}".to_owned();
    let named = |at: usize| format!(r#"{{"name":"n{at}"}}"#);
    let entry = |at: usize| format!(r#""k{at}":"""#);
    let text = |at: usize| format!(r#""example.com/{at}""#);
    vec![
        ("containers without anything", crowded("Pod", "v1", "spec.containers", empty)),
        ("containers with a name", crowded("Pod", "v1", "spec.containers", named)),
        ("volumes without anything", crowded("Pod", "v1", "spec.volumes", empty)),
        ("volumes with a name", crowded("Pod", "v1", "spec.volumes", named)),
        ("tolerations", crowded("Pod", "v1", "spec.tolerations", empty)),
        ("ports", crowded("Service", "v1", "spec.ports", empty)),
        ("ports with a number", crowded("Service", "v1", "spec.ports", |at| format!(r#"{{"port":{at}}}"#))),
        ("entries", crowded("ConfigMap", "v1", "data", entry)),
        ("labels", crowded("ConfigMap", "v1", "metadata.labels", entry)),
        ("annotations", crowded("ConfigMap", "v1", "metadata.annotations", entry)),
        ("finalizers", crowded("ConfigMap", "v1", "metadata.finalizers", text)),
        ("owners", crowded("ConfigMap", "v1", "metadata.ownerReferences", empty)),
        (
            "controllers",
            crowded("ConfigMap", "v1", "metadata.ownerReferences", |_| r#"{"controller":true}"#.to_owned()),
        ),
        ("unknown fields", crowded("ConfigMap", "v1", "metadata.odd", entry)),
        ("unknown fields at the root", crowded("ConfigMap", "v1", "odd", empty)),
        ("managers", crowded("ConfigMap", "v1", "metadata.managedFields", empty)),
        ("secrets", crowded("ServiceAccount", "v1", "secrets", named)),
        ("limits", crowded("LimitRange", "v1", "spec.limits", empty)),
        ("init containers", crowded("Deployment", "apps/v1", "spec.template.spec.initContainers", named)),
        ("rules", crowded("Role", "rbac.authorization.k8s.io/v1", "rules", empty)),
        ("subjects", crowded("RoleBinding", "rbac.authorization.k8s.io/v1", "subjects", empty)),
    ]
}

#[tokio::test]
async fn no_crowd_in_a_body_harms_the_server() {
    let cluster = embedded::in_process().await;
    for (name, (path, body)) in crowds() {
        let begun = Instant::now();
        let answer = cluster.send(Call::new(http::Method::POST, path).body("application/json", body)).await;
        println!("{name}: {} in {:?}", answer.status, begun.elapsed());
        let said = answer.text();
        assert!(matches!(answer.status, 201 | 413 | 422), "{name}: {} {said:.500}", answer.status);
        assert!(begun.elapsed() < LONGEST, "{name}: {:?}", begun.elapsed());
        assert!(said.len() < 4 * 1024 * 1024, "{name}: an answer of {} bytes", said.len());
        is_well(&cluster).await;
    }
}

#[tokio::test]
async fn a_key_that_leads_to_everything_is_refused() {
    let cluster = embedded::in_process().await;
    let fields: Vec<String> = (0..150_000).map(|at| format!(r#""{at}":0"#)).collect();
    let body = format!(r#"{{"{}":{{{}}}}}"#, "k".repeat(1_000_000), fields.join(","));
    let started = Instant::now();
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let call = Call::new(http::Method::POST, path).header("impersonate-user", "nobody");
    let answer = cluster.send(call.body("application/json", body)).await;
    answer.expect_failure(400, "BadRequest").assert_message("more than 4096 bytes");
    assert!(started.elapsed() < LONGEST, "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_role_of_a_billion_combinations_is_refused_to_those_who_do_not_have_them() {
    let cluster = embedded::in_process().await;
    let group = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let binding = json!({
        "kind": "RoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "chief"},
        "roleRef": {"kind": "ClusterRole", "name": "admin"}, "subjects": [{"kind": "User", "name": "chief"}],
    });
    cluster.post(format!("{group}/rolebindings"), &binding).await.expect(201);
    let many = |prefix: &str| -> Vec<String> { (0..1_000).map(|at| format!("{prefix}{at}")).collect() };
    let rule = json!({"verbs": many("v"), "apiGroups": many("g"), "resources": many("r")});
    let role = json!({
        "kind": "Role", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "r"}, "rules": [rule],
    });
    let started = Instant::now();
    let call = Call::post(format!("{group}/roles"), &role);
    let answer = cluster.send(call.clone().header("impersonate-user", "chief")).await;
    answer.expect_failure(403, "Forbidden").assert_message("combinations");
    // Whoever has everything has these as well.
    cluster.send(call).await.expect(201);
    assert!(started.elapsed() < LONGEST, "{:?}", started.elapsed());
}

/// A definition that took the place of a built-in kind would have its objects, which the server itself goes by.
#[tokio::test]
async fn no_definition_takes_the_place_of_a_built_in_kind() {
    let cluster = embedded::in_process().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let before = cluster.get(roles).await.expect(200)["items"].as_array().unwrap().len();
    for (plural, kind, group) in [
        ("clusterrolebindings", "ClusterRoleBinding", "rbac.authorization.k8s.io"),
        ("certificatesigningrequests", "Other", "certificates.k8s.io"),
    ] {
        let name = format!("{plural}.{group}");
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name, "annotations": {"api-approved.kubernetes.io": "unapproved"}},
            "spec": {
                "group": group, "scope": "Cluster",
                "names": {"plural": plural, "singular": plural.trim_end_matches('s'), "kind": kind},
                "versions": [{"name": "v9", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }}}],
            },
        });
        cluster.post(DEFINITIONS, &definition).await.expect(201);
        let path = format!("{DEFINITIONS}/{name}");
        let refused = bellwether_testkit::eventually("the names are judged", || async {
            let definition = cluster.get(&path).await.expect(200);
            let conditions = definition["status"]["conditions"].as_array()?.clone();
            conditions.into_iter().find(|condition| condition["type"] == "NamesAccepted")
        })
        .await;
        assert_eq!(refused["status"], "False", "{refused}");
        cluster.get(format!("/apis/{group}/v9/{plural}")).await.expect_failure(404, "NotFound");
        cluster.delete(&path).await.expect(200);
        bellwether_testkit::eventually("the definition is gone", || async {
            (cluster.get(&path).await.status == 404).then_some(())
        })
        .await;
    }
    let after = cluster.get(roles).await.expect(200)["items"].as_array().unwrap().len();
    assert_eq!(before, after);
}
