//! The worst report decides.
//!
//! A [`Fold`] is a join-semilattice: folding is associative, commutative and idempotent, and the empty fold is
//! its identity. So it does not matter in which order, how often or in which groups reports arrive, and the
//! same reports always give the same words.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use crate::condition::{Desired, Status};
use crate::names::{ConditionType, Reason};

/// What one source reports. Of two, the greater is the worse.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Report<S> {
    /// How it is; **the greater, the worse**. Reports order by it first.
    pub severity: S,
    /// In words; may be empty.
    pub message: String,
}

impl<S> Report<S> {
    /// A report of this severity, in these words.
    pub fn new(severity: S, message: impl Into<String>) -> Self {
        Self { severity, message: message.into() }
    }
}

/// The reports of many sources, the worst of each, to be judged by the worst of all.
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
    /// Adds a report; a source that reports twice is as bad as its worse report.
    pub fn add(&mut self, source: K, report: Report<S>) {
        match self.reports.get_mut(&source) {
            None => {
                self.reports.insert(source, report);
            }
            Some(held) if report > *held => *held = report,
            Some(_) => {}
        }
    }

    /// Everything that either of the two reports.
    #[must_use]
    pub fn join(mut self, other: Self) -> Self {
        self.extend(other.reports);
        self
    }

    /// The worst report and its source; of equally severe ones that of the first source.
    /// `None` without reports.
    pub fn worst(&self) -> Option<(&K, &Report<S>)> {
        // min_by_key keeps the first of equals, and sources come in their order.
        self.reports.iter().min_by_key(|(_, report)| Reverse(&report.severity))
    }

    /// The reports in the order of their sources.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &Report<S>)> {
        self.reports.iter()
    }
}

impl<K: Ord + fmt::Display, S: Ord + fmt::Display> Fold<K, S> {
    /// All reports in words, `source: severity[: message]; …`, in the order of their sources.
    pub fn describe(&self) -> String {
        let line = |(source, report): (&K, &Report<S>)| match report.message.as_str() {
            "" => format!("{source}: {}", report.severity),
            message => format!("{source}: {}: {message}", report.severity),
        };
        self.iter().map(line).collect::<Vec<_>>().join("; ")
    }

    /// The root condition: `meaning` turns the worst severity into status and reason, and the message
    /// [describes](Self::describe) all reports. `None` without reports: nothing is known, so nothing is said.
    pub fn root(
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
