//! The rules of `metadata` that hold for every kind: what the server sets, what nobody may change, what is valid.

use jiff::Timestamp;
use rand::Rng as _;
use serde_json::Value;

use crate::field::FieldError;
use crate::names::{self, NameRule};
use crate::object::{Meta, Object};
use crate::registry::{Resource, Scope};
use crate::times;

const ANNOTATION_LIMIT: usize = 256 * 1024;
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";

/// Drops what a client cannot say of a new object, and sets what the server says.
pub(crate) fn begin(object: &mut Object, now: Timestamp) {
    let meta = object.meta_mut();
    for key in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"] {
        meta.remove(key);
    }
    meta.insert("uid".into(), uuid::Uuid::new_v4().to_string().into());
    meta.insert("creationTimestamp".into(), times::seconds(now).into());
}

/// The name made from a `generateName`.
pub(crate) fn generate_name(base: &str) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    const LONGEST_BASE: usize = 58;
    let mut random = rand::rng();
    let suffix =
        (0..5).map(|_| char::from(*ALPHABET.get(random.random_range(0..ALPHABET.len())).unwrap_or(&b'x')));
    base.chars().take(LONGEST_BASE).chain(suffix).collect()
}

/// Keeps from the stored object what an update cannot change or need not say.
pub(crate) fn carry_over(object: &mut Object, old: &Object) {
    object.set_generation(old.generation());
    let old_meta = old.meta().cloned().unwrap_or_default();
    let meta = object.meta_mut();
    meta.remove("selfLink");
    let mut keep = |key: &str, always: bool| match old_meta.get(key) {
        Some(value) if always || !meta.contains_key(key) => {
            meta.insert(key.into(), value.clone());
        }
        _ => {}
    };
    keep("uid", false);
    keep("creationTimestamp", true);
    keep("deletionTimestamp", true);
    keep("deletionGracePeriodSeconds", false);
}

/// What is wrong with the metadata of an object.
pub(crate) fn validate(object: &Object, resource: &Resource) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let generate_name = object.meta_str("generateName");
    if !generate_name.is_empty() {
        for problem in resource.rules.names.check_prefix(generate_name) {
            errors.push(FieldError::invalid("metadata.generateName", generate_name, problem));
        }
    }
    if object.name().is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        for problem in resource.rules.names.check(object.name()) {
            errors.push(FieldError::invalid("metadata.name", object.name(), problem));
        }
    }
    match resource.scope {
        Scope::Namespaced if object.namespace().is_empty() => {
            errors.push(FieldError::required("metadata.namespace", ""));
        }
        Scope::Namespaced => {
            for problem in names::label(object.namespace()) {
                errors.push(FieldError::invalid("metadata.namespace", object.namespace(), problem));
            }
        }
        Scope::Cluster if object.namespace().is_empty() => {}
        Scope::Cluster => {
            errors.push(FieldError::forbidden("metadata.namespace", "not allowed on this type"));
        }
    }
    errors.extend(validate_contents(object));
    if resource.rules.qualified_finalizers {
        for (index, finalizer) in object.finalizers().into_iter().enumerate() {
            errors.extend(unknown_finalizer(&format!("metadata.finalizers[{index}]"), finalizer));
        }
    }
    errors
}

fn validate_contents(object: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_maps(object, &mut errors);
    validate_owners(object, &mut errors);
    validate_finalizers(object, &mut errors);
    validate_managers(object, &mut errors);
    errors
}

/// What is wrong with the metadata of a resource inside of another, which stands at a path. Its name need only fit
/// into a URL, and may be missing.
pub(crate) fn validate_embedded(object: &Object, path: &str) -> Vec<FieldError> {
    let mut errors = validate_contents(object);
    if !object.namespace().is_empty() {
        for problem in names::label(object.namespace()) {
            errors.push(FieldError::invalid("metadata.namespace", object.namespace(), problem));
        }
    }
    for (key, value) in [("generateName", object.meta_str("generateName")), ("name", object.name())] {
        for problem in NameRule::PathSegment.check(value).into_iter().filter(|_| !value.is_empty()) {
            errors.push(FieldError::invalid(format!("metadata.{key}"), value, problem));
        }
    }
    for error in &mut errors {
        error.field = error.field.replacen("metadata", path, 1);
    }
    errors
}

/// What is wrong with how an update changes the metadata.
pub(crate) fn validate_update(object: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if old.is_being_deleted() {
        let before = old.finalizers();
        let mut new: Vec<&str> =
            object.finalizers().into_iter().filter(|finalizer| !before.contains(finalizer)).collect();
        new.sort_unstable();
        if !new.is_empty() {
            let quoted: Vec<String> = new.iter().map(|finalizer| format!("{finalizer:?}")).collect();
            errors.push(FieldError::forbidden(
                "metadata.finalizers",
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    quoted.join(", ")
                ),
            ));
        }
    }
    for key in ["name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let value = |object: &Object| object.meta().and_then(|meta| meta.get(key)).cloned();
        if value(object) != value(old) {
            let shown = value(object).unwrap_or_else(|| match key {
                "deletionTimestamp" | "deletionGracePeriodSeconds" => Value::Null,
                _ => "".into(),
            });
            errors.push(FieldError::invalid(format!("metadata.{key}"), shown, "field is immutable"));
        }
    }
    errors
}

