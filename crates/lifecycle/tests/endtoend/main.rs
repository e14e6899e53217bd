//! Tests of all parts together: the controllers of a hub, and clusters with real agents that apply
//! ManifestWorks. They run in process on the embedded API server with time paused, and on real Kubernetes.
//!
//! The table lists where each of the thirty acceptance tests of `spec/lifecycle.md` §6 is. Tests without a
//! prefix are in this suite; `lifecycle` and `placement` are suites of this crate, and `work` is a suite of
//! the agent's crate.
//!
//! | number | test |
//! |---|---|
//! | 1 | `addon_is_installed_on_selected_clusters`; lifecycle: `addons_follow_placement_decisions` |
//! | 2 | `manual_strategy_installs_and_deletes_nothing`; lifecycle: `manual_strategy_creates_and_deletes_nothing` |
//! | 3 | `addon_is_installed_on_selected_clusters` |
//! | 4 | lifecycle: `fresh_install_uses_default_version` |
//! | 5 | `new_default_reaches_following_clusters_and_is_counted`; lifecycle: `new_default_upgrades_clusters_without_requested_version` |
//! | 6, 7 | lifecycle: `canary_upgrades_first_and_rolls_back`; `later_placement_is_assigned_and_both_complete` |
//! | 8, 9 | lifecycle: `unknown_version_fails_and_changes_nothing` |
//! | 10 | lifecycle: `report_on_older_generation_is_ignored` |
//! | 11 | lifecycle: `failed_apply_is_reported_and_recovers`; `rejected_manifest_is_named_with_cluster_message` |
//! | 12 | lifecycle: `large_version_is_split_and_smaller_one_deletes_surplus_works`; `ten_megabyte_version_is_rejected_and_reported` |
//! | 13 | `version_without_objects_succeeds_at_once` |
//! | 14 | `foreign_works_are_ignored`; lifecycle: `foreign_work_with_addon_label_is_ignored_and_reported` |
//! | 15 | `overridden_version_is_kept_and_excluded_from_rollout`; lifecycle: `version_set_by_user_is_kept` |
//! | 16 | `later_placement_is_assigned_and_both_complete` |
//! | 17 | `new_default_reaches_following_clusters_and_is_counted` |
//! | 18 | lifecycle: `two_clusters_change_at_a_time_in_name_order`; `concurrency_limit_is_never_exceeded` |
//! | 19 | `timed_out_clusters_count_as_failures_and_stop_rollout` |
//! | 20 | `next_group_waits_for_soak_time_of_previous` |
//! | 21 | `mandatory_group_changes_first_and_its_failure_stops_rollout` |
//! | 22 | `clusters_change_one_by_one_without_early_works` |
//! | 23 | `addon_deletion_waits_for_objects_and_absent_agent`; lifecycle: `addon_is_deleted_after_its_manifest_works` |
//! | 24 | `deleting_cluster_management_addon_deletes_everything`; lifecycle: `deleting_cluster_management_addon_deletes_all_addons` |
//! | 25 | work: `object_is_applied_and_recorded`, `changed_manifests_are_applied_and_removed_objects_deleted`, `deleted_work_waits_for_finalizers_of_its_objects` |
//! | 26 | work: `crd_and_custom_resource_can_be_in_the_same_work`, `workload_with_service_account_and_rbac_is_applied` |
//! | 27 | work: `apply_conflict_is_reported_and_resolved_by_force`, `create_only_object_is_not_updated`, `object_of_two_works_is_deleted_with_the_last` |
//! | 28 | work: `well_known_status_of_workloads_is_reported`, `changed_object_is_reverted`, `no_requests_are_sent_while_nothing_changes` |
//! | 29 | placement: `requested_number_is_selected_in_slices_of_a_hundred`, `tainted_clusters_are_not_selected`, `expired_toleration_deselects_cluster`, `deleted_binding_clears_selection` |
//! | 30 | placement: `decision_groups_are_reported_in_order`, `joining_first_cluster_removes_no_cluster_temporarily`; `joining_first_cluster_removes_no_addon_of_150_clusters` |
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

mod crashes;
mod failures;
mod fleet;
mod install;
mod rollouts;
mod uninstall;
mod writes;

use bellwether_testkit::embedded;
use fleet::{Controllers, Environment};

/// A new hub and six new spokes on one embedded API server.
async fn embedded() -> Environment {
    let names = ["s1", "s2", "s3", "s4", "s5", "s6"];
    let server = embedded::builder().clusters(names).start().await.expect("the server starts");
    let spokes = names.map(|name| embedded::logical_cluster(&server, name));
    let hub = embedded::logical_cluster(&server, bellwether_apiserver::HUB);
    Environment::prepare(hub, spokes.into(), Controllers::PerFleet).await
}

/// Two kube-apiservers: the hub, whose controllers serve all lanes, and one that stands for all spokes.
#[cfg(feature = "real-kubernetes")]
async fn real(lane: usize) -> Environment {
    use bellwether_testkit::real;
    let (hub, spoke) = (real::cluster("hub").await, real::cluster("spoke").await);
    let environment = Environment::prepare(hub, vec![spoke], Controllers::Shared).await;
    if lane == 0 {
        let client = environment.hub.client();
        let controllers =
            fleet::hub_controllers(bellwether_clock::SteadyClock::default(), |_| client.clone());
        // The controllers run until the process ends, because other lanes may still need them when this one
        // is done.
        std::mem::forget(controllers);
    }
    environment
}

async fn borrow_environment(environment: &Environment) -> &Environment {
    environment
}

bellwether_testkit::scenarios! {
    environment: Environment, embedded: embedded, real: real, lanes: 8, fixture: borrow_environment;

    install::manual_strategy_installs_and_deletes_nothing,
    install::addon_is_installed_on_selected_clusters,
    rollouts::timed_out_clusters_count_as_failures_and_stop_rollout,
    failures::silent_cluster_does_not_block_others,
    install::foreign_works_are_ignored,
    install::overridden_version_is_kept_and_excluded_from_rollout,
    install::later_placement_is_assigned_and_both_complete,
    install::new_default_reaches_following_clusters_and_is_counted,
    install::version_without_objects_succeeds_at_once,
    rollouts::next_group_waits_for_soak_time_of_previous,
    rollouts::mandatory_group_changes_first_and_its_failure_stops_rollout,
    rollouts::clusters_change_one_by_one_without_early_works,
    rollouts::workload_criteria_wait_for_updated_replicas,
    rollouts::healthy_criteria_wait_for_heartbeat_after_change,
    writes::concurrency_limit_is_never_exceeded,
    failures::rendering_error_names_object_and_cause,
    failures::rejected_manifest_is_named_with_cluster_message,
    failures::ten_megabyte_version_is_rejected_and_reported,
    uninstall::addon_deletion_waits_for_objects_and_absent_agent,
    uninstall::deleting_cluster_management_addon_deletes_everything,
    uninstall::deleted_cluster_is_cleared_and_not_reinstalled,
}
