//! How chosen clusters are put: groups with names first, each cluster in the first that it fits, then the rest; each sorted
//! by name and cut to size. The order and the numbers of groups follow from the choice alone. Pure.

use bellwether_api::cluster::ManagedCluster;
use kube::ResourceExt as _;

use super::terms::Terms;

/// A cluster that is chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen<'a> {
    pub(crate) cluster: &'a ManagedCluster,
    /// How it compared, where there was somebody to compare it with.
    pub(crate) score: Option<i64>,
}

/// A group of chosen clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// Its place among all groups, from 0.
    pub(crate) index: usize,
    /// Empty for those that have none.
    pub(crate) name: String,
    /// By name, each with its score.
    pub(crate) clusters: Vec<(String, Option<i64>)>,
}

pub(super) fn group(terms: &Terms<'_>, mut chosen: Vec<Chosen<'_>>) -> Vec<Group> {
    let size = terms.group_size.of(chosen.len());
    let mut groups = Vec::new();
    for (name, fit) in &terms.groups {
        let members: Vec<Chosen<'_>> = chosen.extract_if(.., |chosen| fit.fits(chosen.cluster)).collect();
        cut(&mut groups, name, members, size);
    }
    cut(&mut groups, "", chosen, size);
    if groups.is_empty() {
        // So that readers find a decision, which says that nothing is chosen.
        groups.push(Group { index: 0, name: String::new(), clusters: Vec::new() });
    }
    groups
}

fn cut(groups: &mut Vec<Group>, name: &str, members: Vec<Chosen<'_>>, size: usize) {
    let mut members: Vec<(String, Option<i64>)> =
        members.into_iter().map(|chosen| (chosen.cluster.name_any(), chosen.score)).collect();
    members.sort_unstable();
    for clusters in members.chunks(size.max(1)) {
        groups.push(Group { index: groups.len(), name: name.to_owned(), clusters: clusters.to_vec() });
    }
}
