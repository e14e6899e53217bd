//! The hub as far as add-ons go, in memory: what the watches have shown, and what follows from it. It is synchronous and
//! decides everything; whoever holds it only carries events in and writes out.

mod departed;
mod judge;
mod member;
mod work;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bellwether_api::addon::{
    AddOnDeploymentConfig, AddOnTemplate, ClusterManagementAddOn, InstallType, ManagedClusterAddOn,
    PlacementStrategy,
};
use bellwether_api::cluster::{ManagedCluster, Placement, PlacementDecision, vocabulary as clusters};
use bellwether_runtime::ObjectName;
use jiff::Timestamp;
use kube::{Resource, ResourceExt as _};

use crate::install::decide::{Wish, wish};
use crate::install::is_placed_by;
use crate::placement::{Decided, DecidedCluster, KnownPlacements, Undecided};
use crate::rollout::{Member, Plan, Share, State, Strategy, plan};
use crate::version::Catalogue;

use departed::Departed;
pub use judge::{Judgement, WorkWrite};
use member::Config;
pub use member::state_of;
pub use work::Work;

/// An add-on on a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The cluster, which is also the namespace.
    pub cluster: Arc<str>,
    /// The add-on.
    pub addon: Arc<str>,
}

impl Key {
    /// Of an object in the namespace of a cluster.
    pub fn new(cluster: &str, addon: &str) -> Self {
        Self { cluster: cluster.into(), addon: addon.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.cluster, self.addon)
    }
}

/// What has to be looked at again.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Stir {
    /// Add-ons on clusters.
    pub keys: BTreeSet<Key>,
    /// Add-ons as a whole.
    pub addons: BTreeSet<Arc<str>>,
    /// Add-ons as a whole whose status may be another.
    pub summaries: BTreeSet<Arc<str>>,
}

/// The hub, as far as add-ons go.
#[derive(Default)]
pub struct World {
    managements: HashMap<Arc<str>, Management>,
    templates: BTreeMap<String, Arc<Template>>,
    configs: HashMap<ObjectName, Config>,
    placements: KnownPlacements,
    /// What placements were last known to have chosen: what is being written is no reason to forget it.
    chosen: HashMap<ObjectName, Vec<DecidedCluster>>,
    /// In which group of its placement a cluster was last known to be.
    groups: HashMap<ObjectName, HashMap<String, (usize, String)>>,
    clusters: HashMap<Arc<str>, (Reach, Stay)>,
    addons: HashMap<Arc<str>, BTreeMap<Arc<str>, Arc<ManagedClusterAddOn>>>,
    works: HashMap<Arc<str>, BTreeMap<String, Work>>,
    /// What is being begun by a write that has not been answered yet.
    begun: HashMap<Key, Timestamp>,
    /// Works that the hub did not take, and why.
    refused: HashMap<Key, String>,
    departed: Departed,
    stir: Stir,
}

/// A version, and what it is in short.
struct Template {
    object: AddOnTemplate,
    hash: String,
}

/// Whether a cluster can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Yes,
    /// It answers, and says that it is not well; placements drop it.
    Unwell,
    No,
}

/// Whether a cluster is to stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stay {
    Stays,
    /// It is being deleted: nothing is brought there any more.
    Leaves,
}

/// An add-on as a whole, and what follows from that.
struct Management {
    object: ClusterManagementAddOn,
    catalogue: Catalogue,
    rollouts: Vec<Rollout>,
    /// The place of the rollout that a cluster goes by.
    by_cluster: HashMap<Arc<str>, usize>,
    /// Whether whose turn it is was worked out since what decides that has changed.
    planned: bool,
}

/// The clusters of a placement, and whose turn it is.
pub struct Rollout {
    /// The placement.
    pub placement: ObjectName,
    /// What it asks for.
    pub wish: Wish,
    /// What is asked for, if it makes sense.
    pub strategy: Result<Strategy, String>,
    /// How it goes.
    pub plan: Plan,
    /// Why it is not known which clusters there are, if it is not.
    pub unknown: Option<String>,
}

