//! Node and RuntimeClass: what a fleet's inventory needs of them. There is no kubelet behind it.

use serde_json::Value;

use super::cells::{or, or_none};
use super::check::Check;
use super::keep_status_apart;
use crate::field::FieldError;
use crate::object::{Meta, Object, lookup, text};
use crate::registry::{Change, Resource, Rules};
use crate::selector::Selectable;
use crate::table::{Column, age, name};

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE: &str = "kubernetes.io/role";

pub(super) fn own(resource: Resource) -> Resource {
    Resource {
        selectable: vec![Selectable::flag("spec.unschedulable", &["spec.unschedulable"])],
        columns: vec![
            name(),
            Column::text("Status", |object, _| state(object).into()),
            Column::text("Roles", |object, _| or_none(roles(object))),
            age(),
            Column::text("Version", |object, _| text(object, "status.nodeInfo.kubeletVersion").into()),
            Column::wide("Internal-IP", |object, _| or_none(address(object, "InternalIP"))),
            Column::wide("External-IP", |object, _| or_none(address(object, "ExternalIP"))),
            Column::wide("OS-Image", |object, _| or(text(object, "status.nodeInfo.osImage"), UNKNOWN)),
            Column::wide("Kernel-Version", |object, _| kernel(object).into()),
            Column::wide("Container-Runtime", |object, _| {
                or(text(object, "status.nodeInfo.containerRuntimeVersion"), UNKNOWN)
            }),
        ],
        rules: Rules { default, prepare_update: keep_status_apart, validate, ..Rules::default() },
        ..resource
    }
}

pub(super) fn runtime_class(resource: Resource) -> Resource {
    Resource {
        columns: vec![name(), Column::text("Handler", |object, _| text(object, "handler").into()), age()],
        rules: Rules {
            unconditional_update: false,
            create_on_update: true,
            validate: |object, change| {
                let mut check = Check::new(object, change);
                check.required_name("handler", crate::names::label);
                check.fixed("handler");
                check.errors
            },
            ..Rules::default()
        },
        ..resource
    }
}

const UNKNOWN: &str = "<unknown>";

/// One range of addresses is also the list of them.
fn default(object: &mut Object, _: &Resource) {
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    let Some(range) = spec.get("podCIDR").cloned() else { return };
    if spec.get("podCIDRs").and_then(|ranges| ranges.get(0)) != Some(&range) {
        spec.insert("podCIDRs".into(), vec![range].into());
    }
}

fn validate(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    let ranges = |object: &Object| lookup(object, "spec.podCIDRs").cloned();
    let old = change.old.and_then(ranges);
    if old.is_some() && old != ranges(object) {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        return vec![FieldError::forbidden("spec.podCIDRs", detail)];
    }
    Vec::new()
}

fn state(object: &Object) -> String {
    let conditions = lookup(object, "status.conditions").and_then(Value::as_array);
    let is_ready = |condition: &&Value| condition.get("type").and_then(Value::as_str) == Some("Ready");
    let ready = conditions.into_iter().flatten().rfind(is_ready).map(|condition| condition.get("status"));
    let state = match ready {
        None => "Unknown",
        Some(status) if status.and_then(Value::as_str) == Some("True") => "Ready",
        Some(_) => "NotReady",
    };
    if lookup(object, "spec.unschedulable") == Some(&Value::Bool(true)) {
        return format!("{state},SchedulingDisabled");
    }
    state.to_owned()
}

fn roles(object: &Object) -> String {
    let labels = object.meta().and_then(|meta| meta.get("labels")).and_then(Value::as_object);
    let role = |(key, value): (&String, &Value)| match key.strip_prefix(ROLE_PREFIX) {
        Some(role) => Some(role.to_owned()),
        None => (key == ROLE).then(|| value.as_str().unwrap_or_default().to_owned()),
    };
    let mut roles: Vec<String> =
        labels.into_iter().flatten().filter_map(role).filter(|role| !role.is_empty()).collect();
    roles.sort();
    roles.dedup();
    roles.join(",")
}

fn address(object: &Object, kind: &str) -> String {
    let addresses = lookup(object, "status.addresses").and_then(Value::as_array);
    let is_kind = |address: &&Value| address.get("type").and_then(Value::as_str) == Some(kind);
    let found = addresses.into_iter().flatten().find(is_kind).and_then(|address| address.get("address"));
    found.and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn kernel(object: &Object) -> String {
    let kernel = match text(object, "status.nodeInfo.kernelVersion") {
        "" => UNKNOWN,
        kernel => kernel,
    };
    match text(object, "status.nodeInfo.architecture") {
        "" => kernel.to_owned(),
        architecture => format!("{kernel} ({architecture})"),
    }
}
