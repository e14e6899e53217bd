//! A custom kind to try things on: its definition, its paths, and waiting for it.

use bellwether_testkit::{Cluster, eventually};
use serde_json::{Value, json};

pub(super) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A kind in a group of its own.
pub(super) struct Kind {
    pub(super) group: String,
}

impl Kind {
    pub(super) fn new() -> Self {
        let random = uuid::Uuid::new_v4().simple().to_string();
        Self { group: format!("g{}.example.com", &random[..8]) }
    }

    /// Its definition: two fields in its spec, and a status.
    pub(super) fn definition(&self) -> Value {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "colour": {"type": "string"}, "size": {"type": "integer"}, "list": {"type": "array", "items": {"type": "string"}},
            }},
            "status": {"type": "object", "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}, "selector": {"type": "string"}}},
        }});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": self.definition_name()},
            "spec": {
                "group": self.group, "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        })
    }

    pub(super) fn definition_name(&self) -> String {
        format!("widgets.{}", self.group)
    }

    pub(super) fn definition_path(&self) -> String {
        format!("{DEFINITIONS}/{}", self.definition_name())
    }

    pub(super) fn objects(&self) -> String {
        self.objects_in("v1")
    }

    pub(super) fn objects_in(&self, version: &str) -> String {
        format!("/apis/{}/{version}/namespaces/default/widgets", self.group)
    }

    pub(super) fn object(&self, name: &str, spec: Value) -> Value {
        json!({"apiVersion": format!("{}/v1", self.group), "kind": "Widget", "metadata": {"name": name}, "spec": spec})
    }

    /// Creates the definition, changed, and waits until its objects are served.
    pub(super) async fn define(cluster: &Cluster, change: impl FnOnce(&mut Value)) -> Self {
        let kind = Self::new();
        let mut definition = kind.definition();
        change(&mut definition);
        cluster.post(DEFINITIONS, &definition).await.expect(201);
        kind.established(cluster).await;
        kind
    }

    pub(super) async fn condition(&self, cluster: &Cluster, name: &str, status: &str) -> Value {
        eventually(&format!("{name}={status}"), || async {
            let definition = cluster.get(self.definition_path()).await.json();
            let conditions = definition["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions
                .into_iter()
                .find(|condition| condition["type"] == name && condition["status"] == status)
        })
        .await
    }

    pub(super) async fn established(&self, cluster: &Cluster) {
        self.condition(cluster, "Established", "True").await;
        let definition = cluster.get(self.definition_path()).await.expect(200);
        let versions = definition["spec"]["versions"].as_array().cloned().unwrap_or_default();
        for version in versions.iter().filter(|version| version["served"] == true) {
            let path = format!("/apis/{}/{}/widgets", self.group, version["name"].as_str().unwrap());
            eventually(&path, || async { (cluster.get(&path).await.status == 200).then_some(()) }).await;
        }
    }

    /// Changes the definition.
    pub(super) async fn redefine(&self, cluster: &Cluster, change: impl Fn(&mut Value)) {
        eventually("a change of the definition", || async {
            let mut definition = cluster.get(self.definition_path()).await.expect(200);
            change(&mut definition);
            (cluster.put(self.definition_path(), &definition).await.status == 200).then_some(())
        })
        .await;
    }
}

pub(super) fn version(definition: &mut Value) -> &mut Value {
    &mut definition["spec"]["versions"][0]
}

pub(super) fn field<'d>(definition: &'d mut Value, name: &str) -> &'d mut Value {
    &mut version(definition)["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][name]
}

pub(super) fn with_status(definition: &mut Value) {
    version(definition)["subresources"] = json!({"status": {}});
}
