//! Parses and validates a manifest of a ManifestWork: which object it describes, and the body of the request that
//! writes it.

use bellwether_api::work::ManifestResourceMeta;
use serde_json::{Map, Value};

/// Fields of the metadata that the API server sets, and that are not sent.
const SERVER_SET_METADATA: [&str; 7] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
];

/// The kind of a manifest, with its group and version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KindName {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

impl KindName {
    /// The apiVersion: `<version>` of the core group, or `<group>/<version>`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

/// A kind that the cluster serves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ServedKind {
    pub(crate) name: KindName,
    pub(crate) plural: String,
    pub(crate) namespaced: bool,
    /// Whether the kind has the subresource `status`, so that writes of the object ignore its status.
    pub(crate) has_status: bool,
}

/// An object of a cluster, independent of the version of its kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectId {
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A valid manifest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Manifest {
    pub(crate) ordinal: usize,
    pub(crate) kind: KindName,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A manifest that does not identify an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InvalidManifest {
    pub(crate) meta: ManifestResourceMeta,
    pub(crate) message: String,
}

impl Manifest {
    pub(crate) fn parse(ordinal: usize, manifest: &Value) -> Result<Self, Box<InvalidManifest>> {
        let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let api_version = text("/apiVersion");
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let parsed = Self {
            ordinal,
            kind: KindName { group: group.into(), version: version.into(), kind: text("/kind").into() },
            namespace: text("/metadata/namespace").into(),
            name: text("/metadata/name").into(),
        };
        match parsed.find_error(manifest) {
            None => Ok(parsed),
            Some(error) => {
                let message = format!("manifest {ordinal} of the ManifestWork {error}");
                Err(Box::new(InvalidManifest { meta: parsed.resource_meta(None), message }))
            }
        }
    }

    fn find_error(&self, manifest: &Value) -> Option<&'static str> {
        if !manifest.is_object() {
            Some("is not an object")
        } else if self.kind.version.is_empty() {
            Some("has no apiVersion")
        } else if self.kind.kind.is_empty() {
            Some("has no kind")
        } else if self.name.is_empty() {
            Some("has no metadata.name")
        } else if !is_path_segment(&self.name)
            || (!self.namespace.is_empty() && !is_path_segment(&self.namespace))
        {
            Some("has an invalid metadata.name or metadata.namespace")
        } else if !(is_path_segment(&self.kind.version)
            && (self.kind.group.is_empty() || is_path_segment(&self.kind.group)))
        {
            Some("has an invalid apiVersion: must be <version> or <group>/<version>")
        } else {
            None
        }
    }

    /// The identification of the object in the status of the ManifestWork.
    pub(crate) fn resource_meta(&self, served: Option<&ServedKind>) -> ManifestResourceMeta {
        ManifestResourceMeta {
            ordinal: i32::try_from(self.ordinal).unwrap_or(i32::MAX),
            group: self.kind.group.clone(),
            version: self.kind.version.clone(),
            kind: self.kind.kind.clone(),
            resource: served.map(|served| served.plural.clone()).unwrap_or_default(),
            name: self.name.clone(),
            namespace: self.namespace.clone(),
        }
    }

    /// The object that the manifest describes, or why it does not describe one.
    pub(crate) fn object_id(&self, served: &ServedKind) -> Result<ObjectId, String> {
        if served.namespaced && self.namespace.is_empty() {
            return Err(format!("metadata.namespace is missing; {} is a namespaced kind", self.kind.kind));
        }
        Ok(ObjectId {
            group: self.kind.group.clone(),
            resource: served.plural.clone(),
            namespace: if served.namespaced { self.namespace.clone() } else { String::new() },
            name: self.name.clone(),
        })
    }
}

/// Whether a text can be one segment of a request path, so that no manifest can change the path in another way.
fn is_path_segment(text: &str) -> bool {
    text.len() <= 253
        && text != "."
        && text != ".."
        && !text.contains(|c: char| matches!(c, '/' | '%' | '?' | '#') || c.is_control() || c.is_whitespace())
}

