//! What commands make of resources, in memory: a batch is given what a transaction read, applies commands one after the
//! other, and hands over what changed. A command that is refused changes nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bellwether_conditions::shorten;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::aggregate::{Children, aggregate, finalized};
use super::report::{Judgement, accepted, heard, judge};
use super::same::same_json;
use crate::kinds::{BASE_PATH, Kinds, OnParentDelete};
use crate::resource::{
    AdapterRecord, AdapterStatus, Id, LogEntry, OwnerReference, Report, ReportedCondition, Resource,
    ResourceStatus, Tenancy, Verdict,
};
use crate::store::{Change, Changes, Entry, Loaded, NameKey};

/// A resource to be made. Its members have been checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Create {
    /// The id it gets.
    pub id: Id,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its owner, of a child.
    pub owner: Option<Owner>,
    /// What is wanted of it.
    pub spec: Map<String, Value>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Whose it is.
    pub tenancy: Tenancy,
}

impl Create {
    /// What makes its name unique.
    pub fn name_key(&self) -> NameKey {
        NameKey {
            kind: self.kind.clone(),
            owner: self.owner.as_ref().map(|owner| owner.id),
            tenancy: self.tenancy.clone(),
            name: self.name.clone(),
        }
    }
}

/// The resource that a command is about, as its caller may see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Its id.
    pub id: Id,
    /// Its kind; `None` is any.
    pub kind: Option<String>,
    /// The owner by which it was named: it must be there, and be its owner.
    pub owner: Option<Owner>,
    /// Whose it must be; `None` is anybody's.
    pub tenancy: Option<Tenancy>,
}

/// The owner by which a resource is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its id.
    pub id: Id,
    /// Its kind.
    pub kind: String,
}

impl Target {
    /// Whether this resource is meant.
    pub fn admits(&self, resource: &Resource) -> bool {
        self.kind.as_ref().is_none_or(|kind| *kind == resource.kind)
            && self.owner.as_ref().is_none_or(|owner| resource.owner() == Some(owner.id))
            && self.tenancy.as_ref().is_none_or(|tenancy| *tenancy == resource.tenancy)
    }

    /// The owner as a target of its own.
    pub fn owner(&self) -> Option<Target> {
        let owner = self.owner.as_ref()?;
        let (kind, tenancy) = (Some(owner.kind.clone()), self.tenancy.clone());
        Some(Target { id: owner.id, kind, owner: None, tenancy })
    }

    /// That there is no such resource.
    pub fn not_found(&self) -> Refusal {
        let kind = self.kind.clone().unwrap_or_else(|| "Resource".to_owned());
        Refusal::NotFound { kind, id: self.id.to_string() }
    }
}

/// What is to change of a resource: what is there replaces what was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Patch {
    /// What is wanted of it.
    pub spec: Option<Map<String, Value>>,
    /// Its labels.
    pub labels: Option<BTreeMap<String, String>>,
}

/// How many adapters may have a status of one resource, beside the required ones: each is read with every command.
const MOST_ADAPTERS: usize = 100;
/// How much of what a report says the log keeps.
const LOGGED: usize = 512;

/// Why a command is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Refusal {
    #[error("{kind} with id='{id}' not found")]
    NotFound { kind: String, id: String },
    #[error("This {kind} already exists")]
    Exists { kind: String },
    #[error("{kind} '{id}' is marked for deletion")]
    Deleting { kind: String, id: Id },
    #[error("{kind} '{id}' is not in Finalizing state: delete it first")]
    NotFinalizing { kind: String, id: Id },
    #[error("Cannot delete {kind} '{id}': active {child}(s) exist")]
    ActiveChildren { kind: String, id: Id, child: String },
    #[error(
        "{kind} '{id}' has statuses of {MOST_ADAPTERS} adapters already; an adapter reports under one name"
    )]
    TooManyAdapters { kind: String, id: Id },
    #[error(
        "missing mandatory condition '{missing}': all adapters must report Available, Applied, and Health"
    )]
    Incomplete { missing: &'static str },
}

/// What became of a report that was not refused.
#[derive(Clone, Debug, PartialEq)]
pub enum Reported {
    /// This is now the status of the adapter.
    Accepted(Box<AdapterStatus>),
    /// Nothing changed.
    Discarded,
}

/// Resources in the hands of a writer.
#[derive(Debug)]
pub struct Batch<'a> {
    kinds: &'a Kinds,
    now: Timestamp,
    entries: HashMap<Id, Entry>,
    children: HashMap<Id, BTreeSet<Id>>,
    taken: BTreeSet<NameKey>,
    /// As they were read, of those that changed.
    before: HashMap<Id, Arc<Resource>>,
    created: BTreeSet<Id>,
    removed: HashMap<Id, Resource>,
    /// Those that changed, by their last change.
    touched: BTreeMap<u64, Id>,
    touched_at: HashMap<Id, u64>,
    heard: BTreeSet<(Id, String)>,
    log: Vec<(Id, LogEntry)>,
}

