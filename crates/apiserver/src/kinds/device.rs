//! The kinds of resource.k8s.io: devices, their classes, and claims on them. They are records; nobody here allocates.

use serde_json::Value;

use super::cells::text_of;
use super::check::{Check, count, is_set, items, items_of};
use super::defaults::each;
use super::{blank_status, keep_status_and_metadata_apart};
use crate::field::FieldError;
use crate::names;
use crate::object::{Meta, Object, lookup, text};
use crate::registry::{Change, Generations, Resource, Rules, Subresource};
use crate::selector::Selectable;
use crate::table::{Column, age, name};

const EXACT: &str = "ExactCount";
const ONE_OF_TWO: &str = "exactly one of `exactly` or `firstAvailable` is required";

pub(super) fn class(resource: Resource) -> Resource {
    Resource {
        columns: vec![name(), age()],
        rules: Rules {
            returns_deleted: true,
            generations: Generations::Content,
            validate: |object, change| {
                let mut check = Check::new(object, change);
                validate_selectors(lookup(object, "spec"), "spec", &mut check);
                check.errors
            },
            ..Rules::default()
        },
        ..resource
    }
}

pub(super) fn claim(resource: Resource) -> Resource {
    Resource {
        columns: vec![name(), Column::text("State", |object, _| state(object).into()), age()],
        rules: Rules {
            returns_deleted: true,
            default: |object, _| default_requests(object, "spec.devices.requests[]"),
            prepare_create: blank_status,
            prepare_update: keep_status_and_metadata_apart,
            validate: |object, change| {
                let mut check = Check::new(object, change);
                if change.subresource == Some(Subresource::Status) {
                    validate_consumers(object, &mut check);
                    return check.errors;
                }
                validate_requests(object, "spec.devices", &mut check);
                check.fixed("spec");
                check.errors
            },
            ..Rules::default()
        },
        ..resource
    }
}

pub(super) fn template(resource: Resource) -> Resource {
    Resource {
        columns: vec![name(), age()],
        rules: Rules {
            returns_deleted: true,
            default: |object, _| default_requests(object, "spec.spec.devices.requests[]"),
            validate: |object, change| {
                let mut check = Check::new(object, change);
                validate_requests(object, "spec.spec.devices", &mut check);
                check.fixed("spec");
                check.errors
            },
            ..Rules::default()
        },
        ..resource
    }
}

pub(super) fn slice(resource: Resource) -> Resource {
    Resource {
        selectable: vec![
            Selectable::at("spec.nodeName", &["spec.nodeName"]),
            Selectable::at("spec.driver", &["spec.driver"]),
        ],
        columns: vec![
            name(),
            Column::text("Node", |object, _| text(object, "spec.nodeName").into()),
            Column::text("Driver", |object, _| text(object, "spec.driver").into()),
            Column::text("Pool", |object, _| text(object, "spec.pool.name").into()),
            age(),
        ],
        rules: Rules {
            returns_deleted: true,
            generations: Generations::Content,
            validate: validate_slice,
            ..Rules::default()
        },
        ..resource
    }
}

/// Who says no number of devices wants one.
fn default_requests(object: &mut Object, requests: &str) {
    for path in ["exactly", "firstAvailable[]"] {
        each(object, &format!("{requests}.{path}"), &mut |request| {
            let mode = request.entry("allocationMode").or_insert_with(|| EXACT.into());
            let counted = mode.as_str() == Some(EXACT);
            if counted && request.get("count").and_then(Value::as_i64).unwrap_or(0) == 0 {
                request.insert("count".into(), 1.into());
            }
        });
    }
}

fn state(object: &Object) -> String {
    let (deleted, allocated) = (object.is_being_deleted(), is_set(object, "status.allocation"));
    let reserved = allocated && count(object, "status.reservedFor") > 0;
    let states = [
        (deleted, "deleted"),
        (!deleted && !allocated, "pending"),
        (allocated, "allocated"),
        (reserved, "reserved"),
    ];
    states.iter().filter(|(holds, _)| *holds).map(|(_, word)| *word).collect::<Vec<_>>().join(",")
}

fn validate_selectors(owner: Option<&Value>, path: &str, check: &mut Check<'_>) {
    let Some(owner) = owner else { return };
    for (path, selector) in items_of(owner, path, "selectors") {
        if selector.get("cel").is_none_or(Value::is_null) {
            check.add(FieldError::required(format!("{path}.cel"), ""));
        }
    }
}

