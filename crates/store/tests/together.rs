//! Many writers and watchers at once: no write is lost, every watcher sees every event in order exactly once,
//! and what can be shared is shared.

// A test says what it expects by panicking, in its helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::{sync::Arc, time::Duration};

use bellwether_store::{
    Change, CommitError, Draft, EventKind, Expect, FRAME_SLOTS, Facts, Revision, SnapshotError, Store,
    VALUE_LIMIT, Watch, Write,
};
use bytes::Bytes;
use common::{HandClock, Platter, delete, options, put, run, space};
use tokio::task::JoinSet;

fn in_memory() -> Store<()> {
    Store::in_memory(options(&HandClock::default()))
}

fn durable() -> Store<()> {
    Store::with_backend(Platter::default(), options(&HandClock::default())).unwrap()
}

fn plain(path: &str, expect: Expect, value: impl Into<Bytes>) -> Write {
    Write {
        space: space("hub/counters"),
        path: path.into(),
        expect,
        change: Change::Put(Draft::plain(value)),
    }
}

/// Reads a number, adds one, and writes it if nobody else did; over and over.
async fn increment(store: Store<()>, times: usize) {
    let space = space("hub/counters");
    for _ in 0..times {
        loop {
            let entry = store.get(&space, "counter").unwrap();
            let number: u64 = str::from_utf8(entry.value()).unwrap().parse().unwrap();
            match store.commit(plain("counter", Expect::At(entry.revision()), (number + 1).to_string())).await
            {
                Ok(_) => break,
                Err(CommitError::Conflict { .. }) => tokio::task::yield_now().await,
                Err(other) => panic!("{other}"),
            }
        }
    }
}

async fn follow_to(mut watch: Watch<()>, end: u64) -> Vec<u64> {
    let mut seen = Vec::new();
    while seen.last() != Some(&end) {
        seen.extend(watch.next().await.unwrap().iter().map(|event| event.revision().0));
        assert!(watch.position().0 >= *seen.last().unwrap());
    }
    seen
}

