//! The differential test: kinds, objects and definitions made up at random, judged by our server and by
//! kube-apiserver. The seeds are fixed, so that every run asks the same.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test that cannot go on ends with a panic"
)]
#![cfg(feature = "real-kubernetes")]

#[path = "differential/applies.rs"]
mod applies;
#[path = "differential/compare.rs"]
mod compare;
#[path = "differential/definitions.rs"]
mod definitions;
#[path = "differential/exceptions.rs"]
mod exceptions;
#[path = "differential/formats.rs"]
mod formats;
#[path = "differential/kinds.rs"]
mod kinds;
#[path = "differential/objects.rs"]
mod objects;
#[path = "differential/patches.rs"]
mod patches;
#[path = "differential/patterns.rs"]
mod patterns;
#[path = "differential/published.rs"]
mod published;
#[path = "differential/rng.rs"]
mod rng;
#[path = "differential/schemas.rs"]
mod schemas;
#[path = "differential/stories.rs"]
mod stories;
#[path = "differential/strategic.rs"]
mod strategic;
#[path = "differential/writers.rs"]
mod writers;

use bellwether_testkit::{embedded, on_real_time, real};
use compare::{Both, Tally};
use futures::StreamExt as _;
use kinds::Kind;

const KINDS: u64 = 100;

async fn both() -> Both {
    Both { kubernetes: real::cluster("hub").await, ours: embedded::over_tls().await }
}

#[test]
fn objects_of_generated_kinds_are_judged_alike() {
    on_real_time(async {
        let both = both().await;
        let mut tally = Tally::default();
        let mut kinds = Vec::new();
        for seed in 0..KINDS {
            let mut kind = Kind::new(seed);
            kind.prepare(&both, &mut tally).await;
            kinds.push(kind);
        }
        let started = std::time::Instant::now();
        futures::stream::iter(&kinds)
            .for_each_concurrent(8, |kind| async {
                kind.create(&both.kubernetes).await;
                kind.create(&both.ours).await;
            })
            .await;
        println!("created after {:?}", started.elapsed());
        for kind in &kinds {
            kind.served(&both.kubernetes).await;
            kind.served(&both.ours).await;
        }
        println!("served after {:?}", started.elapsed());
        let pairs = kinds.iter().flat_map(Kind::pairs).collect();
        both.compare(pairs, &mut tally).await;
        println!("compared after {:?}", started.elapsed());
        for kind in &kinds {
            kind.live(&both, &mut tally).await;
        }
        println!("lived after {:?}", started.elapsed());
        tally.finish(4_000);
    });
}

#[test]
fn wrong_definitions_are_refused_alike() {
    on_real_time(async {
        let both = both().await;
        let mut tally = Tally::default();
        both.compare(definitions::one_by_one(), &mut tally).await;
        both.compare(definitions::at_random(400), &mut tally).await;
        definitions::changes(&both, &mut tally).await;
        tally.finish(600);
    });
}

#[test]
fn patches_and_patterns_mean_the_same() {
    on_real_time(async {
        let both = both().await;
        let mut tally = Tally::default();
        patches::compare(&both, &mut tally).await;
        patterns::compare(&both, &mut tally).await;
        strategic::compare(&both, &mut tally).await;
        tally.finish(580);
    });
}

#[test]
fn definitions_of_well_known_projects_work_unchanged() {
    on_real_time(async {
        let both = both().await;
        let mut tally = Tally::default();
        published::compare(&both, &mut tally).await;
        tally.finish(700);
    });
}

#[test]
fn managers_own_the_same_after_the_same_writes() {
    on_real_time(async {
        let both = both().await;
        let mut tally = Tally::default();
        applies::compare(&both, &mut tally).await;
        tally.finish(9_000);
    });
}
