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

    choosing::as_many_as_are_wanted_in_decisions_of_a_hundred,
    choosing::taints_keep_clusters_away,
    choosing::a_toleration_ends,
    choosing::a_binding_that_goes_takes_the_choice_along,
    choosing::groups_are_told_in_their_order,
    choosing::those_that_others_have_chosen_come_last,
    choosing::a_placement_that_makes_no_sense_keeps_what_it_has,
    choosing::a_placement_that_is_not_to_be_scheduled_is_left_alone,
    telling::one_that_sorts_first_joins_and_nobody_vanishes,
    telling::groups_that_change_places_and_nobody_vanishes,
    telling::a_reader_knows_a_choice_that_is_told_in_full,
    settling::nothing_is_decided_before_all_is_known_and_then_everything_is,
    settling::a_restart_writes_nothing,
    settling::many_that_join_at_once_are_few_writes,
    settling::a_decision_that_somebody_changes_is_put_right,
    settling::a_deleted_placement_takes_its_decisions_along,
    settling::a_write_that_loses_a_race_is_decided_again,
    clusters::an_accepted_cluster_gets_its_namespace,
    clusters::silence_taints_a_cluster_and_its_return_clears_it,
    clusters::a_restart_is_nobodys_silence,
    clusters::an_outage_of_the_api_is_nobodys_silence,
    clusters::a_cluster_goes_when_its_add_ons_and_then_its_works_are_gone,
    clusters::renewals_cause_no_request,
    clusters::sets_and_bindings_say_how_they_are,
    rights::each_controller_has_the_rights_that_it_needs,
}
