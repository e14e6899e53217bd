//! The conditions of one object: one per type, changed in place, the others left as they are.
//!
//! The set decides what a wish changes and since when. It does not decide who may wish
//! ([`guard`](crate::guard)), and it does not write: its caller compares and writes.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::condition::{Condition, Desired};
use crate::names::ConditionType;

/// What makes a change a *transition*, so that the transition time moves.
///
/// Kubernetes' convention is [`Status`](Self::Status). Where the information is in the reason, or a
/// success for another version is news, the use says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransitionKey<'a> {
    /// The status alone.
    Status,
    /// The reason alone, for conditions that are always True.
    Reason,
    /// The status or the reason.
    StatusAndReason,
    /// The status, the reason, or what the condition is about, which the condition itself does not hold.
    StatusReasonAndTarget {
        /// The target when the condition was last written.
        before: &'a str,
        /// The target now.
        after: &'a str,
    },
}

impl TransitionKey<'_> {
    fn differs(self, held: &Condition, desired: &Desired) -> bool {
        let status = held.status != desired.status;
        let reason = held.reason != desired.reason;
        match self {
            TransitionKey::Status => status,
            TransitionKey::Reason => reason,
            TransitionKey::StatusAndReason => status || reason,
            TransitionKey::StatusReasonAndTarget { before, after } => status || reason || before != after,
        }
    }
}

/// What an [`upsert`](ConditionSet::upsert) did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the outcome says whether there is anything to write"]
pub enum Outcome {
    /// Nothing: the condition already says so.
    Unchanged,
    /// There was no condition of this type.
    Added,
    /// The transition key changed, and the transition time with it.
    Transitioned,
    /// Something else changed; the transition time stayed.
    Updated,
    /// Nothing: the condition already speaks of a newer generation.
    Outdated {
        /// The generation that the wish judges.
        offered: i64,
        /// The generation that the condition judges.
        held: i64,
    },
}

impl Outcome {
    /// Whether the set is different now, and must be written.
    pub fn changed(self) -> bool {
        match self {
            Outcome::Added | Outcome::Transitioned | Outcome::Updated => true,
            Outcome::Unchanged | Outcome::Outdated { .. } => false,
        }
    }
}

/// The conditions of one object, in their order, one per type.
///
/// A list that has a type twice is repaired as it is read: the newest transition stays, in the first place.
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
/// let held = set.get(&ConditionType::constant("Available")).map(|held| held.last_transition_time);
/// assert_eq!(held, Some(started));
/// # Ok::<(), jiff::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Condition>", into = "Vec<Condition>")]
pub struct ConditionSet {
    conditions: Vec<Condition>,
}

impl ConditionSet {
    /// Makes the condition of this type say what is desired.
    ///
    /// The transition time becomes `instant` exactly when `key` changes. An observed generation never moves
    /// backwards: an older wish is [`Outdated`](Outcome::Outdated), one that names none keeps the one held.
    pub fn upsert(&mut self, desired: Desired, key: TransitionKey<'_>, instant: Timestamp) -> Outcome {
        let Some(held) = self.conditions.iter_mut().find(|held| held.type_ == desired.type_) else {
            self.conditions.push(desired.since(instant));
            return Outcome::Added;
        };
        if let (Some(offered), Some(held)) = (desired.observed_generation, held.observed_generation)
            && offered < held
        {
            return Outcome::Outdated { offered, held };
        }
        let transition = key.differs(held, &desired);
        let since = if transition { instant } else { held.last_transition_time };
        let observed_generation = desired.observed_generation.or(held.observed_generation);
        let wanted = Desired { observed_generation, ..desired }.since(since);
        if *held == wanted {
            return Outcome::Unchanged;
        }
        *held = wanted;
        if transition { Outcome::Transitioned } else { Outcome::Updated }
    }

    /// Takes the condition of this type out; the order of the rest stays.
    pub fn remove(&mut self, type_: &ConditionType) -> Option<Condition> {
        let place = self.conditions.iter().position(|held| held.type_ == *type_)?;
        Some(self.conditions.remove(place))
    }

    /// The condition of this type.
    pub fn get(&self, type_: &ConditionType) -> Option<&Condition> {
        self.conditions.iter().find(|held| held.type_ == *type_)
    }

    /// Whether there is a condition of this type, and it holds.
    pub fn is_true(&self, type_: &ConditionType) -> bool {
        self.get(type_).is_some_and(Condition::is_true)
    }

    /// The conditions in their order.
    pub fn iter(&self) -> std::slice::Iter<'_, Condition> {
        self.conditions.iter()
    }

    /// The conditions as a list; compare it with the list that was read to see whether a write is due.
    pub fn as_slice(&self) -> &[Condition] {
        &self.conditions
    }
}

impl From<Vec<Condition>> for ConditionSet {
    fn from(list: Vec<Condition>) -> Self {
        let mut places: HashMap<ConditionType, usize> = HashMap::with_capacity(list.len());
        let mut conditions: Vec<Condition> = Vec::with_capacity(list.len());
        for condition in list {
            match places.get(&condition.type_).and_then(|&place| conditions.get_mut(place)) {
                None => {
                    places.insert(condition.type_.clone(), conditions.len());
                    conditions.push(condition);
                }
                Some(held) if condition.last_transition_time > held.last_transition_time => *held = condition,
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
