//! All required sources hold, at the same generation.
//!
//! An object moves on, generation by generation, while reports about it are under way. Two questions are
//! then different, and a [`Snapshot`] answers both:
//!
//! - [`current`](Snapshot::current): do all hold at the generation the object has *now*?
//! - [`last_known`](Snapshot::last_known): does the last generation at which all held *still* hold? This one
//!   needs its own previous answer. It becomes true only when all hold at one generation, and false only by a
//!   report about the generation it speaks of.
//!
//! Which reports count is decided before, by [`Reports::offer`]. No clock is read: every time in an answer is
//! one that was handed in, and folding an answer again gives the same answer.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The generation that every object begins with.
const FIRST_GENERATION: i64 = 1;

/// What one source says about one generation. A source that cannot tell does not report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The generation it looked at.
    pub generation: i64,
    /// Whether that generation is as it should be.
    pub holds: bool,
    /// When it looked.
    pub time: Timestamp,
}

/// What became of an offered report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a report that was not accepted changes nothing"]
pub enum Offer {
    /// It is now the report of its source.
    Accepted,
    /// The object has not reached that generation.
    FutureGeneration,
    /// The source has already reported about a newer generation.
    OlderGeneration,
    /// The source has already reported about this generation, later.
    OlderTime,
}

/// The latest report of each source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reports<K> {
    latest: BTreeMap<K, Report>,
}

impl<K: Ord> Reports<K> {
    /// Takes a report unless the source has said something newer; of two at the same time the later arrival
    /// stays.
    pub fn offer(&mut self, source: K, report: Report, generation: i64) -> Offer {
        if report.generation > generation {
            return Offer::FutureGeneration;
        }
        if let Some(held) = self.latest.get(&source) {
            if report.generation < held.generation {
                return Offer::OlderGeneration;
            }
            if report.generation == held.generation && report.time < held.time {
                return Offer::OlderTime;
            }
        }
        self.latest.insert(source, report);
        Offer::Accepted
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

/// Reports that were accepted before, as stored; the last of a source stays.
impl<K: Ord> FromIterator<(K, Report)> for Reports<K> {
    fn from_iter<I: IntoIterator<Item = (K, Report)>>(stored: I) -> Self {
        Self { latest: stored.into_iter().collect() }
    }
}

/// The answer to one of the two questions, and its times: what must be stored to ask again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Whether all hold.
    pub holds: bool,
    /// The generation that the answer speaks of.
    pub generation: i64,
    /// The oldest report that the answer rests on: how fresh it is.
    pub updated: Timestamp,
    /// When it last became true or false. Never moves backwards.
    pub transitioned: Timestamp,
}

/// An answer and why it is so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root<W> {
    /// The answer.
    pub answer: Answer,
    /// Why.
    pub why: W,
}

/// Why [`current`](Snapshot::current) answers as it does. Sources are in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CurrentWhy<'a, K> {
    /// Every required source holds at the current generation.
    AllHold,
    /// They do, but something outside the reports stands in the way.
    Withheld,
    /// Some do not hold at the current generation, or have not reported about it.
    Lacking {
        /// Those.
        lacking: Vec<&'a K>,
        /// The others.
        holding: Vec<&'a K>,
    },
}

/// Why [`last_known`](Snapshot::last_known) answers as it does. Sources are in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LastKnownWhy<'a, K> {
    /// Every required source held at the generation of the answer, and none has since said otherwise of it.
    AllHeld,
    /// These have never reported.
    Missing(Vec<&'a K>),
    /// These report that their generation does not hold.
    Failing(Vec<&'a K>),
    /// All hold, but not at one generation.
    MixedGenerations,
}

/// Whether something outside the reports lets [`current`](Snapshot::current) be true: children that must go
/// first, say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proviso {
    /// Nothing stands in the way.
    Met,
    /// Something does.
    Unmet,
}

/// All that the two questions depend on.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot<'a, K> {
    /// The generation that the object has now.
    pub generation: i64,
    /// When the object got this generation; the time of an answer that rests on no report.
    pub changed: Timestamp,
    /// The sources that must hold, in any order.
    pub required: &'a [K],
    /// The reports; those of other sources, and those about a future generation, do not count.
    pub reports: &'a Reports<K>,
    /// When that happened which made us ask: the time of the report or of the change.
    pub cause: Timestamp,
}

