//! Applies commands to resources in memory: a batch gets the rows that a transaction has read, applies commands one after the other,
//! and returns the changes. A rejected command changes nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bellwether_conditions::shorten;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::aggregate::{Children, aggregate, is_finalized};
use super::report::{Judgement, accepted, judge, record_report};
use super::same::same_json;
use crate::kinds::{BASE_PATH, Kinds, OnParentDelete};
use crate::resource::{
    AdapterRecord, AdapterStatus, Id, LogEntry, OwnerReference, Report, ReportedCondition, Resource,
    ResourceStatus, Tenancy, Verdict,
};
use crate::store::{Change, Changes, Entry, Loaded, NameKey};

/// A resource to create. Its fields have been validated.
#[derive(Clone, Debug, PartialEq)]
pub struct Create {
    /// The ID of the new resource.
    pub id: Id,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The owner, for a child.
    pub owner: Option<Owner>,
    /// The desired state.
    pub spec: Map<String, Value>,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The tenant.
    pub tenancy: Tenancy,
}

impl Create {
    /// The key by which names are unique.
    pub fn name_key(&self) -> NameKey {
        NameKey {
            kind: self.kind.clone(),
            owner: self.owner.as_ref().map(|owner| owner.id),
            tenancy: self.tenancy.clone(),
            name: self.name.clone(),
        }
    }
}

/// The resource of a command, restricted to what its caller may see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Its id.
    pub id: Id,
    /// The kind; `None` is any.
    pub kind: Option<String>,
    /// The owner in the path: it must exist, and be the owner of the resource.
    pub owner: Option<Owner>,
    /// The tenant; `None` is any tenant.
    pub tenancy: Option<Tenancy>,
}

/// The owner in the path of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its id.
    pub id: Id,
    /// Its kind.
    pub kind: String,
}

impl Target {
    /// Whether the resource matches the kind, owner and tenant.
    pub fn admits(&self, resource: &Resource) -> bool {
        self.kind.as_ref().is_none_or(|kind| *kind == resource.kind)
            && self.owner.as_ref().is_none_or(|owner| resource.owner() == Some(owner.id))
            && self.tenancy.as_ref().is_none_or(|tenancy| *tenancy == resource.tenancy)
    }

    /// The owner as a target.
    pub fn owner(&self) -> Option<Target> {
        let owner = self.owner.as_ref()?;
        let (kind, tenancy) = (Some(owner.kind.clone()), self.tenancy.clone());
        Some(Target { id: owner.id, kind, owner: None, tenancy })
    }

    /// The error that the resource does not exist.
    pub fn not_found(&self) -> Refusal {
        let kind = self.kind.clone().unwrap_or_else(|| "Resource".to_owned());
        Refusal::NotFound { kind, id: self.id.to_string() }
    }
}

/// A change of a resource: each present field replaces the current value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Patch {
    /// The desired state.
    pub spec: Option<Map<String, Value>>,
    /// The labels.
    pub labels: Option<BTreeMap<String, String>>,
}

/// The maximum number of adapters of a resource, in addition to required ones: all are read with every command.
const MAX_ADAPTERS: usize = 100;
/// The maximum length of reasons and messages in the status log.
const MAX_LOGGED_LENGTH: usize = 512;

/// Why a command is rejected.
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
        "{kind} '{id}' already has statuses of {MAX_ADAPTERS} adapters; an adapter must always report with the same name"
    )]
    TooManyAdapters { kind: String, id: Id },
    #[error(
        "missing mandatory condition '{missing}': all adapters must report Available, Applied, and Health"
    )]
    Incomplete { missing: &'static str },
}

/// The verdict on a valid report.
#[derive(Clone, Debug, PartialEq)]
pub enum Reported {
    /// The report is now the status of the adapter.
    Accepted(Box<AdapterStatus>),
    /// Nothing changed.
    Discarded,
}

/// Resources in memory, to which commands are applied.
#[derive(Debug)]
pub struct Batch<'a> {
    kinds: &'a Kinds,
    now: Timestamp,
    entries: HashMap<Id, Entry>,
    children: HashMap<Id, BTreeSet<Id>>,
    taken: BTreeSet<NameKey>,
    /// The changed resources, as they were read.
    before: HashMap<Id, Arc<Resource>>,
    created: BTreeSet<Id>,
    removed: HashMap<Id, Resource>,
    /// The changed resources, ordered by their last change.
    touched: BTreeMap<u64, Id>,
    touched_at: HashMap<Id, u64>,
    reporters: BTreeSet<(Id, String)>,
    log: Vec<(Id, LogEntry)>,
}

