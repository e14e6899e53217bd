//! The store against a model so simple that it is right by inspection: a map and a list of events. Random
//! writes, compactions, restarts, lists in the past and watches must agree with it.

// A test says what it expects by panicking, in its helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::{collections::BTreeMap, time::Duration};

use bellwether_store::{CommitError, EventKind, Expect, Options, Revision, SnapshotError, Space, Store};
use common::{HandClock, Platter, delete, options, put, run, space};
use proptest::{collection::vec, prelude::*};

#[derive(Clone, Debug)]
enum Step {
    Write { kind: EventKind, key: Key, expect: Guess },
    CompactTo { back: u64 },
    Age { seconds: u64 },
    Restart,
}

type Key = (&'static str, &'static str);

/// What a writer believes to find.
#[derive(Copy, Clone, Debug)]
enum Guess {
    Absent,
    Present,
    Outdated,
    Anything,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Object {
    revision: Revision,
    created: Revision,
    value: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Happened {
    kind: EventKind,
    key: Key,
    object: Object,
    previous: Option<Object>,
}

#[derive(Default)]
struct Model {
    objects: BTreeMap<Key, Object>,
    /// All events ever, with the second they happened in; the n-th has revision n.
    events: Vec<(u64, Happened)>,
    compacted: Revision,
    seconds: u64,
}

impl Model {
    fn revision(&self) -> Revision {
        Revision(self.events.len() as u64)
    }

    fn expectation(&self, key: Key, guess: Guess) -> Expect {
        match (guess, self.objects.get(&key)) {
            (Guess::Absent, _) => Expect::Absent,
            (Guess::Anything, _) => Expect::Any,
            (Guess::Present, Some(object)) => Expect::At(object.revision),
            (Guess::Outdated, Some(object)) => Expect::At(Revision(object.revision.0 - 1)),
            (Guess::Present | Guess::Outdated, None) => Expect::At(self.revision()),
        }
    }

    fn accepts(&self, kind: EventKind, key: Key, guess: Guess) -> bool {
        let exists = self.objects.contains_key(&key);
        match guess {
            Guess::Absent => !exists && kind == EventKind::Put,
            Guess::Present => exists,
            Guess::Outdated => false,
            Guess::Anything => exists || kind == EventKind::Put,
        }
    }

    fn write(&mut self, kind: EventKind, key: Key) {
        let revision = Revision(self.events.len() as u64 + 1);
        let previous = self.objects.remove(&key);
        let created = previous.as_ref().map_or(revision, |previous| previous.created);
        let object = Object { revision, created, value: format!("{}@{revision}", sent(revision)) };
        if kind == EventKind::Put {
            self.objects.insert(key, object.clone());
        }
        self.events.push((self.seconds, Happened { kind, key, object, previous }));
    }

    fn compact_to(&mut self, at: Revision) {
        self.compacted = self.compacted.max(at);
    }

    fn compact_aged(&mut self, history: u64) {
        let aged = self.events.iter().take_while(|(second, _)| second + history <= self.seconds).count();
        self.compact_to(Revision(aged as u64));
    }

    fn objects_at(&self, space: &str, at: Revision) -> Vec<Object> {
        let mut objects = BTreeMap::new();
        for (_, happened) in self.events.iter().take(at.0 as usize) {
            match happened.kind {
                EventKind::Put => objects.insert(happened.key, happened.object.clone()),
                EventKind::Delete => objects.remove(&happened.key),
            };
        }
        objects.into_iter().filter(|((of, _), _)| *of == space).map(|(_, object)| object).collect()
    }

    fn events_after(&self, space: &str, after: Revision) -> Vec<Happened> {
        let later = self.events.iter().skip(after.0 as usize).map(|(_, happened)| happened);
        later.filter(|happened| happened.key.0 == space).cloned().collect()
    }
}

/// What a client sends as the write that becomes this revision: of many lengths, so that pages fill unevenly.
fn sent(revision: Revision) -> String {
    format!("value {}", "x".repeat((revision.0 as usize * 397) % 1800))
}

const SPACES: [&str; 2] = ["hub/a", "hub/b"];
const PATHS: [&str; 4] = ["default/a", "default/b", "other/a", "z"];

fn object(entry: &bellwether_store::Entry<()>) -> Object {
    Object {
        revision: entry.revision(),
        created: entry.created(),
        value: String::from_utf8(entry.value().to_vec()).unwrap(),
    }
}

fn key(of: &'static str, path: &str) -> Key {
    (of, PATHS.into_iter().find(|known| *known == path).unwrap())
}

fn check(store: &Store<()>, model: &Model) {
    assert_eq!((store.revision(), store.compacted()), (model.revision(), model.compacted));
    let live: Vec<Space> = SPACES
        .into_iter()
        .filter(|of| model.objects.keys().any(|key| key.0 == *of))
        .map(Space::new)
        .collect();
    assert_eq!(store.spaces(), live);
    for of in SPACES {
        let listed = store.snapshot(&space(of));
        assert_eq!(listed.revision(), model.revision());
        assert_eq!(
            listed.iter().map(|entry| object(entry)).collect::<Vec<_>>(),
            model.objects_at(of, model.revision())
        );
        assert_eq!(
            listed.prefix("default/").count(),
            listed.iter().filter(|e| e.path().starts_with("default/")).count()
        );
        for path in PATHS {
            let expected = model.objects.get(&(of, path)).cloned();
            assert_eq!(store.get(&space(of), path).map(|entry| object(&entry)), expected);
            assert_eq!(listed.get(path).map(|entry| object(entry)), expected);
        }
    }
}

/// Every revision there was and the next one, for lists in the past and for watches.
fn check_past(store: &Store<()>, model: &Model) {
    for (of, at) in
        SPACES.into_iter().flat_map(|of| (0..=model.revision().0 + 1).map(move |at| (of, Revision(at))))
    {
        let past = store.snapshot_at(&space(of), at);
        let watch = store.watch(&space(of), at);
        if at < model.compacted {
            assert_eq!(past.unwrap_err(), SnapshotError::Compacted { compacted: model.compacted });
            assert_eq!(watch.unwrap_err().compacted, model.compacted);
            continue;
        }
        match past {
            Ok(past) => {
                assert_eq!(past.revision(), at);
                assert_eq!(
                    past.iter().map(|entry| object(entry)).collect::<Vec<_>>(),
                    model.objects_at(of, at)
                );
            }
            Err(error) => {
                assert!(at > model.revision());
                assert_eq!(error, SnapshotError::Future { current: model.revision() });
            }
        }
        let mut watch = watch.unwrap();
        let seen: Vec<_> = watch
            .try_next()
            .unwrap()
            .iter()
            .map(|event| Happened {
                kind: event.kind(),
                key: key(of, event.entry().path()),
                object: object(event.entry()),
                previous: event.previous().map(|previous| object(previous)),
            })
            .collect();
        assert_eq!(seen, model.events_after(of, at), "after {at}");
        assert_eq!(watch.position(), model.revision().max(at));
    }
}

/// Plays the steps on a store and on the model; a store with a platter is durable, and restarts.
async fn play(steps: &[Step], options: Options, clock: &HandClock, platter: Option<Platter>) {
    let open = || match &platter {
        Some(platter) => Store::with_backend(platter.clone(), options.clone()).unwrap(),
        None => Store::<()>::in_memory(options.clone()),
    };
    let mut model = Model::default();
    let mut store = open();
    for step in steps {
        match step {
            Step::Write { kind, key, expect } => {
                let expectation = model.expectation(*key, *expect);
                let value = sent(Revision(model.revision().0 + 1));
                let write = match kind {
                    EventKind::Put => put(&space(key.0), key.1, expectation, &value),
                    EventKind::Delete => delete(&space(key.0), key.1, expectation, &value),
                };
                let outcome = store.commit(write).await;
                if model.accepts(*kind, *key, *expect) {
                    model.write(*kind, *key);
                    let written = model.events.last().map(|(_, happened)| happened.object.clone());
                    assert_eq!(outcome.ok().map(|entry| object(&entry)), written);
                } else {
                    let Err(CommitError::Conflict { current }) = outcome else { panic!("{outcome:?}") };
                    assert_eq!(current.map(|entry| object(&entry)).as_ref(), model.objects.get(key));
                }
            }
            Step::CompactTo { back } => {
                let at = Revision(model.revision().0.saturating_sub(*back));
                store.compact_to(at).await;
                model.compact_to(at);
            }
            Step::Age { seconds } => {
                clock.advance(Duration::from_secs(*seconds));
                model.seconds += seconds;
                store.compact().await;
                model.compact_aged(options.history.as_secs());
            }
            Step::Restart if platter.is_some() => {
                store.close().await;
                store = open();
            }
            Step::Restart => {}
        }
        check(&store, &model);
    }
    check_past(&store, &model);
    // Once more, as the first round was remembered.
    check_past(&store, &model);
    if platter.is_some() {
        store.close().await;
        check_past(&open(), &model);
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = prop_oneof![2 => Just(EventKind::Put), 1 => Just(EventKind::Delete)];
    let key = (prop::sample::select(&SPACES[..]), prop::sample::select(&PATHS[..]));
    let guess = prop_oneof![
        1 => Just(Guess::Absent),
        2 => Just(Guess::Present),
        1 => Just(Guess::Outdated),
        4 => Just(Guess::Anything)
    ];
    let write = (kind, key, guess).prop_map(|(kind, key, expect)| Step::Write { kind, key, expect });
    let step = prop_oneof![
        20 => write,
        1 => (0_u64..10).prop_map(|back| Step::CompactTo { back }),
        1 => (0_u64..200).prop_map(|seconds| Step::Age { seconds }),
        1 => Just(Step::Restart),
    ];
    vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_store_in_memory_behaves_like_the_model(steps in steps()) {
        let clock = HandClock::default();
        run(play(&steps, options(&clock), &clock, None));
    }

    #[test]
    fn a_durable_store_behaves_like_the_model_also_after_restarts(steps in steps()) {
        let clock = HandClock::default();
        run(play(&steps, options(&clock), &clock, Some(Platter::default())));
    }
}
