//! Detects drift: whether an object already is as a server-side apply would make it. It is if it has every applied
//! value, and our field manager owns exactly the applied fields. Then nothing is written.
//!
//! If the server stores a value in another form (`1000m` as `1`), the object seems to have drifted, and one apply that
//! changes nothing is sent. The [`digest`] of its result is kept, so that it is not repeated.

use std::hash::{DefaultHasher, Hasher};
use std::io;

use serde_json::{Map, Value};

/// Whether applying `wanted` as a field manager would not change `live`.
pub(crate) fn is_up_to_date(wanted: &Value, live: &Value, field_manager: &str) -> bool {
    let Some(fields) = managed_fields(wanted, live, field_manager) else { return false };
    let Some(wanted) = wanted.as_object() else { return false };
    let applied = wanted.iter().filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind"));
    let mut applied = applied.map(|(name, value)| (name.as_str(), value));
    applied.all(|(name, value)| {
        let (Some(live), Some(fields)) = (live.get(name), fields.get(&format!("f:{name}"))) else {
            // If the applied metadata has only a name, no field of it is owned.
            return name == "metadata" && has_only_identity(value);
        };
        if name == "metadata" {
            metadata_matches(value, live, fields)
        } else {
            value_matches(value, live, fields)
        }
    }) && fields
        .keys()
        .all(|field| field == "." || field_name(field).is_some_and(|name| wanted.contains_key(name)))
}

fn metadata_matches(wanted: &Value, live: &Value, fields: &Value) -> bool {
    let mut wanted = wanted.clone();
    if let Some(wanted) = wanted.as_object_mut() {
        wanted.retain(|name, _| !is_identity(name));
    }
    value_matches(&wanted, live, fields)
}

fn has_only_identity(metadata: &Value) -> bool {
    metadata.as_object().is_some_and(|metadata| metadata.keys().all(|name| is_identity(name)))
}

fn is_identity(name: &str) -> bool {
    matches!(name, "name" | "namespace")
}

/// The fields that the field manager has applied, in the apiVersion of the wanted object.
fn managed_fields<'v>(
    wanted: &Value,
    live: &'v Value,
    field_manager: &str,
) -> Option<&'v Map<String, Value>> {
    let text = |entry: &'v Value, field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
    let entries = live.pointer("/metadata/managedFields")?.as_array()?;
    let entry = entries.iter().find(|entry| {
        text(entry, "manager") == field_manager
            && text(entry, "operation") == "Apply"
            && text(entry, "subresource").is_empty()
    })?;
    let is_same_version = entry.get("apiVersion") == wanted.get("apiVersion");
    is_same_version.then(|| entry.get("fieldsV1")?.as_object()).flatten()
}

/// Whether a live value is as wanted, and exactly the wanted fields of it are owned.
fn value_matches(wanted: &Value, live: &Value, fields: &Value) -> bool {
    let Some(fields) = fields.as_object().filter(|fields| fields.keys().any(|field| field != ".")) else {
        // The value is owned as a whole.
        return includes(wanted, live);
    };
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => {
            let has_all_values = wanted.iter().all(|(name, value)| {
                let (live, fields) = (live.get(name), fields.get(&format!("f:{name}")));
                match (live, fields) {
                    (Some(live), Some(fields)) => value_matches(value, live, fields),
                    (live, None) => value.is_null() && live.is_none_or(Value::is_null),
                    (None, Some(_)) => value.is_null(),
                }
            });
            let owned = fields.keys().filter(|field| *field != ".");
            let mut owned = owned.map(|field| field_name(field));
            has_all_values && owned.all(|name| name.is_some_and(|name| wanted.contains_key(name)))
        }
        (Value::Array(wanted), Value::Array(live)) => list_matches(wanted, live, fields),
        _ => false,
    }
}

