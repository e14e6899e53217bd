//! Decides which clusters a Placement selects, in which decision groups, and its conditions. Pure.
//!
//! `spec` parses the Placement, `sets` determines the available clusters, `taints` and `score` filter and rank them, `groups`
//! builds the decision groups, `report` the conditions. Writing decisions is left to the controller.

mod groups;
mod report;
mod score;
mod sets;
mod spec;
mod taints;
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

pub(crate) use groups::{Group, SelectedCluster};

use self::report::{FilterCounts, Outcome};
use self::sets::AvailableSets;
use self::spec::ParsedSpec;
use self::taints::{TaintEffectOnCluster, taint_effect};

/// Everything that the selection depends on.
pub(crate) struct DecisionInput<'a> {
    pub(crate) placement: &'a Placement,
    pub(crate) clusters: &'a [Arc<ManagedCluster>],
    pub(crate) sets: &'a [Arc<ManagedClusterSet>],
    /// The bindings of all namespaces.
    pub(crate) bindings: &'a [Arc<ManagedClusterSetBinding>],
    /// The existing decisions of this placement.
    pub(crate) own: &'a [Arc<PlacementDecision>],
    /// The decisions of all placements.
    pub(crate) all: &'a [Arc<PlacementDecision>],
    pub(crate) now: Timestamp,
}

/// The result of deciding a placement.
#[derive(Debug)]
pub(crate) enum PlacementResult {
    /// The decisions stay unchanged; these conditions are set.
    Keep(Vec<Desired>),
    /// These clusters are selected.
    Select(ClusterSelection),
}

/// The selected clusters.
#[derive(Debug)]
pub(crate) struct ClusterSelection {
    /// The decision groups; at least one, which may be empty.
    pub(crate) groups: Vec<Group>,
    pub(crate) conditions: Vec<Desired>,
    /// When a toleration ends, so that the placement must be decided again.
    pub(crate) until: Option<Timestamp>,
}

/// Decides a placement.
pub(crate) fn decide(input: &DecisionInput<'_>) -> PlacementResult {
    let placement = input.placement;
    if is_disabled(placement) {
        return PlacementResult::Keep(Vec::new());
    }
    match ParsedSpec::read(placement) {
        Ok(spec) => PlacementResult::Select(select_clusters(input, &spec)),
        Err(problem) => PlacementResult::Keep(report::misconfigured_conditions(
            placement,
            &problem,
            selected_before(input).len(),
        )),
    }
}

/// Whether this controller must not decide the placement, because another one does or scheduling is disabled.
pub(crate) fn is_disabled(placement: &Placement) -> bool {
    placement.annotations().get(SCHEDULING_DISABLED).is_some_and(|value| value == "true")
}

fn select_clusters(input: &DecisionInput<'_>, spec: &ParsedSpec<'_>) -> ClusterSelection {
    let available_sets = AvailableSets::of(input.placement, input.sets, input.bindings);
    let before = selected_before(input);
    let mut filter = CandidateFilter::default();
    for cluster in input.clusters.iter().filter(|cluster| available_sets.has(cluster)) {
        filter.add(cluster, spec, &before, input.now);
    }
    let CandidateFilter { mut candidates, filtered, until } = filter;
    let requested = spec.requested.unwrap_or(usize::MAX);
    // Scores are needed only if there are more candidates than requested clusters.
    let is_scored = candidates.len() > requested;
    if is_scored {
        let clusters: Vec<&ManagedCluster> = candidates.iter().map(|candidate| candidate.cluster).collect();
        let scores = score::scores(spec.weights, &clusters, &before, || selections_by_others(input));
        for (candidate, score) in candidates.iter_mut().zip(scores) {
            candidate.score = score;
        }
        candidates.sort_by_cached_key(|candidate| {
            (candidate.taint_effect, -candidate.score, candidate.cluster.name_any())
        });
        candidates.truncate(requested);
    }
    let selected: Vec<SelectedCluster<'_>> = candidates
        .iter()
        .map(|candidate| SelectedCluster {
            cluster: candidate.cluster,
            score: is_scored.then_some(candidate.score),
        })
        .collect();
    let outcome = Outcome {
        available_sets: &available_sets,
        filtered,
        selected: selected.len(),
        requested: spec.requested,
    };
    ClusterSelection {
        conditions: report::valid_conditions(input.placement, &outcome),
        groups: groups::group_clusters(spec, selected),
        until,
    }
}

/// Filters the clusters of the sets and counts how many each filter removed.
#[derive(Default)]
struct CandidateFilter<'a> {
    candidates: Vec<Candidate<'a>>,
    filtered: FilterCounts,
    until: Option<Timestamp>,
}

/// A cluster that can be selected.
struct Candidate<'a> {
    cluster: &'a ManagedCluster,
    taint_effect: TaintEffectOnCluster,
    score: i64,
}

impl<'a> CandidateFilter<'a> {
    fn add(
        &mut self,
        cluster: &'a ManagedCluster,
        spec: &ParsedSpec<'_>,
        before: &HashSet<&str>,
        now: Timestamp,
    ) {
        self.filtered.in_sets += 1;
        if cluster.metadata.deletion_timestamp.is_some() {
            self.filtered.deleting += 1;
            return;
        }
        if !spec.predicates.is_empty() && !spec.predicates.iter().any(|predicate| predicate.matches(cluster))
        {
            self.filtered.not_matching += 1;
            return;
        }
        let is_selected = before.contains(cluster.name_any().as_str());
        let (effect, until) = taint_effect(&cluster.spec.taints, spec.tolerations, is_selected, now);
        self.until = [self.until, until].into_iter().flatten().min();
        match effect {
            TaintEffectOnCluster::Excluded => self.filtered.tainted += 1,
            TaintEffectOnCluster::NotNewlySelected => self.filtered.tainted_for_new += 1,
            TaintEffectOnCluster::Tolerated | TaintEffectOnCluster::Avoided => {
                self.candidates.push(Candidate { cluster, taint_effect: effect, score: 0 });
            }
        }
    }
}

/// The clusters in the existing decisions of the placement.
fn selected_before<'a>(input: &DecisionInput<'a>) -> HashSet<&'a str> {
    input.own.iter().flat_map(|decision| clusters_of(decision)).collect()
}

/// How many other placements have selected each cluster.
fn selections_by_others<'a>(input: &DecisionInput<'a>) -> HashMap<&'a str, usize> {
    let mut counts = HashMap::new();
    for decision in input.all.iter().filter(|decision| !is_of(decision, input.placement)) {
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
