//! The blast radius of a version: which clusters change if placements request it, which do not and why, and which
//! placements have to be edited. Pure.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use bellwether_api::addon::ManagedClusterAddOn;
use bellwether_api::addon::vocabulary::PROGRESSING;
use bellwether_conditions::kubernetes::find;

use super::progress::describe_strategy;
use crate::fields::{describe_override, is_overridden, is_placed};
use crate::hub::{AddonKey, HubCache, Rollout};
use crate::standing::{Standing, resolve};
use crate::version::{Catalogue, Version};

/// The effect of a version on the clusters of some placements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlastRadius {
    /// The add-on.
    pub addon: String,
    /// The version.
    pub version: Version,
    /// The clusters that change, at the pace of their rollout.
    pub changes: Vec<ClusterChange>,
    /// The clusters that change when their placement is resumed.
    pub paused: Vec<ClusterChange>,
    /// The clusters that do not change.
    pub unchanged: Vec<UnchangedCluster>,
    /// The placements that do not request the version yet.
    pub edits: Vec<PlacementEdit>,
    /// The placements whose selected clusters are unknown, each with the reason.
    pub unknown: Vec<String>,
}

/// A cluster that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterChange {
    /// The cluster.
    pub cluster: String,
    /// The version of its last change; `None` if it has none.
    pub from: Option<Version>,
    /// How far that change is, if it has not succeeded.
    pub unfinished: Option<String>,
    /// Whether the new version is later or earlier.
    pub direction: Direction,
    /// The placement, `<namespace>/<name>`.
    pub placement: String,
    /// The rollout strategy of the placement, in short.
    pub strategy: String,
}

/// A cluster that does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnchangedCluster {
    /// The cluster.
    pub cluster: String,
    /// The version of its last change; `None` if it has none.
    pub version: Option<Version>,
    /// Why it does not change.
    pub reason: UnchangedReason,
}

/// Why a cluster does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnchangedReason {
    /// A placement later in the list decides its version.
    AssignedElsewhere {
        /// The assigned placement.
        assigned: String,
        /// The placement that selects it too.
        selected: String,
    },
    /// The placement dropped it during an earlier change, usually because it is unreachable.
    NotSelected(String),
    /// Its ManagedClusterAddOn is being deleted.
    Deleting,
    /// A user created its ManagedClusterAddOn.
    CreatedByUser,
    /// A user has set its version.
    Overridden(String),
    /// It has the version.
    HasVersion,
    /// It is changing to the version, or failed to.
    Changing(String),
    /// Its placement requests the version already.
    Requested(String),
    /// It never had another version.
    NoPreviousVersion,
}

impl fmt::Display for UnchangedReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AssignedElsewhere { assigned, selected } => {
                write!(formatter, "is assigned to {assigned}, which is later in the list than {selected}")
            }
            Self::NotSelected(placement) => {
                write!(formatter, "is not selected by {placement} now; it changes when it is selected again")
            }
            Self::Deleting => formatter.write_str("is being deleted"),
            Self::CreatedByUser => {
                formatter.write_str("was created by a user, so no placement sets its version")
            }
            Self::Overridden(description) => formatter.write_str(description),
            Self::HasVersion => formatter.write_str("already has it"),
            Self::Changing(progress) => write!(formatter, "is already changing to it: {progress}"),
            Self::Requested(placement) => {
                write!(formatter, "{placement} already requests it; the rollout has not admitted the cluster")
            }
            Self::NoPreviousVersion => formatter.write_str("had no earlier version"),
        }
    }
}

/// A placement that has to request the version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementEdit {
    /// Its index in the list of the ClusterManagementAddOn.
    pub index: usize,
    /// Its name, `<namespace>/<name>`.
    pub placement: String,
    /// The version that it requests now; `None` if the add-on has no versions.
    pub from: Option<Version>,
}

/// Whether a version is later or earlier than the one that a cluster has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The cluster has no version yet.
    Install,
    /// The version is later.
    Upgrade,
    /// The version is earlier.
    Rollback,
    /// The versions cannot be compared.
    Change,
}

impl Direction {
    /// The name of the direction.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Upgrade => "upgrade",
            Self::Rollback => "rollback",
            Self::Change => "change",
        }
    }
}

/// The version that clusters had before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviousVersion {
    /// The version.
    pub version: Version,
    /// The indices of the placements whose clusters had it.
    pub placements: Vec<usize>,
}