fn validate_maps(object: &Object, errors: &mut Vec<FieldError>) {
    let entries = |key: &str| {
        let map = object.meta().and_then(|meta| meta.get(key)).and_then(Value::as_object);
        map.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
    };
    for (key, value) in entries("labels") {
        for problem in names::qualified(key) {
            errors.push(FieldError::invalid("metadata.labels", key, problem));
        }
        for problem in names::label_value(value) {
            errors.push(FieldError::invalid("metadata.labels", value, problem));
        }
    }
    let mut size = 0;
    for (key, value) in entries("annotations") {
        size += key.len() + value.len();
        for problem in names::qualified(&key.to_lowercase()) {
            errors.push(FieldError::invalid("metadata.annotations", key, problem));
        }
    }
    if size > ANNOTATION_LIMIT {
        errors.push(FieldError::too_long("metadata.annotations", ANNOTATION_LIMIT));
    }
}

fn validate_owners(object: &Object, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "metadata.ownerReferences";
    let owners = object.meta().and_then(|meta| meta.get("ownerReferences")).and_then(Value::as_array);
    let mut controller: Option<String> = None;
    let mut several = false;
    for owner in owners.into_iter().flatten() {
        let text = |key: &str| owner.get(key).and_then(Value::as_str).unwrap_or_default();
        // `v1` or `group/v1`; anything else has no version.
        let mut parts = text("apiVersion").split('/').rev();
        let version = parts.next().unwrap_or_default();
        if version.is_empty() || parts.count() > 1 {
            let field = format!("{FIELD}.apiVersion");
            errors.push(FieldError::invalid(field, text("apiVersion"), "version must not be empty"));
        }
        for key in ["kind", "name", "uid"] {
            if text(key).is_empty() {
                errors.push(FieldError::invalid(format!("{FIELD}.{key}"), "", "must not be empty"));
            }
        }
        if text("apiVersion") == "v1" && text("kind") == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(FIELD, owner.clone(), detail));
        }
        if owner.get("controller").and_then(Value::as_bool) == Some(true) {
            let this = format!("{}/{}", text("kind"), text("name"));
            match &controller {
                // Said once: the error quotes the whole list.
                Some(_) if several => {}
                Some(first) => {
                    several = true;
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                    );
                    errors.push(FieldError::invalid(FIELD, owners.cloned().unwrap_or_default(), detail));
                }
                None => controller = Some(this),
            }
        }
    }
}

/// A finalizer without a domain must be one that Kubernetes itself has.
pub(crate) fn unknown_finalizer(field: &str, finalizer: &str) -> Option<FieldError> {
    let known = finalizer.contains('/') || matches!(finalizer, "kubernetes" | ORPHAN | FOREGROUND);
    let detail = "name is neither a standard finalizer name nor is it fully qualified";
    (!known).then(|| FieldError::invalid(field, finalizer, detail))
}

fn validate_finalizers(object: &Object, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "metadata.finalizers";
    let finalizers = object.finalizers();
    for finalizer in &finalizers {
        for problem in names::qualified(finalizer) {
            errors.push(FieldError::invalid(FIELD, *finalizer, problem));
        }
    }
    if finalizers.contains(&FOREGROUND) && finalizers.contains(&ORPHAN) {
        let value: Vec<Value> = finalizers.iter().map(|finalizer| Value::from(*finalizer)).collect();
        let detail = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        errors.push(FieldError::invalid(FIELD, value, detail));
    }
}

/// What a client may say of who owns what. Entries that make no sense were left out before.
fn validate_managers(object: &Object, errors: &mut Vec<FieldError>) {
    const LONGEST_SUBRESOURCE: usize = 256;
    let entries = object.meta().and_then(|meta| meta.get("managedFields")).and_then(Value::as_array);
    for (at, entry) in entries.into_iter().flatten().enumerate() {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        let field = |key: &str| format!("metadata.managedFields[{at}].{key}");
        if !matches!(text("operation"), "Apply" | "Update") {
            let detail = "must be `Apply` or `Update`";
            errors.push(FieldError::invalid(field("operation"), text("operation"), detail));
        }
        if !matches!(text("fieldsType"), "" | "FieldsV1") {
            errors.push(FieldError::invalid(field("fieldsType"), text("fieldsType"), "must be `FieldsV1`"));
        }
        crate::options::check_field_manager(text("manager"), &field("manager"), errors);
        if text("subresource").len() > LONGEST_SUBRESOURCE {
            errors.push(FieldError::too_long(field("subresource"), LONGEST_SUBRESOURCE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_name_keeps_at_most_58_characters_of_its_base() {
        let name = generate_name(&"a".repeat(80));
        assert_eq!(name.len(), 63);
        assert!(name.starts_with(&"a".repeat(58)));
        assert_ne!(generate_name("x-"), generate_name("x-"));
    }
}
