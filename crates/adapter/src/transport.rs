//! What the executor asks of a cluster: reading, writing and deleting single objects. The executor decides what to
//! write; a transport decides nothing.

use async_trait::async_trait;
use serde_json::Value;

use crate::config::Propagation;

/// An API version and kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KindName {
    /// Such as `batch/v1`.
    pub api_version: String,
    /// Such as `Job`.
    pub kind: String,
}

impl KindName {
    /// The kind of an object.
    pub fn of(object: &Value) -> Option<Self> {
        let text =
            |field: &str| object.get(field)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        Some(Self { api_version: text("apiVersion")?, kind: text("kind")? })
    }
}

/// Identifies an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Its kind.
    pub kind: KindName,
    /// Its namespace, unless it is cluster-scoped.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl ObjectKey {
    /// The key of an object.
    pub fn of(object: &Value) -> Option<Self> {
        let text = |pointer: &str| {
            object.pointer(pointer)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
        };
        Some(Self {
            kind: KindName::of(object)?,
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name")?,
        })
    }
}

impl std::fmt::Display for ObjectKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind: KindName { kind, .. }, namespace, name } = self;
        match namespace {
            Some(namespace) => write!(formatter, "{kind} {namespace}/{name}"),
            None => write!(formatter, "{kind} {name}"),
        }
    }
}

/// Why an operation on an object failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// Somebody else created or changed the object in between.
    #[error("{object} was changed by somebody else in between")]
    Conflict {
        /// The object.
        object: String,
    },
    /// The cluster does not serve the kind.
    #[error("the cluster does not serve {kind} of {api_version}; install its CRD or fix apiVersion and kind")]
    UnknownKind {
        /// The API version.
        api_version: String,
        /// The kind.
        kind: String,
    },
    /// The API server rejected the object.
    #[error(
        "{object} was rejected by the API server: {cause}; fix the manifest or the permissions of the adapter"
    )]
    Rejected {
        /// The object.
        object: String,
        /// The message of the API server.
        cause: String,
    },
    /// The API server does not respond.
    #[error("{object}: the API server does not respond: {cause}; the next event tries again")]
    Unreachable {
        /// The object.
        object: String,
        /// The cause.
        cause: String,
    },
}

/// A cluster, or the hub that delivers to clusters.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Reads an object.
    async fn get(&self, key: &ObjectKey) -> Result<Option<Value>, TransportError>;

    /// Lists the objects of a kind that have all these labels; in all namespaces if there is none.
    async fn list(
        &self,
        kind: &KindName,
        namespace: Option<&str>,
        labels: &[(String, String)],
    ) -> Result<Vec<Value>, TransportError>;

    /// Creates an object. If it exists, that is a conflict.
    async fn create(&self, manifest: &Value) -> Result<Value, TransportError>;

    /// Updates an object to a manifest. If it is no longer as `live`, that is a conflict.
    async fn update(&self, manifest: &Value, live: &Value) -> Result<Value, TransportError>;

    /// Deletes an object. One that does not exist is deleted.
    async fn delete(&self, live: &Value, propagation: Propagation) -> Result<(), TransportError>;
}
