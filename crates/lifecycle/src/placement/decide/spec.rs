//! Parses and validates the spec of a Placement.
//!
//! **Unknown values are rejected**: ignoring a predicate, a toleration or a prioritizer would select other clusters than
//! intended.

use std::collections::BTreeMap;

use bellwether_api::cluster::{
    ClaimSelector, ManagedCluster, Placement, PlacementSpec, PrioritizerConfig, PrioritizerMode, TaintEffect,
    Toleration, TolerationOperator,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use kube::core::{Selector, SelectorExt as _};
use serde_json::Value;

use super::score::{Prioritizer, Weights};
use crate::clusters::members::{InvalidSelector, parse_expressions, parse_selector};

/// The maximum length of a label value; the name of a placement is a label of its decisions.
const LABEL_LIMIT: usize = 63;

/// Why a Placement is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misconfigured {
    #[error("its name has more than {LABEL_LIMIT} characters, and so cannot be in a label of its decisions")]
    LongName,
    #[error("{place}: {problem}")]
    Selector { place: &'static str, problem: InvalidSelector },
    #[error("a predicate has a celSelector; expressions are not evaluated")]
    Cel,
    #[error("a toleration without a key needs the operator Exists")]
    NoKey,
    #[error("the toleration of {0} has the operator Exists and a value; it takes none")]
    ExistsWithValue(String),
    #[error("the toleration of {0} has an operator that is not known: Equal and Exists are")]
    TolerationOperator(String),
    #[error(
        "the toleration of {0} has an effect that is not known: NoSelect, PreferNoSelect and NoSelectIfNew are"
    )]
    TolerationEffect(String),
    #[error("the mode of .spec.prioritizerPolicy is not known: Additive and Exact are")]
    Mode,
    #[error("clusters cannot be compared by scores of add-ons (type AddOn); BuiltIn is what there is")]
    AddOnScore,
    #[error(
        "clusters cannot be compared by {0:?}: Balance, Steady, ResourceAllocatableCPU and ResourceAllocatableMemory are known"
    )]
    Score(String),
    #[error("the weight {0} is not between -10 and 10")]
    Weight(i32),
    #[error("Steady has the weight {0}: preferring clusters that are not selected would never settle")]
    Unsteady(i64),
    #[error("numberOfClusters is {0}, but must be ≥ 0")]
    Count(i32),
    #[error("clustersPerDecisionGroup is {0}: a number above 0 or a percentage from 1% to 100% is needed")]
    GroupSize(String),
    #[error("a decision group has no name")]
    GroupName,
}

/// The parsed spec of a Placement.
#[derive(Debug)]
pub(super) struct ParsedSpec<'a> {
    pub(super) requested: Option<usize>,
    pub(super) predicates: Vec<ClusterMatcher>,
    pub(super) tolerations: &'a [Toleration],
    pub(super) weights: Weights,
    pub(super) groups: Vec<(&'a str, ClusterMatcher)>,
    pub(super) group_size: GroupSize,
}

/// A selector for labels and claims; a cluster must match both.
#[derive(Debug)]
pub(super) struct ClusterMatcher {
    labels: Selector,
    claims: Selector,
}

impl ClusterMatcher {
    fn read(
        labels: &LabelSelector,
        claims: &ClaimSelector,
        place: &'static str,
    ) -> Result<Self, Misconfigured> {
        let invalid = |problem| Misconfigured::Selector { place, problem };
        Ok(Self {
            labels: parse_selector(labels).map_err(invalid)?,
            claims: parse_expressions(&claims.match_expressions).map_err(invalid)?,
        })
    }

    pub(super) fn matches(&self, cluster: &ManagedCluster) -> bool {
        static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();
        let labels = cluster.metadata.labels.as_ref().unwrap_or(&NO_LABELS);
        self.labels.matches(labels) && (self.claims.selects_all() || self.claims.matches(&claims(cluster)))
    }
}

fn claims(cluster: &ManagedCluster) -> BTreeMap<String, String> {
    let claims = cluster.status.iter().flat_map(|status| &status.cluster_claims);
    claims.map(|claim| (claim.name.clone(), claim.value.clone())).collect()
}

/// How many clusters a group has at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupSize {
    Clusters(usize),
    /// Of all that are chosen, and at least one.
    Percent(usize),
}

impl GroupSize {
    fn read(value: Option<&IntOrString>) -> Result<Self, Misconfigured> {
        let refused = |text: &dyn std::fmt::Display| Misconfigured::GroupSize(text.to_string());
        match value {
            None => Ok(Self::Percent(100)),
            Some(IntOrString::Int(number)) => match usize::try_from(*number) {
                Ok(number) if number > 0 => Ok(Self::Clusters(number)),
                _ => Err(refused(number)),
            },
            Some(IntOrString::String(text)) => {
                let (number, percent) = match text.strip_suffix('%') {
                    Some(number) => (number, true),
                    None => (text.as_str(), false),
                };
                match (number.parse::<usize>(), percent) {
                    (Ok(number @ 1..=100), true) => Ok(Self::Percent(number)),
                    (Ok(number @ 1..), false) => Ok(Self::Clusters(number)),
                    _ => Err(refused(text)),
                }
            }
        }
    }

