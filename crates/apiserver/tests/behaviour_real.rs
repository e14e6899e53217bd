//! The behavioural suite against kube-apiserver and etcd, from `KUBEBUILDER_ASSETS`. What a case asserts is what
//! Kubernetes does; where ours differs on purpose, the case names the difference.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

mod behaviour;
mod probe;

use std::sync::RwLock;

use bellwether_testkit::{embedded, on_real_time, real};
use libtest_mimic::{Arguments, Trial};

/// Cases share one server: those that drop its history must be alone on it.
static HISTORY: RwLock<()> = RwLock::new(());

fn main() {
    let mut trials = Vec::new();
    for case in behaviour::all() {
        trials.push(Trial::test(format!("real::{case}"), move || {
            let _shared;
            let _alone;
            if case.section == "expiry" {
                _alone = HISTORY.write().unwrap_or_else(std::sync::PoisonError::into_inner);
            } else {
                _shared = HISTORY.read().unwrap_or_else(std::sync::PoisonError::into_inner);
            }
            on_real_time(async {
                let mut cluster = real::cluster("hub").await;
                if case.section == "expiry" {
                    // A server that started later does not know the first revisions any more.
                    cluster = real::cluster("late").await;
                }
                (case.run)(&cluster).await;
            });
            Ok(())
        }));
    }
    trials.push(Trial::test("probe", || {
        let _shared = HISTORY.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        on_real_time(async {
            probe::compare(&real::cluster("hub").await, &embedded::over_tls().await).await;
        });
        Ok(())
    }));
    trials.push(Trial::test("access", || {
        let _shared = HISTORY.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        on_real_time(async {
            probe::access::compare(&real::cluster("hub").await, &embedded::over_tls().await).await;
        });
        Ok(())
    }));
    let mut arguments = Arguments::from_args();
    // The cases mostly wait for the server.
    arguments.test_threads.get_or_insert(6);
    libtest_mimic::run(&arguments, trials).exit();
}
