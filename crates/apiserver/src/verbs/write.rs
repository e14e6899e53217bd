//! Create and replace: the whole object comes from the client.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::Value;

use super::{Call, render};
use crate::body::Body;
use crate::collection::UpdateRequest;
use crate::decode::{Decoded, decode};
use crate::negotiate::{Accepted, Encoding};
use crate::object::{Meta, Object};
use crate::options::{FieldValidation, WriteOptions};
use crate::registry::{Resource, Subresource};
use crate::shape::BUILTINS;
use crate::status::{Answer, Refusal};

pub(super) async fn create(
    call: &mut Call,
    encoding: Encoding,
    bytes: &Bytes,
    options: WriteOptions,
    accepted: Accepted,
) -> Answer<Response<Body>> {
    let (mut object, warnings) = read_object(&call.resource, encoding, bytes, options.validation)?;
    call.warnings.extend(warnings);
    if !object.meta_str("resourceVersion").is_empty() {
        return Err(Refusal::bad_request("resourceVersion should not be set on objects to be created"));
    }
    settle_namespace(call, &mut object)?;
    let written = call.collection().create(&call.namespace, object, options.effect).await?;
    render::one(call, StatusCode::CREATED, &written.bytes, accepted)
}

pub(super) async fn update(
    call: &mut Call,
    encoding: Encoding,
    bytes: &Bytes,
    options: WriteOptions,
    subresource: Option<Subresource>,
    accepted: Accepted,
) -> Answer<Response<Body>> {
    let (object, warnings) = read_object(&call.resource, encoding, bytes, options.validation)?;
    call.warnings.extend(warnings);
    check_location(call, &object)?;
    let request = UpdateRequest { effect: options.effect, subresource };
    let written = call
        .collection()
        .update(call.location()?, request, |_| {
            let mut object = object.clone();
            settle_namespace(call, &mut object)?;
            Ok(object)
        })
        .await?;
    let status = if written.created { StatusCode::CREATED } else { StatusCode::OK };
    render::one(call, status, &written.bytes, accepted)
}

/// The object in a body, in its stored form, and what is odd about it.
fn read_object(
    resource: &Resource,
    encoding: Encoding,
    bytes: &Bytes,
    validation: FieldValidation,
) -> Answer<(Object, Vec<String>)> {
    let Decoded { value, duplicates } = decode(bytes, encoding).map_err(|error| {
        Refusal::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: {error} ({})",
            resource.kind,
            summary(bytes)
        ))
    })?;
    let Value::Object(object) = value else {
        return Err(Refusal::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: the body is no object ({})",
            resource.kind,
            summary(bytes)
        )));
    };
    let duplicates = duplicates.into_iter().map(|path| format!("duplicate field {path:?}")).collect();
    conform(resource, object, duplicates, validation)
}

/// Checks type, kind and fields of an object that is in this version's form, and brings it into its stored form.
pub(super) fn conform(
    resource: &Resource,
    mut object: Object,
    mut oddities: Vec<String>,
    validation: FieldValidation,
) -> Answer<(Object, Vec<String>)> {
    check_kind(resource, &mut object)?;
    let unfit = |message: String| {
        let (kind, version) = (&resource.kind, &resource.version);
        Refusal::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {message}"
        ))
    };
    let conformed = BUILTINS.conform(resource.shape, object).map_err(unfit)?;
    oddities.extend(conformed.unknown.into_iter().map(|path| format!("unknown field {path:?}")));
    match validation {
        FieldValidation::Strict if !oddities.is_empty() => {
            return Err(unfit(format!("strict decoding error: {}", oddities.join(", "))));
        }
        FieldValidation::Ignore => oddities.clear(),
        FieldValidation::Strict | FieldValidation::Warn => {}
    }
    let stored = resource.to_stored(conformed.object);
    if !resource.is_view() {
        return Ok((stored, oddities));
    }
    let conformed = BUILTINS.conform(resource.storage.shape, stored).map_err(unfit)?;
    Ok((conformed.object, oddities))
}

/// The kind and version that an object claims must be the ones of the path; none is as good as the right one.
fn check_kind(resource: &Resource, object: &mut Object) -> Answer<()> {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let expected = resource.api_version();
    if !kind.is_empty() && kind != resource.kind {
        let version = api_version.rsplit('/').next().unwrap_or_default();
        return Err(Refusal::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {}: no kind {kind:?} is registered for version {api_version:?}",
            resource.kind
        )));
    }
    if !api_version.is_empty() && api_version != expected {
        return Err(Refusal::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    object.insert("apiVersion".into(), expected.into());
    object.insert("kind".into(), resource.kind.clone().into());
    Ok(())
}

/// The namespace of the path is the object's, unless it names another.
fn settle_namespace(call: &Call, object: &mut Object) -> Answer<()> {
    let named = object.namespace();
    if !call.resource.is_namespaced() {
        object.meta_mut().remove("namespace");
    } else if named.is_empty() {
        object.meta_mut().insert("namespace".into(), call.namespace.clone().into());
    } else if named != call.namespace {
        return Err(Refusal::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// An object that is put somewhere must say the same name and namespace as the path.
fn check_location(call: &Call, object: &Object) -> Answer<()> {
    let at = call.location()?;
    if object.name() != at.name {
        return Err(Refusal::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            object.name(),
            at.name
        )));
    }
    let named = object.namespace();
    if call.resource.is_namespaced() && !named.is_empty() && named != at.namespace {
        return Err(Refusal::bad_request(format!(
            "the namespace of the object ({named}) does not match the namespace on the request ({})",
            at.namespace
        )));
    }
    Ok(())
}

/// The beginning of a body, for messages: text when it looks like an object, else hexadecimal.
fn summary(bytes: &[u8]) -> String {
    const SHOWN: usize = 30;
    let head = bytes.get(..SHOWN).unwrap_or(bytes);
    let more = if bytes.len() > SHOWN { " ..." } else { "" };
    match bytes.first() {
        None => "<empty>".into(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(head)),
        Some(_) => {
            let hex: String = head.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{hex}{more}")
        }
    }
}
