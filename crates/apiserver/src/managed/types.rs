//! What merging needs to know of the type of a value: which fields an object has and whether they are written apart,
//! and how the items of a list are told apart. A view on the shapes of built-in kinds and on the schemas of custom
//! ones; nothing is copied, and what Kubernetes makes of OpenAPI is what this makes of both.

use serde_json::Value;

use super::element::Element;
use crate::schema::{self, Additional, Schema};
use crate::shape::{BUILTINS, Field, Kind, MapType, Plain};

const META: &str = "meta/v1.ObjectMeta";

/// The type of a value.
#[derive(Clone, Copy)]
pub(crate) enum Type<'t> {
    /// A type of the built-in kinds, by its name.
    Struct(&'t str),
    /// A part of one, and what the field says of it in which it stands.
    Part(&'t Kind, Option<&'t Field>),
    /// A part of a custom kind.
    Custom(&'t Schema, Place),
    /// Whatever it is: objects are written field by field, lists as a whole.
    Deduced,
    /// Whatever it is, it is written as a whole.
    Whole,
    Text,
    /// Nothing may stand here.
    Nothing,
}

/// Where a schema stands.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    root: bool,
    /// Whether fields that are not named are kept here, or anywhere above.
    keeps_unknown: bool,
}

/// What a type allows; several for values that may be of any sort.
pub(crate) struct Atom<'t> {
    pub(crate) scalar: Option<Scalar>,
    pub(crate) list: Option<List<'t>>,
    pub(crate) map: Option<Map<'t>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Number,
    Text,
    Bool,
    Any,
}

#[derive(Clone, Copy)]
pub(crate) struct List<'t> {
    pub(crate) items: Type<'t>,
    pub(crate) relation: Relation<'t>,
}

/// How the items of a list are told apart.
#[derive(Clone, Copy)]
pub(crate) enum Relation<'t> {
    /// They are not.
    Whole,
    Set,
    /// By the values of these fields.
    Keys(Keys<'t>),
}

/// The names of the fields that make a key.
#[derive(Clone, Copy)]
pub(crate) enum Keys<'t> {
    One(&'t String),
    Many(&'t [String]),
}

impl<'t> Keys<'t> {
    pub(crate) fn names(self) -> &'t [String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Many(names) => names,
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Map<'t> {
    owner: Owner<'t>,
    /// The type of fields that are not named.
    pub(crate) others: Option<Type<'t>>,
    pub(crate) atomic: bool,
}

#[derive(Clone, Copy)]
enum Owner<'t> {
    Struct(&'t str),
    Custom(&'t Schema, Place),
    Nobody,
}

/// A field that a type names.
pub(crate) struct Named<'t> {
    pub(crate) kind: Type<'t>,
    pub(crate) default: Option<&'t Value>,
}

/// What an element leads to.
pub(crate) enum Step<'t> {
    /// A field that the type names.
    Named(Type<'t>),
    /// Anything else.
    Other(Type<'t>),
}

/// What sort of value it is that a type allows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    Map,
    Scalar,
    List,
    /// The type allows several, and the value is null or not there.
    Open,
}

impl<'t> Map<'t> {
    pub(crate) fn field(&self, name: &str) -> Option<Named<'t>> {
        match self.owner {
            Owner::Nobody => None,
            Owner::Struct(owner) => {
                let field = BUILTINS.field(owner, name)?;
                Some(Named { kind: Type::Part(&field.kind, Some(field)), default: field.default.as_ref() })
            }
            Owner::Custom(schema, place) => {
                if place.root || schema.extensions.embedded_resource {
                    match name {
                        "metadata" => return Some(Named { kind: Type::Struct(META), default: None }),
                        "apiVersion" | "kind" => return Some(Named { kind: Type::Text, default: None }),
                        _ => {}
                    }
                }
                let property = schema.properties.get(name)?;
                Some(Named {
                    kind: Type::Custom(property, place.below(schema)),
                    default: property.default.as_ref(),
                })
            }
        }
    }

    /// The type of a field, named or not.
    pub(crate) fn kind_of(&self, name: &str) -> Option<Type<'t>> {
        self.field(name).map(|field| field.kind).or(self.others)
    }

    /// Whether nothing is known of what stands in it.
    pub(crate) fn is_deduced(&self) -> bool {
        let named = match self.owner {
            Owner::Nobody => false,
            Owner::Struct(name) => BUILTINS.has_fields(name),
            Owner::Custom(schema, place) => {
                place.root || schema.extensions.embedded_resource || !schema.properties.is_empty()
            }
        };
        !named && matches!(self.others, Some(Type::Deduced))
    }
}

