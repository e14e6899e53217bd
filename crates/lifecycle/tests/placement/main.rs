//! The controllers of clusters and placements, on the embedded API server with paused time, and on real Kubernetes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

mod clusters;
mod decisions;
mod fixture;
mod permissions;
mod reconciling;
mod selection;

use bellwether_testkit::{Cluster, embedded};

/// A new embedded hub with our CRDs.
async fn embedded() -> Cluster {
    with_crds(embedded::in_process().await).await
}

async fn with_crds(cluster: Cluster) -> Cluster {
    let crds = bellwether_api::crds().into_iter();
    let crds = crds.filter(|definition| definition.name().ends_with(".open-cluster-management.io"));
    cluster.install_crds(crds.map(|definition| serde_json::to_value(definition.crd).unwrap())).await;
    cluster
}

/// A real Kubernetes for each lane, because the controllers reconcile all objects of a cluster.
#[cfg(feature = "real-kubernetes")]
async fn real(lane: usize) -> Cluster {
    with_crds(bellwether_testkit::real::cluster(&format!("placement-{lane}")).await).await
}

async fn hub(cluster: &Cluster) -> &Cluster {
    cluster
}

bellwether_testkit::scenarios! {
    environment: Cluster, embedded: embedded, real: real, lanes: 2, fixture: hub;

    selection::requested_number_is_selected_in_slices_of_a_hundred,
    selection::tainted_clusters_are_not_selected,
    selection::expired_toleration_deselects_cluster,
    selection::deleted_binding_clears_selection,
    selection::decision_groups_are_reported_in_order,
    selection::clusters_selected_by_others_come_last,
    selection::invalid_placement_keeps_decisions,
    selection::placement_with_disabled_scheduling_is_ignored,
    decisions::joining_first_cluster_removes_no_cluster_temporarily,
    decisions::swapped_groups_remove_no_cluster_temporarily,
    decisions::reader_accepts_fully_written_selection,
    reconciling::nothing_is_decided_before_caches_are_synced,
    reconciling::restart_causes_no_writes,
    reconciling::many_joining_clusters_cause_few_writes,
    reconciling::modified_decision_is_restored,
    reconciling::deleted_placement_deletes_its_decisions,
    reconciling::write_conflict_is_decided_again,
    clusters::accepted_cluster_gets_namespace,
    clusters::expired_lease_taints_cluster_until_it_returns,
    clusters::restart_makes_no_cluster_unreachable,
    clusters::standby_writes_nothing_and_takeover_restarts_grace_period,
    clusters::api_outage_makes_no_cluster_unreachable,
    clusters::cluster_is_deleted_after_addons_and_works,
    clusters::lease_renewals_cause_no_requests,
    clusters::sets_and_bindings_report_conditions,
    permissions::each_controller_has_required_permissions,
}