fn validate_requests(object: &Object, path: &str, check: &mut Check<'_>) {
    let requests = format!("{path}.requests");
    for (path, request) in items(object, &requests) {
        let name = text_of(request, "name");
        if name.is_empty() {
            check.add(FieldError::required(format!("{path}.name"), ""));
        } else {
            for problem in names::label(name) {
                check.add(FieldError::invalid(format!("{path}.name"), name, problem));
            }
        }
        let exactly = request.get("exactly").filter(|exactly| !exactly.is_null());
        let several = items_of(request, &path, "firstAvailable").count() > 0;
        match (exactly, several) {
            (None, false) => check.add(FieldError::required(&path, ONE_OF_TWO)),
            (Some(_), true) => {
                let detail = format!("{ONE_OF_TWO}, but multiple fields are set");
                check.add(FieldError::invalid(&path, Value::Null, detail));
            }
            (Some(exactly), false) => validate_request(exactly, &format!("{path}.exactly"), check),
            (None, true) => {
                for (path, request) in items_of(request, &path, "firstAvailable") {
                    validate_request(request, &path, check);
                }
            }
        }
    }
    check.unique(&requests, "name");
}

fn validate_request(request: &Value, path: &str, check: &mut Check<'_>) {
    const MODES: [&str; 2] = ["All", EXACT];
    let class = text_of(request, "deviceClassName");
    if class.is_empty() {
        check.add(FieldError::required(format!("{path}.deviceClassName"), ""));
    } else {
        for problem in names::subdomain(class) {
            check.add(FieldError::invalid(format!("{path}.deviceClassName"), class, problem));
        }
    }
    validate_selectors(Some(request), path, check);
    let number = request.get("count").and_then(Value::as_i64).unwrap_or(0);
    let field = format!("{path}.count");
    match text_of(request, "allocationMode") {
        "All" if number != 0 => {
            let detail = "must not be specified when allocationMode is 'All'";
            check.add(FieldError::invalid(field, number, detail));
        }
        EXACT if number <= 0 => check.add(FieldError::invalid(field, number, "must be greater than zero")),
        "All" | EXACT => {}
        other => check.add(FieldError::not_supported(format!("{path}.allocationMode"), other, &MODES)),
    }
}

fn validate_consumers(object: &Object, check: &mut Check<'_>) {
    for (path, consumer) in items(object, "status.reservedFor") {
        for key in ["resource", "name", "uid"].iter().filter(|key| text_of(consumer, key).is_empty()) {
            check.add(FieldError::required(format!("{path}.{key}"), ""));
        }
    }
    if count(object, "status.reservedFor") > 0 && !is_set(object, "status.allocation") {
        let detail = "may not be specified when `allocated` is not set";
        check.add(FieldError::forbidden("status.reservedFor", detail));
    }
}

fn validate_slice(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    let mut check = Check::new(object, change);
    check.required_name("spec.driver", |name| names::subdomain(&name.to_lowercase()));
    check.required("spec.pool.name");
    check.number("spec.pool.generation", |number| number >= 0, "must be greater than or equal to zero");
    if super::cells::number(object, "spec.pool.resourceSliceCount") <= 0 {
        let number = super::cells::number(object, "spec.pool.resourceSliceCount");
        check.add(FieldError::invalid("spec.pool.resourceSliceCount", number, "must be greater than zero"));
    }
    let places = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"];
    let given: Vec<String> = places
        .iter()
        .filter(|place| is_set(object, &format!("spec.{place}")))
        .map(|place| format!("`{place}`"))
        .collect();
    let detail =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match given.len() {
        0 => check.add(FieldError::required("spec", detail)),
        1 => {}
        _ => {
            let given = format!("{{{}}}", given.join(", "));
            check.add(FieldError::invalid("spec", given, format!("{detail}, but multiple fields are set")));
        }
    }
    for (path, device) in items(object, "spec.devices") {
        let name = text_of(device, "name");
        if name.is_empty() {
            check.add(FieldError::required(format!("{path}.name"), ""));
            continue;
        }
        for problem in names::label(name) {
            check.add(FieldError::invalid(format!("{path}.name"), name, problem));
        }
    }
    check.unique("spec.devices", "name");
    check.fixed("spec.driver");
    check.fixed("spec.pool.name");
    check.fixed("spec.nodeName");
    check.errors
}
