//! Rules of custom resources (`x-kubernetes-validations`): what expressions mean, which rules apply when, in what words
//! a failure is told, which rules are refused, and what an update is not blamed for.

mod facts;
mod ratchets;
mod refusals;
mod values;

use bellwether_testkit::{Cluster, eventually};
use serde_json::{Value, json};

use ratchets::{
    an_update_is_not_blamed_for_what_it_left_alone, items_of_plain_lists_are_blamed_with_their_list,
    keyed_items_and_entries_are_judged_one_by_one, repeated_items_are_let_off_once_they_are_stored,
    transition_rules_are_never_let_off,
};
use refusals::{
    a_rule_cannot_ask_for_a_past_that_is_not_known, an_expensive_evaluation_ends_in_time,
    expressions_of_real_definitions_are_accepted, expressions_that_cannot_be_evaluated_are_refused,
    rules_differ_only_in_what_is_documented, rules_that_cost_too_much_are_refused,
    the_fields_of_a_rule_are_checked,
};
use values::rules_see_values_as_their_schema_types_them;

use super::cases;

cases! { "cel":
    expressions_of_the_language_mean_the_same,
    expressions_on_text_mean_the_same,
    expressions_on_lists_mean_the_same,
    expressions_with_patterns_and_urls_mean_the_same,
    expressions_on_addresses_mean_the_same,
    expressions_on_quantities_and_formats_mean_the_same,
    expressions_on_times_and_optionals_mean_the_same,
    rules_see_values_as_their_schema_types_them,
    a_failure_is_told_in_the_words_and_at_the_place_of_the_rule,
    a_message_that_cannot_be_made_falls_back,
    a_rule_without_a_value_is_an_error_of_its_own,
    failures_are_at_the_path_of_their_value,
    rules_wait_until_the_object_fits_its_schema,
    a_rule_at_the_root_sees_names_and_nothing_else_of_metadata,
    transition_rules_compare_with_what_was,
    an_optional_past_is_there_on_create_as_well,
    a_status_update_is_held_to_the_rules,
    an_update_is_not_blamed_for_what_it_left_alone,
    items_of_plain_lists_are_blamed_with_their_list,
    keyed_items_and_entries_are_judged_one_by_one,
    transition_rules_are_never_let_off,
    repeated_items_are_let_off_once_they_are_stored,
    the_fields_of_a_rule_are_checked,
    expressions_that_cannot_be_evaluated_are_refused,
    rules_that_cost_too_much_are_refused,
    a_rule_cannot_ask_for_a_past_that_is_not_known,
    expressions_of_real_definitions_are_accepted,
    an_expensive_evaluation_ends_in_time,
    rules_differ_only_in_what_is_documented,
}

/// A definition of a namespaced kind with this schema for `spec`.
fn definition(group: &str, schema: Value) -> Value {
    json!({
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": format!("ruleds.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Ruled", "plural": "ruleds"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema}}},
            }],
        },
    })
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A kind of its own, with rules.
struct Kind<'c> {
    cluster: &'c Cluster,
    group: String,
    path: String,
}

impl<'c> Kind<'c> {
    async fn new(cluster: &'c Cluster, schema: Value) -> Self {
        Self::of(cluster, |group| definition(group, schema)).await
    }

    async fn of(cluster: &'c Cluster, definition: impl FnOnce(&str) -> Value) -> Self {
        let namespace = cluster.namespace().await;
        let group = format!("{namespace}.example.com");
        cluster.post(DEFINITIONS, &definition(&group)).await.expect(201);
        let path = format!("/apis/{group}/v1/namespaces/{namespace}/ruleds");
        eventually("the kind is served", || async {
            let answer = cluster.get(&path).await;
            (answer.status == 200).then_some(())
        })
        .await;
        Self { cluster, group, path }
    }

    fn object(&self, name: &str, spec: Value) -> Value {
        json!({"kind": "Ruled", "apiVersion": format!("{}/v1", self.group), "metadata": {"name": name}, "spec": spec})
    }

