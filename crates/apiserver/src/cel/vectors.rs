//! The expressions that `kube-cel` tests its functions with, which come mostly from Kubernetes' own tests. Each is made a
//! rule and judged. The file says where it is from.

use serde_json::{Value as Json, json};

use super::examine;
use super::rules::{Draft, Rules};
use super::value::Place;
use crate::schema::Schema;

/// Whether a rule is accepted with its definition and holds.
fn holds(rule: &str) -> Result<bool, String> {
    let spec = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]});
    let schema = Schema::read(&json!({"type": "object", "properties": {"spec": spec}}), "").unwrap();
    let draft = json!({"rule": rule});
    examine(&Draft::read(&draft), schema.properties.get("spec").unwrap(), Place::Within).rule?;
    let object = json!({"spec": {}});
    let errors = Rules::default().judge(&schema, object.as_object().unwrap(), None);
    match errors.first().map(ToString::to_string) {
        None => Ok(true),
        Some(error) if error.contains("failed rule") => Ok(false),
        Some(error) => Err(error),
    }
}

#[test]
fn the_expressions_of_kube_cel_mean_the_same() {
    let cases = include_str!("../../tests/vectors/kube-cel.json");
    let cases: Vec<Json> = serde_json::from_str(cases).unwrap();
    let mut wrong = Vec::new();
    for case in &cases {
        let expression = case["expression"].as_str().unwrap();
        let rule = match case.get("value") {
            Some(Json::String(text)) => format!("({expression}) == {text:?}"),
            Some(value) => format!("({expression}) == {value}"),
            None => format!("({expression}) == ({expression})"),
        };
        // Kubernetes has the last word; what it does not speak of is as the crate has it.
        let refused = match case.get("kubernetes").and_then(Json::as_str) {
            Some(verdict) => verdict == "refuses",
            None => case.get("fails").is_some(),
        };
        // What fails is refused with the definition, or fails on the object.
        let right = if refused { holds(&rule).is_err() } else { holds(&rule) == Ok(true) };
        if !right {
            wrong.push(case.to_string());
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert!(cases.len() > 400);
}
