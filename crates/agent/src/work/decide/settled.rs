//! Whether an object already is as an apply would make it: it has every value, and the fields that are owned by our name
//! are exactly those that would be applied. Then nothing needs to be written. Where the server keeps a value in other
//! words (`1000m` as `1`), the answer is no, and an apply that changes nothing is all it costs; the [`digest`] of what
//! came of it is remembered, so that it is not tried again.

use std::hash::{DefaultHasher, Hasher};
use std::io;

use serde_json::{Map, Value};

/// Whether `live` is what applying `wanted` by a name would make of it.
pub(crate) fn is_settled(wanted: &Value, live: &Value, manager: &str) -> bool {
    let Some(fields) = owned(wanted, live, manager) else { return false };
    let Some(wanted) = wanted.as_object() else { return false };
    let applied = wanted.iter().filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind"));
    let mut applied = applied.map(|(name, value)| (name.as_str(), value));
    applied.all(|(name, value)| {
        let (Some(live), Some(fields)) = (live.get(name), fields.get(&format!("f:{name}"))) else {
            // Of an object that says nothing but its name, nothing is owned.
            return name == "metadata" && is_name_alone(value);
        };
        if name == "metadata" {
            metadata_is_settled(value, live, fields)
        } else {
            matches(value, live, fields)
        }
    }) && fields
        .keys()
        .all(|field| field == "." || field_name(field).is_some_and(|name| wanted.contains_key(name)))
}

fn metadata_is_settled(wanted: &Value, live: &Value, fields: &Value) -> bool {
    let mut wanted = wanted.clone();
    if let Some(wanted) = wanted.as_object_mut() {
        wanted.retain(|name, _| !is_identity(name));
    }
    matches(&wanted, live, fields)
}

fn is_name_alone(metadata: &Value) -> bool {
    metadata.as_object().is_some_and(|metadata| metadata.keys().all(|name| is_identity(name)))
}

fn is_identity(name: &str) -> bool {
    matches!(name, "name" | "namespace")
}

/// The fields that the name has applied, in the version of what is wanted.
fn owned<'v>(wanted: &Value, live: &'v Value, manager: &str) -> Option<&'v Map<String, Value>> {
    let text = |entry: &'v Value, member: &str| entry.get(member).and_then(Value::as_str).unwrap_or_default();
    let entries = live.pointer("/metadata/managedFields")?.as_array()?;
    let entry = entries.iter().find(|entry| {
        text(entry, "manager") == manager
            && text(entry, "operation") == "Apply"
            && text(entry, "subresource").is_empty()
    })?;
    let same_version = entry.get("apiVersion") == wanted.get("apiVersion");
    same_version.then(|| entry.get("fieldsV1")?.as_object()).flatten()
}

/// Whether a live value is as wanted, where exactly these fields of it are owned.
fn matches(wanted: &Value, live: &Value, fields: &Value) -> bool {
    let Some(fields) = fields.as_object().filter(|fields| fields.keys().any(|field| field != ".")) else {
        // Owned as a whole.
        return includes(wanted, live);
    };
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => {
            let all_there = wanted.iter().all(|(name, value)| {
                let (live, fields) = (live.get(name), fields.get(&format!("f:{name}")));
                match (live, fields) {
                    (Some(live), Some(fields)) => matches(value, live, fields),
                    (live, None) => value.is_null() && live.is_none_or(Value::is_null),
                    (None, Some(_)) => value.is_null(),
                }
            });
            let owned = fields.keys().filter(|field| *field != ".");
            let mut owned = owned.map(|field| field_name(field));
            all_there && owned.all(|name| name.is_some_and(|name| wanted.contains_key(name)))
        }
        (Value::Array(wanted), Value::Array(live)) => list_matches(wanted, live, fields),
        _ => false,
    }
}

