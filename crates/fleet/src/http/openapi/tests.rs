use std::collections::BTreeSet;

use rstest::rstest;
use serde_json::{Map, Value, json};

use super::*;
use crate::http::routes::{Place, Scope};
use crate::http::{body, labels};
use crate::kinds::KindConfig;
use crate::vocabulary::Vocabulary;

fn kinds(declared: Value) -> Kinds {
    let declared: Vec<KindConfig> = serde_json::from_value(declared).expect("kinds");
    Kinds::new(declared, Vocabulary::default()).expect("valid kinds")
}

/// Kinds of every sort, some with names that collide with other schemas.
fn all_sorts() -> Kinds {
    kinds(json!([
        { "kind": "Channel", "plural": "channels", "name_min_len": 2, "name_max_len": 7, "spec_schema": {
            "type": "object",
            "properties": { "versions": { "$ref": "#/$defs/Versions" }, "next": { "$ref": "#" } },
            "$defs": { "Versions": { "type": "array", "items": { "type": "string" } } },
        } },
        { "kind": "ChannelCreate", "plural": "channelcreates", "parent_kind": "Channel" },
        { "kind": "Problem", "plural": "problems" },
        { "kind": "Resource", "plural": "things" },
    ]))
}

/// Calls `check` for every value of a document, with its path.
fn walk<'v>(value: &'v Value, path: String, check: &mut impl FnMut(&str, &'v Value)) {
    check(&path, value);
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, member)| walk(member, format!("{path}/{name}"), check));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| walk(item, format!("{path}/{index}"), check));
        }
        _ => {}
    }
}

fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().expect("paths");
    let each =
        |(path, item): (&String, &'_ Value)| (path.clone(), item.as_object().expect("methods").clone());
    let named: Vec<(String, Map<String, Value>)> = paths.iter().map(each).collect();
    let methods =
        named.iter().flat_map(|(path, item)| item.keys().map(move |method| (path.clone(), method.clone())));
    methods.map(|(path, method)| (format!("{method} {path}"), &document["paths"][&path][&method])).collect()
}

#[test]
fn every_route_of_the_table_is_in_it_and_nothing_else_is() {
    let kinds = all_sorts();
    let document = document(&kinds);
    let mut wanted: BTreeSet<String> =
        [METADATA_PATH, DOCUMENT_PATH, PAGE_PATH].map(|path| format!("get {path}")).into();
    for scope in Scope::all(&kinds) {
        for place in Place::ALL {
            let path = format!("{BASE_PATH}{}", scope.template(place));
            let methods = place.operations().iter().map(|operation| operation.method());
            wanted.extend(methods.map(|method| format!("{} {path}", method.as_str().to_ascii_lowercase())));
        }
    }
    let found: BTreeSet<String> = operations(&document).into_iter().map(|(name, _)| name).collect();
    assert_eq!(found, wanted);
}

#[test]
fn every_operation_has_an_id_of_its_own_and_declares_what_it_answers() {
    let document = document(&all_sorts());
    let mut ids = BTreeSet::new();
    for (name, operation) in operations(&document) {
        assert!(ids.insert(operation["operationId"].as_str().expect("an id")), "{name}");
        assert!(!operation["summary"].as_str().expect("a summary").is_empty(), "{name}");
        let responses = operation["responses"].as_object().expect("responses");
        let statuses: BTreeSet<&str> = responses.keys().map(String::as_str).collect();
        if operation["tags"] == json!(["About"]) {
            continue;
        }
        assert!(
            statuses.is_superset(&["400", "401", "403", "500", "503", "504"].into()),
            "{name}: {statuses:?}"
        );
        assert_eq!(
            statuses.is_superset(&["413", "415"].into()),
            !operation["requestBody"].is_null(),
            "{name}"
        );
        if name.contains("{") {
            assert!(statuses.contains("404"), "{name}: {statuses:?}");
        }
        for (status, response) in responses {
            assert!(response["headers"]["X-Request-ID"].is_object(), "{name} {status}");
            if status.starts_with(['4', '5']) {
                assert!(response["content"]["application/problem+json"].is_object(), "{name} {status}");
            }
        }
    }
}

#[test]
fn every_parameter_of_a_path_is_described() {
    for (name, operation) in operations(&document(&all_sorts())) {
        let in_path = name.matches('{').count();
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let described = parameters.filter(|parameter| parameter["in"] == json!("path")).count();
        assert_eq!(described, in_path, "{name}");
    }
}

