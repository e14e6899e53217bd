//! What holds for every object, every type and everybody who applies, whatever they are.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::compare::{compare, fields_of};
use super::element::Element;
use super::entries::{Managed, Operation, Trust};
use super::fields;
use super::merge::merge;
use super::record::{Applying, Before, Refused, Scene, apply, record};
use super::set::Set;
use super::types::Type;
use super::update::Versions;
use crate::schema::Schema;

/// A kind with every type of list and map, in one version.
struct Kind {
    schema: Schema,
    nothing: Set<'static>,
}

impl Kind {
    fn new() -> Self {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "text": {"type": "string"},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "p"], "items": {
                "type": "object", "properties": {"k": {"type": "string"}, "p": {"type": "integer", "default": 1}, "v": {"type": "string"}, "w": {"type": "string"}}}},
            "whole": {"type": "array", "items": {"type": "string"}},
            "atomic": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
            "granular": {"type": "object", "additionalProperties": {"type": "string"}},
            "nested": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
        }}}});
        Self { schema: Schema::read(&schema, "").unwrap(), nothing: Set::default() }
    }

    fn kind(&self) -> Type<'_> {
        Type::custom(&self.schema)
    }

    fn scene<'a>(&'a self, now: &'a str) -> Scene<'a> {
        Scene { api_version: "example.com/v1", subresource: "", now, versions: self }
    }

    fn apply(
        &self,
        live: Option<&Value>,
        applied: &Value,
        manager: &str,
        force: bool,
    ) -> Result<Value, Refused> {
        let blank = blank();
        let before = live.map_or(Before::Blank(&blank), Before::Live);
        apply(self.scene("2020-01-01T00:00:00Z"), before, &blank, Applying { applied, manager, force })
    }
}

impl Versions for Kind {
    fn kind(&self, api_version: &str) -> Option<Type<'_>> {
        (api_version == "example.com/v1").then(|| self.kind())
    }

    fn convert(&self, object: &Value, _: &str, _: &str) -> Option<Value> {
        Some(object.clone())
    }

    fn ignored(&self, _: &str) -> &Set<'_> {
        &self.nothing
    }

    fn changed(&self) -> bool {
        false
    }
}

fn blank() -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing"})
}

fn word() -> impl Strategy<Value = String> {
    "[abc]"
}

fn texts() -> impl Strategy<Value = Value> {
    btree_map("[xyz]", word(), 0..3).prop_map(|map| json!(map))
}

/// Lists without an item twice.
fn distinct() -> impl Strategy<Value = Vec<String>> {
    proptest::sample::subsequence(vec!["a".to_owned(), "b".to_owned(), "c".to_owned(), "d".to_owned()], 0..4)
        .prop_shuffle()
}

fn keyed() -> impl Strategy<Value = Value> {
    distinct().prop_flat_map(|keys| {
        let item = |key: String| {
            (proptest::option::of(1..3_i64), proptest::option::of(word()), proptest::option::of(word()))
                .prop_map(move |(p, v, w)| {
                    let mut item = Map::from_iter([("k".to_owned(), Value::from(key.clone()))]);
                    item.extend(p.map(|p| ("p".to_owned(), p.into())));
                    item.extend(v.map(|v| ("v".to_owned(), v.into())));
                    item.extend(w.map(|w| ("w".to_owned(), w.into())));
                    Value::Object(item)
                })
        };
        keys.into_iter().map(item).collect::<Vec<_>>().prop_map(Value::from)
    })
}

/// What somebody may say of a thing.
fn thing() -> impl Strategy<Value = Value> {
    let field = |name: &'static str, value: BoxedStrategy<Value>| {
        proptest::option::weighted(0.4, value)
            .prop_map(move |value| value.map(|value| (name.to_owned(), value)))
    };
    let spec = (
        field("text", word().prop_map(Value::from).boxed()),
        field("set", distinct().prop_map(Value::from).boxed()),
        field("map", keyed().boxed()),
        field("whole", vec(word(), 0..3).prop_map(Value::from).boxed()),
        field("atomic", texts().boxed()),
        field("granular", texts().boxed()),
        field("nested", btree_map("[ab]", word(), 0..3).prop_map(|map| json!(map)).boxed()),
    );
    spec.prop_map(|(a, b, c, d, e, f, g)| {
        let spec: Map<String, Value> = [a, b, c, d, e, f, g].into_iter().flatten().collect();
        let mut thing = blank();
        thing["metadata"] = json!({"name": "x"});
        thing["spec"] = Value::Object(spec);
        thing
    })
}

