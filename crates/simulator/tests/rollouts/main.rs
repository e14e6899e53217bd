//! Rollouts on our server in process, where time is paused, and on real Kubernetes, which checks what is written.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

mod scenarios;

use std::sync::Arc;
use std::time::Duration;

use bellwether_runtime::Context;
use bellwether_simulator::Simulator;
use bellwether_testkit::{Cluster, SteadyClock, embedded, on_paused_time};
use tokio::task::JoinSet;

/// How long rollouts take that ask for nothing else. Where time is real, it is dear.
pub(crate) fn delay(cluster: &Cluster) -> Duration {
    if cluster.is_kubernetes() { Duration::from_millis(500) } else { Duration::from_secs(2) }
}

/// A simulator of a cluster, until it is dropped.
pub(crate) fn simulate(cluster: &Cluster) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let clock = Arc::new(SteadyClock::default());
    let context = Context { clock, ..Context::standalone(cluster.client()) };
    tasks.spawn(Simulator::new(context, delay(cluster)).run());
    tasks
}

/// Runs each scenario on our server with time paused, and all of them on one real Kubernetes.
macro_rules! scenarios {
    ($($scenario:ident),* $(,)?) => {
        $(
            #[test]
            fn $scenario() {
                on_paused_time(async {
                    scenarios::$scenario(&embedded::in_process().await).await;
                });
            }
        )*

        #[cfg(feature = "real-kubernetes")]
        #[test]
        fn real_kubernetes_accepts_every_status() {
            bellwether_testkit::on_real_time(async {
                let cluster = bellwether_testkit::real::cluster("simulator").await;
                $(
                    println!("{}", stringify!($scenario));
                    scenarios::$scenario(&cluster).await;
                )*
            });
        }
    };
}

scenarios! {
    a_deployment_becomes_available_after_the_delay,
    a_new_template_rolls_out_while_the_old_replicas_stay_available,
    a_deployment_scales_to_zero_and_back,
    a_failing_deployment_misses_its_deadline_and_recovers_when_it_may,
    what_never_becomes_ready_stays_as_it_begins,
    a_delay_of_its_own_counts,
    a_stateful_set_becomes_ready_and_changes_its_revision,
    a_daemon_set_runs_on_every_schedulable_node,
    a_job_completes,
    a_job_fails,
    a_suspended_job_waits,
    an_unreadable_annotation_is_told_once_and_ignored,
    nothing_is_written_when_nothing_changes,
    a_restart_leaves_what_is_ready_alone_and_finishes_what_was_begun,
}
