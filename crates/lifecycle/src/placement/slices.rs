//! Plans the writes that lead from the existing PlacementDecisions (slices) to the desired ones. Pure.
//!
//! **After every write, each cluster that was selected before and is selected afterwards is in some slice.** So a slice is
//! written when those that it loses stand elsewhere by then; and where no slice can be, because clusters go around in a ring
//! between full ones, those that the next one loses wait in a spare slice that goes at the end. The slices at the end are
//! exactly those that are wanted, whatever there was before. Nothing is written where nothing differs.

use std::collections::{BTreeMap, HashMap, HashSet};

use bellwether_api::cluster::vocabulary::{
    DECISIONS_LIMIT, GROUP_INDEX_LABEL, GROUP_NAME_LABEL, PLACEMENT_LABEL,
};
use bellwether_api::cluster::{ClusterDecision, DecisionGroupStatus, Placement, PlacementDecision};
use kube::ResourceExt as _;

use super::decide::Group;

/// The group that the labels of a slice name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupLabels {
    pub(super) index: String,
    pub(super) name: String,
}

impl GroupLabels {
    fn of(group: &Group) -> Self {
        Self { index: group.index.to_string(), name: group.name.clone() }
    }

    /// The labels of a slice of a placement.
    pub(super) fn labels(&self, placement: &str) -> BTreeMap<String, String> {
        let labels =
            [(PLACEMENT_LABEL, placement), (GROUP_INDEX_LABEL, &self.index), (GROUP_NAME_LABEL, &self.name)];
        labels.into_iter().map(|(label, value)| (label.to_owned(), value.to_owned())).collect()
    }
}

/// An existing or desired PlacementDecision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) name: String,
    /// Its group; `None` if an existing slice lacks a label or is owned by an earlier placement of the same name.
    pub(super) group: Option<GroupLabels>,
    pub(super) clusters: Vec<ClusterDecision>,
}

impl Slice {
    pub(super) fn read(decision: &PlacementDecision, placement: &Placement) -> Self {
        let label = |name: &str| decision.labels().get(name).cloned();
        let owners = decision.owner_references().iter();
        let is_owned = owners.map(|owner| Some(&owner.uid)).any(|uid| uid == placement.metadata.uid.as_ref());
        let group = label(GROUP_INDEX_LABEL).zip(label(GROUP_NAME_LABEL)).filter(|_| is_owned);
        Self {
            name: decision.name_any(),
            group: group.map(|(index, name)| GroupLabels { index, name }),
            clusters: decision.status.iter().flat_map(|status| status.decisions.clone()).collect(),
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.clusters.iter().map(|decision| decision.cluster_name.as_str())
    }

    /// Scores and reasons are ignored: they change often, and are written only together with a changed selection.
    fn has_same_clusters(&self, other: &Self) -> bool {
        self.names().eq(other.names())
    }
}

/// The desired slices of the groups, numbered from 1 across all groups.
pub(super) fn desired_slices(placement: &str, groups: &[Group]) -> Vec<Slice> {
    let mut slices = Vec::new();
    for group in groups {
        // An empty group has a slice too.
        let parts: Vec<&[(String, Option<i64>)]> = match group.clusters.as_slice() {
            [] => vec![&[]],
            clusters => clusters.chunks(DECISIONS_LIMIT).collect(),
        };
        for part in parts {
            let clusters = part.iter().map(|(cluster, score)| ClusterDecision {
                cluster_name: cluster.clone(),
                reason: String::new(),
                score: *score,
            });
            slices.push(Slice {
                name: name(placement, slices.len() + 1),
                group: Some(GroupLabels::of(group)),
                clusters: clusters.collect(),
            });
        }
    }
    slices
}

/// The decision groups in the status of a placement.
pub(super) fn group_statuses(slices: &[Slice]) -> Vec<DecisionGroupStatus> {
    let mut groups: Vec<DecisionGroupStatus> = Vec::new();
    for slice in slices {
        let Some(group) = &slice.group else { continue };
        let index = group.index.parse().unwrap_or(i32::MAX);
        let count = i32::try_from(slice.clusters.len()).unwrap_or(i32::MAX);
        match groups.last_mut().filter(|last| last.decision_group_index == index) {
            Some(last) => {
                last.decisions.push(slice.name.clone());
                last.clusters_count = last.clusters_count.saturating_add(count);
            }
            None => groups.push(DecisionGroupStatus {
                decision_group_index: index,
                decision_group_name: group.name.clone(),
                decisions: vec![slice.name.clone()],
                clusters_count: count,
            }),
        }
    }
    groups
}

fn name(placement: &str, number: usize) -> String {
    format!("{placement}-decision-{number}")
}

/// One write of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// Create it, without clusters.
    Create { name: String, group: GroupLabels },
    /// Set its labels and owner.
    Label { name: String, group: GroupLabels },
    /// Set its clusters.
    Fill { name: String, clusters: Vec<ClusterDecision> },
    /// Delete it.
    Delete { name: String },
}

