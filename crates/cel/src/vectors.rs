//! The expressions that `kube-cel` tests its functions with, most of them from Kubernetes' own tests. The README beside
//! the file names its origin.

use serde_json::{Value as Json, json};

use crate::schema::{ObjectKind, Schema, ValueType};
use crate::typed::{Input, ResultType, Variable};
use crate::{Failure, Program};

/// An object without fields.
#[derive(Debug)]
struct Empty;

impl Schema for Empty {
    fn value_type(&self) -> Option<ValueType> {
        Some(ValueType::Object)
    }
}

/// Checks and evaluates an expression as Kubernetes does the rule of an empty object.
fn evaluate(text: &str) -> Result<bool, String> {
    let program = Program::parse(text).map_err(|error| error.to_string())?;
    let variable = Variable::new("self", &Empty, ObjectKind::Plain).unwrap();
    let estimate = program.check(&[variable]).map_err(|error| error.to_string())?;
    assert!(matches!(estimate.result, ResultType::Bool | ResultType::Dynamic), "{text}");
    let object = json!({});
    let input = Input::new(&object, &Empty, ObjectKind::Plain).unwrap();
    let outcome = program.evaluate(&[("self", input)], 1_000_000).outcome;
    let output = outcome.map_err(|failure: Failure| failure.to_string())?;
    output.as_bool().ok_or_else(|| "not a boolean".to_owned())
}

#[test]
fn the_expressions_of_kube_cel_mean_the_same() {
    let cases = include_str!("../tests/vectors/kube-cel.json");
    let cases: Vec<Json> = serde_json::from_str(cases).unwrap();
    let mut wrong = Vec::new();
    for case in &cases {
        let expression = case["expression"].as_str().unwrap();
        let comparison = match case.get("value") {
            Some(Json::String(text)) => format!("({expression}) == {text:?}"),
            Some(value) => format!("({expression}) == {value}"),
            None => format!("({expression}) == ({expression})"),
        };
        // Kubernetes has the last word; where it was not asked, the crate has it.
        let is_rejected = match case.get("kubernetes").and_then(Json::as_str) {
            Some(verdict) => verdict == "refuses",
            None => case.get("fails").is_some(),
        };
        let outcome = evaluate(&comparison);
        let is_right = if is_rejected { outcome.is_err() } else { outcome == Ok(true) };
        if !is_right {
            wrong.push(format!("{case}: {outcome:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert!(cases.len() > 400);
}
