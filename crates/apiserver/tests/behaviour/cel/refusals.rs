//! Rules that a definition cannot have, and rules that cost much.

use bellwether_testkit::Cluster;
use serde_json::{Value, json};

use super::{DEFINITIONS, Kind, causes, definition};

/// The causes of a refusal: the end of the field's path, the reason and the message.
async fn refused(cluster: &Cluster, schema: Value) -> Vec<(String, String, String)> {
    let group = format!("{}.example.com", cluster.namespace().await);
    let answer = cluster.post(format!("{DEFINITIONS}?dryRun=All"), &definition(&group, schema)).await;
    causes(&answer.json(), answer.status)
        .into_iter()
        .map(|(field, reason, message)| {
            let end = field.split("properties[spec].").last().unwrap_or_default().to_owned();
            (end, reason, message)
        })
        .collect()
}

fn spec(rule: Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "n": {"type": "integer"}, "s": {"type": "string"}, "d": {"type": "number"},
            "list": {"type": "array", "items": {"type": "string"}},
            "object": {"type": "object", "properties": {"a": {"type": "string"}}},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
        "x-kubernetes-validations": [rule],
    })
}

pub(super) async fn the_fields_of_a_rule_are_checked(cluster: &Cluster) {
    for (rule, field, reason) in [
        (json!({"rule": ""}), "rule", "FieldValueRequired"),
        (json!({"rule": "  "}), "rule", "FieldValueRequired"),
        (json!({"rule": "true", "message": "  "}), "message", "FieldValueInvalid"),
        (json!({"rule": "true", "message": "a\nb"}), "message", "FieldValueInvalid"),
        (json!({"rule": "true &&\ntrue"}), "message", "FieldValueRequired"),
        (json!({"rule": "true", "messageExpression": "  "}), "messageExpression", "FieldValueRequired"),
        (json!({"rule": "true", "messageExpression": "1"}), "messageExpression", "FieldValueInvalid"),
        (json!({"rule": "true", "messageExpression": "nothing"}), "messageExpression", "FieldValueInvalid"),
        (json!({"rule": "true", "messageExpression": "'a' +"}), "messageExpression", "FieldValueInvalid"),
        (json!({"rule": "true", "reason": "Other"}), "reason", "FieldValueNotSupported"),
        (json!({"rule": "true", "reason": "FieldValueNotFound"}), "reason", "FieldValueNotSupported"),
        (json!({"rule": "true", "fieldPath": " "}), "fieldPath", "FieldValueInvalid"),
        (json!({"rule": "true", "fieldPath": ".nothing"}), "fieldPath", "FieldValueInvalid"),
        (json!({"rule": "true", "fieldPath": "n"}), "fieldPath", "FieldValueInvalid"),
        (json!({"rule": "true", "fieldPath": ".list[0]"}), "fieldPath", "FieldValueInvalid"),
        (json!({"rule": "true", "optionalOldSelf": true}), "optionalOldSelf", "FieldValueInvalid"),
        (json!({"rule": "true", "optionalOldSelf": false}), "optionalOldSelf", "FieldValueInvalid"),
    ] {
        let found = refused(cluster, spec(rule.clone())).await;
        let expected = format!("x-kubernetes-validations[0].{field}");
        let matching = found.iter().all(|(end, why, _)| *end == expected && why == reason);
        assert!(matching && !found.is_empty(), "{rule}: {found:#?}");
    }
    for rule in [
        json!({"rule": "true"}),
        json!({"rule": "true &&\ntrue", "message": "words"}),
        json!({"rule": "self.n > 0", "messageExpression": "'s is ' + self.s"}),
        json!({"rule": "true", "fieldPath": ".object.a", "reason": "FieldValueForbidden"}),
        json!({"rule": "self == oldSelf", "optionalOldSelf": false}),
    ] {
        assert_eq!(refused(cluster, spec(rule.clone())).await, [], "{rule}");
    }
}

