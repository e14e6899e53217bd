//! Objects that `up` provides by itself, as they are written in files: found by their kind and name, whatever kind it is.

use anyhow::Context as _;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

/// Who provides them, as a field manager and as an identity.
pub(crate) const US: &str = "bellwether-up";

/// An object that is wanted, and where it goes.
pub(crate) struct Wanted<'a> {
    api: Api<DynamicObject>,
    object: &'a Value,
}

impl<'a> Wanted<'a> {
    pub(crate) fn of(client: &Client, object: &'a Value) -> Self {
        let (group, version) =
            text(object, "/apiVersion").split_once('/').unwrap_or(("", text(object, "/apiVersion")));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text(object, "/kind")));
        let api = match text(object, "/metadata/namespace") {
            "" => Api::all_with(client.clone(), &resource),
            namespace => Api::namespaced_with(client.clone(), namespace, &resource),
        };
        Self { api, object }
    }

    /// What there is of it.
    pub(crate) async fn found(&self) -> anyhow::Result<Option<kube::core::ObjectMeta>> {
        let found = self.api.get_metadata_opt(self.name()).await;
        Ok(found.with_context(|| format!("cannot read {self}"))?.map(|found| found.metadata))
    }

    /// Makes it what it should be; one that is so already is not written.
    pub(crate) async fn apply(&self) -> anyhow::Result<()> {
        let how = PatchParams::apply(US).force();
        let applied = self.api.patch(self.name(), &how, &Patch::Apply(self.object)).await;
        applied.map(|_| ()).with_context(|| format!("cannot provide {self}"))
    }

    /// Creates it, unless there is one: that is somebody's by now.
    pub(crate) async fn create(&self) -> anyhow::Result<()> {
        let object = serde_json::from_value(self.object.clone())?;
        match self.api.create(&PostParams::default(), &object).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            Err(error) => Err(error).with_context(|| format!("cannot create {self}")),
        }
    }

    fn name(&self) -> &str {
        text(self.object, "/metadata/name")
    }
}

impl std::fmt::Display for Wanted<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}", text(self.object, "/kind"), self.name())
    }
}

/// The objects of a file.
pub(crate) fn read(file: &str) -> anyhow::Result<Vec<Value>> {
    let documents = file.split("\n---\n");
    documents
        .map(|document| serde_saphyr::from_str(document).context("a file of ours cannot be read"))
        .collect()
}

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}
