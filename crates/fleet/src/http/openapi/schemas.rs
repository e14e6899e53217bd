//! The schemas of what goes over the wire. Answers are described by their types; requests by what reads them, with the
//! limits that are checked there. Every object is closed unless it is a map.

use std::collections::{BTreeMap, BTreeSet};

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::http::parameters::{LARGEST_PAGE, LAST_PAGE};
use crate::http::problem::{Code, Wire};
use crate::http::{body, labels};
use crate::kinds::{Kind, Kinds};
use crate::resource::{AdapterStatus, Id, LogEntry, Resource};

/// Where schemas are found in the document.
const COMPONENTS: &str = "#/components/schemas/";

/// What the schemas of one kind are called.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) resource: String,
    /// What is left of a resource when only some fields are asked for.
    pub(super) part: String,
    pub(super) list: String,
    pub(super) create: String,
    pub(super) patch: String,
    spec: String,
    /// What one who watches is told.
    pub(super) event: String,
}

impl Names {
    fn of(name: &str) -> Self {
        let with = |suffix: &str| format!("{name}{suffix}");
        Self {
            resource: name.to_owned(),
            part: with("Part"),
            list: with("List"),
            create: with("Create"),
            patch: with("Patch"),
            spec: with("Spec"),
            event: with("Event"),
        }
    }

    fn each(&mut self) -> [&mut String; 7] {
        [
            &mut self.resource,
            &mut self.part,
            &mut self.list,
            &mut self.create,
            &mut self.patch,
            &mut self.spec,
            &mut self.event,
        ]
    }
}

/// All schemas of a document.
pub(super) struct Schemas {
    pub(super) components: Map<String, Value>,
    /// By kind.
    names: BTreeMap<String, Names>,
    every: Names,
}

impl Schemas {
    pub(super) fn of(kinds: &Kinds) -> Self {
        let mut components = of_answers();
        parts_of_answers(&mut components);
        let generic = components.get("Resource").cloned().unwrap_or_default();
        components.insert("ForceDelete".to_owned(), force_delete());
        components.insert("ReportCondition".to_owned(), report_condition());
        components.insert("AdapterStatusReport".to_owned(), report());
        components.insert("AdapterStatusList".to_owned(), list(reference("AdapterStatus")));
        components.insert("StatusLog".to_owned(), list(reference("StatusLogEntry")));
        components.insert("Metadata".to_owned(), metadata());
        let every = Names::of("Resource");
        let names = names_of(kinds, &components, &every);
        let mut schemas = Self { components, names, every };
        for kind in kinds.iter() {
            schemas.add_kind(kind, &generic);
        }
        schemas.add_every(kinds, &generic);
        schemas
    }

    /// What the schemas of a kind, or of resources of every kind, are called.
    pub(super) fn names(&self, kind: Option<&Kind>) -> &Names {
        kind.and_then(|kind| self.names.get(&kind.name)).unwrap_or(&self.every)
    }

    fn add_kind(&mut self, kind: &Kind, generic: &Value) {
        let names = self.names(Some(kind)).clone();
        let resource = of_kind(kind, generic.clone());
        self.components.insert(names.part.clone(), part_of(&resource));
        self.components.insert(names.resource.clone(), resource);
        self.components.insert(names.list.clone(), list(whole_or_part(&names)));
        self.components.insert(names.event.clone(), event(&names));
        self.components.insert(names.create, create(kind, reference(&names.spec)));
        self.components.insert(names.patch, patch(&names.spec));
        self.components.insert(names.spec.clone(), spec(kind, &names.spec));
    }

    fn add_every(&mut self, kinds: &Kinds, generic: &Value) {
        let names = self.every.clone();
        let resources = |schema: &dyn Fn(&Names) -> String, wanted: &dyn Fn(&Kind) -> bool| {
            let wanted = kinds.iter().filter(|kind| wanted(kind));
            let named = wanted.map(|kind| (kind.name.clone(), schema(self.names(Some(kind)))));
            one_of(named.collect())
        };
        let resource = resources(&|names| names.resource.clone(), &|_| true);
        // Only those that belong to nothing can be made without saying to what they belong.
        let create = resources(&|names| names.create.clone(), &|kind| kind.parent.is_none());
        self.components.insert(names.resource.clone(), resource);
        self.components.insert(names.create.clone(), create);
        self.components.insert(names.part.clone(), part_of(generic));
        self.components.insert(names.list.clone(), list(whole_or_part(&names)));
        self.components.insert(names.event.clone(), event(&names));
        self.components.insert(names.patch, patch(&names.spec));
        self.components.insert(names.spec, anything());
    }
}

