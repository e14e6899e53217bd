//! Which clusters a Placement chooses, in which groups, and what to say of it. Pure.
//!
//! `terms` is what the Placement asks for, `sets` which clusters there are to choose from, `taints` and `score` are two of
//! the hurdles, `groups` is how those that are chosen are put, `report` is what is said.

mod groups;
mod report;
mod score;
mod sets;
mod taints;
mod terms;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bellwether_api::cluster::vocabulary::{PLACEMENT_LABEL, SCHEDULING_DISABLED};
use bellwether_api::cluster::{
    ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, Placement, PlacementDecision,
};
use bellwether_conditions::Desired;
use jiff::Timestamp;
use kube::ResourceExt as _;

pub(crate) use groups::{Chosen, Group};

use self::report::{Hurdles, Outcome};
use self::sets::Supply;
use self::taints::{Standing, standing};
use self::terms::Terms;

/// What a choice depends on.
pub(crate) struct Question<'a> {
    pub(crate) placement: &'a Placement,
    pub(crate) clusters: &'a [Arc<ManagedCluster>],
    pub(crate) sets: &'a [Arc<ManagedClusterSet>],
    /// Of all namespaces.
    pub(crate) bindings: &'a [Arc<ManagedClusterSetBinding>],
    /// The decisions of this placement, as they are.
    pub(crate) own: &'a [Arc<PlacementDecision>],
    /// The decisions of all placements.
    pub(crate) all: &'a [Arc<PlacementDecision>],
    pub(crate) now: Timestamp,
}

/// What becomes of a placement.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Its decisions stay as they are; this is what is said of it.
    Keep(Vec<Desired>),
    /// These are chosen.
    Choose(Choice),
}

/// What was chosen.
#[derive(Debug)]
pub(crate) struct Choice {
    /// At least one, which may be empty.
    pub(crate) groups: Vec<Group>,
    pub(crate) conditions: Vec<Desired>,
    /// When a toleration ends, and it is to be decided again.
    pub(crate) until: Option<Timestamp>,
}

pub(crate) fn decide(question: &Question<'_>) -> Answer {
    let placement = question.placement;
    if is_disabled(placement) {
        return Answer::Keep(Vec::new());
    }
    match Terms::read(placement) {
        Ok(terms) => Answer::Choose(choose(question, &terms)),
        Err(problem) => {
            Answer::Keep(report::misconfigured(placement, &problem, chosen_before(question).len()))
        }
    }
}

/// Whether somebody else decides in place of us, or nobody for now.
pub(crate) fn is_disabled(placement: &Placement) -> bool {
    placement.annotations().get(SCHEDULING_DISABLED).is_some_and(|value| value == "true")
}

fn choose(question: &Question<'_>, terms: &Terms<'_>) -> Choice {
    let supply = Supply::of(question.placement, question.sets, question.bindings);
    let before = chosen_before(question);
    let mut field = Field::default();
    for cluster in question.clusters.iter().filter(|cluster| supply.has(cluster)) {
        field.enter(cluster, terms, &before, question.now);
    }
    let Field { mut runners, hurdles, until } = field;
    let wanted = terms.wanted.unwrap_or(usize::MAX);
    let is_contest = runners.len() > wanted;
    if is_contest {
        let clusters: Vec<&ManagedCluster> = runners.iter().map(|runner| runner.cluster).collect();
        let scores = score::scores(terms.weights, &clusters, &before, || elsewhere(question));
        for (runner, score) in runners.iter_mut().zip(scores) {
            runner.score = score;
        }
        runners.sort_by_cached_key(|runner| (runner.standing, -runner.score, runner.cluster.name_any()));
        runners.truncate(wanted);
    }
    let chosen: Vec<Chosen<'_>> = runners
        .iter()
        .map(|runner| Chosen { cluster: runner.cluster, score: is_contest.then_some(runner.score) })
        .collect();
    let outcome = Outcome { supply: &supply, hurdles, chosen: chosen.len(), wanted: terms.wanted };
    Choice {
        conditions: report::chosen(question.placement, &outcome),
        groups: groups::group(terms, chosen),
        until,
    }
}

/// The clusters of the sets, of which some fall at a hurdle.
#[derive(Default)]
struct Field<'a> {
    runners: Vec<Runner<'a>>,
    hurdles: Hurdles,
    until: Option<Timestamp>,
}

/// A cluster that can be chosen.
struct Runner<'a> {
    cluster: &'a ManagedCluster,
    standing: Standing,
    score: i64,
}

impl<'a> Field<'a> {
    fn enter(
        &mut self,
        cluster: &'a ManagedCluster,
        terms: &Terms<'_>,
        before: &HashSet<&str>,
        now: Timestamp,
    ) {
        self.hurdles.in_sets += 1;
        if cluster.metadata.deletion_timestamp.is_some() {
            self.hurdles.leaving += 1;
            return;
        }
        if !terms.predicates.is_empty() && !terms.predicates.iter().any(|predicate| predicate.fits(cluster)) {
            self.hurdles.unfit += 1;
            return;
        }
        let is_chosen = before.contains(cluster.name_any().as_str());
        let (standing, until) = standing(&cluster.spec.taints, terms.tolerations, is_chosen, now);
        self.until = [self.until, until].into_iter().flatten().min();
        match standing {
            Standing::Refused => self.hurdles.tainted += 1,
            Standing::NotAnew => self.hurdles.tainted_for_new += 1,
            Standing::Welcome | Standing::Avoided => {
                self.runners.push(Runner { cluster, standing, score: 0 });
            }
        }
    }
}

/// The clusters that stand in the decisions of the placement now.
fn chosen_before<'a>(question: &Question<'a>) -> HashSet<&'a str> {
    question.own.iter().flat_map(|decision| clusters_of(decision)).collect()
}

/// How many other placements have chosen which cluster.
fn elsewhere<'a>(question: &Question<'a>) -> HashMap<&'a str, usize> {
    let mut counts = HashMap::new();
    for decision in question.all.iter().filter(|decision| !is_of(decision, question.placement)) {
        for cluster in clusters_of(decision) {
            *counts.entry(cluster).or_insert(0) += 1;
        }
    }
    counts
}

/// The clusters of a decision.
pub(crate) fn clusters_of(decision: &PlacementDecision) -> impl Iterator<Item = &str> {
    let decisions = decision.status.iter().flat_map(|status| &status.decisions);
    decisions.map(|decided| decided.cluster_name.as_str())
}

/// Whether a decision is one of a placement.
pub(crate) fn is_of(decision: &PlacementDecision, placement: &Placement) -> bool {
    decision.metadata.namespace == placement.metadata.namespace
        && decision.labels().get(PLACEMENT_LABEL).map(String::as_str) == placement.metadata.name.as_deref()
}
