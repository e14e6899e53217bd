//! Puts selected clusters into decision groups: named groups first, each cluster in the first that matches it, then the rest;
//! each group is sorted by name and split by size. The result depends on the selected clusters alone. Pure.

use bellwether_api::cluster::ManagedCluster;
use kube::ResourceExt as _;

use super::spec::ParsedSpec;

/// A selected cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SelectedCluster<'a> {
    pub(crate) cluster: &'a ManagedCluster,
    /// Its score, if clusters were ranked.
    pub(crate) score: Option<i64>,
}

/// A decision group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// Its index among all groups, from 0.
    pub(crate) index: usize,
    /// Its name; empty if it has none.
    pub(crate) name: String,
    /// Its clusters, sorted by name, with their scores.
    pub(crate) clusters: Vec<(String, Option<i64>)>,
}

/// Puts the selected clusters into groups.
pub(super) fn group_clusters(spec: &ParsedSpec<'_>, mut selected: Vec<SelectedCluster<'_>>) -> Vec<Group> {
    let size = spec.group_size.of(selected.len());
    let mut groups = Vec::new();
    for (name, matcher) in &spec.groups {
        let members: Vec<SelectedCluster<'_>> =
            selected.extract_if(.., |selected| matcher.matches(selected.cluster)).collect();
        split_by_size(&mut groups, name, members, size);
    }
    split_by_size(&mut groups, "", selected, size);
    if groups.is_empty() {
        // Readers need one decision to see that no cluster is selected.
        groups.push(Group { index: 0, name: String::new(), clusters: Vec::new() });
    }
    groups
}

fn split_by_size(groups: &mut Vec<Group>, name: &str, members: Vec<SelectedCluster<'_>>, size: usize) {
    let mut members: Vec<(String, Option<i64>)> =
        members.into_iter().map(|selected| (selected.cluster.name_any(), selected.score)).collect();
    members.sort_unstable();
    for clusters in members.chunks(size.max(1)) {
        groups.push(Group { index: groups.len(), name: name.to_owned(), clusters: clusters.to_vec() });
    }
}
