//! Random parts of objects of built-in kinds. What the servers are known to judge differently is left out: addresses of
//! Services, lists that are empty and may not be absent.

use serde_json::{Value, json};

use crate::rng::Rng;
use crate::writers::{GROUP, joined, meta, number, overlay, several, some, text};

pub(crate) fn config_map(rng: &mut Rng) -> Value {
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

pub(crate) fn secret(rng: &mut Rng) -> Value {
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

pub(crate) fn workload() -> Value {
    json!({"spec": {
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "main", "image": "main:1"}]}},
    }})
}

pub(crate) fn containers(rng: &mut Rng) -> Value {
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

pub(crate) fn template(rng: &mut Rng) -> Value {
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

pub(crate) fn deployment(rng: &mut Rng) -> Value {
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

pub(crate) fn conditions(rng: &mut Rng, kind: &str) -> Value {
    several(
        rng,
        json!([
            {"type": kind, "status": "True", "reason": "R1", "message": "m", "lastTransitionTime": "2021-01-01T00:00:00Z"},
            {"type": "Other", "status": "False", "reason": "R2", "message": "m", "lastTransitionTime": "2021-01-01T00:00:00Z"},
        ]),
    )
}

pub(crate) fn deployment_status(rng: &mut Rng) -> Value {
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

pub(crate) fn service(rng: &mut Rng) -> Value {
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

pub(crate) fn service_status(rng: &mut Rng) -> Value {
    json!({"status": {"conditions": conditions(rng, "Ready")}})
}

pub(crate) fn pod_base() -> Value {
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

pub(crate) fn pod(rng: &mut Rng) -> Value {
    let image = rng.one_of(json!(["main:1", "main:2"]));
    let part = match rng.percent(40) {
        true => json!({"spec": {"containers": [{"name": "main", "image": image}]}}),
        false => json!({}),
    };
    meta(rng, part)
}

pub(crate) fn pod_status(rng: &mut Rng) -> Value {
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

pub(crate) fn service_account(rng: &mut Rng) -> Value {
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

pub(crate) fn definition_base() -> Value {
    json!({"spec": {
        "group": GROUP, "scope": "Cluster", "names": {"plural": "", "kind": ""},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
    }})
}

pub(crate) fn definition_part(rng: &mut Rng) -> Value {
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

pub(crate) fn stateful_base() -> Value {
    joined(workload(), json!({"spec": {"serviceName": "s"}}))
}

pub(crate) fn stateful(rng: &mut Rng) -> Value {
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

pub(crate) fn budget(rng: &mut Rng) -> Value {
    let mut part = json!({});
    match rng.below(3) {
        0 => part["spec"]["minAvailable"] = rng.one_of(json!([1, "50%"])),
        1 => part["spec"]["selector"] = json!({"matchLabels": {"app": text(rng)}}),
        _ => {}
    }
    meta(rng, part)
}

pub(crate) fn lease(rng: &mut Rng) -> Value {
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

pub(crate) fn slice(rng: &mut Rng) -> Value {
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