    /// The fields that a dry run names, with reason and message.
    async fn causes(&self, spec: Value) -> Vec<(String, String, String)> {
        let answer =
            self.cluster.post(format!("{}?dryRun=All", self.path), &self.object("tried", spec)).await;
        causes(&answer.json(), answer.status)
    }
}

fn causes(answer: &Value, status: u16) -> Vec<(String, String, String)> {
    if status < 300 {
        return Vec::new();
    }
    assert_eq!(status, 422, "{answer}");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let causes = answer["details"]["causes"].as_array().cloned().unwrap_or_default();
    causes
        .iter()
        .map(|cause| (text(&cause["field"]), text(&cause["reason"]), text(&cause["message"])))
        .collect()
}

/// Every expression is a rule of a field of its own, which must be equal to it: true is right and false is not.
async fn are_true(cluster: &Cluster, facts: &[&str]) {
    let name = |at: usize| format!("f{at:03}");
    let properties: serde_json::Map<String, Value> = facts
        .iter()
        .enumerate()
        .map(|(at, fact)| {
            let rules = json!([{"rule": format!("self == ({fact})")}]);
            (name(at), json!({"type": "boolean", "x-kubernetes-validations": rules}))
        })
        .collect();
    let kind = Kind::new(cluster, json!({"type": "object", "properties": properties})).await;
    let all = |value: bool| -> Value {
        (0..facts.len()).map(|at| (name(at), json!(value))).collect::<serde_json::Map<_, _>>().into()
    };
    let wrong = kind.causes(all(true)).await;
    assert!(wrong.is_empty(), "these are not true: {wrong:#?}");
    let refused: Vec<String> = kind.causes(all(false)).await.into_iter().map(|(field, ..)| field).collect();
    for (at, fact) in facts.iter().enumerate() {
        assert!(refused.contains(&format!("spec.{}", name(at))), "{fact} is not false when negated");
    }
}

async fn expressions_of_the_language_mean_the_same(cluster: &Cluster) {
    are_true(cluster, facts::LANGUAGE).await;
}

async fn expressions_on_text_mean_the_same(cluster: &Cluster) {
    are_true(cluster, facts::STRINGS).await;
}

async fn expressions_on_lists_mean_the_same(cluster: &Cluster) {
    are_true(cluster, facts::LISTS).await;
}

async fn expressions_with_patterns_and_urls_mean_the_same(cluster: &Cluster) {
    are_true(cluster, facts::TEXTS).await;
}

async fn expressions_on_addresses_mean_the_same(cluster: &Cluster) {
    are_true(cluster, facts::ADDRESSES).await;
}

async fn expressions_on_quantities_and_formats_mean_the_same(cluster: &Cluster) {
    are_true(cluster, facts::QUANTITIES).await;
}

async fn expressions_on_times_and_optionals_mean_the_same(cluster: &Cluster) {
    are_true(cluster, facts::TIMES).await;
}

