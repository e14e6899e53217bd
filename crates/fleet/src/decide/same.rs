//! Compares JSON values. A database may write a number differently from how it was received: `1e2`, `100.0` and `100` are equal, so that
//! sending the same spec again is not a change.

use serde_json::{Map, Number, Value};

/// Whether two objects are equal.
pub fn same_json(one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    one.len() == other.len()
        && one.iter().all(|(key, value)| other.get(key).is_some_and(|twin| same(value, twin)))
}

fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => same_number(one, other),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => same_json(one, other),
        _ => one == other,
    }
}

fn same_number(one: &Number, other: &Number) -> bool {
    // Two integers are compared exactly: large ones may be equal as floats.
    let integers = (!one.is_f64(), !other.is_f64());
    if integers == (true, true) {
        return one == other;
    }
    matches!((one.as_f64(), other.as_f64()), (Some(one), Some(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::written_differently(json!({"a": 100}), json!({"a": 1e2}), true)]
    #[case::signed_zero(json!({"a": [-0.0]}), json!({"a": [0]}), true)]
    #[case::large_integers(json!({"a": 9_007_199_254_740_993_u64}), json!({"a": 9_007_199_254_740_992_u64}), false)]
    #[case::missing_is_not_null(json!({"a": null}), json!({}), false)]
    #[case::order_of_a_list(json!({"a": [1, 2]}), json!({"a": [2, 1]}), false)]
    #[case::nested(json!({"a": {"b": [{"c": "d"}]}}), json!({"a": {"b": [{"c": "d"}]}}), true)]
    #[case::text_is_no_number(json!({"a": "1"}), json!({"a": 1}), false)]
    fn objects_are_compared_by_value(#[case] one: Value, #[case] other: Value, #[case] same: bool) {
        let (Value::Object(one), Value::Object(other)) = (one, other) else { unreachable!() };
        assert_eq!(same_json(&one, &other), same);
        assert_eq!(same_json(&other, &one), same);
    }
}
