//! The blast radius of another version: which clusters change, which do not and why, and what is to be written for it.
//! Pure.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use bellwether_api::addon::vocabulary::{PROGRESSING, UNKNOWN_VERSION};
use bellwether_api::addon::{ClusterManagementAddOn, ManagedClusterAddOn};
use bellwether_lifecycle::fields::{is_overridden, is_placed};
use bellwether_lifecycle::version::compare;
use kube::ResourceExt as _;

use super::hub::Picture;
use super::progress::pace;
use super::reach::{Reach, reach};
use super::state::{find, set_by};
use crate::output::{some_of, table};

/// How many clusters are named in a sentence.
const NAMED: usize = 5;

/// What another version would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Radius {
    pub(super) addon: String,
    pub(super) version: String,
    pub(super) touched: Vec<Touch>,
    pub(super) spared: Vec<Spared>,
    /// The placements that are to ask for it.
    pub(super) edits: Vec<Edit>,
    /// Placements of which it is not known what clusters they have, and why.
    pub(super) doubts: Vec<String>,
    /// All that change sooner or later, also those that are held.
    courses: Vec<(String, String, Direction)>,
}

/// A cluster that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Touch {
    pub(super) cluster: String,
    /// Empty, where there is none yet.
    pub(super) from: String,
    /// Where it has not come to that version: how far it is.
    pub(super) on_the_way: Option<String>,
    pub(super) direction: Direction,
    pub(super) placement: String,
    pub(super) strategy: String,
}

/// A cluster that does not change, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spared {
    pub(super) cluster: String,
    pub(super) version: String,
    pub(super) why: String,
}

/// A placement that is to ask for another version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    /// Its place in the list.
    pub(super) place: usize,
    pub(super) placement: String,
    /// What it asks for; empty, where there is none at all.
    pub(super) from: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// It has no version yet.
    Install,
    Upgrade,
    Rollback,
    /// Nobody can tell which of the two versions is the later.
    Change,
}

impl Direction {
    fn word(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Upgrade => "upgrade",
            Self::Rollback => "rollback",
            Self::Change => "change",
        }
    }
}

/// What a person wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    Upgrade,
    Rollback,
}

impl Intent {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Upgrade => "upgrade",
            Self::Rollback => "rollback",
        }
    }
}

/// The versions that there are, the lowest first.
fn supported(addon: &ClusterManagementAddOn) -> Vec<&str> {
    addon.status.iter().flat_map(|status| &status.supported_versions).map(String::as_str).collect()
}

/// A version that there is; in words why not.
pub(super) fn supported_version(addon: &ClusterManagementAddOn, version: &str) -> Result<String, String> {
    let name = addon.name_any();
    match supported(addon).as_slice() {
        [] => Err(format!(
            "{name} has no versions: no AddOnTemplate with spec.addonName {name} has been published"
        )),
        known if known.contains(&version) => Ok(version.to_owned()),
        known => Err(format!("{name} has no version {version}; there are: {}", known.join(", "))),
    }
}

/// The version where nobody asks for one; in words why there is none.
pub(super) fn default_version(addon: &ClusterManagementAddOn) -> Result<String, String> {
    let default = addon.status.as_ref().map(|status| status.default_version.as_str()).unwrap_or_default();
    supported_version(addon, default)
}

/// A way back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WayBack {
    pub(super) version: String,
    /// The placements whose clusters had it.
    pub(super) places: Vec<usize>,
}

/// The version that all clusters of these placements had before, those left out that never had another; in words why there
/// is none.
pub(super) fn way_back(picture: &Picture, places: &[usize]) -> Result<WayBack, String> {
    let known = supported(&picture.addon);
    let mut before: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut back = Vec::new();
    for (place, reach) in selected(picture, places) {
        for member in &reach.members {
            let Some(instance) = picture.instances.get(&member.cluster) else { continue };
            if let Some(version) = earlier(instance, &reach.version, &known) {
                before.entry(version).or_default().push(member.cluster.clone());
                back.push(place);
            }
        }
    }
    back.dedup();
    let name = picture.addon.name_any();
    if before.is_empty() {
        return Err(format!(
            "no cluster of {name} had an earlier version to go back to; say which by --version: {}",
            known.join(", ")
        ));
    }
    let versions: Vec<&String> = before.keys().collect();
    if let [version] = versions.as_slice() {
        return Ok(WayBack { version: (*version).clone(), places: back });
    }
    let groups = before.iter().map(|(version, clusters)| {
        let clusters: Vec<&str> = clusters.iter().map(String::as_str).collect();
        format!("{version} on {}", some_of(&clusters, NAMED))
    });
    let groups: Vec<String> = groups.collect();
    Err(format!(
        "the clusters of {name} did not all have the same version before: {}; say which by --version, or for which \
         clusters by --placement",
        groups.join("; ")
    ))
}