#[test]
fn every_object_but_a_report_is_closed_or_a_map() {
    let document = document(&kinds(json!([])));
    walk(&document["components"]["schemas"], String::new(), &mut |path, value| {
        let types = &value["type"];
        let is_object =
            types == "object" || types.as_array().is_some_and(|types| types.contains(&json!("object")));
        if !is_object {
            return;
        }
        let closed = value["additionalProperties"] == json!(false);
        // Unknown members of a report are ignored.
        let is_report = path.contains("Report") && value["additionalProperties"] == json!(true);
        let is_map = value.get("properties").is_none() && value.get("additionalProperties").is_some();
        // In an allOf with another schema, it only requires an object.
        let is_remark = value.as_object().is_some_and(|members| members.len() == 1);
        assert!(closed || is_report || is_map || is_remark, "{path}: {value}");
    });
}

#[test]
fn every_reference_leads_somewhere() {
    let document = document(&all_sorts());
    let mut references = 0;
    walk(&document, String::new(), &mut |path, value| {
        if let Some(target) = value.get("$ref").and_then(Value::as_str) {
            let pointer = target.strip_prefix('#').expect("references are to the document itself");
            assert!(document.pointer(pointer).is_some(), "{path} refers to {target}");
            references += 1;
        }
    });
    assert!(references > 100);
}

#[test]
fn every_link_leads_to_an_operation_and_fills_its_path() {
    let document = document(&all_sorts());
    let operations = operations(&document);
    let mut links = 0;
    for (name, operation) in &operations {
        let Some(found) = operation.pointer("/responses/201/links").and_then(Value::as_object) else {
            continue;
        };
        for link in found.values() {
            let target = operations.iter().find(|(_, target)| target["operationId"] == link["operationId"]);
            let (path, _) = target.unwrap_or_else(|| panic!("{name}: {link}"));
            assert_eq!(path.matches('{').count(), link["parameters"].as_object().expect("parameters").len());
            links += 1;
        }
    }
    assert!(links > 20);
}

#[rstest]
#[case::what_the_server_sets_may_stay(json!({"kind": "Channel", "name": "ab", "spec": {}, "id": 1, "status": null}))]
#[case::null_labels(json!({"kind": "Channel", "name": "ab", "spec": {}, "labels": null}))]
#[case::labels(json!({"kind": "Channel", "name": "ab", "spec": {}, "labels": {"a.b/c": "d", "Bad-": "x"}}))]
#[case::a_label_with_a_number(json!({"kind": "Channel", "name": "ab", "spec": {}, "labels": {"a": 1}}))]
#[case::too_short(json!({"kind": "Channel", "name": "a", "spec": {}}))]
#[case::too_long(json!({"kind": "Channel", "name": "abcdefgh", "spec": {}}))]
#[case::a_capital(json!({"kind": "Channel", "name": "Abc", "spec": {}}))]
#[case::a_dash_at_the_end(json!({"kind": "Channel", "name": "abc-", "spec": {}}))]
#[case::another_kind(json!({"kind": "Problem", "name": "abc", "spec": {}}))]
#[case::no_spec(json!({"kind": "Channel", "name": "abc"}))]
#[case::a_null_spec(json!({"kind": "Channel", "name": "abc", "spec": null}))]
#[case::a_spec_against_the_rules(json!({"kind": "Channel", "name": "abc", "spec": {"next": {"versions": [1]}}}))]
#[case::a_member_that_there_is_not(json!({"kind": "Channel", "name": "abc", "spec": {}, "extra": null}))]
fn what_the_schema_of_a_new_resource_allows_is_what_is_taken(#[case] body: Value) {
    let kinds = all_sorts();
    let taken = body::create(members(&body), kinds.get("Channel").expect("it is declared"));
    assert_eq!(allows(&kinds, "post", "/channels", &body), taken.is_ok(), "{taken:?}");
}

#[rstest]
#[case::nothing(json!({}))]
#[case::only_null(json!({"spec": null, "labels": null}))]
#[case::a_spec(json!({"spec": {}, "labels": null}))]
#[case::labels(json!({"labels": {}}))]
#[case::a_list(json!({"spec": []}))]
#[case::a_null_that_there_is_not(json!({"spec": {}, "name": null}))]
fn what_the_schema_of_a_change_allows_is_what_is_taken(#[case] body: Value) {
    let kinds = all_sorts();
    let taken = body::patch(members(&body), kinds.get("Channel").expect("it is declared"));
    assert_eq!(allows(&kinds, "patch", "/channels/{id}", &body), taken.is_ok(), "{taken:?}");
}

