//! The watched AddonInstances and their changes of state. It is pure: times are passed in and must come from a monotonic clock.
//! Printing is left to `watch` and `table`.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_conditions::freshness::Beat;
use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::runtime::watcher::Event;

use super::liveness::{InstanceInfo, Row, State};

type Key = (String, String);

#[derive(Default)]
pub(super) struct WatchedInstances {
    entries: BTreeMap<Key, Entry>,
    /// The instances that the current list has contained so far.
    listed: BTreeSet<Key>,
    /// The deleted instances that `take_changes` has not returned yet.
    deleted: Vec<Key>,
    /// Whether the first list is complete.
    synced: bool,
}

struct Entry {
    info: InstanceInfo,
    heartbeat: Option<Beat>,
    /// The state and reason that `take_changes` returned last.
    reported: Option<(State, String)>,
}

/// A change that is printed as a line.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    /// A new instance, or another state or reason than before.
    State {
        row: Row,
        before: Option<(State, String)>,
    },
    Deleted {
        namespace: String,
        name: String,
    },
}

impl WatchedInstances {
    pub(super) fn on_event(&mut self, event: Event<DynamicObject>, now: Timestamp) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(object) => {
                let key = self.apply(&object, now);
                self.listed.insert(key);
            }
            Event::InitDone => {
                let missing: Vec<Key> =
                    self.entries.keys().filter(|key| !self.listed.contains(*key)).cloned().collect();
                missing.into_iter().for_each(|key| self.delete(key));
                self.listed.clear();
                self.synced = true;
            }
            Event::Apply(object) => drop(self.apply(&object, now)),
            Event::Delete(object) => {
                let info = InstanceInfo::read(&object);
                self.delete((info.namespace, info.name));
            }
        }
    }

    /// Whether the first list is complete.
    pub(super) fn is_synced(&self) -> bool {
        self.synced
    }

    /// All rows, the worst first.
    pub(super) fn rows(&self, now: Timestamp) -> Vec<Row> {
        let mut rows: Vec<Row> =
            self.entries.values().map(|entry| entry.info.row(entry.heartbeat.as_ref(), now)).collect();
        // The sort is stable: within a state, rows stay ordered by name.
        rows.sort_by_key(|row| row.state);
        rows
    }

    /// Returns the changes since the last call.
    pub(super) fn take_changes(&mut self, now: Timestamp) -> Vec<Change> {
        let mut changes: Vec<Change> =
            self.deleted.drain(..).map(|(namespace, name)| Change::Deleted { namespace, name }).collect();
        for entry in self.entries.values_mut() {
            let row = entry.info.row(entry.heartbeat.as_ref(), now);
            let current = Some((row.state, row.reason.clone()));
            if entry.reported != current {
                changes.push(Change::State { row, before: std::mem::replace(&mut entry.reported, current) });
            }
        }
        changes
    }

    fn apply(&mut self, object: &DynamicObject, now: Timestamp) -> Key {
        let info = InstanceInfo::read(object);
        let key = (info.namespace.clone(), info.name.clone());
        let before = self.entries.remove(&key);
        let previous = before.as_ref().and_then(|entry| entry.heartbeat);
        let heartbeat = info.last_heartbeat.map(|time| Beat::observe(previous, time, now));
        let reported = before.and_then(|entry| entry.reported);
        self.entries.insert(key.clone(), Entry { info, heartbeat, reported });
        key
    }

    fn delete(&mut self, key: Key) {
        if self.entries.remove(&key).is_some() {
            self.deleted.push(key);
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

    fn describe(changes: &[Change]) -> Vec<String> {
        let describe = |change: &Change| match change {
            Change::State { row, before: None } => format!("{} {}", row.name, row.state.as_str()),
            Change::State { row, before: Some((before, _)) } => {
                format!("{} {}>{}", row.name, before.as_str(), row.state.as_str())
            }
            Change::Deleted { name, .. } => format!("{name} deleted"),
        };
        changes.iter().map(describe).collect()
    }

    #[test]
    fn only_changes_of_state_are_returned() {
        let mut instances = WatchedInstances::default();
        let heartbeat = |second| json!({"lastHeartbeatTime": at(second)});
        instances.on_event(Event::Init, at(0));
        instances.on_event(Event::InitApply(object("a", heartbeat(0))), at(0));
        instances.on_event(Event::InitApply(object("b", Value::Null)), at(0));
        assert!(!instances.is_synced());
        instances.on_event(Event::InitDone, at(0));
        assert!(instances.is_synced());
        assert_eq!(describe(&instances.take_changes(at(0))), ["a Alive", "b Never"]);
        instances.on_event(Event::Apply(object("a", heartbeat(10))), at(10));
        assert!(instances.take_changes(at(10)).is_empty(), "another heartbeat is not a change of state");
        assert_eq!(
            describe(&instances.take_changes(at(60))),
            ["a Alive>Late"],
            "a timeout is a change of state"
        );
        instances.on_event(Event::Apply(object("a", heartbeat(61))), at(61));
        instances.on_event(Event::Delete(object("b", Value::Null)), at(61));
        assert_eq!(describe(&instances.take_changes(at(61))), ["b deleted", "a Late>Alive"]);
    }

    #[test]
    fn instance_missing_from_a_new_list_is_deleted() {
        let mut instances = WatchedInstances::default();
        for listed in [&["a", "b"][..], &["b"]] {
            instances.on_event(Event::Init, at(0));
            for name in listed {
                instances.on_event(Event::InitApply(object(name, Value::Null)), at(0));
            }
            instances.on_event(Event::InitDone, at(0));
        }
        assert_eq!(describe(&instances.take_changes(at(0))), ["a deleted", "b Never"]);
    }

    #[test]
    fn rows_are_ordered_by_severity() {
        let mut instances = WatchedInstances::default();
        let down = json!({"lastHeartbeatTime": at(0), "conditions": super::super::liveness::tests::healthy("False", "R")});
        for (name, status) in
            [("a", json!({"lastHeartbeatTime": at(0)})), ("b", Value::Null), ("c", down.clone()), ("d", down)]
        {
            instances.on_event(Event::Apply(object(name, status)), at(0));
        }
        let names: Vec<String> = instances.rows(at(0)).into_iter().map(|row| row.name).collect();
        assert_eq!(names, ["c", "d", "b", "a"]);
    }
}
