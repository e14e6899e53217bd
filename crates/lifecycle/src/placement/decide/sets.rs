//! The clusters that a Placement may choose from: those of the sets that exist, are bound in its namespace, and are named
//! by it where it names any. Pure.

use std::sync::Arc;

use bellwether_api::cluster::{ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, Placement};
use kube::ResourceExt as _;

use crate::clusters::members::Membership;

/// What there is to choose from.
#[derive(Debug)]
pub(super) enum Supply {
    /// Nothing is bound in the namespace.
    Unbound,
    /// What is bound does not exist.
    Missing(Vec<String>),
    /// The placement names other sets than are bound.
    Apart { named: Vec<String>, bound: Vec<String> },
    /// Clusters of these sets.
    Sets(Vec<(String, Membership)>),
}

impl Supply {
    pub(super) fn of(
        placement: &Placement,
        sets: &[Arc<ManagedClusterSet>],
        bindings: &[Arc<ManagedClusterSetBinding>],
    ) -> Self {
        let namespace = &placement.metadata.namespace;
        let here = bindings.iter().filter(|binding| {
            binding.metadata.namespace == *namespace
                && binding.metadata.deletion_timestamp.is_none()
                && binding.metadata.name.as_ref() == Some(&binding.spec.cluster_set)
        });
        let mut asked: Vec<String> = here.map(|binding| binding.spec.cluster_set.clone()).collect();
        asked.sort_unstable();
        if asked.is_empty() {
            return Self::Unbound;
        }
        let find = |name: &String| sets.iter().find(|set| set.metadata.name.as_ref() == Some(name));
        let bound: Vec<&Arc<ManagedClusterSet>> = asked.iter().filter_map(find).collect();
        if bound.is_empty() {
            return Self::Missing(asked);
        }
        let named = &placement.spec.cluster_sets;
        let is_named = |set: &ManagedClusterSet| named.is_empty() || named.contains(&set.name_any());
        let both: Vec<_> = bound.iter().filter(|set| is_named(set)).collect();
        if both.is_empty() {
            let bound = bound.iter().map(|set| set.name_any()).collect();
            return Self::Apart { named: named.clone(), bound };
        }
        Self::Sets(both.into_iter().map(|set| (set.name_any(), Membership::of(set))).collect())
    }

    pub(super) fn has(&self, cluster: &ManagedCluster) -> bool {
        match self {
            Self::Sets(sets) => sets.iter().any(|(_, membership)| membership.has(cluster)),
            Self::Unbound | Self::Missing(_) | Self::Apart { .. } => false,
        }
    }
}
