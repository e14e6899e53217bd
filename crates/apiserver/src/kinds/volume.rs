//! PersistentVolume and PersistentVolumeClaim: stored, defaulted, checked and printed. Nothing binds one to the other.

use serde_json::Value;

use super::cells::or;
use super::check::{Check, count, items};
use super::defaults::{Row, To, fill};
use super::workload::validate_selector;
use super::{blank_status, keep_status_apart};
use crate::field::FieldError;
use crate::names;
use crate::object::{Meta, Object, lookup, text};
use crate::quantity::Quantity;
use crate::registry::{Change, Resource, Rules, Subresource};
use crate::table::{Column, age, name};

/// The ways to use a volume, in the order in which they are shown.
const MODES: [(&str, &str); 4] = [
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
];
const SINGLE: &str = "ReadWriteOncePod";

pub(super) fn volume(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::text("Capacity", |object, _| or(text(object, "spec.capacity.storage"), "0")),
            Column::text("Access Modes", |object, _| modes(object, "spec.accessModes").into()),
            Column::text("Reclaim Policy", |object, _| {
                text(object, "spec.persistentVolumeReclaimPolicy").into()
            }),
            Column::text("Status", |object, _| phase(object).into()),
            Column::text("Claim", |object, _| claim_of(object).into()),
            Column::text("StorageClass", |object, _| text(object, "spec.storageClassName").into()),
            attributes(),
            Column::text("Reason", |object, _| text(object, "status.reason").into()),
            age(),
            volume_mode(),
        ],
        rules: Rules {
            returns_deleted: true,
            default: |object, _| fill(object, VOLUME),
            prepare_create: |object, resource| {
                blank_status(object, resource);
                let now: Value = object.meta_str("creationTimestamp").into();
                let status = object.entry("status").or_insert_with(|| Value::Object(Object::new()));
                crate::object::set(status, "phase", "Pending");
                crate::object::set(status, "lastPhaseTransitionTime", now);
            },
            prepare_update: keep_status_apart,
            validate: validate_volume,
            ..Rules::default()
        },
        ..resource
    }
}

pub(super) fn claim(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::text("Status", |object, _| phase(object).into()),
            Column::text("Volume", |object, _| text(object, "spec.volumeName").into()),
            Column::text("Capacity", |object, _| match text(object, "spec.volumeName") {
                "" => "".into(),
                _ => or(text(object, "status.capacity.storage"), "0"),
            }),
            Column::text("Access Modes", |object, _| match text(object, "spec.volumeName") {
                "" => "".into(),
                _ => modes(object, "status.accessModes").into(),
            }),
            Column::text("StorageClass", |object, _| text(object, "spec.storageClassName").into()),
            attributes(),
            age(),
            volume_mode(),
        ],
        rules: Rules {
            returns_deleted: true,
            default: |object, _| fill(object, CLAIM),
            prepare_create: |object, resource| {
                blank_status(object, resource);
                fill(object, CLAIM);
            },
            prepare_update: keep_status_apart,
            validate: validate_claim,
            ..Rules::default()
        },
        ..resource
    }
}

const VOLUME: &[Row] = &[
    ("spec", "persistentVolumeReclaimPolicy", To::Text("Retain")),
    ("spec", "volumeMode", To::Text("Filesystem")),
    ("status", "phase", To::Text("Pending")),
];
const CLAIM: &[Row] = &[
    ("spec", "volumeMode", To::Text("Filesystem")),
    ("", "status", To::Empty),
    ("status", "phase", To::Text("Pending")),
];

fn attributes() -> Column {
    Column::text("VolumeAttributesClass", |object, _| {
        match lookup(object, "spec.volumeAttributesClassName").and_then(Value::as_str) {
            Some(class) => class.into(),
            None => "<unset>".into(),
        }
    })
}

fn volume_mode() -> Column {
    Column::wide("VolumeMode", |object, _| or(text(object, "spec.volumeMode"), "<unset>"))
}

fn phase(object: &Object) -> &str {
    if object.is_being_deleted() { "Terminating" } else { text(object, "status.phase") }
}

fn claim_of(object: &Object) -> String {
    match lookup(object, "spec.claimRef") {
        None | Some(Value::Null) => String::new(),
        Some(_) => {
            format!("{}/{}", text(object, "spec.claimRef.namespace"), text(object, "spec.claimRef.name"))
        }
    }
}

fn modes(object: &Object, path: &str) -> String {
    let has = |mode: &str| items(object, path).any(|(_, item)| item.as_str() == Some(mode));
    let shown = MODES.iter().filter(|(mode, _)| has(mode)).map(|(_, short)| *short);
    shown.collect::<Vec<_>>().join(",")
}

