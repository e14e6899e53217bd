//! Requests for objects of any kind on the cluster, as JSON. It decides nothing.

use kube::Client;
use kube::api::{
    DeleteParams, DynamicObject, GetParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
};
use kube::core::{ApiResource, Request, Resource as _};
use serde_json::{Value, json};

use super::decide::manifest::ObjectId;
use super::decide::object_options::{FIELD_MANAGER, Force};

/// An object, and the version of its kind in which it is requested.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(crate) id: ObjectId,
    pub(crate) version: String,
}

impl Address {
    pub(crate) fn new(id: &ObjectId, version: &str) -> Self {
        Self { id: id.clone(), version: version.to_owned() }
    }

    /// The resource of the object. Its kind is empty, because request paths do not contain it.
    pub(crate) fn resource(&self) -> ApiResource {
        let ObjectId { group, resource, .. } = &self.id;
        let api_version =
            if group.is_empty() { self.version.clone() } else { format!("{group}/{}", self.version) };
        ApiResource {
            group: group.clone(),
            version: self.version.clone(),
            api_version,
            kind: String::new(),
            plural: resource.clone(),
        }
    }

    fn request(&self) -> Request {
        let namespace = (!self.id.namespace.is_empty()).then_some(self.id.namespace.as_str());
        Request::new(DynamicObject::url_path(&self.resource(), namespace))
    }
}

/// The result of reading an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GetResult {
    Found(Value),
    NotFound,
    /// The cluster does not serve the kind in this version.
    KindNotServed,
}

/// In which order an object and its dependents are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// The dependents are deleted after the object.
    Background,
    /// The dependents are deleted before the object, so that none is left when the object no longer exists.
    Foreground,
}

/// Requests to the cluster.
#[derive(Clone)]
pub(crate) struct SpokeClient {
    pub(crate) client: Client,
}

impl SpokeClient {
    /// Reads an object; nothing if it does not exist or its kind is not served.
    pub(crate) async fn get_opt(&self, address: &Address) -> Result<Option<Value>, kube::Error> {
        Ok(match self.get(address).await? {
            GetResult::Found(live) => Some(live),
            GetResult::NotFound | GetResult::KindNotServed => None,
        })
    }

    /// Reads an object, and distinguishes an object that does not exist from a kind that is not served.
    pub(crate) async fn get(&self, address: &Address) -> Result<GetResult, kube::Error> {
        let request = address.request().get(&address.id.name, &GetParams::default());
        match self.client.request(request.map_err(kube::Error::BuildRequest)?).await {
            Ok(live) => Ok(GetResult::Found(live)),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                // Only the response for a missing object has its name in the details.
                let is_about_object = status.details.is_some_and(|details| details.name == address.id.name);
                Ok(if is_about_object { GetResult::NotFound } else { GetResult::KindNotServed })
            }
            Err(error) => Err(error),
        }
    }

    /// Applies an object by server-side apply. If the server does not support that for the kind (415), the object is
    /// created or merge-patched instead.
    pub(crate) async fn apply(
        &self,
        address: &Address,
        body: &Value,
        field_manager: &str,
        force: Force,
        exists: bool,
    ) -> Result<Value, kube::Error> {
        let params = PatchParams {
            force: force == Force::Yes,
            field_manager: Some(field_manager.to_owned()),
            ..PatchParams::default()
        };
        let request = address.request().patch(&address.id.name, &params, &Patch::Apply(body));
        match self.client.request(request.map_err(kube::Error::BuildRequest)?).await {
            Err(kube::Error::Api(status)) if status.code == 415 && exists => {
                self.merge_patch(address, body).await
            }
            Err(kube::Error::Api(status)) if status.code == 415 => self.create(address, body).await,
            response => response,
        }
    }

    pub(crate) async fn create(&self, address: &Address, body: &Value) -> Result<Value, kube::Error> {
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let bytes = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
        let request = address.request().create(&params, bytes).map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await
    }

    /// Writes the owner references of an object, if the object has not changed since it was read.
    pub(crate) async fn set_owners(
        &self,
        address: &Address,
        live: &Value,
        owners: &[Value],
    ) -> Result<Value, kube::Error> {
        let resource_version = live.pointer("/metadata/resourceVersion");
        let metadata = json!({"resourceVersion": resource_version, "ownerReferences": owners});
        self.merge_patch(address, &json!({"metadata": metadata})).await
    }

    pub(crate) async fn merge_patch(&self, address: &Address, patch: &Value) -> Result<Value, kube::Error> {
        let request = address.request().patch(&address.id.name, &patch_params(), &Patch::Merge(patch));
        self.client.request(request.map_err(kube::Error::BuildRequest)?).await
    }

    pub(crate) async fn merge_patch_status(
        &self,
        address: &Address,
        patch: &Value,
    ) -> Result<Value, kube::Error> {
        let name = &address.id.name;
        let request =
            address.request().patch_subresource("status", name, &patch_params(), &Patch::Merge(patch));
        self.client.request(request.map_err(kube::Error::BuildRequest)?).await
    }

    /// Deletes an object, if it still has this uid and resourceVersion.
    pub(crate) async fn delete(
        &self,
        address: &Address,
        uid: String,
        resource_version: String,
        propagation: Propagation,
    ) -> Result<(), kube::Error> {
        let params = DeleteParams {
            propagation_policy: Some(match propagation {
                Propagation::Background => PropagationPolicy::Background,
                Propagation::Foreground => PropagationPolicy::Foreground,
            }),
            preconditions: Some(Preconditions { uid: Some(uid), resource_version: Some(resource_version) }),
            ..DeleteParams::default()
        };
        let request =
            address.request().delete(&address.id.name, &params).map_err(kube::Error::BuildRequest)?;
        self.client.request::<Value>(request).await.map(drop)
    }
}

fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

/// The string at a JSON pointer; empty if there is none.
pub(crate) fn string_at<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
