//! Works on a hub and a cluster of our own server in process, where time is paused, and on two clusters of real
//! Kubernetes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

mod application;
mod bad_manifests;
mod crowd;
mod deaths;
mod deletion;
mod drift;
mod feedback;
mod outages;
mod stage;
mod strategies;

use bellwether_testkit::embedded;

use stage::{Stage, Theatre};

/// A fresh hub and a fresh cluster of our own.
async fn embedded() -> Theatre {
    let server = embedded::builder().clusters(["spoke"]).start().await.expect("the server starts");
    let hub = embedded::of(&server, bellwether_apiserver::HUB);
    Theatre::prepare(hub, embedded::of(&server, "spoke")).await
}

/// The same on two clusters of real Kubernetes.
#[cfg(feature = "real-kubernetes")]
async fn real(_lane: usize) -> Theatre {
    use bellwether_testkit::real;
    Theatre::prepare(real::cluster("hub").await, real::cluster("spoke").await).await
}

bellwether_testkit::scenarios! {
    ground: Theatre, embedded: embedded, real: real, lanes: 4, stage: Stage::new;

    application::a_work_of_one_object_is_applied_and_recorded,
    application::a_work_of_three_objects_follows_its_changes,
    application::a_definition_and_its_object_come_in_one_work,
    application::an_add_on_comes_with_its_account_and_its_rights,
    application::a_work_of_nothing_is_well,
    application::labels_of_a_work_are_on_its_record,
    application::an_install_takes_two_writes_on_the_hub,
    application::a_field_that_is_no_longer_named_goes,
    bad_manifests::bad_manifests_are_named_and_harm_nobody_else,
    bad_manifests::a_namespace_that_comes_later_heals_the_work,
    bad_manifests::a_name_that_is_too_long_for_a_record_is_told,
    bad_manifests::much_garbage_harms_only_its_work,
    deletion::a_deleted_work_takes_its_objects_along,
    deletion::a_work_waits_for_the_finalizers_of_its_objects,
    deletion::an_object_that_is_no_longer_named_goes_and_is_waited_for,
    deletion::what_needs_others_goes_before_them,
    deletion::orphans_stay,
    deletion::chosen_orphans_stay,
    deletion::an_object_of_two_works_goes_with_the_last,
    deletion::an_object_that_moves_to_another_work_is_never_gone,
    deletion::what_somebody_else_made_in_place_of_ours_stays,
    deletion::a_namespace_that_was_there_before_stays,
    deletion::a_work_that_was_never_begun_goes_at_once,
    deletion::a_record_that_somebody_deletes_is_made_anew,
    drift::a_changed_object_is_changed_back,
    drift::a_deleted_object_is_made_again,
    drift::what_others_add_stays,
    drift::nothing_is_written_in_a_quiet_minute,
    drift::a_new_agent_leaves_no_trace,
    drift::a_status_that_somebody_spoils_is_told_again,
    drift::a_copy_that_stands_by_writes_nothing,
    drift::a_fight_over_an_object_calms_down,
    feedback::the_status_of_workloads_is_reported,
    feedback::what_was_said_before_a_change_is_not_told_after_it,
    feedback::what_paths_lead_to_is_reported,
    feedback::feedback_follows_within_a_second,
    outages::a_cluster_is_kept_as_it_should_be_while_its_hub_is_away,
    outages::a_cluster_that_is_away_is_no_failure_of_a_work,
    outages::an_object_goes_also_when_its_version_is_no_longer_served,
    outages::what_the_server_keeps_as_it_was_said_is_not_said_again,
    strategies::a_conflict_is_told_and_force_ends_it,
    strategies::what_is_only_created_is_not_updated,
    strategies::what_is_only_read_is_not_written,
    strategies::an_update_takes_what_others_own,
}