/// Names for the schemas of every kind that no other schema has: a kind can be called as it likes.
fn names_of(kinds: &Kinds, taken: &Map<String, Value>, every: &Names) -> BTreeMap<String, Names> {
    let mut taken: BTreeSet<String> = taken.keys().cloned().collect();
    taken.extend(every.clone().each().map(|name| name.clone()));
    let mut all = BTreeMap::new();
    for kind in kinds.iter() {
        let mut names = Names::of(&kind.name);
        for name in names.each() {
            while !taken.insert(name.clone()) {
                name.push('_');
            }
        }
        all.insert(kind.name.clone(), names);
    }
    all
}

pub(super) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("{COMPONENTS}{name}") })
}

/// A resource, or what was asked for of it.
pub(super) fn whole_or_part(names: &Names) -> Value {
    json!({ "anyOf": [reference(&names.resource), reference(&names.part)] })
}

/// One of several schemas, by the kind.
fn one_of(named: Vec<(String, String)>) -> Value {
    let references: Vec<Value> = named.iter().map(|(_, schema)| reference(schema)).collect();
    let mapping: BTreeMap<String, String> =
        named.into_iter().map(|(kind, schema)| (kind, format!("{COMPONENTS}{schema}"))).collect();
    json!({ "oneOf": references, "discriminator": { "propertyName": "kind", "mapping": mapping } })
}

fn anything() -> Value {
    json!({ "type": "object", "additionalProperties": true })
}

pub(super) fn id() -> Value {
    let mut generator = generator();
    let mut schema = Value::from(generator.subschema_for::<Id>());
    if let Some(members) = schema.as_object_mut() {
        members.remove("description");
    }
    schema
}

fn generator() -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    SchemaGenerator::new(settings)
}

/// The schemas of answers, from their types.
fn of_answers() -> Map<String, Value> {
    let mut generator = generator();
    generator.subschema_for::<Resource>();
    generator.subschema_for::<AdapterStatus>();
    generator.subschema_for::<LogEntry>();
    generator.subschema_for::<Wire<'_>>();
    let mut schemas = generator.take_definitions(true);
    schemas.values_mut().for_each(close);
    let codes: BTreeSet<&str> = Code::ALL.into_iter().map(|code| code.describe().0).collect();
    set(&mut schemas, "Problem", "code", json!({ "type": "string", "enum": codes }));
    set(&mut schemas, "AdapterStatus", "metadata", report_metadata(false));
    set(&mut schemas, "Resource", "labels", labels_map());
    set(&mut schemas, "Resource", "tenancy", text_map());
    schemas
}

/// Puts the schema of a property where the type of it says less, and keeps its description.
fn set(schemas: &mut Map<String, Value>, schema: &str, property: &str, mut new: Value) {
    let Some(old) =
        schemas.get_mut(schema).and_then(|schema| schema.pointer_mut(&format!("/properties/{property}")))
    else {
        return;
    };
    if let (Some(new), Some(words)) = (new.as_object_mut(), old.get("description")) {
        new.insert("description".to_owned(), words.clone());
    }
    *old = new;
}

/// Closes an object that has properties.
fn close(schema: &mut Value) {
    if let Some(members) = schema.as_object_mut()
        && members.contains_key("properties")
    {
        members.insert("additionalProperties".to_owned(), json!(false));
    }
    if let Some(properties) = schema.pointer_mut("/properties").and_then(Value::as_object_mut) {
        // What reading puts where nothing is, is always there in an answer.
        properties.values_mut().filter_map(Value::as_object_mut).for_each(|property| {
            property.remove("default");
        });
    }
}

/// What is left of the objects in a resource when only some fields are asked for.
fn parts_of_answers(components: &mut Map<String, Value>) {
    for name in ["ResourceStatus", "ResourceCondition", "OwnerReference"] {
        if let Some(schema) = components.get(name) {
            let mut part = part_of(schema);
            if let Some(members) = part.as_object_mut() {
                members.remove("required");
            }
            components.insert(format!("{name}Part"), part);
        }
    }
}

