//! The life of an add-on over placements, through the API alone: on our server in process, where time is paused, and on
//! real Kubernetes. An agent of the test answers the works.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

mod fleet;
mod install;
mod leaving;
mod rights;
mod rollouts;
mod versions;

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
    rollouts::two_at_a_time_by_name,
    rollouts::a_failure_stops_the_rest,
    rollouts::a_pause_lets_nobody_begin,
    leaving::an_add_on_goes_when_its_works_are_gone,
    leaving::an_add_on_as_a_whole_takes_all_with_it,
    leaving::a_quiet_minute_and_a_restart_write_nothing,
    rights::each_controller_has_the_rights_that_it_needs,
}