/// The version that a cluster goes back to: what it had before; or what it still has, where it has not begun with what its
/// placement asks for.
fn earlier(instance: &ManagedClusterAddOn, asked: &str, known: &[&str]) -> Option<String> {
    if !is_placed(instance) || is_overridden(instance) || instance.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let status = instance.status.as_ref()?;
    let begun = status.install_version.as_str();
    let back = if begun == asked { status.last_version.as_str() } else { begun };
    let real = !matches!(back, "" | UNKNOWN_VERSION);
    let later = compare(known.iter().copied(), back, begun) == Some(Ordering::Greater);
    (real && !later).then(|| back.to_owned())
}

fn selected<'a>(picture: &'a Picture, places: &[usize]) -> Vec<(usize, Reach<'a>)> {
    reach(picture).into_iter().enumerate().filter(|(place, _)| places.contains(place)).collect()
}

/// What would become of the clusters of these placements.
pub(super) fn radius(picture: &Picture, places: &[usize], version: &str) -> Radius {
    let mut radius = Radius {
        addon: picture.addon.name_any(),
        version: version.to_owned(),
        touched: Vec::new(),
        spared: Vec::new(),
        edits: Vec::new(),
        doubts: Vec::new(),
        courses: Vec::new(),
    };
    let all = selected(picture, places);
    let chosen: Vec<String> = all.iter().map(|(_, reach)| reach.name.clone()).collect();
    for (place, reach) in all {
        if reach.version != version {
            let (placement, from) = (reach.name.clone(), reach.version.clone());
            radius.edits.push(Edit { place, placement, from });
        }
        radius.doubts.extend(reach.doubt.iter().map(|why| format!("{}: {why}", reach.name)));
        for member in &reach.members {
            radius.judge(picture, &reach, &member.cluster);
        }
        for taken in reach.taken.iter().filter(|taken| !chosen.contains(&taken.by)) {
            let version = picture.instances.get(&taken.cluster).map(begun).unwrap_or_default();
            let why = format!("goes by {}, which comes later than {}", taken.by, reach.name);
            radius.spared.push(Spared { cluster: taken.cluster.clone(), version, why });
        }
    }
    radius.touched.sort_by(|one, other| one.cluster.cmp(&other.cluster));
    radius.spared.sort_by(|one, other| one.cluster.cmp(&other.cluster));
    radius
}

fn begun(instance: &ManagedClusterAddOn) -> String {
    instance.status.as_ref().map(|status| status.install_version.clone()).unwrap_or_default()
}

impl Radius {
    fn judge(&mut self, picture: &Picture, reach: &Reach<'_>, cluster: &str) {
        let instance = picture.instances.get(cluster);
        let from = instance.map(begun).unwrap_or_default();
        if let Some(why) = instance.and_then(|instance| left_alone(instance, reach, &self.version)) {
            self.spared.push(Spared { cluster: cluster.to_owned(), version: from, why });
            return;
        }
        let direction = direction(&supported(&picture.addon), &from, &self.version);
        self.courses.push((cluster.to_owned(), from.clone(), direction));
        if reach.placement.paused {
            let why = format!(
                "{} is paused; it changes after `bellwether addon resume {}`",
                reach.name, self.addon
            );
            self.spared.push(Spared { cluster: cluster.to_owned(), version: from, why });
            return;
        }
        self.touched.push(Touch {
            cluster: cluster.to_owned(),
            from,
            on_the_way: instance.and_then(on_the_way),
            direction,
            placement: reach.name.clone(),
            strategy: pace(reach.placement),
        });
    }

    /// Why this is not what a person wants, if it is not: a way back is no upgrade, and a way on no rollback.
    pub(super) fn contradicts(&self, intent: Intent, placement: Option<&str>) -> Option<String> {
        let (wrong, other, relation) = match intent {
            Intent::Upgrade => (Direction::Rollback, Intent::Rollback, "earlier"),
            Intent::Rollback => (Direction::Upgrade, Intent::Upgrade, "later"),
        };
        let against = self.courses.iter().filter(|(_, _, direction)| *direction == wrong);
        let mut against: Vec<String> =
            against.map(|(cluster, from, _)| format!("{cluster} ({from})")).collect();
        if against.is_empty() {
            return None;
        }
        against.sort();
        let names: Vec<&str> = against.iter().map(String::as_str).collect();
        let (addon, version) = (&self.addon, &self.version);
        let what_to_do = if against.len() == self.courses.len() {
            let placement = placement.map(|name| format!(" --placement {name}")).unwrap_or_default();
            format!("`bellwether addon {} {addon} --version {version}{placement}` goes there", other.word())
        } else {
            "others would go the other way, so say which clusters by --placement".to_owned()
        };
        let names = some_of(&names, NAMED);
        Some(format!("{version} is {relation} than what there is on {names}; {what_to_do}"))
    }