async fn a_failure_is_told_in_the_words_and_at_the_place_of_the_rule(cluster: &Cluster) {
    let long = "self.a > 0 && self.b > 0";
    let kind = Kind::new(
        cluster,
        json!({
            "type": "object",
            "properties": {
                "a": {"type": "integer"}, "b": {"type": "integer"}, "on": {"type": "string", "maxLength": 20},
                "nest": {"type": "object", "properties": {"x-y": {"type": "string"}}},
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
                "scalar": {"type": "integer", "x-kubernetes-validations": [
                    {"rule": "self != 1", "message": "must not be one"},
                    {"rule": "self != 2", "reason": "FieldValueDuplicate", "message": "twice"},
                ]},
            },
            "required": ["a", "b", "on"],
            "x-kubernetes-validations": [
                {"rule": format!("self.on != 'plain' || ({long})")},
                {"rule": "self.on != 'message'", "message": "  not this  "},
                {"rule": "self.on != 'expression'", "messageExpression": "'this is ' + self.on", "message": "unused"},
                {"rule": "self.on != 'invalid'", "reason": "FieldValueInvalid", "message": "m"},
                {"rule": "self.on != 'required'", "reason": "FieldValueRequired", "message": "m"},
                {"rule": "self.on != 'forbidden'", "reason": "FieldValueForbidden", "message": "m"},
                {"rule": "self.on != 'duplicate'", "reason": "FieldValueDuplicate", "message": "m"},
                {"rule": "self.on != 'path'", "fieldPath": ".a", "message": "m"},
                {"rule": "self.on != 'nested'", "fieldPath": ".nest['x-y']", "message": "m"},
                {"rule": "self.on != 'key'", "fieldPath": ".map['k.v']", "message": "m"},
                {"rule": "self.on != 'required path'", "fieldPath": ".nest.x-y", "reason": "FieldValueRequired", "message": "m"},
            ],
        }),
    )
    .await;
    let plain = format!("Invalid value: failed rule: self.on != 'plain' || ({long})");
    for (on, field, reason, message) in [
        ("plain", "spec", "FieldValueInvalid", plain.as_str()),
        ("message", "spec", "FieldValueInvalid", "Invalid value: not this"),
        ("expression", "spec", "FieldValueInvalid", "Invalid value: this is expression"),
        ("invalid", "spec", "FieldValueInvalid", "Invalid value: m"),
        ("required", "spec", "FieldValueRequired", "Required value: m"),
        ("forbidden", "spec", "FieldValueForbidden", "Forbidden: m"),
        ("duplicate", "spec", "FieldValueDuplicate", "Duplicate value"),
        ("path", "spec.a", "FieldValueInvalid", "Invalid value: m"),
        ("nested", "spec.nest.x-y", "FieldValueInvalid", "Invalid value: m"),
        ("key", "spec.map[k.v]", "FieldValueInvalid", "Invalid value: m"),
        ("required path", "spec.nest.x-y", "FieldValueRequired", "Required value: m"),
    ] {
        let found = kind.causes(json!({"on": on, "a": 0, "b": 1})).await;
        assert_eq!(found, [(field.to_owned(), reason.to_owned(), message.to_owned())], "{on}");
    }
    for (scalar, reason, message) in [
        (1, "FieldValueInvalid", "Invalid value: 1: must not be one"),
        (2, "FieldValueDuplicate", "Duplicate value: 2"),
    ] {
        let found = kind.causes(json!({"on": "", "a": 1, "b": 1, "scalar": scalar})).await;
        assert_eq!(found, [("spec.scalar".to_owned(), reason.to_owned(), message.to_owned())]);
    }
}

async fn a_message_that_cannot_be_made_falls_back(cluster: &Cluster) {
    let field = |expression: &str| {
        json!({"type": "string", "maxLength": 3000, "x-kubernetes-validations": [
            {"rule": "self == 'good'", "messageExpression": expression, "message": "the other words"},
        ]})
    };
    let kind = Kind::new(
        cluster,
        json!({"type": "object", "properties": {
            "made": field("'  no ' + self + ' '"),
            "fails": field("string(1 / 0)"),
            "empty": field("'  '"),
            "broken": field("'a\\nb'"),
            "long": field("self + self + self"),
            "bare": {"type": "string", "x-kubernetes-validations": [{"rule": "self == 'good'", "messageExpression": "''"}]},
        }}),
    )
    .await;
    for (name, value, words) in [
        ("made", "bad".to_owned(), "no bad"),
        ("fails", "bad".to_owned(), "the other words"),
        ("empty", "bad".to_owned(), "the other words"),
        ("broken", "bad".to_owned(), "the other words"),
        ("long", "b".repeat(2000), "the other words"),
        ("bare", "bad".to_owned(), "failed rule: self == 'good'"),
    ] {
        let found = kind.causes(json!({name: value})).await;
        let [(field, reason, message)] = found.as_slice() else { panic!("{name}: {found:?}") };
        assert_eq!((field.as_str(), reason.as_str()), (format!("spec.{name}").as_str(), "FieldValueInvalid"));
        assert!(message.ends_with(&format!(": {words}")), "{name}: {message}");
    }
}

