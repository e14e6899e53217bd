//! `bellwether run hub`: the controllers of a hub of real Kubernetes.

use std::net::SocketAddr;
use std::time::Duration;

use bellwether_api::addon::ClusterManagementAddOn;
use clap::Args;

use crate::cli::TargetArgs;
use crate::controllers::Selection;
use crate::role::Role;
use crate::target::Target;

/// Run the controllers of a hub: clusters and their sets, placements, and the installation and lifecycle of add-ons.
///
/// The hub needs our definitions: `bellwether crds --install`. Clusters join it as ManagedClusters, each with an agent:
/// `bellwether run agent --hub-kubeconfig`. Of several copies one acts and the others stand by, by a Lease in the
/// namespace of the context (in a pod: its own namespace).
///
///   bellwether run hub --context hub
///   bellwether run hub --controllers=-placement-controller     where somebody else decides placements
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct HubArgs {
    #[command(flatten)]
    target: TargetArgs,

    /// Which controllers run: all but some (-placement-controller), or some alone. There are cluster-controller,
    /// cluster-set-controller and cluster-set-binding-controller, which look after ManagedClusters and their sets;
    /// placement-controller, which chooses clusters for Placements; addon-install-controller, which brings add-ons to
    /// the chosen; and addon-lifecycle-controller, which takes each from version to version.
    #[arg(
        long,
        value_name = "[+|-]NAME,…",
        allow_hyphen_values = true,
        default_value = "",
        hide_default_value = true,
        value_parser = Selection::of_hub
    )]
    controllers: Selection,

    /// Where plain HTTP listens: /healthz, /readyz and /metrics. Port 0 picks a free port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8002")]
    listen: SocketAddr,

    /// Whether copies of the hub agree on one that acts. Switch it off where there is only one.
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