/// The schema of what is left of a resource when only some fields are asked for: its id, and whatever else.
fn part_of(schema: &Value) -> Value {
    let mut part = schema.clone();
    if let Some(members) = part.as_object_mut() {
        members.insert("required".to_owned(), json!(["id"]));
    }
    for (property, pointer) in [
        ("OwnerReference", "/properties/owner_references"),
        ("ResourceStatus", "/properties/status"),
        ("ResourceCondition", "/properties/conditions/items"),
    ] {
        if let Some(reference_to) = part.pointer_mut(&format!("{pointer}/$ref")) {
            *reference_to = json!(format!("{COMPONENTS}{property}Part"));
        }
    }
    part
}

/// A resource of a kind, as it is shown.
fn of_kind(kind: &Kind, mut resource: Value) -> Value {
    if let Some(of_kind) = resource.pointer_mut("/properties/kind") {
        *of_kind = json!({ "const": kind.name });
    }
    match &kind.parent {
        None => {
            if let Some(properties) = resource.pointer_mut("/properties").and_then(Value::as_object_mut) {
                properties.remove("owner_references");
            }
        }
        Some(_) => {
            if let Some(required) = resource.pointer_mut("/required").and_then(Value::as_array_mut) {
                required.push(json!("owner_references"));
            }
        }
    }
    resource
}

fn list(item: Value) -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["items", "page", "size", "total"],
        "properties": {
            "items": { "type": "array", "items": item, "maxItems": LARGEST_PAGE },
            "page": { "type": "integer", "minimum": 1, "maximum": LAST_PAGE, "description": "Which page this is." },
            "size": { "type": "integer", "minimum": 0, "maximum": LARGEST_PAGE, "description": "How many items it has." },
            "total": { "type": "integer", "minimum": 0, "description": "How many items there are on all pages." },
        },
    })
}

/// One of the events that one who watches is told.
fn event(names: &Names) -> Value {
    let told = json!({ "anyOf": [reference(&names.resource), reference("Problem")] });
    json!({
        "type": "object",
        "description": "One of the server-sent events: a resource that changed, or the problem with which the events end.",
        "additionalProperties": false,
        "required": ["event", "data"],
        "properties": {
            "event": { "enum": ["ADDED", "MODIFIED", "DELETED", "ERROR"], "description": "What happened." },
            "id": { "type": "string", "pattern": "^[0-9]+$", "description": "The revision of the change; to watch from there." },
            "data": {
                "type": "string",
                "contentMediaType": "application/json",
                "contentSchema": told,
                "description": "The resource as it is then, or the problem.",
            },
        },
    })
}

/// What every spec of a kind has to keep.
fn spec(kind: &Kind, name: &str) -> Value {
    let Some(declared) = &kind.declared_spec_schema else { return anything() };
    let mut schema = declared.clone();
    if schema.get("$id").is_none() {
        refer_from(&mut schema, &format!("{COMPONENTS}{name}"));
    }
    schema
}

/// Turns what refers to a place in a schema into what refers to that place in the document.
fn refer_from(schema: &mut Value, root: &str) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::String(target)) = members.get_mut("$ref")
                && let Some(inside) = target.strip_prefix('#')
            {
                *target = format!("{root}{inside}");
            }
            members.values_mut().for_each(|member| refer_from(member, root));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| refer_from(item, root)),
        _ => {}
    }
}

fn text_map() -> Value {
    json!({ "type": "object", "additionalProperties": { "type": "string" } })
}

fn labels_map() -> Value {
    json!({
        "type": "object",
        "propertyNames": { "pattern": labels::key_pattern() },
        "additionalProperties": { "type": "string", "pattern": labels::value_pattern() },
    })
}

/// The same, or null, which is as good as not there.
fn or_null(mut schema: Value) -> Value {
    if let Some(type_) = schema.get_mut("type") {
        *type_ = json!([type_.clone(), "null"]);
    }
    schema
}

fn described(mut schema: Value, words: &str) -> Value {
    if let Some(members) = schema.as_object_mut() {
        members.insert("description".to_owned(), json!(words));
    }
    schema
}

