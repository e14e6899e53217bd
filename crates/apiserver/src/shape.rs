//! The wire shape of the built-in kinds, as data: Kubernetes' own types, field by field. An object is conformed to
//! its shape the way Kubernetes' decoder and encoder would leave it: wrong types are refused, unknown fields are
//! dropped and named, empty optional fields vanish, times take their canonical form.

use std::collections::HashMap;
use std::sync::LazyLock;

use base64::Engine as _;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::object::Object;
use crate::quantity::Quantity;
use crate::strategic::{FieldMerge, Merging};
use crate::times;

/// The shapes of everything that is built in.
pub(crate) static BUILTINS: LazyLock<Shapes> = LazyLock::new(|| {
    // The data is part of the binary and a test reads it; an unreadable file serves no kind at all.
    serde_json::from_str(include_str!("../data/builtins.json")).unwrap_or_default()
});

/// Types by name, and the kinds and resources that are made of them.
#[derive(Default, Deserialize)]
pub(crate) struct Shapes {
    types: HashMap<String, Vec<Field>>,
    kinds: Vec<KindData>,
    pub(crate) resources: Vec<ResourceData>,
    #[serde(default)]
    schemas: HashMap<String, SchemaData>,
}

/// What a type says of itself beside its fields.
#[derive(Deserialize)]
struct SchemaData {
    #[serde(default, rename = "mapType")]
    map_type: MapType,
}

/// Whether the parts of an object are written together or apart.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MapType {
    #[default]
    Unsaid,
    Atomic,
    Granular,
}

#[derive(Deserialize)]
struct KindData {
    group: String,
    version: String,
    kind: String,
    r#type: String,
}

/// A resource of Kubernetes, as its discovery describes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResourceData {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    #[serde(default)]
    pub(crate) short_names: Vec<String>,
    #[serde(default)]
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    #[serde(default)]
    pub(crate) subresources: Vec<SubresourceData>,
}

#[derive(Deserialize)]
pub(crate) struct SubresourceData {
    pub(crate) name: String,
}

/// A field of a type.
#[derive(Deserialize)]
pub(crate) struct Field {
    #[serde(default)]
    pub(crate) json: String,
    /// Its name in Go, which messages about protobuf say.
    pub(crate) go: String,
    /// Its number in protobuf.
    pub(crate) proto: Option<u32>,
    #[serde(rename = "type")]
    pub(crate) kind: Kind,
    #[serde(default)]
    pub(crate) omitempty: bool,
    #[serde(default)]
    omitzero: bool,
    #[serde(default)]
    pub(crate) pointer: bool,
    #[serde(default)]
    pub(crate) inline: bool,
    #[serde(default, rename = "patchStrategy")]
    pub(crate) patch_strategy: String,
    #[serde(default, rename = "patchMergeKey")]
    pub(crate) patch_merge_key: Option<String>,
    #[serde(default, rename = "listType")]
    pub(crate) list_type: String,
    #[serde(default, rename = "listMapKeys")]
    pub(crate) list_map_keys: Vec<String>,
    #[serde(default, rename = "mapType")]
    pub(crate) map_type: MapType,
    #[serde(default)]
    pub(crate) default: Option<Value>,
}

/// What a field, or an item of a list or map, is made of.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Kind {
    Plain(Plain),
    Struct { r#struct: String },
    List { list: Box<Kind> },
    Map { map: Box<Kind> },
    Named { named: Named },
}

