//! All parts together: a hub with its clusters, placements, add-ons and their versions, and clusters whose real agents
//! bring what the hub asks for. On our server in process, where time is paused, and on real Kubernetes.
//!
//! Where each of the thirty acceptance tests of `spec/lifecycle.md` §6 is. What has no suite is here; `lifecycle` and
//! `placement` are beside this one, `work` is the agent's.
//!
//! | number | test |
//! |---|---|
//! | 1 | `an_add_on_follows_its_placement_down_to_the_clusters`; lifecycle: `clusters_come_and_go_with_the_decision` |
//! | 2 | `by_hand_nothing_comes_and_nothing_goes`; lifecycle: `by_hand_nothing_is_made_and_nothing_is_taken` |
//! | 3 | `an_add_on_follows_its_placement_down_to_the_clusters` |
//! | 4 | lifecycle: `a_fresh_install_takes_the_default` |
//! | 5 | `a_new_default_comes_to_all_who_follow_it_and_is_counted`; lifecycle: `a_new_version_upgrades_those_that_follow_the_default` |
//! | 6, 7 | lifecycle: `a_canary_goes_first_and_back`; `of_two_placements_the_later_counts_and_both_come_to_an_end` |
//! | 8, 9 | lifecycle: `a_version_that_there_is_not_fails_and_changes_nothing` |
//! | 10 | lifecycle: `an_answer_to_an_older_generation_does_not_count` |
//! | 11 | lifecycle: `a_work_that_cannot_be_applied_fails_and_heals`; `a_manifest_that_a_cluster_rejects_is_named_with_its_words` |
//! | 12 | lifecycle: `large_versions_are_several_works_and_small_ones_take_them_away`; `a_version_of_ten_megabytes_is_refused_and_whoever_asks_for_it_is_told` |
//! | 13 | `a_version_without_objects_is_there_at_once` |
//! | 14 | `works_of_others_never_count`; lifecycle: `what_only_looks_like_a_work_of_the_add_on_is_left_alone_and_told` |
//! | 15 | `what_a_person_sets_stays_and_the_rollout_ends_without_it`; lifecycle: `what_a_person_has_set_stays` |
//! | 16 | `of_two_placements_the_later_counts_and_both_come_to_an_end` |
//! | 17 | `a_new_default_comes_to_all_who_follow_it_and_is_counted` |
//! | 18 | lifecycle: `two_at_a_time_by_name`; `never_more_than_may_change_at_the_same_time` |
//! | 19 | `who_takes_too_long_is_counted_and_too_many_stop_the_rest` |
//! | 20 | `the_next_group_waits_until_the_one_before_has_been_well_for_a_while` |
//! | 21 | `a_group_that_must_not_fail_goes_first_and_stops_all_when_it_does` |
//! | 22 | `one_after_the_other_nothing_is_made_before_its_turn` |
//! | 23 | `an_add_on_goes_after_its_objects_and_waits_for_an_agent_that_is_away`; lifecycle: `an_add_on_goes_when_its_works_are_gone` |
//! | 24 | `an_add_on_as_a_whole_takes_everything_along`; lifecycle: `an_add_on_as_a_whole_takes_all_with_it` |
//! | 25 | work: `object_is_applied_and_recorded`, `changed_manifests_are_applied_and_removed_objects_deleted`, `deleted_work_waits_for_finalizers_of_its_objects` |
//! | 26 | work: `crd_and_custom_resource_can_be_in_the_same_work`, `workload_with_service_account_and_rbac_is_applied` |
//! | 27 | work: `apply_conflict_is_reported_and_resolved_by_force`, `create_only_object_is_not_updated`, `object_of_two_works_is_deleted_with_the_last` |
//! | 28 | work: `well_known_status_of_workloads_is_reported`, `changed_object_is_reverted`, `no_requests_are_sent_while_nothing_changes` |
//! | 29 | placement: `as_many_as_are_wanted_in_decisions_of_a_hundred`, `taints_keep_clusters_away`, `a_toleration_ends`, `a_binding_that_goes_takes_the_choice_along` |
//! | 30 | placement: `groups_are_told_in_their_order`, `one_that_sorts_first_joins_and_nobody_vanishes`; `of_a_hundred_and_fifty_clusters_none_loses_its_add_on_when_one_joins_that_comes_first` |
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

mod counted;
mod deaths;
mod failures;
mod fleet;
mod following;
mod leaving;
mod rollouts;

use bellwether_testkit::embedded;
use fleet::{Controllers, Theatre};

/// A fresh hub and six fresh clusters of our own.
async fn embedded() -> Theatre {
    let names = ["s1", "s2", "s3", "s4", "s5", "s6"];
    let server = embedded::builder().clusters(names).start().await.expect("the server starts");
    let spokes = names.map(|name| embedded::of(&server, name));
    let hub = embedded::of(&server, bellwether_apiserver::HUB);
    Theatre::prepare(hub, spokes.into(), Controllers::Own).await
}

/// Two clusters of real Kubernetes: a hub, whose controllers look after all lanes, and one that all agents share.
#[cfg(feature = "real-kubernetes")]
async fn real(lane: usize) -> Theatre {
    use bellwether_testkit::real;
    let (hub, spoke) = (real::cluster("hub").await, real::cluster("spoke").await);
    let theatre = Theatre::prepare(hub, vec![spoke], Controllers::Shared).await;
    if lane == 0 {
        let client = theatre.hub.client();
        let controllers =
            fleet::hub_controllers(bellwether_clock::SteadyClock::default(), |_| client.clone());
        // Until the end of the process: others may still need them when this lane is through.
        std::mem::forget(controllers);
    }
    theatre
}

async fn itself(theatre: &Theatre) -> &Theatre {
    theatre
}

bellwether_testkit::scenarios! {
    ground: Theatre, embedded: embedded, real: real, lanes: 8, stage: itself;

    following::by_hand_nothing_comes_and_nothing_goes,
    following::an_add_on_follows_its_placement_down_to_the_clusters,
    rollouts::who_takes_too_long_is_counted_and_too_many_stop_the_rest,
    failures::a_cluster_that_never_answers_is_waited_for_and_keeps_nobody_else,
    following::works_of_others_never_count,
    following::what_a_person_sets_stays_and_the_rollout_ends_without_it,
    following::of_two_placements_the_later_counts_and_both_come_to_an_end,
    following::a_new_default_comes_to_all_who_follow_it_and_is_counted,
    following::a_version_without_objects_is_there_at_once,
    rollouts::the_next_group_waits_until_the_one_before_has_been_well_for_a_while,
    rollouts::a_group_that_must_not_fail_goes_first_and_stops_all_when_it_does,
    rollouts::one_after_the_other_nothing_is_made_before_its_turn,
    rollouts::with_workloads_the_next_waits_for_the_new_copies,
    rollouts::with_health_the_next_waits_for_a_heartbeat_after_the_change,
    counted::never_more_than_may_change_at_the_same_time,
    failures::a_template_that_cannot_be_rendered_says_which_object_and_why,
    failures::a_manifest_that_a_cluster_rejects_is_named_with_its_words,
    failures::a_version_of_ten_megabytes_is_refused_and_whoever_asks_for_it_is_told,
    leaving::an_add_on_goes_after_its_objects_and_waits_for_an_agent_that_is_away,
    leaving::an_add_on_as_a_whole_takes_everything_along,
    leaving::a_cluster_that_is_deleted_is_cleared_and_not_filled_again,
}
