//! Definitions that are wrong, one by one and at random, and changes of definitions.

use bellwether_testkit::{Call, eventually};
use serde_json::{Value, json};

use crate::compare::{Both, Pair, Tally};
use crate::kinds::{DEFINITIONS, definition};
use crate::rng::Rng;
use crate::schemas;

const GROUP: &str = "definitions.example.com";

/// Stands for the absence of a value.
fn nothing() -> Value {
    json!("<nothing>")
}

/// Sets or removes what a pointer leads to.
fn set(document: &mut Value, pointer: &str, value: &Value) {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer has a slash");
    let key = key.replace("~1", "/");
    let place = document.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer} leads nowhere"));
    match place {
        Value::Object(map) if *value == nothing() => drop(map.remove(&key)),
        Value::Object(map) => drop(map.insert(key, value.clone())),
        Value::Array(items) if key == "-" => items.push(value.clone()),
        Value::Array(items) => items[key.parse::<usize>().expect("an index")] = value.clone(),
        _ => panic!("{pointer} leads into a scalar"),
    }
}

fn good() -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "text": {"type": "string"}, "count": {"type": "integer"}, "flag": {"type": "boolean"}, "ratio": {"type": "number"},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "list": {"type": "array", "items": {"type": "string"}},
            "inner": {"type": "object", "properties": {"deep": {"type": "string"}}},
        }},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
    }});
    definition(GROUP, "Thing", schema)
}

const V: &str = "/spec/versions/0";
const S: &str = "/spec/versions/0/schema/openAPIV3Schema";

