//! `bellwether run agent`: runs the controllers of one cluster, and those of a spoke for its hub.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use bellwether_agent::{Agent, ClusterName, HubHash};
use bellwether_api::addons_managed::AddonInstance;
use clap::Args;

use crate::cli::TargetArgs;
use crate::controllers::{HeartbeatArgs, ObservabilityArgs, Selection};
use crate::role::Role;
use crate::target::Target;

/// The agent's ID in the AppliedManifestWorks on its cluster.
const AGENT_ID: &str = "bellwether";
/// The name of the cluster in logs and metrics without --cluster-name.
const DEFAULT_CLUSTER_NAME: &str = "local";

/// Run the controllers of a cluster, and with --hub-kubeconfig also those that make it a spoke of a hub
///
/// With --hub-kubeconfig it also applies the ManifestWorks of the cluster, renews its Lease, copies heartbeat status to the
/// hub, and runs the metrics collectors. The hub needs a ManagedCluster with the name that --cluster-name gives, and the
/// permissions in deploy/hub/spoke-agent.yaml.
///
/// The cluster needs the CRDs: `bellwether crds --install`. If several replicas run, one is the leader and the others are
/// standbys. Their Lease is in the namespace of the kubeconfig context, or of the pod.
///
/// Controllers that always run:
///   addon-controller       creates the namespaces and the AddonInstance of each Addon
///   heartbeat-checker      detects add-ons that stop sending heartbeats
/// Controllers that run with --hub-kubeconfig:
///   work-agent             applies the objects of ManifestWorks
///   cluster-lease          renews the Lease by which the hub knows that the cluster is reachable
///   heartbeat-mirror       copies the heartbeat status of add-ons to the hub
///   endpoint-operator      runs the metrics collectors that the ObservabilityAddon of the hub describes
///   observability-status   reports the state of metrics forwarding, and copies it to the hub
///
///   bellwether run agent --context spoke-1
///   bellwether run agent --hub-kubeconfig hub.kubeconfig --cluster-name spoke-1
///   bellwether run agent --controllers heartbeat-checker --timeout-multiplier 5
///
/// Exit codes: 0 stopped by a signal; 1 error; 2 invalid arguments.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    target: TargetArgs,

    /// The kubeconfig of the hub, of which the current context is used. Default: the cluster has no hub.
    #[arg(long, value_name = "FILE", requires = "cluster_name")]
    hub_kubeconfig: Option<PathBuf>,

    /// The name of the cluster in logs and metrics, and of its ManagedCluster on the hub. Required with --hub-kubeconfig;
    /// default without it: local.
    #[arg(long, value_name = "NAME")]
    cluster_name: Option<ClusterName>,

    /// The controllers to run: `a,b` runs only a and b, `-a,-b` all but a and b (write --controllers=-a). Default: all.
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

    #[command(flatten)]
    observability: ObservabilityArgs,

    /// The address for plain HTTP: /healthz, /readyz and /metrics. In a pod, use 0.0.0.0 so that probes can reach it. Port 0
    /// selects a free port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8001")]
    listen: SocketAddr,

    /// Elect a leader among replicas. Set it to false if there is only one replica.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    leader_election: bool,
}

pub(crate) fn run(arguments: &AgentArgs) -> anyhow::Result<()> {
    // One thread: with a thousand small events a second, passing each between threads costs more than handling it.
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
        cluster: arguments.cluster_name.as_ref().map_or(DEFAULT_CLUSTER_NAME, ClusterName::as_str),
    };
    let target = Target::find(&arguments.target).await?;
    let agent = match (&arguments.hub_kubeconfig, &arguments.cluster_name) {
        (Some(hub), Some(cluster)) => Some(connect_to_hub(hub.clone(), cluster.clone()).await?),
        _ => None,
    };
    role.serve::<AddonInstance>(target, |context| {
        let context_of = |_| context.clone();
        arguments.controllers.start_everywhere(&arguments.heartbeats, context_of);
        if let Some(agent) = &agent {
            arguments.controllers.start_for_the_hub(agent, &arguments.observability, context_of);
        }
    })
    .await
}

/// The agent of the cluster, connected to its hub.
async fn connect_to_hub(kubeconfig: PathBuf, cluster: ClusterName) -> anyhow::Result<Agent> {
    let hub = Target::find(&TargetArgs { kubeconfig: Some(kubeconfig.clone()), context: None }).await?;
    let hub_hash = HubHash::of(hub.address());
    let hub = Target::reloading(kubeconfig).await?;
    Ok(Agent { hub_hash, hub, cluster, agent_id: AGENT_ID.into() })
}
