//! The transport `kubernetes`: reads and writes any kind through a `kube::Client`. Updates are server-side apply with the
//! resource version that was read, so that a change in between is a conflict.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::config::Propagation;
use crate::transport::{KindName, ObjectKey, Transport, TransportError};

/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The most objects that a selector may find.
const MAX_LISTED: u32 = 100;
/// The most kinds that are remembered.
const MAX_KINDS: usize = 1000;

/// A cluster, by its client.
pub struct KubernetesTransport {
    client: Client,
    field_manager: String,
    kinds: Mutex<HashMap<KindName, ServedKind>>,
}

/// How a cluster serves a kind.
#[derive(Clone, Debug)]
struct ServedKind {
    resource: ApiResource,
    is_namespaced: bool,
}

impl KubernetesTransport {
    /// A transport whose changes are those of the adapter of this name.
    pub fn new(client: Client, adapter: &str) -> Self {
        Self { client, field_manager: format!("bellwether-adapter/{adapter}"), kinds: Mutex::default() }
    }

    /// How the cluster serves a kind. Kinds are remembered; one that is not found is looked up again next time.
    async fn served(&self, kind: &KindName) -> Result<ServedKind, TransportError> {
        if let Some(served) = self.kinds.lock().get(kind) {
            return Ok(served.clone());
        }
        let (group, version) = kind.api_version.rsplit_once('/').unwrap_or(("", &kind.api_version));
        let listed = async {
            match group.is_empty() {
                true => self.client.list_core_api_resources(version).await,
                false => self.client.list_api_group_resources(&kind.api_version).await,
            }
        };
        let name = format!("{} {}", kind.api_version, kind.kind);
        let listed = match limited(&name, listed).await {
            Ok(listed) => listed.resources,
            Err(Failed::NotFound) => Vec::new(),
            Err(Failed::Error(error)) => return Err(error),
        };
        let found = listed.into_iter().find(|listed| listed.kind == kind.kind && !listed.name.contains('/'));
        let APIResource { name: plural, namespaced, .. } = found.ok_or_else(|| {
            TransportError::UnknownKind { api_version: kind.api_version.clone(), kind: kind.kind.clone() }
        })?;
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: kind.api_version.clone(),
            kind: kind.kind.clone(),
            plural,
        };
        let served = ServedKind { resource, is_namespaced: namespaced };
        let mut kinds = self.kinds.lock();
        if kinds.len() >= MAX_KINDS {
            kinds.clear();
        }
        kinds.insert(kind.clone(), served.clone());
        Ok(served)
    }

    async fn api(&self, key: &ObjectKey) -> Result<Api<DynamicObject>, TransportError> {
        let served = self.served(&key.kind).await?;
        Ok(match (&key.namespace, served.is_namespaced) {
            (Some(namespace), true) => Api::namespaced_with(self.client.clone(), namespace, &served.resource),
            (None, true) => Api::default_namespaced_with(self.client.clone(), &served.resource),
            (_, false) => Api::all_with(self.client.clone(), &served.resource),
        })
    }

    /// Forgets a kind whose objects are suddenly not found: its CRD may have been replaced.
    fn forget(&self, kind: &KindName) {
        self.kinds.lock().remove(kind);
    }

    /// A created object belongs to the manager by an update; server-side apply removes only fields that belong to it by
    /// apply. So the entry is turned into one of apply before the first update.
    async fn adopt(
        &self,
        api: &Api<DynamicObject>,
        key: &ObjectKey,
        live: &Value,
    ) -> Result<Value, TransportError> {
        let fields = live.pointer("/metadata/managedFields").and_then(Value::as_array);
        let is_own_update = |entry: &Value| {
            entry.get("manager").and_then(Value::as_str) == Some(&self.field_manager)
                && entry.get("operation").and_then(Value::as_str) == Some("Update")
                && entry.get("subresource").is_none()
        };
        let has_apply = fields.into_iter().flatten().any(|entry| {
            entry.get("manager").and_then(Value::as_str) == Some(&self.field_manager)
                && entry.get("operation").and_then(Value::as_str) == Some("Apply")
        });
        if has_apply || !fields.into_iter().flatten().any(is_own_update) {
            return Ok(live.clone());
        }
        let mut adopted: Vec<Value> = fields.cloned().unwrap_or_default();
        for entry in adopted.iter_mut().filter(|entry| is_own_update(entry)) {
            if let Some(entry) = entry.as_object_mut() {
                entry.insert("operation".to_owned(), json!("Apply"));
            }
        }
        let version = live.pointer("/metadata/resourceVersion");
        let patch = Patch::Merge(json!({"metadata": {"resourceVersion": version, "managedFields": adopted}}));
        let parameters = PatchParams::default();
        let request = api.patch(&key.name, &parameters, &patch);
        match limited(&key.to_string(), request).await {
            Ok(adopted) => to_json(&adopted, key),
            Err(failed) => Err(failed.into_error(key)),
        }
    }
}

