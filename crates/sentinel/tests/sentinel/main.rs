//! A Sentinel with a fleet, a broker and adapters that can fail, on paused time: no pulse is missing, and there is no storm.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod fleet;
mod http_feed;

use std::num::NonZeroU32;
use std::time::Duration;

use bellwether_sentinel::shard::OwnedShards;
use fleet::{Adapters, Fleet};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn new_resource_is_pulsed_once_at_once_and_becomes_ready() {
    let fleet = Fleet::start(Adapters::Reporting).await;
    let id = fleet.create();
    fleet.pass(SECOND).await;
    assert_eq!(fleet.pulses(id), 1);
    assert!(fleet.is_ready(id));
    fleet.pass(29 * MINUTE).await;
    assert_eq!(fleet.pulses(id), 1, "a ready resource rests for 30 minutes");
    fleet.pass(2 * MINUTE).await;
    assert_eq!(fleet.pulses(id), 2);
    fleet.pass(31 * MINUTE).await;
    assert_eq!(fleet.pulses(id), 3);
}

#[tokio::test(start_paused = true)]
async fn each_new_generation_is_pulsed_once_at_once() {
    let fleet = Fleet::start(Adapters::Reporting).await;
    let id = fleet.create();
    fleet.pass(5 * SECOND).await;
    for generation in 2..5 {
        fleet.change(id);
        fleet.pass(SECOND).await;
        assert_eq!(fleet.pulses(id), generation);
        assert!(fleet.is_ready(id));
    }
    assert_eq!(fleet.pulsed_generations(id), [1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn silent_adapters_cause_at_most_one_pulse_per_ttl() {
    for adapters in [Adapters::Down, Adapters::Unknown] {
        let fleet = Fleet::start(adapters).await;
        let ids: Vec<_> = (0..20).map(|_| fleet.create()).collect();
        fleet.pass(10 * MINUTE).await;
        for id in &ids {
            let pulses = fleet.pulses(*id);
            // The TTL of 10 s is exceeded at a cycle of 5 s: a pulse every 15 s, and never two within 10 s.
            assert!((38..=61).contains(&pulses), "{adapters:?}: {pulses}");
            assert!(fleet.shortest_interval(*id) > 10 * SECOND, "{adapters:?}");
        }
        fleet.set_adapters(Adapters::Reporting);
        fleet.pass(20 * SECOND).await;
        assert!(ids.iter().all(|id| fleet.is_ready(*id)), "{adapters:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn broker_outage_loses_no_pulse_and_causes_no_storm() {
    let fleet = Fleet::start(Adapters::Reporting).await;
    fleet.set_broker_up(false);
    let ids: Vec<_> = (0..200).map(|_| fleet.create()).collect();
    fleet.pass(5 * MINUTE).await;
    assert!(fleet.attempts() < 120, "{} attempts while the broker was down", fleet.attempts());
    assert!(
        fleet.not_ready().iter().any(|(component, _)| component.contains("broker")),
        "{:?}",
        fleet.not_ready()
    );
    fleet.set_broker_up(true);
    fleet.pass(17 * SECOND).await;
    for id in ids {
        assert_eq!(fleet.pulses(id), 1);
        assert!(fleet.is_ready(id));
    }
    assert!(fleet.not_ready().is_empty(), "{:?}", fleet.not_ready());
}

#[tokio::test(start_paused = true)]
async fn api_outage_pauses_pulses_and_every_change_is_pulsed_afterwards() {
    let fleet = Fleet::start(Adapters::Down).await;
    let (kept, changed) = (fleet.create(), fleet.create());
    fleet.pass(SECOND).await;
    fleet.set_api_up(false);
    fleet.change(changed);
    fleet.pass(10 * MINUTE).await;
    assert_eq!(
        (fleet.pulses(kept), fleet.pulses(changed)),
        (1, 1),
        "adapters cannot report while the API is down"
    );
    assert!(
        fleet.not_ready().iter().any(|(component, _)| component.contains("fleet API")),
        "{:?}",
        fleet.not_ready()
    );
    fleet.set_api_up(true);
    fleet.pass(17 * SECOND).await;
    assert_eq!(fleet.pulsed_generations(changed)[..2], [1, 2]);
    assert!(fleet.pulses(kept) <= 3 && fleet.pulses(changed) <= 3);
    assert!(fleet.not_ready().is_empty(), "{:?}", fleet.not_ready());
}

#[tokio::test(start_paused = true)]
async fn feed_that_begins_anew_repeats_no_pulse() {
    let fleet = Fleet::start(Adapters::Down).await;
    let (kept, deleted) = (fleet.create(), fleet.create());
    fleet.pass(SECOND).await;
    fleet.set_api_up(false);
    fleet.delete(deleted);
    fleet.expire();
    fleet.pass(SECOND).await;
    fleet.set_api_up(true);
    fleet.pass(8 * SECOND).await;
    assert_eq!(fleet.pulses(kept), 1);
    fleet.pass(MINUTE).await;
    assert_eq!(fleet.pulses(deleted), 1, "it was removed while the feed was away");
    assert!(fleet.pulses(kept) > 3);
}

#[tokio::test(start_paused = true)]
async fn shards_divide_the_resources_and_a_lost_shard_is_taken_over() {
    let two = NonZeroU32::new(2).unwrap();
    let (first, first_shards) = OwnedShards::manual(two);
    let (second, second_shards) = OwnedShards::manual(two);
    let fleet = Fleet::start_with(Adapters::Reporting, vec![first_shards, second_shards]).await;
    first.send_replace([0].into());
    second.send_replace([1].into());
    fleet.pass(SECOND).await;
    let ids: Vec<_> = (0..40).map(|_| fleet.create()).collect();
    fleet.pass(SECOND).await;
    assert!(ids.iter().all(|id| fleet.pulses(*id) == 1), "each is pulsed by one of the two");
    second.send_replace([].into());
    first.send_replace([0, 1].into());
    fleet.pass(SECOND).await;
    for id in &ids {
        fleet.change(*id);
    }
    fleet.pass(SECOND).await;
    assert!(ids.iter().all(|id| fleet.pulsed_generations(*id) == [1, 2]));
}

#[tokio::test(start_paused = true)]
async fn restarted_sentinel_pulses_what_changed_while_it_was_away() {
    let mut fleet = Fleet::start(Adapters::Reporting).await;
    let (ready, changed) = (fleet.create(), fleet.create());
    fleet.pass(SECOND).await;
    fleet.stop_sentinels().await;
    fleet.change(changed);
    fleet.pass(MINUTE).await;
    fleet.start_sentinel(OwnedShards::all());
    fleet.pass(SECOND).await;
    assert_eq!(fleet.pulsed_generations(changed), [1, 2]);
    assert_eq!(fleet.pulses(ready), 1);
}
