//! Whether a report is accepted.

use std::fmt;

use bellwether_conditions::Status;

use crate::resource::{AdapterCondition, AdapterRecord, AdapterStatus, Report, ReportedCondition, Resource};
use crate::vocabulary::reported::{APPLIED, AVAILABLE, FINALIZED, HEALTH};

/// The conditions that every report must have.
const MANDATORY: [&str; 3] = [AVAILABLE, APPLIED, HEALTH];

/// The verdict on a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It becomes the status of its adapter.
    Accept,
    /// It changes nothing.
    Discard(Discard),
    /// It lacks a mandatory condition.
    Incomplete {
        /// The missing condition.
        missing: &'static str,
    },
}

/// Why a report is discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// The resource has not reached that generation.
    FutureGeneration {
        /// The generation of the resource.
        generation: i64,
    },
    /// The adapter has reported about a newer generation.
    OlderGeneration {
        /// That generation.
        held: i64,
    },
    /// The adapter has reported about this generation at a later time.
    OlderTime {
        /// The observed time of that report.
        held: jiff::Timestamp,
    },
    /// `Available` is `Unknown`.
    Undecided,
}

impl fmt::Display for Discard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FutureGeneration { generation } => {
                write!(
                    formatter,
                    "the report is about a future generation; the resource is at generation {generation}"
                )
            }
            Self::OlderGeneration { held } => {
                write!(formatter, "the adapter has already reported about the newer generation {held}")
            }
            Self::OlderTime { held } => {
                write!(
                    formatter,
                    "the adapter has already reported about this generation at the later time {held}"
                )
            }
            Self::Undecided => write!(formatter, "Available is Unknown"),
        }
    }
}

/// Judges a well-formed report. It is compared only with the last accepted report: a discarded one does not make a later report
/// stale.
pub fn judge(resource: &Resource, held: Option<&AdapterStatus>, report: &Report) -> Judgement {
    if report.observed_generation > resource.generation {
        return Judgement::Discard(Discard::FutureGeneration { generation: resource.generation });
    }
    if let Some(held) = held {
        if report.observed_generation < held.observed_generation {
            return Judgement::Discard(Discard::OlderGeneration { held: held.observed_generation });
        }
        // Of two reports with the same time the later arrival is accepted: adapters report whole seconds.
        if report.observed_generation == held.observed_generation
            && report.observed_time < held.last_updated_time
        {
            return Judgement::Discard(Discard::OlderTime { held: held.last_updated_time });
        }
    }
    let is_unknown = status_of(&report.conditions, AVAILABLE) == Some(Status::Unknown);
    // After the cleanup the object does not exist any more, so that its availability is unknown.
    let finalized = resource.is_deleting() && status_of(&report.conditions, FINALIZED) == Some(Status::True);
    if is_unknown && !finalized {
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

/// Updates the record of an adapter for a report, accepted or discarded.
pub(super) fn record_report(record: Option<&AdapterRecord>, report: &Report) -> AdapterRecord {
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
    // A report about a newer generation may have an earlier time; a transition time never moves back.
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
