//! Defaults as rows: where, which field, what value. A row fills a field in only where its parent is there.

use serde_json::{Map, Value};

use crate::object::Object;

/// The value that a field gets.
#[derive(Clone, Copy)]
pub(super) enum To {
    Text(&'static str),
    Number(i64),
    No,
    Yes,
    Empty,
}

impl To {
    fn value(self) -> Value {
        match self {
            Self::Text(text) => text.into(),
            Self::Number(number) => number.into(),
            Self::No => false.into(),
            Self::Yes => true.into(),
            Self::Empty => Value::Object(Map::new()),
        }
    }
}

/// A path to parents (`a.b[].c`, where `[]` stands for every item), the field below them, and its value.
pub(super) type Row = (&'static str, &'static str, To);

/// Fills in what is left out, row by row: a later row may stand on what an earlier one made.
pub(super) fn fill(root: &mut Object, rows: &[Row]) {
    for (path, field, to) in rows {
        each(root, path, &mut |parent| {
            if parent.get(*field).is_none_or(Value::is_null) {
                parent.insert((*field).to_owned(), to.value());
            }
        });
    }
}

/// Calls with every object that a path leads to.
pub(super) fn each(object: &mut Object, path: &str, visit: &mut dyn FnMut(&mut Object)) {
    if path.is_empty() {
        visit(object);
        return;
    }
    let (step, rest) = path.split_once('.').unwrap_or((path, ""));
    let (key, items) = match step.strip_suffix("[]") {
        Some(key) => (key, true),
        None => (step, false),
    };
    match (object.get_mut(key), items) {
        (Some(Value::Array(list)), true) => {
            for item in list.iter_mut().filter_map(Value::as_object_mut) {
                each(item, rest, visit);
            }
        }
        (Some(Value::Object(below)), false) => each(below, rest, visit),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_fills_in_what_is_left_out_and_makes_no_parents() {
        let mut object = json!({"a": [{"b": {}}, {"b": {"c": 1}}, {}], "d": {"e": "kept"}});
        let rows: [Row; 4] = [
            ("a[].b", "c", To::Number(7)),
            ("d", "e", To::Text("other")),
            ("d", "f", To::Empty),
            ("missing", "g", To::Yes),
        ];
        fill(object.as_object_mut().unwrap(), &rows);
        assert_eq!(object, json!({"a": [{"b": {"c": 7}}, {"b": {"c": 1}}, {}], "d": {"e": "kept", "f": {}}}));
    }
}
