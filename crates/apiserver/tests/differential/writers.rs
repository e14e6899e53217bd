//! What managers write: a custom kind with every type of list and map, and built-in kinds, with random parts of each.

use serde_json::{Map, Value, json};

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

/// Some of the named fields.
fn some(rng: &mut Rng, percent: usize, fields: &[(&str, fn(&mut Rng) -> Value)]) -> Value {
    let mut object = Map::new();
    for (name, field) in fields {
        if rng.percent(percent) {
            object.insert((*name).to_owned(), field(rng));
        }
    }
    Value::Object(object)
}

fn text(rng: &mut Rng) -> Value {
    rng.one_of(json!(["a", "b", "c"]))
}

fn number(rng: &mut Rng) -> Value {
    rng.below(3).into()
}

/// Some of these, in some order.
fn several(rng: &mut Rng, choices: Value) -> Value {
    let mut chosen: Vec<Value> = choices.as_array().cloned().unwrap_or_default();
    chosen.retain(|_| rng.percent(50));
    if rng.percent(50) {
        chosen.reverse();
    }
    chosen.into()
}

/// Labels, annotations, finalizers and owners beside what is said.
fn meta(rng: &mut Rng, mut part: Value) -> Value {
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

fn config_map(rng: &mut Rng) -> Value {
    let part = some(
        rng,
        70,
        &[
            ("data", |rng| some(rng, 50, &[("a", text), ("b", text), ("c", text)])),
            ("binaryData", |rng| some(rng, 40, &[("bin", |rng| rng.one_of(json!(["YQ==", "Yg=="])))])),
        ],
    );
    meta(rng, part)
}

fn secret(rng: &mut Rng) -> Value {
    let part = some(
        rng,
        60,
        &[
            ("data", |rng| {
                some(rng, 50, &[("a", |rng| rng.one_of(json!(["YQ==", "Yg=="]))), ("b", |_| json!("Yw=="))])
            }),
            ("stringData", |rng| some(rng, 50, &[("a", text), ("s", text)])),
        ],
    );
    meta(rng, part)
}

fn workload() -> Value {
    json!({"spec": {
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "main", "image": "main:1"}]}},
    }})
}

fn containers(rng: &mut Rng) -> Value {
    let mut containers =
        several(rng, json!([{"name": "side", "image": "side:1"}, {"name": "extra", "image": "extra:1"}]));
    if let Some(list) = containers.as_array_mut() {
        list.insert(0, json!({"name": "main", "image": "main:1"}));
    }
    for container in containers.as_array_mut().into_iter().flatten() {
        let part = some(
            rng,
            30,
            &[
                ("image", |rng| rng.one_of(json!(["x:1", "x:2"]))),
                ("args", |rng| several(rng, json!(["-a", "-b"]))),
                ("env", |rng| {
                    several(
                        rng,
                        json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]),
                    )
                }),
                ("ports", |rng| {
                    several(
                        rng,
                        json!([{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}, {"containerPort": 443, "name": "https"}]),
                    )
                }),
                ("resources", |rng| {
                    rng.one_of(
                        json!([{"limits": {"cpu": "1"}}, {"requests": {"cpu": "500m", "memory": "1Gi"}}, {}]),
                    )
                }),
            ],
        );
        overlay(container, &part);
    }
    containers
}

