//! CertificateSigningRequest: somebody asks for a certificate, somebody else approves, and a signer makes it. Approval and
//! status have endpoints of their own, so that whoever may do one cannot do the other.

use std::cmp::Ordering;

use base64::Engine as _;
use serde_json::{Map, Value, json};

use super::blank_status;
use super::cells::{or_none, text_of};
use super::check::{Check, items};
use crate::field::FieldError;
use crate::identity::Identity;
use crate::object::{Meta, Object, list, lookup, text};
use crate::registry::{Change, Resource, Rules, Subresource};
use crate::selector::Selectable;
use crate::table::{Column, age, name};
use crate::times;

pub(crate) const GROUP: &str = "certificates.k8s.io";
pub(crate) const PLURAL: &str = "certificatesigningrequests";
/// The signer of certificates with which clients of this server come.
pub(crate) const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
pub(crate) const APPROVED: &str = "Approved";
pub(crate) const DENIED: &str = "Denied";
pub(crate) const FAILED: &str = "Failed";

/// What a request says of its author, which only the server writes.
const AUTHOR: [&str; 4] = ["extra", "groups", "uid", "username"];
const SHORTEST: i64 = 600;
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

pub(super) fn own(resource: Resource) -> Resource {
    Resource {
        selectable: vec![Selectable::at("spec.signerName", &["spec.signerName"])],
        columns: vec![
            name(),
            age(),
            Column::text("SignerName", |object, _| or_none(text(object, "spec.signerName"))),
            Column::text("Requestor", |object, _| text(object, "spec.username").into()),
            Column::text("RequestedDuration", |object, _| {
                match lookup(object, "spec.expirationSeconds").and_then(Value::as_i64) {
                    Some(seconds) => times::span(seconds).into(),
                    None => "<none>".into(),
                }
            }),
            Column::text("Condition", |object, _| state(object).into()),
        ],
        rules: Rules {
            prepare_create: |object, resource| {
                blank_status(object, resource);
                disown_author(object);
            },
            prepare_update,
            validate,
            ..Rules::default()
        },
        ..resource
    }
}

/// Says in a new request who makes it, whatever it says itself.
pub(crate) fn sign_in(object: &mut Object, identity: &Identity) {
    let spec = object.entry("spec").or_insert_with(|| Value::Object(Map::new()));
    let Value::Object(spec) = spec else { return };
    spec.retain(|key, _| !AUTHOR.contains(&key.as_str()));
    spec.insert("username".into(), identity.user.clone().into());
    if !identity.uid.is_empty() {
        spec.insert("uid".into(), identity.uid.clone().into());
    }
    if !identity.groups.is_empty() {
        spec.insert("groups".into(), identity.groups.clone().into());
    }
    if !identity.extra.is_empty() {
        spec.insert("extra".into(), json!(identity.extra));
    }
}

/// What the server says of the author is nobody's field.
fn disown_author(object: &mut Object) {
    let Some(Value::Array(entries)) = object.meta_mut().get_mut("managedFields") else { return };
    for entry in entries {
        if let Some(Value::Object(fields)) = entry.get_mut("fieldsV1").and_then(|all| all.get_mut("f:spec")) {
            fields.retain(|key, _| !AUTHOR.iter().any(|author| key.strip_prefix("f:") == Some(author)));
        }
    }
}

/// Whether a request has a condition.
pub(crate) fn has(object: &Object, condition: &str) -> bool {
    items(object, "status.conditions").any(|(_, item)| text_of(item, "type") == condition)
}

fn state(object: &Object) -> String {
    let verdict = match () {
        () if has(object, DENIED) => "Denied",
        () if has(object, APPROVED) => "Approved",
        () => "Pending",
    };
    let failed = if has(object, FAILED) { ",Failed" } else { "" };
    let issued = if text(object, "status.certificate").is_empty() { "" } else { ",Issued" };
    format!("{verdict}{failed}{issued}")
}

/// Each endpoint changes its own part: nothing but metadata, the conditions, or the status but for the verdict.
fn prepare_update(object: &mut Object, change: Change<'_>) {
    change.keep(object, "spec");
    match change.subresource {
        Some(Subresource::Approval) => {
            let conditions = lookup(object, "status.conditions").cloned();
            change.keep(object, "status");
            if let Some(conditions) = conditions {
                let status = object.entry("status").or_insert_with(|| Value::Object(Map::new()));
                crate::object::set(status, "conditions", conditions);
            } else if let Some(Value::Object(status)) = object.get_mut("status") {
                status.remove("conditions");
            }
            stamp(object, change);
        }
        Some(Subresource::Status) => stamp(object, change),
        _ => change.keep(object, "status"),
    }
}

/// A condition without times has been so since now, or since it is.
fn stamp(object: &mut Object, change: Change<'_>) {
    let now = times::seconds(change.now);
    let Some(Value::Array(conditions)) =
        object.get_mut("status").and_then(|status| status.get_mut("conditions"))
    else {
        return;
    };
    for condition in conditions {
        let same =
            |old: &&Value| ["type", "status"].iter().all(|key| text_of(old, key) == text_of(condition, key));
        let old = change.old.and_then(|old| list(old, "status.conditions").iter().find(same));
        let since = match old.map(|old| text_of(old, "lastTransitionTime")) {
            None | Some("") => now.clone(),
            Some(since) => since.to_owned(),
        };
        for (key, time) in [("lastUpdateTime", now.clone()), ("lastTransitionTime", since)] {
            if text_of(condition, key).is_empty() {
                crate::object::set(condition, key, time);
            }
        }
    }
}

/// The request itself, as PEM.
pub(crate) fn request(object: &Object) -> Option<Vec<u8>> {
    base64::engine::general_purpose::STANDARD.decode(text(object, "spec.request")).ok()
}

