//! Reads the selected clusters from a Placement and its PlacementDecisions; all readers use this. Pure.
//!
//! It uses only fields that the upstream controller writes too, and `observedGeneration` of conditions if it is set. If the
//! fields do not agree, a change is being written; then the selection is unknown, and **readers must not remove anything**.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashSet};

use bellwether_api::cluster::vocabulary::{GROUP_INDEX_LABEL, GROUP_NAME_LABEL, MISCONFIGURED, SATISFIED};
use bellwether_api::cluster::{DecisionGroupStatus, Placement, PlacementDecision, PlacementStatus};
use kube::ResourceExt as _;

use super::decide::{clusters_of, is_disabled, is_of};
use bellwether_conditions::kubernetes::find;

/// The selection of a Placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decided {
    /// The selection is unknown; readers must leave everything unchanged.
    Unknown(Undecided),
    /// All selected clusters, in the order of their groups and names.
    Complete(Vec<DecidedCluster>),
}

/// A selected cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DecidedCluster {
    /// The index of its group, from 0.
    pub group_index: usize,
    /// The name of the cluster.
    pub cluster: String,
    /// The name of its group; empty if it has none.
    pub group_name: String,
}

/// Why the selection is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undecided {
    /// The placement is being deleted.
    #[error("the placement is being deleted")]
    Deleting,
    /// No controller has decided the placement yet.
    #[error("the placement has not been decided yet")]
    NotYet,
    /// The placement has changed since it was decided.
    #[error("the placement is at generation {generation}, and was decided at {decided}")]
    Outdated {
        /// The generation of the placement.
        generation: i64,
        /// The generation that was decided.
        decided: i64,
    },
    /// The placement is invalid, with the message of the controller.
    #[error("{0}")]
    Misconfigured(String),
    /// The decisions do not agree with the status: they are being written.
    #[error("the decisions of the placement are being written: {0}")]
    Unsettled(String),
}

/// Reads the selection of a Placement. `decisions` may contain decisions of other placements; they are ignored.
pub fn decided(placement: &Placement, decisions: &[impl Borrow<PlacementDecision>]) -> Decided {
    let mut own: Vec<&PlacementDecision> =
        decisions.iter().map(Borrow::borrow).filter(|decision| is_of(decision, placement)).collect();
    own.sort_by_key(|decision| decision.name_any());
    match read(placement, &own) {
        Ok(clusters) => Decided::Complete(clusters),
        Err(why) => Decided::Unknown(why),
    }
}

fn read(placement: &Placement, own: &[&PlacementDecision]) -> Result<Vec<DecidedCluster>, Undecided> {
    if placement.metadata.deletion_timestamp.is_some() {
        return Err(Undecided::Deleting);
    }
    let slices = own.iter().map(|decision| Slice::read(decision)).collect::<Result<Vec<_>, _>>()?;
    if is_disabled(placement) {
        // Another controller that decides the placement need not write its status, so only the decisions are used.
        return if slices.is_empty() { Err(Undecided::NotYet) } else { collect_clusters(&slices) };
    }
    let status = placement.status.as_ref().ok_or(Undecided::NotYet)?;
    check_current(placement, status)?;
    let clusters = collect_clusters(&slices)?;
    check_agreement(status, &slices, clusters.len())?;
    Ok(clusters)
}

/// The relevant fields of a PlacementDecision.
struct Slice<'a> {
    name: String,
    group_index: usize,
    group_name: &'a str,
    clusters: Vec<&'a str>,
}

impl<'a> Slice<'a> {
    fn read(decision: &'a PlacementDecision) -> Result<Self, Undecided> {
        let name = decision.name_any();
        let label = |label: &str| decision.labels().get(label).map(String::as_str);
        // Without the label there is only one group.
        let index = label(GROUP_INDEX_LABEL).unwrap_or("0");
        let group_index = index
            .parse()
            .map_err(|_| Undecided::Unsettled(format!("{name} has the invalid group index {index:?}")))?;
        let group_name = label(GROUP_NAME_LABEL).unwrap_or_default();
        Ok(Self { name, group_index, group_name, clusters: clusters_of(decision).collect() })
    }
}

fn check_current(placement: &Placement, status: &PlacementStatus) -> Result<(), Undecided> {
    let generation = placement.metadata.generation.unwrap_or_default();
    let satisfied = find(&status.conditions, SATISFIED).ok_or(Undecided::NotYet)?;
    let misconfigured = find(&status.conditions, MISCONFIGURED);
    let observed = [Some(satisfied), misconfigured].into_iter().flatten();
    if let Some(decided) = observed.filter_map(|condition| condition.observed_generation).min()
        && decided < generation
    {
        return Err(Undecided::Outdated { generation, decided });
    }
    match misconfigured {
        Some(condition) if condition.status == "True" => {
            Err(Undecided::Misconfigured(condition.message.clone()))
        }
        _ => Ok(()),
    }
}

