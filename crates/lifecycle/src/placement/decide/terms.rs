//! What a Placement asks for, read once and with all its parts understood; or what of it is not.
//!
//! **What is not understood is refused**: a predicate, a toleration or a score that was dropped in silence would choose
//! other clusters than were meant.

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
use crate::clusters::members::{Senseless, expressions, selector};

/// The longest name that can stand in a label, as that of a placement does on its decisions.
const LABEL_LIMIT: usize = 63;

/// Why a Placement makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misconfigured {
    #[error("its name has more than {LABEL_LIMIT} characters, and so cannot be in a label of its decisions")]
    LongName,
    #[error("{place}: {problem}")]
    Selector { place: &'static str, problem: Senseless },
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
    #[error("Steady has the weight {0}: to prefer those that are not chosen would never come to rest")]
    Unsteady(i64),
    #[error("numberOfClusters is {0}, which is less than none")]
    Count(i32),
    #[error("clustersPerDecisionGroup is {0}: a number above 0 or a percentage from 1% to 100% is needed")]
    GroupSize(String),
    #[error("a decision group has no name")]
    GroupName,
}

/// What a Placement asks for.
#[derive(Debug)]
pub(super) struct Terms<'a> {
    pub(super) wanted: Option<usize>,
    pub(super) predicates: Vec<Fit>,
    pub(super) tolerations: &'a [Toleration],
    pub(super) weights: Weights,
    pub(super) groups: Vec<(&'a str, Fit)>,
    pub(super) group_size: GroupSize,
}

/// Labels and claims of a cluster, all of which must fit.
#[derive(Debug)]
pub(super) struct Fit {
    labels: Selector,
    claims: Selector,
}

impl Fit {
    fn read(
        labels: &LabelSelector,
        claims: &ClaimSelector,
        place: &'static str,
    ) -> Result<Self, Misconfigured> {
        let told = |problem| Misconfigured::Selector { place, problem };
        Ok(Self {
            labels: selector(labels).map_err(told)?,
            claims: expressions(&claims.match_expressions).map_err(told)?,
        })
    }

    pub(super) fn fits(&self, cluster: &ManagedCluster) -> bool {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        let labels = cluster.metadata.labels.as_ref().unwrap_or(&NONE);
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

impl<'a> Terms<'a> {
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
            wanted: match spec.number_of_clusters {
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
                    let fit =
                        Fit::read(&selector.label_selector, &selector.claim_selector, "a decision group")?;
                    Ok((group.group_name.as_str(), fit))
                })
                .collect::<Result<_, _>>()?,
            group_size: GroupSize::read(size)?,
        })
    }
}

fn predicates(spec: &PlacementSpec) -> Result<Vec<Fit>, Misconfigured> {
    let required = spec.predicates.iter().map(|predicate| &predicate.required_cluster_selector);
    required
        .map(|selector| {
            if selector.cel_selector.as_ref().is_some_and(asks_something) {
                return Err(Misconfigured::Cel);
            }
            Fit::read(&selector.label_selector, &selector.claim_selector, "a predicate")
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
