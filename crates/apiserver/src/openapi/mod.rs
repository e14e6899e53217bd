//! OpenAPI v3: what clients are told of the kinds, one document a group and version. Built when it is asked for, from
//! the same data that objects are checked by, and kept as bytes until what is served changes.

mod builtin;
mod paths;

use std::collections::HashMap;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::registry::{Registry, Resource, Typing};

/// A document, and what it is known by.
#[derive(Clone)]
pub(crate) struct Document {
    pub(crate) bytes: Bytes,
    pub(crate) hash: String,
}

/// The documents of one state of a registry.
#[derive(Default)]
pub(crate) struct Documents(Mutex<HashMap<String, Document>>);

impl Documents {
    /// The document of a group and version, by its path: `api/v1`, `apis/example.com/v1`.
    pub(crate) fn get(&self, registry: &Registry, path: &str) -> Option<Document> {
        if let Some(document) = self.0.lock().get(path) {
            return Some(document.clone());
        }
        let document = of_version(registry, path)?;
        let bytes = serde_json::to_vec(&document).unwrap_or_default();
        let hash = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02X}")).collect();
        let document = Document { bytes: bytes.into(), hash };
        self.0.lock().insert(path.to_owned(), document.clone());
        Some(document)
    }

    /// Where the documents are. `prefix` is the path of the logical cluster: clients take these addresses as they are.
    pub(crate) fn index(&self, registry: &Registry, prefix: &str) -> Value {
        let mut paths = Map::new();
        for path in version_paths(registry) {
            if let Some(document) = self.get(registry, &path) {
                let url = format!("{prefix}/openapi/v3/{path}?hash={}", document.hash);
                paths.insert(path, json!({"serverRelativeURL": url}));
            }
        }
        json!({"paths": paths})
    }
}

fn version_paths(registry: &Registry) -> Vec<String> {
    let groups = registry.groups().into_iter();
    groups
        .flat_map(|(group, versions)| versions.into_iter().map(move |version| path_of(group, version)))
        .collect()
}

fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

fn of_version(registry: &Registry, path: &str) -> Option<Value> {
    let of_path = |resource: &&std::sync::Arc<Resource>| path_of(&resource.group, &resource.version) == path;
    let resources: Vec<&Resource> = registry.all().iter().filter(of_path).map(AsRef::as_ref).collect();
    if resources.is_empty() {
        return None;
    }
    let mut builtins = builtin::Schemas::read();
    let mut schemas = Map::new();
    let mut paths = Map::new();
    for name in ["meta/v1.DeleteOptions", "meta/v1.Status", "meta/v1.ListMeta", "meta/v1.ObjectMeta"] {
        builtins.add(name, &mut schemas);
    }
    for resource in resources {
        let name = schema_name(resource, &builtins);
        match &resource.typing {
            Typing::Builtin(shape) => builtins.add(shape, &mut schemas),
            Typing::Custom(version) => {
                schemas.insert(name.clone(), custom_schema(&version.published));
            }
        }
        if let Some(Value::Object(schema)) = schemas.get_mut(&name) {
            schema.insert("x-kubernetes-group-version-kind".into(), json!([kind_of(resource)]));
        }
        schemas.insert(format!("{name}List"), list_schema(resource, &name));
        paths.extend(paths::of(resource, &name));
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

fn kind_of(resource: &Resource) -> Value {
    json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
}

/// `io.k8s.api.core.v1.ConfigMap`, or for custom kinds the group reversed: `com.example.v1.Widget`.
fn schema_name(resource: &Resource, builtins: &builtin::Schemas) -> String {
    match &resource.typing {
        Typing::Builtin(shape) => builtins.name(shape),
        Typing::Custom(_) => {
            let reversed: Vec<&str> = resource.group.rsplit('.').collect();
            format!("{}.{}.{}", reversed.join("."), resource.version, resource.kind)
        }
    }
}

/// The schema of a definition, with what every object has.
fn custom_schema(published: &Value) -> Value {
    let mut schema = match published {
        Value::Object(schema) => schema.clone(),
        _ => Map::new(),
    };
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
        return json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    }
    let properties = schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(properties) = properties {
        for key in ["apiVersion", "kind"] {
            properties
                .insert(key.into(), json!({"type": "string", "description": builtin::type_meta_words(key)}));
        }
        let metadata = json!({
            "description": "Standard object's metadata.",
            "allOf": [{"$ref": format!("{}io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", builtin::REF)}],
        });
        properties.insert("metadata".into(), metadata);
    }
    Value::Object(schema)
}

fn list_schema(resource: &Resource, name: &str) -> Value {
    let meta = format!("{}io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta", builtin::REF);
    let text = |key: &str| json!({"type": "string", "description": builtin::type_meta_words(key)});
    json!({
        "type": "object",
        "description": format!("{} is a list of {}", resource.list_kind, resource.kind),
        "required": ["items"],
        "properties": {
            "apiVersion": text("apiVersion"),
            "kind": text("kind"),
            "metadata": {"allOf": [{"$ref": meta}]},
            "items": {"type": "array", "items": {"allOf": [{"$ref": format!("{}{name}", builtin::REF)}]}},
        },
        "x-kubernetes-group-version-kind":
            [{"group": resource.group, "version": resource.version, "kind": resource.list_kind}],
    })
}
