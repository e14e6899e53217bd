//! Combines reports by severity: the worst report decides.
//!
//! A [`Fold`] is a join-semilattice: joining is associative, commutative and idempotent, and the empty fold is the identity. So
//! the result does not depend on the order in which reports arrive, nor on repetitions. What the severities are is left to the
//! caller.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use crate::condition::{Desired, Status};
use crate::names::{ConditionType, Reason};

/// The report of one source. The greater of two reports is the worse.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Report<S> {
    /// The severity; **a greater value is worse**. Reports are ordered by severity first.
    pub severity: S,
    /// Details for people; may be empty.
    pub message: String,
}

impl<S> Report<S> {
    /// Creates a report.
    pub fn new(severity: S, message: impl Into<String>) -> Self {
        Self { severity, message: message.into() }
    }
}

/// The worst report of each source.
///
/// ```
/// use bellwether_conditions::fold::severity::{Fold, Report};
///
/// #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
/// enum Light { Green, Amber, Red }
///
/// let fold = Fold::from_iter([
///     ("north", Report::new(Light::Green, "")),
///     ("south", Report::new(Light::Red, "lamp broken")),
/// ]);
/// let (source, worst) = fold.worst().unwrap();
/// assert_eq!((*source, worst.severity), ("south", Light::Red));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fold<K, S> {
    reports: BTreeMap<K, Report<S>>,
}

impl<K: Ord, S: Ord> Fold<K, S> {
    /// Adds a report; of several reports of one source, the worst is kept.
    pub fn add(&mut self, source: K, report: Report<S>) {
        match self.reports.get_mut(&source) {
            None => {
                self.reports.insert(source, report);
            }
            Some(existing) if report > *existing => *existing = report,
            Some(_) => {}
        }
    }

    /// Combines two folds.
    #[must_use]
    pub fn join(mut self, other: Self) -> Self {
        self.extend(other.reports);
        self
    }

    /// The worst report and its source; of equally severe ones, that of the first source. `None` if there are no reports.
    pub fn worst(&self) -> Option<(&K, &Report<S>)> {
        // min_by_key returns the first of equal elements, and the map is ordered by source.
        self.reports.iter().min_by_key(|(_, report)| Reverse(&report.severity))
    }

    /// The reports, ordered by source.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &Report<S>)> {
        self.reports.iter()
    }
}

impl<K: Ord + fmt::Display, S: Ord + fmt::Display> Fold<K, S> {
    /// Formats all reports as `source: severity[: message]; …`, ordered by source.
    pub fn describe(&self) -> String {
        let line = |(source, report): (&K, &Report<S>)| match report.message.as_str() {
            "" => format!("{source}: {}", report.severity),
            message => format!("{source}: {}: {message}", report.severity),
        };
        self.iter().map(line).collect::<Vec<_>>().join("; ")
    }

    /// Converts to one condition: `meaning` maps the worst severity to status and reason, and the message
    /// [describes](Self::describe) all reports. `None` if there are no reports.
    pub fn to_condition(
        &self,
        type_: ConditionType,
        meaning: impl FnOnce(&S) -> (Status, Reason),
    ) -> Option<Desired> {
        let (_, worst) = self.worst()?;
        let (status, reason) = meaning(&worst.severity);
        Some(Desired::new(type_, status, reason, self.describe()))
    }
}

impl<K, S> Default for Fold<K, S> {
    fn default() -> Self {
        Self { reports: BTreeMap::new() }
    }
}

impl<K: Ord, S: Ord> Extend<(K, Report<S>)> for Fold<K, S> {
    fn extend<I: IntoIterator<Item = (K, Report<S>)>>(&mut self, reports: I) {
        for (source, report) in reports {
            self.add(source, report);
        }
    }
}

impl<K: Ord, S: Ord> FromIterator<(K, Report<S>)> for Fold<K, S> {
    fn from_iter<I: IntoIterator<Item = (K, Report<S>)>>(reports: I) -> Self {
        let mut fold = Self::default();
        fold.extend(reports);
        fold
    }
}