async fn a_rule_without_a_value_is_an_error_of_its_own(cluster: &Cluster) {
    let rules = |rule: &str| json!([{"rule": rule}, {"rule": "true", "message": "unused"}]);
    let kind = Kind::new(
        cluster,
        json!({"type": "object", "properties": {
            "key": {"type": "object", "properties": {"a": {"type": "integer"}}, "x-kubernetes-validations": rules("self.a > 0")},
            "index": {"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": rules("self[5] > 0")},
            "zero": {"type": "integer", "x-kubernetes-validations": rules("1 / self > 0")},
            "modulus": {"type": "integer", "x-kubernetes-validations": rules("1 % self > 0")},
            "overload": {"x-kubernetes-int-or-string": true, "x-kubernetes-validations": rules("self > 5")},
            "named": {"type": "integer", "x-kubernetes-validations": [{"rule": "1 / self > 0", "message": "words"}]},
            "overflow": {"type": "integer", "x-kubernetes-validations": rules("self + 9223372036854775807 > 0")},
        }}),
    )
    .await;
    for (name, value, message) in [
        ("key", json!({}), "Invalid value: \"object\": no such key: a evaluating rule: self.a > 0"),
        (
            "index",
            json!([1]),
            "Invalid value: \"array\": index out of bounds: 5 evaluating rule: self[5] > 0",
        ),
        ("zero", json!(0), "Invalid value: \"integer\": division by zero evaluating rule: 1 / self > 0"),
        ("modulus", json!(0), "Invalid value: \"integer\": modulus by zero evaluating rule: 1 % self > 0"),
        (
            "overload",
            json!("x"),
            "Invalid value: \"\": 'no such overload': call arguments did not match a supported operator, function or macro signature for rule: self > 5",
        ),
        ("named", json!(0), "Invalid value: \"integer\": division by zero evaluating rule: words"),
        (
            "overflow",
            json!(5),
            "Invalid value: \"integer\": integer overflow evaluating rule: self + 9223372036854775807 > 0",
        ),
    ] {
        let found = kind.causes(json!({name: value})).await;
        assert_eq!(found, [(format!("spec.{name}"), "FieldValueInvalid".to_owned(), message.to_owned())]);
    }
}

async fn failures_are_at_the_path_of_their_value(cluster: &Cluster) {
    let no = |schema: Value| {
        let mut schema = schema;
        schema["x-kubernetes-validations"] = json!([{"rule": "false", "message": "no"}]);
        schema
    };
    let text = || json!({"type": "string"});
    let kind = Kind::new(
        cluster,
        json!({"type": "object", "properties": {
            "list": {"type": "array", "items": no(text())},
            "map": {"type": "object", "additionalProperties": no(text())},
            "deep": {"type": "array", "items": {"type": "object", "properties": {
                "map": {"type": "object", "additionalProperties": {"type": "array", "items": no(text())}},
            }}},
            "null": no(json!({"type": "string", "nullable": true})),
            "a.b": no(text()),
        }}),
    )
    .await;
    for (spec, fields) in [
        (json!({"list": ["a", "b"]}), vec!["spec.list[0]", "spec.list[1]"]),
        (json!({"map": {"x.y/z": "v"}}), vec!["spec.map[x.y/z]"]),
        (json!({"deep": [{}, {"map": {"k": ["v"]}}]}), vec!["spec.deep[1].map[k][0]"]),
        (json!({"null": null}), vec![]),
        (json!({"a.b": "v"}), vec!["spec.a.b"]),
    ] {
        let found: Vec<String> =
            kind.causes(spec.clone()).await.into_iter().map(|(field, ..)| field).collect();
        assert_eq!(found, fields, "{spec}");
    }
}