pub(super) async fn expressions_that_cannot_be_evaluated_are_refused(cluster: &Cluster) {
    for (rule, words) in [
        ("self.n >", "Syntax error"),
        ("self.n ==== 1", "Syntax error"),
        ("nothing > 0", "undeclared reference to 'nothing'"),
        ("self.nothing > 0", "undefined field 'nothing'"),
        ("self.object.b == ''", "undefined field 'b'"),
        ("self.open.x == 1", "undefined field 'x'"),
        ("self.n.x == 1", "does not support field selection"),
        ("has(self.nothing)", "undefined field 'nothing'"),
        ("self.s.nothing()", "undeclared reference to 'nothing'"),
        ("nothing(self.s)", "undeclared reference to 'nothing'"),
        ("self.n > 'a'", "found no matching overload for '_>_'"),
        ("self.n == 'a'", "found no matching overload for '_==_'"),
        ("self.n == 1.0", "found no matching overload for '_==_'"),
        ("self.n + 1.0 > 1.0", "found no matching overload for '_+_'"),
        ("self.s == null", "found no matching overload for '_==_'"),
        ("self.s && true", "expected type 'bool' but found 'string'"),
        ("!self.s", "found no matching overload for '!_'"),
        ("self.n in ['a']", "found no matching overload for '@in'"),
        ("self.s.startsWith(1)", "found no matching overload for 'startsWith'"),
        ("self.n.size() == 1", "found no matching overload for 'size'"),
        ("self.list[0] == 1", "found no matching overload for '_==_'"),
        ("self.list['a'] == ''", "found no matching overload for '_[_]'"),
        ("self.object.all(x, true)", "cannot be range of a comprehension"),
        ("[1, 'a'].size() == 2", "expected type 'int' but found 'string'"),
        ("self.list.all(x, x > 1)", "found no matching overload for '_>_'"),
        ("self.list.sum() == 1", "found no matching overload for 'sum'"),
        ("self.s.matches('[')", "invalid matches argument"),
        ("duration('x') == duration('1s')", "invalid duration argument"),
        ("timestamp('x') == timestamp('2026-01-01T00:00:00Z')", "invalid timestamp argument"),
        ("self.n", "cel expression must evaluate to a bool"),
        ("self.list.map(x, x)", "cel expression must evaluate to a bool"),
        ("quantity(self.n).isInteger()", "found no matching overload for 'quantity'"),
        ("math.greatest(self.n, 1) == 1", "undeclared reference to 'math'"),
        ("base64.encode(b'a') == ''", "undeclared reference to 'base64'"),
        ("cel.bind(x, self.n, x > 0)", "undeclared reference to 'cel'"),
        ("self.s.reverse() == ''", "found no matching overload for 'reverse'"),
        ("authorizer.path('/').check('get').allowed()", "undeclared reference to 'authorizer'"),
    ] {
        let found = refused(cluster, spec(json!({"rule": rule}))).await;
        let [(end, reason, message)] = found.as_slice() else { panic!("{rule}: {found:#?}") };
        assert_eq!(
            (end.as_str(), reason.as_str()),
            ("x-kubernetes-validations[0].rule", "FieldValueInvalid"),
            "{rule}"
        );
        assert!(message.contains(words), "{rule}: {message}");
    }
}

pub(super) async fn rules_that_cost_too_much_are_refused(cluster: &Cluster) {
    let text = || json!({"type": "string"});
    let list = |items: Value| json!({"type": "array", "items": items});
    let with = |mut schema: Value, rule: &str| {
        schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
        schema
    };
    let bounded = json!({"type": "array", "maxItems": 50, "items": {"type": "string", "maxLength": 63}});
    for (what, schema, dear) in [
        ("one loop over anything", with(list(text()), "self.all(x, x != 'a')"), false),
        ("a loop in a loop", with(list(text()), "self.all(x, self.exists(y, x == y))"), true),
        (
            "a loop in a loop with bounds",
            with(bounded.clone(), "self.all(x, self.exists_one(y, x == y))"),
            false,
        ),
        ("three loops", with(list(text()), "self.all(x, self.all(y, self.all(z, x == y || y == z)))"), true),
        ("a pattern for each of many", with(list(text()), "self.all(x, x.matches('^[a-z]+$'))"), true),
        ("a pattern for each of few", with(bounded, "self.all(x, x.matches('^[a-z]+$'))"), false),
        ("a rule for each of anything", list(with(text(), "self.contains('a')")), true),
        (
            "a rule for each of few",
            json!({"type": "array", "maxItems": 10, "items": with(json!({"type": "string", "maxLength": 64}), "self.contains('a')")}),
            false,
        ),
        (
            "lists in lists",
            with(list(list(list(json!({"type": "integer"})))), "self.all(x, x.all(y, y.all(z, z > 0)))"),
            true,
        ),
    ] {
        let found = refused(cluster, schema).await;
        assert_eq!(!found.is_empty(), dear, "{what}: {found:#?}");
        assert!(found.iter().all(|(_, reason, _)| reason == "FieldValueForbidden"), "{what}: {found:#?}");
        let said = found
            .iter()
            .any(|(_, _, message)| message.contains("estimated rule cost exceeds budget by factor of"));
        assert_eq!(said, dear, "{what}: {found:#?}");
    }
}

