//! Converts the values of params to their types.

use serde_json::{Number, Value};

use crate::config::ParamType;

/// Converts a value to a type. Without a type it stays.
pub fn convert(value: Value, kind: Option<ParamType>) -> Result<Value, String> {
    let Some(kind) = kind else { return Ok(value) };
    let invalid = |value: &Value, wanted: &str| Err(format!("{value} is not {wanted}"));
    match kind {
        ParamType::String => match value {
            Value::String(_) => Ok(value),
            Value::Number(_) | Value::Bool(_) => Ok(Value::String(value.to_string())),
            other => invalid(&other, "a string"),
        },
        ParamType::Int => match &value {
            Value::Number(number) if number.is_i64() || number.is_u64() => Ok(value),
            // JSON of other programs writes whole numbers with a fraction. A cast within this range is exact.
            Value::Number(number) => match number.as_f64() {
                Some(float) if float.fract() == 0.0 && float.abs() < 9e15 => Ok(Value::from(float as i64)),
                _ => invalid(&value, "an integer"),
            },
            Value::String(text) => match text.trim().parse::<i64>() {
                Ok(number) => Ok(number.into()),
                Err(_) => invalid(&value, "an integer"),
            },
            other => invalid(other, "an integer"),
        },
        ParamType::Float => match &value {
            Value::Number(_) => Ok(value),
            Value::String(text) => match text.trim().parse().ok().and_then(Number::from_f64) {
                Some(number) => Ok(Value::Number(number)),
                None => invalid(&value, "a number"),
            },
            other => invalid(other, "a number"),
        },
        ParamType::Bool => match &value {
            Value::Bool(_) => Ok(value),
            Value::String(text) => match text.trim() {
                "true" | "True" | "TRUE" | "1" | "t" => Ok(Value::Bool(true)),
                "false" | "False" | "FALSE" | "0" | "f" => Ok(Value::Bool(false)),
                _ => invalid(&value, "true or false"),
            },
            other => invalid(other, "true or false"),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_converted_or_rejected() {
        use ParamType::*;
        for (value, kind, expected) in [
            (json!("a"), None, Some(json!("a"))),
            (json!({"a": 1}), None, Some(json!({"a": 1}))),
            (json!("a"), Some(String), Some(json!("a"))),
            (json!(3), Some(String), Some(json!("3"))),
            (json!(true), Some(String), Some(json!("true"))),
            (json!({}), Some(String), None),
            (json!(3), Some(Int), Some(json!(3))),
            (json!(3.0), Some(Int), Some(json!(3))),
            (json!(3.5), Some(Int), None),
            (json!("3"), Some(Int), Some(json!(3))),
            (json!("x"), Some(Int), None),
            (json!("1.5"), Some(Float), Some(json!(1.5))),
            (json!(2), Some(Float), Some(json!(2))),
            (json!("x"), Some(Float), None),
            (json!("true"), Some(Bool), Some(json!(true))),
            (json!("0"), Some(Bool), Some(json!(false))),
            (json!("maybe"), Some(Bool), None),
            (json!(null), Some(Bool), None),
        ] {
            assert_eq!(convert(value.clone(), kind).ok(), expected, "{value} as {kind:?}");
        }
    }
}
