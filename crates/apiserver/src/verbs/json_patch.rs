//! JSON patches, with the leniency of Kubernetes: a missing value is null, a replace of what is not there adds it, a
//! copy of what is not there is a null, and what is not there passes a test for null. Everything else is RFC 6902.

use json_patch::jsonptr::PointerBuf;
use json_patch::{
    AddOperation, CopyOperation, MoveOperation, PatchOperation, RemoveOperation, ReplaceOperation,
    TestOperation,
};
use serde_json::Value;

use crate::shape::describe;
use crate::status::{Answer, Refusal};

/// Copies may make a document at most this much larger.
const COPY_BUDGET: usize = 3 * 1024 * 1024;

/// Applies the operations to a document, all of them or none.
pub(super) fn apply(document: &mut Value, operations: &[Value]) -> Answer<()> {
    for operation in operations {
        if !operation.is_object() {
            let found = describe(operation);
            return Err(Refusal::bad_request(format!(
                "error decoding patch: json: cannot unmarshal {found} into Go value of type handlers.jsonPatchOp"
            )));
        }
    }
    let mut patched = document.clone();
    let mut copied = 0;
    for operation in operations {
        let operation = read(&patched, operation).ok_or_else(Refusal::patch_failed)?;
        if let PatchOperation::Copy(copy) = &operation {
            copied += copy.from.resolve(&patched).map_or(0, |value| value.to_string().len());
            if copied > COPY_BUDGET {
                return Err(Refusal::patch_failed());
            }
        }
        json_patch::patch(&mut patched, &[operation]).map_err(|_| Refusal::patch_failed())?;
    }
    *document = patched;
    Ok(())
}

/// An operation in the strict form of the RFC, or nothing when it makes no sense.
fn read(document: &Value, operation: &Value) -> Option<PatchOperation> {
    let path = pointer(operation.get("path")?)?;
    let value = || operation.get("value").cloned().unwrap_or_default();
    let from = || operation.get("from").and_then(pointer);
    let is_absent = |path: &PointerBuf| {
        let parent = path.split_back().and_then(|(parent, _)| parent.resolve(document).ok());
        parent.is_some_and(Value::is_object) && path.resolve(document).is_err()
    };
    Some(match operation.get("op")?.as_str()? {
        "add" => PatchOperation::Add(AddOperation { path, value: value() }),
        "replace" if is_absent(&path) => PatchOperation::Add(AddOperation { path, value: value() }),
        "replace" => PatchOperation::Replace(ReplaceOperation { path, value: value() }),
        "remove" => PatchOperation::Remove(RemoveOperation { path }),
        // An operation that does nothing: there is always a document.
        "test" if is_absent(&path) && value().is_null() => {
            PatchOperation::Test(TestOperation { path: PointerBuf::new(), value: document.clone() })
        }
        "test" => PatchOperation::Test(TestOperation { path, value: value() }),
        "move" => PatchOperation::Move(MoveOperation { from: from()?, path }),
        "copy" => {
            let from = from()?;
            if is_absent(&from) {
                PatchOperation::Add(AddOperation { path, value: Value::Null })
            } else {
                PatchOperation::Copy(CopyOperation { from, path })
            }
        }
        _ => return None,
    })
}

/// A JSON pointer. What stands before its first slash does not count.
fn pointer(text: &Value) -> Option<PointerBuf> {
    let text = text.as_str()?;
    if text.is_empty() {
        return Some(PointerBuf::new());
    }
    PointerBuf::parse(text.get(text.find('/')?..)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn operations_do_what_kubernetes_does() {
        for (operations, expected) in [
            (json!([]), Ok(json!({"a": {"b": 1}}))),
            (json!([{"op": "add", "path": "/c", "value": 2}]), Ok(json!({"a": {"b": 1}, "c": 2}))),
            (json!([{"op": "add", "path": "/c"}]), Ok(json!({"a": {"b": 1}, "c": null}))),
            (json!([{"op": "replace", "path": "/a/c", "value": 2}]), Ok(json!({"a": {"b": 1, "c": 2}}))),
            (json!([{"op": "copy", "from": "/a/x", "path": "/c"}]), Ok(json!({"a": {"b": 1}, "c": null}))),
            (json!([{"op": "move", "from": "/a/b", "path": "/c"}]), Ok(json!({"a": {}, "c": 1}))),
            (json!([{"op": "remove", "path": "/x"}]), Err(422)),
            (json!([{"op": "replace", "path": "/x/y", "value": 1}]), Err(422)),
            (json!([{"op": "test", "path": "/a/b", "value": 2}]), Err(422)),
            (json!([{"op": "test", "path": "/a/x", "value": null}]), Ok(json!({"a": {"b": 1}}))),
            (json!([{"op": "test", "path": "/a/x", "value": 1}]), Err(422)),
            (json!([{"op": "test", "path": "/x/y", "value": null}]), Err(422)),
            (json!([{"op": "odd", "path": "/a"}]), Err(422)),
            (json!([{"op": "add"}]), Err(422)),
            (json!([1]), Err(400)),
        ] {
            let mut document = json!({"a": {"b": 1}});
            let outcome = apply(&mut document, operations.as_array().unwrap());
            assert_eq!(
                outcome.map(|()| document).map_err(|refusal| refusal.code()),
                expected,
                "{operations}"
            );
        }
    }

    #[test]
    fn copies_cannot_grow_a_document_without_bound() {
        let mut document = json!({"a": "x".repeat(1024 * 1024)});
        let copies: Vec<Value> =
            (0..8).map(|at| json!({"op": "copy", "from": "/a", "path": format!("/b{at}")})).collect();
        assert_eq!(apply(&mut document, &copies).unwrap_err().code(), 422);
    }
}
