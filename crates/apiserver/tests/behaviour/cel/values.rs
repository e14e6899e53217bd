//! Rules on values of every type that a schema can give them.

use bellwether_testkit::Cluster;
use serde_json::{Value, json};

use super::Kind;

/// A field, its rule, a value that keeps it and one that breaks it.
struct Row {
    schema: Value,
    rule: &'static str,
    good: Value,
    bad: Value,
}

fn row(schema: Value, rule: &'static str, good: Value, bad: Value) -> Row {
    Row { schema, rule, good, bad }
}

fn rows() -> Vec<Row> {
    let text = || json!({"type": "string"});
    let int = || json!({"type": "integer"});
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let list = |items: Value, kind: &str| json!({"type": "array", "items": items, "maxItems": 10, "x-kubernetes-list-type": kind});
    let keyed = |items: Value| json!({"type": "array", "items": items, "maxItems": 10, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]});
    let named = || json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "value": {"type": "integer"}}});
    vec![
        row(int(), "self > 5", json!(6), json!(5)),
        row(int(), "self % 2 == 0", json!(4), json!(5)),
        row(json!({"type": "number"}), "self >= 1.5", json!(1.5), json!(1)),
        row(json!({"type": "number"}), "self == 2.0 && type(self) == double", json!(2), json!(3)),
        row(json!({"type": "boolean"}), "self", json!(true), json!(false)),
        row(text(), "self.startsWith('a')", json!("ab"), json!("b")),
        row(text(), "self.size() <= 3", json!("äöü"), json!("abcd")),
        row(
            json!({"type": "string", "format": "byte"}),
            "self == b'hello'",
            json!("aGVsbG8="),
            json!("aGVsbG8h"),
        ),
        row(
            json!({"type": "string", "format": "byte"}),
            "size(self) == 5",
            json!("aGVsbG8="),
            json!("aGVsbA=="),
        ),
        row(
            json!({"type": "string", "format": "date-time"}),
            "self > timestamp('2026-01-01T00:00:00Z')",
            json!("2026-06-01T00:00:00Z"),
            json!("2025-06-01T00:00:00Z"),
        ),
        row(
            json!({"type": "string", "format": "date"}),
            "self.getFullYear() == 2026",
            json!("2026-06-01"),
            json!("2025-06-01"),
        ),
        row(
            json!({"type": "string", "format": "duration"}),
            "self <= duration('1h')",
            json!("59m"),
            json!("61m"),
        ),
        row(
            json!({"type": "string", "format": "ipv4"}),
            "ip(self).isLoopback()",
            json!("127.0.0.1"),
            json!("10.0.0.1"),
        ),
        row(
            json!({"x-kubernetes-int-or-string": true}),
            "type(self) == int ? self < 5 : self == '50%'",
            json!("50%"),
            json!(7),
        ),
        row(
            json!({"x-kubernetes-int-or-string": true}),
            "type(self) == string || self < 5",
            json!(4),
            json!(5),
        ),
        row(
            object(json!({"a": int(), "b": int()})),
            "self.a < self.b",
            json!({"a": 1, "b": 2}),
            json!({"a": 2, "b": 2}),
        ),
        row(
            object(json!({"a": int(), "b": int()})),
            "has(self.a) != has(self.b)",
            json!({"a": 1}),
            json!({"a": 2, "b": 2}),
        ),
        row(object(json!({"a": int()})), "!has(self.a) || self.a > 0", json!({}), json!({"a": 0})),
        row(object(json!({"a": int()})), "self.?a.orValue(5) == 5", json!({}), json!({"a": 0})),
        row(
            object(json!({"namespace": text()})),
            "self.__namespace__ == 'x'",
            json!({"namespace": "x"}),
            json!({"namespace": "y"}),
        ),
        row(
            object(json!({"a-b": text()})),
            "self.a__dash__b == 'x'",
            json!({"a-b": "x"}),
            json!({"a-b": "y"}),
        ),
        row(
            object(json!({"a.b": text()})),
            "self.a__dot__b == 'x'",
            json!({"a.b": "x"}),
            json!({"a.b": "y"}),
        ),
        row(
            object(json!({"a/b": text()})),
            "self.a__slash__b == 'x'",
            json!({"a/b": "x"}),
            json!({"a/b": "y"}),
        ),
        row(
            object(json!({"a__b": text()})),
            "self.a__underscores__b == 'x'",
            json!({"a__b": "x"}),
            json!({"a__b": "y"}),
        ),
        row(
            object(json!({"a": {"type": "string", "nullable": true}})),
            "!has(self.a) || type(self.a) == null_type || self.a != 'x'",
            json!({"a": null}),
            json!({"a": "x"}),
        ),
        row(
            json!({"type": "object", "additionalProperties": int(), "maxProperties": 10}),
            "self.all(k, self[k] > 0)",
            json!({"a": 1}),
            json!({"a": 1, "b": 0}),
        ),
        row(
            json!({"type": "object", "additionalProperties": int(), "maxProperties": 10}),
            "'a-b' in self",
            json!({"a-b": 1}),
            json!({"b": 0}),
        ),
        row(
            json!({"type": "object", "additionalProperties": int(), "maxProperties": 10}),
            "size(self) == 1 && self == {'a': 1}",
            json!({"a": 1}),
            json!({"b": 0}),
        ),
        row(list(int(), "atomic"), "self.all(x, x > 0)", json!([1, 2]), json!([1, 0])),
        row(list(int(), "atomic"), "self.sum() < 5 && self[0] == 1", json!([1, 2]), json!([1, 4])),
        row(list(int(), "atomic"), "self.exists_one(x, x == 1)", json!([1, 2]), json!([1, 1])),
        row(
            object(json!({"a": list(text(), "set"), "b": list(text(), "set")})),
            "self.a == self.b",
            json!({"a": ["x", "y"], "b": ["y", "x"]}),
            json!({"a": ["x", "y"], "b": ["y", "z"]}),
        ),
        row(
            object(json!({"a": list(text(), "atomic"), "b": list(text(), "atomic")})),
            "self.a == self.b",
            json!({"a": ["x", "y"], "b": ["x", "y"]}),
            json!({"a": ["x", "y"], "b": ["y", "x"]}),
        ),
        row(
            object(json!({"a": list(text(), "set"), "b": list(text(), "set")})),
            "size(self.a + self.b) == 3",
            json!({"a": ["x", "y"], "b": ["y", "z"]}),
            json!({"a": ["x", "y"], "b": ["v", "z"]}),
        ),
        row(
            keyed(named()),
            "self.exists(i, i.name == 'x' && i.value == 1)",
            json!([{"name": "x", "value": 1}]),
            json!([{"name": "x", "value": 2}]),
        ),
        row(
            json!({"type": "array", "items": {"type": "string", "maxLength": 10}, "maxItems": 10}),
            "self.isSorted() && self.join(',') == 'x,y' && self.min() == 'x'",
            json!(["x", "y"]),
            json!(["y", "x"]),
        ),
        row(
            keyed(named()),
            "self.filter(i, has(i.value)).size() == 1",
            json!([{"name": "x", "value": 1}, {"name": "y"}]),
            json!([{"name": "y"}]),
        ),
        row(
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            "self.kind == 'Pod' && self.apiVersion == 'v1' && self.metadata.name.startsWith('a')",
            json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}, "x": 1}),
            json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "b"}, "x": 1}),
        ),
        row(text(), "quantity(self).isLessThan(quantity('1Gi'))", json!("500Mi"), json!("2Gi")),
        row(text(), "isSemver(self) && semver(self).major() == 1", json!("1.2.3"), json!("2.0.0")),
        row(text(), "self.matches('^[a-z]+$')", json!("abc"), json!("abC")),
        row(text(), "isURL(self) && url(self).getScheme() == 'https'", json!("https://x"), json!("http://x")),
        row(
            json!({"type": "string", "maxLength": 64}),
            "!format.dns1123Label().validate(self).hasValue()",
            json!("abc"),
            json!("aBc"),
        ),
        row(text(), "cidr('10.0.0.0/8').containsIP(self)", json!("10.1.2.3"), json!("11.1.2.3")),
        row(text(), "self in ['a', 'b']", json!("a"), json!("c")),
        row(json!({"type": "string", "enum": ["a", "b"]}), "self != 'b'", json!("a"), json!("b")),
        row(json!({"type": "integer", "default": 7}), "self == 7", json!(7), json!(8)),
    ]
}

