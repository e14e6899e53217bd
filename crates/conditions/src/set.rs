//! The conditions of one object: one per type. An update changes one condition in its position and keeps the others.
//!
//! The set determines what an update changes, and the transition time. Which writer may make which update is left to
//! [`guard`](crate::guard); comparing with the stored list and writing it is left to the caller.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::condition::{Condition, Desired};
use crate::names::ConditionType;

/// Which changes of a condition are transitions, that is, set `lastTransitionTime`.
///
/// The convention of Kubernetes is [`Status`](Self::Status). The other keys are for conditions whose information is in the
/// reason, or for which success of another version is a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransitionKey<'a> {
    /// A change of the status.
    Status,
    /// A change of the reason, for conditions that are always True.
    Reason,
    /// A change of the status or the reason.
    StatusAndReason,
    /// A change of the status, the reason, or the target, such as a version, which is not stored in the condition.
    StatusReasonAndTarget {
        /// The target when the condition was last written.
        before: &'a str,
        /// The target now.
        after: &'a str,
    },
}

impl TransitionKey<'_> {
    fn differs(self, existing: &Condition, desired: &Desired) -> bool {
        let status = existing.status != desired.status;
        let reason = existing.reason != desired.reason;
        match self {
            TransitionKey::Status => status,
            TransitionKey::Reason => reason,
            TransitionKey::StatusAndReason => status || reason,
            TransitionKey::StatusReasonAndTarget { before, after } => status || reason || before != after,
        }
    }
}

/// The result of an [`upsert`](ConditionSet::upsert).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the outcome says whether there is anything to write"]
pub enum Outcome {
    /// The condition already was as desired.
    Unchanged,
    /// There was no condition of this type.
    Added,
    /// The transition key changed, and the transition time was set.
    Transitioned,
    /// Other fields changed; the transition time was kept.
    Updated,
    /// Nothing changed, because the condition is about a newer generation.
    Outdated {
        /// The observed generation of the update.
        offered: i64,
        /// The observed generation of the existing condition.
        existing: i64,
    },
}

impl Outcome {
    /// Whether the set has changed and must be written.
    pub fn changed(self) -> bool {
        match self {
            Outcome::Added | Outcome::Transitioned | Outcome::Updated => true,
            Outcome::Unchanged | Outcome::Outdated { .. } => false,
        }
    }
}

/// The conditions of one object, in their order, one per type.
///
/// If a list has a type more than once, only the condition with the newest transition is kept, in the position of the first.
///
/// ```
/// use bellwether_conditions::{ConditionSet, ConditionType, Desired, Outcome, Reason, Status, TransitionKey};
///
/// let started = "2024-05-01T10:00:00Z".parse()?;
/// let later = "2024-05-01T10:05:00Z".parse()?;
/// let available = |message: &str| {
///     Desired::new(ConditionType::constant("Available"), Status::True, Reason::constant("Up"), message)
/// };
///
/// let mut set = ConditionSet::default();
/// assert_eq!(set.upsert(available("one replica"), TransitionKey::Status, started), Outcome::Added);
/// assert_eq!(set.upsert(available("one replica"), TransitionKey::Status, later), Outcome::Unchanged);
/// assert_eq!(set.upsert(available("two replicas"), TransitionKey::Status, later), Outcome::Updated);
/// let existing = set.get(&ConditionType::constant("Available")).map(|existing| existing.last_transition_time);
/// assert_eq!(existing, Some(started));
/// # Ok::<(), jiff::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Condition>", into = "Vec<Condition>")]
pub struct ConditionSet {
    conditions: Vec<Condition>,
}

impl ConditionSet {
    /// Adds or updates the condition of this type.
    ///
    /// The transition time becomes `instant` if and only if the `key` changes. The observed generation never decreases: an
    /// update with an older one is [`Outdated`](Outcome::Outdated), an update without one keeps the existing one.
    pub fn upsert(&mut self, desired: Desired, key: TransitionKey<'_>, instant: Timestamp) -> Outcome {
        let Some(existing) = self.conditions.iter_mut().find(|existing| existing.type_ == desired.type_)
        else {
            self.conditions.push(desired.since(instant));
            return Outcome::Added;
        };
        if let (Some(offered), Some(existing)) = (desired.observed_generation, existing.observed_generation)
            && offered < existing
        {
            return Outcome::Outdated { offered, existing };
        }
        let transition = key.differs(existing, &desired);
        let since = if transition { instant } else { existing.last_transition_time };
        let observed_generation = desired.observed_generation.or(existing.observed_generation);
        let updated = Desired { observed_generation, ..desired }.since(since);
        if *existing == updated {
            return Outcome::Unchanged;
        }
        *existing = updated;
        if transition { Outcome::Transitioned } else { Outcome::Updated }
    }

    /// Removes the condition of this type; the order of the others is kept.
    pub fn remove(&mut self, type_: &ConditionType) -> Option<Condition> {
        let index = self.conditions.iter().position(|existing| existing.type_ == *type_)?;
        Some(self.conditions.remove(index))
    }

    /// The condition of this type.
    pub fn get(&self, type_: &ConditionType) -> Option<&Condition> {
        self.conditions.iter().find(|existing| existing.type_ == *type_)
    }

    /// Whether there is a condition of this type, and its status is `True`.
    pub fn is_true(&self, type_: &ConditionType) -> bool {
        self.get(type_).is_some_and(Condition::is_true)
    }

    /// The conditions in their order.
    pub fn iter(&self) -> std::slice::Iter<'_, Condition> {
        self.conditions.iter()
    }

    /// The conditions as a slice, to compare with the list that was read.
    pub fn as_slice(&self) -> &[Condition] {
        &self.conditions
    }
}

impl From<Vec<Condition>> for ConditionSet {
    fn from(list: Vec<Condition>) -> Self {
        let mut indices: HashMap<ConditionType, usize> = HashMap::with_capacity(list.len());
        let mut conditions: Vec<Condition> = Vec::with_capacity(list.len());
        for condition in list {
            match indices.get(&condition.type_).and_then(|&index| conditions.get_mut(index)) {
                None => {
                    indices.insert(condition.type_.clone(), conditions.len());
                    conditions.push(condition);
                }
                Some(existing) if condition.last_transition_time > existing.last_transition_time => {
                    *existing = condition
                }
                Some(_) => {}
            }
        }
        Self { conditions }
    }
}

impl From<ConditionSet> for Vec<Condition> {
    fn from(set: ConditionSet) -> Self {
        set.conditions
    }
}

impl<'a> IntoIterator for &'a ConditionSet {
    type Item = &'a Condition;
    type IntoIter = std::slice::Iter<'a, Condition>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
