//! Objects of a kind as they come, so that one that is not as its type says does not end the watch of all others.

use std::borrow::Cow;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An object of kind `K`, of which only the metadata is known to be readable.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Loose<K> {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(flatten)]
    body: Map<String, Value>,
    #[serde(skip)]
    kind: PhantomData<K>,
}

impl<K> Loose<K> {
    /// A member of the object, such as its `spec`.
    pub(super) fn member(&self, name: &str) -> &Value {
        self.body.get(name).unwrap_or(&Value::Null)
    }

    /// A member of the object, as a type, if it can be read as one. What is missing reads as empty.
    pub(super) fn read<T: DeserializeOwned + Default>(&self, name: &str) -> Result<T, serde_json::Error> {
        match self.member(name) {
            Value::Null => Ok(T::default()),
            value => T::deserialize(value),
        }
    }
}

impl<K: Resource<DynamicType = ()> + Clone> Loose<K> {
    /// The object as it is written to change its status alone.
    pub(super) fn with_status(&self, status: &impl Serialize) -> Result<Self, serde_json::Error> {
        let mut changed = self.clone();
        // A list that is empty would take the fields from their managers; one that is missing leaves them.
        changed.metadata.managed_fields = None;
        changed.body.insert("apiVersion".into(), Self::api_version(&()).into());
        changed.body.insert("kind".into(), Self::kind(&()).into());
        changed.body.insert("status".into(), serde_json::to_value(status)?);
        Ok(changed)
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
