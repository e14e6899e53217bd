//! Conditions that the configuration adds, and kinds whose specs have a schema.

use serde_json::{Value, json};

use crate::harness::{Api, Setup, brief, condition, kinds_of, on_both_stores};

fn setup(conditions: Value) -> Setup {
    let kinds = json!([{
        "kind": "Cluster", "plural": "clusters", "required_adapters": ["a"], "conditions": conditions,
        "spec_schema": {
            "type": "object", "required": ["region"], "additionalProperties": true,
            "properties": {"region": {"type": "string"}, "replicas": {"type": "integer", "minimum": 1}},
        },
    }]);
    Setup { kinds: kinds_of(kinds), ..Setup::default() }
}

fn expression(text: &str) -> Value {
    json!({"expression": text})
}

fn degraded() -> Value {
    json!([
        {
            "type": "Degraded",
            "when": expression("statuses.size() > 0"),
            "output": {
                "status": expression(
                    "statuses.exists(s, s.conditions.exists(c, c.type == 'Health' && c.status == 'False')) ? 'True' : 'False'"
                ),
                "reason": expression("'ByHealth'"),
                "message": expression("'region ' + resource.spec.region + ', phase ' + statuses[0].data.?phase.orValue('none')"),
            },
        },
        {
            "type": "Broken",
            "when": expression("true"),
            "output": {"status": expression("dig(resource, 'spec.replicas') > 'text' ? 'True' : 'False'")},
        },
        {
            "type": "Told",
            "when": expression("resource.generation > 1"),
            "output": {
                "status": expression("'true'"),
                "message": expression("toJson({'password': resource.spec.?password.orValue(''), 'names': statuses.map(s, s.adapter)})"),
            },
        },
    ])
}