/// The clusters of all slices. A cluster that is in two slices is being moved.
fn collect_clusters(slices: &[Slice<'_>]) -> Result<Vec<DecidedCluster>, Undecided> {
    let mut seen = HashSet::new();
    let mut clusters = Vec::new();
    for slice in slices {
        for cluster in &slice.clusters {
            if !seen.insert(*cluster) {
                return Err(Undecided::Unsettled(format!("{cluster} is in two decisions")));
            }
            clusters.push(DecidedCluster {
                group_index: slice.group_index,
                cluster: (*cluster).to_owned(),
                group_name: slice.group_name.to_owned(),
            });
        }
    }
    clusters.sort_unstable();
    Ok(clusters)
}

/// Checks that the slices agree with the status.
fn check_agreement(status: &PlacementStatus, slices: &[Slice<'_>], count: usize) -> Result<(), Undecided> {
    let unsettled = |message: String| Err(Undecided::Unsettled(message));
    if slices.is_empty() {
        return unsettled("there are none".to_owned());
    }
    if usize::try_from(status.number_of_selected_clusters) != Ok(count) {
        let selected = status.number_of_selected_clusters;
        return unsettled(format!("they have {count} clusters, and {selected} are selected"));
    }
    if status.decision_groups.is_empty() {
        return Ok(());
    }
    let mut groups: BTreeMap<(usize, &str), (usize, HashSet<&str>)> = BTreeMap::new();
    for slice in slices {
        let group = groups.entry((slice.group_index, slice.group_name)).or_default();
        group.0 += slice.clusters.len();
        group.1.insert(&slice.name);
    }
    if groups.len() != status.decision_groups.len() {
        return unsettled(format!(
            "they are of {} groups, not {}",
            groups.len(),
            status.decision_groups.len()
        ));
    }
    for group in &status.decision_groups {
        let DecisionGroupStatus { decision_group_index, decision_group_name, decisions, clusters_count } =
            group;
        let found = usize::try_from(*decision_group_index)
            .ok()
            .and_then(|index| groups.get(&(index, decision_group_name.as_str())));
        let agrees = found.is_some_and(|(count, names)| {
            Ok(*count) == usize::try_from(*clusters_count)
                && names.len() == decisions.len()
                && decisions.iter().all(|name| names.contains(name.as_str()))
        });
        if !agrees {
            return unsettled(format!(
                "group {decision_group_index} differs from the status of the placement"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn condition(type_: &str, status: &str, observed: Option<i64>) -> Value {
        let mut condition = json!({"type": type_, "status": status, "reason": "R", "message": "no sense",
            "lastTransitionTime": "2024-05-01T10:00:00Z"});
        if let Some(observed) = observed {
            condition["observedGeneration"] = json!(observed);
        }
        condition
    }

    fn slice(number: u32, index: &str, name: &str, clusters: &[&str]) -> Value {
        let decisions: Vec<Value> =
            clusters.iter().map(|cluster| json!({"clusterName": cluster, "reason": ""})).collect();
        json!({
            "metadata": {"name": format!("p-decision-{number}"), "namespace": "ns", "labels": {
                "cluster.open-cluster-management.io/placement": "p",
                "cluster.open-cluster-management.io/decision-group-index": index,
                "cluster.open-cluster-management.io/decision-group-name": name,
            }},
            "status": {"decisions": decisions},
        })
    }

    /// A canary and two others, at generation 2.
    fn placement() -> Value {
        json!({
            "metadata": {"name": "p", "namespace": "ns", "generation": 2},
            "status": {
                "numberOfSelectedClusters": 3,
                "decisionGroups": [
                    {"decisionGroupIndex": 0, "decisionGroupName": "canary", "decisions": ["p-decision-1"], "clusterCount": 1},
                    {"decisionGroupIndex": 1, "decisions": ["p-decision-2"], "clusterCount": 2},
                ],
                "conditions": [
                    condition(SATISFIED, "True", Some(2)),
                    condition(MISCONFIGURED, "False", Some(2)),
                ],
            },
        })
    }

    fn slices() -> Value {
        json!([slice(1, "0", "canary", &["c"]), slice(2, "1", "", &["a", "b"])])
    }

    fn ask(placement: Value, slices: Value) -> Decided {
        let placement = serde_json::from_value(placement).unwrap();
        let slices: Vec<PlacementDecision> = serde_json::from_value(slices).unwrap();
        decided(&placement, &slices)
    }

    fn with(change: impl FnOnce(&mut Value)) -> Value {
        let mut placement = placement();
        change(&mut placement);
        placement
    }

    #[test]
    fn agreeing_parts_are_accepted() {
        let three = [(0, "c", "canary"), (1, "a", ""), (1, "b", "")];
        let three = Decided::Complete(
            three
                .map(|(group_index, cluster, group_name)| DecidedCluster {
                    group_index,
                    cluster: cluster.into(),
                    group_name: group_name.into(),
                })
                .into(),
        );
        let foreign = {
            let mut foreign = slice(9, "0", "", &["x"]);
            foreign["metadata"]["labels"]["cluster.open-cluster-management.io/placement"] = json!("other");
            foreign
        };
        let mut away = slice(8, "0", "", &["y"]);
        away["metadata"]["namespace"] = json!("elsewhere");
        let rows = [
            ("as we write it", placement(), slices()),
            (
                "as upstream writes it, without generations",
                with(|placement| {
                    placement["status"]["conditions"] = json!([condition(SATISFIED, "True", None)])
                }),
                slices(),
            ),
            (
                "as others write it, without groups",
                with(|placement| placement["status"]["decisionGroups"] = json!([])),
                slices(),
            ),
            ("beside decisions of others", placement(), json!([slices()[0], foreign, slices()[1], away])),
            (
                "where nobody schedules, whatever the status says",
                with(|placement| {
                    placement["status"] = Value::Null;
                    placement["metadata"]["annotations"] =
                        json!({"cluster.open-cluster-management.io/experimental-scheduling-disable": "true"});
                }),
                slices(),
            ),
        ];
        for (case, placement, slices) in rows {
            assert_eq!(ask(placement, slices), three, "{case}");
        }
    }

    #[test]
    fn empty_selection_is_accepted_once_decided() {
        let empty = with(|placement| {
            placement["status"]["numberOfSelectedClusters"] = json!(0);
            placement["status"]["decisionGroups"] =
                json!([{"decisionGroupIndex": 0, "decisions": ["p-decision-1"], "clusterCount": 0}]);
            placement["status"]["conditions"] = json!([condition(SATISFIED, "False", Some(2))]);
        });
        let mut bare = slice(1, "0", "", &[]);
        bare.as_object_mut().unwrap().remove("status");
        assert_eq!(ask(empty.clone(), json!([bare])), Decided::Complete(Vec::new()));
        assert!(matches!(ask(empty, json!([])), Decided::Unknown(Undecided::Unsettled(_))));
    }

    #[test]
    fn disagreeing_parts_are_unknown() {
        let unsettled = |message: &str| Undecided::Unsettled(message.into());
        let (canary, others) = (slices()[0].clone(), slices()[1].clone());
        let mut created = slice(2, "1", "", &[]);
        created.as_object_mut().unwrap().remove("status");
        let rows = [
            (
                "one that goes",
                with(|placement| placement["metadata"]["deletionTimestamp"] = json!("2024-05-01T10:00:00Z")),
                slices(),
                Undecided::Deleting,
            ),
            (
                "one without a status",
                with(|placement| placement["status"] = Value::Null),
                slices(),
                Undecided::NotYet,
            ),
            (
                "one that nobody has looked at",
                with(|placement| placement["status"] = json!({"numberOfSelectedClusters": 3})),
                slices(),
                Undecided::NotYet,
            ),
            (
                "one that has changed",
                with(|placement| placement["metadata"]["generation"] = json!(3)),
                slices(),
                Undecided::Outdated { generation: 3, decided: 2 },
            ),
            (
                "misconfigured placement",
                with(|placement| placement["status"]["conditions"][1]["status"] = json!("True")),
                slices(),
                Undecided::Misconfigured("no sense".into()),
            ),
            ("no decision", placement(), json!([]), unsettled("there are none")),
            (
                "a decision that is only created",
                placement(),
                json!([canary, created]),
                unsettled("they have 1 clusters, and 3 are selected"),
            ),
            (
                "a cluster that is on its way",
                placement(),
                json!([slice(1, "0", "canary", &["a"]), others]),
                unsettled("a is in two decisions"),
            ),
            (
                "a decision too few, with enough clusters",
                placement(),
                json!([slice(1, "0", "canary", &["a", "b", "c"])]),
                unsettled("they are of 1 groups, not 2"),
            ),
            (
                "another group",
                placement(),
                json!([slice(1, "0", "first", &["c"]), others]),
                unsettled("group 0 differs from the status of the placement"),
            ),
            (
                "another decision",
                placement(),
                json!([canary, slice(3, "1", "", &["a", "b"])]),
                unsettled("group 1 differs from the status of the placement"),
            ),
            (
                "more in a group than there should be",
                placement(),
                json!([slice(1, "0", "canary", &["a", "b"]), slice(2, "1", "", &["c"])]),
                unsettled("group 0 differs from the status of the placement"),
            ),
            (
                "a group that is no number",
                placement(),
                json!([slice(1, "first", "canary", &["c"]), others]),
                unsettled("p-decision-1 has the invalid group index \"first\""),
            ),
        ];
        for (case, placement, slices, wanted) in rows {
            assert_eq!(ask(placement, slices), Decided::Unknown(wanted), "{case}");
        }
    }
}