/// A failed request. Not finding something is no error for some.
enum Failed {
    NotFound,
    Error(TransportError),
}

impl Failed {
    fn into_error(self, key: &ObjectKey) -> TransportError {
        match self {
            Self::NotFound => TransportError::Conflict { object: key.to_string() },
            Self::Error(error) => error,
        }
    }
}

/// Sends a request with a time limit.
async fn limited<T>(
    object: &str,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Failed> {
    match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Err(Failed::NotFound),
        Ok(Err(error)) => Err(Failed::Error(transport_error(object, &error))),
        Err(_) => Err(Failed::Error(TransportError::Unreachable {
            object: object.to_owned(),
            cause: format!("it took longer than {REQUEST_TIMEOUT:?}"),
        })),
    }
}

fn transport_error(object: &str, error: &kube::Error) -> TransportError {
    let object = object.to_owned();
    match error {
        kube::Error::Api(status) if status.code == 409 => TransportError::Conflict { object },
        kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 429 => {
            TransportError::Rejected { object, cause: status.message.clone() }
        }
        kube::Error::Api(status) => TransportError::Unreachable { object, cause: status.message.clone() },
        error => TransportError::Unreachable { object, cause: error.to_string() },
    }
}

fn to_json(object: &DynamicObject, key: &ObjectKey) -> Result<Value, TransportError> {
    let mut value = serde_json::to_value(object)
        .map_err(|error| TransportError::Rejected { object: key.to_string(), cause: error.to_string() })?;
    // Objects of lists come without their kind.
    if let Some(fields) = value.as_object_mut() {
        fields.insert("apiVersion".to_owned(), json!(key.kind.api_version));
        fields.insert("kind".to_owned(), json!(key.kind.kind));
    }
    Ok(value)
}

