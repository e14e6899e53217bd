//! What an agent says on the hub besides its works: that the cluster is in reach, and which add-ons beat; and that its
//! rights are enough, and not too much. On our server in process, where time is paused, and on real Kubernetes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

mod lease;
mod mirror;
mod rights;
mod stage;

use bellwether_testkit::embedded;

use stage::{Ground, Stage};

/// A fresh hub and a fresh cluster of our own.
async fn embedded() -> Ground {
    let server = embedded::builder().clusters(["spoke"]).start().await.expect("the server starts");
    Ground { hub: embedded::of(&server, bellwether_apiserver::HUB), spoke: embedded::of(&server, "spoke") }
}

/// The same on two clusters of real Kubernetes.
#[cfg(feature = "real-kubernetes")]
async fn real(_lane: usize) -> Ground {
    use bellwether_testkit::real;
    Ground { hub: real::cluster("hub").await, spoke: real::cluster("spoke").await }
}

bellwether_testkit::scenarios! {
    ground: Ground, embedded: embedded, real: real, lanes: 1, stage: Stage::prepare;

    lease::a_cluster_says_that_it_is_in_reach_and_what_it_is,
    lease::a_cluster_that_is_not_accepted_says_nothing,
    lease::a_cluster_that_counted_as_lost_is_back,
    mirror::an_add_on_that_falls_silent_and_comes_back_is_told_of,
    mirror::an_add_on_that_is_not_well_says_why,
    mirror::heartbeats_alone_are_not_told,
    mirror::the_first_heartbeats_after_a_change_vouch_for_it_once,
    mirror::conditions_of_others_stay_as_they_are,
    mirror::an_add_on_that_comes_later_is_told_of_and_one_that_goes_is_taken_back,
    rights::the_rights_of_an_agent_are_enough_and_not_too_much,
}
