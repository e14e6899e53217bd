//! Which writer may change a condition from which reason to which.
//!
//! If a condition has several writers, a late report of one must not replace a more severe report of another. The rules are a
//! table. A change that the table does not allow is a [result](Guarded::Denied), not an error: it changes nothing, and retrying
//! it is useless. The table itself is left to the caller.

use std::fmt;

use jiff::Timestamp;

use crate::condition::Desired;
use crate::names::Reason;
use crate::set::{ConditionSet, Outcome, TransitionKey};

/// The reasons of a table; several spellings may be parsed as one reason.
pub trait GuardedReason: Copy + Eq {
    /// Parses a reason; `None` if the table does not have it.
    fn parse(reason: &Reason) -> Option<Self>;
}

/// The reason of a condition before a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CurrentReason<R> {
    /// There is no condition yet.
    Absent,
    /// The table does not have the reason; it may come from another version of the program.
    Unrecognized,
    /// The table has the reason.
    Known(R),
}

/// The current reasons from which a rule allows a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowedFrom<R: 'static> {
    /// From any reason, and if there is no condition.
    Any,
    /// Only from these reasons; not if the reason is absent or unrecognized.
    Only(&'static [R]),
    /// From any other reason, also if it is absent or unrecognized: an unrecognized reason must not block a condition for ever.
    AnyExcept(&'static [R]),
}

impl<R: Eq> AllowedFrom<R> {
    fn include(&self, current: &CurrentReason<R>) -> bool {
        match (self, current) {
            (AllowedFrom::Any, _) => true,
            (AllowedFrom::Only(listed), CurrentReason::Known(reason)) => listed.contains(reason),
            (AllowedFrom::Only(_), CurrentReason::Absent | CurrentReason::Unrecognized) => false,
            (AllowedFrom::AnyExcept(listed), CurrentReason::Known(reason)) => !listed.contains(reason),
            (AllowedFrom::AnyExcept(_), CurrentReason::Absent | CurrentReason::Unrecognized) => true,
        }
    }
}

/// One row of a table: this actor may change the reason from these to those.
#[derive(Debug, Clone, Copy)]
pub struct Rule<A, R: 'static> {
    /// The writer.
    pub actor: A,
    /// The current reasons.
    pub from: AllowedFrom<R>,
    /// The new reasons.
    pub to: &'static [R],
}

/// A table of allowed changes; every other change is denied.
///
/// An actor that may write a reason at all may also update the message of a condition that already has this reason.
///
/// ```
/// use bellwether_conditions::Reason;
/// use bellwether_conditions::guard::{Guard, AllowedFrom, Rule, CurrentReason, GuardedReason};
///
/// #[derive(Debug, Clone, Copy, PartialEq, Eq)]
/// enum Door { Open, Closed, Locked }
/// use Door::*;
///
/// impl GuardedReason for Door {
///     fn parse(reason: &Reason) -> Option<Self> {
///         match reason.as_str() {
///             "Open" => Some(Open),
///             "Closed" | "Shut" => Some(Closed),
///             "Locked" => Some(Locked),
///             _ => None,
///         }
///     }
/// }
///
/// #[derive(Debug, Clone, Copy, PartialEq, Eq)]
/// enum Who { Guest, Porter }
///
/// const TABLE: Guard<Who, Door> = Guard::new(&[
///     Rule { actor: Who::Porter, from: AllowedFrom::Any, to: &[Open, Closed, Locked] },
///     Rule { actor: Who::Guest, from: AllowedFrom::AnyExcept(&[Locked]), to: &[Open, Closed] },
/// ]);
///
/// assert_eq!(TABLE.check(Who::Guest, CurrentReason::Known(Closed), Open), Ok(()));
/// assert!(TABLE.check(Who::Guest, CurrentReason::Known(Locked), Open).is_err());
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Guard<A: 'static, R: 'static> {
    rules: &'static [Rule<A, R>],
}

impl<A: Copy + Eq, R: GuardedReason> Guard<A, R> {
    /// Creates a guard from a table.
    pub const fn new(rules: &'static [Rule<A, R>]) -> Self {
        Self { rules }
    }

    /// Checks whether `actor` may change the reason from `from` to `to`.
    pub fn check(&self, actor: A, from: CurrentReason<R>, to: R) -> Result<(), Denial<A, R>> {
        let mut rules =
            self.rules.iter().filter(|rule| rule.actor == actor && rule.to.contains(&to)).peekable();
        if rules.peek().is_none() {
            return Err(Denial::ReasonNotAllowed { actor, to });
        }
        if from == CurrentReason::Known(to) || rules.any(|rule| rule.from.include(&from)) {
            return Ok(());
        }
        Err(Denial::ChangeNotAllowed { actor, from, to })
    }

    /// [Upserts](ConditionSet::upsert) the condition if the table allows `actor` to make the change.
    pub fn upsert(
        &self,
        set: &mut ConditionSet,
        actor: A,
        desired: Desired,
        key: TransitionKey<'_>,
        instant: Timestamp,
    ) -> Guarded<A, R> {
        let Some(to) = R::parse(&desired.reason) else {
            return Guarded::Denied(Denial::UnknownReason { actor, to: desired.reason });
        };
        let from = match set.get(&desired.type_) {
            None => CurrentReason::Absent,
            Some(existing) => {
                R::parse(&existing.reason).map_or(CurrentReason::Unrecognized, CurrentReason::Known)
            }
        };
        match self.check(actor, from, to) {
            Ok(()) => Guarded::Allowed(set.upsert(desired, key, instant)),
            Err(denial) => Guarded::Denied(denial),
        }
    }
}

/// The result of a guarded upsert.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the outcome says whether there is anything to write"]
pub enum Guarded<A, R> {
    /// The table allows the change; this is the result of the upsert.
    Allowed(Outcome),
    /// The table does not allow the change; nothing changed.
    Denied(Denial<A, R>),
}

impl<A, R> Guarded<A, R> {
    /// Whether the set has changed and must be written.
    pub fn changed(&self) -> bool {
        match self {
            Guarded::Allowed(outcome) => outcome.changed(),
            Guarded::Denied(_) => false,
        }
    }
}

/// Why a change is not allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denial<A, R> {
    /// The table does not have the new reason.
    UnknownReason {
        /// The writer.
        actor: A,
        /// The new reason.
        to: Reason,
    },
    /// The actor may not write this reason at all.
    ReasonNotAllowed {
        /// The writer.
        actor: A,
        /// The new reason.
        to: R,
    },
    /// The actor may write this reason, but not in place of the current one.
    ChangeNotAllowed {
        /// The writer.
        actor: A,
        /// The current reason, which stays.
        from: CurrentReason<R>,
        /// The new reason.
        to: R,
    },
}

impl<A: fmt::Display, R: fmt::Display> fmt::Display for Denial<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denial::UnknownReason { actor, to } => {
                write!(f, "{actor} may not report the unknown reason {to:?}", to = to.as_str())
            }
            Denial::ReasonNotAllowed { actor, to } => write!(f, "{actor} may never report {to}"),
            Denial::ChangeNotAllowed { actor, from, to } => {
                write!(f, "{actor} may not change the reason from {from} to {to}")
            }
        }
    }
}

impl<R: fmt::Display> fmt::Display for CurrentReason<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CurrentReason::Absent => f.write_str("no condition"),
            CurrentReason::Unrecognized => f.write_str("an unrecognized reason"),
            CurrentReason::Known(reason) => reason.fmt(f),
        }
    }
}