fn validate_modes(object: &Object, check: &mut Check<'_>, missing: &str) {
    const PATH: &str = "spec.accessModes";
    const KNOWN: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", SINGLE];
    if count(object, PATH) == 0 {
        check.add(FieldError::required(PATH, missing));
    }
    let given: Vec<&str> = items(object, PATH).filter_map(|(_, mode)| mode.as_str()).collect();
    for mode in given.iter().filter(|mode| !KNOWN.contains(mode)) {
        check.add(FieldError::not_supported(PATH, *mode, &KNOWN));
    }
    if given.contains(&SINGLE) && given.iter().any(|mode| *mode != SINGLE && KNOWN.contains(mode)) {
        check.add(FieldError::forbidden(PATH, "may not use ReadWriteOncePod with other access modes"));
    }
}

fn positive(object: &Object, path: &str, field: &str, check: &mut Check<'_>) {
    let size = text(object, path);
    if Quantity::read(size).is_ok_and(|size| size.is_negative() || size.is_zero()) {
        check.add(FieldError::invalid(field, size, "must be greater than zero"));
    }
}

fn validate_volume(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    let mut check = Check::new(object, change);
    if change.subresource == Some(Subresource::Status) {
        return check.errors;
    }
    validate_modes(object, &mut check, "");
    const CAPACITY: &str = "spec.capacity";
    let capacity =
        lookup(object, CAPACITY).and_then(Value::as_object).filter(|capacity| !capacity.is_empty());
    if capacity.is_none() {
        check.add(FieldError::required(CAPACITY, ""));
    }
    if capacity.is_none_or(|capacity| capacity.len() > 1 || !capacity.contains_key("storage")) {
        let given = lookup(object, CAPACITY).cloned().unwrap_or(Value::Null);
        check.add(FieldError::not_supported(CAPACITY, given, &["storage"]));
    }
    positive(object, "spec.capacity.storage", "spec.capacity[storage]", &mut check);
    check.one_of("spec.persistentVolumeReclaimPolicy", &["Delete", "Recycle", "Retain"]);
    let sources: Vec<&String> = source(object).map(|(key, _)| key).collect();
    match sources.as_slice() {
        [] => check.add(FieldError::required("spec", "must specify a volume type")),
        [_] => {}
        [_, more @ ..] => {
            for key in more {
                let detail = "may not specify more than 1 volume type";
                check.add(FieldError::forbidden(format!("spec.{key}"), detail));
            }
        }
    }
    check.named("spec.storageClassName", names::subdomain);
    check.one_of("spec.volumeMode", &["Block", "Filesystem"]);
    if change.old.is_some_and(|old| !source(old).eq(source(object))) {
        let detail = "spec.persistentvolumesource is immutable after creation";
        check.add(FieldError::forbidden("spec.persistentvolumesource", detail));
    }
    check.errors
}

/// What a volume is made of: everything in its spec that says nothing about how it is used.
fn source(object: &Object) -> impl Iterator<Item = (&String, &Value)> {
    const USE: [&str; 9] = [
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    ];
    let spec = lookup(object, "spec").and_then(Value::as_object).into_iter().flatten();
    spec.filter(|(key, value)| !USE.contains(&key.as_str()) && !value.is_null())
}

fn validate_claim(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    let mut check = Check::new(object, change);
    if change.subresource == Some(Subresource::Status) {
        return check.errors;
    }
    validate_modes(object, &mut check, "at least 1 access mode is required");
    if let Some(selector) = lookup(object, "spec.selector").filter(|selector| !selector.is_null()) {
        validate_selector(selector, "spec.selector", &mut check.errors);
    }
    const STORAGE: &str = "spec.resources.requests.storage";
    check_size(object, STORAGE, &mut check);
    check.named("spec.storageClassName", names::subdomain);
    check.one_of("spec.volumeMode", &["Block", "Filesystem"]);
    let Some(old) = change.old else { return check.errors };
    if fixed(object, old) != fixed(old, old) {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        check.add(FieldError::forbidden("spec", detail));
    }
    check.errors
}

fn check_size(object: &Object, path: &str, check: &mut Check<'_>) {
    const FIELD: &str = "spec.resources[storage]";
    if text(object, path).is_empty() {
        check.add(FieldError::required(FIELD, ""));
    }
    positive(object, path, FIELD, check);
}

/// What cannot change of a claim: a bound one can grow, and one without a volume can get it.
fn fixed(object: &Object, old: &Object) -> Object {
    let mut spec = lookup(object, "spec").and_then(Value::as_object).cloned().unwrap_or_default();
    if text(old, "spec.volumeName").is_empty() {
        spec.remove("volumeName");
    }
    if lookup(old, "spec.storageClassName").is_none() {
        spec.remove("storageClassName");
    }
    if text(old, "status.phase") == "Bound" {
        spec.remove("resources");
        spec.remove("volumeAttributesClassName");
    }
    spec
}
