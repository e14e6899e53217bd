//! What is said of a Placement: whether it has what it wants, and if not, how many clusters fell at which hurdle.

use std::fmt;

use bellwether_api::cluster::Placement;
use bellwether_conditions::{Desired, Reason, Status};

use super::sets::Supply;
use super::terms::Misconfigured;
use crate::placement::vocabulary::{
    ALL_SCHEDULED, MISCONFIGURED, NO_BINDINGS, NO_INTERSECTION, NO_MATCH, NOT_ALL_SCHEDULED, SATISFIED,
    SENSELESS, SENSIBLE, SETS_EMPTY,
};

/// How many names a message has at most.
const NAMES: usize = 5;

/// How many clusters fell where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hurdles {
    /// In the sets, before the first hurdle.
    pub(super) in_sets: usize,
    pub(super) leaving: usize,
    pub(super) unfit: usize,
    pub(super) tainted: usize,
    pub(super) tainted_for_new: usize,
}

impl fmt::Display for Hurdles {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            (self.leaving, "being deleted"),
            (self.unfit, "not as the predicates ask"),
            (self.tainted, "tainted and not tolerated"),
            (self.tainted_for_new, "tainted against being chosen anew"),
        ];
        write!(formatter, "of {} in the sets", clusters(self.in_sets))?;
        for (count, what) in rows.into_iter().filter(|(count, _)| *count > 0) {
            write!(formatter, ", {count} {} {what}", if count == 1 { "is" } else { "are" })?;
        }
        Ok(())
    }
}

/// What came of it.
pub(super) struct Outcome<'a> {
    pub(super) supply: &'a Supply,
    pub(super) hurdles: Hurdles,
    pub(super) chosen: usize,
    pub(super) wanted: Option<usize>,
}

/// Of a placement that makes sense.
pub(super) fn chosen(placement: &Placement, outcome: &Outcome<'_>) -> Vec<Desired> {
    let (status, reason, message) = satisfaction(placement, outcome);
    vec![
        said(placement, Desired::new(SATISFIED, status, reason, message)),
        said(placement, Desired::new(MISCONFIGURED, Status::False, SENSIBLE, "The placement makes sense.")),
    ]
}

/// Of one that does not: what was chosen before stays so.
pub(super) fn misconfigured(placement: &Placement, problem: &Misconfigured, kept: usize) -> Vec<Desired> {
    let stay = match kept {
        0 => "nothing is chosen".to_owned(),
        kept => format!("what was chosen before stays so: {}", clusters(kept)),
    };
    let message = format!("The placement makes no sense: {problem}.");
    vec![
        said(
            placement,
            Desired::new(
                SATISFIED,
                Status::False,
                NOT_ALL_SCHEDULED,
                format!("{message} Until it does, {stay}."),
            ),
        ),
        said(placement, Desired::new(MISCONFIGURED, Status::True, SENSELESS, message)),
    ]
}

fn said(placement: &Placement, desired: Desired) -> Desired {
    desired.observed_at(placement.metadata.generation.unwrap_or_default())
}

fn satisfaction(placement: &Placement, outcome: &Outcome<'_>) -> (Status, Reason, String) {
    let Outcome { supply, hurdles, chosen, wanted } = outcome;
    let namespace = placement.metadata.namespace.as_deref().unwrap_or_default();
    let short = |reason, message| (Status::False, reason, message);
    match supply {
        Supply::Unbound => {
            short(NO_BINDINGS, format!("No ManagedClusterSet is bound in the namespace {namespace}."))
        }
        Supply::Missing(sets) => short(
            NO_BINDINGS,
            format!(
                "What is bound in the namespace {namespace} does not exist: ManagedClusterSet {}.",
                names(sets)
            ),
        ),
        Supply::Apart { named, bound } => short(
            NO_INTERSECTION,
            format!(
                "No set that the placement names is bound in the namespace {namespace}: it names {}; bound is {}.",
                names(named),
                names(bound)
            ),
        ),
        Supply::Sets(sets) if hurdles.in_sets == 0 => {
            let sets: Vec<&str> = sets.iter().map(|(set, _)| set.as_str()).collect();
            short(SETS_EMPTY, format!("No cluster is in a set to choose from: {}.", names(&sets)))
        }
        Supply::Sets(_) => match wanted {
            None if *chosen == 0 => short(NO_MATCH, format!("No cluster can be chosen: {hurdles}.")),
            Some(1..) if *chosen == 0 => short(NO_MATCH, format!("No cluster can be chosen: {hurdles}.")),
            Some(wanted) if chosen < wanted => short(
                NOT_ALL_SCHEDULED,
                format!("{chosen} of {wanted} wanted clusters are chosen: {hurdles}."),
            ),
            _ => {
                let verb = if *chosen == 1 { "is" } else { "are" };
                (Status::True, ALL_SCHEDULED, format!("{} {verb} chosen: {hurdles}.", clusters(*chosen)))
            }
        },
    }
}

fn clusters(count: usize) -> String {
    if count == 1 { "1 cluster".to_owned() } else { format!("{count} clusters") }
}

fn names(names: &[impl AsRef<str>]) -> String {
    let mut list = names.iter().take(NAMES).map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
    if names.len() > NAMES {
        list.push_str(&format!(" and {} more", names.len() - NAMES));
    }
    list
}
