//! The rollouts of an add-on, one per placement, planned over the whole cache.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bellwether_api::addon::{ClusterManagementAddOn, InstallType, PlacementStrategy};
use bellwether_runtime::ObjectName;
use jiff::Timestamp;

use super::{AddonKey, HubCache, Management};
use crate::assignment::{AddonRequest, Selection, assign, placement_name};
use crate::fields::is_installed_for;
use crate::placement::{Decided, DecidedCluster};
use crate::rollout::{Member, Plan, Share, State, Strategy, WaitReason, hold_all, plan};

/// The rollout of one placement.
pub struct Rollout {
    /// The placement.
    pub placement: ObjectName,
    /// What it asks for.
    pub request: AddonRequest,
    /// Its strategy, or why that is invalid.
    pub strategy: Result<Strategy, String>,
    /// Which clusters may start, and what the others wait for.
    pub plan: Plan,
    /// The clusters of the plan that the placement no longer selects.
    pub unselected: Vec<DecidedCluster>,
    /// The clusters that the placement selects and that are assigned to another placement.
    pub assigned_elsewhere: Vec<AssignedElsewhere>,
    /// Why it is not known which clusters are selected, if it is not.
    pub unknown: Option<String>,
}

/// A cluster that is assigned to another placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssignedElsewhere {
    /// The cluster.
    pub cluster: String,
    /// The placement that it is assigned to, `<namespace>/<name>`.
    pub placement: String,
}

impl Rollout {
    /// Whether a cluster of the plan is selected by the placement.
    pub fn is_selected(&self, cluster: &str) -> bool {
        self.unselected.iter().all(|one| one.cluster != cluster)
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.strategy.as_ref().ok()?.deadline
    }
}

impl HubCache {
    /// Plans the rollouts of an add-on and marks the clusters whose admission changed. Returns when time alone changes the
    /// plan.
    pub fn plan(&mut self, addon: &str, now: Timestamp) -> Option<Timestamp> {
        let mut management = self.managements.remove(addon)?;
        self.remember_selected(&management);
        let (rollouts, by_cluster) = self.rollouts(&management, now);
        let next = rollouts.iter().filter_map(|rollout| rollout.plan.next).min();
        let is_first = !management.is_planned;
        let changed: Vec<Arc<str>> = by_cluster
            .iter()
            .filter(|(cluster, index)| {
                let (rollout, before) = (rollouts.get(**index), management.rollout(cluster));
                let turn = |rollout: Option<&Rollout>| rollout.and_then(|rollout| rollout.plan.turn(cluster));
                let deadline = |rollout: Option<&Rollout>| rollout.and_then(Rollout::deadline);
                let turned = turn(rollout).is_some() && (is_first || turn(rollout) != turn(before));
                // A new deadline also holds for clusters that have started, and gives those that timed out more time.
                turned || before.is_none() || deadline(rollout) != deadline(before)
            })
            .map(|(cluster, _)| cluster.clone())
            .collect();
        management.is_planned = true;
        (management.rollouts, management.by_cluster) = (rollouts, by_cluster);
        let addon: Arc<str> = addon.into();
        for cluster in changed {
            self.dirty.addon(AddonKey { cluster, addon: addon.clone() });
        }
        self.dirty.summary(addon.clone());
        self.managements.insert(addon, management);
        next
    }

    /// The planned rollouts of an add-on, in the order of its placements.
    pub fn rollouts_of(&self, addon: &str) -> &[Rollout] {
        self.managements.get(addon).map(|management| management.rollouts.as_slice()).unwrap_or_default()
    }

