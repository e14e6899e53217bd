//! What an update is not blamed for: what was wrong before, and is as it was.

use bellwether_testkit::Cluster;
use serde_json::{Value, json};

use super::{DEFINITIONS, Kind, causes};

/// A kind whose schema was loose when the object was made, and is not any more.
async fn tightened<'c>(cluster: &'c Cluster, loose: Value, tight: Value, spec: Value) -> Kind<'c> {
    let kind = Kind::new(cluster, loose).await;
    cluster.post(&kind.path, &kind.object("t", spec)).await.expect(201);
    let path = format!("{DEFINITIONS}/ruleds.{}", kind.group);
    // The server itself writes to a definition that is new.
    bellwether_testkit::eventually("the definition is changed", || async {
        let mut definition = cluster.get(&path).await.expect(200);
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = tight.clone();
        let answer = cluster.put(&path, &definition).await;
        assert!(matches!(answer.status, 200 | 409), "{}", answer.text());
        (answer.status == 200).then_some(())
    })
    .await;
    // A new object is held to what is new as soon as that is in force.
    bellwether_testkit::eventually("the new schema is in force", || async {
        let probe = kind.object("probe", json!({"probe": "x"}));
        let answer = cluster.post(format!("{}?dryRun=All", kind.path), &probe).await;
        (answer.status == 422).then_some(())
    })
    .await;
    kind
}

/// The fields that a change is refused for.
async fn blamed(kind: &Kind<'_>, patch: &Value) -> Vec<String> {
    let answer = kind.cluster.merge(format!("{}/t?dryRun=All", kind.path), &json!({"spec": patch})).await;
    causes(&answer.json(), answer.status).into_iter().map(|(field, ..)| field).collect()
}

async fn each(kind: &Kind<'_>, cases: Vec<(&str, Value, Vec<&str>)>) {
    for (what, patch, fields) in cases {
        assert_eq!(blamed(kind, &patch).await, fields, "{what}");
    }
}

fn fields(properties: Value) -> Value {
    let mut properties = properties;
    properties["probe"] = json!({"type": "string", "maxLength": 0});
    json!({"type": "object", "properties": properties})
}

fn loose(properties: Value) -> Value {
    let mut properties = properties;
    properties["probe"] = json!({"type": "string"});
    json!({"type": "object", "properties": properties})
}

pub(super) async fn an_update_is_not_blamed_for_what_it_left_alone(cluster: &Cluster) {
    let text = || json!({"type": "string"});
    let no = |schema: Value| {
        let mut schema = schema;
        schema["x-kubernetes-validations"] = json!([{"rule": "self == 'good'"}]);
        schema
    };
    let kind = tightened(
        cluster,
        loose(json!({"long": text(), "enum": text(), "pattern": text(), "number": {"type": "integer"}, "ruled": text(), "free": text(),
            "object": {"type": "object", "properties": {"a": text(), "b": text()}}})),
        fields(json!({
            "long": {"type": "string", "maxLength": 2},
            "enum": {"type": "string", "enum": ["a"]},
            "pattern": {"type": "string", "pattern": "^a$"},
            "number": {"type": "integer", "maximum": 5},
            "ruled": no(text()),
            "free": text(),
            "object": {"type": "object", "properties": {"a": text(), "b": text(), "c": text()}, "required": ["c"],
                "x-kubernetes-validations": [{"rule": "self.a == 'good'"}]},
        })),
        json!({"long": "abc", "enum": "b", "pattern": "b", "number": 7, "ruled": "bad", "free": "x", "object": {"a": "bad", "b": "x"}}),
    )
    .await;
    each(
        &kind,
        vec![
            ("something else", json!({"free": "y"}), vec![]),
            ("the length", json!({"long": "abcd"}), vec!["spec.long", "<nil>"]),
            ("the value", json!({"enum": "c"}), vec!["spec.enum", "<nil>"]),
            ("the pattern", json!({"pattern": "c"}), vec!["spec.pattern"]),
            ("the number", json!({"number": 8}), vec!["spec.number"]),
            ("the rule", json!({"ruled": "worse"}), vec!["spec.ruled"]),
            ("made good", json!({"ruled": "good", "long": "ab"}), vec![]),
            (
                "an object with a change inside is judged whole",
                json!({"object": {"b": "y"}}),
                vec!["spec.object.c", "<nil>"],
            ),
            ("also by its rules", json!({"object": {"b": "y", "c": "z"}}), vec!["spec.object"]),
        ],
    )
    .await;
}

