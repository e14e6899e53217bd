//! Creates and applies the objects that `up` provides, from manifests of any kind.

use anyhow::Context as _;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

/// The field manager and the identity of `up` itself.
pub(crate) const FIELD_MANAGER: &str = "bellwether-up";

/// A manifest, and the API of its kind and namespace.
pub(crate) struct Manifest<'a> {
    api: Api<DynamicObject>,
    object: &'a Value,
}

impl<'a> Manifest<'a> {
    pub(crate) fn new(client: &Client, object: &'a Value) -> Self {
        let (group, version) =
            text(object, "/apiVersion").split_once('/').unwrap_or(("", text(object, "/apiVersion")));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text(object, "/kind")));
        let api = match text(object, "/metadata/namespace") {
            "" => Api::all_with(client.clone(), &resource),
            namespace => Api::namespaced_with(client.clone(), namespace, &resource),
        };
        Self { api, object }
    }

    /// Reads the metadata of the object, if it exists.
    pub(crate) async fn metadata(&self) -> anyhow::Result<Option<kube::core::ObjectMeta>> {
        let found = self.api.get_metadata_opt(self.name()).await;
        Ok(found.with_context(|| format!("cannot read {self}"))?.map(|found| found.metadata))
    }

    /// Applies the manifest. If nothing changes, the server writes nothing.
    pub(crate) async fn apply(&self) -> anyhow::Result<()> {
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let applied = self.api.patch(self.name(), &params, &Patch::Apply(self.object)).await;
        applied.map(|_| ()).with_context(|| format!("cannot apply {self}"))
    }

    /// Creates the object, unless it exists: a user may have changed it.
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

impl std::fmt::Display for Manifest<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}", text(self.object, "/kind"), self.name())
    }
}

/// Parses the YAML documents of an embedded file.
pub(crate) fn parse_manifests(file: &str) -> anyhow::Result<Vec<Value>> {
    let documents = file.split("\n---\n");
    documents
        .map(|document| serde_saphyr::from_str(document).context("cannot parse an embedded manifest"))
        .collect()
}

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}