    /// The clusters that each placement of an add-on selects, as far as that is known.
    pub(crate) fn selections(&self, addon: &str, placements: &[PlacementStrategy]) -> Vec<Selection> {
        let select = |placement: &PlacementStrategy| {
            let name = object_name(placement);
            match self.placements.decided(&name) {
                Some(Decided::Complete(clusters)) => Selection::Settled(clusters),
                Some(Decided::Unknown(why)) => {
                    let remembered = self.last_selected.get(&name).cloned();
                    let last = remembered.unwrap_or_else(|| {
                        let created_for = self.created_for(addon, placement).into_iter();
                        created_for.map(|cluster| self.last_known(&name, cluster)).collect()
                    });
                    Selection::Unsettled { last, why: why.to_string() }
                }
                None => Selection::Missing { created_for: self.created_for(addon, placement) },
            }
        };
        placements.iter().map(select).collect()
    }

    /// The clusters whose ManagedClusterAddOn was created for a placement.
    fn created_for(&self, addon: &str, placement: &PlacementStrategy) -> Vec<String> {
        let placement = placement_name(placement);
        let created = self.addons(addon).filter(|(_, object)| is_installed_for(object, &placement));
        created.map(|(cluster, _)| cluster.to_string()).collect()
    }

    /// A cluster in the decision group of a placement that it was last in; in the first group if that is not known.
    fn last_known(&self, placement: &ObjectName, cluster: String) -> DecidedCluster {
        let known = self.last_groups.get(placement).and_then(|groups| groups.get(&cluster)).cloned();
        let (group_index, group_name) = known.unwrap_or_default();
        DecidedCluster { group_index, cluster, group_name }
    }

    /// Takes over from the status the decision groups of clusters that are no longer selected.
    pub(super) fn remember_unselected(&mut self, management: &ClusterManagementAddOn) {
        for progression in management.status.iter().flat_map(|status| &status.install_progressions) {
            let placement = ObjectName::new(progression.namespace.as_str(), progression.name.as_str());
            for one in &progression.unselected {
                let group = || (usize::try_from(one.group_index).unwrap_or_default(), one.group_name.clone());
                let groups = self.last_groups.entry(placement.clone()).or_default();
                groups.entry(one.cluster.clone()).or_insert_with(group);
            }
        }
    }

    fn remember_selected(&mut self, management: &Management) {
        for placement in &management.object.spec.install_strategy.placements {
            let name = object_name(placement);
            if let Some(Decided::Complete(clusters)) = self.placements.decided(&name) {
                let groups = self.last_groups.entry(name.clone()).or_default();
                groups.extend(
                    clusters
                        .iter()
                        .map(|one| (one.cluster.clone(), (one.group_index, one.group_name.clone()))),
                );
                self.last_selected.insert(name, clusters);
            }
        }
    }

