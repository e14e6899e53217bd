//! What managers write: a custom kind with every type of list and map, and built-in kinds, with random parts of each.

use serde_json::{Map, Value, json};

use crate::builtins::{
    budget, conditions, config_map, definition_base, definition_part, deployment, deployment_status, lease,
    pod, pod_base, pod_status, secret, service, service_account, service_status, slice, stateful,
    stateful_base, workload,
};
use crate::rng::Rng;

pub(crate) const GROUP: &str = "applies.example.com";
pub(crate) const CUSTOM: &str = "/apis/applies.example.com/v1/namespaces/default/everythings";

/// A kind of objects that managers write.
pub(crate) struct Sort {
    pub(crate) path: &'static str,
    pub(crate) api_version: &'static str,
    kind: &'static str,
    base: fn() -> Value,
    /// A random part of an object.
    pub(crate) part: fn(&mut Rng) -> Value,
    pub(crate) status: Option<fn(&mut Rng) -> Value>,
    pub(crate) scales: bool,
    pub(crate) strategic: bool,
}

impl Sort {
    /// What every object of the kind must say.
    pub(crate) fn base(&self) -> Value {
        (self.base)()
    }

    pub(crate) fn name_of(&self, seed: u64) -> String {
        match self.kind {
            "CustomResourceDefinition" => format!("s{seed}.{GROUP}"),
            _ => format!("s{seed}"),
        }
    }

    /// An object with its name.
    pub(crate) fn object(&self, name: &str, part: &Value) -> Value {
        let mut object = part.clone();
        if self.kind == "CustomResourceDefinition"
            && let Some(plural) = name.split('.').next()
            && !object["spec"]["names"].is_null()
        {
            let kind = format!("K{plural}");
            object["spec"]["names"] = json!({"plural": plural, "kind": kind});
        }
        object["apiVersion"] = self.api_version.into();
        object["kind"] = self.kind.into();
        object["metadata"]["name"] = name.into();
        object
    }
}

/// Most sequences are of the custom kind, which has it all.
pub(crate) fn sort(seed: u64) -> &'static Sort {
    match seed % 2 {
        0 => &SORTS[0],
        _ => &SORTS[1 + (seed / 2) as usize % (SORTS.len() - 1)],
    }
}

const fn plain(
    path: &'static str,
    api_version: &'static str,
    kind: &'static str,
    base: fn() -> Value,
    part: fn(&mut Rng) -> Value,
) -> Sort {
    Sort { path, api_version, kind, base, part, status: None, scales: false, strategic: true }
}

static SORTS: [Sort; 13] = [
    Sort {
        status: Some(custom_status),
        scales: true,
        strategic: false,
        ..plain(CUSTOM, "applies.example.com/v1", "Everything", || json!({}), custom)
    },
    plain("/api/v1/namespaces/default/configmaps", "v1", "ConfigMap", || json!({}), config_map),
    plain("/api/v1/namespaces/default/secrets", "v1", "Secret", || json!({}), secret),
    Sort {
        status: Some(deployment_status),
        scales: true,
        ..plain("/apis/apps/v1/namespaces/default/deployments", "apps/v1", "Deployment", workload, deployment)
    },
    Sort {
        status: Some(service_status),
        ..plain(
            "/api/v1/namespaces/default/services",
            "v1",
            "Service",
            || json!({"spec": {"type": "ExternalName", "externalName": "a.example.com"}}),
            service,
        )
    },
    Sort { status: Some(pod_status), ..plain("/api/v1/namespaces/default/pods", "v1", "Pod", pod_base, pod) },
    Sort {
        status: Some(
            |rng| json!({"status": {"phase": "Active", "conditions": conditions(rng, "NamespaceContentRemaining")}}),
        ),
        ..plain("/api/v1/namespaces", "v1", "Namespace", || json!({}), |rng| meta(rng, json!({})))
    },
    plain(
        "/api/v1/namespaces/default/serviceaccounts",
        "v1",
        "ServiceAccount",
        || json!({}),
        service_account,
    ),
    plain(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        definition_base,
        definition_part,
    ),
    Sort {
        status: Some(
            |rng| json!({"status": {"replicas": rng.below(3), "conditions": conditions(rng, "Ready")}}),
        ),
        scales: true,
        ..plain(
            "/apis/apps/v1/namespaces/default/statefulsets",
            "apps/v1",
            "StatefulSet",
            stateful_base,
            stateful,
        )
    },
    Sort {
        status: Some(
            |rng| json!({"status": {"currentHealthy": rng.below(3), "desiredHealthy": 1, "disruptionsAllowed": 0, "expectedPods": rng.below(2)}}),
        ),
        ..plain(
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            "policy/v1",
            "PodDisruptionBudget",
            || json!({"spec": {"selector": {"matchLabels": {"app": "a"}}}}),
            budget,
        )
    },
    plain(
        "/apis/coordination.k8s.io/v1/namespaces/default/leases",
        "coordination.k8s.io/v1",
        "Lease",
        || json!({}),
        lease,
    ),
    plain(
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        "discovery.k8s.io/v1",
        "EndpointSlice",
        || json!({"addressType": "IPv4", "endpoints": [{"addresses": ["1.2.3.4"]}], "ports": [{"name": "p", "port": 1, "protocol": "TCP"}]}),
        slice,
    ),
];

