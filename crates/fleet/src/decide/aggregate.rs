//! The conditions of a resource, computed from the statuses of its adapters. The two combined conditions are computed by
//! [`fold::generation`](bellwether_conditions::fold::generation); this module provides its input, reasons and messages.

use std::collections::BTreeMap;

use bellwether_conditions::Status;
use bellwether_conditions::fold::generation::{
    CurrentCause, Evaluation, FoldedStatus, LastKnownCause, Precondition, Report, Reports, Snapshot,
};
use jiff::Timestamp;

use crate::kinds::Kinds;
use crate::resource::{AdapterCondition, AdapterRecord, AdapterStatus, Resource, ResourceCondition};
use crate::vocabulary::reported::{AVAILABLE, FINALIZED};
use crate::vocabulary::{adapter_condition, is_current, is_last_known};

/// Whether a resource has children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Children {
    /// It has no children.
    None,
    /// It has children.
    Some,
}

/// Computes the conditions of a resource from its current conditions and the reports of its adapters. `cause` is the time of the
/// report or change that triggered the computation.
pub fn aggregate(
    kinds: &Kinds,
    resource: &Resource,
    adapters: &BTreeMap<String, AdapterRecord>,
    children: Children,
    cause: Timestamp,
) -> Vec<ResourceCondition> {
    let Some(kind) = kinds.get(&resource.kind) else { return resource.status.conditions.clone() };
    let statuses: BTreeMap<&str, &AdapterStatus> = adapters
        .values()
        .filter_map(|record| Some((record.adapter.as_str(), record.status.as_ref()?)))
        .collect();
    let whole = Whole { resource, statuses: &statuses, required: &kind.required_adapters, children, cause };
    let mut conditions = Vec::with_capacity(kind.required_adapters.len() + kind.mappings.len() + 4);
    let vocabulary = kinds.vocabulary();
    conditions.extend(vocabulary.current().iter().filter_map(|type_| whole.current(type_)));
    conditions.extend(vocabulary.last_known().iter().filter_map(|type_| whole.last_known(type_)));
    conditions.extend(kind.required_adapters.iter().filter_map(|adapter| whole.of_adapter(adapter)));
    conditions
        .extend(kind.mappings.iter().filter_map(|mapping| mapping.evaluate(resource, &statuses, cause)));
    conditions
}

/// Whether every required adapter has reported, for the generation of the deletion, that it has cleaned up.
pub(super) fn is_finalized(
    kinds: &Kinds,
    resource: &Resource,
    adapters: &BTreeMap<String, AdapterRecord>,
) -> bool {
    let Some(kind) = kinds.get(&resource.kind) else { return false };
    let done = |adapter: &String| {
        adapters.get(adapter).and_then(|record| record.status.as_ref()).is_some_and(|status| {
            status.observed_generation == resource.generation
                && status_of(status, FINALIZED) == Some(Status::True)
        })
    };
    resource.is_deleting() && kind.required_adapters.iter().all(done)
}

struct Whole<'a> {
    resource: &'a Resource,
    statuses: &'a BTreeMap<&'a str, &'a AdapterStatus>,
    required: &'a [String],
    children: Children,
    cause: Timestamp,
}