/// Why there is no version to roll back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoPreviousVersion {
    /// No cluster had an earlier version.
    None,
    /// Clusters had different ones: the clusters by version.
    Different(BTreeMap<Version, Vec<String>>),
}

/// What would happen to the clusters of these placements, by index, if they requested a version.
pub fn blast_radius(cache: &HubCache, addon: &str, placements: &[usize], version: &Version) -> BlastRadius {
    let mut radius = BlastRadius {
        addon: addon.to_owned(),
        version: version.clone(),
        changes: Vec::new(),
        paused: Vec::new(),
        unchanged: Vec::new(),
        edits: Vec::new(),
        unknown: Vec::new(),
    };
    let Some(catalogue) = cache.catalogue(addon) else { return radius };
    let is_named = |placement: &str| {
        select(cache, addon, placements).any(|(_, rollout)| rollout.request.placement == placement)
    };
    for (index, rollout) in select(cache, addon, placements) {
        let placement = &rollout.request.placement;
        let requested = resolve(rollout.request.version.as_ref(), catalogue);
        if requested != Some(version) {
            let (placement, from) = (placement.clone(), requested.cloned());
            radius.edits.push(PlacementEdit { index, placement, from });
        }
        radius.unknown.extend(rollout.unknown.iter().map(|why| format!("{placement}: {why}")));
        for member in &rollout.plan.members {
            radius.add(cache, catalogue, rollout, &member.cluster);
        }
        for one in rollout.assigned_elsewhere.iter().filter(|one| !is_named(&one.placement)) {
            let reason = UnchangedReason::AssignedElsewhere {
                assigned: one.placement.clone(),
                selected: placement.clone(),
            };
            radius.unchanged.push(UnchangedCluster {
                cluster: one.cluster.clone(),
                version: begun(cache, addon, &one.cluster),
                reason,
            });
        }
    }
    radius.sort();
    radius
}

fn select<'a>(
    cache: &'a HubCache,
    addon: &str,
    placements: &'a [usize],
) -> impl Iterator<Item = (usize, &'a Rollout)> {
    cache.rollouts_of(addon).iter().enumerate().filter(|(index, _)| placements.contains(index))
}

fn begun(cache: &HubCache, addon: &str, cluster: &str) -> Option<Version> {
    let object = cache.addon(&AddonKey::new(cluster, addon))?;
    Standing::read(object.status.as_ref()?).begun
}

impl BlastRadius {
    fn add(&mut self, cache: &HubCache, catalogue: &Catalogue, rollout: &Rollout, cluster: &str) {
        let object = cache.addon(&AddonKey::new(cluster, &self.addon));
        let from = begun(cache, &self.addon, cluster);
        let reason =
            object.and_then(|object| unchanged_reason(object, catalogue, rollout, cluster, &self.version));
        if let Some(reason) = reason {
            let cluster = cluster.to_owned();
            return self.unchanged.push(UnchangedCluster { cluster, version: from, reason });
        }
        let change = ClusterChange {
            cluster: cluster.to_owned(),
            unfinished: object.and_then(|object| unfinished(object)),
            direction: direction(catalogue, from.as_ref(), &self.version),
            from,
            placement: rollout.request.placement.clone(),
            strategy: describe_strategy(&rollout.strategy),
        };
        let is_paused = rollout.strategy.as_ref().is_ok_and(|strategy| strategy.paused);
        if is_paused { self.paused.push(change) } else { self.changes.push(change) }
    }

    /// The clusters that go in a direction, also those that are paused, by name.
    pub fn going(&self, direction: Direction) -> Vec<&ClusterChange> {
        let all = self.changes.iter().chain(&self.paused);
        let mut going: Vec<&ClusterChange> = all.filter(|change| change.direction == direction).collect();
        going.sort_by(|one, other| one.cluster.cmp(&other.cluster));
        going
    }

    /// Adds the clusters of these placements, by index, as clusters that had no earlier version.
    pub fn add_without_previous(&mut self, cache: &HubCache, placements: &[usize]) {
        for (_, rollout) in select(cache, &self.addon, placements) {
            let members = &rollout.plan.members;
            // An earlier placement may select them too; that they are not assigned to it is not why they stay.
            self.unchanged.retain(|one| members.iter().all(|member| member.cluster != one.cluster));
            self.unchanged.extend(members.iter().map(|member| UnchangedCluster {
                cluster: member.cluster.clone(),
                version: begun(cache, &self.addon, &member.cluster),
                reason: UnchangedReason::NoPreviousVersion,
            }));
        }
        self.sort();
    }