impl<'a> Batch<'a> {
    /// A batch over what was read. `now` is when its commands happen.
    pub fn new(kinds: &'a Kinds, loaded: Loaded, now: Timestamp) -> Self {
        Self {
            kinds,
            now,
            entries: loaded.resources,
            children: loaded.children,
            taken: loaded.taken,
            before: HashMap::new(),
            created: BTreeSet::new(),
            removed: HashMap::new(),
            touched: BTreeMap::new(),
            touched_at: HashMap::new(),
            heard: BTreeSet::new(),
            log: Vec::new(),
        }
    }

    /// A resource as it now is.
    pub fn get(&self, id: Id) -> Option<&Resource> {
        self.entries.get(&id).map(|entry| &entry.resource)
    }

    /// Makes a resource.
    pub fn create(&mut self, create: Create, by: &str) -> Result<Resource, Refusal> {
        let plural = self.kinds.get(&create.kind).map_or("", |kind| kind.plural.as_str());
        let owner = match &create.owner {
            None => None,
            Some(owner) => Some(self.owner_for(owner, &create.tenancy)?),
        };
        let key = create.name_key();
        if self.taken.contains(&key) {
            return Err(Refusal::Exists { kind: create.kind });
        }
        let above = owner.as_ref().map_or(BASE_PATH, |owner| owner.href.as_str());
        let mut resource = Resource {
            id: create.id,
            href: format!("{above}/{plural}/{}", create.id),
            kind: create.kind,
            name: create.name,
            owner_references: owner,
            spec: create.spec,
            labels: create.labels,
            tenancy: create.tenancy,
            generation: 1,
            created_time: self.now,
            created_by: by.to_owned(),
            updated_time: self.now,
            updated_by: by.to_owned(),
            deleted_time: None,
            deleted_by: None,
            status: ResourceStatus::default(),
        };
        let adapters = BTreeMap::new();
        resource.status.conditions =
            aggregate(self.kinds, &resource, &adapters, Children::None, resource.updated_time);
        let id = resource.id;
        self.taken.insert(key);
        self.created.insert(id);
        self.children.insert(id, BTreeSet::new());
        if let Some(siblings) = resource.owner().and_then(|owner| self.children.get_mut(&owner)) {
            siblings.insert(id);
        }
        self.entries.insert(id, Entry { resource: resource.clone(), adapters });
        self.touch(id);
        Ok(resource)
    }

    fn owner_for(&self, owner: &Owner, tenancy: &Tenancy) -> Result<OwnerReference, Refusal> {
        let (kind, tenancy) = (Some(owner.kind.clone()), Some(tenancy.clone()));
        let owner = self.find(&Target { id: owner.id, kind, owner: None, tenancy })?;
        if owner.is_deleting() {
            return Err(Refusal::Deleting { kind: owner.kind.clone(), id: owner.id });
        }
        Ok(OwnerReference { id: owner.id, kind: owner.kind.clone(), href: owner.href.clone() })
    }

    /// Changes what is wanted of a resource. What is wanted already changes nothing.
    pub fn patch(&mut self, target: &Target, patch: Patch, by: &str) -> Result<Resource, Refusal> {
        let current = self.find(target)?;
        let id = target.id;
        if current.is_deleting() {
            return Err(Refusal::Deleting { kind: current.kind.clone(), id });
        }
        let same_spec = patch.spec.as_ref().is_none_or(|spec| same_json(spec, &current.spec));
        let same_labels = patch.labels.as_ref().is_none_or(|labels| *labels == current.labels);
        if same_spec && same_labels {
            return Ok(current.clone());
        }
        let now = self.now;
        self.change(id, |resource| {
            if let Some(spec) = patch.spec {
                resource.spec = spec;
            }
            if let Some(labels) = patch.labels {
                resource.labels = labels;
            }
            advance(resource, now, by);
        });
        self.recompute(id, now);
        self.find(target).cloned()
    }