/// One object over another: objects are merged, everything else is replaced.
pub(crate) fn overlay(object: &mut Value, part: &Value) {
    match (object, part) {
        (Value::Object(object), Value::Object(part)) => {
            for (key, value) in part {
                overlay(object.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (object, part) => *object = part.clone(),
    }
}

pub(crate) fn joined(mut base: Value, part: Value) -> Value {
    overlay(&mut base, &part);
    base
}

/// The same with some of its values taken away.
pub(crate) fn with_nulls(rng: &mut Rng, mut part: Value) -> Value {
    fn visit(rng: &mut Rng, value: &mut Value) {
        // What objects of a kind cannot be without is left.
        let fields = value.as_object_mut().into_iter().flatten();
        for (_, value) in fields.filter(|field| !["template", "externalName"].contains(&field.0.as_str())) {
            if rng.percent(25) && !value.is_object() {
                *value = Value::Null;
            }
            visit(rng, value);
        }
    }
    visit(rng, &mut part);
    part
}

/// A field, and what may stand there.
pub(crate) type Field = (&'static str, fn(&mut Rng) -> Value);

/// Some of the named fields.
pub(crate) fn some(rng: &mut Rng, percent: usize, fields: &[Field]) -> Value {
    let mut object = Map::new();
    for (name, field) in fields {
        if rng.percent(percent) {
            object.insert((*name).to_owned(), field(rng));
        }
    }
    Value::Object(object)
}

pub(crate) fn text(rng: &mut Rng) -> Value {
    rng.one_of(json!(["a", "b", "c"]))
}

pub(crate) fn number(rng: &mut Rng) -> Value {
    rng.below(3).into()
}

/// Some of these, in some order.
pub(crate) fn several(rng: &mut Rng, choices: Value) -> Value {
    let mut chosen: Vec<Value> = choices.as_array().cloned().unwrap_or_default();
    chosen.retain(|_| rng.percent(50));
    if rng.percent(50) {
        chosen.reverse();
    }
    chosen.into()
}

/// Labels, annotations, finalizers and owners beside what is said.
pub(crate) fn meta(rng: &mut Rng, mut part: Value) -> Value {
    if rng.percent(35) {
        part["metadata"]["labels"] = some(rng, 50, &[("app", text), ("tier", text), ("example.com/x", text)]);
    }
    if rng.percent(25) {
        part["metadata"]["annotations"] = some(rng, 60, &[("note", text), ("example.com/more", text)]);
    }
    // Lists that are empty are not kept in metadata, but Kubernetes first writes an object of a custom kind with them.
    let finalizers = several(rng, json!(["example.com/a", "example.com/b", "example.com/c"]));
    if rng.percent(15) && finalizers != json!([]) {
        part["metadata"]["finalizers"] = finalizers;
    }
    // Of a kind that nobody knows, so that nobody can tell that they are gone.
    let owner = |name: &str| json!({"apiVersion": "unknown.example.com/v1", "kind": "Owner", "name": name, "uid": format!("uid-{name}")});
    let owners = several(rng, json!([owner("one"), owner("two")]));
    if rng.percent(10) && owners != json!([]) {
        part["metadata"]["ownerReferences"] = owners;
    }
    part
}

pub(crate) fn definition() -> Value {
    let text = json!({"type": "string"});
    let integer = json!({"type": "integer"});
    let item = json!({"type": "object", "required": ["name"], "properties": {
        "name": text, "value": text,
        "flags": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        "nested": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
            "items": {"type": "object", "required": ["id"], "properties": {"id": integer, "v": text, "w": integer}}},
    }});
    let endpoint = json!({"type": "object", "required": ["port"], "properties": {
        "port": integer, "protocol": {"type": "string", "default": "TCP"}, "host": text,
    }});
    let spec = json!({"type": "object", "properties": {
        "text": text,
        "count": integer,
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        "numbers": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "number"}},
        "items": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": item},
        "endpoints": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"], "items": endpoint},
        "atoms": {"type": "array", "items": {"type": "object", "properties": {"a": integer, "b": text}}},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": text, "b": text}},
        "granular": {"type": "object", "x-kubernetes-map-type": "granular", "additionalProperties": text},
        "wholeMap": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text},
        "objects": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": integer, "y": integer}}},
        "lists": {"type": "object", "additionalProperties": {"type": "array", "x-kubernetes-list-type": "set", "items": text}},
        "either": {"x-kubernetes-int-or-string": true},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"known": text, "deep": {"type": "object", "properties": {"k": text}}}},
        "anything": {"x-kubernetes-preserve-unknown-fields": true},
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        "maybe": {"type": "string", "nullable": true},
        "maybeObject": {"type": "object", "nullable": true, "properties": {"a": text}},
        "date": {"type": "string", "format": "date-time"},
        "level": {"type": "string", "default": "low"},
        "settings": {"type": "object", "default": {}, "properties": {"mode": {"type": "string", "default": "auto"}, "size": integer}},
        "replicas": integer,
    }});
    let status = json!({"type": "object", "properties": {
        "phase": text, "observed": integer, "replicas": integer,
        "conditions": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
            "items": {"type": "object", "required": ["type"], "properties": {"type": text, "status": text, "reason": text}}},
    }});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("everythings.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": {"plural": "everythings", "kind": "Everything"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
            }],
        },
    })
}

