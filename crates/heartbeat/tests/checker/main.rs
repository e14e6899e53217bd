//! Tests of the heartbeat checker: on the embedded API server with paused time, and with the feature `real-kubernetes` also on
//! real Kubernetes.
#![cfg(feature = "controllers")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed test panics"
)]

mod fixture;
mod scenarios;
mod unusual_servers;

#[cfg(feature = "real-kubernetes")]
use bellwether_testkit::{Cluster, Scenario, on_real_time, real, run_in_lanes};
use bellwether_testkit::{embedded, on_paused_time};

use fixture::Fixture;

/// The number of real Kubernetes clusters on which scenarios run at the same time; most of their time is waiting.
#[cfg(feature = "real-kubernetes")]
const LANES: usize = 3;

/// Runs each scenario on the embedded API server with paused time and a period of ten seconds, and all of them on real
/// Kubernetes with a period of one second.
macro_rules! scenarios {
    ($($scenario:ident),* $(,)?) => {
        $(
            #[test]
            fn $scenario() {
                on_paused_time(async {
                    let cluster = embedded::in_process().await;
                    scenarios::$scenario(&Fixture::new(&cluster, 10).await).await;
                });
            }
        )*

        #[cfg(feature = "real-kubernetes")]
        #[test]
        fn all_scenarios_on_real_kubernetes() {
            // A checker acts on the whole cluster, so that each lane needs a cluster of its own.
            let cluster = async |lane: usize| real::cluster(&format!("checker-{lane}")).await;
            let scenarios: Vec<Scenario<Cluster>> = vec![$(
                (stringify!($scenario), |cluster| {
                    Box::pin(async move {
                        let fixture = Fixture::new(cluster, 1).await;
                        scenarios::$scenario(&fixture).await;
                        fixture.clean_up().await;
                    })
                }),
            )*];
            on_real_time(run_in_lanes(LANES, cluster, scenarios));
        }
    };
}

scenarios! {
    instance_without_heartbeats_is_not_written,
    pending_is_reported_if_enabled,
    heartbeats_cause_no_requests,
    silence_is_marked_once_and_other_fields_are_kept,
    report_of_a_recovered_addon_is_kept,
    heartbeat_without_conditions_clears_a_timeout,
    old_heartbeat_time_is_a_timeout_at_startup,
    slow_clock_of_an_addon_causes_no_timeout,
    heartbeat_time_in_the_future_is_ignored,
    earlier_heartbeat_time_counts_as_a_heartbeat,
    threshold_follows_the_period_of_the_instance,
    longer_period_extends_the_threshold,
    restart_during_a_timeout_writes_nothing,
    heartbeat_during_the_timeout_write_wins,
    removed_heartbeat_time_stops_the_check,
    instance_being_deleted_is_not_checked,
    instance_marked_for_deletion_is_checked,
    standby_writes_nothing_until_it_becomes_leader,
    standby_forgets_deleted_instances,
    api_outage_causes_no_false_timeout,
    heartbeats_of_many_instances_cause_no_requests,
}

#[test]
fn invalid_periods_count_as_ten_seconds_and_affect_no_other_instance() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        scenarios::invalid_periods_count_as_ten_seconds(&Fixture::new(&cluster, 10).await).await;
    });
}

#[test]
fn server_restored_from_a_backup_is_checked_without_a_request_loop() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        unusual_servers::server_restored_from_a_backup(&Fixture::new(&cluster, 10).await).await;
    });
}

#[test]
fn instance_recreated_during_a_reconcile_is_checked() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        unusual_servers::instance_recreated_during_a_reconcile(&Fixture::new(&cluster, 10).await).await;
    });
}

#[test]
fn silence_is_marked_within_ten_seconds_after_an_api_outage() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        unusual_servers::silence_after_an_api_outage(&Fixture::new(&cluster, 10).await).await;
    });
}

/// One run in real time with a period of ten seconds: heartbeats for a minute, silence and recovery; then invalid periods.
async fn run_in_real_time(cluster: &bellwether_testkit::Cluster) {
    let fixture = Fixture::new(cluster, 10).await;
    scenarios::a_minute_of_heartbeats_then_silence_then_recovery(&fixture).await;
    fixture.clean_up().await;
    scenarios::invalid_periods_count_as_ten_seconds(&Fixture::new(cluster, 10).await).await;
}

#[test]
fn heartbeats_silence_and_recovery_in_real_time() {
    bellwether_testkit::on_real_time(async { run_in_real_time(&embedded::over_tls().await).await });
}

#[cfg(feature = "real-kubernetes")]
#[test]
fn heartbeats_silence_and_recovery_in_real_time_on_real_kubernetes() {
    bellwether_testkit::on_real_time(async {
        run_in_real_time(&bellwether_testkit::real::cluster("heartbeats").await).await;
    });
}
