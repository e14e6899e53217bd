//! The rollouts of an add-on, one per placement, planned over the whole cache.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bellwether_api::addon::{InstallType, PlacementStrategy};
use bellwether_runtime::ObjectName;
use jiff::Timestamp;

use super::{AddonKey, HubCache, Management};
use crate::assignment::{AddonRequest, Selection, assign, placement_name};
use crate::fields::is_installed_for;
use crate::placement::Decided;
use crate::rollout::{Member, Plan, Share, State, Strategy, plan};

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
    /// Why it is not known which clusters are selected, if it is not.
    pub unknown: Option<String>,
}

impl Rollout {
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.strategy.as_ref().ok()?.deadline
    }
}

impl HubCache {
    /// Plans the rollouts of an add-on and marks the clusters whose admission changed. Returns when time alone changes the
    /// plan.
    pub(crate) fn plan(&mut self, addon: &str, now: Timestamp) -> Option<Timestamp> {
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
    pub(crate) fn rollouts_of(&self, addon: &str) -> &[Rollout] {
        self.managements.get(addon).map(|management| management.rollouts.as_slice()).unwrap_or_default()
    }

    /// The clusters that each placement of an add-on selects, as far as that is known.
    pub(crate) fn selections(&self, addon: &str, placements: &[PlacementStrategy]) -> Vec<Selection> {
        let select = |placement: &PlacementStrategy| {
            let name = object_name(placement);
            match self.placements.decided(&name) {
                Some(Decided::Complete(clusters)) => Selection::Settled(clusters),
                Some(Decided::Unknown(why)) => Selection::Unsettled {
                    last: self.last_selected.get(&name).cloned().unwrap_or_default(),
                    why: why.to_string(),
                },
                None => {
                    let placement = placement_name(placement);
                    let its_own =
                        self.addons(addon).filter(|(_, object)| is_installed_for(object, &placement));
                    Selection::Missing {
                        created_for: its_own.map(|(cluster, _)| cluster.to_string()).collect(),
                    }
                }
            }
        };
        placements.iter().map(select).collect()
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
            let is_assigned = |cluster: &str| assigned.get(cluster).is_some_and(|one| one.index == index);
            let selected = selection.clusters().iter().filter(|one| is_assigned(&one.cluster));
            let mut members: Vec<Member> = selected
                .map(|one| Member {
                    cluster: one.cluster.clone(),
                    group: one.group_index,
                    group_name: one.group_name.clone(),
                    state: self.state(management, &addon, &one.cluster, &request, &strategy),
                })
                .collect();
            let placement = object_name(placement);
            let lost = self.lost(management, &addon, &placement, &request, &strategy, &by_cluster);
            all_lost.extend(lost.iter().map(|one| (Arc::from(one.cluster.as_str()), index)));
            members.extend(lost);
            let plan = plan(&strategy, &members, self.per_group(&placement), now);
            let unknown = match selection {
                Selection::Settled(_) => None,
                Selection::Unsettled { why, .. } => Some(why.clone()),
                Selection::Missing { .. } => Some("there is no such placement".to_owned()),
            };
            Rollout { placement, request, strategy, plan, unknown }
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
