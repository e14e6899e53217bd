//! The store on a disk that loses power, fails to sync or is full, at a thousand seeded points. What counts is
//! what a client was told: nothing acknowledged is lost, nothing refused appears, no revision is used twice.

// A test says what it expects by panicking, in its helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use bellwether_store::{CommitError, Event, EventKind, Expect, Health, Revision, Space, Store, Watch};
use common::{HandClock, Platter, Trouble, delete, options, put, run, space};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::task::JoinSet;

const SEEDS_WITH_POWER_CUTS: u64 = 1000;
const SEEDS_WITH_OTHER_TROUBLE: u64 = 150;

/// What the clients of a store were told.
#[derive(Default)]
struct Told {
    attempts: u64,
    acknowledged: BTreeMap<Revision, Fact>,
    refused: BTreeSet<String>,
}

/// A write as a client or a watcher sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fact {
    kind: EventKind,
    space: Space,
    path: String,
    value: String,
}

impl Fact {
    fn of(space: &Space, event: &Event<()>) -> Self {
        Self {
            kind: event.kind(),
            space: space.clone(),
            path: event.entry().path().to_string(),
            value: text(event.entry().value()),
        }
    }

    /// What the client sent, without the revision that the store added.
    fn sent(&self) -> &str {
        self.value.split('@').next().unwrap()
    }
}

/// A client that lists once and then follows.
struct Follower {
    space: Space,
    watch: Watch<()>,
    objects: BTreeMap<String, String>,
    seen: BTreeMap<Revision, Fact>,
}

impl Follower {
    fn start(store: &Store<()>, space: &Space) -> Self {
        let snapshot = store.snapshot(space);
        Self {
            space: space.clone(),
            watch: store.watch(space, snapshot.revision()).unwrap(),
            objects: listed(store, space),
            seen: BTreeMap::new(),
        }
    }

