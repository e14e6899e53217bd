//! Determines the clusters that a Placement may select: those of the sets that exist, are bound in its namespace and, if the
//! Placement names sets, are named by it. Pure.

use std::sync::Arc;

use bellwether_api::cluster::{ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, Placement};
use kube::ResourceExt as _;

use crate::clusters::members::Membership;

/// The sets that a Placement may select clusters from.
#[derive(Debug)]
pub(super) enum AvailableSets {
    /// No set is bound in the namespace.
    Unbound,
    /// The bound sets do not exist.
    Missing(Vec<String>),
    /// None of the sets that the placement names is bound.
    NoIntersection { named: Vec<String>, bound: Vec<String> },
    /// The clusters of these sets are available.
    Sets(Vec<(String, Membership)>),
}

impl AvailableSets {
    pub(super) fn of(
        placement: &Placement,
        sets: &[Arc<ManagedClusterSet>],
        bindings: &[Arc<ManagedClusterSetBinding>],
    ) -> Self {
        let namespace = &placement.metadata.namespace;
        let in_namespace = bindings.iter().filter(|binding| {
            binding.metadata.namespace == *namespace
                && binding.metadata.deletion_timestamp.is_none()
                && binding.metadata.name.as_ref() == Some(&binding.spec.cluster_set)
        });
        let mut bound_names: Vec<String> =
            in_namespace.map(|binding| binding.spec.cluster_set.clone()).collect();
        bound_names.sort_unstable();
        if bound_names.is_empty() {
            return Self::Unbound;
        }
        let find = |name: &String| sets.iter().find(|set| set.metadata.name.as_ref() == Some(name));
        let bound: Vec<&Arc<ManagedClusterSet>> = bound_names.iter().filter_map(find).collect();
        if bound.is_empty() {
            return Self::Missing(bound_names);
        }
        let named = &placement.spec.cluster_sets;
        let is_named = |set: &ManagedClusterSet| named.is_empty() || named.contains(&set.name_any());
        let both: Vec<_> = bound.iter().filter(|set| is_named(set)).collect();
        if both.is_empty() {
            let bound = bound.iter().map(|set| set.name_any()).collect();
            return Self::NoIntersection { named: named.clone(), bound };
        }
        Self::Sets(both.into_iter().map(|set| (set.name_any(), Membership::of(set))).collect())
    }

    pub(super) fn has(&self, cluster: &ManagedCluster) -> bool {
        match self {
            Self::Sets(sets) => sets.iter().any(|(_, membership)| membership.has(cluster.labels())),
            Self::Unbound | Self::Missing(_) | Self::NoIntersection { .. } => false,
        }
    }
}
