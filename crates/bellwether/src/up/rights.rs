//! The rights of what runs in `bellwether up`: every controller has its own identity and its own Role, and the agent of
//! every spoke a credential that opens the hub as far as it needs, and no further.

use std::path::Path;

use anyhow::Context as _;
use bellwether_apiserver::pki::Pki;
use bellwether_apiserver::{ApiServer, HUB, Identity};
use serde_json::{Value, json};

use super::objects::{US, Wanted, read};
use crate::kubeconfig;

const GROUP: &str = "rbac.authorization.k8s.io";
/// The group of the agents of all spokes.
const AGENTS: &str = "bellwether:agents";
/// The role of an agent on the hub.
const SPOKE_AGENT: &str = "bellwether:spoke-agent";

/// Roles by where they are written down; those that other files bind are bound there.
const ROLES: [&str; 5] = [
    include_str!("../../../../deploy/agent/rbac.yaml"),
    include_str!("../../../../deploy/spoke/rbac.yaml"),
    include_str!("../../../../deploy/hub/roles.yaml"),
    include_str!("../../../../deploy/hub/spoke-agent.yaml"),
    include_str!("rights.yaml"),
];

/// What a cluster needs to join.
const JOINING: &str = include_str!("../../../../deploy/examples/join-cluster.yaml");

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
    let user = agent(spoke).user;
    apply(&client, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": spoke}})).await?;
    apply(&client, &role(SPOKE_AGENT)?).await?;
    apply(&client, &binding("RoleBinding", SPOKE_AGENT, Some(spoke), SPOKE_AGENT, &user)).await?;
    let own = own_cluster(spoke)?;
    let name = format!("{SPOKE_AGENT}:{spoke}");
    apply(&client, &own).await?;
    apply(&client, &binding("ClusterRoleBinding", &name, None, &name, &user)).await?;
    let credential = pki
        .client(&dir.join("pki"), &format!("agent-{spoke}"), &user, AGENTS)
        .with_context(|| format!("cannot make a credential for the agent of {spoke}"))?;
    let path = dir.join("agents").join(format!("{spoke}.kubeconfig"));
    kubeconfig::write_one(&path, url, &user, Some(spoke), pki, &credential)
}

/// The agent of a spoke, on the hub.
pub(crate) fn agent(spoke: &str) -> Identity {
    Identity::user(format!("bellwether:agent:{spoke}")).with_group(AGENTS)
}

/// What the agent of a spoke may do with its own ManagedCluster, which is in no namespace.
fn own_cluster(spoke: &str) -> anyhow::Result<Value> {
    role_in(&JOINING.replace("my-cluster", spoke), &format!("{SPOKE_AGENT}:{spoke}"))?
        .context("there is no role of a cluster's own")
}

/// A role of ours, by its name.
fn role(name: &str) -> anyhow::Result<Value> {
    for file in ROLES {
        if let Some(role) = role_in(file, name)? {
            return Ok(role);
        }
    }
    anyhow::bail!("there is no role {name}")
}

fn role_in(file: &str, name: &str) -> anyhow::Result<Option<Value>> {
    let is =
        |object: &Value, path: &str, text: &str| object.pointer(path).and_then(Value::as_str) == Some(text);
    let wanted = |object: &Value| is(object, "/kind", "ClusterRole") && is(object, "/metadata/name", name);
    Ok(read(file)?.into_iter().find(wanted))
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
    let wanted = Wanted::of(client, object);
    let annotations = wanted.found().await?.and_then(|found| found.annotations).unwrap_or_default();
    // Somebody took it into their own hands, as with the roles that Kubernetes starts with.
    if annotations.get("rbac.authorization.kubernetes.io/autoupdate").is_some_and(|value| value == "false") {
        return Ok(());
    }
    wanted.apply().await
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
            role(&Identity::controller(name).user).unwrap();
        }
        role(SPOKE_AGENT).unwrap();
        own_cluster("spoke-1").unwrap();
    }
}