impl Management {
    fn rollout(&self, cluster: &str) -> Option<&Rollout> {
        self.by_cluster.get(cluster).and_then(|place| self.rollouts.get(*place))
    }

    fn deadline(&self, cluster: &str) -> Option<Duration> {
        self.rollout(cluster)?.deadline()
    }
}

impl Rollout {
    fn deadline(&self) -> Option<Duration> {
        self.strategy.as_ref().ok()?.deadline
    }
}

impl World {
    /// What has to be looked at since this was last asked.
    pub fn stirred(&mut self) -> Stir {
        std::mem::take(&mut self.stir)
    }

    /// Every add-on on every cluster, for whoever begins to lead.
    pub fn all(&self) -> Stir {
        let keys = self.addons.iter().flat_map(|(addon, clusters)| {
            clusters.keys().map(|cluster| Key { cluster: cluster.clone(), addon: addon.clone() })
        });
        Stir {
            keys: keys.collect(),
            addons: self.managements.keys().cloned().collect(),
            summaries: BTreeSet::new(),
        }
    }

    /// An add-on as a whole is there, or has changed.
    pub fn manage(&mut self, object: ClusterManagementAddOn) {
        let addon: Arc<str> = object.name_any().into();
        let before = self.managements.remove(&addon);
        if before.as_ref().is_some_and(|before| !is_newer(&object, &before.object)) {
            self.managements.extend(before.map(|before| (addon, before)));
            return;
        }
        let same = before.as_ref().is_some_and(|before| before.object.spec == object.spec);
        let management = match before {
            Some(before) => Management { object, ..before },
            None => Management {
                object,
                catalogue: Catalogue::default(),
                rollouts: Vec::new(),
                by_cluster: HashMap::new(),
                planned: false,
            },
        };
        self.managements.insert(addon.clone(), management);
        if same {
            self.stir.addons.insert(addon);
        } else {
            self.refresh(&addon);
        }
    }

    /// An add-on as a whole is gone.
    pub fn unmanage(&mut self, addon: &str) {
        let gone = self.managements.remove(addon);
        self.departed.add(gone.and_then(|gone| gone.object.uid()));
        self.stir_all_of(addon);
    }

    /// A version is there.
    pub fn publish(&mut self, template: AddOnTemplate) {
        let addon = template.spec.addon_name.clone();
        // Another manner makes other objects of it, and that comes to clusters in their turn.
        let hash = member::hash(&(crate::render::MANNER, &template.spec));
        self.templates.insert(template.name_any(), Arc::new(Template { object: template, hash }));
        self.refresh(&addon);
    }

    /// A version is gone.
    pub fn withdraw(&mut self, template: &str) {
        if let Some(gone) = self.templates.remove(template) {
            self.refresh(&gone.object.spec.addon_name);
        }
    }

    /// A configuration is there, or has changed.
    pub fn configure(&mut self, config: AddOnDeploymentConfig) {
        let name = ObjectName::of(&config);
        let same = self.configs.get(&name).is_some_and(|before| before.object.spec == config.spec);
        self.configs.insert(name.clone(), Config::of(config));
        if !same {
            self.stir_users_of(&name);
        }
    }

    /// A configuration is gone.
    pub fn unconfigure(&mut self, name: &ObjectName) {
        self.configs.remove(name);
        self.stir_users_of(name);
    }

    /// A placement is there, or has changed.
    pub fn place(&mut self, placement: Placement) {
        let name = self.placements.place(placement);
        self.refresh_those_with(&name);
    }

    /// A placement is gone.
    pub fn displace(&mut self, name: &ObjectName) {
        self.placements.displace(name);
        self.refresh_those_with(name);
    }

    /// A part of a decision is there, or has changed.
    pub fn decide(&mut self, decision: PlacementDecision) {
        let placement = self.placements.decide(decision);
        self.refresh_those_with(&placement);
    }