impl<'a, K: Ord> Snapshot<'a, K> {
    /// Do all required sources hold at the current generation? `None` where nothing is required.
    pub fn current(&self, previous: Option<&Answer>, proviso: Proviso) -> Option<Root<CurrentWhy<'a, K>>> {
        let required = self.required()?;
        let holds_now =
            |report: Option<Report>| report.is_some_and(|it| it.holds && it.generation == self.generation);
        let lacking = required.sources_where(|report| !holds_now(report));
        let why = match (lacking.is_empty(), proviso) {
            (true, Proviso::Met) => CurrentWhy::AllHold,
            (true, Proviso::Unmet) => CurrentWhy::Withheld,
            (false, _) => CurrentWhy::Lacking { lacking, holding: required.sources_where(holds_now) },
        };
        let holds = why == CurrentWhy::AllHold;
        let answer = Answer {
            holds,
            generation: self.generation,
            updated: required.oldest_at(self.generation).unwrap_or(self.changed),
            transitioned: self.transitioned(previous, holds),
        };
        Some(Root { answer, why })
    }

    /// Does the last generation at which all held still hold? `None` where nothing is required.
    ///
    /// While it is false it keeps its generation, until all hold at one that is not older.
    pub fn last_known(&self, previous: Option<&Answer>) -> Option<Root<LastKnownWhy<'a, K>>> {
        let required = self.required()?;
        let missing = required.sources_where(|report| report.is_none());
        let failing = required.sources_where(|report| report.is_some_and(|it| !it.holds));
        // Sources that are all behind the previous answer cannot take it back to their generation.
        let newly_known = required
            .all_hold_at()
            .filter(|common| previous.is_none_or(|answer| *common >= answer.generation));
        let still_known =
            previous.is_some_and(|answer| answer.holds && !required.any_fails_at(answer.generation));

        let why = if !missing.is_empty() {
            LastKnownWhy::Missing(missing)
        } else if newly_known.is_some() || still_known {
            LastKnownWhy::AllHeld
        } else if !failing.is_empty() {
            LastKnownWhy::Failing(failing)
        } else {
            LastKnownWhy::MixedGenerations
        };
        let holds = why == LastKnownWhy::AllHeld;
        let generation = newly_known
            .or(previous.map(|answer| answer.generation))
            .or_else(|| required.newest_generation())
            .unwrap_or(FIRST_GENERATION);
        let reports_decide = newly_known.is_some() || (!holds && required.any_fails_at(generation));
        let updated = if reports_decide {
            required.oldest_at(generation)
        } else {
            previous.map(|answer| answer.updated)
        };
        let answer = Answer {
            holds,
            generation,
            updated: updated.unwrap_or(self.changed),
            transitioned: self.transitioned(previous, holds),
        };
        Some(Root { answer, why })
    }

    /// The required sources with those of their reports that count. `None` where nothing is required.
    fn required(&self) -> Option<Required<'a, K>> {
        let counts = |report: &Report| report.generation <= self.generation;
        let sources: BTreeMap<&K, Option<Report>> = self
            .required
            .iter()
            .map(|source| (source, self.reports.get(source).copied().filter(counts)))
            .collect();
        (!sources.is_empty()).then_some(Required { sources })
    }

    fn transitioned(&self, previous: Option<&Answer>, holds: bool) -> Timestamp {
        match previous {
            None => self.cause,
            Some(answer) if answer.holds == holds => answer.transitioned,
            Some(answer) => self.cause.max(answer.transitioned),
        }
    }
}

/// The required sources, in their order, each with its report.
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

    /// The one generation at which all hold.
    fn all_hold_at(&self) -> Option<i64> {
        let common = self.newest_generation()?;
        let holds = |report: &Option<Report>| report.is_some_and(|it| it.holds && it.generation == common);
        self.sources.values().all(holds).then_some(common)
    }

    fn any_fails_at(&self, generation: i64) -> bool {
        self.reports().any(|report| !report.holds && report.generation == generation)
    }

    fn oldest_at(&self, generation: i64) -> Option<Timestamp> {
        self.reports().filter(|report| report.generation == generation).map(|report| report.time).min()
    }

    fn newest_generation(&self) -> Option<i64> {
        self.reports().map(|report| report.generation).max()
    }
}
