//! Computes the conditions of a Placement: whether it has as many clusters as requested and, if not, which filters removed
//! clusters. Pure.

use std::fmt;

use bellwether_api::cluster::Placement;
use bellwether_conditions::{Desired, Reason, Status};

use super::sets::AvailableSets;
use super::spec::Misconfigured;
use crate::placement::vocabulary::{
    ALL_SCHEDULED, MISCONFIGURED, NO_BINDINGS, NO_INTERSECTION, NO_MATCH, NOT_ALL_SCHEDULED,
    REASON_MISCONFIGURED, REASON_VALID, SATISFIED, SETS_EMPTY,
};

/// The maximum number of names in a message.
const MAX_NAMES: usize = 5;

/// How many clusters each filter removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FilterCounts {
    /// The clusters in the sets, before any filter.
    pub(super) in_sets: usize,
    pub(super) deleting: usize,
    pub(super) not_matching: usize,
    pub(super) tainted: usize,
    pub(super) tainted_for_new: usize,
}

impl fmt::Display for FilterCounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            (self.deleting, "being deleted"),
            (self.not_matching, "not matched by the predicates"),
            (self.tainted, "tainted and not tolerated"),
            (self.tainted_for_new, "tainted NoSelectIfNew"),
        ];
        write!(formatter, "of {} in the sets", clusters(self.in_sets))?;
        for (count, what) in rows.into_iter().filter(|(count, _)| *count > 0) {
            write!(formatter, ", {count} {} {what}", if count == 1 { "is" } else { "are" })?;
        }
        Ok(())
    }
}

/// The result of a selection.
pub(super) struct Outcome<'a> {
    pub(super) available_sets: &'a AvailableSets,
    pub(super) filtered: FilterCounts,
    pub(super) selected: usize,
    pub(super) requested: Option<usize>,
}

/// The conditions of a valid placement.
pub(super) fn valid_conditions(placement: &Placement, outcome: &Outcome<'_>) -> Vec<Desired> {
    let (status, reason, message) = satisfied_condition(placement, outcome);
    vec![
        with_generation(placement, Desired::new(SATISFIED, status, reason, message)),
        with_generation(
            placement,
            Desired::new(MISCONFIGURED, Status::False, REASON_VALID, "The placement is valid."),
        ),
    ]
}

/// The conditions of an invalid placement; it keeps its existing decisions.
pub(super) fn misconfigured_conditions(
    placement: &Placement,
    problem: &Misconfigured,
    kept: usize,
) -> Vec<Desired> {
    let stay = match kept {
        0 => "no cluster is selected".to_owned(),
        kept => format!("the previous selection stays: {}", clusters(kept)),
    };
    let message = format!("The placement is invalid: {problem}.");
    vec![
        with_generation(
            placement,
            Desired::new(
                SATISFIED,
                Status::False,
                NOT_ALL_SCHEDULED,
                format!("{message} Until it is fixed, {stay}."),
            ),
        ),
        with_generation(placement, Desired::new(MISCONFIGURED, Status::True, REASON_MISCONFIGURED, message)),
    ]
}

fn with_generation(placement: &Placement, desired: Desired) -> Desired {
    desired.observed_at(placement.metadata.generation.unwrap_or_default())
}

fn satisfied_condition(placement: &Placement, outcome: &Outcome<'_>) -> (Status, Reason, String) {
    let Outcome { available_sets, filtered, selected, requested } = outcome;
    let namespace = placement.metadata.namespace.as_deref().unwrap_or_default();
    let short = |reason, message| (Status::False, reason, message);
    match available_sets {
        AvailableSets::Unbound => {
            short(NO_BINDINGS, format!("No ManagedClusterSet is bound in the namespace {namespace}."))
        }
        AvailableSets::Missing(sets) => short(
            NO_BINDINGS,
            format!(
                "What is bound in the namespace {namespace} does not exist: ManagedClusterSet {}.",
                names(sets)
            ),
        ),
        AvailableSets::NoIntersection { named, bound } => short(
            NO_INTERSECTION,
            format!(
                "No set that the placement names is bound in the namespace {namespace}: it names {}; bound is {}.",
                names(named),
                names(bound)
            ),
        ),
        AvailableSets::Sets(sets) if filtered.in_sets == 0 => {
            let sets: Vec<&str> = sets.iter().map(|(set, _)| set.as_str()).collect();
            short(SETS_EMPTY, format!("No cluster is in a set to choose from: {}.", names(&sets)))
        }
        AvailableSets::Sets(_) => match requested {
            None if *selected == 0 => short(NO_MATCH, format!("No cluster can be selected: {filtered}.")),
            Some(1..) if *selected == 0 => {
                short(NO_MATCH, format!("No cluster can be selected: {filtered}."))
            }
            Some(requested) if selected < requested => short(
                NOT_ALL_SCHEDULED,
                format!("{selected} of {requested} requested clusters are selected: {filtered}."),
            ),
            _ => {
                let verb = if *selected == 1 { "is" } else { "are" };
                (Status::True, ALL_SCHEDULED, format!("{} {verb} selected: {filtered}.", clusters(*selected)))
            }
        },
    }
}

fn clusters(count: usize) -> String {
    if count == 1 { "1 cluster".to_owned() } else { format!("{count} clusters") }
}

fn names(names: &[impl AsRef<str>]) -> String {
    let mut list = names.iter().take(MAX_NAMES).map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
    if names.len() > MAX_NAMES {
        list.push_str(&format!(" and {} more", names.len() - MAX_NAMES));
    }
    list
}
