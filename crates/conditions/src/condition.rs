//! One condition: [`Condition`] is in the status of an object, [`Desired`] is what a writer wants it to be.
//!
//! The wire format is `metav1.Condition`. Parsing is lenient, because a list also has conditions of other writers. Fields that
//! `metav1.Condition` does not have are dropped. Merging into a list is left to [`ConditionSet`](crate::ConditionSet).

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::names::{ConditionType, Reason};

/// The status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Status {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// The writer cannot determine whether the condition holds.
    Unknown,
}

impl Status {
    /// The status in the wire format.
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::True => "True",
            Status::False => "False",
            Status::Unknown => "Unknown",
        }
    }

    /// Parses the wire format; any other text counts as `Unknown`.
    pub fn as_read(text: &str) -> Self {
        match text {
            "True" => Status::True,
            "False" => Status::False,
            _ => Status::Unknown,
        }
    }
}

impl From<bool> for Status {
    fn from(holds: bool) -> Self {
        if holds { Status::True } else { Status::False }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A condition as a writer wants it to be.
///
/// It has no transition time: the [set](crate::ConditionSet) determines it from the existing condition.
///
/// ```
/// use bellwether_conditions::{ConditionType, Desired, Reason, Status};
///
/// let desired = Desired::new(
///     ConditionType::constant("Healthy"),
///     Status::Unknown,
///     Reason::constant("HeartbeatTimeout"),
///     "Addon failed to send heartbeat.",
/// )
/// .observed_at(3);
/// assert_eq!(desired.observed_generation, Some(3));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Desired {
    /// The type of the condition.
    pub type_: ConditionType,
    /// Whether the condition holds.
    pub status: Status,
    /// The cause, for programs: one CamelCase word.
    pub reason: Reason,
    /// The cause, for people.
    pub message: String,
    /// The generation of the object that the condition is about, if the writer knows it.
    pub observed_generation: Option<i64>,
}

impl Desired {
    /// Creates a desired condition without an observed generation.
    pub fn new(type_: ConditionType, status: Status, reason: Reason, message: impl Into<String>) -> Self {
        Self { type_, status, reason, message: message.into(), observed_generation: None }
    }

    /// Sets the observed generation.
    pub fn observed_at(self, generation: i64) -> Self {
        Self { observed_generation: Some(generation), ..self }
    }

    /// Converts to a condition with this transition time.
    pub fn since(self, instant: Timestamp) -> Condition {
        Condition {
            type_: self.type_,
            status: self.status,
            foreign_status: None,
            reason: self.reason,
            message: self.message,
            last_transition_time: instant,
            observed_generation: self.observed_generation,
        }
    }
}

/// A condition in the status of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Wire", into = "Wire")]
pub struct Condition {
    /// The type of the condition.
    pub type_: ConditionType,
    /// Whether the condition holds.
    pub status: Status,
    /// The original text of a status that is not valid, so that the condition is written back as it was read.
    foreign_status: Option<String>,
    /// The cause, for programs: one CamelCase word.
    pub reason: Reason,
    /// The cause, for people.
    pub message: String,
    /// The time of the last transition; the Unix epoch if it is missing. It is serialized in whole seconds, as in Kubernetes.
    pub last_transition_time: Timestamp,
    /// The generation of the object that the condition is about, if the writer reported it.
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// Whether the status is `True`.
    pub fn is_true(&self) -> bool {
        self.status == Status::True
    }

    /// Whether the observed generation is `generation` or later.
    pub fn has_observed(&self, generation: i64) -> bool {
        self.observed_generation.is_some_and(|observed| observed >= generation)
    }
}

/// `metav1.Condition`, in which fields may be missing.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(rename = "type")]
    type_: ConditionType,
    #[serde(default)]
    status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    observed_generation: Option<i64>,
    last_transition_time: Option<Timestamp>,
    reason: Option<Reason>,
    #[serde(default)]
    message: String,
}

impl From<Wire> for Condition {
    fn from(wire: Wire) -> Self {
        let status = Status::as_read(&wire.status);
        Self {
            type_: wire.type_,
            status,
            foreign_status: (wire.status != status.as_str()).then_some(wire.status),
            reason: wire.reason.unwrap_or_else(|| Reason::as_read("")),
            message: wire.message,
            last_transition_time: wire.last_transition_time.unwrap_or(Timestamp::UNIX_EPOCH),
            observed_generation: wire.observed_generation,
        }
    }
}

impl From<Condition> for Wire {
    fn from(condition: Condition) -> Self {
        let instant = condition.last_transition_time;
        Self {
            type_: condition.type_,
            status: match (condition.status, condition.foreign_status) {
                (Status::Unknown, Some(text)) => text,
                (status, _) => status.as_str().to_owned(),
            },
            observed_generation: condition.observed_generation,
            last_transition_time: Some(Timestamp::from_second(instant.as_second()).unwrap_or(instant)),
            reason: Some(condition.reason),
            message: condition.message,
        }
    }
}

/// Shortens a message to at most `limit` bytes, at a character boundary. A shortened message ends in `...`.
///
/// ```
/// use bellwether_conditions::shorten;
///
/// assert_eq!(shorten("short", 8), "short");
/// assert_eq!(shorten("größer als erlaubt", 8), "grö...");
/// ```
pub fn shorten(message: &str, limit: usize) -> String {
    const ELLIPSIS: &str = "...";
    if message.len() <= limit {
        return message.to_owned();
    }
    let kept = message.floor_char_boundary(limit.saturating_sub(ELLIPSIS.len()));
    let mut short = message.get(..kept).unwrap_or_default().to_owned();
    short.push_str(ELLIPSIS.get(..limit.min(ELLIPSIS.len())).unwrap_or_default());
    short
}
