//! Tests of the selection, as tables and as properties.

mod choice;
mod invalid;
mod laws;

use bellwether_api::cluster::vocabulary::{MISCONFIGURED, PLACEMENT_LABEL, SATISFIED};
use serde_json::{Value, json};

use super::*;

pub(super) const NOW: i64 = 10_000;

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A fleet with a set `east` that is bound in the namespace `ns`.
#[derive(Clone, Debug)]
pub(super) struct Fleet {
    pub(super) placement: Value,
    pub(super) clusters: Vec<Value>,
    pub(super) sets: Vec<Value>,
    pub(super) bindings: Vec<Value>,
    pub(super) own: Vec<Value>,
    pub(super) others: Vec<Value>,
}

impl Fleet {
    /// Clusters of the set, by name, and a placement with a spec.
    pub(super) fn new(clusters: &[&str], spec: Value) -> Self {
        Self {
            placement: json!({"metadata": {"name": "p", "namespace": "ns", "generation": 4}, "spec": spec}),
            clusters: clusters.iter().map(|name| cluster(name)).collect(),
            sets: vec![json!({"metadata": {"name": "east"}})],
            bindings: vec![binding("ns", "east")],
            own: Vec::new(),
            others: Vec::new(),
        }
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Changes a cluster by its name.
    pub(super) fn cluster(self, name: &str, change: impl FnOnce(&mut Value)) -> Self {
        self.with(|fleet| {
            let found = fleet.clusters.iter_mut().find(|cluster| cluster["metadata"]["name"] == name);
            change(found.expect("there is such a cluster"));
        })
    }

    pub(super) fn taint(self, name: &str, effect: &str) -> Self {
        let taint = json!({"key": "t", "effect": effect, "timeAdded": at(NOW - 100).to_string()});
        self.cluster(name, |cluster| cluster["spec"]["taints"] = json!([taint]))
    }

    pub(super) fn label(self, name: &str, label: &str, value: &str) -> Self {
        self.cluster(name, |cluster| cluster["metadata"]["labels"][label] = json!(value))
    }

    /// Sets the clusters that were selected before.
    pub(super) fn chosen(self, clusters: &[&str]) -> Self {
        self.with(|fleet| fleet.own = vec![decision("p", clusters)])
    }

    pub(super) fn decide_fleet(&self) -> PlacementResult {
        fn read<T: serde::de::DeserializeOwned>(values: &[Value]) -> Vec<Arc<T>> {
            values.iter().map(|value| Arc::new(serde_json::from_value(value.clone()).unwrap())).collect()
        }
        let all: Vec<Value> = self.own.iter().chain(&self.others).cloned().collect();
        decide(&DecisionInput {
            placement: &serde_json::from_value(self.placement.clone()).unwrap(),
            clusters: &read(&self.clusters),
            sets: &read(&self.sets),
            bindings: &read(&self.bindings),
            own: &read(&self.own),
            all: &read(&all),
            now: at(NOW),
        })
    }

    pub(super) fn choice(&self) -> ClusterSelection {
        match self.decide_fleet() {
            PlacementResult::Select(choice) => choice,
            PlacementResult::Keep(conditions) => panic!("no selection was made: {conditions:?}"),
        }
    }

    /// The names of the selected clusters, sorted.
    pub(super) fn names(&self) -> Vec<String> {
        let groups = self.choice().groups.into_iter();
        let mut names: Vec<String> =
            groups.flat_map(|group| group.clusters).map(|(cluster, _)| cluster).collect();
        names.sort();
        names
    }

    /// `status reason: message` of PlacementSatisfied.
    pub(super) fn satisfied(&self) -> String {
        describe_condition(&self.choice().conditions, SATISFIED)
    }
}

pub(super) fn describe_condition(conditions: &[Desired], type_: &str) -> String {
    let found =
        conditions.iter().find(|desired| desired.type_.as_str() == type_).expect("it is describe_condition");
    assert_eq!(found.observed_generation, Some(4));
    format!("{} {}: {}", found.status, found.reason, found.message)
}

pub(super) fn misconfigured(answer: &PlacementResult) -> String {
    match answer {
        PlacementResult::Keep(conditions) => describe_condition(conditions, MISCONFIGURED),
        PlacementResult::Select(choice) => describe_condition(&choice.conditions, MISCONFIGURED),
    }
}

pub(super) fn cluster(name: &str) -> Value {
    let labels = json!({"cluster.open-cluster-management.io/clusterset": "east"});
    json!({"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {}})
}

pub(super) fn binding(namespace: &str, set: &str) -> Value {
    json!({"metadata": {"name": set, "namespace": namespace}, "spec": {"clusterSet": set}})
}

pub(super) fn decision(placement: &str, clusters: &[&str]) -> Value {
    let decisions: Vec<Value> = clusters.iter().map(|name| json!({"clusterName": name})).collect();
    json!({
        "metadata": {
            "name": format!("{placement}-decision-1"), "namespace": "ns", "labels": {PLACEMENT_LABEL: placement},
        },
        "status": {"decisions": decisions},
    })
}
