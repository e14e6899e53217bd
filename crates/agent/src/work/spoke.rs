//! Objects of any kind on the cluster, as JSON: read, applied, made, released and deleted. It decides nothing.

use kube::Client;
use kube::api::{
    DeleteParams, DynamicObject, GetParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
};
use kube::core::{ApiResource, Request, Resource as _};
use serde_json::{Value, json};

use super::decide::manifest::ObjectId;
use super::decide::rules::{Force, MANAGER};

/// Where an object is found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(crate) id: ObjectId,
    pub(crate) version: String,
}

impl Address {
    pub(crate) fn new(id: &ObjectId, version: &str) -> Self {
        Self { id: id.clone(), version: version.to_owned() }
    }

    /// The resource. Its kind is left out, as paths do without.
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

/// What is found where an object should be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Sight {
    There(Value),
    Missing,
    /// The kind is not served, or not in this version.
    Unserved,
}

/// Whether what belongs to an object goes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// It goes after it.
    Background,
    /// It goes before it, so that when the object is gone all is.
    Foreground,
}

/// The cluster.
#[derive(Clone)]
pub(crate) struct Spoke {
    pub(crate) client: Client,
}

impl Spoke {
    pub(crate) async fn read(&self, at: &Address) -> Result<Option<Value>, kube::Error> {
        Ok(match self.look(at).await? {
            Sight::There(live) => Some(live),
            Sight::Missing | Sight::Unserved => None,
        })
    }

    /// Reads an object, and tells one that is missing from one of a kind that nobody serves.
    pub(crate) async fn look(&self, at: &Address) -> Result<Sight, kube::Error> {
        let request =
            at.request().get(&at.id.name, &GetParams::default()).map_err(kube::Error::BuildRequest)?;
        match self.client.request(request).await {
            Ok(live) => Ok(Sight::There(live)),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let named = status.details.is_some_and(|details| details.name == at.id.name);
                Ok(if named { Sight::Missing } else { Sight::Unserved })
            }
            Err(error) => Err(error),
        }
    }

    /// Applies an object. Where the server knows no server-side apply for its kind, it is made or merged instead.
    pub(crate) async fn apply(
        &self,
        at: &Address,
        body: &Value,
        manager: &str,
        force: Force,
        exists: bool,
    ) -> Result<Value, kube::Error> {
        let params = PatchParams {
            force: force == Force::Yes,
            field_manager: Some(manager.to_owned()),
            ..PatchParams::default()
        };
        let request = at
            .request()
            .patch(&at.id.name, &params, &Patch::Apply(body))
            .map_err(kube::Error::BuildRequest)?;
        match self.client.request(request).await {
            Err(kube::Error::Api(status)) if status.code == 415 && exists => self.merge(at, body).await,
            Err(kube::Error::Api(status)) if status.code == 415 => self.create(at, body).await,
            answer => answer,
        }
    }

    pub(crate) async fn create(&self, at: &Address, body: &Value) -> Result<Value, kube::Error> {
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let bytes = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
        let request = at.request().create(&params, bytes).map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await
    }

    /// Writes the owners of an object, if it is still as it was read.
    pub(crate) async fn own(
        &self,
        at: &Address,
        live: &Value,
        owners: &[Value],
    ) -> Result<Value, kube::Error> {
        let revision = live.pointer("/metadata/resourceVersion");
        self.merge(at, &json!({"metadata": {"resourceVersion": revision, "ownerReferences": owners}})).await
    }

    pub(crate) async fn merge(&self, at: &Address, patch: &Value) -> Result<Value, kube::Error> {
        let request = at.request().patch(&at.id.name, &by_us(), &Patch::Merge(patch));
        self.client.request(request.map_err(kube::Error::BuildRequest)?).await
    }

    pub(crate) async fn merge_status(&self, at: &Address, patch: &Value) -> Result<Value, kube::Error> {
        let request = at.request().patch_subresource("status", &at.id.name, &by_us(), &Patch::Merge(patch));
        self.client.request(request.map_err(kube::Error::BuildRequest)?).await
    }

    /// Deletes an object, if it is still this one.
    pub(crate) async fn delete(
        &self,
        at: &Address,
        uid: String,
        revision: String,
        propagation: Propagation,
    ) -> Result<(), kube::Error> {
        let params = DeleteParams {
            propagation_policy: Some(match propagation {
                Propagation::Background => PropagationPolicy::Background,
                Propagation::Foreground => PropagationPolicy::Foreground,
            }),
            preconditions: Some(Preconditions { uid: Some(uid), resource_version: Some(revision) }),
            ..DeleteParams::default()
        };
        let request = at.request().delete(&at.id.name, &params).map_err(kube::Error::BuildRequest)?;
        self.client.request::<Value>(request).await.map(drop)
    }
}

fn by_us() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() }
}

/// What can be read in the metadata of an object.
pub(crate) fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