async fn rules_wait_until_the_object_fits_its_schema(cluster: &Cluster) {
    const SKIPPED: &str = "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
    let kind = Kind::new(
        cluster,
        json!({
            "type": "object",
            "properties": {
                "kind": {"type": "string", "enum": ["a", "b"]},
                "short": {"type": "string", "maxLength": 2},
                "few": {"type": "array", "items": {"type": "integer"}, "maxItems": 1},
                "number": {"type": "integer", "maximum": 5},
                "pattern": {"type": "string", "pattern": "^a"},
            },
            "required": ["number"],
            "x-kubernetes-validations": [{"rule": "self.number > 0", "message": "not positive"}],
        }),
    )
    .await;
    for (spec, waits) in [
        (json!({"number": 0, "kind": "c"}), true),
        (json!({"number": 0, "short": "abc"}), true),
        (json!({"number": 0, "few": [1, 2]}), true),
        (json!({}), true),
        (json!({"number": "0"}), true),
        (json!({"number": 0, "pattern": "b"}), false),
        (json!({"number": 0}), false),
    ] {
        let found = kind.causes(spec.clone()).await;
        let skipped = found.iter().any(|(field, _, message)| field == "<nil>" && message == SKIPPED);
        let judged =
            found.iter().any(|(field, _, message)| field == "spec" && message.ends_with("not positive"));
        assert_eq!((skipped, judged), (waits, !waits), "{spec}: {found:?}");
    }
}

async fn a_rule_at_the_root_sees_names_and_nothing_else_of_metadata(cluster: &Cluster) {
    let with_rules = |rules: Value| {
        move |group: &str| {
            let mut definition =
                definition(group, json!({"type": "object", "properties": {"n": {"type": "integer"}}}));
            definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] =
                rules;
            definition
        }
    };
    let kind = Kind::of(
        cluster,
        with_rules(json!([
            {"rule": "self.metadata.name.startsWith('t')", "message": "name"},
            {"rule": "self.kind == 'Ruled' && self.apiVersion.endsWith('/v1')", "message": "kind"},
            {"rule": "!has(self.spec) || !has(self.spec.n) || self.spec.n > 0", "message": "n", "fieldPath": ".spec.n"},
        ])),
    )
    .await;
    assert_eq!(kind.causes(json!({"n": 1})).await, []);
    let found = kind.causes(json!({"n": 0})).await;
    assert_eq!(found, [("spec.n".to_owned(), "FieldValueInvalid".to_owned(), "Invalid value: n".to_owned())]);
    let refused =
        cluster.post(&kind.path, &kind.object("other", json!({}))).await.expect_failure(422, "Invalid");
    refused.assert_cause("FieldValueInvalid", "<nil>").assert_message("name");
    let group = format!("{}.example.com", cluster.namespace().await);
    let bad = with_rules(json!([{"rule": "self.metadata.labels.size() == 0"}]))(&group);
    cluster
        .post(DEFINITIONS, &bad)
        .await
        .expect_failure(422, "Invalid")
        .assert_message("undefined field 'labels'");
}

async fn transition_rules_compare_with_what_was(cluster: &Cluster) {
    let keep = |schema: Value| {
        let mut schema = schema;
        schema["x-kubernetes-validations"] = json!([{"rule": "self == oldSelf", "message": "fixed"}]);
        schema
    };
    let int = || json!({"type": "integer"});
    let kind = Kind::new(
        cluster,
        json!({"type": "object", "properties": {
            "field": keep(int()),
            "grows": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "fixed"}]},
            "map": {"type": "object", "additionalProperties": keep(int())},
            "keyed": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "value": keep(int())}},
            },
            "list": keep(json!({"type": "array", "items": int()})),
        }}),
    )
    .await;
    let first = json!({"field": 1, "grows": 1, "map": {"a": 1}, "keyed": [{"name": "x", "value": 1}], "list": [1, 2]});
    cluster.post(&kind.path, &kind.object("t", first)).await.expect(201);
    for (what, patch, fields) in [
        ("a field", json!({"field": 2}), vec!["spec.field"]),
        ("more is fine", json!({"grows": 2}), vec![]),
        ("less is not", json!({"grows": 0}), vec!["spec.grows"]),
        ("a field that goes has no rule", json!({"field": null}), vec![]),
        ("an entry", json!({"map": {"a": 2}}), vec!["spec.map[a]"]),
        ("a new entry", json!({"map": {"b": 2}}), vec![]),
        (
            "an item",
            json!({"keyed": [{"name": "y", "value": 5}, {"name": "x", "value": 2}]}),
            vec!["spec.keyed[1].value"],
        ),
        ("new items", json!({"keyed": [{"name": "y", "value": 2}, {"name": "x", "value": 1}]}), vec![]),
        ("a whole list", json!({"list": [2, 1]}), vec!["spec.list"]),
    ] {
        let answer = cluster.merge(format!("{}/t?dryRun=All", kind.path), &json!({"spec": patch})).await;
        let found: Vec<String> =
            causes(&answer.json(), answer.status).into_iter().map(|(field, ..)| field).collect();
        assert_eq!(found, fields, "{what}: {}", answer.text());
    }
}

