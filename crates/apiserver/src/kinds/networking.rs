//! Ingress, IngressClass and NetworkPolicy: stored, defaulted, checked and printed. Nothing routes or filters here.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use super::cells::{or, or_none, selector, text_of};
use super::check::{Check, PORT, count, is_port, is_set, items, items_of};
use super::defaults::{To, each, fill};
use super::workload::validate_selector;
use super::{blank_status, keep_status_apart};
use crate::field::FieldError;
use crate::names;
use crate::object::{Meta, Object, lookup, text};
use crate::registry::{Change, Generations, Resource, Rules, Subresource};
use crate::table::{Column, age, name};

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const DEFAULT_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";
const ADDRESS_WIDTH: usize = 16;

pub(super) fn ingress(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::text("Class", |object, _| or_none(text(object, "spec.ingressClassName"))),
            Column::text("Hosts", |object, _| hosts(object).into()),
            Column::text("Address", |object, _| address(object).into()),
            Column::text(
                "Ports",
                |object, _| {
                    if count(object, "spec.tls") > 0 { "80, 443".into() } else { "80".into() }
                },
            ),
            age(),
        ],
        rules: Rules {
            generations: Generations::Content,
            prepare_create: blank_status,
            prepare_update: keep_status_apart,
            validate: validate_ingress,
            warn: |object, change| {
                let annotated = annotation(object, CLASS_ANNOTATION).is_some();
                if change.old.is_some() || !annotated || is_set(object, "spec.ingressClassName") {
                    return Vec::new();
                }
                vec![format!(
                    "annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"
                )]
            },
            ..Rules::default()
        },
        ..resource
    }
}

pub(super) fn ingress_class(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            Column::text("Name", |object, _| named_default(object, &[DEFAULT_CLASS]).into()).named(),
            Column::text("Controller", |object, _| text(object, "spec.controller").into()),
            Column::text("Parameters", |object, _| or(parameters(object), "<none>")),
            age(),
        ],
        rules: Rules {
            generations: Generations::Content,
            default: |object, _| fill(object, &[("spec.parameters", "scope", To::Text("Cluster"))]),
            validate: validate_class,
            ..Rules::default()
        },
        ..resource
    }
}

pub(super) fn network_policy(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::text("Pod-Selector", |object, _| selector(object, "spec.podSelector")),
            age(),
        ],
        rules: Rules {
            generations: Generations::Content,
            default: |object, _| default_policy(object),
            validate: validate_policy,
            ..Rules::default()
        },
        ..resource
    }
}

pub(super) fn annotation<'a>(object: &'a Object, key: &str) -> Option<&'a str> {
    object.meta()?.get("annotations")?.get(key)?.as_str()
}

/// The name of a class, with a word for the one that is taken when nobody says which.
pub(super) fn named_default(object: &Object, annotations: &[&str]) -> String {
    let is_default = annotations.iter().any(|key| annotation(object, key) == Some("true"));
    format!("{}{}", object.name(), if is_default { " (default)" } else { "" })
}

/// At most three hosts; rules without one are for all.
fn hosts(object: &Object) -> String {
    const SHOWN: usize = 3;
    let mut shown = Vec::new();
    let mut more = false;
    for (_, rule) in items(object, "spec.rules") {
        more = more || shown.len() == SHOWN;
        let host = text_of(rule, "host");
        if !more && !host.is_empty() {
            shown.push(host);
        }
    }
    match (shown.is_empty(), more) {
        (true, _) => "*".into(),
        (false, false) => shown.join(","),
        (false, true) => format!("{} + {} more...", shown.join(","), count(object, "spec.rules") - SHOWN),
    }
}

/// Where the load balancer is, cut to the width of the column.
fn address(object: &Object) -> String {
    let one = |(_, at): (String, &Value)| match (text_of(at, "ip"), text_of(at, "hostname")) {
        ("", "") => None,
        ("", host) => Some(host.to_owned()),
        (ip, _) => Some(ip.to_owned()),
    };
    let all: BTreeSet<String> = items(object, "status.loadBalancer.ingress").filter_map(one).collect();
    let all = all.into_iter().collect::<Vec<_>>().join(",");
    match all.get(..ADDRESS_WIDTH - 3) {
        Some(cut) if all.len() > ADDRESS_WIDTH => format!("{cut}..."),
        _ => all,
    }
}

