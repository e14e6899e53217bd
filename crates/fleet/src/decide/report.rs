//! Whether a report counts.

use std::fmt;

use bellwether_conditions::Status;

use crate::resource::{AdapterCondition, AdapterRecord, AdapterStatus, Report, ReportedCondition, Resource};
use crate::vocabulary::reported::{APPLIED, AVAILABLE, FINALIZED, HEALTH};

/// What every report has to tell.
const MANDATORY: [&str; 3] = [AVAILABLE, APPLIED, HEALTH];

/// What becomes of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It becomes the status of its adapter.
    Accept,
    /// It changes nothing.
    Discard(Discard),
    /// It lacks a condition that every report has to tell.
    Incomplete {
        /// Which.
        missing: &'static str,
    },
}

/// Why a report changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// The resource has not reached that generation.
    FutureGeneration {
        /// The generation that it has.
        generation: i64,
    },
    /// The adapter has reported about a newer generation.
    OlderGeneration {
        /// That one.
        held: i64,
    },
    /// The adapter has reported about this generation, later.
    OlderTime {
        /// When it then looked.
        held: jiff::Timestamp,
    },
    /// The adapter cannot tell yet.
    Undecided,
}

impl fmt::Display for Discard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FutureGeneration { generation } => {
                write!(
                    formatter,
                    "the resource is at generation {generation} and has not reached that of the report"
                )
            }
            Self::OlderGeneration { held } => {
                write!(formatter, "the adapter has already reported about generation {held}")
            }
            Self::OlderTime { held } => {
                write!(formatter, "the adapter has already reported about this generation, at {held}")
            }
            Self::Undecided => write!(formatter, "Available is Unknown: the adapter cannot tell yet"),
        }
    }
}

/// Judges a well-formed report. Only what was accepted before stands against it: a report that was discarded does not make
/// a later one late.
pub fn judge(resource: &Resource, held: Option<&AdapterStatus>, report: &Report) -> Judgement {
    if report.observed_generation > resource.generation {
        return Judgement::Discard(Discard::FutureGeneration { generation: resource.generation });
    }
    if let Some(held) = held {
        if report.observed_generation < held.observed_generation {
            return Judgement::Discard(Discard::OlderGeneration { held: held.observed_generation });
        }
        // Of two at the same time the later arrival stays: adapters tell time in whole seconds.
        if report.observed_generation == held.observed_generation
            && report.observed_time < held.last_updated_time
        {
            return Judgement::Discard(Discard::OlderTime { held: held.last_updated_time });
        }
    }
    let undecided = status_of(&report.conditions, AVAILABLE) == Some(Status::Unknown);
    // Cleaning up ends with the thing gone, of which nobody can tell that it is available.
    let finalized = resource.is_deleting() && status_of(&report.conditions, FINALIZED) == Some(Status::True);
    if undecided && !finalized {
        return Judgement::Discard(Discard::Undecided);
    }
    let missing = MANDATORY.into_iter().find(|type_| status_of(&report.conditions, type_).is_none());
    match missing {
        Some(missing) => Judgement::Incomplete { missing },
        None => Judgement::Accept,
    }
}

fn status_of(conditions: &[ReportedCondition], type_: &str) -> Option<Status> {
    conditions.iter().find(|condition| condition.type_ == type_).map(|condition| condition.status)
}

/// The adapter was heard, whatever became of its report.
pub(super) fn heard(record: Option<&AdapterRecord>, report: &Report) -> AdapterRecord {
    let Some(record) = record else {
        let (adapter, last_report_time) = (report.adapter.clone(), report.observed_time);
        return AdapterRecord { adapter, last_report_time, status: None };
    };
    let mut record = record.clone();
    record.last_report_time = record.last_report_time.max(report.observed_time);
    if let Some(status) = &mut record.status {
        status.last_report_time = record.last_report_time;
    }
    record
}

/// The status of the adapter after an accepted report. A condition keeps its transition time while its status stays.
pub(super) fn accepted(record: &AdapterRecord, report: &Report) -> AdapterStatus {
    let held = record.status.as_ref();
    // Of a newer generation an adapter may have looked earlier; a transition never goes back for that.
    let since = |condition: &ReportedCondition| {
        let before = held?.conditions.iter().find(|before| before.type_ == condition.type_)?;
        let last = before.last_transition_time;
        Some(if before.status == condition.status { last } else { last.max(report.observed_time) })
    };
    let conditions = report.conditions.iter().map(|condition| AdapterCondition {
        type_: condition.type_.clone(),
        status: condition.status,
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        last_transition_time: since(condition).unwrap_or(report.observed_time),
    });
    AdapterStatus {
        adapter: report.adapter.clone(),
        observed_generation: report.observed_generation,
        conditions: conditions.collect(),
        data: report.data.clone().unwrap_or_default(),
        metadata: report.metadata.clone(),
        created_time: held.map_or(report.observed_time, |held| held.created_time),
        last_updated_time: report.observed_time,
        last_report_time: record.last_report_time,
    }
}
