//! JSON patches, with the leniency of Kubernetes: a missing value is null, a replace of what is not there adds it, a
//! copy of what is not there is a null, what is not there passes a test for null, and indices may count from the end.
//! Everything else is RFC 6902.

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
    let adds = operation.get("op").is_some_and(|op| ["add", "move", "copy"].iter().any(|name| op == name));
    let path = from_the_end(document, pointer(operation.get("path")?)?, adds);
    let value = || operation.get("value").cloned().unwrap_or_default();
    let from = || operation.get("from").and_then(pointer).map(|from| from_the_end(document, from, false));
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

/// A pointer without indices that count from the end of a list. What is added last of all has the index -1.
fn from_the_end(document: &Value, pointer: PointerBuf, adds: bool) -> PointerBuf {
    let mut plain = PointerBuf::new();
    let mut here = Some(document);
    let count = pointer.tokens().count();
    for (at, token) in pointer.tokens().enumerate() {
        let text = token.decoded().into_owned();
        let negative = text.parse::<i64>().ok().filter(|index| *index < 0);
        let text = match (here, negative) {
            (Some(Value::Array(items)), Some(index)) => {
                let length = items.len() + usize::from(adds && at + 1 == count);
                let index = i64::try_from(length).unwrap_or(i64::MAX) + index;
                if index < 0 { text } else { index.to_string() }
            }
            _ => text,
        };
        here = here.and_then(|value| match value {
            Value::Array(items) => text.parse::<usize>().ok().and_then(|index| items.get(index)),
            value => value.get(&text),
        });
        plain.push_back(text.as_str());
    }
    plain
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
            (
                json!([{"op": "add", "path": "/l", "value": [1, 2]}, {"op": "remove", "path": "/l/-2"}]),
                Ok(json!({"a": {"b": 1}, "l": [2]})),
            ),
            (json!([{"op": "add", "path": "/l", "value": [1]}, {"op": "remove", "path": "/l/-2"}]), Err(422)),
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

    /// Cases that Kubernetes decides otherwise than the suite, and so do we: comment or first operation, and the reason.
    const OTHERWISE: &[(&str, &str)] = &[
        ("missing 'value' parameter to add", "a missing value is null"),
        ("missing 'value' parameter to replace", "a missing value is null"),
        ("missing 'value' parameter to test", "a missing value is null"),
        (r#"{"op":"add","path":"/bar/-1","value":"5"}"#, "indices may count from the end"),
    ];

    #[test]
    fn the_json_patch_suite_passes_but_for_what_kubernetes_decides_otherwise() {
        let suites = [
            include_str!("../../tests/vectors/json-patch/tests.json"),
            include_str!("../../tests/vectors/json-patch/spec_tests.json"),
        ];
        let mut ran = 0;
        let mut wrong = Vec::new();
        for suite in suites {
            let cases: Value = serde_json::from_str(suite).unwrap();
            for case in cases.as_array().unwrap() {
                let Some(operations) = case["patch"].as_array() else { continue };
                if case["disabled"] == true {
                    continue;
                }
                let mut document = case["doc"].clone();
                let outcome = apply(&mut document, operations).map_err(|refusal| refusal.code());
                let as_told = match case.get("expected") {
                    Some(expected) => outcome.is_ok() && document == *expected,
                    None => outcome.is_err() || case.get("error").is_none(),
                };
                let about = match case["comment"].as_str() {
                    Some(comment) => comment.to_owned(),
                    None => operations.iter().map(Value::to_string).collect(),
                };
                let otherwise = OTHERWISE.iter().any(|(row, _)| *row == about);
                if as_told == otherwise {
                    wrong.push(format!("{about}: {outcome:?} {document} of {case}"));
                }
                ran += 1;
            }
        }
        assert!(wrong.is_empty(), "{} of {ran} cases:\n{}", wrong.len(), wrong.join("\n"));
        assert!(ran > 90, "only {ran} cases ran");
    }
}
