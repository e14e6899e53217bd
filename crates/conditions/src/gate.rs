//! Delays a change until all checks pass, or a user accepts the risks.
//!
//! [`Gate::evaluate`] compares [checks](Check) with [decisions](RiskDecision) of users, and lists what the change waits for.
//! [`Gate::of_required`] is for changes whose checks nobody can accept, such as the steps of a rollout.
//! Running the checks and making the change are left to the caller, who also chooses the type `C` of a concern: a message, or
//! a type with a code.

use std::fmt;

use crate::condition::Status;
use crate::names::ConditionType;
use crate::set::ConditionSet;

/// One check that a change depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check<I, C = String> {
    /// The identifier, to which decisions refer.
    pub id: I,
    /// The result of the check.
    pub finding: Finding<C>,
    /// Whether a user may accept the concern.
    pub acceptance: Acceptance,
}

impl<I, C> Check<I, C> {
    /// A check that must pass; a user cannot accept its concern.
    pub fn must_hold(id: I, finding: Finding<C>) -> Self {
        Self { id, finding, acceptance: Acceptance::NotPossible }
    }
}

impl<I> Check<I> {
    /// A risk that a user may accept.
    pub fn risk(id: I, concern: impl Into<String>) -> Self {
        Self { id, finding: Finding::Concern(concern.into()), acceptance: Acceptance::ByDecision }
    }
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding<C = String> {
    /// The check passed.
    Clear,
    /// The check did not pass, for this cause.
    Concern(C),
}

/// A check that found no concern passed.
impl<C> From<Option<C>> for Finding<C> {
    fn from(concern: Option<C>) -> Self {
        concern.map_or(Self::Clear, Self::Concern)
    }
}

impl Finding {
    /// Passes if the condition of this type is True and its observed generation is `generation` or later.
    ///
    /// A condition with an older or no observed generation does not count.
    pub fn of_condition(conditions: &ConditionSet, type_: &ConditionType, generation: i64) -> Self {
        let Some(condition) = conditions.get(type_) else {
            return Finding::Concern(format!("{type_} is not reported"));
        };
        if !condition.has_observed(generation) {
            return Finding::Concern(format!("{type_} is not yet reported for generation {generation}"));
        }
        match condition.status {
            Status::True => Finding::Clear,
            status => {
                Finding::Concern(format!("{type_} is {status}: {}: {}", condition.reason, condition.message))
            }
        }
    }
}

/// Whether a concern can be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acceptance {
    /// It cannot be accepted; the check must pass.
    NotPossible,
    /// It can be accepted with a [`RiskDecision`].
    ByDecision,
}

/// Selects the checks that a decision is about. An identifier selects the check with this identifier.
pub trait Covers<I> {
    /// Whether the decision is about this check.
    fn covers(&self, id: &I) -> bool;
}

impl<I: Eq> Covers<I> for I {
    fn covers(&self, id: &I) -> bool {
        self == id
    }
}

/// The decision of a user about a risk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RiskDecision<C> {
    /// The checks that it is about.
    pub about: C,
    /// The decision.
    pub decision: Decision,
    /// The user's explanation.
    pub reason: Option<String>,
}

/// Whether a user accepts a risk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The risk is accepted.
    Accepted,
    /// The risk is refused; this overrides every acceptance.
    Refused,
}

/// The result of evaluating checks and decisions.
///
/// ```
/// use bellwether_conditions::gate::{Check, Decision, Finding, Gate, RiskDecision};
///
/// let checks = [
///     Check::must_hold("evaluated", Finding::Clear),
///     Check::risk("alert-42", "etcd is slow"),
/// ];
/// let gate = Gate::evaluate(&checks, &[] as &[RiskDecision<&str>]);
/// assert_eq!(gate.describe_unmet(), "alert-42: etcd is slow (not accepted)");
///
/// let accepted =
///     RiskDecision { about: "alert-42", decision: Decision::Accepted, reason: Some("known".to_owned()) };
/// assert!(Gate::evaluate(&checks, &[accepted]).is_open());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a change must not pass a closed gate"]
pub struct Gate<'a, I, C = String> {
    /// The concerns that the change waits for, in the order of the checks.
    pub unmet: Vec<Unmet<'a, I, C>>,
    /// The concerns that were accepted, in the order of the checks.
    pub accepted: Vec<Accepted<'a, I, C>>,
}

/// A concern that keeps the gate closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unmet<'a, I, C = String> {
    /// The identifier of the check.
    pub id: &'a I,
    /// The concern.
    pub concern: &'a C,
    /// Why the concern keeps the gate closed.
    pub cause: BlockCause<'a>,
}

/// Why a concern keeps the gate closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockCause<'a> {
    /// The concern cannot be accepted; the check must pass.
    MustHold,
    /// No user has accepted it.
    NotAccepted,
    /// A user has refused it.
    Refused {
        /// The user's explanation.
        reason: Option<&'a str>,
    },
}

/// A concern that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted<'a, I, C = String> {
    /// The identifier of the check.
    pub id: &'a I,
    /// The concern.
    pub concern: &'a C,
    /// The user's explanation.
    pub reason: Option<&'a str>,
}

impl<'a, I, C> Gate<'a, I, C> {
    /// Evaluates checks and decisions. A refusal overrides every acceptance of the same check; of several equal decisions, the
    /// reason of the first is used.
    pub fn evaluate<D: Covers<I>>(checks: &'a [Check<I, C>], decisions: &'a [RiskDecision<D>]) -> Self {
        let mut gate = Gate { unmet: Vec::new(), accepted: Vec::new() };
        for check in checks {
            let Finding::Concern(concern) = &check.finding else { continue };
            let id = &check.id;
            let find = |decision| decisions.iter().find(|it| it.decision == decision && it.about.covers(id));
            let cause = match check.acceptance {
                Acceptance::NotPossible => BlockCause::MustHold,
                Acceptance::ByDecision => match (find(Decision::Refused), find(Decision::Accepted)) {
                    (Some(refusal), _) => BlockCause::Refused { reason: refusal.reason.as_deref() },
                    (None, Some(acceptance)) => {
                        gate.accepted.push(Accepted { id, concern, reason: acceptance.reason.as_deref() });
                        continue;
                    }
                    (None, None) => BlockCause::NotAccepted,
                },
            };
            gate.unmet.push(Unmet { id, concern, cause });
        }
        gate
    }

    /// Evaluates checks about which users make no decisions.
    pub fn of_required(checks: &'a [Check<I, C>]) -> Self
    where
        I: Eq,
    {
        Self::evaluate::<I>(checks, &[])
    }

    /// The first concern that the change waits for; `None` if the gate is open.
    pub fn first_unmet(&self) -> Option<&'a C> {
        self.unmet.first().map(|unmet| unmet.concern)
    }

    /// Whether the change may proceed.
    pub fn is_open(&self) -> bool {
        self.unmet.is_empty()
    }
}

impl<I: fmt::Display, C: fmt::Display> Gate<'_, I, C> {
    /// Describes what the change waits for; empty if the gate is open.
    pub fn describe_unmet(&self) -> String {
        self.unmet.iter().map(Unmet::to_string).collect::<Vec<_>>().join("; ")
    }
}

impl<I: fmt::Display, C: fmt::Display> fmt::Display for Unmet<'_, I, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.id, self.concern)?;
        match self.cause {
            BlockCause::MustHold => Ok(()),
            BlockCause::NotAccepted => f.write_str(" (not accepted)"),
            BlockCause::Refused { reason: None } => f.write_str(" (refused)"),
            BlockCause::Refused { reason: Some(reason) } => write!(f, " (refused: {reason})"),
        }
    }
}