    /// A part of a decision is gone.
    pub fn undecide(&mut self, name: &ObjectName) {
        if let Some(placement) = self.placements.undecide(name) {
            self.refresh_those_with(&placement);
        }
    }

    /// A cluster is there, or has changed.
    pub fn join(&mut self, cluster: &ManagedCluster) {
        let name: Arc<str> = cluster.name_any().into();
        let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
        let available = conditions.clone().find(|said| said.type_ == clusters::AVAILABLE);
        let reach = match available.map(|said| said.status.as_str()) {
            Some("Unknown") => Reach::No,
            Some("False") => Reach::Unwell,
            _ => Reach::Yes,
        };
        let leaves = cluster.metadata.deletion_timestamp.is_some();
        let known = (reach, if leaves { Stay::Leaves } else { Stay::Stays });
        if self.clusters.insert(name.clone(), known) != Some(known) {
            self.stir_cluster(&name);
            // Whether it is in reach also counts for those that come after it.
            let addons: Vec<Arc<str>> = self.with_addons(&name).map(|key| key.addon).collect();
            self.stir.addons.extend(addons);
        }
    }

    /// A cluster is gone.
    pub fn leave(&mut self, cluster: &str) {
        if self.clusters.remove(cluster).is_some() {
            self.stir_cluster(cluster);
        }
    }

    /// An add-on on a cluster is there, or has changed.
    pub fn observe(&mut self, addon: ManagedClusterAddOn) {
        let key = Key::new(&addon.namespace().unwrap_or_default(), &addon.name_any());
        let clusters = self.addons.entry(key.addon.clone()).or_default();
        if clusters.get(&key.cluster).is_some_and(|before| !is_newer(&addon, before.as_ref())) {
            return;
        }
        clusters.insert(key.cluster.clone(), Arc::new(addon));
        self.stir.addons.insert(key.addon.clone());
        self.stir.keys.insert(key);
    }

    /// An add-on on a cluster is gone.
    pub fn forget(&mut self, key: &Key) {
        if let Some(clusters) = self.addons.get_mut(&key.addon) {
            let gone = clusters.remove(&key.cluster);
            self.departed.add(gone.and_then(|gone| gone.uid()));
        }
        self.refused.remove(key);
        self.stir.addons.insert(key.addon.clone());
        self.stir.keys.insert(key.clone());
    }

    /// Whether an object is gone that an answer tells of: what the watch said was later.
    pub fn is_gone(&self, object: &impl Resource) -> bool {
        self.departed.has(object.meta().uid.as_deref())
    }

    /// A work is there, or has changed.
    pub fn deploy(&mut self, cluster: &str, name: &str, work: Work) {
        let works = self.works.entry(cluster.into()).or_default();
        let known =
            |before: &Work| work.version != 0 && before.uid == work.uid && before.version >= work.version;
        if works.get(name).is_some_and(known) {
            return;
        }
        // One that has lost its label was not gone.
        self.departed.remove(&work.uid);
        let before = works.insert(name.to_owned(), work.clone());
        self.stir_work(cluster, &work);
        // One that has changed its label concerns also whom it named before.
        before.into_iter().for_each(|before| self.stir_work(cluster, &before));
    }

    /// A work is gone.
    pub fn undeploy(&mut self, cluster: &str, name: &str) {
        let gone = self.works.get_mut(cluster).and_then(|works| works.remove(name));
        if let Some(gone) = gone {
            self.stir_work(cluster, &gone);
            self.departed.add(Some(gone.uid));
        }
    }

    /// A work is gone, by the answer to a write; another may have its name already.
    pub fn vanish(&mut self, cluster: &str, name: &str, uid: &str) {
        let is_that = |works: &BTreeMap<String, Work>| works.get(name).is_some_and(|work| work.uid == uid);
        if self.works.get(cluster).is_some_and(is_that) {
            self.undeploy(cluster, name);
        }
    }

