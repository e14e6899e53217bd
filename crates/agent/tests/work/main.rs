//! Scenarios of the work agent, on a hub and a cluster of the embedded API server with paused time, and on two clusters
//! of real Kubernetes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

mod application;
mod bad_manifests;
mod crashes;
mod deletion;
mod drift;
mod feedback;
mod fixture;
mod many_agents;
mod outages;
mod strategies;

use bellwether_testkit::embedded;

use fixture::{Fixture, TestClusters};

/// A new hub and a new cluster on the embedded API server.
async fn embedded() -> TestClusters {
    let server = embedded::builder().clusters(["spoke"]).start().await.expect("the server starts");
    let hub = embedded::logical_cluster(&server, bellwether_apiserver::HUB);
    TestClusters::prepare(hub, embedded::logical_cluster(&server, "spoke")).await
}

/// A new hub and a new cluster on real Kubernetes.
#[cfg(feature = "real-kubernetes")]
async fn real(_lane: usize) -> TestClusters {
    use bellwether_testkit::real;
    TestClusters::prepare(real::cluster("hub").await, real::cluster("spoke").await).await
}

bellwether_testkit::scenarios! {
    environment: TestClusters, embedded: embedded, real: real, lanes: 4, fixture: Fixture::new;

    application::object_is_applied_and_recorded,
    application::changed_manifests_are_applied_and_removed_objects_deleted,
    application::crd_and_custom_resource_can_be_in_the_same_work,
    application::workload_with_service_account_and_rbac_is_applied,
    application::work_without_manifests_is_applied_and_available,
    application::labels_are_copied_to_the_applied_manifest_work,
    application::installation_writes_only_finalizer_and_status_on_the_hub,
    application::field_removed_from_the_manifest_is_removed_from_the_object,
    bad_manifests::invalid_manifests_are_reported_and_others_applied,
    bad_manifests::manifest_is_applied_once_its_namespace_exists,
    bad_manifests::rejected_applied_manifest_work_is_reported,
    bad_manifests::large_and_invalid_manifests_do_not_affect_other_works,
    deletion::objects_are_deleted_with_their_work,
    deletion::deleted_work_waits_for_finalizers_of_its_objects,
    deletion::removed_object_stays_recorded_until_it_is_deleted,
    deletion::objects_are_deleted_in_reverse_order_of_creation,
    deletion::orphaned_objects_are_kept,
    deletion::selectively_orphaned_objects_are_kept,
    deletion::object_of_two_works_is_deleted_with_the_last,
    deletion::object_that_moves_to_another_work_is_never_deleted,
    deletion::object_recreated_by_another_client_is_kept,
    deletion::namespace_that_existed_before_the_work_is_kept,
    deletion::deleted_work_without_the_agents_finalizer_is_ignored,
    deletion::deleted_applied_manifest_work_is_created_again,
    drift::changed_object_is_reverted,
    drift::deleted_object_is_created_again,
    drift::fields_of_other_managers_are_kept,
    drift::no_requests_are_sent_while_nothing_changes,
    drift::restarted_agent_writes_nothing,
    drift::cleared_status_and_finalizer_are_written_again,
    drift::standby_writes_nothing,
    drift::conflicting_works_are_repaired_with_backoff,
    feedback::well_known_status_of_workloads_is_reported,
    feedback::stale_workload_status_is_not_reported,
    feedback::values_at_json_paths_are_reported,
    feedback::feedback_is_updated_within_a_second,
    outages::objects_are_repaired_while_the_hub_is_unreachable,
    outages::unreachable_cluster_is_not_reported_as_apply_failure,
    outages::object_is_deleted_after_its_version_is_no_longer_served,
    outages::restarted_agent_does_not_write_objects_of_common_kinds,
    strategies::apply_conflict_is_reported_and_resolved_by_force,
    strategies::create_only_object_is_not_updated,
    strategies::read_only_object_is_not_written,
    strategies::update_takes_over_fields_of_other_managers,
}
