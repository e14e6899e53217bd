//! ServiceCIDR and IPAddress: which addresses services could have. They are records; nobody here gives out addresses.

use std::net::IpAddr;

use serde_json::Value;

use super::cells::{or_none, text_of};
use super::check::{Check, items};
use super::{blank_status, keep_status_and_metadata_apart};
use crate::field::FieldError;
use crate::object::{Object, list, lookup};
use crate::registry::{Change, Resource, Rules, Subresource};
use crate::table::{Column, age, name};

pub(super) const NO_RANGE: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

pub(super) fn service_cidr(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::text("CIDRs", |object, _| {
                super::cells::joined(lookup(object, "spec.cidrs"), |range| {
                    range.as_str().unwrap_or_default().to_owned()
                })
                .into()
            }),
            age(),
        ],
        rules: Rules {
            prepare_create: blank_status,
            prepare_update: keep_status_and_metadata_apart,
            validate: validate_ranges,
            ..Rules::default()
        },
        ..resource
    }
}

pub(super) fn ip_address(resource: Resource) -> Resource {
    Resource {
        columns: vec![name(), Column::text("ParentRef", |object, _| or_none(parent(object)))],
        rules: Rules {
            names: crate::names::NameRule::Address,
            validate: validate_address,
            ..Rules::default()
        },
        ..resource
    }
}

/// Whether text is an address with the length of its network.
pub(super) fn is_range(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let longest = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.parse::<u8>().is_ok_and(|length| length <= longest)
}

fn parent(object: &Object) -> String {
    let Some(parent) = lookup(object, "spec.parentRef") else { return String::new() };
    let mut shown = text_of(parent, "resource").to_lowercase();
    for (separator, key) in [(".", "group"), ("/", "namespace"), ("/", "name")] {
        let part = text_of(parent, key);
        if !part.is_empty() {
            shown.push_str(separator);
            shown.push_str(part);
        }
    }
    shown
}

fn validate_address(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    let mut check = Check::new(object, change);
    if lookup(object, "spec.parentRef").is_none_or(Value::is_null) {
        check.add(FieldError::required("spec.parentRef", ""));
        return check.errors;
    }
    check.named("spec.parentRef.group", crate::names::subdomain);
    check.required("spec.parentRef.resource");
    check.required("spec.parentRef.name");
    check.fixed("spec.parentRef");
    check.errors
}

fn validate_ranges(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    const PATH: &str = "spec.cidrs";
    let mut check = Check::new(object, change);
    if change.subresource == Some(Subresource::Status) {
        return check.errors;
    }
    let now = list(object, PATH);
    match change.old.map(|old| list(old, PATH)) {
        // One family can be joined by the other; nothing else changes.
        Some(old) if now.len() == old.len() || (old.len() == 1 && now.len() == 2) => {
            for ((path, range), _) in items(object, PATH).zip(old).filter(|((_, now), old)| now != old) {
                check.add(FieldError::invalid(path, range.clone(), "field is immutable"));
            }
            if now.len() == old.len() {
                return check.errors;
            }
        }
        Some(_) => {
            check.add(FieldError::invalid(PATH, now, "field is immutable"));
            return check.errors;
        }
        None => {}
    }
    match now {
        [] => check.add(FieldError::required(PATH, "at least one CIDR required")),
        [_, _, _, ..] => {
            let spec = lookup(object, "spec").cloned().unwrap_or_default();
            check.add(FieldError::invalid(PATH, spec, "may only hold up to 2 values"));
        }
        ranges => {
            for (path, range) in items(object, PATH) {
                let range = range.as_str().unwrap_or_default();
                if !is_range(range) {
                    check.add(FieldError::invalid(path, range, NO_RANGE));
                }
            }
            let family = |range: &Value| range.as_str().unwrap_or_default().contains(':');
            if let [one, other] = ranges
                && family(one) == family(other)
            {
                let detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
                check.add(FieldError::invalid(PATH, ranges, detail));
            }
        }
    }
    check.errors
}
