//! The checker on our server in process, where time is paused, and on real Kubernetes, where it is not.
#![cfg(feature = "controllers")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

mod odd_servers;
mod scenarios;
mod stage;

use bellwether_testkit::{embedded, on_paused_time};

use stage::Stage;

/// Runs each scenario on our server with time paused and a period of ten seconds, and all of them on one real
/// Kubernetes with a period of one.
macro_rules! scenarios {
    ($($scenario:ident),* $(,)?) => {
        $(
            #[test]
            fn $scenario() {
                on_paused_time(async {
                    let cluster = embedded::in_process().await;
                    scenarios::$scenario(&Stage::new(&cluster, 10).await).await;
                });
            }
        )*

        #[cfg(feature = "real-kubernetes")]
        #[test]
        fn all_of_them_on_real_kubernetes() {
            bellwether_testkit::on_real_time(async {
                let cluster = bellwether_testkit::real::cluster("checker").await;
                $(
                    println!("{}", stringify!($scenario));
                    let stage = Stage::new(&cluster, 1).await;
                    scenarios::$scenario(&stage).await;
                    stage.clear().await;
                )*
            });
        }
    };
}

scenarios! {
    an_instance_that_never_beat_is_left_alone,
    pending_is_reported_only_if_asked_for,
    a_beating_addon_is_left_alone,
    silence_is_marked_once_and_the_rest_is_kept,
    the_addons_own_word_stands_when_it_is_back,
    a_plain_pulse_clears_a_timeout,
    an_old_stamp_is_judged_at_first_sight,
    a_clock_that_lags_is_no_silence,
    a_stamp_of_the_future_is_not_believed,
    a_stamp_that_goes_backwards_is_a_beat,
    a_period_of_its_own_counts,
    a_longer_period_gives_more_time,
    a_restart_during_a_timeout_writes_nothing,
    a_beat_that_races_the_timeout_wins,
    a_stamp_that_is_removed_ends_the_judging,
    an_instance_that_is_being_deleted_is_not_judged,
    one_that_is_marked_for_deletion_is_judged,
    a_copy_that_stands_by_writes_nothing_until_it_leads,
    a_copy_that_stands_by_keeps_nothing_of_what_has_gone,
    an_outage_of_the_api_is_no_silence,
    many_beat_and_nothing_is_written,
}

#[test]
fn periods_that_make_no_sense_count_as_ten_seconds_and_harm_nobody() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        scenarios::periods_that_make_no_sense_count_as_ten_seconds(&Stage::new(&cluster, 10).await).await;
    });
}

#[test]
fn a_server_that_was_set_back_is_believed_and_not_asked_without_end() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        odd_servers::a_server_that_was_set_back(&Stage::new(&cluster, 10).await).await;
    });
}

#[test]
fn one_that_is_made_again_during_a_visit_is_judged() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        odd_servers::one_that_is_made_again_during_a_visit(&Stage::new(&cluster, 10).await).await;
    });
}

#[test]
fn after_an_outage_silence_is_marked_within_ten_seconds() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        odd_servers::after_an_outage(&Stage::new(&cluster, 10).await).await;
    });
}

/// One run at the pace of the design document: beats for a minute, silence, and a return; then the periods that make
/// no sense.
async fn in_real_time(cluster: &bellwether_testkit::Cluster) {
    let stage = Stage::new(cluster, 10).await;
    scenarios::a_minute_of_beats_then_silence_then_a_return(&stage).await;
    stage.clear().await;
    scenarios::periods_that_make_no_sense_count_as_ten_seconds(&Stage::new(cluster, 10).await).await;
}

#[test]
fn beats_silence_and_return_in_real_time() {
    bellwether_testkit::on_real_time(async { in_real_time(&embedded::over_tls().await).await });
}

#[cfg(feature = "real-kubernetes")]
#[test]
fn beats_silence_and_return_in_real_time_on_real_kubernetes() {
    bellwether_testkit::on_real_time(async {
        in_real_time(&bellwether_testkit::real::cluster("heartbeats").await).await;
    });
}
