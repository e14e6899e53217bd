//! Computes the rows that a batch of changes writes; both stores write the same rows. It is pure.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::{Change, Changes, StoreError};
use crate::resource::{AdapterRecord, Id, LogEntry, Resource, ResourceCondition};
use crate::search::keys::{Key, condition_keys, keys};

/// The rows that a batch writes, without unchanged rows.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan<'a> {
    /// Removed resources, with all their rows.
    pub(super) removed: Vec<&'a Resource>,
    /// Resources with changes other than conditions.
    pub(super) updated: Vec<&'a Resource>,
    /// New resources, each with the root of its tree.
    pub(super) created: Vec<(&'a Resource, Id)>,
    /// Removed keys of searches. Those of removed resources are included.
    pub(super) keys_gone: Vec<(&'a Resource, Key)>,
    /// New keys of searches.
    pub(super) keys: Vec<(&'a Resource, Key)>,
    /// The changed states of existing resources.
    pub(super) states: Vec<StateChange<'a>>,
    /// Adapters that have reported.
    pub(super) adapters: Vec<(Id, &'a AdapterRecord)>,
    /// Log entries, in order, each with its number in the log of its resource.
    pub(super) log: Vec<(Id, i64, &'a LogEntry)>,
    /// The changes of resources, in the order of revisions.
    pub(super) feed: Vec<(Step, &'a Resource)>,
}

/// What a batch changes in the state of an existing resource.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) struct StateChange<'a> {
    pub(super) id: Id,
    /// The position in the feed, from 1, if the resource changed.
    pub(super) position: Option<i64>,
    /// The conditions, if they changed.
    pub(super) conditions: Option<&'a [ResourceCondition]>,
    /// The number of entries that its log has had, if there are new ones.
    pub(super) logged: Option<i64>,
}

/// What was read of a resource that only the store uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored {
    /// The root of the tree of the resource.
    pub(super) root: Id,
    /// The number of entries that its log has had.
    pub(super) logged: i64,
}

/// By the ID of each resource that was read.
pub(super) type StoredById = HashMap<Id, Stored>;

/// The kind of a change in the feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Created,
    Updated,
    Removed,
}

/// Computes the rows of a batch.
pub(super) fn plan<'a>(changes: &'a Changes, stored: &StoredById) -> Result<Plan<'a>, StoreError> {
    let mut plan = Plan::default();
    let owners = owners_of_created(changes);
    for (position, change) in (1..).zip(&changes.resources) {
        match change {
            Change::Created(resource) => {
                plan.created.push((resource, root(resource.id, &owners, stored)?));
                plan.keys.extend(keys(resource).into_iter().map(|key| (resource, key)));
                plan.feed.push((Step::Created, resource));
            }
            Change::Updated { before, after } => {
                if row_differs(before, after) {
                    plan.updated.push(after);
                }
                plan.keys_between(before, after);
                let conditions = &after.status.conditions;
                let conditions = (*conditions != before.status.conditions).then_some(conditions.as_slice());
                plan.states.push(StateChange {
                    id: after.id,
                    position: Some(position),
                    conditions,
                    logged: None,
                });
                plan.feed.push((Step::Updated, after));
            }
            Change::Removed { before, last } => {
                plan.removed.push(last);
                plan.keys_gone.extend(keys(before).into_iter().map(|key| (&**before, key)));
                plan.feed.push((Step::Removed, last));
            }
        }
    }
    plan.reports(changes, stored);
    Ok(plan)
}

impl<'a> Plan<'a> {
    fn keys_between(&mut self, before: &'a Resource, after: &'a Resource) {
        let (was, is): (BTreeSet<Key>, BTreeSet<Key>) =
            if before.spec == after.spec && before.labels == after.labels {
                if before.status == after.status {
                    return;
                }
                (condition_keys(before).collect(), condition_keys(after).collect())
            } else {
                (keys(before), keys(after))
            };
        self.keys_gone.extend(was.difference(&is).map(|key| (after, key.clone())));
        self.keys.extend(is.difference(&was).map(|key| (after, key.clone())));
    }

    /// The records of adapters, the last one of each, and the log entries; without those of removed resources.
    fn reports(&mut self, changes: &'a Changes, stored: &StoredById) {
        let removed: HashSet<Id> = self.removed.iter().map(|resource| resource.id).collect();
        let mut places: HashMap<(Id, &str), usize> = HashMap::new();
        for (id, record) in changes.adapters.iter().filter(|(id, _)| !removed.contains(id)) {
            let place = *places.entry((*id, &record.adapter)).or_insert(self.adapters.len());
            match self.adapters.get_mut(place) {
                Some(earlier) => *earlier = (*id, record),
                None => self.adapters.push((*id, record)),
            }
        }
        // Entries of a new resource begin at 1; others continue.
        let mut logged: BTreeMap<Id, i64> = BTreeMap::new();
        for (id, entry) in changes.log.iter().filter(|(id, _)| !removed.contains(id)) {
            let number =
                logged.entry(*id).or_insert_with(|| stored.get(id).map_or(0, |stored| stored.logged));
            *number += 1;
            self.log.push((*id, *number, entry));
        }
        let changed: HashMap<Id, usize> =
            self.states.iter().enumerate().map(|(index, state)| (state.id, index)).collect();
        for (id, number) in logged {
            match changed.get(&id).and_then(|index| self.states.get_mut(*index)) {
                Some(state) => state.logged = Some(number),
                None => self.states.push(StateChange { id, logged: Some(number), ..StateChange::default() }),
            }
        }
    }
}

/// Whether the row of a resource differs. Conditions have their own rows.
fn row_differs(before: &Resource, after: &Resource) -> bool {
    before.kind != after.kind
        || before.name != after.name
        || before.href != after.href
        || before.owner_references != after.owner_references
        || before.spec != after.spec
        || before.labels != after.labels
        || before.tenancy != after.tenancy
        || before.generation != after.generation
        || before.created_time != after.created_time
        || before.created_by != after.created_by
        || before.updated_time != after.updated_time
        || before.updated_by != after.updated_by
        || before.deleted_time != after.deleted_time
        || before.deleted_by != after.deleted_by
}

fn owners_of_created(changes: &Changes) -> HashMap<Id, Option<Id>> {
    let created = changes.resources.iter().filter_map(|change| match change {
        Change::Created(resource) => Some((resource.id, resource.owner())),
        Change::Updated { .. } | Change::Removed { .. } => None,
    });
    created.collect()
}

/// The root of the tree of a new resource. Its owner may be new, too.
fn root(id: Id, owners: &HashMap<Id, Option<Id>>, stored: &StoredById) -> Result<Id, StoreError> {
    let mut id = id;
    for _ in 0..=owners.len() {
        match owners.get(&id) {
            Some(None) => return Ok(id),
            Some(Some(owner)) => id = *owner,
            None => break,
        }
    }
    let root = stored.get(&id).map(|stored| stored.root);
    root.ok_or_else(|| StoreError::Failed(format!("the owner {id} of a new resource was not read")))
}