fn parameters(object: &Object) -> String {
    let part = |key: &str| text(object, &format!("spec.parameters.{key}"));
    match (is_set(object, "spec.parameters"), part("apiGroup")) {
        (false, _) => String::new(),
        (true, "") => format!("{}/{}", part("kind"), part("name")),
        (true, group) => format!("{}.{group}/{}", part("kind"), part("name")),
    }
}

fn default_policy(object: &mut Object) {
    for ports in ["spec.ingress[].ports[]", "spec.egress[].ports[]"] {
        fill(object, &[(ports, "protocol", To::Text("TCP"))]);
    }
    each(object, "spec", &mut |spec| {
        let has = |key: &str| spec.get(key).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
        if !has("policyTypes") {
            let types = if has("egress") { vec!["Ingress", "Egress"] } else { vec!["Ingress"] };
            spec.insert("policyTypes".into(), types.into());
        }
    });
}

fn validate_ingress(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    let mut check = Check::new(object, change);
    if change.subresource == Some(Subresource::Status) {
        validate_addresses(object, &mut check);
        return check.errors;
    }
    let backend = lookup(object, "spec.defaultBackend").filter(|backend| !backend.is_null());
    if backend.is_none() && count(object, "spec.rules") == 0 {
        let rules = lookup(object, "spec.rules").cloned().unwrap_or(Value::Null);
        let detail = "either `defaultBackend` or `rules` must be specified";
        check.add(FieldError::invalid("spec", rules, detail));
    }
    if let Some(backend) = backend {
        validate_backend(backend, "spec.defaultBackend", &mut check);
    }
    for (path, rule) in items(object, "spec.rules") {
        validate_rule(rule, &path, &mut check);
    }
    for (path, tls) in items(object, "spec.tls") {
        for (path, host) in items_of(tls, &path, "hosts") {
            validate_host(host.as_str().unwrap_or_default(), &path, &mut check);
        }
        let secret = text_of(tls, "secretName");
        if !secret.is_empty() {
            invalid(&mut check, &format!("{path}.secretName"), secret, names::subdomain(secret));
        }
    }
    check.named("spec.ingressClassName", names::subdomain);
    let (annotated, class) = (annotation(object, CLASS_ANNOTATION), text(object, "spec.ingressClassName"));
    if let (None, Some(annotated)) =
        (change.old, annotated.filter(|_| is_set(object, "spec.ingressClassName")))
        && annotated != class
    {
        let detail = "must match `ingressClassName` when both are specified";
        check.add(FieldError::invalid(format!("annotations.{CLASS_ANNOTATION}"), annotated, detail));
    }
    check.errors
}

fn invalid(check: &mut Check<'_>, path: &str, value: &str, problems: Vec<String>) {
    for problem in problems {
        check.add(FieldError::invalid(path, value, problem));
    }
}

fn validate_addresses(object: &Object, check: &mut Check<'_>) {
    for (path, at) in items(object, "status.loadBalancer.ingress") {
        let (ip, host) = (text_of(at, "ip"), text_of(at, "hostname"));
        if !ip.is_empty() && ip.parse::<IpAddr>().is_err() {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            check.add(FieldError::invalid(format!("{path}.ip"), ip, detail));
        }
        if !host.is_empty() {
            invalid(check, &format!("{path}.hostname"), host, names::subdomain(host));
        }
    }
}

fn validate_host(host: &str, path: &str, check: &mut Check<'_>) {
    let problems = if host.contains('*') { names::wildcard_subdomain(host) } else { names::subdomain(host) };
    invalid(check, path, host, problems);
}