    fn sort(&mut self) {
        self.changes.sort_by(|one, other| one.cluster.cmp(&other.cluster));
        self.paused.sort_by(|one, other| one.cluster.cmp(&other.cluster));
        self.unchanged.sort_by(|one, other| one.cluster.cmp(&other.cluster));
    }
}

/// Why the version of its placement makes no difference to a cluster, if it does not.
fn unchanged_reason(
    object: &ManagedClusterAddOn,
    catalogue: &Catalogue,
    rollout: &Rollout,
    cluster: &str,
    version: &Version,
) -> Option<UnchangedReason> {
    if object.metadata.deletion_timestamp.is_some() {
        return Some(UnchangedReason::Deleting);
    }
    if !is_placed(object) {
        return Some(UnchangedReason::CreatedByUser);
    }
    if is_overridden(object) {
        return Some(UnchangedReason::Overridden(describe_override(object)));
    }
    let standing = object.status.as_ref().map(Standing::read).unwrap_or_default();
    if standing.begun.as_ref() == Some(version) {
        return Some(unfinished(object).map_or(UnchangedReason::HasVersion, UnchangedReason::Changing));
    }
    if !rollout.is_selected(cluster) {
        return Some(UnchangedReason::NotSelected(rollout.request.placement.clone()));
    }
    let is_requested = resolve(rollout.request.version.as_ref(), catalogue) == Some(version);
    is_requested.then(|| UnchangedReason::Requested(rollout.request.placement.clone()))
}

/// How far the last change of a cluster is, if it has not succeeded.
fn unfinished(object: &ManagedClusterAddOn) -> Option<String> {
    let status = object.status.as_ref()?;
    let standing = Standing::read(status);
    if standing.begun.is_none() || standing.is_current() {
        return None;
    }
    Some(find(&status.conditions, PROGRESSING)?.reason.to_lowercase())
}

fn direction(catalogue: &Catalogue, from: Option<&Version>, to: &Version) -> Direction {
    let Some(from) = from else { return Direction::Install };
    match catalogue.compare(from, to) {
        Some(Ordering::Less) => Direction::Upgrade,
        Some(Ordering::Greater) => Direction::Rollback,
        Some(Ordering::Equal) | None => Direction::Change,
    }
}

/// The version that the clusters of these placements, by index, had before. Clusters that never had another are ignored.
pub fn previous_version(
    cache: &HubCache,
    addon: &str,
    placements: &[usize],
) -> Result<PreviousVersion, NoPreviousVersion> {
    let mut clusters: BTreeMap<Version, Vec<String>> = BTreeMap::new();
    let mut having = Vec::new();
    let catalogue = cache.catalogue(addon).ok_or(NoPreviousVersion::None)?;
    for (index, rollout) in select(cache, addon, placements) {
        let requested = resolve(rollout.request.version.as_ref(), catalogue);
        for member in &rollout.plan.members {
            let object = cache.addon(&AddonKey::new(&member.cluster, addon));
            let previous = object.and_then(|object| previous_of(object, requested, catalogue));
            if let Some(version) = previous {
                clusters.entry(version).or_default().push(member.cluster.clone());
                having.push(index);
            }
        }
    }
    having.dedup();
    match clusters.len() {
        0 => Err(NoPreviousVersion::None),
        1 => {
            let version = clusters.into_keys().next().ok_or(NoPreviousVersion::None)?;
            Ok(PreviousVersion { version, placements: having })
        }
        _ => Err(NoPreviousVersion::Different(clusters)),
    }
}

/// The version that a cluster goes back to: the one that it had before, or the one that it still has where it has not
/// started the change that its placement requests. A later version is not one to go back to.
fn previous_of(
    object: &ManagedClusterAddOn,
    requested: Option<&Version>,
    catalogue: &Catalogue,
) -> Option<Version> {
    if !is_placed(object) || is_overridden(object) || object.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let standing = Standing::read(object.status.as_ref()?);
    let begun = standing.begun.as_ref()?;
    let back = if Some(begun) == requested { standing.last.known()? } else { begun };
    (catalogue.compare(back, begun) != Some(Ordering::Greater)).then(|| back.clone())
}

#[cfg(test)]
mod tests;
