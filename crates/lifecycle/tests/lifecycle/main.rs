//! The life of an add-on over placements, through the API alone: on our server in process, where time is paused, and on
//! real Kubernetes. An agent of the test answers the works.
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
mod leaving;
mod lost;
mod refusals;
mod rights;
mod rollouts;
mod versions;

use bellwether_testkit::{Cluster, embedded, on_paused_time};

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
    prepared(bellwether_testkit::real::cluster(&format!("lifecycle-{lane}")).await).await
}

async fn hub(cluster: &Cluster) -> &Cluster {
    cluster
}

bellwether_testkit::scenarios! {
    ground: Cluster, embedded: embedded, real: real, lanes: 3, stage: hub;

    versions::a_fresh_install_takes_the_default,
    versions::a_new_version_upgrades_those_that_follow_the_default,
    versions::a_canary_goes_first_and_back,
    versions::a_version_that_there_is_not_fails_and_changes_nothing,
    versions::a_work_that_cannot_be_applied_fails_and_heals,
    versions::an_answer_to_an_older_generation_does_not_count,
    versions::large_versions_are_several_works_and_small_ones_take_them_away,
    versions::a_version_that_cannot_be_made_says_why,
    versions::a_configuration_that_changes_is_another_change,
    versions::a_version_in_use_that_is_withdrawn_stays,
    versions::what_only_looks_like_a_work_of_the_add_on_is_left_alone_and_told,
    install::clusters_come_and_go_with_the_decision,
    install::by_hand_nothing_is_made_and_nothing_is_taken,
    install::what_a_person_has_set_stays,
    install::nothing_goes_for_what_is_not_known,
    install::a_later_placement_that_is_deleted_changes_nothing_for_those_that_were_its_own,
    install::a_taint_that_was_not_heard_of_yet_counts_all_the_same,
    install::who_came_back_is_not_missed_by_a_process_that_did_not_see_it_go,
    install::a_field_that_somebody_has_set_as_well_is_theirs,
    install::after_a_switch_to_by_hand_the_default_still_comes_to_those_that_follow_it,
    rollouts::two_at_a_time_by_name,
    rollouts::a_failure_stops_the_rest,
    rollouts::a_pause_lets_nobody_begin,
    faults::while_one_soaks_what_people_ask_for_is_heard,
    faults::who_is_up_before_its_deadline_lets_the_next_begin,
    faults::a_template_that_is_made_anew_goes_by_its_rollout,
    faults::a_template_that_comes_back_as_it_was_begins_nothing,
    faults::the_steps_of_others_are_no_writes,
    faults::who_waits_is_as_available_as_it_is,
    faults::more_time_than_before_is_given_also_to_who_was_too_late,
    lost::who_is_lost_after_it_began_keeps_its_place_and_stops_the_rest,
    lost::a_canary_that_is_lost_keeps_everybody_back,
    lost::one_canary_of_two_that_is_lost_keeps_the_rest_back,
    lost::who_was_too_late_is_still_too_late_when_it_is_lost,
    refusals::how_objects_are_deleted_changes_with_the_version,
    refusals::what_the_hub_does_not_take_is_told_and_others_go_on,
    refusals::what_was_refused_heals_when_it_is_taken,
    refusals::a_work_that_lost_its_label_gets_it_back,
    refusals::a_work_that_lost_its_label_and_changes_meanwhile_gets_it_back,
    refusals::a_work_that_goes_without_its_label_is_made_anew,
    leaving::an_add_on_goes_when_its_works_are_gone,
    leaving::a_work_that_no_agent_holds_is_deleted_once,
    leaving::an_add_on_as_a_whole_takes_all_with_it,
    leaving::a_quiet_minute_and_a_restart_write_nothing,
    rights::each_controller_has_the_rights_that_it_needs,
}

/// Those that take minutes are only for where time is paused.
macro_rules! where_time_is_paused {
    ($($module:ident::$scenario:ident),* $(,)?) => {
        $(
            #[test]
            fn $scenario() {
                on_paused_time(async { $module::$scenario(&embedded().await).await });
            }
        )*
    };
}

where_time_is_paused! {
    faults::a_configuration_that_changes_on_the_way_is_given_its_own_time,
    faults::a_visit_that_hangs_keeps_no_place_for_ever,
    install::absence_counts_anew_after_a_return,
}
