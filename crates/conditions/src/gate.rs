//! A change waits until all is well, or somebody accepts what is not.
//!
//! [`Gate::evaluate`] weighs [checks](Check) against [rulings](Ruling) and says what the change waits for. It
//! decides nothing about how the checks come about, and does not make the change.

use std::fmt;

use crate::condition::Status;
use crate::names::ConditionType;
use crate::set::ConditionSet;

/// One thing that a change depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check<I> {
    /// What it is, for rulings to refer to.
    pub id: I,
    /// How it stands.
    pub finding: Finding,
    /// Whether somebody may accept it as it is.
    pub waiver: Waiver,
}

impl<I> Check<I> {
    /// Something that must hold, whoever wishes otherwise.
    pub fn must_hold(id: I, finding: Finding) -> Self {
        Self { id, finding, waiver: Waiver::Never }
    }

    /// A risk that somebody may accept.
    pub fn risk(id: I, concern: impl Into<String>) -> Self {
        Self { id, finding: Finding::Concern(concern.into()), waiver: Waiver::ByRuling }
    }
}

/// How a check stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// Nothing to say against the change.
    Clear,
    /// This.
    Concern(String),
}

impl Finding {
    /// Whether `conditions` hold a True condition of this type that was judged at `generation` or later.
    ///
    /// A condition that speaks of an older generation, or of none, says nothing about this one.
    pub fn of_condition(conditions: &ConditionSet, type_: &ConditionType, generation: i64) -> Self {
        let Some(held) = conditions.get(type_) else {
            return Finding::Concern(format!("{type_} is not reported"));
        };
        if !held.has_observed(generation) {
            return Finding::Concern(format!("{type_} is not yet reported for generation {generation}"));
        }
        match held.status {
            Status::True => Finding::Clear,
            status => Finding::Concern(format!("{type_} is {status}: {}: {}", held.reason, held.message)),
        }
    }
}

/// Whether a concern can be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiver {
    /// No; it must go away.
    Never,
    /// Yes, by a [`Ruling`].
    ByRuling,
}

/// Which checks a ruling is about; a plain id is about itself.
pub trait Covers<I> {
    /// Whether it is about this one.
    fn covers(&self, id: &I) -> bool;
}

impl<I: Eq> Covers<I> for I {
    fn covers(&self, id: &I) -> bool {
        self == id
    }
}

/// Somebody's word on a risk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling<C> {
    /// The checks it is about.
    pub about: C,
    /// What it says of them.
    pub verdict: Verdict,
    /// Why, in the words of whoever ruled.
    pub reason: Option<String>,
}

/// What a ruling says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The risk is taken.
    Accepted,
    /// The risk is not taken, whatever other rulings say.
    Refused,
}

/// What the gate says.
///
/// ```
/// use bellwether_conditions::gate::{Check, Finding, Gate, Ruling, Verdict};
///
/// let checks = [
///     Check::must_hold("evaluated", Finding::Clear),
///     Check::risk("alert-42", "etcd is slow"),
/// ];
/// let gate = Gate::evaluate(&checks, &[] as &[Ruling<&str>]);
/// assert_eq!(gate.describe_unmet(), "alert-42: etcd is slow (not accepted)");
///
/// let accepted = Ruling { about: "alert-42", verdict: Verdict::Accepted, reason: Some("known".to_owned()) };
/// assert!(Gate::evaluate(&checks, &[accepted]).is_open());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a change must not pass a closed gate"]
pub struct Gate<'a, I> {
    /// What the change waits for, in the order of the checks.
    pub unmet: Vec<Unmet<'a, I>>,
    /// The concerns that were accepted, in the order of the checks.
    pub accepted: Vec<Accepted<'a, I>>,
}

/// A concern that keeps the gate closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unmet<'a, I> {
    /// The check.
    pub id: &'a I,
    /// The concern, in words.
    pub concern: &'a str,
    /// What would open the gate.
    pub why: Blocked<'a>,
}

/// Why a concern keeps the gate closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocked<'a> {
    /// It cannot be accepted; it must go away.
    MustHold,
    /// Nobody has accepted it.
    NotAccepted,
    /// Somebody has refused it.
    Refused {
        /// Why, if they said so.
        reason: Option<&'a str>,
    },
}

/// A concern that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted<'a, I> {
    /// The check.
    pub id: &'a I,
    /// The concern, in words.
    pub concern: &'a str,
    /// Why it was accepted, if they said so.
    pub reason: Option<&'a str>,
}

impl<'a, I> Gate<'a, I> {
    /// Weighs the checks against the rulings. A refusal outweighs every acceptance of the same check; of
    /// several rulings that say the same, the first gives the reason.
    pub fn evaluate<C: Covers<I>>(checks: &'a [Check<I>], rulings: &'a [Ruling<C>]) -> Self {
        let mut gate = Gate { unmet: Vec::new(), accepted: Vec::new() };
        for check in checks {
            let Finding::Concern(concern) = &check.finding else { continue };
            let (id, concern) = (&check.id, concern.as_str());
            let ruled =
                |verdict| rulings.iter().find(|ruling| ruling.verdict == verdict && ruling.about.covers(id));
            let why = match check.waiver {
                Waiver::Never => Blocked::MustHold,
                Waiver::ByRuling => match (ruled(Verdict::Refused), ruled(Verdict::Accepted)) {
                    (Some(refusal), _) => Blocked::Refused { reason: refusal.reason.as_deref() },
                    (None, Some(acceptance)) => {
                        gate.accepted.push(Accepted { id, concern, reason: acceptance.reason.as_deref() });
                        continue;
                    }
                    (None, None) => Blocked::NotAccepted,
                },
            };
            gate.unmet.push(Unmet { id, concern, why });
        }
        gate
    }

    /// Whether the change may go on.
    pub fn is_open(&self) -> bool {
        self.unmet.is_empty()
    }
}

impl<I: fmt::Display> Gate<'_, I> {
    /// What the change waits for, in words; empty when the gate is open.
    pub fn describe_unmet(&self) -> String {
        self.unmet.iter().map(Unmet::to_string).collect::<Vec<_>>().join("; ")
    }
}

impl<I: fmt::Display> fmt::Display for Unmet<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.id, self.concern)?;
        match self.why {
            Blocked::MustHold => Ok(()),
            Blocked::NotAccepted => f.write_str(" (not accepted)"),
            Blocked::Refused { reason: None } => f.write_str(" (refused)"),
            Blocked::Refused { reason: Some(reason) } => write!(f, " (refused: {reason})"),
        }
    }
}