impl Place {
    fn below(self, schema: &Schema) -> Self {
        Self { root: false, keeps_unknown: self.keeps_unknown || schema.extensions.preserve_unknown_fields }
    }
}

impl<'t> Atom<'t> {
    const NOTHING: Self = Self { scalar: None, list: None, map: None };

    fn scalar(scalar: Scalar) -> Self {
        Self { scalar: Some(scalar), ..Self::NOTHING }
    }

    fn map(map: Map<'t>) -> Self {
        Self { map: Some(map), ..Self::NOTHING }
    }

    /// Values of any sort; lists are written as a whole.
    fn any(map: Map<'t>) -> Self {
        let list = List { items: Type::Whole, relation: Relation::Whole };
        Self { scalar: Some(Scalar::Any), list: Some(list), map: Some(map) }
    }

    /// Which of what is allowed a value is.
    pub(crate) fn sort_of(&self, value: Option<&Value>) -> Sort {
        let fitting = match value {
            Some(Value::Object(_)) => self.map.is_some().then_some(Sort::Map),
            Some(Value::Array(_)) => self.list.is_some().then_some(Sort::List),
            Some(Value::String(_) | Value::Number(_) | Value::Bool(_)) => {
                self.scalar.is_some().then_some(Sort::Scalar)
            }
            Some(Value::Null) | None => None,
        };
        fitting.unwrap_or(match (self.map.is_some(), self.scalar.is_some(), self.list.is_some()) {
            (true, false, false) => Sort::Map,
            (false, true, false) => Sort::Scalar,
            (false, false, true) => Sort::List,
            _ => Sort::Open,
        })
    }

    /// The sort that stands for all that are open.
    pub(crate) fn settled(&self, sort: Sort) -> Option<Sort> {
        match sort {
            Sort::Open if self.map.is_some() => Some(Sort::Map),
            Sort::Open if self.scalar.is_some() => Some(Sort::Scalar),
            Sort::Open if self.list.is_some() => Some(Sort::List),
            Sort::Open => None,
            sort => Some(sort),
        }
    }
}

const ANYTHING: Map<'static> = Map { owner: Owner::Nobody, others: Some(Type::Deduced), atomic: false };
const ANYTHING_WHOLE: Map<'static> = Map { owner: Owner::Nobody, others: Some(Type::Whole), atomic: true };

impl<'t> Type<'t> {
    /// The type of the objects of a custom kind.
    pub(crate) fn custom(schema: &'t Schema) -> Self {
        Self::Custom(schema, Place { root: true, keeps_unknown: false })
    }

    pub(crate) fn atom(self) -> Atom<'t> {
        match self {
            Self::Struct(name) => Atom::map(of_struct(name, MapType::Unsaid)),
            Self::Part(kind, field) => of_part(kind, field),
            Self::Custom(schema, place) => of_schema(schema, place),
            Self::Deduced => Atom::any(ANYTHING),
            Self::Whole => Atom::any(ANYTHING_WHOLE),
            Self::Text => Atom::scalar(Scalar::Text),
            Self::Nothing => Atom::NOTHING,
        }
    }

    /// What an element of a path leads to.
    pub(crate) fn step(self, element: &Element<'_>) -> Step<'t> {
        let atom = self.atom();
        match element {
            Element::Field(name) => match &atom.map {
                Some(map) => match map.field(name) {
                    Some(field) => Step::Named(field.kind),
                    None => Step::Other(map.others.unwrap_or(Type::Nothing)),
                },
                None => Step::Other(Type::Nothing),
            },
            Element::Key(_) => Step::Other(atom.list.map_or(Type::Nothing, |list| list.items)),
            Element::Value(_) | Element::Index(_) => Step::Other(Type::Nothing),
        }
    }
}

fn of_struct(name: &str, said: MapType) -> Map<'_> {
    let map_type = if said == MapType::Unsaid { BUILTINS.map_type(name) } else { said };
    let others = (!BUILTINS.has_fields(name)).then_some(Type::Deduced);
    Map { owner: Owner::Struct(name), others, atomic: map_type == MapType::Atomic }
}

