//! Computes the rows that a batch of changes writes; both stores write the same rows. It is pure.

use std::collections::{HashMap, HashSet};

use super::{Change, Changes, StoreError};
use crate::resource::{AdapterRecord, Id, LogEntry, Resource, ResourceCondition};

/// The rows that a batch writes, without unchanged rows.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan<'a> {
    /// Removed resources, with all their rows.
    pub(super) removed: Vec<&'a Resource>,
    /// Resources with changes other than conditions.
    pub(super) updated: Vec<&'a Resource>,
    /// New resources, each with the root of its tree.
    pub(super) created: Vec<(&'a Resource, Id)>,
    /// Removed labels.
    pub(super) labels_gone: Vec<(Id, &'a str)>,
    /// New labels, and labels with a new value.
    pub(super) labels: Vec<(Id, &'a str, &'a str)>,
    /// Removed conditions, by type.
    pub(super) conditions_gone: Vec<(Id, &'a str)>,
    /// New and changed conditions, each with its position among the conditions of its resource.
    pub(super) conditions: Vec<(Id, i16, &'a ResourceCondition, Standing)>,
    /// Adapters that have reported.
    pub(super) adapters: Vec<(Id, &'a AdapterRecord)>,
    /// Log entries, in order.
    pub(super) log: Vec<(Id, &'a LogEntry)>,
    /// The changes of resources, in the order of revisions.
    pub(super) feed: Vec<(Step, &'a Resource)>,
}

/// What a written condition replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// A condition with the same type, status and position: the columns that searches use stay.
    Same,
    /// Another condition, or none.
    Other,
}

/// The kind of a change in the feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Created,
    Updated,
    Removed,
}

/// Computes the rows of a batch. `roots` has the root of the tree of every resource that was read.
pub(super) fn plan<'a>(changes: &'a Changes, roots: &HashMap<Id, Id>) -> Result<Plan<'a>, StoreError> {
    let mut plan = Plan::default();
    let owners = owners_of_created(changes);
    for change in &changes.resources {
        match change {
            Change::Created(resource) => {
                plan.created.push((resource, root(resource.id, &owners, roots)?));
                plan.labels_between(None, resource);
                plan.conditions_between(&[], resource);
                plan.feed.push((Step::Created, resource));
            }
            Change::Updated { before, after } => {
                if row_differs(before, after) {
                    plan.updated.push(after);
                }
                plan.labels_between(Some(before), after);
                plan.conditions_between(&before.status.conditions, after);
                plan.feed.push((Step::Updated, after));
            }
            Change::Removed(resource) => {
                plan.removed.push(resource);
                plan.feed.push((Step::Removed, resource));
            }
        }
    }
    plan.reports(changes);
    Ok(plan)
}

impl<'a> Plan<'a> {
    fn labels_between(&mut self, before: Option<&'a Resource>, after: &'a Resource) {
        let was = |key: &str| before.and_then(|before| before.labels.get(key));
        for (key, value) in &after.labels {
            if was(key) != Some(value) {
                self.labels.push((after.id, key, value));
            }
        }
        let gone = before.into_iter().flat_map(|before| before.labels.keys());
        let gone = gone.filter(|key| !after.labels.contains_key(*key));
        self.labels_gone.extend(gone.map(|key| (after.id, key.as_str())));
    }

    fn conditions_between(&mut self, before: &'a [ResourceCondition], after: &'a Resource) {
        let conditions = &after.status.conditions;
        for (position, condition) in conditions.iter().enumerate() {
            let was = before.get(position);
            if was == Some(condition) {
                continue;
            }
            let same = was.is_some_and(|was| was.type_ == condition.type_ && was.status == condition.status);
            let standing = if same { Standing::Same } else { Standing::Other };
            let position = i16::try_from(position).unwrap_or(i16::MAX);
            self.conditions.push((after.id, position, condition, standing));
        }
        let gone = before.iter().filter(|was| conditions.iter().all(|is| is.type_ != was.type_));
        self.conditions_gone.extend(gone.map(|was| (after.id, was.type_.as_str())));
    }

    /// The records of adapters, the last one of each, and the log entries; without those of removed resources.
    fn reports(&mut self, changes: &'a Changes) {
        let removed: HashSet<Id> = self.removed.iter().map(|resource| resource.id).collect();
        let mut places: HashMap<(Id, &str), usize> = HashMap::new();
        for (id, record) in changes.adapters.iter().filter(|(id, _)| !removed.contains(id)) {
            let place = *places.entry((*id, &record.adapter)).or_insert(self.adapters.len());
            match self.adapters.get_mut(place) {
                Some(earlier) => *earlier = (*id, record),
                None => self.adapters.push((*id, record)),
            }
        }
        let log = changes.log.iter().filter(|(id, _)| !removed.contains(id));
        self.log = log.map(|(id, entry)| (*id, entry)).collect();
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
        Change::Updated { .. } | Change::Removed(_) => None,
    });
    created.collect()
}

/// The root of the tree of a new resource. Its owner may be new, too.
fn root(id: Id, owners: &HashMap<Id, Option<Id>>, roots: &HashMap<Id, Id>) -> Result<Id, StoreError> {
    let mut id = id;
    for _ in 0..=owners.len() {
        match owners.get(&id) {
            Some(None) => return Ok(id),
            Some(Some(owner)) => id = *owner,
            None => break,
        }
    }
    let root = roots.get(&id).copied();
    root.ok_or_else(|| StoreError::Failed(format!("the owner {id} of a new resource was not read")))
}
