//! Clusters and placements on our server in process, where time is paused, and on real Kubernetes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

mod choosing;
mod clusters;
mod rights;
mod settling;
mod stage;
mod telling;

use bellwether_testkit::{Cluster, embedded};

/// A fresh hub of our own that knows our kinds.
async fn embedded() -> Cluster {
    prepared(embedded::in_process().await).await
}

async fn prepared(cluster: Cluster) -> Cluster {
    let definitions = bellwether_api::crds().into_iter();
    let ours = definitions.filter(|definition| definition.name().ends_with(".open-cluster-management.io"));
    cluster.install_definitions(ours.map(|definition| serde_json::to_value(definition.crd).unwrap())).await;
    cluster
}

/// A real Kubernetes for each lane, as controllers look after all that there is.
#[cfg(feature = "real-kubernetes")]
async fn real(lane: usize) -> Cluster {
    prepared(bellwether_testkit::real::cluster(&format!("placement-{lane}")).await).await
}

async fn hub(cluster: &Cluster) -> &Cluster {
    cluster
}

bellwether_testkit::scenarios! {
    ground: Cluster, embedded: embedded, real: real, lanes: 2, stage: hub;

    choosing::requested_number_is_selected_in_slices_of_a_hundred,
    choosing::tainted_clusters_are_not_selected,
    choosing::expired_toleration_deselects_cluster,
    choosing::deleted_binding_clears_selection,
    choosing::decision_groups_are_reported_in_order,
    choosing::clusters_selected_by_others_come_last,
    choosing::invalid_placement_keeps_decisions,
    choosing::placement_with_disabled_scheduling_is_ignored,
    telling::joining_first_cluster_removes_no_cluster_temporarily,
    telling::swapped_groups_remove_no_cluster_temporarily,
    telling::reader_accepts_fully_written_selection,
    settling::nothing_is_decided_before_caches_are_synced,
    settling::restart_causes_no_writes,
    settling::many_joining_clusters_cause_few_writes,
    settling::modified_decision_is_restored,
    settling::deleted_placement_deletes_its_decisions,
    settling::write_conflict_is_decided_again,
    clusters::accepted_cluster_gets_namespace,
    clusters::expired_lease_taints_cluster_until_it_returns,
    clusters::restart_makes_no_cluster_unreachable,
    clusters::api_outage_makes_no_cluster_unreachable,
    clusters::cluster_is_deleted_after_addons_and_works,
    clusters::lease_renewals_cause_no_requests,
    clusters::sets_and_bindings_report_conditions,
    rights::each_controller_has_required_permissions,
}