impl Whole<'_> {
    fn current(&self, type_: &str) -> Option<ResourceCondition> {
        let deleting = self.resource.is_deleting();
        let wanted = if deleting { FINALIZED } else { AVAILABLE };
        // During a deletion, an adapter that has finalized counts even if Available is Unknown.
        let reports = self.reports(|status| match status_of(status, AVAILABLE) {
            Some(Status::Unknown) | None if !deleting => None,
            _ => Some(status_of(status, wanted) == Some(Status::True)),
        });
        let precondition = match (deleting, self.children) {
            (true, Children::Some) => Precondition::Unmet,
            _ => Precondition::Met,
        };
        let before = self.before(is_current);
        let evaluation = self.snapshot(&reports).current(before.map(folded_status).as_ref(), precondition)?;
        let (reason, message) = describe_current(&evaluation.cause, wanted);
        Some(self.condition(type_, before, evaluation.status, reason, message))
    }

    fn last_known(&self, type_: &str) -> Option<ResourceCondition> {
        let reports = self.reports(|status| match status_of(status, AVAILABLE)? {
            Status::True => Some(true),
            Status::False => Some(false),
            Status::Unknown => None,
        });
        let before = self.before(is_last_known);
        // An adapter that reports Unknown after it has finalized does not change the last known status.
        let is_unknown = |adapter: &String| {
            self.statuses
                .get(adapter.as_str())
                .is_some_and(|status| status_of(status, AVAILABLE) == Some(Status::Unknown))
        };
        if self.required.iter().any(is_unknown)
            && let Some(before) = before
        {
            return Some(ResourceCondition { type_: type_.to_owned(), ..before.clone() });
        }
        let evaluation: Evaluation<LastKnownCause<'_, String>> =
            self.snapshot(&reports).last_known(before.map(folded_status).as_ref())?;
        let (reason, message) = describe_last_known(&evaluation.cause);
        Some(self.condition(type_, before, evaluation.status, reason, message))
    }

    fn of_adapter(&self, adapter: &str) -> Option<ResourceCondition> {
        let type_ = adapter_condition(adapter);
        let before = self.before(|other| other == type_);
        let status = self.statuses.get(adapter)?;
        let available = find(status, AVAILABLE)?;
        if available.status == Status::Unknown || status.observed_generation > self.resource.generation {
            return before.cloned();
        }
        Some(ResourceCondition {
            status: available.status,
            reason: available.reason.clone(),
            message: available.message.clone(),
            observed_generation: status.observed_generation,
            created_time: before.map_or(status.created_time, |before| before.created_time),
            last_updated_time: status.last_updated_time,
            last_transition_time: available.last_transition_time,
            type_,
        })
    }

    /// The reports of adapters; `holds` returns `None` for a status that does not count.
    fn reports(&self, holds: impl Fn(&AdapterStatus) -> Option<bool>) -> Reports<String> {
        let report = |(adapter, status): (&&str, &&AdapterStatus)| {
            let report = Report {
                generation: status.observed_generation,
                holds: holds(status)?,
                time: status.last_updated_time,
            };
            Some(((*adapter).to_owned(), report))
        };
        self.statuses.iter().filter_map(report).collect()
    }

    fn snapshot<'s>(&'s self, reports: &'s Reports<String>) -> Snapshot<'s, String> {
        Snapshot {
            generation: self.resource.generation,
            changed_at: self.resource.updated_time,
            required: self.required,
            reports,
            trigger_time: self.cause,
        }
    }

    fn before(&self, is: impl Fn(&str) -> bool) -> Option<&ResourceCondition> {
        self.resource.status.conditions.iter().find(|condition| is(&condition.type_))
    }

    fn condition(
        &self,
        type_: &str,
        before: Option<&ResourceCondition>,
        folded: FoldedStatus,
        reason: &str,
        message: String,
    ) -> ResourceCondition {
        ResourceCondition {
            type_: type_.to_owned(),
            status: folded.holds.into(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            observed_generation: folded.generation,
            created_time: before.map_or(self.resource.updated_time, |before| before.created_time),
            last_updated_time: folded.updated,
            last_transition_time: folded.transitioned,
        }
    }
}

fn folded_status(condition: &ResourceCondition) -> FoldedStatus {
    FoldedStatus {
        holds: condition.status == Status::True,
        generation: condition.observed_generation,
        updated: condition.last_updated_time,
        transitioned: condition.last_transition_time,
    }
}

fn find<'a>(status: &'a AdapterStatus, type_: &str) -> Option<&'a AdapterCondition> {
    status.conditions.iter().find(|condition| condition.type_ == type_)
}

fn status_of(status: &AdapterStatus, type_: &str) -> Option<Status> {
    find(status, type_).map(|condition| condition.status)
}

fn describe_current(cause: &CurrentCause<'_, String>, wanted: &str) -> (&'static str, String) {
    match cause {
        CurrentCause::AllHold => {
            ("ReconciledAll", format!("All required adapters report {wanted}=True at the current generation"))
        }
        CurrentCause::PreconditionUnmet => (
            "ReconciledWaitingForChildren",
            "All required adapters have finalized; waiting for the deletion of child resources".to_owned(),
        ),
        CurrentCause::NotAllHold { not_holding, holding } => (
            "ReconciledMissingAdapters",
            format!(
                "Required adapters that do not report {wanted}=True at the current generation: [{}]; those that do: [{}]",
                join(not_holding),
                join(holding)
            ),
        ),
    }
}

fn describe_last_known(cause: &LastKnownCause<'_, String>) -> (&'static str, String) {
    match cause {
        LastKnownCause::AllHeld => (
            "AllAdaptersReconciled",
            "All required adapters reported Available=True at this generation".to_owned(),
        ),
        LastKnownCause::Missing(adapters) => (
            "AdaptersMissingReports",
            format!("Required adapters that have not reported yet: [{}]", join(adapters)),
        ),
        LastKnownCause::Failing(adapters) => (
            "AdapterReportedNotAvailable",
            format!("Required adapters that report Available=False: [{}]", join(adapters)),
        ),
        LastKnownCause::MixedGenerations => (
            "AdaptersNotAtSameGeneration",
            "Required adapters report Available=True, but not at the same generation".to_owned(),
        ),
    }
}

fn join(names: &[&String]) -> String {
    names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
}
