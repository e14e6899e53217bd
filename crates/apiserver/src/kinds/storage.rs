//! The kinds of storage.k8s.io: classes, drivers, capacities and attachments of volumes. Nothing is provisioned here.

use serde_json::Value;

use super::cells::{joined, or_none, text_of};
use super::check::{Check, count, is_set, items};
use super::defaults::{Row, To, each, fill};
use super::networking::named_default;
use super::workload::validate_selector;
use super::{blank_status, keep_status_and_metadata_apart};
use crate::field::FieldError;
use crate::names;
use crate::object::{Object, lookup, text};
use crate::quantity::Quantity;
use crate::registry::{Change, Resource, Rules, Subresource};
use crate::table::{Column, age, created_at, name};

const DEFAULT_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
const CAN_EXPAND: &str = "allowVolumeExpansion";

fn rules() -> Rules {
    Rules { returns_deleted: true, ..Rules::default() }
}

pub(super) fn class(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            Column::text("Name", |object, _| named_default(object, &DEFAULT_CLASS).into()).named(),
            Column::text("Provisioner", |object, _| text(object, "provisioner").into()),
            Column::text("ReclaimPolicy", |object, _| text(object, "reclaimPolicy").into()),
            Column::text("VolumeBindingMode", |object, _| text(object, "volumeBindingMode").into()),
            Column::text("AllowVolumeExpansion", |object, _| is(object, CAN_EXPAND).into()),
            age(),
        ],
        rules: Rules {
            default: |object, _| fill(object, CLASS),
            validate: |object, change| {
                let mut check = Check::new(object, change);
                check.required("provisioner");
                check.named("provisioner", |name| names::qualified(&name.to_lowercase()));
                check.one_of("reclaimPolicy", &["Delete", "Retain"]);
                check.one_of("volumeBindingMode", &["Immediate", "WaitForFirstConsumer"]);
                for path in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
                    check.fixed(path);
                }
                check.errors
            },
            ..rules()
        },
        ..resource
    }
}

pub(super) fn attributes_class(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            Column::text("Name", |object, _| named_default(object, &[]).into()).named(),
            Column::text("DriverName", |object, _| text(object, "driverName").into()),
            age(),
        ],
        rules: Rules {
            validate: |object, change| {
                let mut check = Check::new(object, change);
                for field in ["driverName", "parameters"] {
                    if change.old.is_some_and(|old| old.get(field) != object.get(field)) {
                        let detail = format!("updates to {field} are forbidden.");
                        check.add(FieldError::forbidden(field, detail));
                    }
                }
                check.required("driverName");
                check.named("driverName", |name| names::qualified(&name.to_lowercase()));
                let given = object.get("parameters").and_then(Value::as_object);
                if given.is_none_or(|given| given.is_empty()) {
                    let detail = "must contain at least one key/value pair";
                    check.add(FieldError::required("parameters", detail));
                }
                check.errors
            },
            ..rules()
        },
        ..resource
    }
}

pub(super) fn driver(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::boolean("AttachRequired", |object, _| is(object, "spec.attachRequired").into()),
            Column::boolean("PodInfoOnMount", |object, _| is(object, "spec.podInfoOnMount").into()),
            Column::boolean("StorageCapacity", |object, _| is(object, "spec.storageCapacity").into()),
            Column::text("TokenRequests", |object, _| match lookup(object, "spec.tokenRequests") {
                None | Some(Value::Null) => "<unset>".into(),
                requests => joined(requests, |item| text_of(item, "audience").to_owned()).into(),
            }),
            Column::boolean("RequiresRepublish", |object, _| is(object, "spec.requiresRepublish").into()),
            Column::text("Modes", |object, _| {
                or_none(joined(lookup(object, "spec.volumeLifecycleModes"), plain))
            }),
            age(),
        ],
        rules: Rules {
            unconditional_update: false,
            default: |object, _| {
                fill(object, DRIVER);
                each(object, "spec", &mut |spec| {
                    let modes = spec.get("volumeLifecycleModes").and_then(Value::as_array);
                    if modes.is_none_or(Vec::is_empty) {
                        spec.insert("volumeLifecycleModes".into(), vec!["Persistent"].into());
                    }
                });
            },
            prepare_update: count_changes,
            validate: validate_driver,
            ..rules()
        },
        ..resource
    }
}

pub(super) fn node(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::integer("Drivers", |object, _| count(object, "spec.drivers").into()),
            age(),
        ],
        rules: Rules { unconditional_update: false, validate: validate_node, ..rules() },
        ..resource
    }
}

pub(super) fn capacity(resource: Resource) -> Resource {
    Resource {
        columns: vec![name(), created_at()],
        rules: Rules {
            unconditional_update: false,
            validate: |object, change| {
                let mut check = Check::new(object, change);
                if let Some(selector) = object.get("nodeTopology").filter(|selector| !selector.is_null()) {
                    validate_selector(selector, "nodeTopology", &mut check.errors);
                }
                let class = text(object, "storageClassName");
                for problem in names::subdomain(class) {
                    check.add(FieldError::invalid("storageClassName", class, problem));
                }
                let size = text(object, "capacity");
                if Quantity::read(size).is_ok_and(|size| size.is_negative()) {
                    let detail = "must be greater than or equal to 0";
                    check.add(FieldError::invalid("capacity", size, detail));
                }
                check.fixed("nodeTopology");
                check.fixed("storageClassName");
                check.errors
            },
            ..Rules::default()
        },
        ..resource
    }
}