    /// Begins to delete a resource and all that belongs to it; what nobody has to clean up after is gone at once.
    pub fn delete(&mut self, target: &Target, by: &str) -> Result<Resource, Refusal> {
        let current = self.find(target)?;
        let (id, now) = (target.id, self.now);
        if current.is_deleting() {
            // What it waited for may no longer be required.
            self.settle(id, now);
            return self.last_of(target);
        }
        self.check_restrictions(id)?;
        // Parents before their children in the list, so that backwards is children first.
        let doomed = self.descendants(id);
        for id in &doomed {
            self.release_name(*id);
            self.change(*id, |resource| {
                if !resource.is_deleting() {
                    resource.deleted_time = Some(now);
                    resource.deleted_by = Some(by.to_owned());
                    advance(resource, now, by);
                }
            });
        }
        for id in doomed.iter().rev() {
            self.settle(*id, now);
        }
        self.last_of(target)
    }

    /// A resource as it is, or last was.
    fn last_of(&self, target: &Target) -> Result<Resource, Refusal> {
        let last = self.removed.get(&target.id).or_else(|| self.get(target.id)).cloned();
        last.ok_or_else(|| target.not_found())
    }

    /// Whether an active resource below this one keeps its parent.
    fn check_restrictions(&self, id: Id) -> Result<(), Refusal> {
        for parent in self.descendants(id) {
            let Some(parent) = self.get(parent) else { continue };
            for child in self.children_of(parent.id).filter(|child| !child.is_deleting()) {
                let policy = self.kinds.get(&child.kind).map(|kind| kind.on_parent_delete);
                if policy != Some(OnParentDelete::Cascade) {
                    let (kind, child) = (parent.kind.clone(), child.kind.clone());
                    return Err(Refusal::ActiveChildren { kind, id: parent.id, child });
                }
            }
        }
        Ok(())
    }

    /// Removes a resource that is being deleted, and all that belongs to it, whoever still has to clean up.
    pub fn force_delete(&mut self, target: &Target) -> Result<Resource, Refusal> {
        let current = self.find(target)?;
        let id = target.id;
        if !current.is_deleting() {
            return Err(Refusal::NotFinalizing { kind: current.kind.clone(), id });
        }
        let last = current.clone();
        for id in self.descendants(id).into_iter().rev() {
            self.release_name(id);
            self.remove(id);
        }
        if let Some(owner) = last.owner() {
            self.settle(owner, self.now);
        }
        Ok(last)
    }