#[rstest]
#[case::a_reason(json!({"reason": "it is gone"}))]
#[case::blank(json!({"reason": " \t\u{a0}\u{2003}\u{85}"}))]
#[case::no_space_to_us(json!({"reason": "\u{feff}"}))]
#[case::as_long_as_it_may_be(json!({"reason": "ä".repeat(body::LONGEST_REASON)}))]
#[case::too_long(json!({"reason": "ä".repeat(body::LONGEST_REASON + 1)}))]
#[case::null(json!({"reason": null}))]
fn what_the_schema_of_a_reason_allows_is_what_is_taken(#[case] body: Value) {
    let taken = body::force_delete(members(&body));
    assert_eq!(
        allows(&all_sorts(), "post", "/channels/{id}/force-delete", &body),
        taken.is_ok(),
        "{taken:?}"
    );
}

#[rstest]
#[case::the_least(json!({"adapter": "a", "observed_generation": 1, "conditions": []}))]
#[case::a_float_that_is_whole(json!({"adapter": "a", "observed_generation": 1.0, "conditions": [], "metadata": {"attempt": 2.0}}))]
#[case::half(json!({"adapter": "a", "observed_generation": 1.5, "conditions": []}))]
#[case::generation_zero(json!({"adapter": "a", "observed_generation": 0, "conditions": []}))]
#[case::beyond(json!({"adapter": "a", "observed_generation": body::LARGEST_COUNT + 1, "conditions": []}))]
#[case::nulls(json!({"adapter": "a", "observed_generation": 1, "conditions": [], "observed_time": null, "data": null, "metadata": null}))]
#[case::attempts_below_zero(json!({"adapter": "a", "observed_generation": 1, "conditions": [], "metadata": {"attempt": -1}}))]
#[case::other_metadata(json!({"adapter": "a", "observed_generation": 1, "conditions": [], "metadata": {"host": "b"}}))]
#[case::a_long_name(json!({"adapter": "ä".repeat(body::LONGEST_NAME), "observed_generation": 1, "conditions": []}))]
#[case::too_long_a_name(json!({"adapter": "a".repeat(body::LONGEST_NAME + 1), "observed_generation": 1, "conditions": []}))]
#[case::maybe(json!({"adapter": "a", "observed_generation": 1, "conditions": [{"type": "A", "status": "Maybe"}]}))]
#[case::null_reason(json!({"adapter": "a", "observed_generation": 1, "conditions": [{"type": "A", "status": "True", "reason": null, "message": "b"}]}))]
fn schema_of_a_report_allows_exactly_the_accepted_bodies(#[case] body: Value) {
    let parsed = body::report(members(&body), "2026-05-01T00:00:00Z".parse().expect("a time"));
    assert_eq!(allows(&all_sorts(), "put", "/channels/{id}/statuses", &body), parsed.is_ok(), "{parsed:?}");
}

fn members(body: &Value) -> Map<String, Value> {
    body.as_object().expect("an object").clone()
}

/// Whether the document allows a body.
fn allows(kinds: &Kinds, method: &str, path: &str, body: &Value) -> bool {
    let mut document = document(kinds);
    let schema = &document["paths"][format!("{BASE_PATH}{path}")][method]["requestBody"]["content"]["application/json"]
        ["schema"];
    document["$ref"] = schema["$ref"].clone();
    jsonschema::validator_for(&document).expect("a schema").is_valid(body)
}

#[test]
fn the_page_shows_every_operation_and_schema_and_runs_nothing() {
    let document = document(&all_sorts());
    let page = page::render(&document);
    for (name, operation) in operations(&document) {
        let id = operation["operationId"].as_str().expect("an id");
        assert!(page.contains(&format!("<details id=\"{id}\">")), "{name}");
    }
    for schema in document["components"]["schemas"].as_object().expect("schemas").keys() {
        assert!(page.contains(&format!("<details id=\"schema-{schema}\">")), "{schema}");
    }
    for forbidden in ["<script", "http://", "https://", "javascript:", " onclick"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert!(!PAGE_POLICY.contains("script-src") && PAGE_POLICY.contains("default-src 'none'"));
}

#[test]
fn labels_are_described_by_their_syntax() {
    let document = document(&kinds(json!([])));
    let shown = &document["components"]["schemas"]["Cluster"]["properties"]["labels"];
    assert_eq!(shown["propertyNames"]["pattern"], json!(labels::key_pattern()));
    assert_eq!(shown["additionalProperties"]["pattern"], json!(labels::value_pattern()));
}
