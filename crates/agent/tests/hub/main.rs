//! Scenarios of the agent on the hub: it renews the Lease of its cluster, mirrors heartbeats, and needs exactly the
//! permissions of `deploy/`. On the embedded API server with paused time, and on real Kubernetes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

mod fixture;
mod lease;
mod mirror;
mod permissions;

use bellwether_testkit::HubAndSpoke;

use fixture::Fixture;

bellwether_testkit::scenarios! {
    environment: HubAndSpoke, embedded: HubAndSpoke::embedded, real: HubAndSpoke::real, lanes: 1, fixture: Fixture::prepare;

    lease::lease_is_renewed_and_cluster_status_reported_once,
    lease::lease_is_not_created_before_the_cluster_is_accepted,
    lease::unreachable_cluster_becomes_available_again,
    mirror::silent_addon_and_its_return_are_mirrored,
    mirror::reason_of_the_unhealthy_instance_is_mirrored,
    mirror::single_heartbeats_are_not_mirrored,
    mirror::first_heartbeats_after_a_change_confirm_the_generation_once,
    mirror::conditions_of_other_writers_are_kept,
    mirror::condition_appears_with_the_addon_and_is_removed_with_its_instance,
    permissions::deployed_permissions_are_sufficient_and_minimal,
}
