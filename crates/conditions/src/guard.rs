//! Who may move a condition from which reason to which.
//!
//! A condition with several writers needs more than a lock: a late report must not cover a graver one. The
//! rule is a table; a move that the table does not allow is an [outcome](Guarded::Refused) that changes
//! nothing and is not worth a retry.

use std::fmt;

use jiff::Timestamp;

use crate::condition::Desired;
use crate::names::Reason;
use crate::set::{ConditionSet, Outcome, TransitionKey};

/// The reasons that a table speaks of; several spellings may read as one.
pub trait Vocabulary: Copy + Eq {
    /// The reason that this text means, if the table knows it.
    fn read(reason: &Reason) -> Option<Self>;
}

/// Where a subject stands before the move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing<R> {
    /// There is no condition yet.
    Absent,
    /// It has a reason that the table does not know, from another version perhaps.
    Foreign,
    /// It has a reason of the table.
    At(R),
}

/// The standings that a rule allows a move from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origins<R: 'static> {
    /// From everywhere.
    Any,
    /// From these reasons only; neither from none nor from a foreign one.
    Only(&'static [R]),
    /// From everywhere but these reasons: a foreign reason must not lock the subject for ever.
    AnyBut(&'static [R]),
}

impl<R: Eq> Origins<R> {
    fn include(&self, standing: &Standing<R>) -> bool {
        match (self, standing) {
            (Origins::Any, _) => true,
            (Origins::Only(listed), Standing::At(reason)) => listed.contains(reason),
            (Origins::Only(_), Standing::Absent | Standing::Foreign) => false,
            (Origins::AnyBut(listed), Standing::At(reason)) => !listed.contains(reason),
            (Origins::AnyBut(_), Standing::Absent | Standing::Foreign) => true,
        }
    }
}

/// One row of a table: this actor may move a subject from there to these reasons.
#[derive(Debug, Clone, Copy)]
pub struct Rule<A, R: 'static> {
    /// Who moves.
    pub actor: A,
    /// From where.
    pub from: Origins<R>,
    /// To which reasons.
    pub to: &'static [R],
}

/// A table of moves: what no rule allows is refused.
///
/// To stay at a reason is no move, and allowed to whoever may write that reason at all: its message may
/// change.
///
/// ```
/// use bellwether_conditions::Reason;
/// use bellwether_conditions::guard::{Guard, Origins, Rule, Standing, Vocabulary};
///
/// #[derive(Debug, Clone, Copy, PartialEq, Eq)]
/// enum Door { Open, Closed, Locked }
/// use Door::*;
///
/// impl Vocabulary for Door {
///     fn read(reason: &Reason) -> Option<Self> {
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
///     Rule { actor: Who::Porter, from: Origins::Any, to: &[Open, Closed, Locked] },
///     Rule { actor: Who::Guest, from: Origins::AnyBut(&[Locked]), to: &[Open, Closed] },
/// ]);
///
/// assert_eq!(TABLE.judge(Who::Guest, Standing::At(Closed), Open), Ok(()));
/// assert!(TABLE.judge(Who::Guest, Standing::At(Locked), Open).is_err());
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Guard<A: 'static, R: 'static> {
    rules: &'static [Rule<A, R>],
}

impl<A: Copy + Eq, R: Vocabulary> Guard<A, R> {
    /// The guard of this table.
    pub const fn new(rules: &'static [Rule<A, R>]) -> Self {
        Self { rules }
    }

    /// Whether `actor` may move a subject from where it stands to `to`, or why not.
    pub fn judge(&self, actor: A, from: Standing<R>, to: R) -> Result<(), Refusal<A, R>> {
        let mut own =
            self.rules.iter().filter(|rule| rule.actor == actor && rule.to.contains(&to)).peekable();
        if own.peek().is_none() {
            return Err(Refusal::NotItsReason { actor, to });
        }
        if from == Standing::At(to) || own.any(|rule| rule.from.include(&from)) {
            return Ok(());
        }
        Err(Refusal::NotFromThere { actor, from, to })
    }

    /// [Upserts](ConditionSet::upsert) what is desired if the table lets `actor` move the condition there.
    pub fn upsert(
        &self,
        set: &mut ConditionSet,
        actor: A,
        desired: Desired,
        key: TransitionKey<'_>,
        instant: Timestamp,
    ) -> Guarded<A, R> {
        let Some(to) = R::read(&desired.reason) else {
            return Guarded::Refused(Refusal::UnknownReason { actor, to: desired.reason });
        };
        let from = match set.get(&desired.type_) {
            None => Standing::Absent,
            Some(held) => R::read(&held.reason).map_or(Standing::Foreign, Standing::At),
        };
        match self.judge(actor, from, to) {
            Ok(()) => Guarded::Allowed(set.upsert(desired, key, instant)),
            Err(refusal) => Guarded::Refused(refusal),
        }
    }
}

/// What came of a guarded move.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the outcome says whether there is anything to write"]
pub enum Guarded<A, R> {
    /// The table allows it; this is what it did.
    Allowed(Outcome),
    /// The table does not allow it; nothing changed.
    Refused(Refusal<A, R>),
}

impl<A, R> Guarded<A, R> {
    /// Whether the set is different now, and must be written.
    pub fn changed(&self) -> bool {
        match self {
            Guarded::Allowed(outcome) => outcome.changed(),
            Guarded::Refused(_) => false,
        }
    }
}

/// Why a move is not allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal<A, R> {
    /// The reason is not one of the table.
    UnknownReason {
        /// Who wanted to move.
        actor: A,
        /// The reason as it was given.
        to: Reason,
    },
    /// This actor never writes this reason.
    NotItsReason {
        /// Who wanted to move.
        actor: A,
        /// To which reason.
        to: R,
    },
    /// This actor may write the reason, but not from where the subject stands.
    NotFromThere {
        /// Who wanted to move.
        actor: A,
        /// Where the subject stands, and stays.
        from: Standing<R>,
        /// To which reason.
        to: R,
    },
}

impl<A: fmt::Display, R: fmt::Display> fmt::Display for Refusal<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::UnknownReason { actor, to } => {
                write!(f, "{actor} may not report the unknown reason {to:?}", to = to.as_str())
            }
            Refusal::NotItsReason { actor, to } => write!(f, "{actor} may never report {to}"),
            Refusal::NotFromThere { actor, from, to } => {
                write!(f, "{actor} may not move it from {from} to {to}")
            }
        }
    }
}

impl<R: fmt::Display> fmt::Display for Standing<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Standing::Absent => f.write_str("no condition"),
            Standing::Foreign => f.write_str("a foreign reason"),
            Standing::At(reason) => reason.fmt(f),
        }
    }
}
