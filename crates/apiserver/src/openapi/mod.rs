//! OpenAPI: what clients are told of the kinds, in v3 one document a group and version, in v2 one for all. Built when it is asked for, from
//! the same data that objects are checked by, and kept as bytes until what is served changes.

mod builtin;
mod custom;
mod paths;
mod protobuf;
mod v2;

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

/// The two forms of the document of v2.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Protobuf,
}

/// Where the schemas of custom kinds are found, as their definitions have them.
pub(crate) type Published<'p> = &'p dyn Fn(&Resource) -> Value;

/// The documents of one state of a registry.
#[derive(Default)]
pub(crate) struct Documents(Mutex<HashMap<String, Document>>);

impl Documents {
    /// The document of a group and version, by its path: `api/v1`, `apis/example.com/v1`.
    pub(crate) fn get(&self, registry: &Registry, published: Published<'_>, path: &str) -> Option<Document> {
        let hash = hash_of(registry, path)?;
        Some(self.kept(path, hash, || {
            serde_json::to_vec(&of_version(registry, published, path).unwrap_or_default()).unwrap_or_default()
        }))
    }

    /// The document of v2, which holds all groups and versions.
    pub(crate) fn v2(&self, registry: &Registry, published: Published<'_>, encoding: Encoding) -> Document {
        let key = if encoding == Encoding::Json { "v2" } else { "v2 in protobuf" };
        let paths = version_paths(registry);
        let mut digest = Sha256::new();
        for hash in paths.iter().filter_map(|path| hash_of(registry, path)) {
            digest.update(hash);
        }
        let hash = hex(&digest.finalize());
        self.kept(key, hash, || {
            let document =
                v2::document(paths.iter().filter_map(|path| of_version(registry, published, path)));
            match encoding {
                Encoding::Json => serde_json::to_vec(&document).unwrap_or_default(),
                Encoding::Protobuf => protobuf::document(&document),
            }
        })
    }

    fn kept(&self, key: &str, hash: String, build: impl FnOnce() -> Vec<u8>) -> Document {
        if let Some(document) = self.0.lock().get(key) {
            return document.clone();
        }
        let document = Document { bytes: build().into(), hash };
        self.0.lock().insert(key.to_owned(), document.clone());
        document
    }

    /// Where the documents are. `prefix` is the path of the logical cluster: clients take these addresses as they are.
    pub(crate) fn index(&self, registry: &Registry, prefix: &str) -> Value {
        let mut paths = Map::new();
        for path in version_paths(registry) {
            if let Some(hash) = hash_of(registry, &path) {
                let url = format!("{prefix}/openapi/v3/{path}?hash={hash}");
                paths.insert(path, json!({"serverRelativeURL": url}));
            }
        }
        json!({"paths": paths})
    }
}

/// What a document is known by, without building it: it changes with the definitions that it comes from.
fn hash_of(registry: &Registry, path: &str) -> Option<String> {
    let mut digest = Sha256::new();
    digest.update(builtin::fingerprint());
    digest.update(path);
    let mut found = false;
    for resource in registry.all() {
        if path_of(&resource.group, &resource.version) == path {
            found = true;
            digest.update(&resource.plural);
            if let Typing::Custom(version) = &resource.typing {
                digest.update(version.since.0.to_be_bytes());
            }
        }
    }
    found.then(|| hex(&digest.finalize()))
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02X}")).collect()
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

fn of_version(registry: &Registry, published: Published<'_>, path: &str) -> Option<Value> {
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
            Typing::Custom(_) => {
                schemas.insert(name.clone(), custom::object(published(resource), &builtins));
            }
        }
        if let Some(Value::Object(schema)) = schemas.get_mut(&name) {
            schema.insert("x-kubernetes-group-version-kind".into(), json!([kind_of(resource)]));
        }
        if resource.review.is_none() {
            schemas.insert(format!("{name}List"), list_schema(resource, &name, &builtins));
        }
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

fn list_schema(resource: &Resource, name: &str, words: &builtin::Schemas) -> Value {
    let meta = format!("{}io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta", builtin::REF);
    let text = |key: &str| json!({"type": "string", "description": words.words("meta/v1.TypeMeta", key)});
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