async fn mapped(api: Api) {
    let spec = json!({"region": "eu", "password": "hunter2"});
    let href = api.cluster_with("mapped", json!({}), spec).await["href"].as_str().unwrap().to_owned();
    let cluster = api.read(&href).await;
    assert_eq!(brief(&cluster, "Degraded"), "absent");
    let broken = condition(&cluster, "Broken").unwrap();
    assert_eq!((&broken["status"], &broken["reason"]), (&json!("Unknown"), &json!("ExpressionFailed")));

    // The report is not lost though an expression fails.
    api.report(&href, "a", (1, 5), "True").await.expect(201);
    let cluster = api.read(&href).await;
    assert_eq!(brief(&cluster, "Ready"), "True@g1 5/5");
    assert_eq!(brief(&cluster, "Degraded"), "False@g1 5/5", "{cluster}");
    assert_eq!(condition(&cluster, "Degraded").unwrap()["message"], "region eu, phase none");

    let sick = [("Available", "True"), ("Applied", "True"), ("Health", "False")];
    api.report_conditions(&href, "a", (1, 9), &sick).await.expect(201);
    let cluster = api.read(&href).await;
    assert_eq!(brief(&cluster, "Degraded"), "True@g1 9/9");
    assert_eq!(condition(&cluster, "Degraded").unwrap()["reason"], "ByHealth");

    api.set_clock(20);
    let spec = json!({"region": "us", "password": "hunter2"});
    api.send("PATCH", &href, Some(json!({"spec": spec}))).await.expect(200);
    let cluster = api.read(&href).await;
    assert_eq!(condition(&cluster, "Told").unwrap()["message"], r#"{"names":["a"],"password":"***"}"#);
    assert_eq!(api.search("status.conditions.Degraded='True'").await.unwrap(), ["mapped"]);
    let types: Vec<&Value> =
        cluster["status"]["conditions"].as_array().unwrap().iter().map(|it| &it["type"]).collect();
    assert_eq!(types, ["Ready", "Available", "ASuccessful", "Broken", "Degraded", "Told"]);
}

/// A condition whose status takes a loop over all pairs of the items of the spec.
fn bomb() -> Value {
    json!([{
        "type": "Bomb",
        "when": expression("true"),
        "output": {"status": expression(
            "resource.spec.items.all(a, resource.spec.items.all(b, toJson(statuses) != a + b)) ? 'True' : 'False'"
        )},
    }])
}

async fn cut_off_by_cost(api: Api) {
    let items: Vec<String> = (0..5_000).map(|item| format!("item-{item}")).collect();
    let spec = json!({"region": "eu", "items": items});
    let start = std::time::Instant::now();
    let cluster = api.cluster_with("bomb", json!({}), spec).await;
    let href = cluster["href"].as_str().unwrap().to_owned();
    api.report(&href, "a", (1, 5), "True").await.expect(201);
    let took = start.elapsed();
    let cluster = api.read(&href).await;
    let bomb = condition(&cluster, "Bomb").unwrap();
    assert_eq!((&bomb["status"], &bomb["reason"]), (&json!("Unknown"), &json!("ExpressionFailed")));
    let message = bomb["message"].as_str().unwrap();
    assert!(message.starts_with("output.status.expression: "), "{message}");
    assert!(message.contains("its cost limit of 1000000 was exceeded"), "{message}");
    assert!(message.contains("resource.spec.items.all(a, "), "{message}");
    // The report counts, and the API has answered in time.
    assert_eq!(brief(&cluster, "Ready"), "True@g1 5/5");
    assert!(took < std::time::Duration::from_secs(20), "{took:?}");

    let small = json!({"region": "eu", "items": ["a", "b"]});
    let cluster = api.cluster_with("small", json!({}), small).await;
    assert_eq!(condition(&cluster, "Bomb").unwrap()["status"], "True");
}

async fn a_spec_keeps_its_schema(api: Api) {
    let create = |spec: Value| {
        let api = &api;
        async move {
            api.send("POST", "/clusters", Some(json!({"kind": "Cluster", "name": "abc", "spec": spec}))).await
        }
    };
    let problem = create(json!({"region": 1, "replicas": 0})).await.expect_problem(
        400,
        "VAL-000",
        "Invalid ClusterSpec",
    );
    let mut fields: Vec<&str> =
        problem["errors"].as_array().unwrap().iter().map(|error| error["field"].as_str().unwrap()).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["spec.region", "spec.replicas"]);
    create(json!({})).await.expect_problem(400, "VAL-000", "region");
    let cluster = create(json!({"region": "eu", "replicas": 3})).await.expect(201).json();
    let patch = json!({"spec": {"replicas": 3}});
    api.send("PATCH", cluster["href"].as_str().unwrap(), Some(patch))
        .await
        .expect_problem(400, "VAL-000", "region");
}

#[tokio::test]
async fn conditions_are_mapped_on_sqlite() {
    mapped(Api::start_with(crate::harness::sqlite(), setup(degraded())).await).await;
}

#[tokio::test]
async fn an_expression_that_costs_too_much_marks_its_condition_and_loses_no_report() {
    cut_off_by_cost(Api::start_with(crate::harness::sqlite(), setup(bomb())).await).await;
}

#[cfg(feature = "real-postgres")]
#[tokio::test]
async fn conditions_are_mapped_on_postgres() {
    mapped(Api::start_with(crate::harness::postgres().await, setup(degraded())).await).await;
}

#[tokio::test]
async fn a_spec_keeps_the_schema_of_its_kind() {
    a_spec_keeps_its_schema(Api::start_with(crate::harness::sqlite(), setup(json!([]))).await).await;
}

on_both_stores! {
    async fn kinds_without_adapters_that_wait_for_their_children(api: Api) {
        // A channel requires nothing, yet it stays while a version that was restricted is there.
        let channel = api.send("POST", "/channels", Some(json!({"kind": "Channel", "name": "fast", "spec": {}}))).await;
        let href = channel.expect(201).json()["href"].as_str().unwrap().to_owned();
        assert_eq!(api.read(&href).await["status"]["conditions"], json!([]));
        api.send("DELETE", &href, None).await.expect(202);
        api.get(&href).await.expect(404);
    }
}