    /// Takes a report in.
    pub fn report(&mut self, target: &Target, report: &Report) -> Result<Reported, Refusal> {
        let resource = self.find(target)?;
        let id = target.id;
        let record = self.entries.get(&id).and_then(|entry| entry.adapters.get(&report.adapter));
        let judgement = judge(resource, record.and_then(|record| record.status.as_ref()), report);
        let why = match &judgement {
            Judgement::Incomplete { missing } => return Err(Refusal::Incomplete { missing }),
            Judgement::Discard(why) => Some(why.to_string()),
            Judgement::Accept => None,
        };
        self.check_room(resource, record, report)?;
        let entry = LogEntry {
            received_time: self.now,
            adapter: report.adapter.clone(),
            verdict: if why.is_some() { Verdict::Discarded } else { Verdict::Accepted },
            why: why.clone().unwrap_or_default(),
            generation: resource.generation,
            observed_generation: report.observed_generation,
            observed_time: report.observed_time,
            conditions: report.conditions.iter().map(logged).collect(),
        };
        let mut record = heard(record, report);
        let status = why.is_none().then(|| accepted(&record, report));
        if status.is_some() {
            record.status.clone_from(&status);
        }
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.adapters.insert(report.adapter.clone(), record);
        }
        self.log.push((id, entry));
        self.heard.insert((id, report.adapter.clone()));
        match status {
            None => Ok(Reported::Discarded),
            Some(status) => {
                self.settle(id, report.observed_time);
                Ok(Reported::Accepted(Box::new(status)))
            }
        }
    }

    /// Whether one more adapter may report.
    fn check_room(
        &self,
        resource: &Resource,
        record: Option<&AdapterRecord>,
        report: &Report,
    ) -> Result<(), Refusal> {
        let kind = self.kinds.get(&resource.kind);
        let required = kind.is_some_and(|kind| kind.required_adapters.contains(&report.adapter));
        let held = self.entries.get(&resource.id).map_or(0, |entry| entry.adapters.len());
        if record.is_some() || required || held < MOST_ADAPTERS {
            return Ok(());
        }
        Err(Refusal::TooManyAdapters { kind: resource.kind.clone(), id: resource.id })
    }

    /// Removes a resource that is being deleted and waits for nothing any more, and then perhaps its owner; recomputes the
    /// conditions of one that stays.
    fn settle(&mut self, id: Id, cause: Timestamp) {
        let (mut next, mut cause) = (Some(id), cause);
        while let Some(id) = next.take() {
            let Some(entry) = self.entries.get(&id) else { return };
            let ready_to_go = finalized(self.kinds, &entry.resource, &entry.adapters);
            if !ready_to_go || self.children_left(id) == Children::Some {
                return self.recompute(id, cause);
            }
            let owner = entry.resource.owner();
            self.remove(id);
            // The owner may go by itself only if it is on its way out.
            next = owner.filter(|owner| self.get(*owner).is_some_and(Resource::is_deleting));
            cause = self.now;
        }
    }

    fn recompute(&mut self, id: Id, cause: Timestamp) {
        let Some(entry) = self.entries.get(&id) else { return };
        let conditions =
            aggregate(self.kinds, &entry.resource, &entry.adapters, self.children_left(id), cause);
        if conditions != entry.resource.status.conditions {
            self.change(id, |resource| resource.status.conditions = conditions);
        }
    }

    fn children_left(&self, id: Id) -> Children {
        match self.children.get(&id) {
            Some(children) if !children.is_empty() => Children::Some,
            _ => Children::None,
        }
    }

    fn children_of(&self, id: Id) -> impl Iterator<Item = &Resource> {
        self.children.get(&id).into_iter().flatten().filter_map(|child| self.get(*child))
    }

    /// It and all that belongs to it; parents before their children.
    fn descendants(&self, id: Id) -> Vec<Id> {
        let mut found = vec![id];
        let mut next = 0;
        while let Some(parent) = found.get(next).copied() {
            found.extend(self.children.get(&parent).into_iter().flatten());
            next += 1;
        }
        found
    }

    fn find(&self, target: &Target) -> Result<&Resource, Refusal> {
        if let Some(owner) = target.owner() {
            self.find(&owner)?;
        }
        self.get(target.id).filter(|resource| target.admits(resource)).ok_or_else(|| target.not_found())
    }

    fn change(&mut self, id: Id, change: impl FnOnce(&mut Resource)) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        if !self.created.contains(&id) {
            self.before.entry(id).or_insert_with(|| Arc::new(entry.resource.clone()));
        }
        change(&mut entry.resource);
        self.touch(id);
    }

    fn touch(&mut self, id: Id) {
        let last = self.touched.last_key_value().map_or(0, |(last, _)| last + 1);
        if let Some(earlier) = self.touched_at.insert(id, last) {
            self.touched.remove(&earlier);
        }
        self.touched.insert(last, id);
    }

    fn release_name(&mut self, id: Id) {
        let Some(resource) = self.get(id).filter(|resource| !resource.is_deleting()) else { return };
        let key = NameKey {
            kind: resource.kind.clone(),
            owner: resource.owner(),
            tenancy: resource.tenancy.clone(),
            name: resource.name.clone(),
        };
        self.taken.remove(&key);
    }

    fn remove(&mut self, id: Id) {
        let Some(Entry { resource, .. }) = self.entries.remove(&id) else { return };
        self.children.remove(&id);
        if let Some(siblings) = resource.owner().and_then(|owner| self.children.get_mut(&owner)) {
            siblings.remove(&id);
        }
        self.removed.insert(id, resource);
        self.touch(id);
    }

    /// What changed. A resource that was made and removed in one batch was never there.
    pub fn into_changes(mut self) -> Changes {
        let mut changes = Changes::default();
        for id in self.touched.values() {
            let change = if let Some(last) = self.removed.remove(id) {
                if self.created.contains(id) {
                    continue;
                }
                Change::Removed(last)
            } else if let Some(entry) = self.entries.get(id) {
                match self.before.remove(id) {
                    Some(before) if *before == entry.resource => continue,
                    Some(before) => Change::Updated { before, after: entry.resource.clone() },
                    None => Change::Created(entry.resource.clone()),
                }
            } else {
                continue;
            };
            changes.resources.push(change);
        }
        let kept = |id: &Id| self.entries.get(id);
        changes.adapters = self
            .heard
            .iter()
            .filter_map(|(id, adapter)| Some((*id, kept(id)?.adapters.get(adapter)?.clone())))
            .collect();
        changes.log = std::mem::take(&mut self.log);
        changes.log.retain(|(id, _)| self.entries.contains_key(id));
        changes
    }
}

/// A condition as the log keeps it.
fn logged(condition: &ReportedCondition) -> ReportedCondition {
    let short = |text: &Option<String>| text.as_deref().map(|text| shorten(text, LOGGED));
    ReportedCondition {
        type_: condition.type_.clone(),
        status: condition.status,
        reason: short(&condition.reason),
        message: short(&condition.message),
    }
}

/// What is wanted has changed.
fn advance(resource: &mut Resource, now: Timestamp, by: &str) {
    resource.generation += 1;
    resource.updated_time = now.max(resource.updated_time);
    resource.updated_by = by.to_owned();
}
