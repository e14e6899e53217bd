//! The schemas of requests and responses. Responses are described by their types; requests by the limits that `body` checks. An
//! object allows no additional properties, unless it is a map.

use std::collections::{BTreeMap, BTreeSet};

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::http::parameters::{LARGEST_PAGE, LAST_PAGE};
use crate::http::problem::{Code, Wire};
use crate::http::{body, labels};
use crate::kinds::{Kind, Kinds};
use crate::resource::{AdapterStatus, Id, LogEntry, Resource};

/// The prefix of references to schemas of the document.
const COMPONENTS: &str = "#/components/schemas/";

/// The names of the schemas of a kind.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) resource: String,
    /// A resource with only the requested fields.
    pub(super) part: String,
    pub(super) list: String,
    pub(super) create: String,
    pub(super) patch: String,
    spec: String,
    /// A watch event.
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
        let mut components = response_schemas();
        partial_schemas(&mut components);
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

    /// The names of the schemas of a kind, or of resources of every kind.
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
        // Kinds with a parent can be created only below it.
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

/// Unique names for the schemas of every kind: the name of a kind may equal the name of another schema.
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

/// A resource, or the requested fields of it.
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

/// The schemas of responses, from their types.
fn response_schemas() -> Map<String, Value> {
    let mut generator = generator();
    generator.subschema_for::<Resource>();
    generator.subschema_for::<AdapterStatus>();
    generator.subschema_for::<LogEntry>();
    generator.subschema_for::<Wire<'_>>();
    let mut schemas = generator.take_definitions(true);
    schemas.values_mut().for_each(close);
    let codes: BTreeSet<&str> = Code::ALL.into_iter().map(|code| code.describe().0).collect();
    set(&mut schemas, "Problem", "code", json!({ "type": "string", "enum": codes }));
    set(&mut schemas, "AdapterStatus", "metadata", report_metadata(MetadataOf::Status));
    set(&mut schemas, "Resource", "labels", labels_map());
    set(&mut schemas, "Resource", "tenancy", text_map());
    schemas
}

/// Replaces the schema of a property, which is stricter than its type, and keeps its description.
fn set(schemas: &mut Map<String, Value>, schema: &str, property: &str, mut new: Value) {
    let Some(old) =
        schemas.get_mut(schema).and_then(|schema| schema.pointer_mut(&format!("/properties/{property}")))
    else {
        return;
    };
    if let (Some(new), Some(description)) = (new.as_object_mut(), old.get("description")) {
        new.insert("description".to_owned(), description.clone());
    }
    *old = new;
}

/// Allows no additional properties in an object that has properties.
fn close(schema: &mut Value) {
    if let Some(members) = schema.as_object_mut()
        && members.contains_key("properties")
    {
        members.insert("additionalProperties".to_owned(), json!(false));
    }
    if let Some(properties) = schema.pointer_mut("/properties").and_then(Value::as_object_mut) {
        // Responses always have these properties, so that they have no defaults.
        properties.values_mut().filter_map(Value::as_object_mut).for_each(|property| {
            property.remove("default");
        });
    }
}

/// Adds the schemas of nested objects with only the requested fields.
fn partial_schemas(components: &mut Map<String, Value>) {
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

/// The schema of an object with only the requested fields: only the ID is required.
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

/// The schema of a resource of a kind.
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
            "page": { "type": "integer", "minimum": 1, "maximum": LAST_PAGE, "description": "The number of this page." },
            "size": { "type": "integer", "minimum": 0, "maximum": LARGEST_PAGE, "description": "The number of items on this page." },
            "total": { "type": "integer", "minimum": 0, "description": "The number of items on all pages." },
        },
    })
}

/// A watch event.
fn event(names: &Names) -> Value {
    let content = json!({ "anyOf": [reference(&names.resource), reference("Problem")] });
    json!({
        "type": "object",
        "description": "A server-sent event: a changed resource, or the problem that ends the stream.",
        "additionalProperties": false,
        "required": ["event", "data"],
        "properties": {
            "event": { "enum": ["ADDED", "MODIFIED", "DELETED", "ERROR"], "description": "The type of the event." },
            "id": { "type": "string", "pattern": "^[0-9]+$", "description": "The revision of the change, from which a watch can continue." },
            "data": {
                "type": "string",
                "contentMediaType": "application/json",
                "contentSchema": content,
                "description": "The resource after the change, or the problem.",
            },
        },
    })
}

/// The schema of the spec of a kind.
fn spec(kind: &Kind, name: &str) -> Value {
    let Some(declared) = &kind.declared_spec_schema else { return anything() };
    let mut schema = declared.clone();
    if schema.get("$id").is_none() {
        refer_from(&mut schema, &format!("{COMPONENTS}{name}"));
    }
    schema
}

/// Changes references within a schema to references within the document.
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