/// A list of which items are owned: by their keys, or by their values.
fn list_matches(wanted: &[Value], live: &[Value], fields: &Map<String, Value>) -> bool {
    let mut claimed = 0_usize;
    for (field, inner) in fields.iter().filter(|(field, _)| *field != ".") {
        let found = if let Some(keys) = field.strip_prefix("k:").and_then(parsed) {
            let item = wanted.iter().find(|item| agrees(&keys, item, Missing::Fits));
            let of_live = live.iter().find(|item| agrees(&keys, item, Missing::Differs));
            item.zip(of_live).is_some_and(|(item, of_live)| matches(item, of_live, inner))
        } else if let Some(value) = field.strip_prefix("v:").and_then(parsed) {
            wanted.contains(&value) && live.contains(&value)
        } else {
            false
        };
        if !found {
            return false;
        }
        claimed += 1;
    }
    claimed == wanted.len()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// The server fills in a key that an item leaves out.
    Fits,
    Differs,
}

fn agrees(keys: &Value, item: &Value, missing: Missing) -> bool {
    let keys = keys.as_object().into_iter().flatten();
    keys.into_iter().all(|(name, key)| match item.get(name) {
        Some(value) => same(value, key),
        None => missing == Missing::Fits,
    })
}

/// Whether all that is wanted is in a live value; the server may have filled in more.
fn includes(wanted: &Value, live: &Value) -> bool {
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => {
            wanted.iter().all(|(name, value)| match live.get(name) {
                Some(live) => includes(value, live),
                None => value.is_null(),
            })
        }
        (Value::Array(wanted), Value::Array(live)) => {
            wanted.len() == live.len() && wanted.iter().zip(live).all(|(wanted, live)| includes(wanted, live))
        }
        (wanted, live) => same(wanted, live),
    }
}

fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (one, other) => one == other,
    }
}

fn field_name(field: &str) -> Option<&str> {
    field.strip_prefix("f:")
}

