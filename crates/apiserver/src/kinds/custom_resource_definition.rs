//! CustomResourceDefinition: a kind that makes kinds. What it makes the server serve is decided in `crd`.

use serde_json::{Map, Value, json};

use super::keep_status_apart;
use crate::crd;
use crate::field::FieldError;
use crate::object::{Meta, Object, text};
use crate::registry::{Change, Generations, Resource, Rules, Subresource};
use crate::table::{created_at, name};

pub(super) fn own(resource: Resource) -> Resource {
    Resource {
        columns: vec![name(), created_at()],
        rules: Rules {
            unconditional_update: false,
            generations: Generations::Content,
            cleanup_finalizer: Some(crd::CLEANUP),
            default,
            prepare_create,
            prepare_update: keep_status_apart,
            validate,
            ..Rules::default()
        },
        ..resource
    }
}

fn default(object: &mut Object, _: &Resource) {
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    if let Some(Value::Object(names)) = spec.get_mut("names") {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let fill = |names: &mut Map<String, Value>, key: &str, value: String| {
            if names.get(key).and_then(Value::as_str).unwrap_or_default().is_empty() && !kind.is_empty() {
                names.insert(key.into(), value.into());
            }
        };
        fill(names, "singular", kind.to_lowercase());
        fill(names, "listKind", format!("{kind}List"));
    }
    let conversion = spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    if let Value::Object(conversion) = conversion {
        conversion.entry("strategy").or_insert_with(|| "None".into());
    }
}

/// A new definition is stored in its storage version; its names are accepted by the controller.
fn prepare_create(object: &mut Object, _: &Resource) {
    let stored: Vec<Value> = storage_versions(object).into_iter().map(Value::from).collect();
    object.insert(
        "status".into(),
        json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored}),
    );
}

fn storage_versions(object: &Object) -> Vec<String> {
    let versions = crate::object::lookup(object, "spec.versions").and_then(Value::as_array);
    let storage = versions.into_iter().flatten().filter(|version| version["storage"] == true);
    storage.filter_map(|version| version["name"].as_str().map(str::to_owned)).collect()
}

fn validate(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    if change.subresource == Some(Subresource::Status) {
        return Vec::new();
    }
    let none = Map::new();
    let spec = object.get("spec").and_then(Value::as_object).unwrap_or(&none);
    let annotations = crate::object::lookup(object, "metadata.annotations").and_then(Value::as_object);
    let mut errors = crd::check(object.name(), spec, annotations);
    if let Some(old) = change.old {
        for path in ["spec.group", "spec.scope", "spec.names.plural", "spec.names.kind"] {
            if text(object, path) != text(old, path) {
                errors.push(FieldError::invalid(path, text(object, path), "field is immutable"));
            }
        }
    }
    errors
}
