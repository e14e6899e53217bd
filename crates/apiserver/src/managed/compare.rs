//! What changed between two objects, path by path, and which paths one object speaks of. Both follow the type: what is
//! written as a whole is one path, items of lists are found by their keys wherever they stand.

use serde_json::Value;

use super::element::{Element, same};
use super::set::Set;
use super::types::{List, Map, Relation, Sort, Type, item_element};

/// The paths that differ between two objects.
#[derive(Debug, Default)]
pub(crate) struct Comparison<'a> {
    pub(crate) removed: Set<'a>,
    pub(crate) modified: Set<'a>,
    pub(crate) added: Set<'a>,
}

impl<'a> Comparison<'a> {
    /// Leaves out what is not looked at, with all that is below it.
    pub(crate) fn without(self, ignored: &Set<'_>) -> Self {
        if ignored.is_empty() {
            return self;
        }
        Self {
            removed: self.removed.without(ignored),
            modified: self.modified.without(ignored),
            added: self.added.without(ignored),
        }
    }

    /// What is new or has another value.
    pub(crate) fn written(&self) -> Set<'a> {
        self.modified.clone().union(&self.added)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    fn push(&mut self, element: Element<'a>, found: Found<'a>) {
        let Found { here, below } = found;
        // Most comparisons find nothing; elements are only copied where there is more than one thing to say.
        let said = |state: bool, set: &Set<'_>| state || !set.is_empty();
        if said(here.removed, &below.removed) {
            self.removed.push(element.clone(), here.removed, below.removed);
        }
        if said(here.modified, &below.modified) {
            self.modified.push(element.clone(), here.modified, below.modified);
        }
        self.added.push(element, here.added, below.added);
    }
}

/// What is to be said of one path.
#[derive(Clone, Copy, Default)]
struct Here {
    removed: bool,
    modified: bool,
    added: bool,
}

/// What is to be said of one path and of those below it.
#[derive(Default)]
struct Found<'a> {
    here: Here,
    below: Comparison<'a>,
}

/// Compares two objects of a type; the error says which list has an item that cannot be told apart.
pub(crate) fn compare<'a>(old: &'a Value, new: &'a Value, kind: Type<'a>) -> Result<Comparison<'a>, String> {
    pair(Some(old), Some(new), kind).map(|found| found.below)
}

fn pair<'a>(old: Option<&'a Value>, new: Option<&'a Value>, kind: Type<'a>) -> Result<Found<'a>, String> {
    let atom = kind.atom();
    let (before, after) = (atom.sort_of(old), atom.sort_of(new));
    let mut found = Found::default();
    let mut sorts = match (old, new) {
        (_, None) => vec![before],
        (None, Some(_)) => vec![after],
        _ if before == after => vec![after],
        _ => vec![before, after],
    };
    let last = sorts.pop();
    let mut leaf = false;
    for sort in sorts.into_iter().chain(last) {
        leaf = match atom.settled(sort) {
            Some(Sort::Map) => match &atom.map {
                Some(map) => map_pair(old, new, map, &mut found)?,
                None => false,
            },
            Some(Sort::List) => match &atom.list {
                Some(list) => list_pair(old, new, list, &mut found)?,
                None => false,
            },
            Some(Sort::Scalar) => leaf_pair(old, new, &mut found),
            Some(Sort::Open) | None => return Err("a value of no known type".to_owned()),
        };
    }
    if !leaf {
        found.here.added |= old.is_none();
        found.here.removed |= new.is_none() && old.is_some();
    }
    Ok(found)
}

/// A value that is written as a whole.
fn leaf_pair(old: Option<&Value>, new: Option<&Value>, found: &mut Found<'_>) -> bool {
    match (old, new) {
        (None, _) => found.here.added = true,
        (_, None) => found.here.removed = true,
        (Some(old), Some(new)) => found.here.modified |= !same(old, new),
    }
    true
}

fn map_pair<'a>(
    old: Option<&'a Value>,
    new: Option<&'a Value>,
    map: &Map<'a>,
    found: &mut Found<'a>,
) -> Result<bool, String> {
    let (before, after) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
    let empty =
        |fields: Option<&serde_json::Map<String, Value>>| fields.is_none_or(serde_json::Map::is_empty);
    if map.atomic || (empty(before) && empty(after)) {
        return Ok(leaf_pair(old, new, found));
    }
    let mut left = before.into_iter().flatten().peekable();
    let mut right = after.into_iter().flatten().peekable();
    loop {
        let order = match (left.peek(), right.peek()) {
            (Some(a), Some(b)) => a.0.cmp(b.0),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => return Ok(false),
        };
        let before = if order.is_le() { left.next() } else { None };
        let after = if order.is_ge() { right.next() } else { None };
        let Some((name, _)) = before.or(after) else { return Ok(false) };
        let Some(kind) = map.kind_of(name) else {
            return Err(format!(".{name}: field not declared in schema"));
        };
        let below = pair(before.map(|entry| entry.1), after.map(|entry| entry.1), kind)
            .map_err(|why| format!(".{name}{why}"))?;
        found.below.push(Element::field(name), below);
    }
}