/// The body of an apply or create request: the manifest with these owner references, without the fields that the API
/// server sets.
pub(crate) fn request_body(manifest: &Value, served: &ServedKind, owners: Vec<Value>) -> Value {
    let mut body = manifest.as_object().cloned().unwrap_or_default();
    if served.has_status {
        body.remove("status");
    }
    let mut metadata = match body.remove("metadata") {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    for field in SERVER_SET_METADATA {
        metadata.remove(field);
    }
    metadata.remove("uid");
    if !served.namespaced {
        metadata.remove("namespace");
    }
    if owners.is_empty() {
        metadata.remove("ownerReferences");
    } else {
        metadata.insert("ownerReferences".into(), owners.into());
    }
    body.insert("metadata".into(), metadata.into());
    Value::Object(body)
}

/// An object in a message: `<kind> <name>` or `<kind> <namespace>/<name>`.
pub(crate) fn describe_object(kind: &str, namespace: &str, name: &str) -> String {
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn served(namespaced: bool, has_status: bool) -> ServedKind {
        let name = KindName { group: "apps".into(), version: "v1".into(), kind: "Deployment".into() };
        ServedKind { name, plural: "deployments".into(), namespaced, has_status }
    }

    #[test]
    fn invalid_manifest_has_an_error_message() {
        let rows = [
            (json!(7), "is not an object"),
            (json!({"kind": "ConfigMap", "metadata": {"name": "a"}}), "has no apiVersion"),
            (json!({"apiVersion": "v1", "metadata": {"name": "a"}}), "has no kind"),
            (json!({"apiVersion": "v1", "kind": "ConfigMap"}), "has no metadata.name"),
            (
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}}),
                "has no metadata.name",
            ),
            (
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "../secrets/x"}}),
                "has an invalid metadata.name or metadata.namespace",
            ),
            (
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b?c"}}),
                "has an invalid metadata.name or metadata.namespace",
            ),
            (
                json!({"apiVersion": "a/b/c", "kind": "ConfigMap", "metadata": {"name": "a"}}),
                "has an invalid apiVersion: must be <version> or <group>/<version>",
            ),
        ];
        for (manifest, error) in rows {
            let invalid = Manifest::parse(3, &manifest).unwrap_err();
            assert_eq!(invalid.message, format!("manifest 3 of the ManifestWork {error}"), "{manifest}");
            assert_eq!(invalid.meta.ordinal, 3);
        }
    }

    #[test]
    fn object_id_has_a_namespace_only_for_namespaced_kinds() {
        let manifest = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "n"}});
        let parsed = Manifest::parse(0, &manifest).unwrap();
        let id = |namespace: &str| ObjectId {
            group: "apps".into(),
            resource: "deployments".into(),
            namespace: namespace.into(),
            name: "a".into(),
        };
        assert_eq!(parsed.object_id(&served(true, true)), Ok(id("n")));
        assert_eq!(parsed.object_id(&served(false, true)), Ok(id("")));
        let without_namespace = Manifest { namespace: String::new(), ..parsed };
        assert_eq!(
            without_namespace.object_id(&served(true, true)),
            Err("metadata.namespace is missing; Deployment is a namespaced kind".into())
        );
    }

    #[test]
    fn fields_that_the_server_sets_are_not_sent() {
        let manifest = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1}, "status": {"replicas": 9},
            "metadata": {"name": "a", "namespace": "n", "labels": {"x": "y"}, "uid": "u", "resourceVersion": "1",
                "creationTimestamp": null, "managedFields": [], "generation": 4, "ownerReferences": [{"uid": "old"}]},
        });
        let plain = json!({"name": "a", "namespace": "n", "labels": {"x": "y"}});
        let owned =
            json!({"name": "a", "namespace": "n", "labels": {"x": "y"}, "ownerReferences": [{"uid": "o"}]});
        let sent = |metadata: &Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1}, "metadata": metadata});
        assert_eq!(request_body(&manifest, &served(true, true), vec![]), sent(&plain));
        assert_eq!(request_body(&manifest, &served(true, true), vec![json!({"uid": "o"})]), sent(&owned));
        let with_status = request_body(&manifest, &served(true, false), vec![]);
        assert_eq!(with_status["status"], json!({"replicas": 9}), "a kind without the subresource status");
        assert_eq!(request_body(&manifest, &served(false, true), vec![])["metadata"].get("namespace"), None);
    }
}
