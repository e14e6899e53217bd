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
#[path = "behaviour/bullets.rs"]
mod bullets;

use std::collections::BTreeSet;

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
    trials.push(Trial::test("every_must_has_a_case_and_every_case_a_must", || {
        every_must_has_a_case_and_every_case_a_must();
        Ok(())
    }));
    trials.push(Trial::test("every_difference_is_documented", || {
        every_difference_is_documented();
        Ok(())
    }));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn every_must_has_a_case_and_every_case_a_must() {
    let mut known: BTreeSet<String> = behaviour::all().iter().map(ToString::to_string).collect();
    for (file, text) in [("tls", include_str!("tls.rs")), ("time", include_str!("time.rs"))] {
        let tests = text.split("async fn ").skip(1).filter_map(|rest| rest.split('(').next());
        known.extend(
            tests
                .filter(|name| text.contains(&format!(")]\nasync fn {name}()")))
                .map(|name| format!("{file}::{name}")),
        );
    }
    let named: BTreeSet<String> =
        bullets::BULLETS.iter().flat_map(|bullet| bullet.cases).map(|case| (*case).to_owned()).collect();
    let missing: Vec<&String> = named.difference(&known).collect();
    assert!(missing.is_empty(), "the table names cases that are not there: {missing:#?}");
    let homeless: Vec<&String> = known
        .iter()
        .filter(|case| !case.starts_with("tls::") && !case.starts_with("time::"))
        .filter(|case| !named.contains(*case))
        .collect();
    assert!(homeless.is_empty(), "the table lacks cases: {homeless:#?}");
    for bullet in bullets::BULLETS {
        assert!(!bullet.cases.is_empty(), "§{} {} has no case", bullet.section, bullet.must);
    }
    for section in bullets::SECTIONS {
        assert!(bullets::BULLETS.iter().any(|bullet| bullet.section == section), "§{section} is missing");
    }
}

fn every_difference_is_documented() {
    let page = include_str!("../../../docs/apiserver.md");
    for difference in behaviour::difference::Difference::ALL {
        let row = format!("| `{difference:?}` |");
        assert!(page.contains(&row), "docs/apiserver.md has no row {row}");
    }
}