pub(super) async fn a_rule_cannot_ask_for_a_past_that_is_not_known(cluster: &Cluster) {
    let fixed = || json!({"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]});
    let list = |kind: &str, items: Value| json!({"type": "array", "maxItems": 9, "x-kubernetes-list-type": kind, "items": items});
    let keyed = |mut schema: Value| {
        schema["x-kubernetes-list-map-keys"] = json!(["name"]);
        schema
    };
    let item = || json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "maxLength": 9}, "value": fixed()}});
    for (what, schema, known) in [
        ("items of an atomic list", list("atomic", fixed()), false),
        ("items of a set", list("set", fixed()), false),
        ("below items of an atomic list", list("atomic", item()), false),
        ("items of a keyed list", keyed(list("map", item())), true),
        ("keyed items in an atomic list", list("atomic", keyed(list("map", item()))), false),
        ("entries", json!({"type": "object", "maxProperties": 9, "additionalProperties": fixed()}), true),
    ] {
        let found = refused(cluster, json!({"type": "object", "properties": {"x": schema}})).await;
        assert_eq!(found.is_empty(), known, "{what}: {found:#?}");
        for (end, reason, message) in found {
            assert!(
                end.ends_with("x-kubernetes-validations[0].rule") && reason == "FieldValueInvalid",
                "{what}"
            );
            assert!(
                message.contains("oldSelf cannot be used on the uncorrelatable portion of the schema within"),
                "{message}"
            );
        }
    }
}

/// Rules in the manner of widely used definitions: references, listeners, classes, exactly-one-of, immutability.
pub(super) async fn expressions_of_real_definitions_are_accepted(cluster: &Cluster) {
    let text = |most: u64| json!({"type": "string", "maxLength": most, "minLength": 1});
    let reference = json!({
        "type": "object",
        "required": ["name"],
        "properties": {"group": text(253), "kind": text(63), "name": text(253), "namespace": text(63), "port": {"type": "integer", "format": "int32"}},
        "x-kubernetes-validations": [{
            "message": "Must have port for Service reference",
            "rule": "(size(self.group) == 0 && self.kind == 'Service') ? has(self.port) : true",
        }],
    });
    let schema = json!({
        "type": "object",
        "properties": {
            "rules": {
                "type": "array", "maxItems": 16,
                "items": {"type": "object", "properties": {
                    "refs": {"type": "array", "maxItems": 16, "items": reference},
                    "filters": {
                        "type": "array", "maxItems": 16,
                        "items": {"type": "object", "properties": {"type": {"type": "string", "enum": ["Redirect", "Mirror"]}}},
                        "x-kubernetes-validations": [
                            {"message": "Redirect filter cannot be repeated", "rule": "self.filter(f, f.type == 'Redirect').size() <= 1"},
                            {"message": "one kind only", "rule": "!(self.exists(f, f.type == 'Redirect') && self.exists(f, f.type == 'Mirror'))"},
                        ],
                    },
                }},
                "x-kubernetes-validations": [{
                    "message": "While 16 rules and 64 matches per rule are allowed, the total must be less than 128",
                    "rule": "(self.size() > 0 ? self[0].refs.size() : 0) + (self.size() > 1 ? self[1].refs.size() : 0) <= 128",
                }],
            },
            "listeners": {
                "type": "array", "maxItems": 64, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name", "port", "protocol"], "properties": {
                    "name": text(253), "hostname": text(253), "protocol": text(255),
                    "port": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535},
                }},
                "x-kubernetes-validations": [
                    {"message": "tls must not be specified for protocols", "rule": "self.all(l, l.protocol in ['HTTP', 'TCP', 'UDP'] ? !has(l.hostname) : true)"},
                    {"message": "Listener name must be unique within the Gateway", "rule": "self.all(l1, self.exists_one(l2, l1.name == l2.name))"},
                    {
                        "message": "Combination of port, protocol and hostname must be unique for each listener",
                        "rule": "self.all(l1, self.exists_one(l2, l1.port == l2.port && l1.protocol == l2.protocol && (has(l1.hostname) && has(l2.hostname) ? l1.hostname == l2.hostname : !has(l1.hostname) && !has(l2.hostname))))",
                    },
                ],
            },
            "class": {"type": "string", "maxLength": 253, "x-kubernetes-validations": [{"message": "class is immutable", "rule": "self == oldSelf"}]},
            "replicas": {"type": "integer", "format": "int32"},
            "min": {"type": "integer"}, "max": {"type": "integer"},
            "addresses": {"type": "array", "maxItems": 16, "items": text(253), "x-kubernetes-validations": [
                {"message": "addresses must be unique", "rule": "self.all(a1, self.exists_one(a2, a1 == a2))"},
                {"message": "must be addresses", "rule": "self.all(a, isIP(a) || !format.dns1123Subdomain().validate(a).hasValue())"},
            ]},
            "unbounded": {"type": "array", "items": {"type": "object", "properties": {"type": {"type": "string"}, "status": {"type": "string"}}}},
        },
        "x-kubernetes-validations": [
            {"rule": "has(self.min) == has(self.max)", "message": "both or none"},
            {"rule": "!has(self.min) || self.min <= self.max", "fieldPath": ".min"},
            {"rule": "[has(self.class), has(self.replicas)].filter(x, x == true).size() <= 1", "message": "at most one of class, replicas"},
            {"rule": "!has(oldSelf.replicas) || has(self.replicas)", "message": "replicas is required once set"},
            {"rule": "!has(self.unbounded) || self.unbounded.exists(c, c.type == 'Ready')"},
        ],
    });
    assert_eq!(refused(cluster, schema).await, []);
}