fn items(rng: &mut Rng) -> Value {
    let mut items =
        several(rng, json!([{"name": "one"}, {"name": "two"}, {"name": "three"}, {"name": "<four>"}]));
    for item in items.as_array_mut().into_iter().flatten() {
        let part = some(
            rng,
            40,
            &[
                ("value", text),
                ("flags", |rng| several(rng, json!(["x", "y", "z"]))),
                ("nested", |rng| {
                    let mut nested = several(rng, json!([{"id": 1}, {"id": 2}, {"id": 10}]));
                    for item in nested.as_array_mut().into_iter().flatten() {
                        overlay(item, &some(rng, 50, &[("v", text), ("w", number)]));
                    }
                    nested
                }),
            ],
        );
        overlay(item, &part);
    }
    items
}

fn endpoints(rng: &mut Rng) -> Value {
    let mut endpoints = several(
        rng,
        json!([
            {"port": 80}, {"port": 80, "protocol": "UDP"}, {"port": 443, "protocol": "TCP"}, {"port": 9},
        ]),
    );
    for endpoint in endpoints.as_array_mut().into_iter().flatten() {
        if rng.percent(50) {
            endpoint["host"] = text(rng);
        }
    }
    endpoints
}

fn custom(rng: &mut Rng) -> Value {
    let spec = some(
        rng,
        18,
        &[
            ("text", text),
            ("count", number),
            ("tags", |rng| several(rng, json!(["t1", "t2", "t3", "t4"]))),
            ("numbers", |rng| several(rng, json!([1, 2, 10, 1.5, 100]))),
            ("items", items),
            ("items", items),
            ("endpoints", endpoints),
            ("atoms", |rng| several(rng, json!([{"a": 1}, {"a": 2, "b": "x"}, {"b": "y"}]))),
            ("whole", |rng| some(rng, 60, &[("a", text), ("b", text)])),
            ("granular", |rng| some(rng, 50, &[("k1", text), ("k2", text), ("k.3", text)])),
            ("wholeMap", |rng| some(rng, 50, &[("k1", text), ("k2", text)])),
            ("objects", |rng| {
                some(
                    rng,
                    60,
                    &[
                        ("o1", |rng| some(rng, 60, &[("x", number), ("y", number)])),
                        ("o2", |rng| some(rng, 60, &[("x", number), ("y", number)])),
                    ],
                )
            }),
            ("lists", |rng| {
                some(
                    rng,
                    60,
                    &[
                        ("l1", |rng| several(rng, json!(["a", "b"]))),
                        ("l2", |rng| several(rng, json!(["a", "b"]))),
                    ],
                )
            }),
            ("either", |rng| rng.one_of(json!([1, "80%", "x", 2]))),
            ("free", |rng| {
                rng.one_of(json!([
            {"known": "a"}, {"known": "b", "other": {"deep": [1, 2]}}, {"other": {"deep": [1], "more": "x"}}, {}, {"deep": {"k": "v"}}, {"list": [{"a": 1}]},
        ]))
            }),
            ("anything", |rng| {
                rng.one_of(json!([1, "text", true, [1, 2], {"a": 1, "b": {"c": "d"}}, {"a": 2}, {}, []]))
            }),
            ("embedded", |rng| {
                rng.one_of(json!([
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "labels": {"l": "1"}}, "data": {"a": "b"}},
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "y", "finalizers": ["example.com/a"]}, "data": {"a": "c", "d": "e"}},
            {"apiVersion": "v1", "kind": "Secret"},
        ]))
            }),
            ("maybe", |rng| rng.one_of(json!(["a", "b", null]))),
            ("maybeObject", |rng| rng.one_of(json!([{"a": "a"}, {"a": "b"}, null, {}]))),
            ("date", |rng| rng.one_of(json!(["2021-01-01T00:00:00Z", "2022-01-01T00:00:00Z"]))),
            ("level", |rng| rng.one_of(json!(["low", "high"]))),
            ("settings", |rng| {
                some(rng, 60, &[("mode", |rng| rng.one_of(json!(["auto", "manual"]))), ("size", number)])
            }),
            ("replicas", number),
        ],
    );
    let mut part = json!({});
    if rng.percent(93) {
        part["spec"] = spec;
    }
    // What is sent to the wrong endpoint counts for nothing there.
    if rng.percent(8) {
        overlay(&mut part, &custom_status(rng));
    }
    if rng.percent(4) {
        part["spec"]
            [rng.one_of(json!(["unknown", "text", "tags", "items", "count"])).as_str().unwrap_or_default()] =
            rng.one_of(json!([{"a": 1}, [null], [{"x": 1}], "text", 5]));
    }
    meta(rng, part)
}

fn custom_status(rng: &mut Rng) -> Value {
    let mut part = json!({"status": some(rng, 50, &[
        ("phase", text),
        ("observed", number),
        ("replicas", number),
        ("conditions", |rng| {
            let mut conditions = several(rng, json!([{"type": "Ready"}, {"type": "Synced"}]));
            for condition in conditions.as_array_mut().into_iter().flatten() {
                overlay(condition, &some(rng, 60, &[("status", text), ("reason", text)]));
            }
            conditions
        }),
    ])});
    if rng.percent(15) {
        part["spec"] = json!({"text": "through the status"});
        part["metadata"]["labels"] = json!({"status": "label"});
    }
    part
}
