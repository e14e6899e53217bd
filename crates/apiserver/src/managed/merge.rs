//! Merging what somebody applies into an object, and taking out of it what nobody owns any more.

use serde_json::{Map as Object, Value};

use super::element::Element;
use super::set::Set;
use super::types::{List, Map, Relation, Sort, Type, item_element};

/// The object with what is applied to it: where both have a value, the applied one counts, and nothing is removed.
pub(crate) fn merge(live: &Value, applied: &Value, kind: Type<'_>) -> Result<Value, String> {
    Ok(pair(Some(live), Some(applied), kind)?.unwrap_or(Value::Null))
}

fn pair(live: Option<&Value>, applied: Option<&Value>, kind: Type<'_>) -> Result<Option<Value>, String> {
    let atom = kind.atom();
    let sort = match applied {
        Some(_) => atom.sort_of(applied),
        None => atom.sort_of(live),
    };
    match atom.settled(sort) {
        Some(Sort::Map) => match &atom.map {
            Some(map) => map_pair(live, applied, map),
            None => Ok(None),
        },
        Some(Sort::List) => match &atom.list {
            Some(list) => list_pair(live, applied, list),
            None => Ok(None),
        },
        Some(Sort::Scalar) => Ok(applied.or(live).cloned()),
        Some(Sort::Open) | None => Err(": schema error: invalid atom".to_owned()),
    }
}

fn map_pair(live: Option<&Value>, applied: Option<&Value>, map: &Map<'_>) -> Result<Option<Value>, String> {
    let fields = |value: Option<&'_ Value>| {
        value.and_then(Value::as_object).filter(|fields| !fields.is_empty()).cloned()
    };
    let (ours, theirs) = (fields(live), fields(applied));
    if map.atomic || (ours.is_none() && theirs.is_none()) {
        return Ok(applied.or(live).cloned());
    }
    let mut merged = Object::new();
    let mut theirs = theirs.unwrap_or_default();
    for (name, value) in ours.unwrap_or_default() {
        match theirs.remove(&name) {
            // What only the live object has stays as it is.
            None => {
                merged.insert(name, value);
            }
            Some(applied) => {
                let kind =
                    map.kind_of(&name).ok_or_else(|| format!(".{name}: field not declared in schema"))?;
                let both = pair(Some(&value), Some(&applied), kind).map_err(|why| format!(".{name}{why}"))?;
                if let Some(both) = both {
                    merged.insert(name, both);
                }
            }
        }
    }
    merged.extend(theirs);
    Ok((!merged.is_empty()).then_some(Value::Object(merged)))
}

/// The items of a list with the elements that lead to them.
fn items<'a>(value: Option<&'a Value>, list: &List<'a>) -> Result<Vec<(Element<'a>, &'a Value)>, String> {
    let items = value.and_then(Value::as_array).into_iter().flatten().enumerate();
    items
        .map(|(at, item)| {
            let element = item_element(list, item).map_err(|why| format!(": element {at}: {why}"))?;
            Ok((element, item))
        })
        .collect()
}

/// The items of a list, to be found by their elements.
struct Index<'i, 'a> {
    items: &'i [(Element<'a>, &'a Value)],
    /// Places in the list, in the order of the elements.
    sorted: Vec<usize>,
}

impl<'i, 'a> Index<'i, 'a> {
    fn of(items: &'i [(Element<'a>, &'a Value)]) -> Self {
        let mut sorted: Vec<usize> = (0..items.len()).collect();
        sorted.sort_by(|a, b| items.get(*a).map(|item| &item.0).cmp(&items.get(*b).map(|item| &item.0)));
        Self { items, sorted }
    }

    /// The places of the items that an element leads to.
    fn places(&self, element: &Element<'_>) -> &[usize] {
        let order = |at: &usize| self.items.get(*at).map(|item| item.0.cmp(element));
        let start = self.sorted.partition_point(|at| order(at).is_some_and(std::cmp::Ordering::is_lt));
        let end = self.sorted.partition_point(|at| order(at).is_some_and(std::cmp::Ordering::is_le));
        self.sorted.get(start..end).unwrap_or_default()
    }

    fn has(&self, element: &Element<'_>) -> bool {
        !self.places(element).is_empty()
    }