/// Plans the writes that lead from the present slices to the wanted ones.
pub(super) fn plan(placement: &str, present: &[Slice], wanted: &[Slice]) -> Vec<Write> {
    let mut tasks = tasks(present, wanted);
    if tasks.is_empty() {
        return Vec::new();
    }
    let mut planner = Planner::new(placement, present, wanted);
    while !tasks.is_empty() {
        let before = tasks.len();
        // From the last to the first, because new clusters shift others towards the end.
        tasks.retain(|task| {
            let is_safe = planner.at_risk(task).is_empty();
            if is_safe {
                planner.apply_task(task);
            }
            !is_safe
        });
        if tasks.len() == before
            && let Some(nearest) = tasks.iter().min_by_key(|task| planner.at_risk(task).len())
        {
            planner.move_to_spare(nearest);
        }
    }
    planner.finish()
}

/// The change of one slice.
enum Task<'a> {
    Make(&'a Slice),
    Change { slice: &'a Slice, relabel: bool, refill: bool },
    Remove(&'a Slice),
}

impl<'a> Task<'a> {
    fn slice(&self) -> &'a Slice {
        match self {
            Self::Make(slice) | Self::Change { slice, .. } | Self::Remove(slice) => slice,
        }
    }

    /// The clusters that the slice has after.
    fn after(&self) -> &'a [ClusterDecision] {
        match self {
            Self::Make(slice) | Self::Change { slice, .. } => &slice.clusters,
            Self::Remove(_) => &[],
        }
    }
}

/// One for each slice that differs, the last first.
fn tasks<'a>(present: &'a [Slice], wanted: &'a [Slice]) -> Vec<Task<'a>> {
    let held: HashMap<&str, &Slice> = present.iter().map(|slice| (slice.name.as_str(), slice)).collect();
    let names: HashSet<&str> = wanted.iter().map(|slice| slice.name.as_str()).collect();
    let changed = wanted.iter().rev().filter_map(|slice| match held.get(slice.name.as_str()) {
        None => Some(Task::Make(slice)),
        Some(held) => {
            let (relabel, refill) = (held.group != slice.group, !held.has_same_clusters(slice));
            (relabel || refill).then_some(Task::Change { slice, relabel, refill })
        }
    });
    let surplus = present.iter().filter(|slice| !names.contains(slice.name.as_str())).map(Task::Remove);
    changed.chain(surplus).collect()
}

/// The slices as they are after the writes so far.
struct Planner<'a> {
    placement: &'a str,
    /// Clusters that must not be missing at any time, with their desired slice.
    staying: HashMap<&'a str, (&'a ClusterDecision, &'a Slice)>,
    state: HashMap<String, HashSet<&'a str>>,
    /// In how many slices a cluster is.
    places: HashMap<&'a str, usize>,
    spares: Vec<Spare>,
    next_number: usize,
    writes: Vec<Write>,
}

/// A temporary slice.
struct Spare {
    name: String,
    group: GroupLabels,
    clusters: Vec<ClusterDecision>,
}

impl<'a> Planner<'a> {
    fn new(placement: &'a str, present: &'a [Slice], wanted: &'a [Slice]) -> Self {
        let held: HashSet<&str> = present.iter().flat_map(Slice::names).collect();
        let goals =
            wanted.iter().flat_map(|slice| slice.clusters.iter().map(move |decision| (decision, slice)));
        let mut planner = Self {
            placement,
            staying: goals
                .filter(|(decision, _)| held.contains(decision.cluster_name.as_str()))
                .map(|(decision, slice)| (decision.cluster_name.as_str(), (decision, slice)))
                .collect(),
            state: HashMap::new(),
            places: HashMap::new(),
            spares: Vec::new(),
            next_number: wanted.len() + 1,
            writes: Vec::new(),
        };
        for slice in present {
            planner.put(&slice.name, slice.names().collect());
        }
        planner
    }

