//! `bellwether run agent`: the controllers of one cluster of real Kubernetes, and those that serve its hub.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use bellwether_agent::{Agent, ClusterName, HubHash};
use bellwether_api::addons_managed::AddonInstance;
use clap::Args;

use crate::cli::TargetArgs;
use crate::controllers::{HeartbeatArgs, Selection};
use crate::role::Role;
use crate::target::Target;

/// How the agent is called in the records that it leaves on its cluster.
const AGENT_ID: &str = "bellwether";
/// What a cluster is called that nobody has named.
const UNNAMED: &str = "local";

/// Run the controllers of a cluster; with --hub-kubeconfig, also those that make it a spoke of a hub.
///
/// On its own, a cluster has the Addon controller and the heartbeat checker. As a spoke it also gets what the hub's
/// ManifestWorks ask for, says on the hub that it is alive, and which of its add-ons beat. The hub knows it by a
/// ManagedCluster of the name that --cluster-name gives, and lets it in by the roles in deploy/hub/spoke-agent.yaml.
///
/// The cluster needs our definitions: `bellwether crds --install`. Of several copies one acts and the others stand by,
/// by a Lease in the namespace of the context (in a pod: its own namespace).
///
///   bellwether run agent --context spoke-1
///   bellwether run agent --hub-kubeconfig hub.kubeconfig --cluster-name spoke-1
///   bellwether run agent --controllers heartbeat-checker --timeout-multiplier 5
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    target: TargetArgs,

    /// The kubeconfig by which the agent uses its hub. Without it there is no hub.
    #[arg(long, value_name = "FILE", requires = "cluster_name")]
    hub_kubeconfig: Option<PathBuf>,

    /// The name of the cluster: of its ManagedCluster on the hub, and in logs and metrics. Without it: local.
    #[arg(long, value_name = "NAME")]
    cluster_name: Option<ClusterName>,

    /// Which controllers run: all but some (-addon-controller), or some alone (heartbeat-checker). There are
    /// addon-controller, which provides what Addons ask for, and heartbeat-checker, which notices add-ons that fall
    /// silent; and for a hub work-agent, which brings the objects of ManifestWorks, cluster-lease, which says that the
    /// cluster is alive, and heartbeat-mirror, which says which of its add-ons beat.
    #[arg(
        long,
        value_name = "[+|-]NAME,…",
        allow_hyphen_values = true,
        default_value = "",
        hide_default_value = true,
        value_parser = Selection::of_agent
    )]
    controllers: Selection,

    #[command(flatten)]
    heartbeats: HeartbeatArgs,

    /// Where plain HTTP listens: /healthz, /readyz and /metrics. Port 0 picks a free port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8001")]
    listen: SocketAddr,

    /// Whether copies of the agent agree on one that acts. Switch it off where there is only one.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    leader_election: bool,
}

pub(crate) fn run(arguments: &AgentArgs) -> anyhow::Result<()> {
    // Nothing here computes for long. Where a thousand small events a second come in, handing each from thread to thread
    // would cost more than the work.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(serve(arguments));
    runtime.shutdown_timeout(Duration::from_millis(200));
    outcome
}

async fn serve(arguments: &AgentArgs) -> anyhow::Result<()> {
    let role = Role {
        name: "agent",
        listen: arguments.listen,
        leader_election: arguments.leader_election,
        cluster: arguments.cluster_name.as_ref().map_or(UNNAMED, ClusterName::as_str),
    };
    let target = Target::find(&arguments.target).await?;
    let agent = match (&arguments.hub_kubeconfig, &arguments.cluster_name) {
        (Some(hub), Some(cluster)) => Some(known_to(hub.clone(), cluster.clone()).await?),
        _ => None,
    };
    role.serve::<AddonInstance>(target, |context| {
        let context_of = |_| context.clone();
        arguments.controllers.start_everywhere(&arguments.heartbeats, context_of);
        if let Some(agent) = &agent {
            arguments.controllers.start_for_the_hub(agent, context_of);
        }
    })
    .await
}

/// The cluster as a hub knows it.
async fn known_to(kubeconfig: PathBuf, cluster: ClusterName) -> anyhow::Result<Agent> {
    let hub = Target::find(&TargetArgs { kubeconfig: Some(kubeconfig), context: None }).await?;
    Ok(Agent { hub_hash: HubHash::of(hub.address()), hub: hub.client, cluster, agent_id: AGENT_ID.into() })
}