/// What an object says, value by value, with the paths as messages show them; written without the types.
fn leaves(thing: &Value) -> BTreeMap<String, Value> {
    let mut leaves = BTreeMap::new();
    for (name, value) in thing["spec"].as_object().into_iter().flatten() {
        let path = format!(".spec.{name}");
        match name.as_str() {
            "text" | "whole" | "atomic" => {
                leaves.insert(path, value.clone());
            }
            "set" => {
                for item in value.as_array().into_iter().flatten() {
                    leaves.insert(format!("{path}[={item}]"), item.clone());
                }
            }
            "map" => {
                for item in value.as_array().into_iter().flatten() {
                    let place = item["p"].as_i64().unwrap_or(1);
                    for (field, value) in item.as_object().into_iter().flatten() {
                        leaves.insert(format!("{path}[k={},p={place}].{field}", item["k"]), value.clone());
                    }
                }
            }
            _ => {
                for (key, value) in value.as_object().into_iter().flatten() {
                    leaves.insert(format!("{path}.{key}"), value.clone());
                }
            }
        }
    }
    leaves
}

/// The leaves that a manager owns.
fn owned(thing: &Value, manager: &str) -> Vec<String> {
    let entries = thing["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let managed = Managed::read(&entries, Trust::None).unwrap();
    let own = managed.entries.iter().filter(|entry| entry.id.manager == manager);
    own.flat_map(|entry| entry.set().paths().iter().map(|path| super::set::shown(path)).collect::<Vec<_>>())
        .collect()
}

fn path() -> impl Strategy<Value = Vec<Element<'static>>> {
    let element = prop_oneof![
        "[a-z.:<\"\\u{1}é]{0,4}".prop_map(|name| Element::Field(name.into())),
        prop_oneof![
            any::<i32>().prop_map(Value::from),
            ".{0,3}".prop_map(Value::from),
            any::<bool>().prop_map(Value::from)
        ]
        .prop_map(|value| Element::Value(std::borrow::Cow::Owned(value))),
        btree_map(
            "[a-z]{1,3}",
            prop_oneof![any::<i16>().prop_map(Value::from), ".{0,3}".prop_map(Value::from)],
            1..3
        )
        .prop_map(|key| Element::Key(
            key.into_iter().map(|(name, value)| (name.into(), std::borrow::Cow::Owned(value))).collect()
        )),
        any::<u16>().prop_map(|index| Element::Index(index.into())),
    ];
    vec(element, 1..5)
}