    fn put(&mut self, slice: &str, clusters: HashSet<&'a str>) {
        for cluster in &clusters {
            *self.places.entry(cluster).or_insert(0) += 1;
        }
        for cluster in self.state.insert(slice.to_owned(), clusters).unwrap_or_default() {
            if let Some(places) = self.places.get_mut(cluster) {
                *places = places.saturating_sub(1);
            }
        }
    }

    /// The clusters that would be missing if the task were applied now.
    fn at_risk(&self, task: &Task<'a>) -> Vec<&'a str> {
        let Some(now) = self.state.get(&task.slice().name) else { return Vec::new() };
        let after: HashSet<&str> =
            task.after().iter().map(|decision| decision.cluster_name.as_str()).collect();
        let lost = now.iter().copied().filter(|cluster| !after.contains(cluster));
        let mut lost: Vec<&str> = lost
            .filter(|cluster| self.staying.contains_key(cluster) && self.places.get(cluster) == Some(&1))
            .collect();
        lost.sort_unstable();
        lost
    }

    fn apply_task(&mut self, task: &Task<'a>) {
        let slice = task.slice();
        let name = || slice.name.clone();
        match (task, &slice.group) {
            (Task::Make(_), Some(group)) => {
                self.writes.push(Write::Create { name: name(), group: group.clone() });
            }
            (Task::Change { relabel: true, .. }, Some(group)) => {
                self.writes.push(Write::Label { name: name(), group: group.clone() });
            }
            (Task::Remove(_), _) => self.writes.push(Write::Delete { name: name() }),
            _ => {}
        }
        let is_filled = match task {
            Task::Make(slice) => !slice.clusters.is_empty(),
            Task::Change { refill, .. } => *refill,
            Task::Remove(_) => false,
        };
        if is_filled {
            self.writes.push(Write::Fill { name: name(), clusters: slice.clusters.clone() });
        }
        self.put(&slice.name, task.after().iter().map(|decision| decision.cluster_name.as_str()).collect());
    }

    /// Puts the clusters that a task would lose into temporary slices of their groups.
    fn move_to_spare(&mut self, task: &Task<'a>) {
        let mut by_group: BTreeMap<&'a GroupLabels, Vec<(&'a str, &'a ClusterDecision)>> = BTreeMap::new();
        for cluster in self.at_risk(task) {
            if let Some((decision, goal)) = self.staying.get(cluster)
                && let Some(group) = &goal.group
            {
                by_group.entry(group).or_default().push((cluster, decision));
            }
        }
        for (group, clusters) in by_group {
            let capacity = |spare: &Spare| DECISIONS_LIMIT - spare.clusters.len().min(DECISIONS_LIMIT);
            let place = self
                .spares
                .iter()
                .position(|spare| spare.group == *group && capacity(spare) >= clusters.len());
            let spare = match place.and_then(|place| self.spares.get_mut(place)) {
                Some(spare) => spare,
                None => {
                    let name = unused_name(self.placement, &mut self.next_number, &self.state);
                    self.writes.push(Write::Create { name: name.clone(), group: group.clone() });
                    self.spares.push(Spare { name, group: group.clone(), clusters: Vec::new() });
                    let Some(spare) = self.spares.last_mut() else { continue };
                    spare
                }
            };
            spare.clusters.extend(clusters.iter().map(|(_, decision)| (*decision).clone()));
            let name = spare.name.clone();
            self.writes.push(Write::Fill { name: name.clone(), clusters: spare.clusters.clone() });
            let mut sheltered = self.state.get(&name).cloned().unwrap_or_default();
            sheltered.extend(clusters.iter().map(|(cluster, _)| *cluster));
            self.put(&name, sheltered);
        }
    }

    fn finish(mut self) -> Vec<Write> {
        self.writes.extend(self.spares.into_iter().map(|spare| Write::Delete { name: spare.name }));
        self.writes
    }
}

/// A name that no existing or desired slice has.
fn unused_name(placement: &str, number: &mut usize, state: &HashMap<String, HashSet<&str>>) -> String {
    loop {
        let name = name(placement, *number);
        *number += 1;
        if !state.contains_key(&name) {
            return name;
        }
    }
}

#[cfg(test)]
mod tests;