mod configuration {
    use bellwether_fleet::kinds::Kinds;
    use bellwether_fleet::vocabulary::Vocabulary;
    use rstest::rstest;

    use super::*;

    fn with_condition(type_: &str, when: &str) -> Value {
        json!([{
            "kind": "Cluster", "plural": "clusters", "required_adapters": ["dns"],
            "conditions": [{"type": type_, "when": expression(when), "output": {"status": expression("'True'")}}],
        }])
    }

    #[rstest]
    #[case::no_name(json!([{"kind": "", "plural": "x"}]), "has no name")]
    #[case::lower_case(json!([{"kind": "thing", "plural": "things"}]), "not a valid name")]
    #[case::plural(json!([{"kind": "Thing", "plural": "The Things"}]), "not a valid path segment")]
    #[case::twice(json!([{"kind": "A", "plural": "as"}, {"kind": "A", "plural": "aas"}]), "declared twice")]
    #[case::plural_twice(json!([{"kind": "A", "plural": "clusters"}]), "declared for two kinds")]
    #[case::reserved(json!([{"kind": "A", "plural": "resources"}]), "is reserved")]
    #[case::unknown_parent(json!([{"kind": "A", "plural": "as", "parent_kind": "B"}]), "the parent_kind B of A is not declared")]
    #[case::cycle(json!([{"kind": "A", "plural": "as", "parent_kind": "B"}, {"kind": "B", "plural": "bs", "parent_kind": "A"}]), "form a cycle")]
    #[case::name_length(json!([{"kind": "A", "plural": "as", "name_min_len": 9, "name_max_len": 3}]), "name_min_len 9 and name_max_len 3")]
    #[case::adapter_twice(json!([{"kind": "A", "plural": "as", "required_adapters": ["x-y", "x-Y"]}]), "XYSuccessful")]
    #[case::nameless_adapter(json!([{"kind": "A", "plural": "as", "required_adapters": [""]}]), "with an empty name")]
    #[case::schema(json!([{"kind": "A", "plural": "as", "spec_schema": {"type": "nonsense"}}]), "is not a JSON schema")]
    #[case::root(with_condition("Ready", "true"), "is a built-in condition")]
    #[case::other_root(with_condition("LastKnownReconciled", "true"), "is a built-in condition")]
    #[case::of_adapter(with_condition("DnsSuccessful", "true"), "is a built-in condition")]
    #[case::bad_type(with_condition("not a type", "true"), "beginning with a capital")]
    #[case::syntax(with_condition("Mine", "1 +"), "when.expression cannot be parsed")]
    #[case::variable(with_condition("Mine", "resouce.spec.x == 1"), "\"resouce\"")]
    #[case::loops(
        with_condition("Mine", "statuses.all(a, statuses.all(b, statuses.all(c, true)))"),
        "nests loops"
    )]
    #[case::place(with_condition("Mine", "true &&\n  resouce.x"), "line 2, column 3")]
    #[case::types(with_condition("Mine", "'a' * 2 == 4"), "when.expression is invalid: line 1, column 5")]
    #[case::cost(
        with_condition("Mine", &format!("['x']{}.size() > 0", ".map(a, a + a)".repeat(40))),
        "when.expression exceeds its cost limit even on the smallest values"
    )]
    #[case::cost_of_statuses(
        with_condition("Mine", &format!("[toJson(statuses)]{}.size() > 0", ".map(a, a + a)".repeat(40))),
        "exceeds the cost limit of 1000000"
    )]
    #[case::cost_of_loops(
        with_condition("Mine", "lists.range(1000).all(a, lists.range(1000).all(b, a * b >= 0))"),
        "exceeds the cost limit of 1000000"
    )]
    fn kinds_that_make_no_sense_are_refused(#[case] kinds: Value, #[case] words: &str) {
        let error = Kinds::new(kinds_of(kinds), Vocabulary::default()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