/// The schema, or null, which has the same meaning as an absent field.
fn or_null(mut schema: Value) -> Value {
    if let Some(type_) = schema.get_mut("type") {
        *type_ = json!([type_.clone(), "null"]);
    }
    schema
}

fn described(mut schema: Value, description: &str) -> Value {
    if let Some(members) = schema.as_object_mut() {
        members.insert("description".to_owned(), json!(description));
    }
    schema
}

/// An object that matches a schema, which itself may allow other types.
fn object_of(schema: Value, description: &str) -> Value {
    json!({ "allOf": [{ "type": "object" }, schema], "description": description })
}

fn create(kind: &Kind, spec: Value) -> Value {
    let mut properties = Map::new();
    properties.insert("kind".to_owned(), json!({ "const": kind.name }));
    let name = json!({
        "type": "string",
        "minLength": kind.name_length.start(),
        "maxLength": kind.name_length.end(),
        "pattern": body::NAME_PATTERN,
        "description": format!("The name, which is unique among resources of kind {} that are not being deleted.", kind.name),
    });
    properties.insert("name".to_owned(), name);
    properties.insert("spec".to_owned(), object_of(spec, "The desired state of the resource."));
    properties.insert("labels".to_owned(), described(or_null(labels_map()), "The labels of the resource."));
    for member in body::SET_BY_SERVER {
        let description = "Set by the server. It is accepted and ignored, so that the response of a GET can be posted again.";
        properties.insert(member.to_owned(), json!({ "description": description }));
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
        "description": "The fields to change: spec, labels or both. Each replaces the whole current value. Null means no change.",
        "additionalProperties": false,
        "properties": {
            "spec": { "anyOf": [object_of(reference(spec), "The new desired state of the resource."), { "type": "null" }] },
            "labels": described(or_null(labels_map()), "The new labels of the resource."),
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
            "pattern": body::NOT_BLANK,
            "description": "Why no cleanup is needed.",
        } },
    })
}

fn name() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": body::LONGEST_NAME })
}

fn report_condition() -> Value {
    json!({
        "type": "object",
        "additionalProperties": true,
        "required": ["type", "status"],
        "properties": {
            "type": described(name(), "The type of the condition."),
            "status": { "type": "string", "enum": ["True", "False", "Unknown"], "description": "The status of the condition." },
            "reason": { "type": ["string", "null"], "description": "The cause, as one CamelCase word." },
            "message": { "type": ["string", "null"], "description": "The cause, for people." },
        },
    })
}

/// What the metadata is a part of: a report may have null and unknown members, which are ignored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MetadataOf {
    Report,
    Status,
}

fn report_metadata(of: MetadataOf) -> Value {
    let in_report = of == MetadataOf::Report;
    let may_be_null = |schema: Value| if in_report { or_null(schema) } else { schema };
    let count = json!({ "type": "integer", "minimum": 0, "maximum": body::LARGEST_COUNT });
    let mut properties = Map::new();
    for member in body::METADATA_TEXT {
        properties.insert(member.to_owned(), may_be_null(json!({ "type": "string" })));
    }
    properties.insert(body::METADATA_COUNT.to_owned(), may_be_null(count));
    may_be_null(json!({
        "type": "object",
        "additionalProperties": in_report,
        "properties": properties,
        "description": "Information about the job that produced the report.",
    }))
}

fn report() -> Value {
    json!({
        "type": "object",
        "additionalProperties": true,
        "required": ["adapter", "observed_generation", "conditions"],
        "properties": {
            "adapter": described(name(), "The name of the adapter."),
            "observed_generation": {
                "type": "integer",
                "minimum": 1,
                "maximum": body::LARGEST_COUNT,
                "description": "The generation that the adapter observed.",
            },
            "observed_time": {
                "type": ["string", "null"],
                "format": "date-time",
                "description": format!(
                    "When the adapter observed it. Default: the current time of the server. It must be at most {} minutes in the future and at most {} minutes in the past.",
                    body::AHEAD.as_mins(),
                    body::BEHIND.as_mins(),
                ),
            },
            "conditions": {
                "type": "array",
                "maxItems": body::MOST_CONDITIONS,
                "items": reference("ReportCondition"),
                "description": "The conditions, at most one of each type. An accepted report must have Available, Applied and Health.",
            },
            "data": described(or_null(anything()), "Further data of the adapter."),
            "metadata": report_metadata(MetadataOf::Report),
        },
    })
}

fn metadata() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["id", "kind", "href", "version", "build_time"],
        "properties": {
            "id": { "const": "hyperfleet" },
            "kind": { "const": "API" },
            "href": { "type": "string" },
            "version": { "type": "string", "description": "The version of the server." },
            "build_time": { "type": "string", "description": "When the server was built, or `unknown`." },
        },
    })
}
