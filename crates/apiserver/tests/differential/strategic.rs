//! Strategic merge patches, made up at random, on objects with every kind of list.

use bellwether_testkit::Call;
use serde_json::{Map, Value, json};

use crate::compare::{Both, Pair, Tally};
use crate::rng::Rng;

const PATCHES: u64 = 400;
const MEDIA: &str = "application/strategic-merge-patch+json";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// Lists with a merge key: where, the key, and values that items of it may have.
const KEYED: [(&str, &str, [&str; 4]); 5] = [
    ("containers", "name", ["app", "sidecar", "new", "other"]),
    ("volumes", "name", ["config", "data", "new", "other"]),
    ("tolerations", "", ["a", "b", "c", "d"]),
    ("imagePullSecrets", "name", ["one", "two", "three", "four"]),
    ("topologySpreadConstraints", "topologyKey", ["zone", "host", "rack", "region"]),
];

pub(crate) async fn compare(both: &Both, tally: &mut Tally) {
    for cluster in [&both.kubernetes, &both.ours] {
        cluster.post(DEPLOYMENTS, &deployment()).await.expect(201);
    }
    let pairs = (0..PATCHES).map(|seed| {
        let patch = patch(&mut Rng::new(seed));
        Pair {
            sort: "strategic merge patches",
            about: format!("strategic merge, seed {seed}: {patch}"),
            call: Call::new(http::Method::PATCH, format!("{DEPLOYMENTS}/strategic?dryRun=All"))
                .body(MEDIA, patch.to_string()),
        }
    });
    both.compare(pairs.collect(), tally).await;
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "strategic", "finalizers": ["example.com/a", "example.com/b"], "labels": {"x": "1", "y": "2"}},
        "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {
                    "containers": [
                        {"name": "app", "image": "app:1", "args": ["a", "b"],
                         "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 443, "name": "https"}],
                         "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                         "volumeMounts": [{"name": "config", "mountPath": "/etc/app"}]},
                        {"name": "sidecar", "image": "sidecar:1"},
                    ],
                    "volumes": [{"name": "config", "configMap": {"name": "c"}}, {"name": "data", "emptyDir": {}}],
                    "tolerations": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}],
                    "imagePullSecrets": [{"name": "one"}, {"name": "two"}],
                    "topologySpreadConstraints": [
                        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}},
                    ],
                },
            },
        },
    })
}

fn patch(rng: &mut Rng) -> Value {
    let mut pod = Map::new();
    for (list, key, values) in KEYED {
        if rng.percent(35) {
            items(rng, &mut pod, list, key, &values);
        }
    }
    let mut patch = json!({"spec": {"template": {"spec": pod}}});
    match rng.below(12) {
        0 => patch["metadata"] = json!({"finalizers": ["example.com/c", "example.com/a"]}),
        1 => {
            patch["metadata"] =
                json!({"$deleteFromPrimitiveList/finalizers": ["example.com/a", "example.com/none"]})
        }
        2 => {
            patch["metadata"] = json!({"finalizers": ["example.com/z"], "$setElementOrder/finalizers": ["example.com/z", "example.com/b", "example.com/a"]});
        }
        3 => patch["metadata"] = json!({"labels": {"x": null, "z": "3"}}),
        4 => patch["metadata"] = json!({"labels": {"$patch": "replace", "only": "1"}}),
        5 => patch["spec"]["strategy"] = json!({"$retainKeys": ["type"], "type": "Recreate"}),
        6 => patch["spec"]["strategy"] = json!({"$patch": "replace", "type": "Recreate"}),
        7 => patch["spec"]["strategy"] = json!({"type": "Recreate"}),
        8 => patch["spec"]["replicas"] = rng.one_of(json!([null, 0, 5, -1])),
        9 => patch["metadata"] = json!({"labels": {"$patch": "delete"}}),
        10 => patch["metadata"] = json!({"annotations": {"a": "b", "c": null}}),
        _ => {}
    }
    patch
}

/// Some items for a list: changed, new, deleted, or the whole list replaced.
fn items(rng: &mut Rng, into: &mut Map<String, Value>, list: &str, key: &str, values: &[&str; 4]) {
    let mut chosen: Vec<&str> = values.iter().copied().filter(|_| rng.percent(40)).collect();
    if rng.percent(20) {
        chosen.reverse();
    }
    let mut items: Vec<Value> = chosen.iter().map(|value| item(rng, list, key, value)).collect();
    if rng.percent(10) {
        items.push(json!({"$patch": "replace"}));
    }
    into.insert(list.to_owned(), if rng.percent(4) { Value::Null } else { items.into() });
    if !key.is_empty() && rng.percent(25) {
        let mut order: Vec<&str> = chosen.clone();
        order.extend(values.iter().filter(|value| !chosen.contains(value) && rng.percent(50)));
        let order: Vec<Value> = order.into_iter().map(|value| json!({key: value})).collect();
        into.insert(format!("$setElementOrder/{list}"), order.into());
    }
}

fn item(rng: &mut Rng, list: &str, key: &str, value: &str) -> Value {
    let mut item = match list {
        "containers" => container(rng),
        "volumes" => rng.one_of(json!([
            {}, {"emptyDir": {}}, {"configMap": {"name": "n"}, "$retainKeys": ["name", "configMap"]},
            {"emptyDir": {}, "$retainKeys": ["name", "emptyDir"]}, {"configMap": null, "emptyDir": {"medium": "Memory"}},
        ])),
        "tolerations" => return json!({"key": value, "operator": "Exists"}),
        "topologySpreadConstraints" => {
            rng.one_of(json!([{"maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway"}, {"maxSkew": 3, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"a": "b"}}}]))
        }
        _ => json!({}),
    };
    if rng.percent(15) {
        item = json!({"$patch": rng.one_of(json!(["delete", "delete", "replace", "merge", "odd"]))});
    }
    item[key] = value.into();
    item
}

fn container(rng: &mut Rng) -> Value {
    let mut container = json!({});
    if rng.percent(60) {
        container["image"] = "patched:2".into();
    }
    match rng.below(9) {
        0 => container["env"] = json!([{"name": "A", "value": "9"}, {"name": "C", "value": "3"}]),
        1 => container["env"] = json!([{"name": "A", "$patch": "delete"}]),
        2 => container["ports"] = json!([{"containerPort": 80, "name": "renamed"}, {"containerPort": 9090}]),
        3 => container["ports"] = json!([{"containerPort": 443, "$patch": "delete"}]),
        4 => container["args"] = json!(["only"]),
        5 => container["args"] = Value::Null,
        6 => {
            container["volumeMounts"] =
                json!([{"mountPath": "/etc/app", "name": "data"}, {"mountPath": "/new", "name": "data"}])
        }
        7 => container["env"] = json!([{"$patch": "replace"}, {"name": "ONLY", "value": "1"}]),
        _ => {}
    }
    container
}