    /// A write that begins a change is under way: until it is answered, its cluster counts as one that changes.
    pub fn begins(&mut self, key: &Key, now: Timestamp) {
        self.begun.insert(key.clone(), now);
        self.refused.remove(key);
    }

    /// The hub did not take a work of an add-on, or took it after all.
    pub fn refuse(&mut self, key: &Key, why: Option<String>) {
        let before = match why {
            Some(why) => self.refused.insert(key.clone(), why.clone()).is_some_and(|before| before == why),
            None => self.refused.remove(key).is_none(),
        };
        if !before {
            self.stir.keys.insert(key.clone());
        }
    }

    /// That write was answered.
    pub fn began(&mut self, key: &Key) {
        if self.begun.remove(key).is_some() {
            self.stir.addons.insert(key.addon.clone());
        }
    }

    /// Works out anew whose turn it is, and stirs those whose turn has come or gone. Says when time alone changes it.
    pub fn plan(&mut self, addon: &str, now: Timestamp) -> Option<Timestamp> {
        let mut management = self.managements.remove(addon)?;
        for placement in &management.object.spec.install_strategy.placements {
            let name = ObjectName::new(placement.namespace.as_str(), placement.name.as_str());
            if let Decided::Complete(clusters) = self.decided(&name) {
                let groups = self.groups.entry(name.clone()).or_default();
                groups.extend(
                    clusters
                        .iter()
                        .map(|one| (one.cluster.clone(), (one.group_index, one.group_name.clone()))),
                );
                self.chosen.insert(name, clusters);
            }
        }
        let (rollouts, by_cluster) = self.rollouts(&management, now);
        let next = rollouts.iter().filter_map(|rollout| rollout.plan.next).min();
        let anew = !management.planned;
        let turned: Vec<Arc<str>> = by_cluster
            .iter()
            .filter(|(cluster, place)| {
                let (rollout, before) = (rollouts.get(**place), management.rollout(cluster));
                let turn = |rollout: Option<&Rollout>| rollout.and_then(|rollout| rollout.plan.turn(cluster));
                let deadline = |rollout: Option<&Rollout>| rollout.and_then(Rollout::deadline);
                let turned = turn(rollout).is_some() && (anew || turn(rollout) != turn(before));
                // Who has begun goes on by the new deadline, and is given it also when it was too late by the old one.
                turned || before.is_none() || deadline(rollout) != deadline(before)
            })
            .map(|(cluster, _)| cluster.clone())
            .collect();
        management.planned = true;
        (management.rollouts, management.by_cluster) = (rollouts, by_cluster);
        let addon: Arc<str> = addon.into();
        self.stir.keys.extend(turned.into_iter().map(|cluster| Key { cluster, addon: addon.clone() }));
        self.stir.summaries.insert(addon.clone());
        self.managements.insert(addon, management);
        next
    }

    /// The rollouts of an add-on, in the order of its placements.
    pub fn rollouts_of(&self, addon: &str) -> &[Rollout] {
        self.managements.get(addon).map(|management| management.rollouts.as_slice()).unwrap_or_default()
    }

    /// An add-on as a whole, and its versions.
    pub fn management(&self, addon: &str) -> Option<(&ClusterManagementAddOn, &Catalogue)> {
        self.managements.get(addon).map(|management| (&management.object, &management.catalogue))
    }

