//! Service: stored, defaulted and printed; nothing routes to it and no address is allocated.

use serde_json::{Map, Value};

use super::cells::{joined, or_none, pairs};
use super::keep_status_apart;
use crate::field::FieldError;
use crate::names::{self, NameRule};
use crate::object::{Object, lookup, text};
use crate::registry::{Change, Resource, Rules, Subresource};
use crate::selector::Selectable;
use crate::table::{Column, age, name};

pub(super) fn own(resource: Resource) -> Resource {
    let rules = Rules {
        names: NameRule::Label,
        create_on_update: true,
        returns_deleted: true,
        default,
        prepare_create: |object, _| {
            object.insert("status".into(), serde_json::json!({"loadBalancer": {}}));
        },
        prepare_update: keep_status_apart,
        validate,
        ..Rules::default()
    };
    Resource {
        selectable: vec![
            Selectable::at("spec.clusterIP", &["spec.clusterIP"]),
            Selectable::at("spec.type", &["spec.type"]),
        ],
        columns: vec![
            name(),
            Column::text("Type", |object, _| text(object, "spec.type").into()),
            Column::text("Cluster-IP", |object, _| or_none(text(object, "spec.clusterIP"))),
            Column::text("External-IP", |object, _| or_none(external(object))),
            Column::text("Port(s)", |object, _| or_none(ports(object))),
            age(),
            Column::wide("Selector", |object, _| or_none(pairs(lookup(object, "spec.selector")))),
        ],
        rules,
        ..resource
    }
}

fn default(object: &mut Object, _: &Resource) {
    let spec = object.entry("spec").or_insert_with(|| Value::Object(Map::new()));
    let Value::Object(spec) = spec else { return };
    spec.entry("sessionAffinity").or_insert_with(|| "None".into());
    spec.entry("type").or_insert_with(|| "ClusterIP".into());
    if spec.get("type").and_then(Value::as_str) != Some("ExternalName") {
        spec.entry("internalTrafficPolicy").or_insert_with(|| "Cluster".into());
    }
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let Value::Object(port) = port else { continue };
        port.entry("protocol").or_insert_with(|| "TCP".into());
        let number = port.get("port").cloned().unwrap_or_default();
        let target = port.entry("targetPort").or_insert(Value::Null);
        if *target == Value::Null || *target == 0 || *target == "" {
            *target = number;
        }
    }
}

fn validate(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    let kind = text(object, "spec.type");
    if change.subresource == Some(Subresource::Status) {
        return validate_status(object, kind);
    }
    let mut errors = Vec::new();
    const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported("spec.type", kind, &TYPES));
    }
    let ports = lookup(object, "spec.ports").and_then(Value::as_array).cloned().unwrap_or_default();
    let headless = text(object, "spec.clusterIP") == "None";
    if ports.is_empty() && !headless && kind != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    const AFFINITIES: [&str; 2] = ["ClientIP", "None"];
    let affinity = text(object, "spec.sessionAffinity");
    let mut seen = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        validate_port(port, &format!("spec.ports[{index}]"), ports.len() > 1, &mut seen, &mut errors);
    }
    if !AFFINITIES.contains(&affinity) {
        errors.push(FieldError::not_supported("spec.sessionAffinity", affinity, &AFFINITIES));
    }
    errors
}

fn validate_status(object: &Object, kind: &str) -> Vec<FieldError> {
    const FIELD: &str = "status.loadBalancer.ingress";
    let ingress = lookup(object, FIELD).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if ingress && kind != "LoadBalancer" {
        return vec![FieldError::forbidden(FIELD, "may only be used when `spec.type` is 'LoadBalancer'")];
    }
    Vec::new()
}

fn validate_port(
    port: &Value,
    field: &str,
    named: bool,
    seen: &mut Vec<String>,
    errors: &mut Vec<FieldError>,
) {
    let name = port.get("name").and_then(Value::as_str).unwrap_or_default();
    if named && name.is_empty() {
        errors.push(FieldError::required(format!("{field}.name"), ""));
    } else if !name.is_empty() {
        for problem in NameRule::Label.check(name) {
            errors.push(FieldError::invalid(format!("{field}.name"), name, problem));
        }
        if seen.iter().any(|other| other == name) {
            errors.push(FieldError::duplicate(format!("{field}.name"), name));
        }
        seen.push(name.to_owned());
    }
    let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
    if !(1..=65535).contains(&number) {
        let detail = "must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(format!("{field}.port"), number, detail));
    }
    validate_target(port.get("targetPort"), &format!("{field}.targetPort"), errors);
    const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
    let protocol = port.get("protocol").and_then(Value::as_str).unwrap_or_default();
    if !PROTOCOLS.contains(&protocol) {
        errors.push(FieldError::not_supported(format!("{field}.protocol"), protocol, &PROTOCOLS));
    }
}

fn validate_target(target: Option<&Value>, field: &str, errors: &mut Vec<FieldError>) {
    match target {
        Some(Value::String(name)) => {
            for problem in names::port_name(name) {
                errors.push(FieldError::invalid(field, name.as_str(), problem));
            }
        }
        target => {
            let number = target.and_then(Value::as_i64).unwrap_or(0);
            if !(1..=65535).contains(&number) {
                let detail = "must be between 1 and 65535, inclusive";
                errors.push(FieldError::invalid(field, number, detail));
            }
        }
    }
}

fn external(object: &Object) -> String {
    match text(object, "spec.type") {
        "ExternalName" => text(object, "spec.externalName").into(),
        "LoadBalancer" => "<pending>".into(),
        _ => joined(lookup(object, "spec.externalIPs"), |ip| ip.as_str().unwrap_or_default().into()),
    }
}

fn ports(object: &Object) -> String {
    joined(lookup(object, "spec.ports"), |port| {
        let number = |key: &str| port.get(key).and_then(Value::as_i64).unwrap_or(0);
        let protocol = port.get("protocol").and_then(Value::as_str).unwrap_or_default();
        match number("nodePort") {
            0 => format!("{}/{protocol}", number("port")),
            node => format!("{}:{node}/{protocol}", number("port")),
        }
    })
}
