//! Objects that may violate their schema. One malformed object must not end the watch of all objects of its kind, and
//! fields that other clients wrote must be written back unchanged. Validating the fields is left to the caller.

use std::borrow::Cow;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An object of kind `K` of which only the metadata is typed; `spec` and `status` are JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "", rename_all = "camelCase", default)]
pub struct LenientObject<K> {
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    pub(crate) metadata: ObjectMeta,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub(crate) spec: Value,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub(crate) status: Value,
    #[serde(skip)]
    marker: PhantomData<K>,
}

impl<K> Default for LenientObject<K> {
    fn default() -> Self {
        Self {
            api_version: None,
            kind: None,
            metadata: ObjectMeta::default(),
            spec: Value::Null,
            status: Value::Null,
            marker: PhantomData,
        }
    }
}

/// Deserializes a part of an object; a missing part becomes the default.
pub(crate) fn deserialize_or_default<T: DeserializeOwned + Default>(
    part: &Value,
) -> Result<T, serde_json::Error> {
    match part {
        Value::Null => Ok(T::default()),
        part => T::deserialize(part),
    }
}

impl<K: Resource<DynamicType = ()> + Clone> LenientObject<K> {
    /// Returns the object with this status, to be sent to the status subresource.
    pub(crate) fn with_status(&self, status: Value) -> Self {
        // An empty managedFields list would reset the field managers; an absent one keeps them.
        let metadata = ObjectMeta { managed_fields: None, ..self.metadata.clone() };
        Self {
            api_version: Some(Self::api_version(&()).into_owned()),
            kind: Some(Self::kind(&()).into_owned()),
            metadata,
            status,
            ..self.clone()
        }
    }
}

impl<K: Resource<DynamicType = ()>> Resource for LenientObject<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind(_: &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group(_: &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version(_: &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural(_: &()) -> Cow<'_, str> {
        K::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