    /// The value that an applied item is merged into. One that stands several times is not merged, but replaced.
    fn mergeable(&self, element: &Element<'_>) -> Option<&'a Value> {
        match self.places(element) {
            [] => None,
            [only] => self.items.get(*only).map(|item| item.1),
            _ => Some(&Value::Null),
        }
    }
}

/// Items that both have stand in the order of the applied list, the others where they stood; new ones come in between
/// as they do in the applied list.
fn list_pair(
    live: Option<&Value>,
    applied: Option<&Value>,
    list: &List<'_>,
) -> Result<Option<Value>, String> {
    let empty = |value: Option<&Value>| value.and_then(Value::as_array).is_none_or(Vec::is_empty);
    if matches!(list.relation, Relation::Whole) || (empty(live) && empty(applied)) {
        return Ok(applied.or(live).cloned());
    }
    let (ours, theirs) = (items(live, list)?, items(applied, list)?);
    let applied = Index::of(&theirs);
    if let Some((element, _)) = theirs.iter().find(|item| applied.places(&item.0).len() > 1) {
        return Err(format!(": duplicate entries for key {element}"));
    }
    let merged = interleave(&Index::of(&ours), &applied, list)?;
    Ok((!merged.is_empty()).then_some(Value::Array(merged)))
}

fn interleave(ours: &Index<'_, '_>, theirs: &Index<'_, '_>, list: &List<'_>) -> Result<Vec<Value>, String> {
    let both = |element: &Element<'_>, applied: &Value| {
        pair(ours.mergeable(element), Some(applied), list.items).map_err(|why| format!("{element}{why}"))
    };
    let mut shared = theirs.items.iter().map(|item| &item.0).filter(|element| ours.has(element)).peekable();
    let mut merged = Vec::with_capacity(ours.items.len().max(theirs.items.len()));
    let mut left = ours.items.iter().peekable();
    let mut right = theirs.items.iter().enumerate().peekable();
    while left.peek().is_some() || right.peek().is_some() {
        if let (Some((mine, _)), Some((_, (applied, value)))) = (left.peek(), right.peek()) {
            if mine == applied {
                merged.extend(both(applied, value)?);
                left.next();
                right.next();
                shared.next();
                continue;
            }
            if theirs.has(mine) && shared.peek().is_some_and(|next| *next != mine) {
                left.next();
                continue;
            }
        }
        if let Some((mine, value)) = left.peek() {
            let Some(place) = theirs.places(mine).first() else {
                merged.extend(pair(Some(value), None, list.items).map_err(|why| format!("{mine}{why}"))?);
                left.next();
                continue;
            };
            // What was merged already is not taken again.
            if right.peek().is_none_or(|(next, _)| place < next) {
                left.next();
            }
        }
        if let Some((_, (applied, value))) = right.next() {
            merged.extend(both(applied, value)?);
            shared.next_if(|next| *next == applied);
        }
    }
    Ok(merged)
}

/// The object without some of its paths. What is left of a part whose paths are all gone is null.
pub(crate) fn remove(value: &Value, gone: &Set<'_>, kind: Type<'_>) -> Value {
    let atom = kind.atom();
    match atom.settled(atom.sort_of(Some(value))) {
        Some(Sort::Map) => match (&atom.map, value) {
            (Some(map), Value::Object(fields)) if !map.atomic => remove_fields(fields, gone, map),
            _ => Value::Null,
        },
        Some(Sort::List) => match (&atom.list, value) {
            (Some(list), Value::Array(items)) if !matches!(list.relation, Relation::Whole) => {
                remove_items(items, gone, list)
            }
            _ => Value::Null,
        },
        _ => value.clone(),
    }
}

fn remove_fields(fields: &Object<String, Value>, gone: &Set<'_>, map: &Map<'_>) -> Value {
    let mut left = Object::new();
    for (name, value) in fields {
        let element = Element::field(name);
        if gone.has(&element) {
            continue;
        }
        let below = gone.below(&element);
        let value = match below.is_empty() {
            true => value.clone(),
            false => remove(value, below, map.kind_of(name).unwrap_or(Type::Nothing)),
        };
        left.insert(name.clone(), value);
    }
    if left.is_empty() { Value::Null } else { Value::Object(left) }
}