proptest! {
    #[test]
    fn sets_are_written_and_read_the_same(paths in vec(path(), 0..20)) {
        let mut set = Set::default();
        for path in &paths {
            set.insert(path.clone());
        }
        let written = fields::write(&set);
        prop_assert_eq!(&fields::read(&written).unwrap(), &set);
        prop_assert!(paths.iter().all(|path| set.has_path(path)));
    }

    #[test]
    fn sets_obey_the_laws_of_sets(a in vec(path(), 0..12), b in vec(path(), 0..12)) {
        let set = |paths: &[Vec<Element<'static>>]| {
            let mut set = Set::default();
            for path in paths {
                set.insert(path.clone());
            }
            set
        };
        let (a, b) = (set(&a), set(&b));
        let both = a.intersection(&b);
        prop_assert_eq!(a.difference(&b).union(&both), a.clone());
        prop_assert_eq!(both, b.intersection(&a));
        prop_assert_eq!(a.clone().union(&b), b.clone().union(&a));
        prop_assert!(a.difference(&a).is_empty());
        prop_assert_eq!(a.without(&b).difference(&a), Set::default());
    }

    #[test]
    fn an_apply_of_the_same_changes_nothing(first in thing(), other in thing(), wanted in thing()) {
        let kind = Kind::new();
        let live = kind.apply(None, &first, "one", false).unwrap();
        let live = kind.apply(Some(&live), &other, "two", true).unwrap();
        let once = kind.apply(Some(&live), &wanted, "three", true).unwrap();
        let twice = kind.apply(Some(&once), &wanted, "three", false).unwrap();
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn what_is_applied_is_there_and_owned(first in thing(), wanted in thing()) {
        let kind = Kind::new();
        let live = kind.apply(None, &first, "one", false).unwrap();
        let live = kind.apply(Some(&live), &wanted, "two", true).unwrap();
        let (there, owned) = (leaves(&live), owned(&live, "two"));
        for (path, value) in leaves(&wanted) {
            prop_assert_eq!(there.get(&path), Some(&value), "{}", path);
            prop_assert!(owned.contains(&path), "{path} is not owned");
        }
    }

    #[test]
    fn a_field_goes_with_its_last_owner_and_not_before(first in thing(), other in thing(), less in thing()) {
        let kind = Kind::new();
        let live = kind.apply(None, &first, "one", false).unwrap();
        let live = kind.apply(Some(&live), &other, "two", true).unwrap();
        let mine = owned(&live, "one");
        let theirs = owned(&live, "two");
        let after = kind.apply(Some(&live), &less, "one", true).unwrap();
        let (before, there, said) = (leaves(&live), leaves(&after), leaves(&less));
        for path in before.keys() {
            let goes = mine.contains(path) && !theirs.contains(path) && !said.contains_key(path);
            prop_assert_eq!(!there.contains_key(path), goes, "{} in {}", path, after);
        }
    }

    #[test]
    fn a_conflict_names_what_is_contested_and_nothing_else(first in thing(), wanted in thing()) {
        let kind = Kind::new();
        let live = kind.apply(None, &first, "one", false).unwrap();
        let there = leaves(&live);
        let mut contested: Vec<String> = leaves(&wanted)
            .into_iter()
            .filter(|(path, value)| there.get(path).is_some_and(|found| found != value))
            .map(|(path, _)| path)
            .collect();
        contested.sort();
        let named = match kind.apply(Some(&live), &wanted, "two", false) {
            Ok(_) => Vec::new(),
            Err(Refused::Conflicts { causes, .. }) => {
                let mut named: Vec<String> = causes.into_iter().map(|(_, path)| path).collect();
                named.sort();
                named
            }
            Err(other) => panic!("{other:?}"),
        };
        prop_assert_eq!(named, contested);
    }

    #[test]
    fn an_update_owns_what_it_changed(first in thing(), new in thing()) {
        let kind = Kind::new();
        let live = kind.apply(None, &first, "one", false).unwrap();
        // Nobody is tracked on an object that nobody owns any of.
        prop_assume!(live["metadata"].get("managedFields").is_some());
        let mut after = new.clone();
        record(kind.scene("2021-01-01T00:00:00Z"), Before::Live(&live), &mut after, "two");
        let (before, owned_after, lost) = (leaves(&live), owned(&after, "two"), owned(&after, "one"));
        for (path, value) in leaves(&new) {
            let changed = before.get(&path) != Some(&value);
            prop_assert_eq!(owned_after.contains(&path), changed, "{}", path);
            prop_assert!(!(changed && lost.contains(&path)), "{path} has two owners");
        }
    }

    #[test]
    fn nothing_differs_between_an_object_and_itself(one in thing(), other in thing()) {
        let kind = Kind::new();
        prop_assert!(compare(&one, &one, kind.kind()).unwrap().is_empty());
        let merged = merge(&one, &other, kind.kind()).unwrap();
        let there = leaves(&merged);
        prop_assert!(leaves(&other).iter().all(|(path, value)| there.get(path) == Some(value)));
        let said = fields_of(&merged, kind.kind()).unwrap().paths();
        prop_assert!(there.keys().all(|path| said.iter().any(|said| super::set::shown(said) == *path)));
    }
}

#[test]
fn more_than_ten_updaters_become_ancient() {
    let kind = Kind::new();
    let mut live = blank();
    for at in 0..13 {
        let mut next = live.clone();
        next["spec"]["granular"][format!("k{at}")] = "x".into();
        let now = format!("2020-01-01T00:00:{at:02}Z");
        let before = blank();
        let before = if at == 0 { Before::Blank(&before) } else { Before::Live(&live) };
        record(kind.scene(&now), before, &mut next, &format!("m{at}"));
        live = next;
    }
    let entries = live["metadata"]["managedFields"].as_array().unwrap();
    let managed = Managed::read(entries, Trust::None).unwrap();
    assert_eq!(managed.entries.len(), 10);
    let ancient = managed.entries.first().unwrap();
    assert_eq!((&*ancient.id.manager, ancient.id.operation), ("ancient-changes", Operation::Update));
    assert_eq!(ancient.time.as_deref(), Some("2020-01-01T00:00:03Z"));
    assert!(owned(&live, "ancient-changes").contains(&".spec.granular.k3".to_owned()));
}

#[test]
fn kubectl_takes_over_from_applying_on_the_clients_side() {
    let kind = Kind::new();
    let last = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": {"text": "a"}});
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let mut live = last.clone();
    live["metadata"]["annotations"][annotation] = last.to_string().into();
    let before = blank();
    record(
        kind.scene("2020-01-01T00:00:00Z"),
        Before::Blank(&before),
        &mut live,
        "kubectl-client-side-apply",
    );
    let mut wanted = last.clone();
    wanted["spec"]["text"] = "<b>".into();
    assert!(matches!(kind.apply(Some(&live), &wanted, "other", false), Err(Refused::Conflicts { .. })));
    let after = kind.apply(Some(&live), &wanted, "kubectl", false).unwrap();
    assert_eq!(after["spec"]["text"], "<b>");
    let noted = after["metadata"]["annotations"][annotation].as_str().unwrap();
    assert!(noted.ends_with("\"spec\":{\"text\":\"\\u003cb\\u003e\"}}\n"), "{noted}");
}