/// A definition that is wrong in one way; `V` and `S` begin pointers into its version and schema.
fn wrong() -> Vec<Vec<(String, Value)>> {
    let mut rows: Vec<Vec<(String, Value)>> = Vec::new();
    let mut each = |prefix: &str, pointer: &str, values: Value| {
        for value in values.as_array().expect("values are an array") {
            rows.push(vec![(format!("{prefix}{pointer}"), value.clone())]);
        }
    };
    let nothing = nothing();
    each(
        "",
        "/metadata/name",
        json!(["things", "Things.definitions.example.com", "things.definitions.example.com", "", nothing]),
    );
    each("", "/metadata/labels", json!([{"a b": "c"}, {"a": "b c"}]));
    each("", "/spec", json!([nothing, {}, null, []]));
    each(
        "",
        "/spec/group",
        json!([
            "",
            "nodot",
            "UPPER.example.com",
            "x.k8s.io",
            "kubernetes.io",
            "a..b",
            nothing,
            "-a.example.com"
        ]),
    );
    each("", "/spec/scope", json!(["", "World", "cluster", nothing]));
    each("", "/spec/preserveUnknownFields", json!([true, false]));
    each("", "/spec/names", json!([{}, {"kind": "Thing"}, {"plural": "things"}]));
    each("", "/spec/names/kind", json!(["", "1Thing", "Thi ng", "thing", nothing]));
    each("", "/spec/names/listKind", json!(["", "Thing", "1List", "lower"]));
    each("", "/spec/names/plural", json!(["", "Things", "1things", "other"]));
    each("", "/spec/names/singular", json!(["", "Thing", "1thing", "other"]));
    each("", "/spec/names/shortNames", json!([["A"], ["a", "b c"], [""], ["1"], []]));
    each("", "/spec/names/categories", json!([["all"], ["All"], [""]]));
    each(
        "",
        "/spec/conversion",
        json!([{}, {"strategy": "None"}, {"strategy": "Other"}, {"strategy": ""}, {"strategy": "Webhook"},
            {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}},
            {"strategy": "None", "webhook": {"clientConfig": {"url": "https://x"}, "conversionReviewVersions": []}},
            {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v9"], "clientConfig": {}}},
            {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://hooks.example.com/x"}}},
        ]),
    );
    each("", "/spec/versions", json!([[], nothing, null]));
    each(V, "/name", json!(["", "1", "V1", "v1.2", "beta"]));
    each(V, "/storage", json!([false]));
    each(V, "/served", json!([false, nothing]));
    each(V, "/deprecationWarning", json!(["", "old", "x".repeat(300)]));
    rows.push(vec![(format!("{V}/deprecated"), json!(true)), (format!("{V}/deprecationWarning"), json!(""))]);
    rows.push(vec![
        (format!("{V}/deprecated"), json!(true)),
        (format!("{V}/deprecationWarning"), json!("a\nb")),
    ]);
    rows.push(vec![
        (format!("{V}/deprecated"), json!(true)),
        (format!("{V}/deprecationWarning"), json!("x".repeat(257))),
    ]);
    rows.push(vec![
        (format!("{V}/deprecated"), json!(true)),
        (format!("{V}/deprecationWarning"), json!("ünïcode is fine")),
    ]);
    for annotation in [
        "https://github.com/kubernetes/enhancements/pull/1",
        "unapproved, for a test",
        "nonsense",
        "",
        "http://",
        "/x",
    ] {
        rows.push(vec![
            ("/metadata/name".into(), json!("thing.x.k8s.io")),
            ("/spec/group".into(), json!("x.k8s.io")),
            ("/metadata/annotations".into(), json!({"api-approved.kubernetes.io": annotation})),
        ]);
    }
    let second = |change: &[(&str, Value)]| {
        let mut version = json!({"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}});
        for (pointer, value) in change {
            set(&mut version, pointer, value);
        }
        vec![("/spec/versions/-".to_owned(), version)]
    };
    rows.push(second(&[]));
    rows.push(second(&[("/storage", json!(true))]));
    rows.push(second(&[("/name", json!("v1"))]));
    rows.push(second(&[("/schema", nothing.clone())]));
    rows.push(second(&[("/schema/openAPIV3Schema", json!({"type": "string"}))]));
    rows.push(second(&[("/schema/openAPIV3Schema/properties", json!({"a": {"type": "array"}}))]));
    rows.push(second(&[("/subresources", json!({"scale": {"specReplicasPath": "spec.x"}}))]));
    rows.push(second(&[(
        "/additionalPrinterColumns",
        json!([{"name": "", "type": "text", "jsonPath": "x"}]),
    )]));
    rows.push(second(&[("/selectableFields", json!([{"jsonPath": ".spec.none"}]))]));
    let mut same = good()["spec"]["versions"][0].clone();
    set(&mut same, "/name", &json!("v2"));
    set(&mut same, "/storage", &json!(false));
    rows.push(vec![("/spec/versions/-".to_owned(), same.clone())]);
    set(&mut same, "/schema/openAPIV3Schema/properties/spec/properties/list", &json!({"type": "array"}));
    rows.push(vec![("/spec/versions/-".to_owned(), same)]);
    let mut each = |prefix: &str, pointer: &str, values: Value| {
        for value in values.as_array().expect("values are an array") {
            rows.push(vec![(format!("{prefix}{pointer}"), value.clone())]);
        }
    };
    each(V, "/schema", json!([nothing, null, {}, {"openAPIV3Schema": null}, {"openAPIV3Schema": {}}]));
    each(
        V,
        "/subresources",
        json!([
            {}, {"status": {}}, {"scale": {}}, {"scale": {"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.replicas"}},
            {"scale": {"specReplicasPath": "spec.count", "statusReplicasPath": ".status.replicas"}},
            {"scale": {"specReplicasPath": ".status.count", "statusReplicasPath": ".spec.replicas"}},
            {"scale": {"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".metadata.x"}},
            {"scale": {"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.replicas", "labelSelectorPath": "x"}},
            {"scale": {"specReplicasPath": ".spec.", "statusReplicasPath": "."}},
        ]),
    );
    each(
        V,
        "/additionalPrinterColumns",
        json!([
            [], [{}], [{"name": "A", "type": "string", "jsonPath": ".spec.text"}], [{"name": "A", "type": "text", "jsonPath": ".a"}],
            [{"name": "A", "type": "string", "format": "odd", "jsonPath": ".a"}], [{"name": "A", "type": "date", "format": "date", "jsonPath": "a"}],
            [{"name": "A", "type": "string", "jsonPath": ".a["}], [{"name": "A", "type": "string", "jsonPath": ""}],
            [{"name": "A", "type": "integer", "jsonPath": "."}], [{"name": "A", "type": "string", "jsonPath": ".a..b", "priority": 1}],
        ]),
    );
    each(
        V,
        "/selectableFields",
        json!([
            [], [{}], [{"jsonPath": ".spec.text"}], [{"jsonPath": ".spec.text"}, {"jsonPath": ".spec.text"}], [{"jsonPath": ".spec.none"}],
            [{"jsonPath": ".spec.ratio"}], [{"jsonPath": ".spec.map.a"}], [{"jsonPath": ".spec.list"}], [{"jsonPath": ".spec.list[0]"}],
            [{"jsonPath": ".metadata.name"}], [{"jsonPath": "spec.text"}], [{"jsonPath": "."}], [{"jsonPath": ".spec"}],
            [{"jsonPath": ".spec.inner.deep"}, {"jsonPath": ".spec.flag"}, {"jsonPath": ".spec.count"}], [{"jsonPath": ".spec.text."}],
            [{"jsonPath": ".spec.map.a"}, {"jsonPath": ".spec.map.b"}, {"jsonPath": ".spec.map.c"}, {"jsonPath": ".spec.map.d"},
             {"jsonPath": ".spec.map.e"}, {"jsonPath": ".spec.map.f"}, {"jsonPath": ".spec.map.g"}, {"jsonPath": ".spec.map.h"}, {"jsonPath": ".spec.map.i"}],
        ]),
    );
    for (pointer, values) in at_root() {
        for value in values.as_array().expect("values are an array") {
            let change = (format!("{S}{pointer}"), value.clone());
            rows.push(vec![change.clone()]);
            // Without an endpoint for the status more may stand at the root.
            rows.push(vec![(format!("{V}/subresources"), nothing.clone()), change]);
        }
    }
    rows
}

/// What is odd at the root of a schema.
fn at_root() -> Vec<(&'static str, Value)> {
    vec![
        ("/type", json!([nothing(), "string", "null", "odd", ""])),
        ("/nullable", json!([true, false])),
        ("/additionalProperties", json!([true, false, {"type": "string"}])),
        ("/properties", json!([nothing(), {}, {"a": {}}, {"a": null}])),
        (
            "/properties/metadata",
            json!([
                {"type": "object"}, {"type": "string"}, {"type": "object", "properties": {"name": {"type": "string", "pattern": "^a"}}},
                {"type": "object", "properties": {"labels": {"type": "object"}}}, {"type": "object", "default": {"name": "x"}},
                {"type": "object", "properties": {"name": {"type": "string", "default": "x"}}}, {"type": "object", "description": "x"},
                {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
            ]),
        ),
        (
            "/properties/kind",
            json!([{"type": "string"}, {"type": "integer"}, {"type": "string", "default": "X"}, {"type": "string", "enum": ["Y"]}]),
        ),
        ("/properties/apiVersion", json!([{"type": "object"}, {"type": "string", "default": "v1"}])),
        ("/required", json!([["spec"], ["none"]])),
        ("/anyOf", json!([[{"required": ["spec"]}], [{"properties": {"none": {}}}], [{"type": "object"}]])),
        (
            "/not",
            json!([{"required": ["spec"]}, {"properties": {"spec": {"properties": {"none": {"minLength": 1}}}}}]),
        ),
        ("/default", json!([{}, {"spec": {}}])),
        ("/x-kubernetes-preserve-unknown-fields", json!([true, false])),
        ("/x-kubernetes-embedded-resource", json!([true])),
        ("/x-kubernetes-int-or-string", json!([true])),
        ("/$ref", json!(["#/x"])),
        ("/definitions", json!([{"a": {"type": "string"}}])),
        ("/maxProperties", json!([5])),
    ]
}

/// What is put into a schema at random, to break it.
fn breakers() -> Vec<(&'static str, Value)> {
    let mut rows = Vec::new();
    for (key, values) in [
        ("type", json!([nothing(), "null", "odd", "object", "array", "string", "integer"])),
        ("default", json!([1, "x", {}, [], {"zz": 1}, null, true])),
        ("uniqueItems", json!([true, false])),
        ("$ref", json!(["#/a"])),
        ("id", json!(["x"])),
        ("definitions", json!([{"a": {}}])),
        ("dependencies", json!([{"a": ["b"]}])),
        ("patternProperties", json!([{"a": {}}])),
        ("additionalItems", json!([true, {"type": "string"}])),
        (
            "anyOf",
            json!([[{"type": "string"}], [{"default": 1}], [{"nullable": true}], [{"description": "x"}], [{"title": "x"}],
            [{"type": "integer"}, {"type": "string"}], [{"x-kubernetes-list-type": "set"}], [{"additionalProperties": true}],
            [{"properties": {"metadata": {}}}], [{"items": {"type": "string"}}], [{"anyOf": [{"type": "string"}]}]]),
        ),
        (
            "not",
            json!([{"type": "string"}, {"properties": {"a": {"type": "string"}}}, {"additionalProperties": {"type": "string"}}]),
        ),
        (
            "allOf",
            json!([[{"x-kubernetes-preserve-unknown-fields": true}], [{"x-kubernetes-int-or-string": true}], [{"pattern": "("}]]),
        ),
        ("x-kubernetes-preserve-unknown-fields", json!([true, false])),
        ("x-kubernetes-embedded-resource", json!([true])),
        ("x-kubernetes-int-or-string", json!([true])),
        ("x-kubernetes-list-type", json!(["set", "map", "atomic", "odd"])),
        ("x-kubernetes-list-map-keys", json!([["a"], ["a", "a"], ["none"]])),
        ("x-kubernetes-map-type", json!(["atomic", "granular", "odd"])),
        ("additionalProperties", json!([false, true, {"type": "string"}, {}])),
        (
            "properties",
            json!([{"a": {"type": "string"}}, {"metadata": {"type": "object"}}, {"metadata": {"type": "string"}}]),
        ),
        ("items", json!([{"type": "string"}, {}, [{"type": "string"}], nothing()])),
        ("nullable", json!([true])),
        ("pattern", json!(["(", "[a", "^a$", "a**"])),
        ("format", json!(["odd", "date-time"])),
        ("enum", json!([[1, 1], ["a"], []])),
        ("multipleOf", json!([0, -1])),
        ("maxLength", json!([-1])),
        ("minimum", json!([1.5])),
    ] {
        for value in values.as_array().expect("values are an array") {
            rows.push((key, value.clone()));
        }
    }
    rows
}

/// The places of all schemas in a schema.
fn places(schema: &Value, pointer: &str, found: &mut Vec<String>) {
    found.push(pointer.to_owned());
    if let Some(fields) = schema["properties"].as_object() {
        for (name, field) in fields {
            places(field, &format!("{pointer}/properties/{name}"), found);
        }
    }
    for key in ["items", "additionalProperties"] {
        if schema[key].is_object() {
            places(&schema[key], &format!("{pointer}/{key}"), found);
        }
    }
}

fn posted(sort: &'static str, about: String, definition: &Value) -> Pair {
    Pair { sort, about, call: Call::post(format!("{DEFINITIONS}?dryRun=All"), definition) }
}

/// Definitions that are wrong in one way.
pub(crate) fn one_by_one() -> Vec<Pair> {
    let row = |changes: Vec<(String, Value)>| {
        let mut definition = good();
        for (pointer, value) in &changes {
            set(&mut definition, pointer, value);
        }
        posted("wrong definitions", format!("{changes:?}"), &definition)
    };
    wrong().into_iter().map(row).collect()
}

/// Generated schemas, each broken somewhere.
pub(crate) fn at_random(count: u64) -> Vec<Pair> {
    (0..count)
        .map(|seed| {
            let mut rng = Rng::new(seed ^ 0xBAD);
            let depth = 1 + rng.below(2);
            let mut schema =
                json!({"type": "object", "properties": {"spec": schemas::schema(&mut rng, depth)}});
            let mut found = Vec::new();
            places(&schema["properties"]["spec"], "/properties/spec", &mut found);
            for _ in 0..1 + rng.below(2) {
                let place = rng.pick(&found).clone();
                let (key, value) = rng.pick(&breakers()).clone();
                if schema.pointer(&place).is_some_and(Value::is_object) {
                    set(&mut schema, &format!("{place}/{key}"), &value);
                }
            }
            posted(
                "broken schemas",
                format!("seed {seed}: {}", schema["properties"]["spec"]),
                &definition(GROUP, "Broken", schema),
            )
        })
        .collect()
}

/// Changes of a definition that is established. Each is a dry run, so that all start from the same.
pub(crate) async fn changes(both: &Both, tally: &mut Tally) {
    let mut first = good();
    set(
        &mut first,
        "/spec/versions/-",
        &json!({
            "name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}},
        }),
    );
    let path = format!("{DEFINITIONS}/thing.{GROUP}");
    for cluster in [&both.kubernetes, &both.ours] {
        cluster.post(DEFINITIONS, &first).await.expect(201);
        eventually("an established definition", || async {
            let conditions = cluster.get(&path).await.json()["status"]["conditions"].clone();
            let established =
                |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
            conditions.as_array().is_some_and(|conditions| conditions.iter().any(established)).then_some(())
        })
        .await;
    }
    let nothing = nothing();
    let rows: Vec<Vec<(String, Value)>> = vec![
        vec![("/spec/scope".into(), json!("Cluster"))],
        vec![("/spec/group".into(), json!("other.example.com"))],
        vec![("/spec/names/kind".into(), json!("Other"))],
        vec![("/spec/names/plural".into(), json!("others"))],
        vec![("/spec/names/singular".into(), json!("other"))],
        vec![("/spec/names/shortNames".into(), json!(["th"]))],
        vec![("/spec/names/listKind".into(), json!("OtherList"))],
        vec![
            ("/spec/versions/0/storage".into(), json!(false)),
            ("/spec/versions/1/storage".into(), json!(true)),
        ],
        vec![("/spec/versions/0/served".into(), json!(false))],
        vec![("/spec/versions/0/storage".into(), json!(false))],
        vec![("/spec/versions/1/storage".into(), json!(true))],
        vec![(
            "/spec/versions".into(),
            json!([{"name": "v2", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]),
        )],
        vec![("/spec/versions".into(), json!([]))],
        vec![(
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/text/default".into(),
            json!("x"),
        )],
        vec![(
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/text/default".into(),
            json!(5),
        )],
        vec![(
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/text/format".into(),
            json!("odd"),
        )],
        vec![("/spec/versions/0/schema".into(), nothing.clone())],
        vec![("/spec/conversion".into(), json!({"strategy": "Other"}))],
        vec![("/spec/preserveUnknownFields".into(), json!(true))],
        vec![("/metadata/resourceVersion".into(), nothing.clone())],
        vec![("/metadata/resourceVersion".into(), json!("1"))],
        vec![("/metadata/name".into(), json!("others.example.com"))],
        vec![("/metadata/labels".into(), json!({"a": "b"}))],
        vec![("/metadata/finalizers".into(), json!(["bare"]))],
        vec![("/status".into(), json!({"storedVersions": ["v9"]}))],
    ];
    for changes in rows {
        let answers = both.each(async |cluster| {
            let mut definition = cluster.get(&path).await.expect(200);
            for (pointer, value) in &changes {
                set(&mut definition, pointer, value);
            }
            cluster.put(format!("{path}?dryRun=All"), &definition).await
        });
        let (theirs, ours) = answers.await;
        tally.judge("changes of definitions", &format!("{changes:?}"), &theirs, &ours);
    }
    let statuses = [
        json!({"storedVersions": ["v2"]}),
        json!({"storedVersions": []}),
        json!({"storedVersions": ["v9"]}),
        json!({"acceptedNames": {"plural": "Bad Name", "kind": "X"}}),
        json!({"conditions": [{"type": "Odd", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2026-01-02T03:04:05Z"}]}),
        json!({"conditions": null}),
    ];
    for status in statuses {
        for whole in [true, false] {
            let answers = both.each(async |cluster| {
                let mut definition = cluster.get(&path).await.expect(200);
                for (key, value) in status.as_object().expect("a status is an object") {
                    definition["status"][key] = value.clone();
                }
                definition["spec"]["names"]["shortNames"] = json!(["ignored"]);
                let path = format!("{path}/status?dryRun=All");
                if whole {
                    cluster.put(path, &definition).await
                } else {
                    cluster.merge(path, &json!({"status": status})).await
                }
            });
            let (theirs, ours) = answers.await;
            tally.judge("statuses of definitions", &status.to_string(), &theirs, &ours);
        }
    }
}