/// The items of a list with the elements that lead to them, in the order of these.
fn items_of<'a>(value: Option<&'a Value>, list: &List<'a>) -> Result<Vec<(Element<'a>, &'a Value)>, String> {
    let items = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut found = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        let element = item_element(list, item).map_err(|why| format!(": element {at}: {why}"))?;
        found.push((element, item));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

fn list_pair<'a>(
    old: Option<&'a Value>,
    new: Option<&'a Value>,
    list: &List<'a>,
    found: &mut Found<'a>,
) -> Result<bool, String> {
    let empty = |value: Option<&Value>| value.and_then(Value::as_array).is_none_or(Vec::is_empty);
    if matches!(list.relation, Relation::Whole) || (empty(old) && empty(new)) {
        return Ok(leaf_pair(old, new, found));
    }
    if old == new {
        return Ok(false);
    }
    let (before, after) = (items_of(old, list)?, items_of(new, list)?);
    let (mut left, mut right) = (before.as_slice(), after.as_slice());
    while let Some(element) = match (left.first(), right.first()) {
        (Some(a), Some(b)) => Some(a.0.clone().min(b.0.clone())),
        (a, b) => a.or(b).map(|item| item.0.clone()),
    } {
        let (ours, rest) = left.split_at(left.partition_point(|item| item.0 <= element));
        let (theirs, others) = right.split_at(right.partition_point(|item| item.0 <= element));
        (left, right) = (rest, others);
        let item = items_pair(ours, theirs, list).map_err(|why| format!("{element}{why}"))?;
        found.below.push(element, item);
    }
    Ok(false)
}

/// Items with one key: usually one on each side. Where there are more, they count as one value.
fn items_pair<'a>(
    old: &[(Element<'a>, &'a Value)],
    new: &[(Element<'a>, &'a Value)],
    list: &List<'a>,
) -> Result<Found<'a>, String> {
    let first = |items: &[(Element<'a>, &'a Value)]| items.first().map(|item| item.1);
    match (old.len(), new.len()) {
        (0 | 1, 0 | 1) => pair(first(old), first(new), list.items),
        (0 | 1, _) => {
            let mut found = match first(old) {
                Some(old) => pair(Some(old), None, list.items)?,
                None => Found::default(),
            };
            found.here.added = true;
            Ok(found)
        }
        (_, 0 | 1) => {
            let mut found = match first(new) {
                Some(new) => pair(None, Some(new), list.items)?,
                None => Found::default(),
            };
            found.here.removed = true;
            Ok(found)
        }
        _ => {
            let equal = old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same(old.1, new.1));
            Ok(Found { here: Here { modified: !equal, ..Here::default() }, below: Comparison::default() })
        }
    }
}

/// The paths that an object speaks of.
pub(crate) fn fields_of<'a>(value: &'a Value, kind: Type<'a>) -> Result<Set<'a>, String> {
    fields_below(value, kind).map(|(set, _)| set)
}