fn remove_items(items: &[Value], gone: &Set<'_>, list: &List<'_>) -> Value {
    let mut left = Vec::with_capacity(items.len());
    for item in items {
        let Ok(element) = item_element(list, item) else {
            left.push(item.clone());
            continue;
        };
        if gone.has(&element) {
            continue;
        }
        let below = gone.below(&element);
        left.push(if below.is_empty() { item.clone() } else { remove(item, below, list.items) });
    }
    if left.is_empty() { Value::Null } else { Value::Array(left) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schema;
    use serde_json::json;

    fn schema() -> Schema {
        let text = json!({"type": "string"});
        let item = json!({"type": "object", "properties": {"k": text, "v": text, "w": text}});
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item},
            "whole": {"type": "array", "items": text},
            "object": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": text, "b": text}},
            "any": {"x-kubernetes-preserve-unknown-fields": true},
        }}}});
        Schema::read(&schema, "").unwrap()
    }

    #[test]
    fn what_is_applied_is_merged_as_its_type_says() {
        let schema = schema();
        for (live, applied, merged) in [
            (json!({"set": ["a", "b"]}), json!({"set": ["b", "c"]}), json!({"set": ["a", "b", "c"]})),
            (json!({"set": ["a", "b", "c"]}), json!({"set": ["c", "a"]}), json!({"set": ["b", "c", "a"]})),
            (
                json!({"set": ["x", "a", "y", "b"]}),
                json!({"set": ["b", "a"]}),
                json!({"set": ["x", "y", "b", "a"]}),
            ),
            (json!({"set": ["a"]}), json!({"set": []}), json!({"set": ["a"]})),
            (json!({}), json!({"set": []}), json!({"set": []})),
            (
                json!({"map": [{"k": "1", "v": "x"}, {"k": "2"}]}),
                json!({"map": [{"k": "3"}, {"k": "1", "w": "y"}]}),
                json!({"map": [{"k": "3"}, {"k": "1", "v": "x", "w": "y"}, {"k": "2"}]}),
            ),
            (json!({"whole": ["a", "b"]}), json!({"whole": ["c"]}), json!({"whole": ["c"]})),
            (json!({"object": {"a": "1"}}), json!({"object": {"b": "2"}}), json!({"object": {"b": "2"}})),
            (
                json!({"any": {"a": [1], "b": 1}}),
                json!({"any": {"a": [2]}}),
                json!({"any": {"a": [2], "b": 1}}),
            ),
            (json!({"any": {"a": 1}}), json!({"any": 5}), json!({"any": 5})),
            (json!({"any": 5}), json!({"any": {"a": 1}}), json!({"any": {"a": 1}})),
            (json!({"any": 5}), json!({"any": null}), json!({"any": null})),
        ] {
            let spec = |spec: &Value| json!({"spec": spec});
            let found = merge(&spec(&live), &spec(&applied), Type::custom(&schema)).unwrap();
            assert_eq!(found, spec(&merged), "{live} + {applied}");
        }
    }

    #[test]
    fn what_is_removed_goes_with_all_below_it_and_leaves_null_behind() {
        let schema = schema();
        let object =
            json!({"spec": {"set": ["a", "b"], "map": [{"k": "1", "v": "x"}], "object": {"a": "1"}}});
        for (gone, left) in [
            (json!({"f:spec": {"f:set": {}}}), json!({"map": [{"k": "1", "v": "x"}], "object": {"a": "1"}})),
            (
                json!({"f:spec": {"f:set": {"v:\"a\"": {}}}}),
                json!({"set": ["b"], "map": [{"k": "1", "v": "x"}], "object": {"a": "1"}}),
            ),
            (
                json!({"f:spec": {"f:map": {"k:{\"k\":\"1\"}": {"f:v": {}}}}}),
                json!({"set": ["a", "b"], "map": [{"k": "1"}], "object": {"a": "1"}}),
            ),
            (
                json!({"f:spec": {"f:map": {"k:{\"k\":\"1\"}": {}}}}),
                json!({"set": ["a", "b"], "map": null, "object": {"a": "1"}}),
            ),
        ] {
            let set = super::super::fields::read(&gone).unwrap();
            assert_eq!(remove(&object, &set, Type::custom(&schema))["spec"], left, "{gone}");
        }
    }
}
