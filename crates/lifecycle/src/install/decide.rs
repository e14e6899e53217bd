//! Which clusters have an add-on, and what each asks for (`spec/lifecycle.md`, A14 to A21, A25, A26). Pure.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bellwether_api::addon::{InstallStrategy, InstallType};
use bellwether_clock::later;
use jiff::Timestamp;

use crate::assignment::{AddonRequest, Assignment, Certainty, Selection, assign};
use crate::clusters::{ClusterState, Reachability};

/// How long no placement must have selected a cluster before its add-on is uninstalled.
pub const UNSELECTED_GRACE: Duration = Duration::from_secs(10);

/// How long a cluster that returned keeps its add-ons before they can be uninstalled: the placements that dropped it while it
/// was unreachable have to be decided again first, and are at their busiest then.
pub const RETURN_GRACE: Duration = Duration::from_secs(300);

/// A ManagedClusterAddOn that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    /// The placement that it was created for; `None` if a user created it.
    pub created_for: Option<String>,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// Whether it is uninstalled also while its cluster cannot be reached.
    pub uninstalls_when_unreachable: bool,
}

/// What is done with the add-on on a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is installed and asks for this.
    Install(AddonRequest),
    /// It is uninstalled.
    Uninstall,
}

/// All that counts.
#[derive(Clone, Copy)]
pub struct Observed<'a> {
    /// Where the add-on is installed; `None` if its ClusterManagementAddOn was deleted.
    pub strategy: Option<&'a InstallStrategy>,
    /// What each of its placements selects.
    pub selections: &'a [Selection],
    /// The clusters.
    pub clusters: &'a dyn Fn(&str) -> Option<ClusterState>,
    /// The ManagedClusterAddOns, by cluster.
    pub present: &'a BTreeMap<String, Present>,
    /// Since when no placement has selected a cluster.
    pub unselected: &'a HashMap<String, Timestamp>,
    /// The time.
    pub now: Timestamp,
}

/// What is to be done, and what to remember.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstallPlan {
    /// By cluster. Clusters that are not listed are left alone.
    pub actions: BTreeMap<String, Action>,
    /// Since when no placement has selected a cluster.
    pub unselected: HashMap<String, Timestamp>,
    /// When time alone changes the plan.
    pub next: Option<Timestamp>,
}

/// Decides for all clusters.
pub fn decide(observed: &Observed<'_>) -> InstallPlan {
    match observed.strategy {
        None => uninstall_all(observed),
        Some(strategy) if strategy.type_ == InstallType::Placements => by_placements(observed, strategy),
        // Manual: users create and delete ManagedClusterAddOns (A21).
        Some(_) => InstallPlan::default(),
    }
}

/// The ClusterManagementAddOn was deleted: what was created for it is uninstalled (A25).
fn uninstall_all(observed: &Observed<'_>) -> InstallPlan {
    let ours =
        observed.present.iter().filter(|(_, present)| present.created_for.is_some() && !present.is_deleting);
    let actions = ours.map(|(cluster, _)| (cluster.clone(), Action::Uninstall)).collect();
    InstallPlan { actions, ..InstallPlan::default() }
}

fn by_placements(observed: &Observed<'_>, strategy: &InstallStrategy) -> InstallPlan {
    let mut plan = InstallPlan::default();
    let assigned = assign(strategy, observed.selections);
    for (cluster, assignment) in &assigned {
        if observed.may_install(cluster, assignment) {
            let request = AddonRequest::of(assignment.placement);
            plan.actions.insert((*cluster).to_owned(), Action::Install(request));
        }
    }
    let all_settled = observed.selections.iter().all(|one| matches!(one, Selection::Settled(_)));
    for (cluster, present) in observed.present {
        if present.created_for.is_none() || present.is_deleting {
            continue;
        }
        if (observed.clusters)(cluster).is_some_and(|state| state.is_deleting) {
            plan.actions.insert(cluster.clone(), Action::Uninstall);
        } else if all_settled && !assigned.contains_key(cluster.as_str()) {
            plan.uninstall_later(observed, cluster, present);
        }
    }
    plan
}

impl Observed<'_> {
    fn may_install(&self, cluster: &str, assignment: &Assignment<'_>) -> bool {
        let present = self.present.get(cluster);
        let is_users = present.is_some_and(|present| present.created_for.is_none());
        let is_deleting = present.is_some_and(|present| present.is_deleting);
        let accepts = (self.clusters)(cluster).is_some_and(|state| !state.is_deleting);
        assignment.certainty == Certainty::Certain && accepts && !is_users && !is_deleting
    }
}

impl InstallPlan {
    /// A cluster that no placement selects: its add-on is uninstalled when that has been so for a while, and the cluster is
    /// not merely unreachable.
    fn uninstall_later(&mut self, observed: &Observed<'_>, cluster: &str, present: &Present) {
        let state = (observed.clusters)(cluster);
        let may_be_unreachable = state.is_some_and(ClusterState::may_be_unreachable);
        if may_be_unreachable && !present.uninstalls_when_unreachable {
            return;
        }
        let since = observed.unselected.get(cluster).copied().unwrap_or(observed.now);
        let mut end = later(since, UNSELECTED_GRACE);
        if let Some(Reachability::Returned(returned)) = state.map(|state| state.reachability) {
            // It is reported by the clock of the cluster, which may be far off.
            let end_of_return = later(returned, RETURN_GRACE);
            if end_of_return <= later(observed.now, RETURN_GRACE * 2) {
                end = end.max(end_of_return);
            }
        }
        self.unselected.insert(cluster.to_owned(), since);
        if end <= observed.now {
            self.actions.insert(cluster.to_owned(), Action::Uninstall);
        } else {
            self.next = Some(self.next.map_or(end, |next| next.min(end)));
        }
    }
}

#[cfg(test)]
mod tests;
