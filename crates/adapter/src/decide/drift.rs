//! Whether a live object still has what its manifest says. Fields that the manifest does not name are ignored.

use serde_json::Value;

/// Whether a live value differs from the wanted one. Null and empty values of the manifest equal a missing field.
pub(crate) fn has_drifted(wanted: &Value, live: &Value) -> bool {
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => {
            wanted.iter().any(|(key, wanted)| match live.get(key) {
                Some(live) => has_drifted(wanted, live),
                None => !is_empty(wanted),
            })
        }
        (Value::Array(wanted), Value::Array(live)) => {
            wanted.len() != live.len()
                || wanted.iter().zip(live).any(|(wanted, live)| has_drifted(wanted, live))
        }
        (Value::Number(wanted), Value::Number(live)) => wanted.as_f64() != live.as_f64(),
        (wanted, live) => wanted != live,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(entries) => entries.values().all(is_empty),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_fields_of_the_manifest_count() {
        for (wanted, live, drifted) in [
            (json!({"a": 1}), json!({"a": 1, "b": 2}), false),
            (json!({"a": 1}), json!({"a": 2}), true),
            (json!({"a": {"b": "x"}}), json!({"a": {}}), true),
            (json!({"a": null, "e": {}, "l": []}), json!({}), false),
            (json!({"l": [{"n": 1}]}), json!({"l": [{"n": 1, "default": true}]}), false),
            (json!({"l": [1]}), json!({"l": [1, 2]}), true),
            (json!({"n": 1}), json!({"n": 1.0}), false),
            (json!({"n": "1"}), json!({"n": 1}), true),
        ] {
            assert_eq!(has_drifted(&wanted, &live), drifted, "{wanted} / {live}");
        }
    }
}