/// A request that can be read.
pub(crate) struct Wanted {
    /// The groups that its certificate would be in.
    pub(crate) organisations: Vec<String>,
    /// The user that it would name.
    pub(crate) user: Option<String>,
    /// The request without its armour: whoever signs takes this, and so exactly what was looked at.
    pub(crate) der: Vec<u8>,
}

pub(crate) fn read(pem: &[u8]) -> Result<Wanted, String> {
    use x509_parser::prelude::FromDer as _;
    let (_, pem) = x509_parser::pem::parse_x509_pem(pem)
        .map_err(|_| "PEM block type must be CERTIFICATE REQUEST".to_owned())?;
    if pem.label != "CERTIFICATE REQUEST" {
        return Err("PEM block type must be CERTIFICATE REQUEST".to_owned());
    }
    let (_, request) = x509_parser::certification_request::X509CertificationRequest::from_der(&pem.contents)
        .map_err(|error| error.to_string())?;
    let subject = &request.certification_request_info.subject;
    // What cannot be read as text is no group that anybody could be checked for.
    let organisations: Result<Vec<String>, String> = subject
        .iter_organization()
        .map(|name| name.as_str().map(str::to_owned).map_err(|error| error.to_string()))
        .collect();
    let user = subject.iter_common_name().next();
    let user = user.map(|name| name.as_str().map(str::to_owned)).transpose();
    let user = user.map_err(|_| "the common name of the request cannot be read".to_owned())?;
    Ok(Wanted { organisations: organisations?, user, der: pem.contents.clone() })
}

fn validate(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    let mut check = Check::new(object, change);
    if change.old.is_none() {
        validate_spec(object, &mut check);
    }
    validate_conditions(object, &mut check);
    let Some(old) = change.old else { return check.errors };
    for kind in [APPROVED, DENIED, FAILED] {
        let of = |object: &Object| {
            let is = |(_, item): &(String, &Value)| text_of(item, "type") == kind;
            items(object, "status.conditions").filter(is).map(|(_, item)| item.clone()).collect::<Vec<_>>()
        };
        let (before, after) = (of(old), of(object));
        let verdict = kind != FAILED && change.subresource != Some(Subresource::Approval);
        let wrong = match after.len().cmp(&before.len()) {
            Ordering::Less => "remove",
            Ordering::Greater if verdict => "add",
            Ordering::Equal if verdict && before != after => "modify",
            _ => continue,
        };
        let detail = format!("updates may not {wrong} a condition of type {kind:?}");
        check.add(FieldError::forbidden("status.conditions", detail));
    }
    let certificate = |object| text(object, "status.certificate");
    if !certificate(old).is_empty() && certificate(old) != certificate(object) {
        let detail = "updates may not modify existing certificate content";
        check.add(FieldError::forbidden("status.certificate", detail));
    }
    check.errors
}

fn validate_spec(object: &Object, check: &mut Check<'_>) {
    if let Err(problem) = read(&request(object).unwrap_or_default()) {
        check.add(FieldError::invalid("spec.request", text(object, "spec.request"), problem));
    }
    if list(object, "spec.usages").is_empty() {
        check.add(FieldError::required("spec.usages", ""));
    }
    let mut seen: Vec<&str> = Vec::new();
    for (path, usage) in items(object, "spec.usages") {
        let usage = usage.as_str().unwrap_or_default();
        if !USAGES.contains(&usage) {
            check.add(FieldError::not_supported(&path, usage, &USAGES));
        }
        if seen.contains(&usage) {
            check.add(FieldError::duplicate(path, usage));
        }
        seen.push(usage);
    }
    const SIGNER: &str = "spec.signerName";
    let signer = text(object, SIGNER);
    match signer.split_once('/') {
        None if signer.is_empty() => check.add(FieldError::required(SIGNER, "")),
        _ if signer == "kubernetes.io/legacy-unknown" => {
            let detail = "the legacy signerName is not allowed via this API version";
            check.add(FieldError::invalid(SIGNER, signer, detail));
        }
        Some((domain, path)) if domain.contains('.') && !path.is_empty() && !path.contains('/') => {
            check.named_part(SIGNER, domain, crate::names::subdomain);
        }
        _ => {
            let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
            check.add(FieldError::invalid(SIGNER, signer, detail));
        }
    }
    let shortest = "may not specify a duration less than 600 seconds (10 minutes)";
    check.number("spec.expirationSeconds", |seconds| seconds >= SHORTEST, shortest);
}

fn validate_conditions(object: &Object, check: &mut Check<'_>) {
    const ANY: [&str; 3] = ["False", "True", "Unknown"];
    for (path, condition) in items(object, "status.conditions") {
        let (kind, status) = (text_of(condition, "type"), text_of(condition, "status"));
        if kind.is_empty() {
            check.add(FieldError::required(format!("{path}.type"), ""));
        }
        let known: &[&str] = if [APPROVED, DENIED, FAILED].contains(&kind) { &["True"] } else { &ANY };
        match status {
            "" => check.add(FieldError::required(format!("{path}.status"), "")),
            status if !known.contains(&status) => {
                check.add(FieldError::not_supported(format!("{path}.status"), status, known));
            }
            _ => {}
        }
    }
    if let (true, true) = (has(object, APPROVED), has(object, DENIED)) {
        let last = items(object, "status.conditions")
            .map(|(_, item)| text_of(item, "type"))
            .filter(|kind| [APPROVED, DENIED].contains(kind))
            .last();
        let detail = "Approved and Denied conditions are mutually exclusive";
        check.add(FieldError::invalid("status.conditions", last.unwrap_or_default(), detail));
    }
    check.unique("status.conditions", "type");
}