    /// Adds the clusters of placements that are left out, because they never had another version.
    pub(super) fn spare(&mut self, picture: &Picture, places: &[usize]) {
        for (_, reach) in selected(picture, places) {
            // An earlier placement may have chosen them too, and that they do not go by it is not why they stay.
            self.spared.retain(|one| reach.members.iter().all(|member| member.cluster != one.cluster));
            self.spared.extend(reach.members.iter().map(|member| Spared {
                cluster: member.cluster.clone(),
                version: picture.instances.get(&member.cluster).map(begun).unwrap_or_default(),
                why: "had no earlier version to go back to".to_owned(),
            }));
        }
        self.spared.sort_by(|one, other| one.cluster.cmp(&other.cluster));
    }

    /// In a sentence.
    pub(super) fn headline(&self) -> String {
        let (touched, all) = (self.touched.len(), self.touched.len() + self.spared.len());
        let nouns = if all == 1 { "cluster" } else { "clusters" };
        let verb = if touched == 1 { "changes" } else { "change" };
        let of = if touched == all { String::new() } else { format!(" of {all}") };
        format!("{} to {}: {touched}{of} {nouns} {verb}.", self.addon, self.version)
    }

    /// All of it as text; of clusters at most so many.
    pub(super) fn lines(&self, most: usize) -> Vec<String> {
        let mut lines = vec![self.headline()];
        lines.extend(
            self.doubts.iter().map(|doubt| format!("It is not known for sure which these are. {doubt}")),
        );
        if !self.touched.is_empty() {
            lines.push(String::new());
            let rows = self.touched.iter().take(most).map(|touch| {
                let from = match (touch.from.as_str(), &touch.on_the_way) {
                    ("", _) => "-".to_owned(),
                    (from, None) => from.to_owned(),
                    (from, Some(how)) => format!("{from} ({how})"),
                };
                let direction = touch.direction.word().to_owned();
                let (placement, strategy) = (touch.placement.clone(), touch.strategy.clone());
                [touch.cluster.clone(), from, self.version.clone(), direction, placement, strategy]
            });
            lines.extend(table(["CLUSTER", "FROM", "TO", "DIRECTION", "PLACEMENT", "STRATEGY"], rows));
            lines.extend(more(self.touched.len(), most));
        }
        if !self.spared.is_empty() {
            lines.push(String::new());
            let rows = self.spared.iter().take(most).map(|one| {
                let version = if one.version.is_empty() { "-".to_owned() } else { one.version.clone() };
                [one.cluster.clone(), version, one.why.clone()]
            });
            lines.extend(table(["NOT TOUCHED", "VERSION", "WHY"], rows));
            lines.extend(more(self.spared.len(), most));
        }
        lines
    }
}

fn more(all: usize, most: usize) -> Option<String> {
    let rest = all.saturating_sub(most);
    (rest > 0).then(|| format!("… and {rest} more; --dry-run shows them all"))
}

/// Why the version of a placement makes no difference to a cluster, if it does not.
fn left_alone(instance: &ManagedClusterAddOn, reach: &Reach<'_>, version: &str) -> Option<String> {
    if instance.metadata.deletion_timestamp.is_some() {
        return Some("is being taken away".to_owned());
    }
    if !is_placed(instance) {
        return Some("was made by hand, so no placement sets its version".to_owned());
    }
    if is_overridden(instance) {
        return Some(set_by(instance));
    }
    if begun(instance) == version {
        return Some(match on_the_way(instance) {
            None => "already there".to_owned(),
            Some(how) => format!("already on its way there: {how}"),
        });
    }
    (reach.version == version).then(|| format!("{} asks for it already; its turn has not come", reach.name))
}

/// Where a cluster has not come to the version that it has begun: how far it is.
fn on_the_way(instance: &ManagedClusterAddOn) -> Option<String> {
    let status = instance.status.as_ref()?;
    if status.install_version.is_empty() || status.current_version == status.install_version {
        return None;
    }
    let said = find(&status.conditions, PROGRESSING)?;
    Some(said.reason.to_lowercase())
}

fn direction(known: &[&str], from: &str, to: &str) -> Direction {
    match compare(known.iter().copied(), from, to) {
        _ if from.is_empty() => Direction::Install,
        Some(Ordering::Less) => Direction::Upgrade,
        Some(Ordering::Greater) => Direction::Rollback,
        Some(Ordering::Equal) | None => Direction::Change,
    }
}

#[cfg(test)]
mod tests;
