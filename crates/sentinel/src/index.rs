//! The resources of this Sentinel with their last pulses. Pure: time is passed in.

use std::collections::HashMap;

use bellwether_fleet::resource::{Id, Resource};
use bellwether_fleet::vocabulary::is_current;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::config::SelectorTerm;
use crate::decision::{Decision, DecisionError};
use crate::projection::Projection;

/// How long the pulses of resources are remembered that the feed no longer has after it began anew.
const FORGET_PULSE_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// The last pulse of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// When it was published.
    pub time: Timestamp,
    /// The generation that it was about.
    pub generation: i64,
}

/// A resource as the expressions see it. Two members of its condition for the current generation (`Ready` or `Reconciled`) are not
/// those of the API, but also take the last pulse into account:
///
/// | member | value |
/// |---|---|
/// | `last_updated_time` | the later of the last report and the last pulse, so that the TTL begins anew with a pulse that no adapter answers |
/// | `observed_generation` | one less than the generation, as long as that was not pulsed and no adapter has reported about it |
///
/// A resource without such a condition has no required adapters. It counts as ready.
#[derive(Clone, Debug)]
pub struct View(Value);

impl View {
    /// The JSON.
    pub fn json(&self) -> &Value {
        &self.0
    }
}

/// What is kept of a resource.
#[derive(Debug)]
struct Record {
    /// The JSON of the parts that the expressions can read. As text it takes a fraction of the memory.
    json: Box<str>,
    generation: i64,
    /// The last report about the current generation.
    reported: Option<Timestamp>,
    has_condition: bool,
    pulse: Option<Pulse>,
}

/// The resources of this Sentinel.
#[derive(Debug)]
pub struct Index {
    selector: Vec<SelectorTerm>,
    projection: Projection,
    records: HashMap<Id, Record>,
    /// The pulses of resources that the feed does not have, since it began anew.
    earlier_pulses: HashMap<Id, Pulse>,
}

impl Index {
    /// An empty index of the resources with these labels.
    pub fn new(selector: Vec<SelectorTerm>, decision: &Decision) -> Self {
        Self {
            selector,
            projection: decision.projection().clone(),
            records: HashMap::new(),
            earlier_pulses: HashMap::new(),
        }
    }

    /// Adds or replaces a resource. Returns whether it belongs to this Sentinel.
    pub fn on_apply(&mut self, resource: &Resource) -> bool {
        let matches = |term: &SelectorTerm| resource.labels.get(&term.label) == Some(&term.value);
        if !self.selector.iter().all(matches) {
            self.on_delete(resource.id);
            return false;
        }
        let condition = resource.status.conditions.iter().find(|condition| is_current(&condition.type_));
        // Without a report about the current generation, it is the time of the change.
        let reported = condition.map(|condition| condition.last_updated_time);
        let record = Record {
            json: self.projection.apply(resource).to_string().into(),
            generation: resource.generation,
            reported: reported.filter(|time| *time != resource.updated_time),
            has_condition: condition.is_some(),
            pulse: None,
        };
        let earlier = self.earlier_pulses.remove(&resource.id);
        let replaced = self.records.insert(resource.id, record);
        if let Some(record) = self.records.get_mut(&resource.id) {
            record.pulse = replaced.and_then(|replaced| replaced.pulse).or(earlier);
        }
        true
    }

    /// Removes a resource.
    pub fn on_delete(&mut self, id: Id) {
        self.records.remove(&id);
        self.earlier_pulses.remove(&id);
    }

    /// Removes the resources that do not satisfy a predicate.
    pub fn retain(&mut self, keep: impl Fn(Id) -> bool) {
        self.records.retain(|id, _| keep(*id));
        self.earlier_pulses.retain(|id, _| keep(*id));
    }

    /// Removes all resources, because the feed begins anew with all that exist. Their pulses are remembered.
    pub fn restart(&mut self, now: Timestamp) {
        self.forget_earlier_pulses(now);
        let pulses = self.records.drain().filter_map(|(id, record)| Some((id, record.pulse?)));
        self.earlier_pulses.extend(pulses);
    }

    /// Records a pulse that was published. The feed may have begun anew since then, and not yet have the resource.
    pub fn record_pulse(&mut self, id: Id, pulse: Pulse) {
        match self.records.get_mut(&id) {
            Some(record) => record.pulse = Some(pulse),
            None => {
                self.earlier_pulses.insert(id, pulse);
            }
        }
    }

    /// Forgets the pulses of resources that the feed has not had for a long time.
    pub fn forget_earlier_pulses(&mut self, now: Timestamp) {
        self.earlier_pulses.retain(|_, pulse| now.duration_since(pulse.time) < FORGET_PULSE_AFTER);
    }

    /// The resource as the expressions see it, and its generation.
    pub fn view(&self, id: Id) -> Option<(View, i64)> {
        let record = self.records.get(&id)?;
        Some((record.view(), record.generation))
    }

    /// Whether a resource is due.
    pub fn is_due(&self, id: Id, decision: &Decision, now: Timestamp) -> Result<bool, DecisionError> {
        self.records.get(&id).map_or(Ok(false), |record| decision.is_due(record.view().json(), now))
    }

    /// The IDs of all resources.
    pub fn ids(&self) -> impl Iterator<Item = Id> {
        self.records.keys().copied()
    }

    /// How many resources there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

impl Record {
    fn view(&self) -> View {
        let mut json: Value = serde_json::from_str(&self.json).unwrap_or_default();
        let pulse_time = self.pulse.map(|pulse| pulse.time);
        let is_known =
            self.reported.is_some() || self.pulse.is_some_and(|pulse| pulse.generation >= self.generation);
        let observed = if is_known { self.generation } else { self.generation - 1 };
        let updated = self.reported.max(pulse_time).map_or_else(|| json!(""), |time| json!(time));
        let conditions = json.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
        let Some(conditions) = conditions else { return View(json) };
        if !self.has_condition {
            conditions.push(json!({"type": "Ready", "status": "True"}));
        }
        for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
            if condition.get("type").and_then(Value::as_str).is_some_and(is_current) {
                condition.insert("last_updated_time".to_owned(), updated.clone());
                condition.insert("observed_generation".to_owned(), json!(observed));
            }
        }
        View(json)
    }
}

#[cfg(test)]
mod tests;
