//! Patch: the change comes from the client, and is applied to whatever is there now.

use ::json_patch::merge;
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::Value;

use super::conform::{Conformed, conform};
use super::write::{check_name, settle_namespace};
use super::{Call, json_patch, render};
use crate::authors::Author;
use crate::body::Body;
use crate::collection::{Absent, UpdateRequest};
use crate::decode::decode;
use crate::field::FieldError;
use crate::negotiate::{Accepted, Encoding, PatchKind};
use crate::object::{Meta, Object};
use crate::options::{FieldValidation, WriteOptions};
use crate::registry::{Subresource, Typing};
use crate::shape::{BUILTINS, describe};
use crate::status::{Answer, Refusal};
use crate::strategic;

/// The most operations that a JSON patch may have.
const OPERATIONS: usize = 10_000;

/// A patch, read.
enum Patch {
    Json(Vec<Value>),
    Merge(Value),
    Strategic(Object),
}

pub(super) async fn patch(
    call: &mut Call,
    kind: PatchKind,
    bytes: &Bytes,
    options: WriteOptions,
    subresource: Option<Subresource>,
    accepted: Accepted,
) -> Answer<Response<Body>> {
    let (patch, oddities) = read_patch(kind, bytes)?;
    let at = call.location()?;
    if call.collection().find(at).is_none() {
        return Err(Refusal::not_found(call.resource.qualified(), at.name));
    }
    let manager = call.manager(&options);
    let author = Author::Manager(&manager);
    let request = UpdateRequest { effect: options.effect, subresource, author, absent: Absent::ByKind };
    let written = call
        .collection()
        .update(at, request, |old| {
            let Some(old) = old else {
                return Err(Refusal::not_found(call.resource.qualified(), at.name));
            };
            let patched = apply(&patch, &call.resource.typing, call.resource.to_served(old.clone()))?;
            let Conformed { mut object, warnings } = conform(call, patched, options.validation)
                .map_err(|misfit| Refusal::misfit_after_patch(misfit.why()))?;
            call.warnings.add(judge(&oddities, warnings, options.validation)?);
            check_name(call, &object)?;
            settle_namespace(call, &mut object)?;
            check_uid(call, &object, old)?;
            call.admit(Some(old), &object)?;
            Ok(object)
        })
        .await?;
    call.warnings.add(written.warnings);
    render::one(call, StatusCode::OK, &written.bytes, accepted)
}

/// What is odd about a patch itself is treated like what is odd about the object it makes.
fn judge(oddities: &[String], odd: Vec<String>, validation: FieldValidation) -> Answer<Vec<String>> {
    match validation {
        FieldValidation::Ignore => Ok(odd),
        FieldValidation::Warn => Ok(oddities.iter().cloned().chain(odd).collect()),
        FieldValidation::Strict if oddities.is_empty() => Ok(odd),
        FieldValidation::Strict => {
            Err(Refusal::misfit_after_patch(format!("strict decoding error: {}", oddities.join(", "))))
        }
    }
}

/// The fields of an operation that mean nothing.
fn unknown_in(operations: &[Value]) -> impl Iterator<Item = String> {
    let unknown = |(at, operation): (usize, &Value)| {
        let fields = operation.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default();
        let odd = |field: &String| !matches!(field.as_str(), "op" | "path" | "from" | "value");
        let fields: Vec<String> = fields;
        fields
            .into_iter()
            .filter(odd)
            .map(move |field| format!("json patch unknown field \"[{at}].{field}\""))
    };
    operations.iter().enumerate().flat_map(unknown)
}

/// A patch, and what is odd about it.
fn read_patch(kind: PatchKind, bytes: &Bytes) -> Answer<(Patch, Vec<String>)> {
    let bad = |why: String| Refusal::bad_request(format!("error decoding patch: {why}"));
    let decoded = decode(bytes, Encoding::Json).map_err(bad)?;
    let found = describe(&decoded.value);
    let lead = if kind == PatchKind::Json { "json patch " } else { "" };
    let mut oddities: Vec<String> =
        decoded.duplicates.iter().map(|path| format!("{lead}duplicate field {path:?}")).collect();
    if let (PatchKind::Json, Value::Array(operations)) = (kind, &decoded.value) {
        oddities.extend(unknown_in(operations));
    }
    let patch = match (kind, decoded.value) {
        (PatchKind::Json, Value::Array(operations)) if operations.len() > OPERATIONS => {
            Err(Refusal::too_large(OPERATIONS))
        }
        (PatchKind::Json, Value::Array(operations)) => Ok(Patch::Json(operations)),
        (PatchKind::Json, _) => {
            Err(bad(format!("json: cannot unmarshal {found} into Go value of type []handlers.jsonPatchOp")))
        }
        (PatchKind::Merge, merge @ Value::Object(_)) => Ok(Patch::Merge(merge)),
        (PatchKind::Strategic, Value::Object(patch)) => Ok(Patch::Strategic(patch)),
        (PatchKind::Merge, Value::Null) => Err(Refusal::bad_request("Invalid JSON Patch")),
        (PatchKind::Merge | PatchKind::Strategic | PatchKind::Apply, _) => Err(bad(format!(
            "json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        ))),
    };
    patch.map(|patch| (patch, oddities))
}

fn apply(patch: &Patch, typing: &Typing, object: Object) -> Answer<Object> {
    let mut value = Value::Object(object);
    match patch {
        Patch::Json(operations) => json_patch::apply(&mut value, operations)?,
        Patch::Merge(change) => merge(&mut value, change),
        Patch::Strategic(patch) => {
            let (Typing::Builtin(shape), Value::Object(object)) = (typing, value) else {
                return Err(Refusal::patch_failed());
            };
            let merged = strategic::merge(object, patch.clone(), Some(BUILTINS.merging(shape)));
            return merged.map_err(Refusal::bad_request);
        }
    }
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(Refusal::bad_request("the patched document is no object")),
    }
}

/// The uid in a patch is a change, not a condition: one that nobody can make.
pub(super) fn check_uid(call: &Call, object: &Object, old: &Object) -> Answer<()> {
    if object.uid().is_empty() || object.uid() == old.uid() {
        return Ok(());
    }
    let error = FieldError::invalid("metadata.uid", object.uid(), "field is immutable");
    Err(Refusal::invalid(call.resource.qualified_kind(), old.name(), &[error]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfc_for_merge_patches_hold() {
        let cases = include_str!("../../tests/vectors/json-merge-patch.json");
        let cases: Vec<Value> = serde_json::from_str(cases).unwrap();
        assert_eq!(cases.len(), 15);
        for case in cases {
            let mut document = case["original"].clone();
            merge(&mut document, &case["patch"]);
            assert_eq!(document, case["result"], "{case}");
        }
    }
}