fn validate_rule(rule: &Value, path: &str, check: &mut Check<'_>) {
    let host = text_of(rule, "host");
    if !host.is_empty() {
        let field = format!("{path}.host");
        if host.parse::<IpAddr>().is_ok() {
            check.add(FieldError::invalid(&field, host, "must be a DNS name, not an IP address"));
        }
        validate_host(host, &field, check);
    }
    let Some(http) = rule.get("http").filter(|http| !http.is_null()) else { return };
    let path = format!("{path}.http");
    if http.get("paths").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        check.add(FieldError::required(format!("{path}.paths"), ""));
    }
    for (path, item) in items_of(http, &path, "paths") {
        validate_path(item, &path, check);
    }
}

fn validate_path(item: &Value, path: &str, check: &mut Check<'_>) {
    const TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
    let (field, route) = (format!("{path}.path"), text_of(item, "path"));
    let relative = !route.starts_with('/');
    match text_of(item, "pathType") {
        "" => {
            check.add(FieldError::required(format!("{path}.pathType"), "pathType must be specified"));
            return;
        }
        "ImplementationSpecific" if route.is_empty() || !relative => {}
        "Exact" | "Prefix" | "ImplementationSpecific" if relative => {
            check.add(FieldError::invalid(&field, route, "must be an absolute path"));
        }
        "Exact" | "Prefix" => {
            for odd in ["//", "/./", "/../", "%2f", "%2F"].iter().filter(|odd| route.contains(**odd)) {
                check.add(FieldError::invalid(&field, route, format!("must not contain '{odd}'")));
            }
            for odd in ["/..", "/."].iter().filter(|odd| route.ends_with(**odd)) {
                check.add(FieldError::invalid(&field, route, format!("cannot end with '{odd}'")));
            }
        }
        other => check.add(FieldError::not_supported(format!("{path}.pathType"), other, &TYPES)),
    }
    let none = Value::Null;
    validate_backend(item.get("backend").unwrap_or(&none), &format!("{path}.backend"), check);
}

fn validate_backend(backend: &Value, path: &str, check: &mut Check<'_>) {
    let given = |key: &str| backend.get(key).filter(|value| !value.is_null());
    match (given("resource"), given("service")) {
        (Some(_), Some(_)) => {
            check.add(FieldError::invalid(path, "", "cannot set both resource and service backends"));
        }
        (Some(resource), None) => {
            for key in ["kind", "name"].iter().filter(|key| text_of(resource, key).is_empty()) {
                check.add(FieldError::required(format!("{path}.resource.{key}"), ""));
            }
        }
        (None, Some(service)) => validate_service(service, path, check),
        (None, None) => {
            check.add(FieldError::invalid(path, "", "resource or service backend is required"));
        }
    }
}

fn validate_service(service: &Value, path: &str, check: &mut Check<'_>) {
    let (field, name) = (format!("{path}.service.name"), text_of(service, "name"));
    if name.is_empty() {
        check.add(FieldError::required(field, ""));
    } else {
        invalid(check, &field, name, names::label(name));
    }
    let port = service.get("port").cloned().unwrap_or_default();
    let number = port.get("number").and_then(Value::as_i64).unwrap_or(0);
    match (text_of(&port, "name"), number) {
        ("", 0) => check.add(FieldError::required(path, "port name or number is required")),
        ("", number) if !is_port(number) => {
            check.add(FieldError::invalid(format!("{path}.service.port.number"), number, PORT));
        }
        ("", _) => {}
        (name, 0) => {
            invalid(check, &format!("{path}.service.port.name"), name, names::port_name(name));
        }
        _ => check.add(FieldError::invalid(path, "", "cannot set both port name & port number")),
    }
}

