//! RBAC of what runs in `bellwether up`: every controller has its own identity and ClusterRole, and the agent of every spoke a
//! client certificate with only the permissions that it needs on the hub.

use std::collections::HashMap;
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

/// Our ClusterRoles by name, parsed once.
pub(crate) struct Roles {
    by_name: HashMap<String, Value>,
    /// The ClusterRole of the agent of `my-cluster` for its own ManagedCluster, which is cluster-scoped.
    own_cluster: String,
}

impl Roles {
    pub(crate) fn parse() -> anyhow::Result<Self> {
        let name_of =
            |role: &Value| role.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned);
        let mut by_name = HashMap::new();
        for file in ROLE_FILES {
            by_name.extend(cluster_roles(file)?.filter_map(|role| Some((name_of(&role)?, role))));
        }
        let own_cluster = cluster_roles(JOIN_MANIFESTS)?.next();
        let own_cluster = own_cluster.context("there is no ClusterRole for a ManagedCluster")?.to_string();
        Ok(Self { by_name, own_cluster })
    }

    fn find(&self, name: &str) -> anyhow::Result<&Value> {
        self.by_name.get(name).with_context(|| format!("there is no ClusterRole {name}"))
    }

    /// The ClusterRole of a spoke's agent for its own ManagedCluster.
    fn of_own_cluster(&self, spoke: &str) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&self.own_cluster.replace("my-cluster", spoke))?)
    }
}

fn cluster_roles(file: &str) -> anyhow::Result<impl Iterator<Item = Value>> {
    let is_role = |object: &Value| object.get("kind").and_then(Value::as_str) == Some("ClusterRole");
    Ok(parse_manifests(file)?.into_iter().filter(is_role))
}

/// Creates the ClusterRoles and ClusterRoleBindings of the controllers of a cluster.
pub(crate) async fn grant_to_controllers(
    server: &ApiServer,
    cluster: &str,
    controllers: &[&str],
    roles: &Roles,
) -> anyhow::Result<()> {
    let client = server.client(cluster, Identity::master(FIELD_MANAGER));
    for controller in controllers {
        let name = Identity::controller(controller).user;
        apply(&client, roles.find(&name)?).await?;
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
    roles: &Roles,
) -> anyhow::Result<()> {
    let client = server.client(HUB, Identity::master(FIELD_MANAGER));
    let user = agent_identity(spoke).user;
    apply(&client, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": spoke}})).await?;
    apply(&client, roles.find(SPOKE_AGENT_ROLE)?).await?;
    apply(&client, &binding("RoleBinding", SPOKE_AGENT_ROLE, Some(spoke), SPOKE_AGENT_ROLE, &user)).await?;
    let name = format!("{SPOKE_AGENT_ROLE}:{spoke}");
    apply(&client, &roles.of_own_cluster(spoke)?).await?;
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
        let roles = Roles::parse().unwrap();
        let controllers = [EVERYWHERE, FOR_THE_HUB, ON_THE_HUB].concat();
        let names = controllers.iter().map(|controller| controller.name());
        for name in names.chain(["definition-installer", "workload-simulator"]) {
            roles.find(&Identity::controller(name).user).unwrap();
        }
        roles.find(SPOKE_AGENT_ROLE).unwrap();
        let own = roles.of_own_cluster("spoke-1").unwrap();
        assert_eq!(own["metadata"]["name"], "bellwether:spoke-agent:spoke-1");
    }
}