/// Compares a list whose items are owned one by one: by their keys (`k:`) or by their values (`v:`).
fn list_matches(wanted: &[Value], live: &[Value], fields: &Map<String, Value>) -> bool {
    let mut owned_items = 0_usize;
    for (field, inner) in fields.iter().filter(|(field, _)| *field != ".") {
        let is_match = if let Some(keys) = field.strip_prefix("k:").and_then(parse_json) {
            let wanted_item = wanted.iter().find(|item| has_keys(item, &keys, MissingKey::Matches));
            let live_item = live.iter().find(|item| has_keys(item, &keys, MissingKey::Differs));
            wanted_item.zip(live_item).is_some_and(|(wanted, live)| value_matches(wanted, live, inner))
        } else if let Some(value) = field.strip_prefix("v:").and_then(parse_json) {
            wanted.contains(&value) && live.contains(&value)
        } else {
            false
        };
        if !is_match {
            return false;
        }
        owned_items += 1;
    }
    owned_items == wanted.len()
}

/// How to compare a key that an item does not have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MissingKey {
    /// It matches every value, because the server fills in a default.
    Matches,
    Differs,
}

fn has_keys(item: &Value, keys: &Value, missing: MissingKey) -> bool {
    let keys = keys.as_object().into_iter().flatten();
    keys.into_iter().all(|(name, key)| match item.get(name) {
        Some(value) => is_equal(value, key),
        None => missing == MissingKey::Matches,
    })
}

/// Whether a live value includes everything that is wanted. It may have more, which the server has filled in.
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
        (wanted, live) => is_equal(wanted, live),
    }
}

fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (one, other) => one == other,
    }
}

fn field_name(field: &str) -> Option<&str> {
    field.strip_prefix("f:")
}

fn parse_json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

/// A hash of the parts of an object that an apply can revert: all but its status, and the metadata that the server
/// counts.
pub(crate) fn digest(live: &Value) -> u64 {
    let mut hasher = JsonHasher(DefaultHasher::new());
    for (name, value) in live.as_object().into_iter().flatten().filter(|(name, _)| *name != "status") {
        if name == "metadata" {
            let ignored = ["resourceVersion", "managedFields", "generation"];
            let metadata = value.as_object().into_iter().flatten();
            for (name, value) in metadata.filter(|(name, _)| !ignored.contains(&name.as_str())) {
                hasher.add(name, value);
            }
        } else {
            hasher.add(name, value);
        }
    }
    hasher.0.finish()
}

struct JsonHasher(DefaultHasher);

impl JsonHasher {
    fn add(&mut self, name: &str, value: &Value) {
        self.0.write(name.as_bytes());
        // Writing to memory cannot fail.
        let _ = serde_json::to_writer(self, value);
    }
}

