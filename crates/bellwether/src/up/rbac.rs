//! RBAC of what runs in `bellwether up`: every controller has its own identity and ClusterRole, and the agent of every spoke a
//! client certificate with only the permissions that it needs on the hub.

use std::path::Path;

use anyhow::Context as _;
use bellwether_apiserver::pki::Pki;
use bellwether_apiserver::{ApiServer, HUB, Identity};
use serde_json::{Value, json};

use super::objects::{FIELD_MANAGER, Manifest, parse_manifests};
use crate::kubeconfig;

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
/// The group of the agents of all spokes.
const AGENT_GROUP: &str = "bellwether:agents";
/// The ClusterRole of an agent on the hub.
const SPOKE_AGENT_ROLE: &str = "bellwether:spoke-agent";

/// The files with our ClusterRoles.
const ROLE_FILES: [&str; 5] = [
    include_str!("../../../../deploy/agent/rbac.yaml"),
    include_str!("../../../../deploy/spoke/rbac.yaml"),
    include_str!("../../../../deploy/hub/roles.yaml"),
    include_str!("../../../../deploy/hub/spoke-agent.yaml"),
    include_str!("rbac.yaml"),
];

/// The objects that a cluster needs on the hub, among them the ClusterRole for its own ManagedCluster.
const JOIN_MANIFESTS: &str = include_str!("../../../../deploy/examples/join-cluster.yaml");

/// Creates the ClusterRoles and ClusterRoleBindings of the controllers of a cluster.
pub(crate) async fn grant_to_controllers(
    server: &ApiServer,
    cluster: &str,
    controllers: &[&str],
) -> anyhow::Result<()> {
    let client = server.client(cluster, Identity::master(FIELD_MANAGER));
    for controller in controllers {
        let name = Identity::controller(controller).user;
        let role = find_role(&name)?;
        apply(&client, &role).await?;
        apply(&client, &binding("ClusterRoleBinding", &name, None, &name, &name)).await?;
    }
    Ok(())
}

/// Creates the permissions of a spoke's agent on the hub, and a kubeconfig with its client certificate.
pub(crate) async fn grant_to_agent(
    server: &ApiServer,
    spoke: &str,
    url: &str,
    dir: &Path,
    pki: &Pki,
) -> anyhow::Result<()> {
    let client = server.client(HUB, Identity::master(FIELD_MANAGER));
    let user = agent_identity(spoke).user;
    apply(&client, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": spoke}})).await?;
    apply(&client, &find_role(SPOKE_AGENT_ROLE)?).await?;
    apply(&client, &binding("RoleBinding", SPOKE_AGENT_ROLE, Some(spoke), SPOKE_AGENT_ROLE, &user)).await?;
    let own = own_cluster_role(spoke)?;
    let name = format!("{SPOKE_AGENT_ROLE}:{spoke}");
    apply(&client, &own).await?;
    apply(&client, &binding("ClusterRoleBinding", &name, None, &name, &user)).await?;
    let credential = pki
        .client(&dir.join("pki"), &format!("agent-{spoke}"), &user, AGENT_GROUP)
        .with_context(|| format!("cannot create a client certificate for the agent of {spoke}"))?;
    let path = dir.join("agents").join(format!("{spoke}.kubeconfig"));
    kubeconfig::write_one(&path, url, &user, Some(spoke), pki, &credential)
}

/// The identity of a spoke's agent on the hub.
pub(crate) fn agent_identity(spoke: &str) -> Identity {
    Identity::user(format!("bellwether:agent:{spoke}")).with_group(AGENT_GROUP)
}

/// The ClusterRole of a spoke's agent for its own ManagedCluster, which is cluster-scoped.
fn own_cluster_role(spoke: &str) -> anyhow::Result<Value> {
    role_in(&JOIN_MANIFESTS.replace("my-cluster", spoke), &format!("{SPOKE_AGENT_ROLE}:{spoke}"))?
        .with_context(|| format!("there is no ClusterRole for the ManagedCluster {spoke}"))
}

/// Finds one of our ClusterRoles by name.
fn find_role(name: &str) -> anyhow::Result<Value> {
    for file in ROLE_FILES {
        if let Some(role) = role_in(file, name)? {
            return Ok(role);
        }
    }
    anyhow::bail!("there is no ClusterRole {name}")
}

fn role_in(file: &str, name: &str) -> anyhow::Result<Option<Value>> {
    let is =
        |object: &Value, path: &str, text: &str| object.pointer(path).and_then(Value::as_str) == Some(text);
    let wanted = |object: &Value| is(object, "/kind", "ClusterRole") && is(object, "/metadata/name", name);
    Ok(parse_manifests(file)?.into_iter().find(wanted))
}

fn binding(kind: &str, name: &str, namespace: Option<&str>, role: &str, user: &str) -> Value {
    let metadata = match namespace {
        Some(namespace) => json!({"name": name, "namespace": namespace}),
        None => json!({"name": name}),
    };
    json!({
        "apiVersion": format!("{RBAC_GROUP}/v1"),
        "kind": kind,
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC_GROUP, "kind": "User", "name": user}],
    })
}

/// Applies an object, unless a user has set its autoupdate annotation to false.
async fn apply(client: &kube::Client, object: &Value) -> anyhow::Result<()> {
    let manifest = Manifest::new(client, object);
    let annotations = manifest.metadata().await?.and_then(|found| found.annotations).unwrap_or_default();
    // The same annotation protects the default ClusterRoles of Kubernetes.
    if annotations.get("rbac.authorization.kubernetes.io/autoupdate").is_some_and(|value| value == "false") {
        return Ok(());
    }
    manifest.apply().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::{EVERYWHERE, FOR_THE_HUB, ON_THE_HUB};

    #[test]
    fn every_controller_has_a_role() {
        let controllers = [EVERYWHERE, FOR_THE_HUB, ON_THE_HUB].concat();
        let names = controllers.iter().map(|controller| controller.name());
        for name in names.chain(["definition-installer", "workload-simulator"]) {
            find_role(&Identity::controller(name).user).unwrap();
        }
        find_role(SPOKE_AGENT_ROLE).unwrap();
        own_cluster_role("spoke-1").unwrap();
    }
}
