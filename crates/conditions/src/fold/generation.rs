//! Combines reports about generations of an object: do all required sources report success for the same generation?
//!
//! The generation of an object may change before all sources have reported about the previous one. Therefore a [`Snapshot`]
//! computes two results:
//!
//! - [`current`](Snapshot::current): do all sources hold at the *current* generation of the object?
//! - [`last_known`](Snapshot::last_known): does the last generation at which all sources held *still* hold? It depends on its
//!   previous result. It becomes true only if all sources hold at one generation, and false only by a report about the
//!   generation of the result.
//!
//! [`Reports::offer`] decides which reports are accepted. Reading the clock is left to the caller: every time in a result was
//! passed in, and computing a result again from itself does not change it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The generation of a new object.
const FIRST_GENERATION: i64 = 1;

/// The report of one source about one generation. A source that does not know its state does not report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The observed generation.
    pub generation: i64,
    /// Whether the source reports success for that generation.
    pub holds: bool,
    /// The time of the observation.
    pub time: Timestamp,
}

/// Whether a report was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a report that was not accepted changes nothing"]
pub enum OfferResult {
    /// It is now the latest report of its source.
    Accepted,
    /// The object has not reached that generation.
    FutureGeneration,
    /// The source has already reported about a newer generation.
    OlderGeneration,
    /// The source has already sent a later report about this generation.
    OlderTime,
}

/// The latest report of each source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reports<K> {
    latest: BTreeMap<K, Report>,
}

impl<K: Ord> Reports<K> {
    /// Accepts a report unless there is a newer one of the same source; of two reports with the same time, the one that arrives
    /// later is kept.
    pub fn offer(&mut self, source: K, report: Report, generation: i64) -> OfferResult {
        if report.generation > generation {
            return OfferResult::FutureGeneration;
        }
        if let Some(existing) = self.latest.get(&source) {
            if report.generation < existing.generation {
                return OfferResult::OlderGeneration;
            }
            if report.generation == existing.generation && report.time < existing.time {
                return OfferResult::OlderTime;
            }
        }
        self.latest.insert(source, report);
        OfferResult::Accepted
    }

    /// The latest report of this source.
    pub fn get(&self, source: &K) -> Option<&Report> {
        self.latest.get(source)
    }
}

impl<K> Default for Reports<K> {
    fn default() -> Self {
        Self { latest: BTreeMap::new() }
    }
}

/// Restores reports that were accepted before; of several reports of one source, the last is kept.
impl<K: Ord> FromIterator<(K, Report)> for Reports<K> {
    fn from_iter<I: IntoIterator<Item = (K, Report)>>(stored: I) -> Self {
        Self { latest: stored.into_iter().collect() }
    }
}

/// One of the two results, with its times. The caller stores it and passes it to the next computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoldedStatus {
    /// Whether all sources hold.
    pub holds: bool,
    /// The generation that the result is about.
    pub generation: i64,
    /// The time of the oldest report that the result depends on.
    pub updated: Timestamp,
    /// When `holds` last changed. It never decreases.
    pub transitioned: Timestamp,
}

/// A result and its cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluation<C> {
    /// The result.
    pub status: FoldedStatus,
    /// The cause.
    pub cause: C,
}

/// The cause of the result of [`current`](Snapshot::current). Sources are sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CurrentCause<'a, K> {
    /// Every required source holds at the current generation.
    AllHold,
    /// Every required source holds, but the [`Precondition`] is not met.
    PreconditionUnmet,
    /// Some sources do not hold at the current generation, or have not reported about it.
    NotAllHold {
        /// The sources that do not hold, or have not reported.
        not_holding: Vec<&'a K>,
        /// The sources that hold.
        holding: Vec<&'a K>,
    },
}

/// The cause of the result of [`last_known`](Snapshot::last_known). Sources are sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LastKnownCause<'a, K> {
    /// Every required source held at the generation of the result, and none has reported a failure for it since.
    AllHeld,
    /// These sources have never reported.
    Missing(Vec<&'a K>),
    /// These sources report that their generation does not hold.
    Failing(Vec<&'a K>),
    /// All sources hold, but not at the same generation.
    MixedGenerations,
}

/// A requirement besides the reports for [`current`](Snapshot::current) to hold, for example that child resources are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precondition {
    /// The requirement is fulfilled, or there is none.
    Met,
    /// The requirement is not fulfilled.
    Unmet,
}

/// The inputs of the two results, except their previous values.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot<'a, K> {
    /// The current generation of the object.
    pub generation: i64,
    /// When the object got this generation; it is used as the time of a result that depends on no report.
    pub changed_at: Timestamp,
    /// The sources that must hold, in any order.
    pub required: &'a [K],
    /// The reports; those of other sources and those about a future generation are ignored.
    pub reports: &'a Reports<K>,
    /// The time of the report or change that triggered the computation; it becomes the transition time.
    pub trigger_time: Timestamp,
}

