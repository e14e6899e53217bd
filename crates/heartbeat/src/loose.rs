//! Objects of a kind as anybody may have written them: one that is not as its type says does not end the watch of all
//! others, and what others wrote is written back as it was.

use std::borrow::Cow;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An object of kind `K`, of which only the metadata is known to be readable.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "", rename_all = "camelCase", default)]
pub struct Loose<K> {
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
    of: PhantomData<K>,
}

impl<K> Default for Loose<K> {
    fn default() -> Self {
        Self {
            api_version: None,
            kind: None,
            metadata: ObjectMeta::default(),
            spec: Value::Null,
            status: Value::Null,
            of: PhantomData,
        }
    }
}

/// A part of an object as a type, if it can be read as one. What is missing reads as empty.
pub(crate) fn read<T: DeserializeOwned + Default>(part: &Value) -> Result<T, serde_json::Error> {
    match part {
        Value::Null => Ok(T::default()),
        part => T::deserialize(part),
    }
}

impl<K: Resource<DynamicType = ()> + Clone> Loose<K> {
    /// The object as it is written to change its status alone.
    pub(crate) fn with_status(&self, status: Value) -> Self {
        // A list that is empty would take the fields from their managers; one that is missing leaves them.
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

impl<K: Resource<DynamicType = ()>> Resource for Loose<K> {
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