fn parsed(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

/// What of an object can be undone: all but its status, and what the server counts in its metadata.
pub(crate) fn digest(live: &Value) -> u64 {
    let mut sum = Sum(DefaultHasher::new());
    for (name, value) in live.as_object().into_iter().flatten().filter(|(name, _)| *name != "status") {
        if name == "metadata" {
            let counted = ["resourceVersion", "managedFields", "generation"];
            let kept = value.as_object().into_iter().flatten();
            for (name, value) in kept.filter(|(name, _)| !counted.contains(&name.as_str())) {
                sum.add(name, value);
            }
        } else {
            sum.add(name, value);
        }
    }
    sum.0.finish()
}

struct Sum(DefaultHasher);

impl Sum {
    fn add(&mut self, name: &str, value: &Value) {
        self.0.write(name.as_bytes());
        // It is written to memory: it cannot fail.
        let _ = serde_json::to_writer(self, value);
    }
}

impl io::Write for &mut Sum {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn wanted() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "ns", "labels": {"app": "web"}, "ownerReferences": [{"uid": "u", "name": "o"}]},
            "spec": {"replicas": 2, "template": {"spec": {"containers": [
                {"name": "web", "image": "web:1", "args": ["a", "b"], "ports": [{"containerPort": 80}]},
            ]}}},
        })
    }

    fn live() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "web", "namespace": "ns", "uid": "1", "resourceVersion": "7", "generation": 3,
                "labels": {"app": "web", "theirs": "yes"},
                "ownerReferences": [{"uid": "theirs", "name": "p"}, {"uid": "u", "name": "o"}],
                "managedFields": [
                    {"manager": "kubectl", "operation": "Update", "apiVersion": "apps/v1", "fieldsV1": {}},
                    {"manager": "work-agent", "operation": "Apply", "apiVersion": "apps/v1", "fieldsV1": {
                        "f:metadata": {
                            "f:labels": {"f:app": {}},
                            "f:ownerReferences": {"k:{\"uid\":\"u\"}": {}},
                        },
                        "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {
                            "k:{\"name\":\"web\"}": {".": {}, "f:name": {}, "f:image": {}, "f:args": {}, "f:ports": {
                                "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}},
                            }},
                        }}}},
                    }},
                ],
            },
            "spec": {"replicas": 2, "paused": false, "template": {"spec": {"restartPolicy": "Always", "containers": [
                {"name": "sidecar", "image": "other"},
                {"name": "web", "image": "web:1", "args": ["a", "b"], "tty": false,
                    "ports": [{"containerPort": 80, "protocol": "TCP"}]},
            ]}}},
            "status": {"replicas": 2},
        })
    }

    const OURS: &str = "/metadata/managedFields/1";
    const CONTAINER: &str = "/spec/template/spec/containers/1";

    #[test]
    fn an_object_with_all_values_and_just_our_fields_is_left_alone() {
        assert!(is_settled(&wanted(), &live(), "work-agent"));
        assert!(!is_settled(&wanted(), &live(), "work-agent-other"));
        let named = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}});
        let made = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns", "managedFields": [
            {"manager": "work-agent", "operation": "Apply", "apiVersion": "v1", "fieldsV1": {}},
        ]}, "spec": {"finalizers": ["kubernetes"]}});
        assert!(is_settled(&named, &made, "work-agent"), "an object that says nothing but its name");
    }

    #[test]
    fn what_an_apply_would_change_is_noticed() {
        type Alter = fn(&mut Value, &mut Value);
        let rows: [(&str, Alter); 15] = [
            ("a value changed", |_, live| live["spec"]["replicas"] = json!(5)),
            ("a label is gone", |_, live| live["metadata"]["labels"] = json!({"theirs": "yes"})),
            ("an item changed", |_, live| live.pointer_mut(CONTAINER).unwrap()["image"] = json!("web:2")),
            ("an item is gone", |_, live| {
                live["spec"]["template"]["spec"]["containers"] = json!([{"name": "sidecar"}]);
            }),
            ("a list that is owned as a whole has more", |_, live| {
                live.pointer_mut(CONTAINER).unwrap()["args"] = json!(["a", "b", "c"]);
            }),
            ("or another order", |_, live| {
                live.pointer_mut(CONTAINER).unwrap()["args"] = json!(["b", "a"]);
            }),
            ("the owner is gone", |_, live| live["metadata"]["ownerReferences"] = json!([])),
            ("a field is new", |wanted, live| {
                wanted["spec"]["paused"] = json!(false);
                live["spec"]["paused"] = json!(false);
            }),
            ("a field is no longer wanted", |wanted, _| {
                wanted["spec"].as_object_mut().unwrap().remove("replicas");
            }),
            ("an item is no longer wanted", |wanted, _| {
                wanted["spec"]["template"]["spec"]["containers"] = json!([]);
            }),
            ("an item is new", |wanted, _| {
                wanted["spec"]["template"]["spec"]["containers"]
                    .as_array_mut()
                    .unwrap()
                    .push(json!({"name": "sidecar"}));
            }),
            ("a section is no longer wanted", |wanted, _| {
                wanted.as_object_mut().unwrap().remove("spec");
            }),
            ("somebody took a field", |_, live| {
                live.pointer_mut(OURS).unwrap()["fieldsV1"]["f:spec"]
                    .as_object_mut()
                    .unwrap()
                    .remove("f:replicas");
            }),
            ("it was applied in another version", |_, live| {
                live.pointer_mut(OURS).unwrap()["apiVersion"] = json!("apps/v1beta1");
            }),
            ("nobody says who owns what", |_, live| {
                live["metadata"].as_object_mut().unwrap().remove("managedFields");
            }),
        ];
        for (sentence, alter) in rows {
            let (mut wanted, mut live) = (wanted(), live());
            alter(&mut wanted, &mut live);
            assert!(!is_settled(&wanted, &live, "work-agent"), "{sentence}");
        }
    }

    #[test]
    fn a_set_is_compared_by_its_values() {
        let finalizers = |of: &[&str]| json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "finalizers": of}});
        let live = |of: &[&str], ours: &[&str]| {
            let fields: Map<String, Value> =
                ours.iter().map(|text| (format!("v:{text:?}"), json!({}))).collect();
            json!({"metadata": {"finalizers": of, "managedFields": [
                {"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsV1": {"f:metadata": {"f:finalizers": fields}}},
            ]}})
        };
        assert!(is_settled(&finalizers(&["a"]), &live(&["b", "a"], &["a"]), "m"));
        assert!(!is_settled(&finalizers(&["a"]), &live(&["b"], &["a"]), "m"));
        assert!(!is_settled(&finalizers(&["a", "b"]), &live(&["b", "a"], &["a"]), "m"));
        assert!(!is_settled(&finalizers(&["a"]), &live(&["b", "a"], &["a", "b"]), "m"));
    }

    #[test]
    fn a_digest_is_of_what_can_be_undone() {
        type Alter = fn(&mut Value);
        let same: [Alter; 4] = [
            |live| live["status"] = json!({"replicas": 1}),
            |live| live["metadata"]["resourceVersion"] = json!("8"),
            |live| live["metadata"]["generation"] = json!(4),
            |live| live["metadata"]["managedFields"] = json!([]),
        ];
        for alter in same {
            let mut altered = live();
            alter(&mut altered);
            assert_eq!(digest(&altered), digest(&live()));
        }
        let others: [Alter; 3] = [
            |live| live["spec"]["replicas"] = json!(1),
            |live| live["metadata"]["labels"]["app"] = json!("x"),
            |live| live["metadata"]["ownerReferences"] = json!([]),
        ];
        for alter in others {
            let mut altered = live();
            alter(&mut altered);
            assert_ne!(digest(&altered), digest(&live()));
        }
    }

    /// What an apply of a value owns, where all maps are merged by their keys.
    fn fields_of(value: &Value) -> Value {
        let fields = value.as_object().into_iter().flatten();
        Value::Object(fields.map(|(name, value)| (format!("f:{name}"), fields_of(value))).collect())
    }

    fn applied(spec: &Value, extra: &Value) -> Value {
        let mut live = json!({"spec": spec, "metadata": {"managedFields": [
            {"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsV1": fields_of(&json!({"spec": spec}))},
        ]}});
        if let (Some(live), Some(extra)) = (live["spec"].as_object_mut(), extra.as_object()) {
            for (name, value) in extra {
                live.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        live
    }

    fn leaves(value: &Value, at: &str) -> Vec<String> {
        match value.as_object().filter(|fields| !fields.is_empty()) {
            Some(fields) => {
                fields.iter().flat_map(|(name, value)| leaves(value, &format!("{at}/{name}"))).collect()
            }
            None => vec![at.to_owned()],
        }
    }

    fn documents() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0..9_i64).prop_map(Value::from),
            "[a-z]{1,3}".prop_map(Value::from),
        ];
        let level = |inner: BoxedStrategy<Value>| {
            proptest::collection::btree_map("[a-d]", inner, 1..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect()))
        };
        let inner = leaf.prop_recursive(3, 12, 3, move |inner| level(inner.boxed()));
        proptest::collection::btree_map("[a-d]", inner, 1..4)
            .prop_map(|fields| Value::Object(fields.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn what_was_applied_is_settled_until_any_of_it_changes(
            spec in documents(), extra in documents(), pick in any::<proptest::sample::Index>(),
        ) {
            let wanted = |spec: &Value| json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec});
            let live = applied(&spec, &extra);
            prop_assert!(is_settled(&wanted(&spec), &live, "m"));
            let all = leaves(&spec, "");
            let leaf = pick.get(&all);
            let mut drifted = live.clone();
            *drifted["spec"].pointer_mut(leaf).unwrap() = json!("another");
            prop_assert!(!is_settled(&wanted(&spec), &drifted, "m"), "changed {leaf}");
            let mut less = spec.clone();
            let (parent, name) = leaf.rsplit_once('/').unwrap();
            less.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
            prop_assert!(!is_settled(&wanted(&less), &live, "m"), "no longer wants {leaf}");
            let mut more = spec.clone();
            more.as_object_mut().unwrap().insert("new".into(), json!(1));
            prop_assert!(!is_settled(&wanted(&more), &live, "m"));
        }
    }
}