impl<'a, K: Ord> Snapshot<'a, K> {
    /// Do all required sources hold at the current generation? `None` if no source is required.
    pub fn current(
        &self,
        previous: Option<&FoldedStatus>,
        precondition: Precondition,
    ) -> Option<Evaluation<CurrentCause<'a, K>>> {
        let required = self.required()?;
        let holds_now =
            |report: Option<Report>| report.is_some_and(|it| it.holds && it.generation == self.generation);
        let not_holding = required.sources_where(|report| !holds_now(report));
        let cause = match (not_holding.is_empty(), precondition) {
            (true, Precondition::Met) => CurrentCause::AllHold,
            (true, Precondition::Unmet) => CurrentCause::PreconditionUnmet,
            (false, _) => {
                CurrentCause::NotAllHold { not_holding, holding: required.sources_where(holds_now) }
            }
        };
        let holds = cause == CurrentCause::AllHold;
        let status = FoldedStatus {
            holds,
            generation: self.generation,
            updated: required.oldest_report_time(self.generation).unwrap_or(self.changed_at),
            transitioned: self.transition_time(previous, holds),
        };
        Some(Evaluation { status, cause })
    }

    /// Does the last generation at which all sources held still hold? `None` if no source is required.
    ///
    /// While it is false it keeps its generation, until all sources hold at one that is not older.
    pub fn last_known(&self, previous: Option<&FoldedStatus>) -> Option<Evaluation<LastKnownCause<'a, K>>> {
        let required = self.required()?;
        let missing = required.sources_where(|report| report.is_none());
        let failing = required.sources_where(|report| report.is_some_and(|it| !it.holds));
        // The generation of the result never decreases, even if all sources hold at an older one.
        let newly_known = required
            .common_generation()
            .filter(|common| previous.is_none_or(|previous| *common >= previous.generation));
        let still_known =
            previous.is_some_and(|previous| previous.holds && !required.any_fails_at(previous.generation));

        let cause = if !missing.is_empty() {
            LastKnownCause::Missing(missing)
        } else if newly_known.is_some() || still_known {
            LastKnownCause::AllHeld
        } else if !failing.is_empty() {
            LastKnownCause::Failing(failing)
        } else {
            LastKnownCause::MixedGenerations
        };
        let holds = cause == LastKnownCause::AllHeld;
        let generation = newly_known
            .or(previous.map(|previous| previous.generation))
            .or_else(|| required.newest_generation())
            .unwrap_or(FIRST_GENERATION);
        let depends_on_reports = newly_known.is_some() || (!holds && required.any_fails_at(generation));
        let updated = if depends_on_reports {
            required.oldest_report_time(generation)
        } else {
            previous.map(|previous| previous.updated)
        };
        let status = FoldedStatus {
            holds,
            generation,
            updated: updated.unwrap_or(self.changed_at),
            transitioned: self.transition_time(previous, holds),
        };
        Some(Evaluation { status, cause })
    }

    /// The required sources, each with its report unless that is about a future generation. `None` if no source is required.
    fn required(&self) -> Option<Required<'a, K>> {
        let is_valid = |report: &Report| report.generation <= self.generation;
        let sources: BTreeMap<&K, Option<Report>> = self
            .required
            .iter()
            .map(|source| (source, self.reports.get(source).copied().filter(is_valid)))
            .collect();
        (!sources.is_empty()).then_some(Required { sources })
    }

    fn transition_time(&self, previous: Option<&FoldedStatus>, holds: bool) -> Timestamp {
        match previous {
            None => self.trigger_time,
            Some(previous) if previous.holds == holds => previous.transitioned,
            Some(previous) => self.trigger_time.max(previous.transitioned),
        }
    }
}

/// The required sources, sorted, each with its report.
struct Required<'a, K> {
    sources: BTreeMap<&'a K, Option<Report>>,
}

impl<'a, K: Ord> Required<'a, K> {
    fn sources_where(&self, test: impl Fn(Option<Report>) -> bool) -> Vec<&'a K> {
        self.sources.iter().filter(|(_, report)| test(**report)).map(|(source, _)| *source).collect()
    }

    fn reports(&self) -> impl Iterator<Item = Report> {
        self.sources.values().flatten().copied()
    }

    /// The generation at which all sources hold, if there is one.
    fn common_generation(&self) -> Option<i64> {
        let common = self.newest_generation()?;
        let holds = |report: &Option<Report>| report.is_some_and(|it| it.holds && it.generation == common);
        self.sources.values().all(holds).then_some(common)
    }

    fn any_fails_at(&self, generation: i64) -> bool {
        self.reports().any(|report| !report.holds && report.generation == generation)
    }

    fn oldest_report_time(&self, generation: i64) -> Option<Timestamp> {
        self.reports().filter(|report| report.generation == generation).map(|report| report.time).min()
    }

    fn newest_generation(&self) -> Option<i64> {
        self.reports().map(|report| report.generation).max()
    }
}
