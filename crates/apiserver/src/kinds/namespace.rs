//! Namespace: its phase follows its deletion, and its spec has finalizers of its own that only `/finalize` changes.

use serde_json::{Map, Value, json};

use crate::field::FieldError;
use crate::meta;
use crate::names::{self, NameRule};
use crate::object::{Meta, Object, lookup, text};
use crate::registry::{Change, Resource, Rules, Subresource};
use crate::selector::Selectable;
use crate::table::{Column, age, name};

/// The phase of a namespace that is being emptied.
pub(crate) const TERMINATING: &str = "Terminating";
const ACTIVE: &str = "Active";
/// The finalizer that stands for the objects in the namespace.
const CONTENT: &str = "kubernetes";

pub(super) fn own(resource: Resource) -> Resource {
    let rules = Rules {
        names: NameRule::Label,
        returns_deleted: true,
        deletes_collections: false,
        default,
        prepare_create,
        prepare_update,
        validate,
        ..Rules::default()
    };
    Resource {
        selectable: vec![Selectable::at("status.phase", &["status.phase"])],
        columns: vec![name(), Column::text("Status", |object, _| text(object, "status.phase").into()), age()],
        rules,
        ..resource
    }
}

/// The label that lets selectors find a namespace by its name.
fn default(object: &mut Object, _: &Resource) {
    let name = object.name().to_owned();
    if name.is_empty() {
        return;
    }
    let labels = object.meta_mut().entry("labels").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(labels) = labels {
        labels.insert("kubernetes.io/metadata.name".into(), name.into());
    }
}

fn spec_finalizers(object: &Object) -> Vec<Value> {
    lookup(object, "spec.finalizers").and_then(Value::as_array).cloned().unwrap_or_default()
}

fn prepare_create(object: &mut Object, _: &Resource) {
    let mut finalizers = spec_finalizers(object);
    if !finalizers.iter().any(|finalizer| finalizer == CONTENT) {
        finalizers.push(CONTENT.into());
    }
    object.insert("spec".into(), json!({"finalizers": finalizers}));
    object.insert("status".into(), json!({"phase": ACTIVE}));
}

fn prepare_update(object: &mut Object, change: Change<'_>) {
    let mut keep = |key: &str| change.keep(object, key);
    match change.subresource {
        None => {
            keep("spec");
            keep("status");
        }
        Some(Subresource::Status | Subresource::Scale | Subresource::Token | Subresource::Approval) => {
            keep("spec")
        }
        Some(Subresource::Finalize) => keep("status"),
    }
}

fn validate(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, finalizer) in spec_finalizers(object).iter().filter_map(Value::as_str).enumerate() {
        let field = match change.subresource {
            Some(Subresource::Finalize) => format!("spec.finalizers[{index}]"),
            _ => "spec.finalizers".to_owned(),
        };
        for problem in names::qualified(finalizer) {
            errors.push(FieldError::invalid(&field, finalizer, problem));
        }
        errors.extend(meta::unknown_finalizer(&field, finalizer));
    }
    if change.subresource == Some(Subresource::Status) {
        let phase = text(object, "status.phase");
        let (wanted, when) =
            if object.is_being_deleted() { (TERMINATING, "is not empty") } else { (ACTIVE, "is empty") };
        if phase != wanted {
            let detail = format!("may only be '{wanted}' if `deletionTimestamp` {when}");
            errors.push(FieldError::invalid("status.Phase", phase, detail));
        }
    }
    errors
}
