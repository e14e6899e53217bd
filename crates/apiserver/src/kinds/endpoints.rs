//! Endpoints and EndpointSlice: addresses, as somebody wrote them down.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::cells::{first_three, or, text_of};
use super::defaults::{Row, To, each, fill};
use crate::field::FieldError;
use crate::object::{Object, lookup, text};
use crate::registry::{Change, Generations, Resource, Rules};
use crate::table::{Column, age, name};

pub(super) fn endpoints(resource: Resource) -> Resource {
    Resource {
        columns: vec![name(), Column::text("Endpoints", |object, _| subsets(object)), age()],
        rules: Rules {
            create_on_update: true,
            default: |object, _| fill(object, &[("subsets[].ports[]", "protocol", To::Text("TCP"))]),
            validate: validate_endpoints,
            ..Rules::default()
        },
        deprecation: Some(
            "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned(),
        ),
        ..resource
    }
}

pub(super) fn slice(resource: Resource) -> Resource {
    const PORTS: &[Row] = &[("ports[]", "name", To::Text("")), ("ports[]", "protocol", To::Text("TCP"))];
    Resource {
        columns: vec![
            name(),
            Column::text("AddressType", |object, _| text(object, "addressType").into()),
            Column::text("Ports", |object, _| or(slice_ports(object), "<unset>")),
            Column::text("Endpoints", |object, _| or(slice_addresses(object), "<unset>")),
            age(),
        ],
        rules: Rules {
            generations: Generations::ContentAndLabels,
            default: |object, _| {
                fill(object, PORTS);
                each(object, "endpoints[]", &mut |endpoint| {
                    endpoint.entry("conditions").or_insert_with(|| json!({}));
                });
            },
            validate: validate_slice,
            ..Rules::default()
        },
        ..resource
    }
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn subsets(object: &Object) -> Value {
    let subsets = object.get("subsets").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if subsets.is_empty() {
        return "<none>".into();
    }
    let mut shown = Vec::new();
    for subset in subsets {
        let ports: Vec<i64> =
            list(subset, "ports").filter_map(|port| port.get("port").and_then(Value::as_i64)).collect();
        if ports.is_empty() {
            shown.extend(list(subset, "addresses").map(|address| text_of(address, "ip").to_owned()));
        }
        for port in ports {
            shown.extend(list(subset, "addresses").map(|address| host_port(text_of(address, "ip"), port)));
        }
    }
    first_three(&shown).into()
}

fn host_port(host: &str, port: i64) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn slice_ports(object: &Object) -> String {
    let ports = lookup(object, "ports").and_then(Value::as_array).into_iter().flatten();
    let shown: Vec<String> = ports
        .map(|port| match (port.get("port").and_then(Value::as_i64), text_of(port, "name")) {
            (Some(number), _) => number.to_string(),
            (None, name) => name.to_owned(),
        })
        .collect();
    first_three(&shown)
}

fn slice_addresses(object: &Object) -> String {
    let endpoints = lookup(object, "endpoints").and_then(Value::as_array).into_iter().flatten();
    let addresses = endpoints.flat_map(|endpoint| list(endpoint, "addresses"));
    let shown: Vec<String> = addresses.filter_map(Value::as_str).map(str::to_owned).collect();
    first_three(&shown)
}

const NO_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

fn validate_endpoints(object: &Object, _: Change<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let subsets = object.get("subsets").and_then(Value::as_array).into_iter().flatten();
    for (at, subset) in subsets.enumerate() {
        for (index, address) in list(subset, "addresses").enumerate() {
            let ip = text_of(address, "ip");
            if ip.parse::<IpAddr>().is_err() {
                let field = format!("subsets[{at}].addresses[{index}].ip");
                errors.push(FieldError::invalid(field, ip, NO_ADDRESS));
            }
        }
        for (index, port) in list(subset, "ports").enumerate() {
            let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
            if !(1..=65535).contains(&number) {
                let field = format!("subsets[{at}].ports[{index}].port");
                errors.push(FieldError::invalid(field, number, "must be between 1 and 65535, inclusive"));
            }
        }
    }
    errors
}

fn validate_slice(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    const FIELD: &str = "addressType";
    let kind = text(object, FIELD);
    let mut errors = Vec::new();
    match kind {
        "" => errors.push(FieldError::required(FIELD, "")),
        "IPv4" | "IPv6" | "FQDN" => {}
        other => errors.push(FieldError::not_supported(FIELD, other, &["FQDN", "IPv4", "IPv6"])),
    }
    if change.old.is_some_and(|old| text(old, FIELD) != kind) {
        errors.push(FieldError::invalid(FIELD, kind, "field is immutable"));
    }
    let endpoints = lookup(object, "endpoints").and_then(Value::as_array).into_iter().flatten();
    for (at, endpoint) in endpoints.enumerate() {
        for (index, address) in list(endpoint, "addresses").filter_map(Value::as_str).enumerate() {
            let fits = match kind {
                "IPv4" => address.parse::<std::net::Ipv4Addr>().is_ok(),
                "IPv6" => address.parse::<std::net::Ipv6Addr>().is_ok(),
                _ => true,
            };
            if !fits {
                let field = format!("endpoints[{at}].addresses[{index}]");
                errors.push(FieldError::invalid(field, address, NO_ADDRESS));
            }
        }
    }
    errors
}