impl<'a> Batch<'a> {
    /// A batch for the rows that were read; `now` is the time of its commands.
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
            reporters: BTreeSet::new(),
            log: Vec::new(),
        }
    }

    /// The current state of a resource.
    pub fn get(&self, id: Id) -> Option<&Resource> {
        self.entries.get(&id).map(|entry| &entry.resource)
    }

    /// Creates a resource.
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

    /// Changes the desired state of a resource. An equal desired state changes nothing.
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

    /// Starts to delete a resource and its descendants. Those that no adapter has to clean up are removed at once.
    pub fn delete(&mut self, target: &Target, by: &str) -> Result<Resource, Refusal> {
        let current = self.find(target)?;
        let (id, now) = (target.id, self.now);
        if current.is_deleting() {
            // The adapters that it waits for may no longer be required.
            self.settle(id, now);
            return self.last_of(target);
        }
        self.check_restrictions(id)?;
        // The list has parents before their children, and is processed in reverse order.
        let descendants = self.descendants(id);
        for id in &descendants {
            self.release_name(*id);
            self.change(*id, |resource| {
                if !resource.is_deleting() {
                    resource.deleted_time = Some(now);
                    resource.deleted_by = Some(by.to_owned());
                    advance(resource, now, by);
                }
            });
        }
        for id in descendants.iter().rev() {
            self.settle(*id, now);
        }
        self.last_of(target)
    }

    /// The current state of a resource, or its last one before the removal.
    fn last_of(&self, target: &Target) -> Result<Resource, Refusal> {
        let last = self.removed.get(&target.id).or_else(|| self.get(target.id)).cloned();
        last.ok_or_else(|| target.not_found())
    }

    /// Rejects a deletion that an active child prevents.
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

    /// Removes a resource that is being deleted, and its descendants, without waiting for adapters.
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

    /// Applies a report.
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
        self.check_adapter_limit(resource, record, report)?;
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
        let mut record = record_report(record, report);
        let status = why.is_none().then(|| accepted(&record, report));
        if status.is_some() {
            record.status.clone_from(&status);
        }
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.adapters.insert(report.adapter.clone(), record);
        }
        self.log.push((id, entry));
        self.reporters.insert((id, report.adapter.clone()));
        match status {
            None => Ok(Reported::Discarded),
            Some(status) => {
                self.settle(id, report.observed_time);
                Ok(Reported::Accepted(Box::new(status)))
            }
        }
    }

    /// Rejects a report of too many different adapters.
    fn check_adapter_limit(
        &self,
        resource: &Resource,
        record: Option<&AdapterRecord>,
        report: &Report,
    ) -> Result<(), Refusal> {
        let kind = self.kinds.get(&resource.kind);
        let required = kind.is_some_and(|kind| kind.required_adapters.contains(&report.adapter));
        let held = self.entries.get(&resource.id).map_or(0, |entry| entry.adapters.len());
        if record.is_some() || required || held < MAX_ADAPTERS {
            return Ok(());
        }
        Err(Refusal::TooManyAdapters { kind: resource.kind.clone(), id: resource.id })
    }

    /// Computes the conditions of a resource again, or completes its deletion, after the rules have changed.
    pub fn settle_now(&mut self, id: Id) {
        self.settle(id, self.now);
    }

    /// Removes a resource if its deletion waits for nothing any more, and then its owner in the same way. Otherwise it recomputes the
    /// conditions.
    fn settle(&mut self, id: Id, cause: Timestamp) {
        let (mut next, mut cause) = (Some(id), cause);
        while let Some(id) = next.take() {
            let Some(entry) = self.entries.get(&id) else { return };
            let can_be_removed = is_finalized(self.kinds, &entry.resource, &entry.adapters);
            if !can_be_removed || self.children_left(id) == Children::Some {
                return self.recompute(id, cause);
            }
            let owner = entry.resource.owner();
            self.remove(id);
            // The owner is removed only if it is being deleted, too.
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

    /// The resource and its descendants, parents before their children.
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

    /// The changes. A resource that was created and removed in the same batch is left out.
    pub fn into_changes(mut self) -> Changes {
        let mut changes = Changes::default();
        for id in self.touched.values() {
            let change = if let Some(last) = self.removed.remove(id) {
                if self.created.contains(id) {
                    continue;
                }
                let before = self.before.remove(id).unwrap_or_else(|| Arc::new(last.clone()));
                Change::Removed { before, last }
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
            .reporters
            .iter()
            .filter_map(|(id, adapter)| Some((*id, kept(id)?.adapters.get(adapter)?.clone())))
            .collect();
        changes.log = std::mem::take(&mut self.log);
        changes.log.retain(|(id, _)| self.entries.contains_key(id));
        changes
    }
}

/// A condition of a log entry, with shortened texts.
fn logged(condition: &ReportedCondition) -> ReportedCondition {
    let short = |text: &Option<String>| text.as_deref().map(|text| shorten(text, MAX_LOGGED_LENGTH));
    ReportedCondition {
        type_: condition.type_.clone(),
        status: condition.status,
        reason: short(&condition.reason),
        message: short(&condition.message),
    }
}

/// Increments the generation.
fn advance(resource: &mut Resource, now: Timestamp, by: &str) {
    resource.generation += 1;
    resource.updated_time = now.max(resource.updated_time);
    resource.updated_by = by.to_owned();
}