pub(super) async fn an_expensive_evaluation_ends_in_time(cluster: &Cluster) {
    // By estimate it is cheap enough; with this object it is not.
    let kind = Kind::new(
        cluster,
        json!({"type": "object", "properties": {
            "list": {"type": "array", "maxItems": 700, "items": {"type": "integer"}, "x-kubernetes-validations": [
                {"rule": "self.all(x, self.all(y, x == y || x != y))"},
            ]},
        }}),
    )
    .await;
    let few: Vec<u32> = (0..100).collect();
    assert_eq!(kind.causes(json!({"list": few})).await, []);
    let many: Vec<u32> = (0..700).collect();
    let found = kind.causes(json!({"list": many})).await;
    let [(field, reason, message)] = found.as_slice() else { panic!("{found:#?}") };
    assert_eq!((field.as_str(), reason.as_str()), ("spec.list", "FieldValueInvalid"));
    assert!(
        message.contains("no further validation rules will be run due to call cost exceeds limit for rule"),
        "{message}"
    );
}

/// Rules that one of the two refuses and the other does not: the rows of the table in the documentation.
pub(super) async fn rules_differ_only_in_what_is_documented(cluster: &Cluster) {
    let mut surprising = Vec::new();
    for (rule, by_kubernetes, by_us) in [
        ("'a' + string(self.n) != ''", false, true),
        ("['a', 'b'].join() == 'ab'", false, true),
        ("self.any", false, true),
        ("timestamp('2026-01-02T03:04:05Z').getHours('Europe/Berlin') == 4", true, false),
    ] {
        let mut schema = spec(json!({"rule": rule}));
        schema["properties"]["any"] = json!({"x-kubernetes-int-or-string": true});
        let accepted = refused(cluster, schema).await.is_empty();
        if accepted != (if cluster.is_kubernetes() { by_kubernetes } else { by_us }) {
            surprising.push(rule);
        }
    }
    assert!(surprising.is_empty(), "{surprising:#?}");
    let rule = |rule: &str| json!({"type": "boolean", "x-kubernetes-validations": [{"rule": format!("self == ({rule})")}]});
    let kind = Kind::new(
        cluster,
        json!({"type": "object", "properties": {
            "digits": rule("'%.100f'.format([1.0]).size() == 102"),
            "bare": rule("isQuantity('Gi')"),
            "odd": rule("!isQuantity('1.5X')"),
        }}),
    )
    .await;
    let found = kind.causes(json!({"digits": true, "bare": true, "odd": true})).await;
    let fields: Vec<&str> = found.iter().map(|(field, ..)| field.as_str()).collect();
    let expected: &[&str] = if cluster.is_kubernetes() { &[] } else { &["spec.bare", "spec.digits"] };
    assert_eq!(fields, expected, "{found:#?}");
}
