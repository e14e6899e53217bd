//! All instances that are watched, and what is new about them. Pure: instants are handed in, of a clock that does not
//! step.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_conditions::freshness::Beat;
use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::runtime::watcher::Event;

use super::liveness::{Facts, Row, State};

type Key = (String, String);

#[derive(Default)]
pub(super) struct Board {
    entries: BTreeMap<Key, Entry>,
    /// What a list that is under way has named so far.
    listed: BTreeSet<Key>,
    /// Told as gone with the next news.
    gone: Vec<Key>,
    complete: bool,
}

struct Entry {
    facts: Facts,
    beat: Option<Beat>,
    told: Option<(State, String)>,
}

/// A change worth a line.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum News {
    /// A first sight, or another state or reason than before.
    Is { row: Row, before: Option<(State, String)> },
    /// It was deleted.
    Gone { namespace: String, name: String },
}

impl Board {
    pub(super) fn see(&mut self, event: Event<DynamicObject>, now: Timestamp) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(object) => {
                let key = self.put(&object, now);
                self.listed.insert(key);
            }
            Event::InitDone => {
                let missing: Vec<Key> =
                    self.entries.keys().filter(|key| !self.listed.contains(*key)).cloned().collect();
                missing.into_iter().for_each(|key| self.remove(key));
                self.listed.clear();
                self.complete = true;
            }
            Event::Apply(object) => drop(self.put(&object, now)),
            Event::Delete(object) => {
                let facts = Facts::of(&object);
                self.remove((facts.namespace, facts.name));
            }
        }
    }

    /// Whether there has been a whole list.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// All rows, the worst first.
    pub(super) fn rows(&self, now: Timestamp) -> Vec<Row> {
        let mut rows: Vec<Row> =
            self.entries.values().map(|entry| entry.facts.row(entry.beat.as_ref(), now)).collect();
        // The order of names stays within a state.
        rows.sort_by_key(|row| row.state);
        rows
    }

    /// What has changed since this was last asked.
    pub(super) fn news(&mut self, now: Timestamp) -> Vec<News> {
        let mut news: Vec<News> =
            self.gone.drain(..).map(|(namespace, name)| News::Gone { namespace, name }).collect();
        for entry in self.entries.values_mut() {
            let row = entry.facts.row(entry.beat.as_ref(), now);
            let is = Some((row.state, row.reason.clone()));
            if entry.told != is {
                news.push(News::Is { row, before: std::mem::replace(&mut entry.told, is) });
            }
        }
        news
    }

    fn put(&mut self, object: &DynamicObject, now: Timestamp) -> Key {
        let facts = Facts::of(object);
        let key = (facts.namespace.clone(), facts.name.clone());
        let before = self.entries.remove(&key);
        let known = before.as_ref().and_then(|entry| entry.beat);
        let beat = facts.stamp.map(|stamp| Beat::observe(known, stamp, now));
        let told = before.and_then(|entry| entry.told);
        self.entries.insert(key.clone(), Entry { facts, beat, told });
        key
    }

    fn remove(&mut self, key: Key) {
        if self.entries.remove(&key).is_some() {
            self.gone.push(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(name: &str, status: Value) -> DynamicObject {
        serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": name}, "status": status}))
            .unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    fn told(news: &[News]) -> Vec<String> {
        let tell = |news: &News| match news {
            News::Is { row, before: None } => format!("{} {}", row.name, row.state.word()),
            News::Is { row, before: Some((before, _)) } => {
                format!("{} {}>{}", row.name, before.word(), row.state.word())
            }
            News::Gone { name, .. } => format!("{name} gone"),
        };
        news.iter().map(tell).collect()
    }

    #[test]
    fn only_changes_are_news() {
        let mut board = Board::default();
        let beat = |second| json!({"lastHeartbeatTime": at(second)});
        board.see(Event::Init, at(0));
        board.see(Event::InitApply(object("a", beat(0))), at(0));
        board.see(Event::InitApply(object("b", Value::Null)), at(0));
        assert!(!board.is_complete());
        board.see(Event::InitDone, at(0));
        assert!(board.is_complete());
        assert_eq!(told(&board.news(at(0))), ["a Alive", "b Never"]);
        board.see(Event::Apply(object("a", beat(10))), at(10));
        assert!(board.news(at(10)).is_empty(), "one more beat is no news");
        assert_eq!(told(&board.news(at(60))), ["a Alive>Late"], "silence is");
        board.see(Event::Apply(object("a", beat(61))), at(61));
        board.see(Event::Delete(object("b", Value::Null)), at(61));
        assert_eq!(told(&board.news(at(61))), ["b gone", "a Late>Alive"]);
    }

    #[test]
    fn what_a_new_list_no_longer_names_is_gone() {
        let mut board = Board::default();
        for listed in [&["a", "b"][..], &["b"]] {
            board.see(Event::Init, at(0));
            for name in listed {
                board.see(Event::InitApply(object(name, Value::Null)), at(0));
            }
            board.see(Event::InitDone, at(0));
        }
        assert_eq!(told(&board.news(at(0))), ["a gone", "b Never"]);
    }

    #[test]
    fn the_worst_is_shown_first() {
        let mut board = Board::default();
        let down = json!({"lastHeartbeatTime": at(0), "conditions": super::super::liveness::tests::healthy("False", "R")});
        for (name, status) in
            [("a", json!({"lastHeartbeatTime": at(0)})), ("b", Value::Null), ("c", down.clone()), ("d", down)]
        {
            board.see(Event::Apply(object(name, status)), at(0));
        }
        let names: Vec<String> = board.rows(at(0)).into_iter().map(|row| row.name).collect();
        assert_eq!(names, ["c", "d", "b", "a"]);
    }
}