fn template(rng: &mut Rng) -> Value {
    let mut template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": containers(rng)}});
    let part = some(
        rng,
        20,
        &[
            ("volumes", |rng| {
                several(
                    rng,
                    json!([{"name": "config", "configMap": {"name": "c"}}, {"name": "data", "emptyDir": {}}]),
                )
            }),
            ("nodeSelector", |rng| some(rng, 50, &[("zone", text), ("disk", text)])),
            ("tolerations", |rng| {
                several(rng, json!([{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]))
            }),
            ("terminationGracePeriodSeconds", |rng| rng.one_of(json!([10, 30]))),
            ("imagePullSecrets", |rng| several(rng, json!([{"name": "one"}, {"name": "two"}]))),
            ("securityContext", |rng| rng.one_of(json!([{"runAsUser": 1}, {"runAsNonRoot": true}, {}]))),
        ],
    );
    overlay(&mut template["spec"], &part);
    template
}

fn deployment(rng: &mut Rng) -> Value {
    let spec = some(
        rng,
        40,
        &[
            ("replicas", number),
            ("template", template),
            ("strategy", |rng| {
                rng.one_of(json!([{"type": "Recreate"}, {"type": "RollingUpdate"}, {"rollingUpdate": {"maxSurge": 1}}, {"rollingUpdate": {"maxUnavailable": "10%"}}]))
            }),
            ("minReadySeconds", number),
            ("paused", |rng| rng.percent(50).into()),
        ],
    );
    meta(rng, json!({"spec": spec}))
}

fn conditions(rng: &mut Rng, kind: &str) -> Value {
    several(
        rng,
        json!([
            {"type": kind, "status": "True", "reason": "R1", "message": "m", "lastTransitionTime": "2021-01-01T00:00:00Z"},
            {"type": "Other", "status": "False", "reason": "R2", "message": "m", "lastTransitionTime": "2021-01-01T00:00:00Z"},
        ]),
    )
}

fn deployment_status(rng: &mut Rng) -> Value {
    let mut part = json!({"status": some(rng, 50, &[
        ("replicas", number),
        ("observedGeneration", number),
        ("conditions", |rng| conditions(rng, "Available")),
    ])});
    if rng.percent(15) {
        part["metadata"]["labels"] = json!({"status": "label"});
        part["metadata"]["annotations"] = json!({"status": "annotation"});
        part["spec"] = json!({"replicas": 7});
    }
    part
}

fn service(rng: &mut Rng) -> Value {
    let spec = some(
        rng,
        50,
        &[
            ("ports", |rng| {
                several(
                    rng,
                    json!([
                        {"name": "http", "port": 80, "targetPort": 8080}, {"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "tcpdns", "port": 53, "targetPort": "dns"},
                    ]),
                )
            }),
            ("selector", |rng| some(rng, 50, &[("app", text), ("tier", text)])),
            ("externalName", |rng| rng.one_of(json!(["a.example.com", "b.example.com"]))),
            ("sessionAffinity", |rng| rng.one_of(json!(["None"]))),
        ],
    );
    meta(rng, json!({"spec": spec}))
}

fn service_status(rng: &mut Rng) -> Value {
    json!({"status": {"conditions": conditions(rng, "Ready")}})
}

fn pod_base() -> Value {
    json!({"spec": {
        "automountServiceAccountToken": false,
        "serviceAccountName": "default",
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        ],
        "containers": [{"name": "main", "image": "main:1"}],
    }})
}

fn pod(rng: &mut Rng) -> Value {
    let image = rng.one_of(json!(["main:1", "main:2"]));
    let part = match rng.percent(40) {
        true => json!({"spec": {"containers": [{"name": "main", "image": image}]}}),
        false => json!({}),
    };
    meta(rng, part)
}

fn pod_status(rng: &mut Rng) -> Value {
    let mut part = json!({"status": some(rng, 50, &[
        ("phase", |rng| rng.one_of(json!(["Pending", "Running"]))),
        ("message", text),
        ("conditions", |rng| several(rng, json!([
            {"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "False", "reason": "No"},
        ]))),
        ("reason", text),
    ])});
    if rng.percent(20) {
        part["metadata"]["labels"] = json!({"status": "label"});
    }
    part
}

fn service_account(rng: &mut Rng) -> Value {
    let part = some(
        rng,
        50,
        &[
            ("secrets", |rng| several(rng, json!([{"name": "one"}, {"name": "two"}]))),
            ("imagePullSecrets", |rng| several(rng, json!([{"name": "one"}, {"name": "two"}]))),
            ("automountServiceAccountToken", |rng| rng.percent(50).into()),
        ],
    );
    meta(rng, part)
}

fn definition_base() -> Value {
    json!({"spec": {
        "group": GROUP, "scope": "Cluster", "names": {"plural": "", "kind": ""},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
    }})
}

fn definition_part(rng: &mut Rng) -> Value {
    let mut part = json!({});
    if rng.percent(40) {
        let schema = rng.one_of(
            json!([{"type": "object"}, {"type": "object", "properties": {"spec": {"type": "object"}}}]),
        );
        part["spec"]["versions"] =
            json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]);
    }
    if rng.percent(20) {
        part["spec"]["conversion"] = json!({"strategy": "None"});
    }
    meta(rng, part)
}

fn stateful_base() -> Value {
    joined(workload(), json!({"spec": {"serviceName": "s"}}))
}

fn stateful(rng: &mut Rng) -> Value {
    let spec = some(
        rng,
        40,
        &[
            ("replicas", number),
            ("template", template),
            ("updateStrategy", |rng| {
                rng.one_of(json!([{"type": "RollingUpdate"}, {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}]))
            }),
        ],
    );
    meta(rng, json!({"spec": spec}))
}

fn budget(rng: &mut Rng) -> Value {
    let mut part = json!({});
    match rng.below(3) {
        0 => part["spec"]["minAvailable"] = rng.one_of(json!([1, "50%"])),
        1 => part["spec"]["selector"] = json!({"matchLabels": {"app": text(rng)}}),
        _ => {}
    }
    meta(rng, part)
}

fn lease(rng: &mut Rng) -> Value {
    let spec = some(
        rng,
        50,
        &[
            ("holderIdentity", text),
            ("leaseDurationSeconds", |rng| rng.one_of(json!([10, 20]))),
            ("renewTime", |rng| {
                rng.one_of(json!(["2021-01-01T00:00:00.000000Z", "2022-01-01T00:00:00.000000Z"]))
            }),
            ("leaseTransitions", number),
        ],
    );
    meta(rng, json!({"spec": spec}))
}

fn slice(rng: &mut Rng) -> Value {
    let part = some(
        rng,
        50,
        &[
            ("endpoints", |rng| {
                rng.one_of(json!([[{"addresses": ["1.2.3.4"]}], [{"addresses": ["5.6.7.8"], "conditions": {"ready": true}}]]))
            }),
            ("ports", |rng| {
                rng.one_of(json!([
            [{"name": "http", "port": 80, "protocol": "TCP"}],
            [{"name": "http", "port": 80, "protocol": "TCP"}, {"name": "dns", "port": 53, "protocol": "UDP"}],
        ]))
            }),
        ],
    );
    meta(rng, part)
}
