//! Strategic merge patches: a merge patch that knows which lists are merged by a key, and that carries directives
//! (`$patch`, `$retainKeys`, `$setElementOrder/…`, `$deleteFromPrimitiveList/…`). Pure; what it knows of a type comes
//! from whoever describes the type.

use serde_json::{Map, Value};

type Object = Map<String, Value>;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ELEMENT_ORDER: &str = "$setElementOrder/";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";

/// What a merge needs to know of a field.
pub(crate) struct FieldMerge<'t, T> {
    /// The field is replaced as a whole, whatever it is.
    pub(crate) replaces: bool,
    /// The items of the list are merged rather than replaced.
    pub(crate) merges_items: bool,
    /// The field of an item by which it is found; none for lists of plain values.
    pub(crate) key: Option<&'t str>,
    /// The type of the field, or of the items of the list.
    pub(crate) below: Option<T>,
}

impl<T> Default for FieldMerge<'_, T> {
    fn default() -> Self {
        Self { replaces: false, merges_items: false, key: None, below: None }
    }
}

/// A type whose fields can be looked up.
pub(crate) trait Merging<'t>: Copy {
    fn field(self, name: &str) -> FieldMerge<'t, Self>;
}

/// Applies a patch to an object; the error says what is wrong with the patch.
pub(crate) fn merge<'t, T: Merging<'t>>(
    mut original: Object,
    mut patch: Object,
    kind: Option<T>,
) -> Result<Object, String> {
    if let Some(directive) = patch.remove(PATCH) {
        return match directive.as_str() {
            Some("replace") => Ok(patch),
            Some("delete") => Ok(Object::new()),
            _ => Err(format!("unknown patch type {directive} in map")),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    order_lists(&mut original, &mut patch, kind)?;
    for (key, change) in patch {
        merge_field(&mut original, &key, change, kind)?;
    }
    Ok(original)
}

fn merge_field<'t, T: Merging<'t>>(
    original: &mut Object,
    key: &str,
    change: Value,
    kind: Option<T>,
) -> Result<(), String> {
    if let Some(name) = key.strip_prefix(DELETE_FROM_LIST) {
        let Value::Array(gone) = change else {
            return Err(format!("{key} must be a list"));
        };
        if let Some(Value::Array(items)) = original.get_mut(name) {
            items.retain(|item| !gone.contains(item));
        }
        return Ok(());
    }
    let field = kind.map(|kind| kind.field(key)).unwrap_or_default();
    let merged = match (original.remove(key), change) {
        (_, Value::Null) => return Ok(()),
        (Some(Value::Object(before)), Value::Object(change)) if !field.replaces => {
            Value::Object(merge(before, change, field.below)?)
        }
        (Some(Value::Array(before)), Value::Array(change)) if field.merges_items => {
            Value::Array(merge_items(before, change, &field)?)
        }
        (Some(Value::Object(_)), change @ Value::Object(_))
        | (Some(Value::Array(_)), change @ Value::Array(_)) => change,
        (_, mut change) => {
            drop_nulls(&mut change);
            match without_directives(change) {
                Some(change) => change,
                None => return Ok(()),
            }
        }
    };
    original.insert(key.to_owned(), merged);
    Ok(())
}

/// `$retainKeys` lists all fields that may stay.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), String> {
    let Some(kept) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let bad = || "invalid patch format of retainKeys".to_owned();
    let kept: Vec<&str> = kept.as_array().ok_or_else(bad)?.iter().filter_map(Value::as_str).collect();
    let listed = patch.iter().all(|(key, value)| {
        value.is_null()
            || key.starts_with(DELETE_FROM_LIST)
            || key.starts_with(ELEMENT_ORDER)
            || kept.contains(&key.as_str())
    });
    if !listed {
        return Err(bad());
    }
    original.retain(|key, _| kept.contains(&key.as_str()));
    Ok(())
}

/// `$setElementOrder/<list>` says in which order the items that the patch's author knows are to stand.
fn order_lists<'t, T: Merging<'t>>(
    original: &mut Object,
    patch: &mut Object,
    kind: Option<T>,
) -> Result<(), String> {
    let directives: Vec<String> =
        patch.keys().filter(|key| key.starts_with(ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let Some(Value::Array(order)) = patch.remove(&directive) else {
            return Err("invalid patch format of setElementOrder list".to_owned());
        };
        let name = directive.strip_prefix(ELEMENT_ORDER).unwrap_or_default();
        let field = kind.map(|kind| kind.field(name)).unwrap_or_default();
        let as_list = |value: Option<Value>| match value {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(_) => Err(format!("{name} is no list")),
        };
        let changes = as_list(patch.remove(name))?;
        let before = as_list(original.remove(name))?;
        if let Some(changes) = &changes {
            check_order(changes, &order, field.key)?;
        }
        let server_order = before.clone().unwrap_or_default();
        let merged = match (before, changes) {
            (None, None) => continue,
            (Some(before), None) => before,
            (None, Some(changes)) => changes.into_iter().filter_map(without_directives).collect(),
            (Some(before), Some(changes)) if field.merges_items => merge_items(before, changes, &field)?,
            (Some(_), Some(changes)) => changes,
        };
        let ordered = in_order(merged, &order, &server_order, field.key)?;
        original.insert(name.to_owned(), Value::Array(ordered));
    }
    Ok(())
}

/// The items of a patch must stand in the order that the directive names. Directives among them may stand anywhere but
/// after the last item that it names.
fn check_order(changes: &[Value], order: &[Value], key: Option<&str>) -> Result<(), String> {
    if order.is_empty() {
        return Ok(());
    }
    let directive = |item: &Value| item.get(PATCH).and_then(Value::as_str).map(str::to_owned);
    let mut items = changes
        .iter()
        .filter(|item| key.is_none() || directive(item).as_deref() != Some("delete"))
        .peekable();
    for wanted in order {
        while items.next_if(|item| directive(item).is_some()).is_some() {}
        items.next_if(|item| same_item(item, wanted, key));
    }
    match items.peek() {
        None => Ok(()),
        Some(_) => Err("The order in patch list doesn't match $setElementOrder list".to_owned()),
    }
}

fn merge_items<'t, T: Merging<'t>>(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    field: &FieldMerge<'t, T>,
) -> Result<Vec<Value>, String> {
    let maps = original.iter().chain(&patch).any(Value::is_object);
    if !maps {
        let order = patch.clone();
        let before = original.clone();
        for item in patch {
            if !original.contains(&item) {
                original.push(item);
            }
        }
        return in_order(original, &order, &before, None);
    }
    let key = field.key.ok_or("cannot merge lists without merge key")?;
    let mut changes = Vec::new();
    let mut replaces = false;
    for item in patch {
        match item.get(PATCH).map(|directive| directive.as_str().unwrap_or_default()) {
            None => changes.push(item),
            Some("delete") => {
                let wanted = item.get(key).ok_or_else(|| no_key(&item, key))?;
                original.retain(|found| found.get(key) != Some(wanted));
            }
            Some("replace") => replaces = true,
            Some("merge") => return Err("merging lists cannot yet be specified in the patch".to_owned()),
            Some(other) => return Err(format!("unknown patch type {other:?} in list")),
        }
    }
    if replaces {
        return Ok(changes);
    }
    let (order, before) = (changes.clone(), original.clone());
    for change in changes {
        let wanted = change.get(key).ok_or_else(|| no_key(&change, key))?.clone();
        let Value::Object(change) = change else { return Err(no_key(&change, key)) };
        match original.iter_mut().find(|found| found.get(key) == Some(&wanted)) {
            Some(found) => {
                let Value::Object(before) = found.take() else { return Err(format!("an item has no {key}")) };
                *found = Value::Object(merge(before, change, field.below)?);
            }
            None => original.push(Value::Object(change)),
        }
    }
    in_order(original, &order, &before, Some(key))
}

fn no_key(item: &Value, key: &str) -> String {
    format!("map: {item} does not contain declared merge key: {key}")
}

fn same_item(a: &Value, b: &Value, key: Option<&str>) -> bool {
    match key {
        Some(key) => a.get(key).is_some() && a.get(key) == b.get(key),
        None => a == b,
    }
}

fn position(order: &[Value], item: &Value, key: Option<&str>) -> Option<usize> {
    order.iter().position(|wanted| same_item(wanted, item, key))
}

/// Items that the patch knows in the patch's order, the others in the server's, interleaved by the server's order.
fn in_order(
    items: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>, String> {
    if let Some(key) = key
        && let Some(item) = items.iter().chain(patch_order).find(|item| item.get(key).is_none())
    {
        return Err(no_key(item, key));
    }
    let (mut known, mut others): (Vec<Value>, Vec<Value>) =
        items.into_iter().partition(|item| position(patch_order, item, key).is_some());
    known.sort_by_key(|item| position(patch_order, item, key));
    others.sort_by_key(|item| position(server_order, item, key));
    let mut known = known.into_iter().peekable();
    let mut others = others.into_iter().peekable();
    let mut ordered = Vec::new();
    while let (Some(left), Some(right)) = (others.peek(), known.peek()) {
        let first = match (position(server_order, left, key), position(server_order, right, key)) {
            (Some(left), Some(right)) => left < right,
            _ => false,
        };
        ordered.extend(if first { others.next() } else { known.next() });
    }
    ordered.extend(others);
    ordered.extend(known);
    Ok(ordered)
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|_, value| !value.is_null());
            object.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// What is left of a new value without the parts that are directives; nothing, if it is one itself.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(object) if object.contains_key(PATCH) => None,
        Value::Object(object) => {
            let fields = object.into_iter();
            Some(fields.filter_map(|(key, value)| Some((key, without_directives(value)?))).collect())
        }
        Value::Array(items) => Some(items.into_iter().filter_map(without_directives).collect()),
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A type in which `items` is merged by `name`, `names` is a set, `whole` is replaced.
    #[derive(Clone, Copy)]
    struct Thing;

    impl Merging<'static> for Thing {
        fn field(self, name: &str) -> FieldMerge<'static, Self> {
            match name {
                "items" => FieldMerge {
                    merges_items: true,
                    key: Some("name"),
                    below: Some(Self),
                    ..FieldMerge::default()
                },
                "names" => FieldMerge { merges_items: true, ..FieldMerge::default() },
                "whole" => FieldMerge { replaces: true, ..FieldMerge::default() },
                _ => FieldMerge { below: Some(Self), ..FieldMerge::default() },
            }
        }
    }

    fn merged(original: Value, patch: Value) -> Result<Value, String> {
        let object = |value: Value| value.as_object().unwrap().clone();
        merge(object(original), object(patch), Some(Thing)).map(Value::Object)
    }

    #[test]
    fn patches_merge_as_kubernetes_merges_them() {
        for (original, patch, expected) in [
            (json!({"a": 1, "b": 2}), json!({"a": null, "c": 3}), json!({"b": 2, "c": 3})),
            (json!({"o": {"x": 1, "y": 2}}), json!({"o": {"x": 5}}), json!({"o": {"x": 5, "y": 2}})),
            (json!({"whole": {"x": 1}}), json!({"whole": {"y": 2}}), json!({"whole": {"y": 2}})),
            (json!({"o": {"x": 1}}), json!({"o": {"$patch": "replace", "y": 2}}), json!({"o": {"y": 2}})),
            (json!({"o": {"x": 1}}), json!({"o": {"$patch": "delete"}}), json!({"o": {}})),
            (json!({"list": [1, 2]}), json!({"list": [3]}), json!({"list": [3]})),
            (json!({"names": ["a", "b"]}), json!({"names": ["b", "c"]}), json!({"names": ["a", "b", "c"]})),
            (
                json!({"names": ["a", "b"]}),
                json!({"$deleteFromPrimitiveList/names": ["a"]}),
                json!({"names": ["b"]}),
            ),
            (
                json!({"items": [{"name": "a", "v": 1}, {"name": "b", "v": 2}]}),
                json!({"items": [{"name": "b", "w": 3}, {"name": "c"}]}),
                json!({"items": [{"name": "a", "v": 1}, {"name": "b", "v": 2, "w": 3}, {"name": "c"}]}),
            ),
            (
                json!({"items": [{"name": "a"}, {"name": "b"}]}),
                json!({"items": [{"name": "a", "$patch": "delete"}]}),
                json!({"items": [{"name": "b"}]}),
            ),
            (
                json!({"items": [{"name": "a"}]}),
                json!({"items": [{"$patch": "replace"}, {"name": "z"}]}),
                json!({"items": [{"name": "z"}]}),
            ),
            (
                json!({"items": [{"name": "a"}, {"name": "b"}, {"name": "s"}]}),
                json!({"$setElementOrder/items": [{"name": "b"}, {"name": "a"}], "items": [{"name": "a", "v": 1}]}),
                json!({"items": [{"name": "b"}, {"name": "a", "v": 1}, {"name": "s"}]}),
            ),
            (
                json!({"o": {"x": 1, "y": 2}}),
                json!({"o": {"$retainKeys": ["y"], "y": 3}}),
                json!({"o": {"y": 3}}),
            ),
            (json!({}), json!({"o": {"x": null, "y": 1}}), json!({"o": {"y": 1}})),
            (json!({}), json!({"o": {"y": 1, "$patch": "merge"}}), json!({})),
            (
                json!({}),
                json!({"o": {"l": [{"$patch": "replace"}, {"a": 1}]}}),
                json!({"o": {"l": [{"a": 1}]}}),
            ),
        ] {
            let found = merged(original.clone(), patch.clone());
            assert_eq!(found.as_ref(), Ok(&expected), "{original} + {patch}");
        }
    }

    #[test]
    fn patches_that_make_no_sense_are_refused() {
        for (original, patch) in [
            (json!({}), json!({"$patch": "bogus"})),
            (json!({"items": [{"name": "a"}]}), json!({"items": [{"v": 1}]})),
            (json!({"items": [{"name": "a"}]}), json!({"items": [{"name": "a", "$patch": "bogus"}]})),
            (json!({"o": {"x": 1}}), json!({"o": {"$retainKeys": ["x"], "y": 3}})),
            (json!({"items": [{"name": "a"}]}), json!({"$setElementOrder/items": "x"})),
        ] {
            assert!(merged(original.clone(), patch.clone()).is_err(), "{original} + {patch}");
        }
    }

    #[test]
    fn an_empty_patch_changes_nothing() {
        let original = json!({"a": 1, "items": [{"name": "a"}], "o": {"x": [1]}});
        assert_eq!(merged(original.clone(), json!({})), Ok(original));
    }
}