pub(super) async fn rules_see_values_as_their_schema_types_them(cluster: &Cluster) {
    let rows = rows();
    let name = |at: usize| format!("f{at:03}");
    let mut properties = serde_json::Map::new();
    for (at, row) in rows.iter().enumerate() {
        let mut schema = row.schema.clone();
        schema["x-kubernetes-validations"] = json!([{"rule": row.rule}]);
        properties.insert(name(at), schema);
    }
    let kind = Kind::new(cluster, json!({"type": "object", "properties": properties})).await;
    let good: serde_json::Map<_, _> =
        rows.iter().enumerate().map(|(at, row)| (name(at), row.good.clone())).collect();
    let wrong = kind.causes(good.into()).await;
    assert!(wrong.is_empty(), "these are good: {wrong:#?}");
    let bad: serde_json::Map<_, _> =
        rows.iter().enumerate().map(|(at, row)| (name(at), row.bad.clone())).collect();
    let refused = kind.causes(bad.into()).await;
    for (at, row) in rows.iter().enumerate() {
        let field = format!("spec.{}", name(at));
        let cause = refused.iter().find(|(known, ..)| *known == field);
        let (_, reason, message) = cause.unwrap_or_else(|| panic!("{} accepts {}", row.rule, row.bad));
        assert_eq!(reason, "FieldValueInvalid", "{message}");
        assert!(message.ends_with(&format!(": failed rule: {}", row.rule)), "{message}");
    }
}