    fn rollouts(&self, management: &Management, now: Timestamp) -> (Vec<Rollout>, HashMap<Arc<str>, usize>) {
        let strategy = &management.object.spec.install_strategy;
        if strategy.type_ != InstallType::Placements {
            return (Vec::new(), HashMap::new());
        }
        let name = |placement: &PlacementStrategy| {
            ObjectName::new(placement.namespace.as_str(), placement.name.as_str())
        };
        let chosen: Vec<&[DecidedCluster]> = strategy
            .placements
            .iter()
            .map(|placement| self.chosen.get(&name(placement)).map(Vec::as_slice).unwrap_or_default())
            .collect();
        let mut by_cluster: HashMap<Arc<str>, usize> = HashMap::new();
        for (place, clusters) in chosen.iter().enumerate() {
            // The last placement that has a cluster wins.
            by_cluster.extend(clusters.iter().map(|one| (Arc::from(one.cluster.as_str()), place)));
        }
        let addon = management.object.name_any();
        // Who was made for a placement that is gone stays with it (A18), also where it is forgotten what that had chosen.
        for (place, gone) in strategy.placements.iter().enumerate() {
            if self.placements.get(&name(gone)).is_none() {
                let placement = wish(gone).placement;
                let objects = self.addons.get(addon.as_str()).into_iter().flatten();
                let its_own = objects.filter(|(_, object)| is_placed_by(object, &placement));
                by_cluster.extend(its_own.map(|(cluster, _)| (cluster.clone(), place)));
            }
        }
        let mut all_lost: Vec<(Arc<str>, usize)> = Vec::new();
        let rollouts =
            strategy.placements.iter().zip(&chosen).enumerate().map(|(place, (placement, clusters))| {
                let (strategy, wish) = (Strategy::read(placement), wish(placement));
                let mine = clusters.iter().filter(|one| by_cluster.get(one.cluster.as_str()) == Some(&place));
                let mut members: Vec<Member> = mine
                    .map(|one| Member {
                        cluster: one.cluster.clone(),
                        group: one.group_index,
                        group_name: one.group_name.clone(),
                        state: self.state(management, &addon, &one.cluster, &wish, &strategy),
                    })
                    .collect();
                let placement = name(placement);
                let lost = self.lost(management, &addon, &placement, &wish, &strategy, &by_cluster);
                all_lost.extend(lost.iter().map(|one| (Arc::from(one.cluster.as_str()), place)));
                members.extend(lost);
                let plan = plan(&strategy, &members, self.per_group(&placement), now);
                let unknown = match self.decided(&placement) {
                    Decided::Unknown(why) => Some(why.to_string()),
                    Decided::Complete(_) => None,
                };
                Rollout { placement, wish, strategy, plan, unknown }
            });
        let rollouts = rollouts.collect();
        // They go on by the deadline that they began with.
        by_cluster.extend(all_lost);
        (rollouts, by_cluster)
    }

    /// Clusters that have begun with what a placement asks for, and that it has dropped, most likely because they are out
    /// of reach, which may be heard of later: **what the change may have done to them still counts**, or one after the
    /// other would follow them. Those that were dropped for another reason lose the add-on soon.
    fn lost(
        &self,
        management: &Management,
        addon: &str,
        placement: &ObjectName,
        wish: &Wish,
        strategy: &Result<Strategy, String>,
        chosen: &HashMap<Arc<str>, usize>,
    ) -> Vec<Member> {
        let objects = self.addons.get(addon).into_iter().flatten();
        let lost = objects.filter(|(cluster, object)| {
            matches!(self.clusters.get(*cluster), Some((_, Stay::Stays)))
                && object.metadata.deletion_timestamp.is_none()
                && !chosen.contains_key(*cluster)
                && is_placed_by(object, &wish.placement)
        });
        let groups = self.groups.get(placement);
        lost.filter_map(|(cluster, _)| {
            let state = self.state(management, addon, cluster, wish, strategy);
            // Where its group is not known any more, it counts among those that come first.
            let known = groups.and_then(|groups| groups.get(&**cluster)).cloned();
            let (group, group_name) = known.unwrap_or_else(|| first_group(strategy));
            let begun = !matches!(state, State::Absent | State::Waiting | State::Diverted | State::Apart);
            begun.then(|| Member { cluster: cluster.to_string(), group, group_name, state })
        })
        .collect()
    }

    /// Which clusters a placement has chosen, as far as that can be told.
    fn decided(&self, placement: &ObjectName) -> Decided {
        self.placements.decided(placement).unwrap_or(Decided::Unknown(Undecided::NotYet))
    }

