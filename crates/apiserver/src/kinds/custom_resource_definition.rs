//! CustomResourceDefinition: a kind that makes kinds. What it makes the server serve is decided in `crd`.

use serde_json::{Map, Value, json};

use super::keep_status_apart;
use crate::crd::{self, Candidate};
use crate::field::FieldError;
use crate::object::{Meta, Object};
use crate::registry::{Change, Generations, Resource, Rules, Subresource};
use crate::table::{created_at, name};

pub(super) fn own(resource: Resource) -> Resource {
    Resource {
        columns: vec![name(), created_at()],
        rules: Rules {
            unconditional_update: false,
            generations: Generations::Content,
            qualified_finalizers: false,
            cleanup_finalizer: Some(crd::CLEANUP),
            default,
            prepare_create,
            prepare_update,
            validate,
            warn,
            ..Rules::default()
        },
        ..resource
    }
}

fn default(object: &mut Object, _: &Resource) {
    default_stored_versions(object);
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
    for version in spec.get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") {
            crate::schema::drop_nulls(schema);
        }
    }
    let conversion = spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    if let Value::Object(conversion) = conversion {
        conversion.entry("strategy").or_insert_with(|| "None".into());
    }
}

/// Something is always stored: in the storage version, if nobody says otherwise.
fn default_stored_versions(object: &mut Object) {
    let storage = storage_version(object);
    let Some(Value::Object(status)) = object.get_mut("status") else { return };
    let none = status.get("storedVersions").and_then(Value::as_array).is_none_or(Vec::is_empty);
    if let Some(storage) = storage.filter(|_| none) {
        status.insert("storedVersions".into(), json!([storage]));
    }
}

/// A new definition is stored in its storage version; its names are accepted by the controller.
fn prepare_create(object: &mut Object, _: &Resource) {
    let stored: Vec<Value> = storage_version(object).into_iter().map(Value::from).collect();
    object.insert(
        "status".into(),
        json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored}),
    );
}

/// The storage version; the first, if a definition that is about to be refused names several.
fn storage_version(object: &Object) -> Option<String> {
    let versions = crate::object::lookup(object, "spec.versions").and_then(Value::as_array);
    let mut storage = versions.into_iter().flatten().filter(|version| version["storage"] == true);
    storage.next().and_then(|version| version["name"].as_str().map(str::to_owned))
}

/// Whatever was once the storage version is noted down, until somebody says that nothing is stored in it any more.
fn prepare_update(object: &mut Object, change: Change<'_>) {
    keep_status_apart(object, change);
    if change.subresource == Some(Subresource::Status) {
        return;
    }
    let storage = storage_version(object);
    let Some(Value::Object(status)) = object.get_mut("status") else { return };
    let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
    if let (Value::Array(stored), Some(storage)) = (stored, storage)
        && !stored.iter().any(|version| *version == storage.as_str())
    {
        stored.push(storage.into());
    }
}

fn candidate(object: &Object) -> Option<Candidate<'_>> {
    Some(Candidate {
        name: object.name(),
        spec: object.get("spec")?.as_object()?,
        annotations: crate::object::lookup(object, "metadata.annotations").and_then(Value::as_object),
        status: object.get("status").and_then(Value::as_object),
    })
}

fn validate(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    if change.subresource == Some(Subresource::Status) {
        return crd::check_status(object.get("status").and_then(Value::as_object));
    }
    match (candidate(object), change.old.and_then(candidate)) {
        (Some(new), None) => crd::check(new),
        (Some(new), Some(old)) => crd::check_update(new, old),
        (None, _) => Vec::new(),
    }
}

/// Formats that mean nothing are pointed out once.
fn warn(object: &Object, change: Change<'_>) -> Vec<String> {
    let formats = |object: &Object| {
        object.get("spec").and_then(Value::as_object).map(crd::unrecognised_formats).unwrap_or_default()
    };
    let known = change.old.map(formats).unwrap_or_default();
    let new = formats(object).into_iter().filter(|format| !known.contains(format));
    match change.subresource {
        Some(_) => Vec::new(),
        None => new.map(|format| format!("unrecognized format {format:?}")).collect(),
    }
}