    /// Takes over what there is; false if it must list again.
    fn catch_up(&mut self) -> bool {
        let Ok(events) = self.watch.try_next() else { return false };
        for event in events {
            let fact = Fact::of(&self.space, &event);
            match fact.kind {
                EventKind::Put => self.objects.insert(fact.path.clone(), fact.value.clone()),
                EventKind::Delete => self.objects.remove(&fact.path),
            };
            assert_eq!(self.seen.insert(event.revision(), fact), None, "an event was seen twice");
        }
        true
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn listed(store: &Store<()>, space: &Space) -> BTreeMap<String, String> {
    store.snapshot(space).iter().map(|entry| (entry.path().to_string(), text(entry.value()))).collect()
}

fn spaces() -> [Space; 2] {
    [space("hub/a"), space("hub/b")]
}

/// Clients that write at random, several at a time, until one is turned away for another reason than a conflict.
async fn work(store: &Store<()>, random: &mut StdRng, told: &mut Told, rounds: usize) {
    for _ in 0..rounds {
        let mut commits = JoinSet::new();
        for _ in 0..random.random_range(1..8) {
            told.attempts += 1;
            let space = spaces()[random.random_range(0..2)].clone();
            let path = format!("ns/{}", random.random_range(0..6));
            let padding = "x".repeat(random.random_range(0..1500));
            let value = format!("{}{padding}", told.attempts);
            let expect = match (random.random_range(0..4), store.get(&space, &path)) {
                (0, _) => Expect::Absent,
                (1, Some(entry)) => Expect::At(entry.revision()),
                _ => Expect::Any,
            };
            let (kind, write) = match random.random_bool(0.7) {
                true => (EventKind::Put, put(&space, &path, expect, &value)),
                false => (EventKind::Delete, delete(&space, &path, expect, &value)),
            };
            let store = store.clone();
            commits.spawn(async move { (Fact { kind, space, path, value }, store.commit(write).await) });
        }
        if random.random_bool(0.15) {
            let back = random.random_range(0..10);
            store.compact_to(Revision(store.revision().0.saturating_sub(back))).await;
        }
        let mut turned_away = false;
        while let Some(done) = commits.join_next().await {
            let (mut fact, outcome) = done.unwrap();
            match outcome {
                Ok(entry) => {
                    fact.value = text(entry.value());
                    assert_eq!(fact.value.split('@').nth(1), Some(entry.revision().to_string().as_str()));
                    assert_eq!(
                        told.acknowledged.insert(entry.revision(), fact),
                        None,
                        "a revision was used twice"
                    );
                }
                Err(CommitError::Conflict { .. }) => {
                    told.refused.insert(fact.value);
                }
                Err(CommitError::ReadOnly { .. }) => turned_away = true,
                Err(other) => panic!("{other}"),
            }
        }
        if turned_away {
            return;
        }
    }
}

/// All events that a store still has, of all spaces.
fn history(store: &Store<()>) -> BTreeMap<Revision, Fact> {
    let mut history = BTreeMap::new();
    for space in spaces() {
        for event in store.watch(&space, store.compacted()).unwrap().try_next().unwrap() {
            history.insert(event.revision(), Fact::of(&space, &event));
        }
    }
    history
}

/// Holds what clients were told against what a store shows.
fn check(store: &Store<()>, told: &Told) {
    let history = history(store);
    let (compacted, newest) = (store.compacted(), store.revision());
    let expected: Vec<_> = (compacted.0 + 1..=newest.0).map(Revision).collect();
    assert_eq!(history.keys().copied().collect::<Vec<_>>(), expected, "the history has gaps");

    for (revision, fact) in &told.acknowledged {
        if *revision > compacted {
            assert_eq!(history.get(revision), Some(fact), "revision {revision} was acknowledged and is lost");
        }
    }
    for fact in history.values() {
        assert!(!told.refused.contains(fact.sent()), "a refused write was made: {fact:?}");
    }

    // What was acknowledged and what the history adds to it is exactly what is listed.
    let mut facts = told.acknowledged.clone();
    facts.extend(history);
    let mut objects: HashMap<Space, BTreeMap<String, String>> = HashMap::new();
    for fact in facts.into_values() {
        let objects = objects.entry(fact.space).or_default();
        match fact.kind {
            EventKind::Put => objects.insert(fact.path, fact.value),
            EventKind::Delete => objects.remove(&fact.path),
        };
    }
    for space in spaces() {
        assert_eq!(listed(store, &space), objects.remove(&space).unwrap_or_default(), "{space} differs");
    }
}

/// A follower that comes back after a restart with its last position.
fn check_resumed(store: &Store<()>, mut follower: Follower) {
    let history = history(store);
    for (revision, fact) in &follower.seen {
        if *revision > store.compacted() {
            assert_eq!(history.get(revision), Some(fact), "an event was seen that did not last");
        }
    }
    let Ok(watch) = store.watch(&follower.space, follower.watch.position()) else { return };
    follower.watch = watch;
    assert!(follower.catch_up());
    assert_eq!(follower.objects, listed(store, &follower.space), "a resumed watch misses something");
}

#[test]
fn nothing_acknowledged_is_lost_in_a_power_cut() {
    for seed in 0..SEEDS_WITH_POWER_CUTS {
        run(async {
            let mut random = StdRng::seed_from_u64(seed);
            let options = options(&HandClock::default());
            let mut platter = Platter::default();
            let mut told = Told::default();
            // More than one cut, as the second meets a disk that was repaired.
            for _ in 0..2 {
                let store = Store::with_backend(platter.clone(), options.clone()).expect("the disk is sound");
                check(&store, &told);
                let mut followers = spaces().map(|space| Follower::start(&store, &space));
                platter.trouble_after(random.random_range(0..60), Trouble::PowerCut);
                work(&store, &mut random, &mut told, 12).await;
                let resuming = followers.each_mut().map(|follower| follower.catch_up());
                store.close().await;

                platter = platter.after_power_cut(&mut random);
                let store = Store::with_backend(platter.clone(), options.clone()).expect("the disk is sound");
                check(&store, &told);
                for (follower, resuming) in followers.into_iter().zip(resuming) {
                    if resuming {
                        check_resumed(&store, follower);
                    }
                }
                // What nobody was told about may have happened: from here on it has.
                told.acknowledged.extend(history(&store));
                store.close().await;
            }
        });
    }
}

#[test]
fn a_failed_sync_ends_all_writes_and_nothing_acknowledged_is_lost() {
    for seed in 0..SEEDS_WITH_OTHER_TROUBLE {
        run(async {
            let mut random = StdRng::seed_from_u64(seed);
            let options = options(&HandClock::default());
            let platter = Platter::default();
            let mut told = Told::default();
            let store = Store::with_backend(platter.clone(), options.clone()).unwrap();
            platter.trouble_after(random.random_range(0..40), Trouble::SyncFails);
            work(&store, &mut random, &mut told, 100).await;

            assert_eq!(store.failed().await, "the sync failed");
            assert!(matches!(store.health(), Health::Failed { .. }));
            let late = store.commit(put(&spaces()[0], "late", Expect::Any, "late")).await;
            assert!(matches!(late, Err(CommitError::ReadOnly { .. })), "{late:?}");
            check(&store, &told);
            store.close().await;

            let platter = match random.random_bool(0.5) {
                true => platter.after_power_cut(&mut random),
                false => Platter::holding(platter.image()),
            };
            let store = Store::with_backend(platter, options).expect("the disk is sound");
            assert_eq!(store.get(&spaces()[0], "late").map(|_| ()), None);
            check(&store, &told);
            store.close().await;
        });
    }
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room_and_nothing_acknowledged_is_lost() {
    for (seed, trouble) in
        (0..SEEDS_WITH_OTHER_TROUBLE).flat_map(|seed| [(seed, Trouble::Full), (seed, Trouble::FullAtSync)])
    {
        run(async {
            let mut random = StdRng::seed_from_u64(seed);
            let clock = HandClock::default();
            let options = options(&clock);
            let platter = Platter::default();
            let mut told = Told::default();
            let store = Store::with_backend(platter.clone(), options.clone()).unwrap();
            let mut followers = spaces().map(|space| Follower::start(&store, &space));
            platter.trouble_after(random.random_range(0..40), trouble);
            work(&store, &mut random, &mut told, 100).await;

            assert!(matches!(store.health(), Health::ReadOnly { .. }), "{:?}", store.health());
            check(&store, &told);
            clock.advance(Duration::from_secs(1));
            work(&store, &mut random, &mut told, 1).await;
            assert!(matches!(store.health(), Health::ReadOnly { .. }), "it is still full");

            platter.make_room();
            match random.random_bool(0.5) {
                true => clock.advance(Duration::from_secs(1)),
                false => store.compact().await,
            }
            store.commit(put(&spaces()[0], "ns/0", Expect::Any, "first")).await.expect("there is room");
            assert_eq!(store.health(), Health::Serving);
            // The writes of the batch that met the full disk may have come true, and the last one has.
            for (revision, fact) in history(&store) {
                told.acknowledged.entry(revision).or_insert(fact);
            }
            work(&store, &mut random, &mut told, 5).await;
            for follower in &mut followers {
                if follower.catch_up() {
                    assert_eq!(follower.objects, listed(&store, &follower.space));
                }
            }
            check(&store, &told);

            platter.trouble_after(random.random_range(0..20), Trouble::PowerCut);
            work(&store, &mut random, &mut told, 10).await;
            store.close().await;
            let store = Store::with_backend(platter.after_power_cut(&mut random), options)
                .expect("the disk is sound");
            check(&store, &told);
            store.close().await;
        });
    }
}

#[test]
fn on_a_full_disk_commits_look_for_room_at_most_once_a_second() {
    run(async {
        let clock = HandClock::default();
        let platter = Platter::default();
        let store: Store<()> = Store::with_backend(platter.clone(), options(&clock)).unwrap();
        let space = space("hub/a");
        platter.trouble_after(0, Trouble::Full);
        assert!(store.commit(put(&space, "a", Expect::Any, "1")).await.is_err());

        platter.make_room();
        assert!(store.commit(put(&space, "a", Expect::Any, "2")).await.is_err(), "too early to look");
        clock.advance(Duration::from_secs(1));
        store.commit(put(&space, "a", Expect::Any, "3")).await.expect("there is room");
    });
}