    /// How many clusters a decision group of a placement has at most.
    fn per_group(&self, placement: &ObjectName) -> Share {
        let strategy = self.placements.get(placement).and_then(|found| found.spec.decision_strategy.as_ref());
        let written =
            strategy.and_then(|strategy| strategy.group_strategy.clusters_per_decision_group.as_ref());
        written.and_then(|written| Share::read(written).ok()).unwrap_or(Share::Percent(100))
    }

    /// Reads anew which versions there are.
    fn refresh(&mut self, addon: &str) {
        let templates = self.templates.values().map(|template| &template.object);
        if let Some(management) = self.managements.get_mut(addon) {
            let asked = management.object.spec.default_version.clone();
            management.catalogue = Catalogue::of(addon, templates, asked.as_deref());
            management.planned = false;
        }
        self.stir_all_of(addon);
    }

    fn refresh_those_with(&mut self, placement: &ObjectName) {
        for (addon, management) in &mut self.managements {
            let placements = &management.object.spec.install_strategy.placements;
            if placements
                .iter()
                .any(|one| *one.namespace == *placement.namespace && *one.name == *placement.name)
            {
                management.planned = false;
                self.stir.addons.insert(addon.clone());
            }
        }
    }

    fn stir_all_of(&mut self, addon: &str) {
        let addon: Arc<str> = addon.into();
        let clusters = self.addons.get(&addon).into_iter().flat_map(BTreeMap::keys).cloned();
        self.stir.keys.extend(clusters.map(|cluster| Key { cluster, addon: addon.clone() }));
        self.stir.addons.insert(addon);
    }

    fn stir_users_of(&mut self, config: &ObjectName) {
        let mut users = Vec::new();
        for (addon, clusters) in &self.addons {
            let default = self.managements.get(addon).is_some_and(|management| {
                let configs = management.object.spec.supported_configs.iter();
                configs.filter_map(|one| one.default_config.as_ref()).any(|one| *one.name == *config.name)
            });
            for (cluster, object) in clusters {
                if default || object.spec.configs.iter().any(|one| *one.name == *config.name) {
                    users.push(Key { cluster: cluster.clone(), addon: addon.clone() });
                }
            }
        }
        self.stir.addons.extend(users.iter().map(|key| key.addon.clone()));
        self.stir.keys.extend(users);
    }

    fn stir_cluster(&mut self, cluster: &str) {
        let keys: Vec<Key> = self.with_addons(cluster).collect();
        self.stir.keys.extend(keys);
    }

    /// The add-ons of a cluster.
    fn with_addons(&self, cluster: &str) -> impl Iterator<Item = Key> {
        let having = self.addons.iter().filter(move |(_, clusters)| clusters.contains_key(cluster));
        having.map(move |(addon, _)| Key { cluster: cluster.into(), addon: addon.clone() })
    }

    fn stir_work(&mut self, cluster: &str, work: &Work) {
        let addons = [&work.addon, &work.claims].into_iter().flatten();
        self.stir.keys.extend(addons.map(|addon| Key { cluster: cluster.into(), addon: addon.clone() }));
    }
}

/// The group that goes first.
fn first_group(strategy: &Result<Strategy, String>) -> (usize, String) {
    let first = strategy.as_ref().ok().and_then(|strategy| strategy.mandatory.first());
    let index = first.and_then(|first| usize::try_from(first.group_index?).ok());
    (index.unwrap_or_default(), first.map(|first| first.group_name.clone()).unwrap_or_default())
}

/// Whether an object came later than another; in doubt it did.
fn is_newer(object: &impl Resource, than: &impl Resource) -> bool {
    let version = |meta: Option<&String>| meta.and_then(|text| text.parse::<u64>().ok());
    match (version(object.meta().resource_version.as_ref()), version(than.meta().resource_version.as_ref())) {
        (Some(one), Some(other)) if object.meta().uid == than.meta().uid => one > other,
        _ => true,
    }
}

#[cfg(test)]
mod tests;
