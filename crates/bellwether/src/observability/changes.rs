//! The ObservabilityAddons of a hub while they are watched, and what of them has changed. Pure; `status` watches and prints.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_api::cluster::ManagedCluster;
use bellwether_lifecycle::clusters::{ClusterState as Managed, Reachability};
use bellwether_observability::cluster_state::ClusterState;
use kube::ResourceExt as _;
use kube::api::DynamicObject;

/// The add-ons of a hub, by the name of their cluster, and the clusters that cannot be reached.
#[derive(Default)]
pub(super) struct Fleet {
    addons: BTreeMap<String, DynamicObject>,
    unreachable: BTreeSet<String>,
    /// The add-ons as `take_changes` has returned them.
    taken: BTreeMap<String, (DynamicObject, ClusterState)>,
}

/// A change of an add-on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    pub(super) kind: ChangeKind,
    /// The add-on, as it is or as it was before it was deleted.
    pub(super) addon: DynamicObject,
    pub(super) state: ClusterState,
    /// The state and the reason before, if there were others.
    pub(super) before: Option<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

impl ChangeKind {
    /// The type of the watch event, as Kubernetes has it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

impl Fleet {
    pub(super) fn apply_addon(&mut self, addon: DynamicObject) {
        self.addons.insert(addon.namespace().unwrap_or_default(), addon);
    }

    pub(super) fn delete_addon(&mut self, cluster: &str) {
        self.addons.remove(cluster);
    }

    pub(super) fn apply_cluster(&mut self, cluster: &ManagedCluster) {
        match Managed::of(cluster).reachability {
            Reachability::Unreachable => drop(self.unreachable.insert(cluster.name_any())),
            _ => self.delete_cluster(&cluster.name_any()),
        }
    }

    pub(super) fn delete_cluster(&mut self, name: &str) {
        self.unreachable.remove(name);
    }

    /// The state of every cluster.
    pub(super) fn states(&self) -> Vec<ClusterState> {
        self.addons.values().map(|addon| self.state(addon)).collect()
    }

    /// The add-ons as they were received, by cluster.
    pub(super) fn into_addons(self) -> Vec<DynamicObject> {
        self.addons.into_values().collect()
    }

    /// The changes since the last call.
    pub(super) fn take_changes(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        let gone: Vec<String> =
            self.taken.keys().filter(|cluster| !self.addons.contains_key(*cluster)).cloned().collect();
        for (addon, state) in gone.iter().filter_map(|cluster| self.taken.remove(cluster)) {
            let before = Some((state.state.to_string(), state.reason.clone()));
            changes.push(Change { kind: ChangeKind::Deleted, addon, state, before });
        }
        for (cluster, addon) in &self.addons {
            let state = self.state(addon);
            let (kind, before) = match self.taken.get(cluster) {
                None => (ChangeKind::Added, None),
                Some((known, shown)) if *known == *addon && *shown == state => continue,
                Some((_, shown)) => {
                    let before = (shown.state.to_string(), shown.reason.clone());
                    let differs = before != (state.state.to_string(), state.reason.clone());
                    (ChangeKind::Modified, differs.then_some(before))
                }
            };
            self.taken.insert(cluster.clone(), (addon.clone(), state.clone()));
            changes.push(Change { kind, addon: addon.clone(), state, before });
        }
        changes
    }

    fn state(&self, addon: &DynamicObject) -> ClusterState {
        let cluster = addon.namespace().unwrap_or_default();
        ClusterState::of(addon, self.unreachable.contains(&cluster))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn addon(cluster: &str, type_: &str, message: &str) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "observability.open-cluster-management.io/v1beta1", "kind": "ObservabilityAddon",
            "metadata": {"name": "observability-addon", "namespace": cluster},
            "status": {"conditions": [{"type": type_, "status": "True", "reason": "R", "message": message,
                "lastTransitionTime": "2024-05-01T10:00:00Z"}]},
        }))
        .unwrap()
    }

    fn cluster(name: &str, available: &str) -> ManagedCluster {
        serde_json::from_value(json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": name}, "spec": {"hubAcceptsClient": true},
            "status": {"conditions": [{"type": "ManagedClusterConditionAvailable", "status": available,
                "reason": "R", "message": "", "lastTransitionTime": "2024-05-01T10:00:00Z"}]},
        }))
        .unwrap()
    }

    fn taken(fleet: &mut Fleet) -> Vec<String> {
        let describe = |change: Change| {
            let before = change.before.map_or(String::new(), |(state, _)| format!("{state} → "));
            format!("{} {} {before}{}", change.kind.as_str(), change.state.cluster, change.state.state)
        };
        fleet.take_changes().into_iter().map(describe).collect()
    }

    #[test]
    fn each_change_is_returned_once() {
        let mut fleet = Fleet::default();
        fleet.apply_addon(addon("a", "Available", ""));
        fleet.apply_addon(addon("b", "Progressing", ""));
        assert_eq!(taken(&mut fleet), ["ADDED a Available", "ADDED b Progressing"]);
        assert!(taken(&mut fleet).is_empty());
        fleet.apply_addon(addon("a", "Degraded", ""));
        fleet.delete_addon("b");
        assert_eq!(
            taken(&mut fleet),
            ["DELETED b Progressing → Progressing", "MODIFIED a Available → Degraded"]
        );
        fleet.apply_addon(addon("a", "Degraded", "another message"));
        assert_eq!(taken(&mut fleet), ["MODIFIED a Degraded"], "the state is the same");
    }

    #[test]
    fn unreachable_cluster_changes_the_state() {
        let mut fleet = Fleet::default();
        fleet.apply_addon(addon("a", "Available", ""));
        fleet.apply_cluster(&cluster("a", "True"));
        assert_eq!(taken(&mut fleet), ["ADDED a Available"]);
        fleet.apply_cluster(&cluster("a", "Unknown"));
        assert_eq!(taken(&mut fleet), ["MODIFIED a Available → Available,Unreachable"]);
        fleet.apply_cluster(&cluster("a", "True"));
        assert_eq!(taken(&mut fleet), ["MODIFIED a Available,Unreachable → Available"]);
    }
}
