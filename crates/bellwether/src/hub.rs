//! `bellwether run hub`: runs the controllers of a hub.

use std::net::SocketAddr;
use std::time::Duration;

use bellwether_api::addon::ClusterManagementAddOn;
use clap::Args;

use crate::cli::TargetArgs;
use crate::controllers::Selection;
use crate::role::Role;
use crate::target::Target;

/// Run the controllers of a hub: clusters and cluster sets, placements, installation and lifecycle of add-ons
///
/// The hub needs the CRDs: `bellwether crds --install`. Clusters join it as ManagedClusters; each of them runs
/// `bellwether run agent --hub-kubeconfig FILE`. If several replicas run, one is the leader and the others are standbys.
/// Their Lease is in the namespace of the kubeconfig context, or of the pod.
///
/// Controllers:
///   cluster-controller               reports which ManagedClusters are accepted and reachable
///   cluster-set-controller           counts the clusters of ManagedClusterSets
///   cluster-set-binding-controller   reports whether ManagedClusterSetBindings are bound
///   placement-controller             selects clusters for Placements
///   addon-install-controller         creates and deletes the ManagedClusterAddOns of the selected clusters
///   addon-lifecycle-controller       installs, upgrades and rolls back add-ons on each cluster
///   observability-mirror             shows the state of metrics forwarding in ManagedClusterAddOns
///
///   bellwether run hub --context hub
///   bellwether run hub --controllers=-placement-controller     # another controller writes PlacementDecisions
///
/// Exit codes: 0 stopped by a signal; 1 error; 2 invalid arguments.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct HubArgs {
    #[command(flatten)]
    target: TargetArgs,

    /// The controllers to run: `a,b` runs only a and b, `-a,-b` all but a and b (write --controllers=-a). Default: all.
    #[arg(
        long,
        value_name = "[+|-]NAME,…",
        allow_hyphen_values = true,
        default_value = "",
        hide_default_value = true,
        value_parser = Selection::of_hub
    )]
    controllers: Selection,

    /// The address for plain HTTP: /healthz, /readyz and /metrics. In a pod, use 0.0.0.0 so that probes can reach it. Port 0
    /// selects a free port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8002")]
    listen: SocketAddr,

    /// Elect a leader among replicas. Set it to false if there is only one replica.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    leader_election: bool,
}

pub(crate) fn run(arguments: &HubArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let role = Role {
            name: "hub",
            listen: arguments.listen,
            leader_election: arguments.leader_election,
            cluster: "hub",
        };
        let target = Target::find(&arguments.target).await?;
        let start = |context: &_| arguments.controllers.start_on_the_hub(|_| Clone::clone(context));
        role.serve::<ClusterManagementAddOn>(target, start).await
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    outcome
}