async fn many_increments(store: Store<()>) {
    const TASKS: usize = 16;
    const TIMES: usize = 25;
    let end = (TASKS * TIMES + 1) as u64;
    store.commit(plain("counter", Expect::Absent, "0")).await.unwrap();

    let mut tasks = JoinSet::new();
    let mut watchers = JoinSet::new();
    for _ in 0..TASKS {
        tasks.spawn(increment(store.clone(), TIMES));
        watchers.spawn(follow_to(store.watch(&space("hub/counters"), Revision(0)).unwrap(), end));
    }
    tasks.join_all().await;

    let counter = store.get(&space("hub/counters"), "counter").unwrap();
    assert_eq!(counter.value(), &(TASKS * TIMES).to_string());
    assert_eq!(counter.revision(), Revision(end));
    for seen in watchers.join_all().await {
        assert_eq!(seen, (1..=end).collect::<Vec<_>>());
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_increment_is_lost_and_every_watcher_sees_each_once_in_memory() {
    many_increments(in_memory()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_increment_is_lost_and_every_watcher_sees_each_once_on_disk() {
    many_increments(durable()).await;
}

#[test]
fn writes_of_one_batch_see_each_other() {
    run(async {
        let store = durable();
        let mut creates = JoinSet::new();
        for n in 0..200 {
            let store = store.clone();
            creates.spawn(
                async move { store.commit(plain("one", Expect::Absent, n.to_string())).await.is_ok() },
            );
        }
        assert_eq!(creates.join_all().await.into_iter().filter(|created| *created).count(), 1);
        assert_eq!(store.revision(), Revision(1));
    });
}

#[test]
fn a_snapshot_holds_exactly_the_events_up_to_its_revision_while_others_write() {
    run(async {
        let store = durable();
        let spaces = [space("hub/counters"), space("hub/other")];
        let mut writers = JoinSet::new();
        for (task, of) in spaces.iter().cloned().enumerate() {
            let store = store.clone();
            writers.spawn(async move {
                for n in 0..200 {
                    store.commit(put(&of, &format!("{task}/{}", n % 7), Expect::Any, "value")).await.unwrap();
                }
            });
        }
        let mut snapshots = Vec::new();
        while store.revision() < Revision(400) {
            snapshots.extend(spaces.iter().map(|of| (of.clone(), store.snapshot(of))));
            tokio::task::yield_now().await;
        }
        writers.join_all().await;
        for (of, snapshot) in snapshots {
            let later = store.snapshot_at(&of, snapshot.revision()).unwrap();
            let revisions = |of: &bellwether_store::Snapshot<()>| -> Vec<Revision> {
                of.iter().map(|entry| entry.revision()).collect()
            };
            assert_eq!(revisions(&snapshot), revisions(&later));
        }
    });
}

#[test]
fn a_frame_is_rendered_once_and_shared_by_all_watchers() {
    run(async {
        let store = in_memory();
        let of = space("hub/counters");
        let mut watches = [(); 2].map(|()| store.watch(&of, Revision(0)).unwrap());
        store.commit(plain("a", Expect::Any, "value")).await.unwrap();
        let [first, second] = watches.each_mut();
        let (first, second) = (first.try_next().unwrap().remove(0), second.try_next().unwrap().remove(0));

        let rendered = first.frame(1, || Bytes::from(vec![1, 2, 3]));
        let shared = second.frame(1, || panic!("rendered again"));
        assert_eq!(rendered.as_ptr(), shared.as_ptr());
        assert_eq!(second.frame(0, || Bytes::from_static(b"other")), "other", "slots are apart");
        assert_eq!(first.frame(FRAME_SLOTS, || Bytes::from_static(b"x")), "x");
        assert_eq!(
            first.frame(FRAME_SLOTS, || Bytes::from_static(b"y")),
            "y",
            "beyond the slots nothing is kept"
        );
    });
}

#[test]
fn facts_are_derived_once_and_on_first_use() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static DERIVED: AtomicUsize = AtomicUsize::new(0);
    struct Length(usize);
    impl Facts for Length {
        fn derive(value: &Bytes) -> Self {
            DERIVED.fetch_add(1, Ordering::SeqCst);
            Self(value.len())
        }
    }
    run(async {
        let store: Store<Length> = Store::in_memory(options(&HandClock::default()));
        let entry = store.commit(plain("a", Expect::Any, "four")).await.unwrap();
        assert_eq!(DERIVED.load(Ordering::SeqCst), 0);
        assert_eq!((entry.facts().0, entry.facts().0), (4, 4));
        assert_eq!(DERIVED.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_watch_is_not_woken_by_another_space_and_survives_its_compaction() {
    run(async {
        let store = in_memory();
        let (quiet, busy) = (space("hub/quiet"), space("hub/busy"));
        let mut watch = store.watch(&quiet, Revision(0)).unwrap();
        let mut next = Box::pin(watch.next());
        for _ in 0..10 {
            store.commit(put(&busy, "a", Expect::Any, "value")).await.unwrap();
            assert!(
                std::future::poll_fn(|cx| std::task::Poll::Ready(next.as_mut().poll(cx))).await.is_pending()
            );
        }
        store.compact_to(store.revision()).await;
        store.commit(put(&quiet, "a", Expect::Any, "value")).await.unwrap();
        assert_eq!(next.await.unwrap()[0].revision(), Revision(11), "nothing of its own space is gone");
    });
}

#[test]
fn a_watch_that_is_too_slow_learns_that_it_missed_events() {
    run(async {
        let store = in_memory();
        let of = space("hub/a");
        let mut watch = store.watch(&of, Revision(0)).unwrap();
        for _ in 0..3 {
            store.commit(put(&of, "a", Expect::Any, "value")).await.unwrap();
        }
        store.compact_to(Revision(2)).await;
        assert_eq!(watch.next().await.unwrap_err().compacted, Revision(2));
        assert_eq!(store.watch(&of, Revision(2)).unwrap().next().await.unwrap().len(), 1);
    });
}

#[test]
fn a_watch_from_the_future_skips_what_comes_before() {
    run(async {
        let store = in_memory();
        let of = space("hub/a");
        let mut watch = store.watch(&of, Revision(2)).unwrap();
        for _ in 0..3 {
            assert_eq!(watch.try_next().unwrap().len(), 0);
            assert_eq!(watch.position(), Revision(2));
            store.commit(put(&of, "a", Expect::Any, "value")).await.unwrap();
        }
        assert_eq!(watch.next().await.unwrap()[0].revision(), Revision(3));
    });
}

#[test]
fn a_watch_returns_at_most_a_thousand_events_a_call_and_all_in_the_end() {
    run(async {
        let store = in_memory();
        let of = space("hub/a");
        for _ in 0..2500 {
            store.commit(put(&of, "a", Expect::Any, "value")).await.unwrap();
        }
        let mut watch = store.watch(&of, Revision(0)).unwrap();
        for (events, position) in [(1000, 1000), (1000, 2000), (500, 2500), (0, 2500)] {
            assert_eq!(watch.try_next().unwrap().len(), events);
            assert_eq!(watch.position(), Revision(position));
        }
    });
}

#[test]
fn the_byte_cap_ends_history_on_commit() {
    run(async {
        for store in
            [Store::<()>::in_memory(capped()), Store::with_backend(Platter::default(), capped()).unwrap()]
        {
            let of = space("hub/a");
            for _ in 0..100 {
                store.commit(put(&of, "a", Expect::Any, &"x".repeat(5000))).await.unwrap();
            }
            let kept = store.revision().0 - store.compacted().0;
            assert!((1..=10).contains(&kept), "{kept} events of 10 kB are kept under a cap of 100 kB");
            assert!(matches!(store.snapshot_at(&of, Revision(1)), Err(SnapshotError::Compacted { .. })));
            assert_eq!(store.snapshot(&of).len(), 1);
        }
    });

    fn capped() -> bellwether_store::Options {
        bellwether_store::Options { history_bytes: 100_000, ..options(&HandClock::default()) }
    }
}

#[test]
fn a_compaction_of_many_events_finishes_while_writes_go_on() {
    run(async {
        let platter = Platter::default();
        let options = options(&HandClock::default());
        let store: Store<()> = Store::with_backend(platter.clone(), options.clone()).unwrap();
        let of = space("hub/a");
        let mut writes = JoinSet::new();
        for n in 0..5000 {
            let (store, of) = (store.clone(), of.clone());
            writes.spawn(async move {
                store.commit(put(&of, &(n % 50).to_string(), Expect::Any, "v")).await.is_ok()
            });
        }
        assert!(writes.join_all().await.into_iter().all(|written| written));
        let deleted = store.commit(delete(&of, "0", Expect::Any, "gone")).await.unwrap();

        let (compaction, late) = tokio::join!(
            store.compact_to(Revision(u64::MAX)),
            store.commit(put(&of, "late", Expect::Any, "v"))
        );
        let () = compaction;
        assert!(store.compacted() >= deleted.revision());
        store.compact_to(late.unwrap().revision()).await;
        store.close().await;

        let store: Store<()> = Store::with_backend(platter, options).unwrap();
        assert_eq!(store.revision(), Revision(5002), "the newest records are gone, their revisions are not");
        assert_eq!(store.snapshot(&of).len(), 50);
        let next = store.commit(put(&of, "next", Expect::Absent, "v")).await.unwrap();
        assert_eq!(next.revision(), Revision(5003));
    });
}

#[test]
fn no_revision_is_reused_when_the_newest_records_were_compacted_away() {
    run(async {
        let platter = Platter::default();
        let options = options(&HandClock::default());
        let of = space("hub/a");
        let store: Store<()> = Store::with_backend(platter.clone(), options.clone()).unwrap();
        store.commit(put(&of, "a", Expect::Any, "v")).await.unwrap();
        store.commit(delete(&of, "a", Expect::Any, "v")).await.unwrap();
        store.compact_to(Revision(2)).await;
        store.close().await;

        let store: Store<()> = Store::with_backend(platter, options).unwrap();
        assert_eq!((store.revision(), store.compacted()), (Revision(2), Revision(2)));
        assert_eq!(store.commit(put(&of, "a", Expect::Any, "v")).await.unwrap().revision(), Revision(3));
    });
}

#[tokio::test(start_paused = true)]
async fn reached_waits_for_a_revision_but_not_for_ever() {
    let store = in_memory();
    assert!(!store.reached(Revision(1), Duration::from_secs(3)).await);
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.reached(Revision(1), Duration::from_secs(3)).await }
    });
    tokio::task::yield_now().await;
    store.commit(plain("a", Expect::Any, "value")).await.unwrap();
    assert!(waiting.await.unwrap());
}

#[test]
fn a_closed_store_refuses_writes_and_still_reads() {
    run(async {
        for store in [in_memory(), durable()] {
            store.commit(plain("a", Expect::Any, "value")).await.unwrap();
            store.close().await;
            store.close().await;
            store.compact().await;
            assert!(matches!(store.commit(plain("a", Expect::Any, "more")).await, Err(CommitError::Closed)));
            assert_eq!(store.get(&space("hub/counters"), "a").unwrap().value(), "value");
        }
    });
}

#[test]
fn a_value_over_the_limit_is_refused_and_one_at_the_limit_is_not() {
    run(async {
        let store = durable();
        let refused = store.commit(plain("a", Expect::Any, vec![0; VALUE_LIMIT + 1])).await;
        assert!(matches!(refused, Err(CommitError::TooLarge { limit: VALUE_LIMIT, .. })), "{refused:?}");
        store.commit(plain("a", Expect::Any, vec![0; VALUE_LIMIT])).await.unwrap();
    });
}

#[test]
fn a_deletion_carries_its_final_state_and_its_own_revision() {
    run(async {
        let store = in_memory();
        let of = space("hub/a");
        let created = store.commit(put(&of, "a", Expect::Absent, "live")).await.unwrap();
        let deleted = store.commit(delete(&of, "a", Expect::At(created.revision()), "final")).await.unwrap();
        assert_eq!((deleted.value().as_ref(), deleted.created()), (&b"final@2"[..], created.revision()));
        let events = store.watch(&of, created.revision()).unwrap().next().await.unwrap();
        assert_eq!(events[0].kind(), EventKind::Delete);
        assert!(Arc::ptr_eq(events[0].entry(), &deleted));
        assert!(Arc::ptr_eq(events[0].previous().unwrap(), &created));
    });
}
