//! Tests of the install and add-on controllers through the API of the hub: in process on the embedded API
//! server with time paused, and on real Kubernetes. The fixture writes placement decisions and plays the
//! agents of all clusters.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

mod faults;
mod fleet;
mod install;
mod permissions;
mod rejections;
mod rollouts;
mod uninstall;
mod unreachable;
mod versions;

use bellwether_testkit::{Cluster, embedded, on_paused_time};

/// A new embedded hub with the CRDs of the hub.
async fn embedded() -> Cluster {
    install_crds(embedded::in_process().await).await
}

async fn install_crds(cluster: Cluster) -> Cluster {
    let crds = bellwether_api::crds().into_iter();
    let hub_crds = crds.filter(|definition| definition.name().ends_with(".open-cluster-management.io"));
    cluster.install_crds(hub_crds.map(|definition| serde_json::to_value(definition.crd).unwrap())).await;
    cluster
}

/// Each lane has its own kube-apiserver, because the controllers reconcile every object of a hub.
#[cfg(feature = "real-kubernetes")]
async fn real(lane: usize) -> Cluster {
    install_crds(bellwether_testkit::real::cluster(&format!("lifecycle-{lane}")).await).await
}

async fn hub(cluster: &Cluster) -> &Cluster {
    cluster
}

bellwether_testkit::scenarios! {
    environment: Cluster, embedded: embedded, real: real, lanes: 3, fixture: hub;

    versions::fresh_install_uses_default_version,
    versions::new_default_upgrades_clusters_without_requested_version,
    versions::canary_upgrades_first_and_rolls_back,
    versions::unknown_version_fails_and_changes_nothing,
    versions::failed_apply_is_reported_and_recovers,
    versions::report_on_older_generation_is_ignored,
    versions::large_version_is_split_and_smaller_one_deletes_surplus_works,
    versions::rendering_error_is_reported,
    versions::changed_configuration_starts_new_change,
    versions::removed_version_in_use_stays_installed,
    versions::foreign_work_with_addon_label_is_ignored_and_reported,
    install::addons_follow_placement_decisions,
    install::manual_strategy_creates_and_deletes_nothing,
    install::version_set_by_user_is_kept,
    install::unknown_decision_deletes_no_addon,
    install::deleted_placement_keeps_its_clusters_unchanged,
    install::taint_not_yet_in_cache_protects_addon,
    install::returned_cluster_keeps_addon_after_restart,
    install::field_also_set_by_user_belongs_to_user,
    install::default_is_followed_after_switch_to_manual,
    rollouts::two_clusters_change_at_a_time_in_name_order,
    rollouts::failure_stops_rollout,
    rollouts::paused_rollout_starts_no_cluster,
    faults::changed_strategy_takes_effect_during_soak_time,
    faults::success_before_deadline_lets_next_cluster_start,
    faults::recreated_template_is_rolled_out,
    faults::identical_recreated_template_starts_nothing,
    faults::progress_of_other_clusters_causes_no_writes,
    faults::waiting_cluster_reports_actual_availability,
    faults::longer_deadline_restarts_timed_out_change,
    unreachable::unreachable_changing_cluster_keeps_slot_and_stops_rollout,
    unreachable::unreachable_canary_blocks_rollout,
    unreachable::one_unreachable_canary_of_two_blocks_rollout,
    unreachable::timed_out_cluster_stays_timed_out_when_unreachable,
    rejections::delete_option_changes_with_version,
    rejections::rejected_work_is_reported_and_others_continue,
    rejections::rejected_work_recovers_when_accepted,
    rejections::work_without_label_gets_label_back,
    rejections::changed_work_without_label_gets_label_back,
    rejections::deleted_work_without_label_is_recreated,
    uninstall::addon_is_deleted_after_its_manifest_works,
    uninstall::work_without_finalizer_is_deleted_once,
    uninstall::deleting_cluster_management_addon_deletes_all_addons,
    uninstall::idle_minute_and_restart_cause_no_writes,
    permissions::each_controller_has_required_permissions,
}

/// Scenarios that wait for minutes run only on the embedded API server, where time is paused.
macro_rules! paused_time_scenarios {
    ($($module:ident::$scenario:ident),* $(,)?) => {
        $(
            #[test]
            fn $scenario() {
                on_paused_time(async { $module::$scenario(&embedded().await).await });
            }
        )*
    };
}

paused_time_scenarios! {
    faults::configuration_change_restarts_deadline,
    faults::hanging_reconcile_releases_slot,
    install::absence_period_restarts_after_return,
}
