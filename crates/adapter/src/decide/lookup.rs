//! Finds values by paths such as `status.conditions[0].type`, `{.items[0].name}` or `items.0.name`.

use serde_json::{Map, Value};

/// The value at a path; `None` if there is none.
pub fn lookup<'v>(variables: &'v Map<String, Value>, path: &str) -> Option<&'v Value> {
    let path = path.trim().trim_start_matches('{').trim_end_matches('}').trim_start_matches('.');
    let mut segments =
        path.split(['.', '[']).map(|segment| segment.trim_end_matches(']').trim_matches(['"', '\'']));
    let mut found = variables.get(segments.next()?)?;
    for segment in segments.filter(|segment| !segment.is_empty()) {
        found = match found {
            Value::Object(entries) => entries.get(segment)?,
            Value::Array(items) => items.get(segment.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_find_fields_and_items() {
        let value = json!({"a": {"b": [{"c": 1}], "d-e": 2}, "s": "x"});
        let variables = value.as_object().unwrap();
        for (path, expected) in [
            ("s", Some(json!("x"))),
            ("a.b[0].c", Some(json!(1))),
            ("a.b.0.c", Some(json!(1))),
            ("{.a.b[0].c}", Some(json!(1))),
            ("a['d-e']", Some(json!(2))),
            ("a.b[1].c", None),
            ("a.x.c", None),
            ("s.x", None),
            ("", None),
        ] {
            assert_eq!(lookup(variables, path).cloned(), expected, "{path}");
        }
    }
}