fn of_part<'t>(kind: &'t Kind, field: Option<&'t Field>) -> Atom<'t> {
    let map_type = field.map_or(MapType::Unsaid, |field| field.map_type);
    match kind {
        Kind::Named { named } => of_part(&named.is, field),
        Kind::Struct { r#struct } => Atom::map(of_struct(r#struct, map_type)),
        Kind::List { list } => {
            let relation = field.map_or(Relation::Whole, relation_of);
            Atom { list: Some(List { items: Type::Part(list, None), relation }), ..Atom::NOTHING }
        }
        Kind::Map { map } => Atom::map(Map {
            owner: Owner::Nobody,
            others: Some(Type::Part(map, None)),
            atomic: map_type == MapType::Atomic,
        }),
        Kind::Plain(plain) => match plain {
            Plain::Text | Plain::Duration | Plain::Bytes => Atom::scalar(Scalar::Text),
            Plain::Bool => Atom::scalar(Scalar::Bool),
            Plain::Int32 | Plain::Int64 | Plain::Float64 => Atom::scalar(Scalar::Number),
            Plain::Time | Plain::MicroTime | Plain::Quantity => Atom::scalar(Scalar::Any),
            Plain::RawExtension => Type::Whole.atom(),
            Plain::FieldsV1 => Atom::map(ANYTHING),
            Plain::IntOrString
            | Plain::Json
            | Plain::SchemaOrBool
            | Plain::SchemaOrList
            | Plain::SchemaOrTexts => Atom::any(ANYTHING),
        },
    }
}

fn relation_of(field: &Field) -> Relation<'_> {
    match (field.list_type.as_str(), field.patch_strategy.as_str()) {
        ("set", _) => Relation::Set,
        ("map", _) => Relation::Keys(Keys::Many(&field.list_map_keys)),
        ("", "merge" | "merge,retainKeys") => match &field.patch_merge_key {
            Some(key) => Relation::Keys(Keys::One(key)),
            None => Relation::Set,
        },
        _ => Relation::Whole,
    }
}

fn of_schema(schema: &Schema, place: Place) -> Atom<'_> {
    match schema.kind {
        Some(schema::Type::Object) => Atom::map(object_of(schema, place)),
        Some(schema::Type::Array) => Atom { list: Some(list_of(schema, place)), ..Atom::NOTHING },
        Some(schema::Type::Integer | schema::Type::Number) => Atom::scalar(Scalar::Number),
        Some(schema::Type::Boolean) => Atom::scalar(Scalar::Bool),
        Some(schema::Type::String) => Atom::scalar(match schema.rules.format.as_str() {
            "" | "byte" => Scalar::Text,
            _ => Scalar::Any,
        }),
        None => Atom {
            scalar: Some(Scalar::Any),
            list: Some(list_of(schema, place)),
            map: Some(object_of(schema, place)),
        },
    }
}

fn object_of(schema: &Schema, place: Place) -> Map<'_> {
    let below = place.below(schema);
    let unnamed = schema.properties.is_empty() && !place.root && !schema.extensions.embedded_resource;
    let others = match &schema.additional {
        None => (below.keeps_unknown || unnamed).then_some(Type::Deduced),
        Some(Additional::Like(schema)) => Some(Type::Custom(schema, below)),
        Some(Additional::Anything) => Some(Type::Deduced),
        Some(Additional::Nothing) => None,
    };
    let atomic = schema.extensions.map_type == Some(schema::MapType::Atomic);
    Map { owner: Owner::Custom(schema, place), others, atomic }
}

fn list_of(schema: &Schema, place: Place) -> List<'_> {
    let items = match &schema.items {
        Some(items) => Type::Custom(items, place.below(schema)),
        None => Type::Whole,
    };
    let relation = match schema.extensions.list_type {
        Some(schema::ListType::Set) => Relation::Set,
        Some(schema::ListType::Map) => Relation::Keys(Keys::Many(&schema.extensions.list_map_keys)),
        Some(schema::ListType::Atomic) | None => Relation::Whole,
    };
    List { items, relation }
}

/// The element that leads to an item of a list; the error says in words why there is none.
pub(crate) fn item_element<'a>(list: &List<'a>, item: &'a Value) -> Result<Element<'a>, String> {
    match list.relation {
        Relation::Whole => Err("invalid indexing of non-associative list".to_owned()),
        Relation::Keys(keys) => key_of(list, keys.names(), item),
        Relation::Set => match item {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            Value::Null => {
                Err("associative list without keys has an element that's an explicit null".to_owned())
            }
            scalar => Ok(Element::Value(std::borrow::Cow::Borrowed(scalar))),
        },
    }
}

fn key_of<'a>(list: &List<'a>, names: &'a [String], item: &'a Value) -> Result<Element<'a>, String> {
    use std::borrow::Cow;
    let object = match item {
        Value::Object(object) => object,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let kind = list.items.atom().map;
    let mut key = Vec::with_capacity(names.len());
    for name in names {
        let default = || kind.as_ref().and_then(|map| map.field(name)).and_then(|field| field.default);
        if let Some(value) = object.get(name).or_else(default) {
            key.push((Cow::Borrowed(name.as_str()), Cow::Borrowed(value)));
        }
    }
    if key.is_empty() {
        let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            names.join(" ")
        ));
    }
    key.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(Element::Key(key))
}
