//! One condition, as it stands ([`Condition`]) and as a writer wants it ([`Desired`]).
//!
//! On the wire it is `metav1.Condition`. Reading is lenient, because the list holds conditions of others.
//! Members that `metav1.Condition` does not have are not kept.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::names::{ConditionType, Reason};

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Status {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Nobody can tell.
    Unknown,
}

impl Status {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::True => "True",
            Status::False => "False",
            Status::Unknown => "Unknown",
        }
    }

    /// Reads a word of the wire; one that is none of the three tells us nothing, which is `Unknown`.
    pub fn as_read(word: &str) -> Self {
        match word {
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

/// What a writer wants a condition to say.
///
/// It has no transition time: that belongs to the [set](crate::ConditionSet), which knows what was said before.
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
    /// What the condition is about.
    pub type_: ConditionType,
    /// Whether it holds.
    pub status: Status,
    /// Why, in one word.
    pub reason: Reason,
    /// Why, for a person.
    pub message: String,
    /// The generation of the object that was judged, where the writer knows it.
    pub observed_generation: Option<i64>,
}

impl Desired {
    /// A wish that does not say which generation it judges.
    pub fn new(type_: ConditionType, status: Status, reason: Reason, message: impl Into<String>) -> Self {
        Self { type_, status, reason, message: message.into(), observed_generation: None }
    }

    /// The same, judged at this generation of the object.
    pub fn observed_at(self, generation: i64) -> Self {
        Self { observed_generation: Some(generation), ..self }
    }

    /// The condition that this wish becomes where none was before.
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

/// A condition as it stands in the status of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Wire", into = "Wire")]
pub struct Condition {
    /// What the condition is about.
    pub type_: ConditionType,
    /// Whether it holds.
    pub status: Status,
    /// A status word that is none of the three, so that the condition is written back as it was read.
    foreign_status: Option<String>,
    /// Why, in one word.
    pub reason: Reason,
    /// Why, for a person.
    pub message: String,
    /// Since when; the epoch where the writer left it out. Written in whole seconds, as Kubernetes does.
    pub last_transition_time: Timestamp,
    /// The generation of the object that was judged, where the writer said so.
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// Whether it holds.
    pub fn is_true(&self) -> bool {
        self.status == Status::True
    }

    /// Whether it was judged at `generation` or later.
    pub fn has_observed(&self, generation: i64) -> bool {
        self.observed_generation.is_some_and(|observed| observed >= generation)
    }
}

/// `metav1.Condition`, with everything optional that somebody may have left out.
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
                (Status::Unknown, Some(word)) => word,
                (status, _) => status.as_str().to_owned(),
            },
            observed_generation: condition.observed_generation,
            last_transition_time: Some(Timestamp::from_second(instant.as_second()).unwrap_or(instant)),
            reason: Some(condition.reason),
            message: condition.message,
        }
    }
}

/// Cuts a message to at most `limit` bytes, between characters, ending in `...` where something was cut.
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
