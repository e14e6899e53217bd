//! A manifest as it stands in a work: which object it is about, and what is sent to the cluster. What cannot be sent is
//! found to be so here, in words for whoever wrote it.

use bellwether_api::work::ManifestResourceMeta;
use serde_json::{Map, Value};

/// What the server fills in, and nobody asks for.
const OF_THE_SERVER: [&str; 7] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
];

/// A kind, as a manifest names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KindName {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

impl KindName {
    /// Group and version as one word.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

/// A kind, as a cluster serves it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Served {
    pub(crate) name: KindName,
    pub(crate) plural: String,
    pub(crate) namespaced: bool,
    /// Whether the status is written on its own, so that it cannot be part of a manifest.
    pub(crate) has_status: bool,
}

/// An object of a cluster, whatever the version of its kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectId {
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A manifest that names an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Manifest {
    pub(crate) ordinal: usize,
    pub(crate) kind: KindName,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A manifest of which nothing can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flawed {
    pub(crate) meta: ManifestResourceMeta,
    pub(crate) words: String,
}

impl Manifest {
    /// Reads a manifest.
    pub(crate) fn read(ordinal: usize, manifest: &Value) -> Result<Self, Box<Flawed>> {
        let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let api_version = text("/apiVersion");
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let read = Self {
            ordinal,
            kind: KindName { group: group.into(), version: version.into(), kind: text("/kind").into() },
            namespace: text("/metadata/namespace").into(),
            name: text("/metadata/name").into(),
        };
        match read.flaw(manifest) {
            None => Ok(read),
            Some(flaw) => {
                let words = format!("manifest {ordinal} of the work {flaw}");
                Err(Box::new(Flawed { meta: read.meta(None), words }))
            }
        }
    }

    fn flaw(&self, manifest: &Value) -> Option<&'static str> {
        if !manifest.is_object() {
            Some("is not an object")
        } else if self.kind.version.is_empty() {
            Some("has no apiVersion")
        } else if self.kind.kind.is_empty() {
            Some("has no kind")
        } else if self.name.is_empty() {
            Some("has no name in its metadata")
        } else if !is_segment(&self.name) || (!self.namespace.is_empty() && !is_segment(&self.namespace)) {
            Some("has a name or namespace that no object can have")
        } else if !(is_segment(&self.kind.version)
            && (self.kind.group.is_empty() || is_segment(&self.kind.group)))
        {
            Some("has an apiVersion that is none")
        } else {
            None
        }
    }

    /// How the object is named in the status of the work.
    pub(crate) fn meta(&self, served: Option<&Served>) -> ManifestResourceMeta {
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

    /// The object, where its kind is served; or why there cannot be one.
    pub(crate) fn object(&self, served: &Served) -> Result<ObjectId, String> {
        if served.namespaced && self.namespace.is_empty() {
            return Err(format!("{} {} needs a namespace, and names none", self.kind.kind, self.name));
        }
        Ok(ObjectId {
            group: self.kind.group.clone(),
            resource: served.plural.clone(),
            namespace: if served.namespaced { self.namespace.clone() } else { String::new() },
            name: self.name.clone(),
        })
    }
}

/// Whether a text can be one part of a path, so that no manifest leads a request astray.
fn is_segment(text: &str) -> bool {
    text.len() <= 253
        && text != "."
        && text != ".."
        && !text.contains(|c: char| matches!(c, '/' | '%' | '?' | '#') || c.is_control() || c.is_whitespace())
}

/// What is sent: the manifest without what only the server writes, and with its owners.
pub(crate) fn body(manifest: &Value, served: &Served, owners: Vec<Value>) -> Value {
    let mut body = manifest.as_object().cloned().unwrap_or_default();
    if served.has_status {
        body.remove("status");
    }
    let mut metadata = match body.remove("metadata") {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    for field in OF_THE_SERVER {
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

/// An object in a few words.
pub(crate) fn described(kind: &str, namespace: &str, name: &str) -> String {
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn served(namespaced: bool, has_status: bool) -> Served {
        let name = KindName { group: "apps".into(), version: "v1".into(), kind: "Deployment".into() };
        Served { name, plural: "deployments".into(), namespaced, has_status }
    }

    #[test]
    fn a_manifest_that_names_no_object_says_why() {
        let rows = [
            (json!(7), "is not an object"),
            (json!({"kind": "ConfigMap", "metadata": {"name": "a"}}), "has no apiVersion"),
            (json!({"apiVersion": "v1", "metadata": {"name": "a"}}), "has no kind"),
            (json!({"apiVersion": "v1", "kind": "ConfigMap"}), "has no name in its metadata"),
            (
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}}),
                "has no name in its metadata",
            ),
            (
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "../secrets/x"}}),
                "has a name or namespace that no object can have",
            ),
            (
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b?c"}}),
                "has a name or namespace that no object can have",
            ),
            (
                json!({"apiVersion": "a/b/c", "kind": "ConfigMap", "metadata": {"name": "a"}}),
                "has an apiVersion that is none",
            ),
        ];
        for (manifest, flaw) in rows {
            let flawed = Manifest::read(3, &manifest).unwrap_err();
            assert_eq!(flawed.words, format!("manifest 3 of the work {flaw}"), "{manifest}");
            assert_eq!(flawed.meta.ordinal, 3);
        }
    }

    #[test]
    fn an_object_is_named_by_group_resource_namespace_and_name() {
        let manifest = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "n"}});
        let read = Manifest::read(0, &manifest).unwrap();
        let id = |namespace: &str| ObjectId {
            group: "apps".into(),
            resource: "deployments".into(),
            namespace: namespace.into(),
            name: "a".into(),
        };
        assert_eq!(read.object(&served(true, true)), Ok(id("n")));
        assert_eq!(read.object(&served(false, true)), Ok(id("")));
        let nowhere = Manifest { namespace: String::new(), ..read };
        assert_eq!(
            nowhere.object(&served(true, true)),
            Err("Deployment a needs a namespace, and names none".into())
        );
    }

    #[test]
    fn what_only_the_server_writes_is_not_sent() {
        let manifest = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1}, "status": {"replicas": 9},
            "metadata": {"name": "a", "namespace": "n", "labels": {"x": "y"}, "uid": "u", "resourceVersion": "1",
                "creationTimestamp": null, "managedFields": [], "generation": 4, "ownerReferences": [{"uid": "old"}]},
        });
        let plain = json!({"name": "a", "namespace": "n", "labels": {"x": "y"}});
        let owned =
            json!({"name": "a", "namespace": "n", "labels": {"x": "y"}, "ownerReferences": [{"uid": "o"}]});
        let sent = |metadata: &Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1}, "metadata": metadata});
        assert_eq!(body(&manifest, &served(true, true), vec![]), sent(&plain));
        assert_eq!(body(&manifest, &served(true, true), vec![json!({"uid": "o"})]), sent(&owned));
        let with_status = body(&manifest, &served(true, false), vec![]);
        assert_eq!(with_status["status"], json!({"replicas": 9}), "a kind without a status of its own");
        assert_eq!(body(&manifest, &served(false, true), vec![])["metadata"].get("namespace"), None);
    }
}