/// An object for expressions: who owns which field is of no use there, and large.
fn without_managed_fields(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

fn key_of(object: &Value) -> Result<ObjectKey, TransportError> {
    ObjectKey::of(object).ok_or_else(|| TransportError::Rejected {
        object: "the object".to_owned(),
        cause: "apiVersion, kind or metadata.name is missing".to_owned(),
    })
}

#[async_trait]
impl Transport for KubernetesTransport {
    async fn get(&self, key: &ObjectKey) -> Result<Option<Value>, TransportError> {
        let api = self.api(key).await?;
        match limited(&key.to_string(), api.get(&key.name)).await {
            Ok(found) => to_json(&found, key).map(|found| Some(without_managed_fields(found))),
            Err(Failed::NotFound) => {
                self.forget(&key.kind);
                Ok(None)
            }
            Err(Failed::Error(error)) => Err(error),
        }
    }

    async fn list(
        &self,
        kind: &KindName,
        namespace: Option<&str>,
        labels: &[(String, String)],
    ) -> Result<Vec<Value>, TransportError> {
        let served = self.served(kind).await?;
        let api: Api<DynamicObject> = match (namespace, served.is_namespaced) {
            (Some(namespace), true) => Api::namespaced_with(self.client.clone(), namespace, &served.resource),
            _ => Api::all_with(self.client.clone(), &served.resource),
        };
        let selector: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let selector = selector.join(",");
        let parameters = ListParams::default().labels(&selector).limit(MAX_LISTED);
        let name = format!("{} with {selector}", kind.kind);
        let listed = match limited(&name, api.list(&parameters)).await {
            Ok(listed) => listed.items,
            Err(Failed::NotFound) => {
                self.forget(kind);
                Vec::new()
            }
            Err(Failed::Error(error)) => return Err(error),
        };
        let key = ObjectKey { kind: kind.clone(), namespace: None, name };
        listed.iter().map(|found| to_json(found, &key).map(without_managed_fields)).collect()
    }

    async fn create(&self, manifest: &Value) -> Result<Value, TransportError> {
        let key = key_of(manifest)?;
        let api = self.api(&key).await?;
        let object: DynamicObject = serde_json::from_value(manifest.clone()).map_err(|error| {
            TransportError::Rejected { object: key.to_string(), cause: error.to_string() }
        })?;
        let parameters =
            PostParams { field_manager: Some(self.field_manager.clone()), ..PostParams::default() };
        match limited(&key.to_string(), api.create(&parameters, &object)).await {
            Ok(created) => to_json(&created, &key),
            Err(Failed::NotFound) => {
                let namespace = key.namespace.clone().unwrap_or_default();
                let cause = format!("the namespace {namespace:?} or the kind does not exist");
                Err(TransportError::Rejected { object: key.to_string(), cause })
            }
            Err(Failed::Error(error)) => Err(error),
        }
    }

    async fn update(&self, manifest: &Value, live: &Value) -> Result<Value, TransportError> {
        let key = key_of(manifest)?;
        let api = self.api(&key).await?;
        // Only the object itself says who owns its fields.
        let current = match limited(&key.to_string(), api.get(&key.name)).await {
            Ok(current) => to_json(&current, &key)?,
            Err(failed) => return Err(failed.into_error(&key)),
        };
        if current.pointer("/metadata/resourceVersion") != live.pointer("/metadata/resourceVersion") {
            return Err(TransportError::Conflict { object: key.to_string() });
        }
        let adopted = self.adopt(&api, &key, &current).await?;
        let mut wanted = manifest.clone();
        if let Some(metadata) = wanted.get_mut("metadata").and_then(Value::as_object_mut) {
            let version = adopted.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
            metadata.insert("resourceVersion".to_owned(), version);
        }
        let parameters = PatchParams::apply(&self.field_manager).force();
        match limited(&key.to_string(), api.patch(&key.name, &parameters, &Patch::Apply(&wanted))).await {
            Ok(updated) => to_json(&updated, &key),
            Err(failed) => Err(failed.into_error(&key)),
        }
    }

    async fn delete(&self, live: &Value, propagation: Propagation) -> Result<(), TransportError> {
        let key = key_of(live)?;
        let api = self.api(&key).await?;
        let parameters = match propagation {
            Propagation::Background => DeleteParams::background(),
            Propagation::Foreground => DeleteParams::foreground(),
            Propagation::Orphan => DeleteParams::orphan(),
        };
        // Only the object that was found may be deleted, and not one that was created in its place.
        let uid = live.pointer("/metadata/uid").and_then(Value::as_str).map(str::to_owned);
        let parameters = parameters.preconditions(Preconditions { uid, resource_version: None });
        match limited(&key.to_string(), api.delete(&key.name, &parameters)).await {
            Ok(_) | Err(Failed::NotFound) => Ok(()),
            Err(Failed::Error(error)) => Err(error),
        }
    }
}