/// The paths below a value, and whether its own path is one to own.
fn fields_below<'a>(value: &'a Value, kind: Type<'a>) -> Result<(Set<'a>, bool), String> {
    let atom = kind.atom();
    let mut set = Set::default();
    match atom.settled(atom.sort_of(Some(value))) {
        Some(Sort::Map) => {
            let Some(map) = atom.map.filter(|map| !map.atomic) else { return Ok((set, true)) };
            for (name, value) in value.as_object().into_iter().flatten() {
                let Some(kind) = map.kind_of(name) else {
                    return Err(format!(".{name}: field not declared in schema"));
                };
                let (below, own) = fields_below(value, kind).map_err(|why| format!(".{name}{why}"))?;
                let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                set.push(Element::field(name), own || empty || map.field(name).is_none(), below);
            }
            Ok((set, false))
        }
        Some(Sort::List) => {
            let Some(list) = atom.list.filter(|list| !matches!(list.relation, Relation::Whole)) else {
                return Ok((set, true));
            };
            let items = items_of(Some(value), &list)?;
            let mut rest = items.as_slice();
            while let Some((element, item)) = rest.first() {
                let same = rest.partition_point(|other| other.0 <= *element);
                let below = match same {
                    1 => fields_below(item, list.items).map_err(|why| format!("{element}{why}"))?.0,
                    _ => Set::default(),
                };
                set.push(element.clone(), true, below);
                rest = rest.get(same..).unwrap_or_default();
            }
            Ok((set, false))
        }
        Some(Sort::Scalar) => Ok((set, true)),
        Some(Sort::Open) | None => Err("a value of no known type".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::managed::fields;
    use serde_json::json;

    /// What a built-in type makes of two objects, as sets are written: removed, modified, added.
    fn compared(kind: &str, old: &Value, new: &Value) -> Value {
        let found = compare(old, new, Type::Struct(kind)).unwrap();
        json!([fields::write(&found.removed), fields::write(&found.modified), fields::write(&found.added)])
    }

    #[test]
    fn built_in_kinds_are_compared_as_their_types_say() {
        for (kind, old, new, expected) in [
            (
                "core/v1.ConfigMap",
                json!({"data": {"a": "1", "b": "1"}}),
                json!({"data": {"a": "2", "c": "1"}}),
                json!([{"f:data": {"f:b": {}}}, {"f:data": {"f:a": {}}}, {"f:data": {"f:c": {}}}]),
            ),
            (
                "core/v1.ConfigMap",
                json!({}),
                json!({"data": {"a": "1"}}),
                json!([{}, {}, {"f:data": {".": {}, "f:a": {}}}]),
            ),
            (
                "core/v1.ServiceSpec",
                json!({"ports": [{"port": 53, "protocol": "UDP"}], "selector": {"a": "1"}}),
                json!({"ports": [{"port": 53}], "selector": {"a": "1", "b": "2"}}),
                json!([
                    {"f:ports": {"k:{\"port\":53,\"protocol\":\"UDP\"}": {".": {}, "f:port": {}, "f:protocol": {}}}},
                    {"f:selector": {}},
                    {"f:ports": {"k:{\"port\":53,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}},
                ]),
            ),
            (
                "meta/v1.ObjectMeta",
                json!({"finalizers": ["a", "b"], "ownerReferences": [{"uid": "1", "name": "x"}]}),
                json!({"finalizers": ["b", "c"], "ownerReferences": [{"uid": "1", "name": "y"}]}),
                json!([
                    {"f:finalizers": {"v:\"a\"": {}}},
                    {"f:ownerReferences": {"k:{\"uid\":\"1\"}": {}}},
                    {"f:finalizers": {"v:\"c\"": {}}},
                ]),
            ),
            (
                "core/v1.PodSpec",
                json!({"tolerations": [{"key": "a"}], "containers": [{"name": "x", "args": ["1"]}]}),
                json!({"tolerations": [{"key": "b"}], "containers": [{"name": "x", "args": ["2"]}]}),
                json!([
                    {},
                    {"f:containers": {"k:{\"name\":\"x\"}": {"f:args": {}}}, "f:tolerations": {}},
                    {},
                ]),
            ),
        ] {
            assert_eq!(compared(kind, &old, &new), expected, "{old} → {new}");
        }
    }

    #[test]
    fn what_has_no_type_is_not_compared() {
        let odd = json!({"odd": 1});
        assert!(compare(&odd, &odd, Type::Struct("core/v1.PodSpec")).is_err());
        let keyless = json!({"imagePullSecrets": [5]});
        assert!(compare(&json!({}), &keyless, Type::Struct("core/v1.PodSpec")).is_err());
    }

    #[test]
    fn items_that_stand_twice_count_as_one_value() {
        let list = |values: &[&str]| json!({"finalizers": values});
        for (old, new, expected) in [
            (list(&["a", "a"]), list(&["a", "a"]), json!([{}, {}, {}])),
            (
                list(&["a"]),
                list(&["a", "a"]),
                json!([{"f:finalizers": {"v:\"a\"": {}}}, {}, {"f:finalizers": {"v:\"a\"": {}}}]),
            ),
            (
                list(&["a", "a"]),
                list(&["b"]),
                json!([{"f:finalizers": {"v:\"a\"": {}}}, {}, {"f:finalizers": {"v:\"b\"": {}}}]),
            ),
        ] {
            assert_eq!(compared("meta/v1.ObjectMeta", &old, &new), expected, "{old} → {new}");
        }
    }
}