/// An object that keeps a schema, which may say less.
fn object_of(schema: Value, words: &str) -> Value {
    json!({ "allOf": [{ "type": "object" }, schema], "description": words })
}

fn create(kind: &Kind, spec: Value) -> Value {
    let mut properties = Map::new();
    properties.insert("kind".to_owned(), json!({ "const": kind.name }));
    let name = json!({
        "type": "string",
        "minLength": kind.name_length.start(),
        "maxLength": kind.name_length.end(),
        "pattern": body::NAME_PATTERN,
        "description": format!("Unique among resources of kind {} that are not being deleted.", kind.name),
    });
    properties.insert("name".to_owned(), name);
    properties.insert("spec".to_owned(), object_of(spec, "What is wanted of it."));
    properties.insert("labels".to_owned(), described(or_null(labels_map()), "Its labels."));
    for member in body::SET_BY_SERVER {
        let words = "Set by the server: accepted, so that what a GET shows can be posted again, and ignored.";
        properties.insert(member.to_owned(), json!({ "description": words }));
    }
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["kind", "name", "spec"],
        "properties": properties,
    })
}

fn patch(spec: &str) -> Value {
    let has = |field: &str| json!({ "required": [field], "properties": { field: { "type": "object" } } });
    json!({
        "type": "object",
        "description": "What is to change: spec or labels or both. Each replaces what there is, whole. Null is as good as not there.",
        "additionalProperties": false,
        "properties": {
            "spec": { "anyOf": [object_of(reference(spec), "What is wanted of it from now on."), { "type": "null" }] },
            "labels": described(or_null(labels_map()), "Its labels from now on."),
        },
        "anyOf": [has("spec"), has("labels")],
    })
}

fn force_delete() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["reason"],
        "properties": { "reason": {
            "type": "string",
            "minLength": 1,
            "maxLength": body::LONGEST_REASON,
            "pattern": body::SAYS_SOMETHING,
            "description": "Why nobody needs to clean up.",
        } },
    })
}

fn name() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": body::LONGEST_NAME })
}

fn report_condition() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["type", "status"],
        "properties": {
            "type": described(name(), "What it is about."),
            "status": { "type": "string", "enum": ["True", "False", "Unknown"], "description": "Whether it holds." },
            "reason": { "type": ["string", "null"], "description": "Why, in a word." },
            "message": { "type": ["string", "null"], "description": "Why, in words." },
        },
    })
}

fn report_metadata(null: bool) -> Value {
    let may_be_null = |schema: Value| if null { or_null(schema) } else { schema };
    let count = json!({ "type": "integer", "minimum": 0, "maximum": body::LARGEST_COUNT });
    let mut properties = Map::new();
    for member in body::METADATA_TEXT {
        properties.insert(member.to_owned(), may_be_null(json!({ "type": "string" })));
    }
    properties.insert(body::METADATA_COUNT.to_owned(), may_be_null(count));
    may_be_null(json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "description": "Of the work behind the report.",
    }))
}

fn report() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["adapter", "observed_generation", "conditions"],
        "properties": {
            "adapter": described(name(), "Which adapter."),
            "observed_generation": {
                "type": "integer",
                "minimum": 1,
                "maximum": body::LARGEST_COUNT,
                "description": "The generation it looked at.",
            },
            "observed_time": {
                "type": ["string", "null"],
                "format": "date-time",
                "description": format!(
                    "When it looked; now, if it does not say. At most {} minutes ahead of the server, and at most {} behind.",
                    body::AHEAD.as_mins(),
                    body::BEHIND.as_mins(),
                ),
            },
            "conditions": {
                "type": "array",
                "maxItems": body::MOST_CONDITIONS,
                "items": reference("ReportCondition"),
                "description": "What it found: one of each type. A report that would be kept has to have Available, Applied and Health.",
            },
            "data": described(or_null(anything()), "What else it wants known."),
            "metadata": report_metadata(true),
        },
    })
}

fn metadata() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["id", "kind", "href", "version"],
        "properties": {
            "id": { "const": "hyperfleet" },
            "kind": { "const": "API" },
            "href": { "type": "string" },
            "version": { "type": "string", "description": "The version of the server." },
        },
    })
}