pub(super) async fn items_of_plain_lists_are_blamed_with_their_list(cluster: &Cluster) {
    let list =
        |items: Value, kind: &str| json!({"type": "array", "items": items, "x-kubernetes-list-type": kind});
    let text = || json!({"type": "string"});
    let short = || json!({"type": "string", "maxLength": 2});
    let ruled = || json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == 'ok'"}]});
    let kind = tightened(
        cluster,
        loose(json!({"atomic": list(text(), "atomic"), "set": list(text(), "set"), "ruled": list(text(), "set"), "free": text()})),
        fields(json!({"atomic": list(short(), "atomic"), "set": list(short(), "set"), "ruled": list(ruled(), "set"), "free": text()})),
        json!({"atomic": ["abc"], "set": ["abc"], "ruled": ["bad"], "free": "x"}),
    )
    .await;
    each(
        &kind,
        vec![
            ("lists that stay", json!({"free": "y"}), vec![]),
            ("a list that grows", json!({"atomic": ["abc", "a"]}), vec!["spec.atomic[0]", "<nil>"]),
            ("a set that grows", json!({"set": ["abc", "a"]}), vec!["spec.set[0]", "<nil>"]),
            ("a set with rules that grows", json!({"ruled": ["bad", "ok"]}), vec!["spec.ruled[0]"]),
            ("sets that stay, with another change", json!({"ruled": ["bad"], "free": "z"}), vec![]),
        ],
    )
    .await;
}

pub(super) async fn keyed_items_and_entries_are_judged_one_by_one(cluster: &Cluster) {
    let text = || json!({"type": "string"});
    let ruled = || json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == 'ok'"}]});
    let short = || json!({"type": "string", "maxLength": 2});
    let keyed = |value: Value| {
        json!({
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "value": value, "note": {"type": "string"}}},
        })
    };
    let map = |value: Value| json!({"type": "object", "additionalProperties": value});
    let kind = tightened(
        cluster,
        loose(json!({"ruled": keyed(text()), "short": keyed(text()), "map": map(text()), "long": map(text())})),
        fields(json!({"ruled": keyed(ruled()), "short": keyed(short()), "map": map(ruled()), "long": map(short())})),
        json!({
            "ruled": [{"name": "a", "value": "bad"}], "short": [{"name": "a", "value": "long"}],
            "map": {"a": "bad"}, "long": {"a": "long"},
        }),
    )
    .await;
    each(
        &kind,
        vec![
            (
                "an item beside",
                json!({"ruled": [{"name": "b", "value": "ok"}, {"name": "a", "value": "bad"}]}),
                vec![],
            ),
            (
                "another field of the item",
                json!({"ruled": [{"name": "a", "value": "bad", "note": "x"}]}),
                vec![],
            ),
            (
                "a wrong item beside",
                json!({"ruled": [{"name": "a", "value": "bad"}, {"name": "b", "value": "bad"}]}),
                vec!["spec.ruled[1].value"],
            ),
            (
                "the item itself",
                json!({"ruled": [{"name": "a", "value": "worse"}]}),
                vec!["spec.ruled[0].value"],
            ),
            (
                "an item beside one that is too long",
                json!({"short": [{"name": "b"}, {"name": "a", "value": "long"}]}),
                vec![],
            ),
            (
                "an item that is too long",
                json!({"short": [{"name": "a", "value": "longer"}]}),
                vec!["spec.short[0].value", "<nil>"],
            ),
            ("an entry beside", json!({"map": {"b": "ok"}}), vec![]),
            ("a wrong entry beside", json!({"map": {"b": "bad"}}), vec!["spec.map[b]"]),
            ("an entry beside one that is too long", json!({"long": {"b": "ok"}}), vec![]),
        ],
    )
    .await;
}

pub(super) async fn transition_rules_are_never_let_off(cluster: &Cluster) {
    let text = || json!({"type": "string"});
    let kind = tightened(
        cluster,
        loose(json!({"moves": text(), "free": text()})),
        fields(json!({
            "moves": {"type": "string", "x-kubernetes-validations": [{"rule": "self != oldSelf"}]},
            "free": text(),
        })),
        json!({"moves": "a", "free": "x"}),
    )
    .await;
    each(
        &kind,
        vec![
            ("what must change and did not", json!({"free": "y"}), vec!["spec.moves"]),
            ("what did", json!({"moves": "b"}), vec![]),
        ],
    )
    .await;
}

pub(super) async fn repeated_items_are_let_off_once_they_are_stored(cluster: &Cluster) {
    let list =
        |kind: &str| json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": kind});
    let text = || json!({"type": "string"});
    let kind = tightened(
        cluster,
        loose(json!({"list": list("atomic"), "other": list("atomic"), "free": text()})),
        fields(json!({"list": list("set"), "other": list("set"), "free": text()})),
        json!({"list": ["a", "a"], "free": "x"}),
    )
    .await;
    each(
        &kind,
        vec![
            ("left alone", json!({"free": "y"}), vec![]),
            ("while one is wrong, none is looked at", json!({"other": ["b", "b"]}), vec![]),
        ],
    )
    .await;
    kind.cluster.merge(format!("{}/t", kind.path), &json!({"spec": {"list": ["a"]}})).await.expect(200);
    each(&kind, vec![("once all are right, all are", json!({"other": ["b", "b"]}), vec!["spec.other[1]"])])
        .await;
}
