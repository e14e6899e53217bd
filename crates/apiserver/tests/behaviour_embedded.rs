//! The behavioural suite against our own server, in process and over TLS. `behaviour_real` runs the same cases
//! against kube-apiserver.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

mod behaviour;

use bellwether_testkit::{embedded, on_paused_time, on_real_time};
use libtest_mimic::{Arguments, Trial};

fn main() {
    let mut trials = Vec::new();
    for case in behaviour::all() {
        trials.push(Trial::test(format!("in_process::{case}"), move || {
            on_paused_time(async { (case.run)(&embedded::in_process().await).await });
            Ok(())
        }));
        trials.push(Trial::test(format!("tls::{case}"), move || {
            on_real_time(async { (case.run)(&embedded::over_tls().await).await });
            Ok(())
        }));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