async fn an_optional_past_is_there_on_create_as_well(cluster: &Cluster) {
    let kind = Kind::new(
        cluster,
        json!({"type": "object", "properties": {
            "born": {"type": "integer", "x-kubernetes-validations": [
                {"rule": "oldSelf.hasValue() || self == 1", "optionalOldSelf": true, "message": "starts with one"},
                {"rule": "!oldSelf.hasValue() || self <= oldSelf.value() + 1", "optionalOldSelf": true, "message": "one at a time"},
            ]},
            "once": {"type": "string", "x-kubernetes-validations": [
                {"rule": "oldSelf.orValue('none') != self", "optionalOldSelf": true, "message": "must change"},
            ]},
            "must": {"type": "boolean", "x-kubernetes-validations": [
                {"rule": "oldSelf.optMap(o, o || self).orValue(self)", "optionalOldSelf": true, "message": "true"},
            ]},
        }}),
    )
    .await;
    assert_eq!(kind.causes(json!({"born": 2})).await.len(), 1);
    assert_eq!(kind.causes(json!({"once": "none"})).await.len(), 1);
    assert_eq!(kind.causes(json!({"must": false})).await.len(), 1);
    let first = json!({"born": 1, "once": "a", "must": true});
    cluster.post(&kind.path, &kind.object("t", first)).await.expect(201);
    for (patch, fields) in [
        (json!({"born": 2, "once": "b"}), vec![]),
        (json!({"born": 3, "once": "b"}), vec!["spec.born"]),
        (json!({"born": 2}), vec!["spec.once"]),
        (json!({"once": "b", "must": false}), vec![]),
    ] {
        let answer = cluster.merge(format!("{}/t?dryRun=All", kind.path), &json!({"spec": patch})).await;
        let found: Vec<String> =
            causes(&answer.json(), answer.status).into_iter().map(|(field, ..)| field).collect();
        assert_eq!(found, fields, "{patch}");
    }
}

async fn a_status_update_is_held_to_the_rules(cluster: &Cluster) {
    let kind = Kind::of(cluster, |group| {
        let mut definition =
            definition(group, json!({"type": "object", "properties": {"most": {"type": "integer"}}}));
        let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        schema["properties"]["status"] = json!({"type": "object", "properties": {
            "count": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "never less"}]},
        }});
        schema["x-kubernetes-validations"] =
            json!([{"rule": "!has(self.status) || !has(self.status.count) || self.status.count <= self.spec.most", "message": "too many"}]);
        definition
    })
    .await;
    cluster.post(&kind.path, &kind.object("t", json!({"most": 5}))).await.expect(201);
    let status = |count: i64| json!({"status": {"count": count}});
    let path = format!("{}/t/status", kind.path);
    cluster.merge(&path, &status(3)).await.expect(200);
    cluster
        .merge(&path, &status(6))
        .await
        .expect_failure(422, "Invalid")
        .assert_cause("FieldValueInvalid", "<nil>")
        .assert_message("too many");
    let refused = cluster.merge(&path, &status(2)).await.expect_failure(422, "Invalid");
    refused.assert_cause("FieldValueInvalid", "status.count").assert_message("never less");
    cluster.merge(&path, &status(5)).await.expect(200);
}