    fn rollouts(&self, management: &Management, now: Timestamp) -> (Vec<Rollout>, HashMap<Arc<str>, usize>) {
        let strategy = &management.object.spec.install_strategy;
        if strategy.type_ != InstallType::Placements {
            return (Vec::new(), HashMap::new());
        }
        let addon = management.object.metadata.name.clone().unwrap_or_default();
        let selections = self.selections(&addon, &strategy.placements);
        let assigned = assign(strategy, &selections);
        let mut by_cluster: HashMap<Arc<str>, usize> =
            assigned.iter().map(|(cluster, one)| (Arc::from(*cluster), one.index)).collect();
        let mut all_lost: Vec<(Arc<str>, usize)> = Vec::new();
        let rollouts = strategy.placements.iter().zip(&selections).enumerate();
        let rollouts = rollouts.map(|(index, (placement, selection))| {
            let (strategy, request) = (Strategy::read(placement), AddonRequest::of(placement));
            let placement = object_name(placement);
            let (mut members, mut assigned_elsewhere) = (Vec::new(), Vec::new());
            for one in selection.clusters() {
                match assigned.get(one.cluster.as_str()) {
                    Some(assignment) if assignment.index != index => {
                        let (cluster, placement) =
                            (one.cluster.clone(), placement_name(assignment.placement));
                        assigned_elsewhere.push(AssignedElsewhere { cluster, placement });
                    }
                    _ => members.push(Member {
                        cluster: one.cluster.clone(),
                        group: one.group_index,
                        group_name: one.group_name.clone(),
                        state: self.state(management, &addon, &one.cluster, &request, &strategy),
                    }),
                }
            }
            let lost = self.lost(management, &addon, &placement, &request, &strategy, &by_cluster);
            all_lost.extend(lost.iter().map(|one| (Arc::from(one.cluster.as_str()), index)));
            let unselected = lost.iter().map(|one| DecidedCluster {
                group_index: one.group,
                cluster: one.cluster.clone(),
                group_name: one.group_name.clone(),
            });
            let unselected = unselected.collect();
            members.extend(lost);
            let plan = match selection {
                // The decision groups are not known, so no cluster can be admitted by them.
                Selection::Unsettled { why, .. } if !self.last_selected.contains_key(&placement) => {
                    hold_all(WaitReason::PlacementUnsettled(why.clone()), members, now)
                }
                _ => plan(&strategy, members, self.per_group(&placement), now),
            };
            let unknown = match selection {
                Selection::Settled(_) => None,
                Selection::Unsettled { why, .. } => Some(why.clone()),
                Selection::Missing { .. } => Some("there is no such placement".to_owned()),
            };
            Rollout { placement, request, strategy, plan, unselected, assigned_elsewhere, unknown }
        });
        let rollouts = rollouts.collect();
        // They keep the deadline that they started with.
        by_cluster.extend(all_lost);
        (rollouts, by_cluster)
    }

    /// Clusters that have started with what a placement asks for, and that it dropped since, most likely because they cannot
    /// be reached, which may be reported later: **what the change may have done to them still counts**, or one cluster after
    /// the other would follow them. Those that were dropped for another reason lose the add-on soon.
    fn lost(
        &self,
        management: &Management,
        addon: &str,
        placement: &ObjectName,
        request: &AddonRequest,
        strategy: &Result<Strategy, String>,
        assigned: &HashMap<Arc<str>, usize>,
    ) -> Vec<Member> {
        let lost = self.addons(addon).filter(|(cluster, object)| {
            self.cluster(cluster).is_some_and(|state| !state.is_deleting)
                && object.metadata.deletion_timestamp.is_none()
                && !assigned.contains_key(*cluster)
                && is_installed_for(object, &request.placement)
        });
        let groups = self.last_groups.get(placement);
        lost.filter_map(|(cluster, _)| {
            let state = self.state(management, addon, cluster, request, strategy);
            // One whose group is not known any more counts among those that come first.
            let known = groups.and_then(|groups| groups.get(&**cluster)).cloned();
            let (group, group_name) = known.unwrap_or_else(|| first_group(strategy));
            let has_started =
                !matches!(state, State::Absent | State::Waiting | State::Diverted | State::Overridden);
            has_started.then(|| Member { cluster: cluster.to_string(), group, group_name, state })
        })
        .collect()
    }

    /// How many clusters a decision group of a placement has at most.
    fn per_group(&self, placement: &ObjectName) -> Share {
        let strategy = self.placements.get(placement).and_then(|found| found.spec.decision_strategy.as_ref());
        let per_group =
            strategy.and_then(|strategy| strategy.group_strategy.clusters_per_decision_group.as_ref());
        per_group.and_then(|text| Share::read(text).ok()).unwrap_or(Share::Percent(100))
    }
}

fn object_name(placement: &PlacementStrategy) -> ObjectName {
    ObjectName::new(placement.namespace.as_str(), placement.name.as_str())
}

/// The group that comes first.
fn first_group(strategy: &Result<Strategy, String>) -> (usize, String) {
    let first = strategy.as_ref().ok().and_then(|strategy| strategy.mandatory.first());
    let index = first.and_then(|first| usize::try_from(first.group_index?).ok());
    (index.unwrap_or_default(), first.map(|first| first.group_name.clone()).unwrap_or_default())
}
