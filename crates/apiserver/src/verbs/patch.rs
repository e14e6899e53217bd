//! Patch: the change comes from the client, and is applied to whatever is there now.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::Value;

use super::write::conform;
use super::{Call, render};
use crate::body::Body;
use crate::collection::UpdateRequest;
use crate::decode::decode;
use crate::negotiate::{Accepted, Encoding, PatchKind};
use crate::object::{Meta, Object};
use crate::options::WriteOptions;
use crate::registry::Subresource;
use crate::status::{Answer, Refusal};

/// The most operations that a JSON patch may have.
const OPERATIONS: usize = 10_000;

/// A patch, read.
enum Patch {
    Json(json_patch::Patch),
    Merge(Value),
}

pub(super) async fn patch(
    call: &mut Call,
    kind: PatchKind,
    bytes: &Bytes,
    options: WriteOptions,
    subresource: Option<Subresource>,
    accepted: Accepted,
) -> Answer<Response<Body>> {
    let patch = read_patch(kind, bytes)?;
    let mut warnings = Vec::new();
    let at = call.location()?;
    if call.collection().find(at).is_none() {
        return Err(Refusal::not_found(call.resource.qualified(), at.name));
    }
    let request = UpdateRequest { effect: options.effect, subresource };
    let written = call
        .collection()
        .update(at, request, |old| {
            let Some(old) = old else {
                return Err(Refusal::not_found(call.resource.qualified(), at.name));
            };
            let patched = apply(&patch, call.resource.from_stored(old.clone()))?;
            let (object, oddities) = conform(&call.resource, patched, Vec::new(), options.validation)?;
            warnings = oddities;
            check_unmoved(call, &object, old)?;
            Ok(object)
        })
        .await?;
    call.warnings = warnings;
    render::one(call, StatusCode::OK, &written.bytes, accepted)
}

fn read_patch(kind: PatchKind, bytes: &Bytes) -> Answer<Patch> {
    let decoded = decode(bytes, Encoding::Json)
        .map_err(|error| Refusal::bad_request(format!("error decoding patch: {error}")))?;
    match kind {
        PatchKind::Json => {
            let operations = decoded.value.as_array().map_or(0, Vec::len);
            if operations > OPERATIONS {
                return Err(Refusal::too_large(OPERATIONS));
            }
            serde_json::from_value(decoded.value)
                .map(Patch::Json)
                .map_err(|error| Refusal::bad_request(format!("error decoding patch: {error}")))
        }
        PatchKind::Merge if decoded.value.is_object() => Ok(Patch::Merge(decoded.value)),
        PatchKind::Merge => {
            Err(Refusal::bad_request("error decoding patch: a merge patch must be an object"))
        }
    }
}

fn apply(patch: &Patch, object: Object) -> Answer<Object> {
    let mut value = Value::Object(object);
    match patch {
        Patch::Json(operations) => {
            json_patch::patch(&mut value, operations).map_err(|_| Refusal::patch_failed())?;
        }
        Patch::Merge(merge) => json_patch::merge(&mut value, merge),
    }
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(Refusal::bad_request("the patched document is no object")),
    }
}

/// A patch may not move an object; a uid it names must be the object's.
fn check_unmoved(call: &Call, object: &Object, old: &Object) -> Answer<()> {
    if object.name() != old.name() {
        return Err(Refusal::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            object.name(),
            old.name()
        )));
    }
    if call.resource.is_namespaced() && object.namespace() != old.namespace() {
        return Err(Refusal::bad_request(format!(
            "the namespace of the object ({}) does not match the namespace on the request ({})",
            object.namespace(),
            old.namespace()
        )));
    }
    Ok(())
}