pub(super) fn attachment(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::text("Attacher", |object, _| text(object, "spec.attacher").into()).named(),
            Column::text("PV", |object, _| text(object, "spec.source.persistentVolumeName").into()),
            Column::text("Node", |object, _| text(object, "spec.nodeName").into()),
            Column::boolean("Attached", |object, _| is(object, "status.attached").into()),
            age(),
        ],
        rules: Rules {
            unconditional_update: false,
            prepare_create: blank_status,
            prepare_update: keep_status_and_metadata_apart,
            validate: validate_attachment,
            ..rules()
        },
        ..resource
    }
}

const CLASS: &[Row] =
    &[("", "reclaimPolicy", To::Text("Delete")), ("", "volumeBindingMode", To::Text("Immediate"))];
const DRIVER: &[Row] = &[
    ("spec", "attachRequired", To::Yes),
    ("spec", "podInfoOnMount", To::No),
    ("spec", "storageCapacity", To::No),
    ("spec", "fsGroupPolicy", To::Text("ReadWriteOnceWithFSType")),
    ("spec", "requiresRepublish", To::No),
    ("spec", "seLinuxMount", To::No),
];

fn is(object: &Object, path: &str) -> bool {
    lookup(object, path) == Some(&Value::Bool(true))
}

fn plain(item: &Value) -> String {
    item.as_str().unwrap_or_default().to_owned()
}

/// A driver has no generation until its spec changes for the first time.
fn count_changes(object: &mut Object, change: Change<'_>) {
    use crate::object::Meta as _;
    if let Some(old) = change.old
        && old.get("spec") != object.get("spec")
    {
        object.set_generation(old.generation() + 1);
    }
}

fn validate_driver(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    const MODES: [&str; 2] = ["Persistent", "Ephemeral"];
    let mut check = Check::new(object, change);
    check.one_of("spec.fsGroupPolicy", &["File", "None", "ReadWriteOnceWithFSType"]);
    let mut audiences: Vec<&str> = Vec::new();
    for (path, request) in items(object, "spec.tokenRequests") {
        let audience = text_of(request, "audience");
        if audiences.contains(&audience) {
            check.add(FieldError::duplicate(format!("{path}.audience"), audience));
            continue;
        }
        audiences.push(audience);
        let seconds = request.get("expirationSeconds").and_then(Value::as_i64);
        if let Some(seconds) = seconds.filter(|seconds| *seconds < 600) {
            let detail = "may not specify a duration less than 10 minutes";
            check.add(FieldError::invalid(format!("{path}.expirationSeconds"), seconds, detail));
        }
    }
    for (_, mode) in items(object, "spec.volumeLifecycleModes") {
        let mode = mode.as_str().unwrap_or_default();
        if !MODES.contains(&mode) {
            check.add(FieldError::not_supported("spec.volumeLifecycleModes", mode, &MODES));
        }
    }
    let attach = |object: &Object| lookup(object, "spec.attachRequired").cloned();
    if change.old.is_some_and(|old| attach(old) != attach(object)) {
        let now = attach(object).unwrap_or(Value::Null);
        // Kubernetes spells the path of this one field so.
        check.add(FieldError::invalid("spec.attachedRequired", now, "field is immutable"));
    }
    check.fixed("spec.volumeLifecycleModes");
    check.errors
}

fn validate_node(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    let mut check = Check::new(object, change);
    for (path, driver) in items(object, "spec.drivers") {
        for key in ["name", "nodeID"].iter().filter(|key| text_of(driver, key).is_empty()) {
            check.add(FieldError::required(format!("{path}.{key}"), ""));
        }
        let most = driver.get("allocatable").and_then(|all| all.get("count")).and_then(Value::as_i64);
        if let Some(most) = most.filter(|most| *most < 0) {
            let detail = "must be greater than or equal to 0";
            check.add(FieldError::invalid(format!("{path}.allocatable.count"), most, detail));
        }
    }
    check.unique("spec.drivers", "name");
    check.errors
}

fn validate_attachment(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    let mut check = Check::new(object, change);
    if change.subresource == Some(Subresource::Status) {
        return check.errors;
    }
    check.required("spec.attacher");
    const SOURCE: &str = "spec.source";
    let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (is_set(object, "spec.source.inlineVolumeSpec"), is_set(object, "spec.source.persistentVolumeName"))
    {
        (false, false) => check.add(FieldError::required(SOURCE, detail)),
        (true, true) => check.add(FieldError::forbidden(SOURCE, detail)),
        _ => check.named("spec.source.persistentVolumeName", names::subdomain),
    }
    let node = text(object, "spec.nodeName");
    for problem in names::subdomain(node) {
        check.add(FieldError::invalid("spec.nodeName", node, problem));
    }
    check.fixed("spec");
    check.errors
}