#[derive(Deserialize)]
pub(crate) struct Named {
    name: String,
    pub(crate) is: Box<Kind>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
pub(crate) enum Plain {
    #[serde(rename = "string")]
    Text,
    #[serde(rename = "bool")]
    Bool,
    #[serde(rename = "int32")]
    Int32,
    #[serde(rename = "int64")]
    Int64,
    #[serde(rename = "float64")]
    Float64,
    #[serde(rename = "bytes")]
    Bytes,
    Time,
    MicroTime,
    Duration,
    IntOrString,
    Quantity,
    FieldsV1,
    RawExtension,
    #[serde(rename = "JSON")]
    Json,
    #[serde(rename = "JSONSchemaPropsOrBool")]
    SchemaOrBool,
    #[serde(rename = "JSONSchemaPropsOrArray")]
    SchemaOrList,
    #[serde(rename = "JSONSchemaPropsOrStringArray")]
    SchemaOrTexts,
}

/// An object in its shape.
pub(crate) struct Conformed {
    pub(crate) object: Object,
    /// Paths of the fields that the shape does not know.
    pub(crate) unknown: Vec<String>,
}

impl Shapes {
    /// The name of the type of a kind.
    pub(crate) fn type_of(&self, group: &str, version: &str, kind: &str) -> Option<&str> {
        let is = |data: &&KindData| data.group == group && data.version == version && data.kind == kind;
        self.kinds.iter().find(is).map(|data| data.r#type.as_str())
    }

    /// The fields of a type, in their order; none if there is no such type.
    pub(crate) fn fields(&self, type_name: &str) -> &[Field] {
        self.types.get(type_name).map(Vec::as_slice).unwrap_or_default()
    }

    /// What strategic merges need to know of a type.
    pub(crate) fn merging<'s>(&'s self, name: &'s str) -> TypeRef<'s> {
        TypeRef { shapes: self, name }
    }

    /// A field of a type by its name, those of inlined types included.
    pub(crate) fn field<'s>(&'s self, type_name: &'s str, name: &str) -> Option<&'s Field> {
        self.merging(type_name).find(name)
    }

    /// Whether a type has fields.
    pub(crate) fn has_fields(&self, type_name: &str) -> bool {
        self.types.get(type_name).is_some_and(|fields| !fields.is_empty())
    }

    /// What a type says of whether its fields are written together.
    pub(crate) fn map_type(&self, type_name: &str) -> MapType {
        self.schemas.get(type_name).map_or(MapType::Unsaid, |schema| schema.map_type)
    }

    /// Conforms an object to the named type; the error is the decoder's message.
    pub(crate) fn conform(&self, type_name: &str, object: Object) -> Result<Conformed, String> {
        let mut walk = Walk { shapes: self, unknown: Vec::new(), path: Vec::new() };
        let object = walk.conform_struct(type_name, object)?;
        Ok(Conformed { object, unknown: walk.unknown })
    }
}

/// A quantity in its one form.
fn canonical(text: &str) -> Result<Value, String> {
    Quantity::read(text).map(|quantity| quantity.to_string().into())
}

/// A type by its name, for strategic merges.
#[derive(Clone, Copy)]
pub(crate) struct TypeRef<'s> {
    shapes: &'s Shapes,
    name: &'s str,
}

impl<'s> TypeRef<'s> {
    fn find(self, name: &str) -> Option<&'s Field> {
        self.shapes.types.get(self.name)?.iter().find_map(|field| match &field.kind {
            Kind::Struct { r#struct } if field.inline => Self { name: r#struct, ..self }.find(name),
            _ => (field.json == name).then_some(field),
        })
    }

    /// The type of a value, or of the items of a list.
    fn below(self, kind: &'s Kind) -> Option<Self> {
        match kind {
            Kind::Struct { r#struct } => Some(Self { name: r#struct, ..self }),
            Kind::List { list } => self.below(list),
            Kind::Named { named } => self.below(&named.is),
            Kind::Map { .. } | Kind::Plain(_) => None,
        }
    }
}

impl<'s> Merging<'s> for TypeRef<'s> {
    fn field(self, name: &str) -> FieldMerge<'s, Self> {
        let Some(field) = self.find(name) else { return FieldMerge::default() };
        let strategies: Vec<&str> = field.patch_strategy.split(',').collect();
        FieldMerge {
            replaces: strategies.contains(&"replace"),
            merges_items: strategies.contains(&"merge"),
            key: field.patch_merge_key.as_deref(),
            below: self.below(&field.kind),
        }
    }
}

/// One walk over one object. The path has JSON names and, for lists, indices.
struct Walk<'s> {
    shapes: &'s Shapes,
    unknown: Vec<String>,
    path: Vec<String>,
}

/// Where in Kubernetes' types a value stands, for messages.
#[derive(Clone, Copy)]
struct Place<'a> {
    owner: &'a str,
}

impl<'s> Walk<'s> {
    fn conform_struct(&mut self, type_name: &str, mut object: Object) -> Result<Object, String> {
        let mut conformed = Map::new();
        self.take_fields(type_name, type_name, &mut object, &mut conformed)?;
        for key in object.into_iter().map(|(key, _)| key) {
            if self.unknown.len() < crate::schema::NAMED {
                self.unknown.push(self.joined(Some(&key)));
            }
        }
        Ok(conformed)
    }