    pub(super) fn of(self, chosen: usize) -> usize {
        match self {
            Self::Clusters(number) => number,
            Self::Percent(number) => chosen.saturating_mul(number).div_ceil(100).max(1),
        }
    }
}

impl<'a> ParsedSpec<'a> {
    pub(super) fn read(placement: &'a Placement) -> Result<Self, Misconfigured> {
        if placement.name_any().len() > LABEL_LIMIT {
            return Err(Misconfigured::LongName);
        }
        let spec = &placement.spec;
        for toleration in &spec.tolerations {
            check(toleration)?;
        }
        let strategy = spec.decision_strategy.as_ref().map(|strategy| &strategy.group_strategy);
        let size = strategy.and_then(|strategy| strategy.clusters_per_decision_group.as_ref());
        let groups = strategy.into_iter().flat_map(|strategy| &strategy.decision_groups);
        Ok(Self {
            requested: match spec.number_of_clusters {
                None => None,
                Some(number) => Some(usize::try_from(number).map_err(|_| Misconfigured::Count(number))?),
            },
            predicates: predicates(spec)?,
            tolerations: &spec.tolerations,
            weights: weights(spec)?,
            groups: groups
                .map(|group| {
                    if group.group_name.is_empty() {
                        return Err(Misconfigured::GroupName);
                    }
                    let selector = &group.group_cluster_selector;
                    let fit = ClusterMatcher::read(
                        &selector.label_selector,
                        &selector.claim_selector,
                        "a decision group",
                    )?;
                    Ok((group.group_name.as_str(), fit))
                })
                .collect::<Result<_, _>>()?,
            group_size: GroupSize::read(size)?,
        })
    }
}

fn predicates(spec: &PlacementSpec) -> Result<Vec<ClusterMatcher>, Misconfigured> {
    let required = spec.predicates.iter().map(|predicate| &predicate.required_cluster_selector);
    required
        .map(|selector| {
            if selector.cel_selector.as_ref().is_some_and(asks_something) {
                return Err(Misconfigured::Cel);
            }
            ClusterMatcher::read(&selector.label_selector, &selector.claim_selector, "a predicate")
        })
        .collect()
}

/// Whether there is anything in a selector of expressions.
fn asks_something(selector: &Value) -> bool {
    match selector {
        Value::Null => false,
        Value::Array(items) => items.iter().any(asks_something),
        Value::Object(members) => members.values().any(asks_something),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn check(toleration: &Toleration) -> Result<(), Misconfigured> {
    let key = || match toleration.key.as_str() {
        "" => "every taint".to_owned(),
        key => key.to_owned(),
    };
    match toleration.operator {
        TolerationOperator::Other => Err(Misconfigured::TolerationOperator(key())),
        TolerationOperator::Equal if toleration.key.is_empty() => Err(Misconfigured::NoKey),
        TolerationOperator::Exists if !toleration.value.is_empty() => {
            Err(Misconfigured::ExistsWithValue(key()))
        }
        _ if toleration.effect == Some(TaintEffect::Other) => Err(Misconfigured::TolerationEffect(key())),
        TolerationOperator::Equal | TolerationOperator::Exists => Ok(()),
    }
}

fn weights(spec: &PlacementSpec) -> Result<Weights, Misconfigured> {
    let Some(policy) = &spec.prioritizer_policy else { return Ok(Weights::USUAL) };
    let mut weights = match policy.mode {
        PrioritizerMode::Additive => Weights::USUAL,
        PrioritizerMode::Exact => Weights::NONE,
        PrioritizerMode::Other => return Err(Misconfigured::Mode),
    };
    for configuration in &policy.configurations {
        let weight = configuration.weight.unwrap_or(1);
        if !(-10..=10).contains(&weight) {
            return Err(Misconfigured::Weight(weight));
        }
        weights.set(prioritizer(configuration)?, i64::from(weight));
    }
    match weights.steady {
        unsteady @ ..0 => Err(Misconfigured::Unsteady(unsteady)),
        0.. => Ok(weights),
    }
}

fn prioritizer(configuration: &PrioritizerConfig) -> Result<Prioritizer, Misconfigured> {
    let Some(coordinate) = &configuration.score_coordinate else {
        return Err(Misconfigured::Score(String::new()));
    };
    match coordinate.type_.as_str() {
        "" | "BuiltIn" => {
            let name = coordinate.built_in.as_deref().unwrap_or_default();
            Prioritizer::named(name).ok_or_else(|| Misconfigured::Score(name.to_owned()))
        }
        _ => Err(Misconfigured::AddOnScore),
    }
}
