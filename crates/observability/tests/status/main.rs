//! Scenarios of the status of the add-on: reports, the status controller and the mirror on the hub, on the embedded API server
//! with paused time, and on two clusters of real Kubernetes. The codes are those of the acceptance list of the specification.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

mod boot;
mod fixture;
mod hub;
mod mirror;
mod operator;
mod permissions;
mod reports;

use bellwether_testkit::HubAndSpoke;

use fixture::Fixture;

bellwether_testkit::scenarios! {
    environment: HubAndSpoke, embedded: HubAndSpoke::embedded, real: HubAndSpoke::real, lanes: 4, fixture: Fixture::prepare;

    boot::boot_sequence_of_the_design_document,
    boot::one_report_causes_one_write_on_each_side,
    boot::idle_controller_writes_nothing,
    boot::change_before_the_response_to_a_write_is_not_lost,
    boot::duplicate_types_are_repaired,
    boot::unknown_reason_is_degraded_and_can_be_replaced,
    hub::only_the_final_state_is_written_after_an_outage,
    hub::rejected_credentials_are_replaced_without_a_restart,
    hub::hub_that_asks_to_wait_is_left_alone_for_that_time,
    hub::missing_object_on_the_hub_is_waited_for,
    hub::stale_hub_is_synced_at_the_start,
    hub::change_by_another_writer_on_the_hub_is_undone,
    hub::conflict_on_the_hub_is_decided_again,
    mirror::columns_show_one_true_and_explicit_false,
    mirror::only_degraded_is_written_for_a_managed_add_on,
    mirror::conditions_of_other_writers_are_kept,
    operator::collector_is_deployed_from_the_spec_of_the_hub,
    operator::restart_of_the_operator_changes_nothing,
    operator::two_copies_of_the_controllers_agree,
    operator::user_workload_collector_comes_and_goes,
    operator::disabled_metrics_stop_the_collectors,
    operator::cluster_without_prometheus_is_not_supported,
    operator::failed_update_is_reported_and_ends_with_a_clean_reconcile,
    operator::changed_deployment_is_restored,
    operator::deletion_on_the_hub_removes_the_collectors_first,
    permissions::deployed_permissions_are_sufficient,
    reports::every_transition_of_the_table,
    reports::late_success_after_disabling_is_refused,
    reports::concurrent_writers_lose_no_report,
    reports::long_message_is_stored_within_the_limit,
    reports::missing_add_on_is_an_error_that_names_it,
}