    fn take_fields(
        &mut self,
        owner: &str,
        type_name: &str,
        object: &mut Object,
        conformed: &mut Object,
    ) -> Result<(), String> {
        let fields: &'s [Field] = self.shapes.fields(type_name);
        for field in fields {
            match &field.kind {
                Kind::Struct { r#struct } if field.inline => {
                    self.take_fields(owner, r#struct, object, conformed)?;
                }
                kind => {
                    let given = object.remove(&field.json).filter(|value| !value.is_null());
                    self.path.push(field.json.clone());
                    let value = match given {
                        Some(value) => Some(self.conform(Place { owner }, kind, value)?),
                        None => None,
                    };
                    if let Some(value) = self.encoded(field, value)? {
                        conformed.insert(field.json.clone(), value);
                    }
                    self.path.pop();
                }
            }
        }
        Ok(())
    }

    /// What Kubernetes' encoder would write for a field, if anything.
    fn encoded(&mut self, field: &Field, value: Option<Value>) -> Result<Option<Value>, String> {
        let optional = field.omitempty || field.omitzero;
        if field.pointer {
            return Ok(match value {
                None if optional => None,
                None => Some(Value::Null),
                some => some,
            });
        }
        match field.kind.base() {
            Kind::Struct { r#struct } => {
                let value = match value {
                    Some(value) => value,
                    None if field.omitzero => return Ok(None),
                    None => Value::Object(self.conform_struct(r#struct, Map::new())?),
                };
                Ok(Some(value))
            }
            // A zero time is written as null, unless it is declared away.
            Kind::Plain(Plain::Time | Plain::MicroTime) => Ok(match value {
                None if field.omitzero => None,
                None => Some(Value::Null),
                some => some,
            }),
            Kind::Plain(Plain::IntOrString) => Ok(Some(value.unwrap_or_else(|| 0.into()))),
            base => Ok(match value {
                Some(value) if !(optional && is_empty(&value)) => Some(value),
                None if !optional => Some(base.zero()),
                _ => None,
            }),
        }
    }

    fn conform(&mut self, place: Place<'_>, kind: &'s Kind, value: Value) -> Result<Value, String> {
        match (kind, value) {
            (Kind::Named { named }, value) => self.conform(place, &named.is, value).map_err(|message| {
                // The named type is what the message ends with.
                match message.strip_suffix(&format!("of type {}", named.is.go_name())) {
                    Some(start) => format!("{start}of type {}", go_type(&named.name)),
                    None => message,
                }
            }),
            (Kind::Struct { r#struct }, Value::Object(object)) => {
                self.conform_struct(r#struct, object).map(Value::Object)
            }
            (Kind::List { list }, Value::Array(items)) => {
                let mut conformed = Vec::with_capacity(items.len());
                for (index, item) in items.into_iter().enumerate() {
                    self.path.push(format!("[{index}]"));
                    conformed.push(match item {
                        Value::Null => self.zero(list)?,
                        item => self.conform(place, list, item)?,
                    });
                    self.path.pop();
                }
                Ok(Value::Array(conformed))
            }
            (Kind::Map { map }, Value::Object(object)) => {
                let mut conformed = Map::new();
                for (key, item) in object {
                    let item = match item {
                        Value::Null => self.zero(map)?,
                        item => self.conform(place, map, item)?,
                    };
                    conformed.insert(key, item);
                }
                Ok(Value::Object(conformed))
            }
            (Kind::Plain(plain), value) => self.conform_plain(place, *plain, value),
            (kind, value) => Err(self.mismatch(place, describe(&value), kind)),
        }
    }

    /// What stands in a list or a map where null was written.
    fn zero(&mut self, kind: &'s Kind) -> Result<Value, String> {
        match kind.base() {
            Kind::Struct { r#struct } => self.conform_struct(r#struct, Map::new()).map(Value::Object),
            plain => Ok(plain.zero()),
        }
    }

    fn conform_plain(&mut self, place: Place<'_>, plain: Plain, value: Value) -> Result<Value, String> {
        let fits = match (plain, &value) {
            (Plain::Text | Plain::Duration, Value::String(_))
            | (Plain::Bool, Value::Bool(_))
            | (Plain::Float64, Value::Number(_))
            | (
                Plain::FieldsV1
                | Plain::RawExtension
                | Plain::Json
                | Plain::SchemaOrBool
                | Plain::SchemaOrList
                | Plain::SchemaOrTexts,
                _,
            ) => true,
            // A quantity may be written as a number; it is kept as text.
            (Plain::Quantity, Value::Number(number)) => return canonical(&number.to_string()),
            (Plain::Quantity, Value::String(text)) => return canonical(text),
            (Plain::Int32, Value::Number(number)) => {
                number.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
            }
            (Plain::Int64, Value::Number(number)) => number.as_i64().is_some(),
            (Plain::IntOrString, Value::Number(number)) => {
                number.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
            }
            (Plain::IntOrString, Value::String(_)) => true,
            (Plain::Bytes, Value::String(text)) => {
                base64::engine::general_purpose::STANDARD
                    .decode(text.replace(['\n', '\r'], ""))
                    .map_err(|error| go_base64_error(text, &error))?;
                true
            }
            (Plain::Time, Value::String(text)) => return times::normalise_seconds(text).map(Value::String),
            (Plain::MicroTime, Value::String(text)) => {
                return times::normalise_micros(text).map(Value::String);
            }
            _ => false,
        };
        if fits {
            return Ok(value);
        }
        let found = match (&value, plain) {
            (Value::Number(number), Plain::Int32 | Plain::Int64 | Plain::IntOrString) => {
                format!("number {number}")
            }
            _ => describe(&value).to_owned(),
        };
        Err(self.mismatch(place, &found, &Kind::Plain(plain)))
    }

    fn mismatch(&self, place: Place<'_>, found: &str, wanted: &Kind) -> String {
        let owner = place.owner.rsplit('.').next().unwrap_or_default();
        let names: Vec<&str> =
            self.path.iter().filter(|part| !part.starts_with('[')).map(String::as_str).collect();
        format!(
            "json: cannot unmarshal {found} into Go struct field {owner}.{} of type {}",
            names.join("."),
            wanted.go_name()
        )
    }

    fn joined(&self, last: Option<&str>) -> String {
        let mut joined = String::new();
        for part in self.path.iter().map(String::as_str).chain(last) {
            if !(joined.is_empty() || part.starts_with('[')) {
                joined.push('.');
            }
            joined.push_str(part);
        }
        joined
    }
}

impl Kind {
    /// The kind behind its name.
    pub(crate) fn base(&self) -> &Kind {
        match self {
            Self::Named { named } => named.is.base(),
            other => other,
        }
    }

    fn zero(&self) -> Value {
        match self.base() {
            Self::Plain(plain) => match plain {
                Plain::Text | Plain::Duration => "".into(),
                Plain::Quantity => "0".into(),
                Plain::Bool => false.into(),
                Plain::Int32 | Plain::Int64 | Plain::Float64 | Plain::IntOrString => 0.into(),
                _ => Value::Null,
            },
            Self::Struct { .. } => Value::Object(Map::new()),
            _ => Value::Null,
        }
    }

    fn go_name(&self) -> String {
        match self {
            Self::Plain(plain) => match plain {
                Plain::Text => "string",
                Plain::Bool => "bool",
                Plain::Int32 | Plain::IntOrString => "int32",
                Plain::Int64 => "int64",
                Plain::Float64 => "float64",
                Plain::Bytes => "[]uint8",
                Plain::Time => "v1.Time",
                Plain::MicroTime => "v1.MicroTime",
                Plain::Duration => "v1.Duration",
                Plain::Quantity => "resource.Quantity",
                Plain::FieldsV1 => "v1.FieldsV1",
                Plain::RawExtension => "runtime.RawExtension",
                Plain::Json => "v1.JSON",
                Plain::SchemaOrBool => "v1.JSONSchemaPropsOrBool",
                Plain::SchemaOrList => "v1.JSONSchemaPropsOrArray",
                Plain::SchemaOrTexts => "v1.JSONSchemaPropsOrStringArray",
            }
            .into(),
            Self::Struct { r#struct } => go_type(r#struct),
            Self::List { list } => format!("[]{}", list.go_name()),
            Self::Map { map } => format!("map[string]{}", map.go_name()),
            Self::Named { named } => go_type(&named.name),
        }
    }
}

/// `core/v1.Secret` is `v1.Secret` in messages.
fn go_type(name: &str) -> String {
    name.rsplit('/').next().unwrap_or(name).to_owned()
}

/// What JSON calls a value.
pub(crate) fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Whether Go would leave a value out that may be left out when empty.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// Go names the first byte that is no base64.
fn go_base64_error(text: &str, error: &base64::DecodeError) -> String {
    let offset = match error {
        base64::DecodeError::InvalidByte(offset, _) | base64::DecodeError::InvalidLastSymbol(offset, _) => {
            *offset
        }
        base64::DecodeError::InvalidLength(_) | base64::DecodeError::InvalidPadding => text.len() / 4 * 4,
    };
    format!("illegal base64 data at input byte {offset}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn conform(kind: &str, value: Value) -> Result<(Value, Vec<String>), String> {
        let conformed = BUILTINS.conform(kind, value.as_object().unwrap().clone())?;
        Ok((Value::Object(conformed.object), conformed.unknown))
    }

    #[test]
    fn empty_optional_fields_vanish_and_pointers_stay() {
        let (object, unknown) = conform(
            "core/v1.ConfigMap",
            json!({"kind": "ConfigMap", "data": {}, "immutable": false, "binaryData": null}),
        )
        .unwrap();
        assert_eq!(object, json!({"kind": "ConfigMap", "metadata": {}, "immutable": false}));
        assert!(unknown.is_empty());
    }

    #[test]
    fn unknown_fields_are_dropped_and_named() {
        let (object, unknown) =
            conform("core/v1.ConfigMap", json!({"spec": {}, "metadata": {"odd": 1, "name": "a"}})).unwrap();
        assert_eq!(object, json!({"metadata": {"name": "a"}}));
        assert_eq!(unknown, ["metadata.odd", "spec"]);
    }

    #[test]
    fn wrong_types_are_refused_in_the_decoders_words() {
        for (kind, value, message) in [
            (
                "core/v1.ConfigMap",
                json!({"data": {"a": 1}}),
                "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
            ),
            (
                "core/v1.ConfigMap",
                json!({"data": "x"}),
                "json: cannot unmarshal string into Go struct field ConfigMap.data of type map[string]string",
            ),
            (
                "core/v1.Secret",
                json!({"type": 5}),
                "json: cannot unmarshal number into Go struct field Secret.type of type v1.SecretType",
            ),
            (
                "coordination/v1.Lease",
                json!({"spec": {"leaseDurationSeconds": 1.5}}),
                "json: cannot unmarshal number 1.5 into Go struct field LeaseSpec.spec.leaseDurationSeconds of type int32",
            ),
            ("core/v1.Secret", json!({"data": {"a": "!!"}}), "illegal base64 data at input byte 0"),
        ] {
            assert_eq!(conform(kind, value).unwrap_err(), message);
        }
    }

    #[test]
    fn required_fields_of_an_event_are_written_even_when_empty() {
        let (object, _) = conform("core/v1.Event", json!({})).unwrap();
        assert_eq!(object["reportingComponent"], "");
        assert_eq!(object["involvedObject"], json!({}));
        assert_eq!(object["firstTimestamp"], Value::Null);
    }

    #[test]
    fn null_in_a_list_or_map_is_the_zero_of_its_type() {
        let spec = |spec: Value| json!({"metadata": {}, "spec": spec});
        for (kind, given, expected) in [
            (
                "core/v1.LimitRange",
                json!({"limits": [{"type": "Pod", "max": {"cpu": null}}]}),
                json!({"limits": [{"type": "Pod", "max": {"cpu": "0"}}]}),
            ),
            ("core/v1.LimitRange", json!({"limits": [null]}), json!({"limits": [{"type": ""}]})),
        ] {
            let (once, _) = conform(kind, spec(given)).unwrap();
            assert_eq!(once, spec(expected));
            let (twice, _) = conform(kind, once.clone()).unwrap();
            assert_eq!(once, twice);
        }
    }

    #[test]
    fn a_shape_is_a_fixpoint_on_its_own_output() {
        let (once, _) = conform(
            "core/v1.Service",
            json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80, "targetPort": "http"}]}}),
        )
        .unwrap();
        let (twice, unknown) = conform("core/v1.Service", once.clone()).unwrap();
        assert_eq!(once, twice);
        assert!(unknown.is_empty());
    }
}