impl io::Write for &mut JsonHasher {
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
    fn object_with_all_values_and_exactly_our_fields_is_up_to_date() {
        assert!(is_up_to_date(&wanted(), &live(), "work-agent"));
        assert!(!is_up_to_date(&wanted(), &live(), "work-agent-other"));
        let named = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}});
        let created = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns", "managedFields": [
            {"manager": "work-agent", "operation": "Apply", "apiVersion": "v1", "fieldsV1": {}},
        ]}, "spec": {"finalizers": ["kubernetes"]}});
        assert!(is_up_to_date(&named, &created, "work-agent"), "a manifest with only a name");
    }

    #[test]
    fn drift_is_detected() {
        type Alter = fn(&mut Value, &mut Value);
        let rows: [(&str, Alter); 15] = [
            ("a value changed", |_, live| live["spec"]["replicas"] = json!(5)),
            ("a label was removed", |_, live| live["metadata"]["labels"] = json!({"theirs": "yes"})),
            ("an item changed", |_, live| live.pointer_mut(CONTAINER).unwrap()["image"] = json!("web:2")),
            ("an item was removed", |_, live| {
                live["spec"]["template"]["spec"]["containers"] = json!([{"name": "sidecar"}]);
            }),
            ("an atomic list has more items", |_, live| {
                live.pointer_mut(CONTAINER).unwrap()["args"] = json!(["a", "b", "c"]);
            }),
            ("an atomic list has another order", |_, live| {
                live.pointer_mut(CONTAINER).unwrap()["args"] = json!(["b", "a"]);
            }),
            ("the owner was removed", |_, live| live["metadata"]["ownerReferences"] = json!([])),
            ("a field was added to the manifest", |wanted, live| {
                wanted["spec"]["paused"] = json!(false);
                live["spec"]["paused"] = json!(false);
            }),
            ("a field was removed from the manifest", |wanted, _| {
                wanted["spec"].as_object_mut().unwrap().remove("replicas");
            }),
            ("an item was removed from the manifest", |wanted, _| {
                wanted["spec"]["template"]["spec"]["containers"] = json!([]);
            }),
            ("an item was added to the manifest", |wanted, _| {
                wanted["spec"]["template"]["spec"]["containers"]
                    .as_array_mut()
                    .unwrap()
                    .push(json!({"name": "sidecar"}));
            }),
            ("a section was removed from the manifest", |wanted, _| {
                wanted.as_object_mut().unwrap().remove("spec");
            }),
            ("another field manager took over a field", |_, live| {
                live.pointer_mut(OURS).unwrap()["fieldsV1"]["f:spec"]
                    .as_object_mut()
                    .unwrap()
                    .remove("f:replicas");
            }),
            ("the object was applied in another version", |_, live| {
                live.pointer_mut(OURS).unwrap()["apiVersion"] = json!("apps/v1beta1");
            }),
            ("the object has no managedFields", |_, live| {
                live["metadata"].as_object_mut().unwrap().remove("managedFields");
            }),
        ];
        for (case, alter) in rows {
            let (mut wanted, mut live) = (wanted(), live());
            alter(&mut wanted, &mut live);
            assert!(!is_up_to_date(&wanted, &live, "work-agent"), "{case}");
        }
    }

    #[test]
    fn set_is_compared_by_its_values() {
        let finalizers = |of: &[&str]| json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "finalizers": of}});
        let live = |of: &[&str], ours: &[&str]| {
            let fields: Map<String, Value> =
                ours.iter().map(|text| (format!("v:{text:?}"), json!({}))).collect();
            json!({"metadata": {"finalizers": of, "managedFields": [
                {"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsV1": {"f:metadata": {"f:finalizers": fields}}},
            ]}})
        };
        assert!(is_up_to_date(&finalizers(&["a"]), &live(&["b", "a"], &["a"]), "m"));
        assert!(!is_up_to_date(&finalizers(&["a"]), &live(&["b"], &["a"]), "m"));
        assert!(!is_up_to_date(&finalizers(&["a", "b"]), &live(&["b", "a"], &["a"]), "m"));
        assert!(!is_up_to_date(&finalizers(&["a"]), &live(&["b", "a"], &["a", "b"]), "m"));
    }

    #[test]
    fn digest_covers_only_what_an_apply_can_revert() {
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

    /// The fields that an apply of a value owns, if all maps are merged by their keys.
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
        fn applied_object_is_up_to_date_until_any_value_changes(
            spec in documents(), extra in documents(), pick in any::<proptest::sample::Index>(),
        ) {
            let wanted = |spec: &Value| json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec});
            let live = applied(&spec, &extra);
            prop_assert!(is_up_to_date(&wanted(&spec), &live, "m"));
            let all = leaves(&spec, "");
            let leaf = pick.get(&all);
            let mut drifted = live.clone();
            *drifted["spec"].pointer_mut(leaf).unwrap() = json!("another");
            prop_assert!(!is_up_to_date(&wanted(&spec), &drifted, "m"), "changed {leaf}");
            let mut less = spec.clone();
            let (parent, name) = leaf.rsplit_once('/').unwrap();
            less.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
            prop_assert!(!is_up_to_date(&wanted(&less), &live, "m"), "removed {leaf} from the manifest");
            let mut more = spec.clone();
            more.as_object_mut().unwrap().insert("new".into(), json!(1));
            prop_assert!(!is_up_to_date(&wanted(&more), &live, "m"));
        }
    }
}