fn validate_class(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    let mut check = Check::new(object, change);
    check.fixed("spec.controller");
    let controller = text(object, "spec.controller");
    const PATH: &str = "spec.controller";
    match controller.split_once('/') {
        None if controller.is_empty() => check.add(FieldError::required(PATH, "")),
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
            invalid(&mut check, PATH, controller, names::subdomain(domain));
        }
        _ => {
            let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            check.add(FieldError::invalid(PATH, controller, detail));
        }
    }
    if !is_set(object, "spec.parameters") {
        return check.errors;
    }
    check.named("spec.parameters.apiGroup", names::subdomain);
    check.required("spec.parameters.kind");
    check.required("spec.parameters.name");
    check.one_of("spec.parameters.scope", &["Cluster", "Namespace"]);
    let namespace = is_set(object, "spec.parameters.namespace");
    match (text(object, "spec.parameters.scope"), namespace) {
        ("Namespace", false) => {
            let detail = "`parameters.scope` is set to 'Namespace'";
            check.add(FieldError::required("spec.parameters.namespace", detail));
        }
        ("Cluster", true) => {
            let detail = "`parameters.scope` is set to 'Cluster'";
            check.add(FieldError::forbidden("spec.parameters.namespace", detail));
        }
        _ => check.named("spec.parameters.namespace", names::label),
    }
    check.errors
}

fn validate_policy(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    let mut check = Check::new(object, change);
    if let Some(selector) = lookup(object, "spec.podSelector") {
        validate_selector(selector, "spec.podSelector", &mut check.errors);
    }
    for (rules, peers) in [("spec.ingress", "from"), ("spec.egress", "to")] {
        for (path, rule) in items(object, rules) {
            for (path, port) in items_of(rule, &path, "ports") {
                validate_policy_port(port, &path, &mut check);
            }
            for (path, peer) in items_of(rule, &path, peers) {
                validate_peer(peer, &path, &mut check);
            }
        }
    }
    const TYPES: [&str; 2] = ["Ingress", "Egress"];
    for (path, kind) in items(object, "spec.policyTypes") {
        let kind = kind.as_str().unwrap_or_default();
        if !TYPES.contains(&kind) {
            check.add(FieldError::not_supported(path, kind, &TYPES));
        }
    }
    check.errors
}

fn validate_policy_port(port: &Value, path: &str, check: &mut Check<'_>) {
    const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
    let protocol = text_of(port, "protocol");
    if !PROTOCOLS.contains(&protocol) {
        check.add(FieldError::not_supported(format!("{path}.protocol"), protocol, &PROTOCOLS));
    }
    let (field, end_field) = (format!("{path}.port"), format!("{path}.endPort"));
    let end = port.get("endPort").and_then(Value::as_i64);
    match (port.get("port"), end) {
        (Some(Value::Number(first)), end) => {
            let first = first.as_i64().unwrap_or(0);
            if !is_port(first) {
                check.add(FieldError::invalid(field, first, PORT));
            }
            if end.is_some_and(|end| end < first) {
                let detail = "must be greater than or equal to `port`";
                check.add(FieldError::invalid(&end_field, first, detail));
            }
            if let Some(end) = end.filter(|end| !is_port(*end)) {
                check.add(FieldError::invalid(end_field, end, PORT));
            }
        }
        (Some(Value::String(name)), end) => {
            if let Some(end) = end {
                let detail = "may not be specified when `port` is non-numeric";
                check.add(FieldError::invalid(end_field, end, detail));
            }
            invalid(check, &field, name, names::port_name(name));
        }
        (_, Some(end)) => {
            let detail = "may not be specified when `port` is not specified";
            check.add(FieldError::invalid(end_field, end, detail));
        }
        _ => {}
    }
}

fn validate_peer(peer: &Value, path: &str, check: &mut Check<'_>) {
    let given = |key: &str| peer.get(key).filter(|value| !value.is_null());
    let mut peers = 0;
    for key in ["podSelector", "namespaceSelector"] {
        if let Some(selector) = given(key) {
            peers += 1;
            validate_selector(selector, &format!("{path}.{key}"), &mut check.errors);
        }
    }
    match given("ipBlock") {
        Some(block) => {
            let field = format!("{path}.ipBlock.cidr");
            match text_of(block, "cidr") {
                "" => check.add(FieldError::required(field, "")),
                range if !super::address::is_range(range) => {
                    check.add(FieldError::invalid(field, range, super::address::NO_RANGE));
                }
                _ => {}
            }
            if peers > 0 {
                check.add(FieldError::forbidden(path, "may not specify both ipBlock and another peer"));
            }
        }
        None if peers == 0 => check.add(FieldError::required(path, "must specify a peer")),
        None => {}
    }
}
