//! The rights of what runs in `bellwether up`: every controller has its own identity and its own Role, and the agent of
//! every spoke a credential that opens the hub as far as it needs, and no further.

use std::path::Path;

use anyhow::Context as _;
use bellwether_apiserver::pki::Pki;
use bellwether_apiserver::{ApiServer, HUB, Identity};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use crate::kubeconfig;

const GROUP: &str = "rbac.authorization.k8s.io";
/// Who sets up the rights, as a field manager.
const US: &str = "bellwether-up";
/// The group of the agents of all spokes.
const AGENTS: &str = "bellwether:agents";
/// The role of an agent on the hub.
const SPOKE_AGENT: &str = "bellwether:spoke-agent";

/// Roles by where they are written down; those that other files bind are bound there.
const ROLES: [&str; 3] = [
    include_str!("../../../deploy/agent/rbac.yaml"),
    include_str!("../../../deploy/hub/spoke-agent.yaml"),
    include_str!("rights.yaml"),
];

/// Gives the controllers of a cluster their rights, each as itself.
pub(crate) async fn provide(server: &ApiServer, cluster: &str, controllers: &[&str]) -> anyhow::Result<()> {
    let client = server.client(cluster, Identity::master(US));
    for controller in controllers {
        let name = Identity::controller(controller).user;
        let role = role(&name)?;
        apply(&client, &role).await?;
        apply(&client, &binding("ClusterRoleBinding", &name, None, &name, &name)).await?;
    }
    Ok(())
}

/// Gives the agent of a spoke its rights on the hub, and a credential to use them with.
pub(crate) async fn admit_agent(
    server: &ApiServer,
    spoke: &str,
    url: &str,
    dir: &Path,
    pki: &Pki,
) -> anyhow::Result<()> {
    let client = server.client(HUB, Identity::master(US));
    let user = format!("bellwether:agent:{spoke}");
    apply(&client, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": spoke}})).await?;
    apply(&client, &role(SPOKE_AGENT)?).await?;
    apply(&client, &binding("RoleBinding", SPOKE_AGENT, Some(spoke), SPOKE_AGENT, &user)).await?;
    let credential = pki
        .client(&dir.join("pki"), &format!("agent-{spoke}"), &user, AGENTS)
        .with_context(|| format!("cannot make a credential for the agent of {spoke}"))?;
    let path = dir.join("agents").join(format!("{spoke}.kubeconfig"));
    kubeconfig::write_one(&path, url, &user, Some(spoke), pki, &credential)
}

/// A role of ours, by its name.
fn role(name: &str) -> anyhow::Result<Value> {
    for document in ROLES.iter().flat_map(|text| text.split("\n---\n")) {
        let object: Value = serde_saphyr::from_str(document).context("a role of ours cannot be read")?;
        let is = |path: &str, text: &str| object.pointer(path).and_then(Value::as_str) == Some(text);
        if is("/kind", "ClusterRole") && is("/metadata/name", name) {
            return Ok(object);
        }
    }
    anyhow::bail!("there is no role {name}")
}

fn binding(kind: &str, name: &str, namespace: Option<&str>, role: &str, user: &str) -> Value {
    let metadata = match namespace {
        Some(namespace) => json!({"name": name, "namespace": namespace}),
        None => json!({"name": name}),
    };
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": kind,
        "metadata": metadata,
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}],
    })
}

/// Makes an object what it should be; one that is so already is not written.
async fn apply(client: &kube::Client, object: &Value) -> anyhow::Result<()> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let (kind, name) = (text("/kind"), text("/metadata/name"));
    let (group, version) = text("/apiVersion").split_once('/').unwrap_or(("", text("/apiVersion")));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = match text("/metadata/namespace") {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    let found = api.get_metadata_opt(name).await.with_context(|| format!("cannot read {kind} {name}"))?;
    let annotations = found.and_then(|found| found.metadata.annotations).unwrap_or_default();
    // Somebody took it into their own hands, as with the roles that Kubernetes starts with.
    if annotations.get("rbac.authorization.kubernetes.io/autoupdate").is_some_and(|value| value == "false") {
        return Ok(());
    }
    let applied = api.patch(name, &PatchParams::apply(US).force(), &Patch::Apply(object)).await;
    applied.map(|_| ()).with_context(|| format!("cannot give rights by {kind} {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::Controller;

    #[test]
    fn every_controller_has_a_role() {
        let names = Controller::ALL.map(Controller::name);
        for name in names.into_iter().chain(["definition-installer", "workload-simulator"]) {
            role(&Identity::controller(name).user).unwrap();
        }
        role(SPOKE_AGENT).unwrap();
    }
}
