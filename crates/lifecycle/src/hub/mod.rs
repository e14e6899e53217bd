//! The hub cache: what watches deliver of add-ons, placements, clusters and works, in memory, for both controllers of
//! add-ons. It marks the keys whose result may have changed. What is to be done about them is decided elsewhere.

mod configs;
mod progress;
mod recently_deleted;
mod rollouts;
mod watch;
mod work;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bellwether_api::addon::{
    AddOnDeploymentConfig, AddOnTemplate, ClusterManagementAddOn, ManagedClusterAddOn,
};
use bellwether_api::cluster::{ManagedCluster, Placement, PlacementDecision};
use bellwether_runtime::{DirtyKeys, Lane, ObjectName};
use jiff::Timestamp;
use kube::{Resource, ResourceExt as _};

use crate::clusters::ClusterState;
use crate::placement::{DecidedCluster, PlacementCache};
use crate::version::Catalogue;

pub(crate) use configs::{Config, Configs};
pub use progress::{requests_same, state_of};
use recently_deleted::RecentlyDeleted;
pub use rollouts::{AssignedElsewhere, Rollout};
pub use watch::watch_addon;
pub(crate) use watch::watches;
pub use work::Work;

/// How long the plan of an add-on waits for more changes, so that a thousand clusters that answer together are one plan.
const PLAN_DEBOUNCE: Duration = Duration::from_millis(20);
/// How long the status of a ClusterManagementAddOn waits for more changes.
const SUMMARY_DEBOUNCE: Duration = Duration::from_millis(250);

/// An add-on on a cluster: the name of a ManagedClusterAddOn.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddonKey {
    /// The cluster, which is also the namespace.
    pub cluster: Arc<str>,
    /// The add-on.
    pub addon: Arc<str>,
}

impl AddonKey {
    /// The key of an add-on on a cluster.
    pub fn new(cluster: &str, addon: &str) -> Self {
        Self { cluster: cluster.into(), addon: addon.into() }
    }
}

impl fmt::Display for AddonKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.cluster, self.addon)
    }
}

/// What the controllers of add-ons reconcile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum AddonTask {
    /// The plan of an add-on over all its clusters.
    Plan(Arc<str>),
    /// An add-on on a cluster.
    Addon(AddonKey),
    /// The status of a ClusterManagementAddOn.
    Summary(Arc<str>),
}

impl AddonTask {
    pub(crate) fn lane(&self) -> Lane {
        match self {
            Self::Plan(_) => Lane::Batch,
            Self::Addon(_) | Self::Summary(_) => Lane::Object,
        }
    }
}

impl fmt::Display for AddonTask {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(addon) => write!(formatter, "plan of {addon}"),
            Self::Addon(key) => write!(formatter, "ManagedClusterAddOn {key}"),
            Self::Summary(addon) => write!(formatter, "ClusterManagementAddOn {addon}"),
        }
    }
}

/// A controller that uses the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    Install,
    Lifecycle,
}

/// The dirty keys of each controller that runs; those of others are dropped.
#[derive(Default)]
struct Dirty {
    install: Option<DirtyKeys<AddonTask>>,
    lifecycle: Option<DirtyKeys<AddonTask>>,
}

impl Dirty {
    fn of(&mut self, user: User) -> &mut Option<DirtyKeys<AddonTask>> {
        match user {
            User::Install => &mut self.install,
            User::Lifecycle => &mut self.lifecycle,
        }
    }

    fn plan(&mut self, user: User, addon: Arc<str>) {
        if let Some(dirty) = self.of(user) {
            dirty.enqueue_after(AddonTask::Plan(addon), PLAN_DEBOUNCE);
        }
    }

    fn plan_both(&mut self, addon: &Arc<str>) {
        self.plan(User::Install, addon.clone());
        self.plan(User::Lifecycle, addon.clone());
    }

    fn addon(&mut self, key: AddonKey) {
        if let Some(dirty) = &mut self.lifecycle {
            dirty.enqueue(AddonTask::Addon(key));
        }
    }

    fn summary(&mut self, addon: Arc<str>) {
        if let Some(dirty) = &mut self.lifecycle {
            dirty.enqueue_after(AddonTask::Summary(addon), SUMMARY_DEBOUNCE);
        }
    }
}

/// The hub cache.
#[derive(Default)]
pub struct HubCache {
    managements: HashMap<Arc<str>, Management>,
    templates: BTreeMap<String, Arc<Template>>,
    configs: HashMap<ObjectName, Config>,
    placements: PlacementCache,
    /// The clusters that placements selected when that was last known: decisions that are being written are no reason to
    /// forget them.
    last_selected: HashMap<ObjectName, Vec<DecidedCluster>>,
    /// The decision group of each cluster of a placement when that was last known; after a restart, of the clusters in
    /// `status.installProgressions[].unselected`.
    last_groups: HashMap<ObjectName, HashMap<String, (usize, String)>>,
    clusters: HashMap<Arc<str>, ClusterState>,
    addons: HashMap<Arc<str>, BTreeMap<Arc<str>, Arc<ManagedClusterAddOn>>>,
    works: HashMap<Arc<str>, BTreeMap<String, Work>>,
    /// Changes that are being started by a write that was not answered yet.
    starting: HashMap<AddonKey, Timestamp>,
    /// Why the API server rejected a ManifestWork.
    rejected: HashMap<AddonKey, String>,
    recently_deleted: RecentlyDeleted,
    dirty: Dirty,
}

/// A version of an add-on.
pub(crate) struct Template {
    pub(crate) object: AddOnTemplate,
    pub(crate) hash: String,
}

/// A ClusterManagementAddOn, and what follows from it.
pub(crate) struct Management {
    pub(crate) object: ClusterManagementAddOn,
    pub(crate) catalogue: Catalogue,
    rollouts: Vec<Rollout>,
    /// The index of the rollout that a cluster belongs to.
    by_cluster: HashMap<Arc<str>, usize>,
    /// Whether the rollouts were planned since what decides them changed.
    pub(crate) is_planned: bool,
}

impl Management {
    pub(crate) fn rollout(&self, cluster: &str) -> Option<&Rollout> {
        self.by_cluster.get(cluster).and_then(|index| self.rollouts.get(*index))
    }

    pub(crate) fn deadline(&self, cluster: &str) -> Option<Duration> {
        self.rollout(cluster)?.deadline()
    }
}

impl HubCache {
    /// Begins to collect the dirty keys of a controller.
    pub(crate) fn add_user(&mut self, user: User) {
        self.dirty.of(user).get_or_insert_default();
    }

    /// The dirty keys of a controller since this was last called.
    pub(crate) fn take_dirty(&mut self, user: User) -> DirtyKeys<AddonTask> {
        self.dirty.of(user).as_mut().map(DirtyKeys::take).unwrap_or_default()
    }

    /// Every add-on, with or without a ClusterManagementAddOn.
    pub(crate) fn all_addons(&self) -> Vec<Arc<str>> {
        let without = self.addons.keys().filter(|addon| !self.managements.contains_key(*addon));
        self.managements.keys().chain(without).cloned().collect()
    }

    /// Every ManagedClusterAddOn.
    pub(crate) fn all_keys(&self) -> Vec<AddonKey> {
        let keys = self.addons.iter().flat_map(|(addon, clusters)| {
            clusters.keys().map(|cluster| AddonKey { cluster: cluster.clone(), addon: addon.clone() })
        });
        keys.collect()
    }

    /// Applies a ClusterManagementAddOn.
    pub fn apply_management(&mut self, object: ClusterManagementAddOn) {
        let addon: Arc<str> = object.name_any().into();
        let before = self.managements.remove(&addon);
        if before.as_ref().is_some_and(|before| !is_newer(&object, &before.object)) {
            self.managements.extend(before.map(|before| (addon, before)));
            return;
        }
        let is_same = before.as_ref().is_some_and(|before| before.object.spec == object.spec);
        self.remember_unselected(&object);
        let management = match before {
            Some(before) => Management { object, ..before },
            None => Management {
                object,
                catalogue: Catalogue::default(),
                rollouts: Vec::new(),
                by_cluster: HashMap::new(),
                is_planned: false,
            },
        };
        self.managements.insert(addon.clone(), management);
        if is_same {
            self.dirty.plan_both(&addon);
        } else {
            self.refresh_catalogue(&addon);
        }
    }

    /// Deletes a ClusterManagementAddOn.
    pub fn delete_management(&mut self, addon: &str) {
        let deleted = self.managements.remove(addon);
        self.recently_deleted.add(deleted.and_then(|deleted| deleted.object.uid()));
        self.mark_all_of(addon);
    }

    /// Applies an AddOnTemplate.
    pub fn apply_template(&mut self, template: AddOnTemplate) {
        let addon = template.spec.addon_name.clone();
        // Another way of rendering makes other objects of it, which reach the clusters by their rollout.
        let hash = configs::hash(&(crate::render::RENDERING_VERSION, &template.spec));
        self.templates.insert(template.name_any(), Arc::new(Template { object: template, hash }));
        self.refresh_catalogue(&addon);
    }

    /// Deletes an AddOnTemplate.
    pub fn delete_template(&mut self, template: &str) {
        if let Some(deleted) = self.templates.remove(template) {
            self.refresh_catalogue(&deleted.object.spec.addon_name);
        }
    }

    /// Applies an AddOnDeploymentConfig.
    pub fn apply_config(&mut self, config: AddOnDeploymentConfig) {
        let name = ObjectName::of(&config);
        let is_same = self.configs.get(&name).is_some_and(|before| before.object.spec == config.spec);
        self.configs.insert(name.clone(), Config::of(config));
        if !is_same {
            self.mark_users_of_config(&name);
        }
    }

    /// Deletes an AddOnDeploymentConfig.
    pub fn delete_config(&mut self, name: &ObjectName) {
        self.configs.remove(name);
        self.mark_users_of_config(name);
    }

    /// Applies a Placement.
    pub fn apply_placement(&mut self, placement: Placement) {
        let name = self.placements.apply(placement);
        self.mark_users_of_placement(&name);
    }

    /// Deletes a Placement.
    pub fn delete_placement(&mut self, name: &ObjectName) {
        self.placements.delete(name);
        self.mark_users_of_placement(name);
    }

    /// Applies a PlacementDecision.
    pub fn apply_decision(&mut self, decision: PlacementDecision) {
        let placement = self.placements.apply_decision(decision);
        self.mark_users_of_placement(&placement);
    }

    /// Deletes a PlacementDecision.
    pub fn delete_decision(&mut self, name: &ObjectName) {
        if let Some(placement) = self.placements.delete_decision(name) {
            self.mark_users_of_placement(&placement);
        }
    }

    /// Applies a ManagedCluster.
    pub fn apply_cluster(&mut self, cluster: &ManagedCluster) {
        let name: Arc<str> = cluster.name_any().into();
        let state = ClusterState::of(cluster);
        if self.clusters.insert(name.clone(), state) != Some(state) {
            self.mark_cluster(&name);
            // Whether it can be reached also counts for the clusters that come after it.
            let addons: Vec<Arc<str>> = self.addons_of(&name).map(|key| key.addon).collect();
            addons.into_iter().for_each(|addon| self.dirty.plan(User::Lifecycle, addon));
        }
    }

    /// Deletes a ManagedCluster.
    pub fn delete_cluster(&mut self, cluster: &str) {
        if self.clusters.remove(cluster).is_some() {
            self.mark_cluster(cluster);
        }
    }

    /// Applies a ManagedClusterAddOn.
    pub fn apply_addon(&mut self, addon: ManagedClusterAddOn) {
        let key = AddonKey::new(&addon.namespace().unwrap_or_default(), &addon.name_any());
        let clusters = self.addons.entry(key.addon.clone()).or_default();
        let before = clusters.get(&key.cluster);
        if before.is_some_and(|before| !is_newer(&addon, before.as_ref())) {
            return;
        }
        let needs_install = !before.is_some_and(|before| is_same_for_install(before, &addon));
        clusters.insert(key.cluster.clone(), Arc::new(addon));
        if needs_install {
            self.dirty.plan(User::Install, key.addon.clone());
        }
        self.dirty.plan(User::Lifecycle, key.addon.clone());
        self.dirty.addon(key);
    }

    /// Deletes a ManagedClusterAddOn.
    pub fn delete_addon(&mut self, key: &AddonKey) {
        if let Some(clusters) = self.addons.get_mut(&key.addon) {
            let deleted = clusters.remove(&key.cluster);
            self.recently_deleted.add(deleted.and_then(|deleted| deleted.uid()));
        }
        self.rejected.remove(key);
        self.dirty.plan_both(&key.addon);
        self.dirty.addon(key.clone());
    }

    /// Whether an object in a response to a write was deleted: the event of the watch came later.
    pub(crate) fn was_deleted(&self, object: &impl Resource) -> bool {
        self.recently_deleted.contains(object.meta().uid.as_deref())
    }

    /// Applies a ManifestWork.
    pub fn apply_work(&mut self, cluster: &str, name: &str, work: Work) {
        let works = self.works.entry(cluster.into()).or_default();
        let is_known =
            |before: &Work| work.version != 0 && before.uid == work.uid && before.version >= work.version;
        if works.get(name).is_some_and(is_known) {
            return;
        }
        // One that lost its label was reported as deleted, and exists.
        self.recently_deleted.remove(&work.uid);
        let before = works.insert(name.to_owned(), work.clone());
        self.mark_work(cluster, &work);
        // One whose label changed also concerns the add-on that it named before.
        before.into_iter().for_each(|before| self.mark_work(cluster, &before));
    }

    /// Deletes a ManifestWork.
    pub fn delete_work(&mut self, cluster: &str, name: &str) {
        let deleted = self.works.get_mut(cluster).and_then(|works| works.remove(name));
        if let Some(deleted) = deleted {
            self.mark_work(cluster, &deleted);
            self.recently_deleted.add(Some(deleted.uid));
        }
    }

    /// Deletes a ManifestWork by the response to a write; another may have its name already.
    pub(crate) fn delete_work_with_uid(&mut self, cluster: &str, name: &str, uid: &str) {
        let is_that = |works: &BTreeMap<String, Work>| works.get(name).is_some_and(|work| work.uid == uid);
        if self.works.get(cluster).is_some_and(is_that) {
            self.delete_work(cluster, name);
        }
    }

    /// A write that starts a change is being sent: until it is answered, its cluster counts as one that changes.
    pub(crate) fn set_starting(&mut self, key: &AddonKey, now: Timestamp) {
        self.starting.insert(key.clone(), now);
        self.rejected.remove(key);
    }

    /// That write was answered.
    pub(crate) fn clear_starting(&mut self, key: &AddonKey) {
        if self.starting.remove(key).is_some() {
            self.dirty.plan(User::Lifecycle, key.addon.clone());
        }
    }

    /// Records that the API server rejected a ManifestWork of an add-on, or accepted it.
    pub(crate) fn set_rejected(&mut self, key: &AddonKey, why: Option<String>) {
        let is_same = match why {
            Some(why) => self.rejected.insert(key.clone(), why.clone()).is_some_and(|before| before == why),
            None => self.rejected.remove(key).is_none(),
        };
        if !is_same {
            self.dirty.addon(key.clone());
        }
    }

    /// Why the API server rejected a ManifestWork of an add-on.
    pub(crate) fn rejection(&self, key: &AddonKey) -> Option<&str> {
        self.rejected.get(key).map(String::as_str)
    }

    /// The ClusterManagementAddOn of an add-on.
    pub fn management_object(&self, addon: &str) -> Option<&ClusterManagementAddOn> {
        Some(&self.managements.get(addon)?.object)
    }

    /// The versions of an add-on.
    pub fn catalogue(&self, addon: &str) -> Option<&Catalogue> {
        Some(&self.managements.get(addon)?.catalogue)
    }

    pub(crate) fn management(&self, addon: &str) -> Option<&Management> {
        self.managements.get(addon)
    }

    pub(crate) fn template(&self, name: &str) -> Option<&Arc<Template>> {
        self.templates.get(name)
    }

    pub(crate) fn addon(&self, key: &AddonKey) -> Option<&Arc<ManagedClusterAddOn>> {
        self.addons.get(&key.addon)?.get(&key.cluster)
    }

    /// The ManagedClusterAddOns of an add-on, by cluster.
    pub(crate) fn addons(&self, addon: &str) -> impl Iterator<Item = (&Arc<str>, &Arc<ManagedClusterAddOn>)> {
        self.addons.get(addon).into_iter().flatten()
    }

    pub(crate) fn cluster(&self, cluster: &str) -> Option<ClusterState> {
        self.clusters.get(cluster).copied()
    }

    /// The ManifestWorks in the namespace of a cluster.
    pub(crate) fn works(&self, cluster: &str) -> impl Iterator<Item = &Work> {
        self.works.get(cluster).into_iter().flat_map(BTreeMap::values)
    }

    /// Reads again which versions an add-on has.
    fn refresh_catalogue(&mut self, addon: &str) {
        let templates = self.templates.values().map(|template| &template.object);
        if let Some(management) = self.managements.get_mut(addon) {
            let requested = management.object.spec.default_version.clone();
            management.catalogue = Catalogue::of(addon, templates, requested.as_deref());
            management.is_planned = false;
        }
        self.mark_all_of(addon);
    }

    fn mark_users_of_placement(&mut self, placement: &ObjectName) {
        for (addon, management) in &mut self.managements {
            let placements = &management.object.spec.install_strategy.placements;
            let uses = |one: &bellwether_api::addon::PlacementStrategy| {
                *one.namespace == *placement.namespace && *one.name == *placement.name
            };
            if placements.iter().any(uses) {
                management.is_planned = false;
                self.dirty.plan_both(addon);
            }
        }
    }

    fn mark_all_of(&mut self, addon: &str) {
        let addon: Arc<str> = addon.into();
        let clusters = self.addons.get(&addon).into_iter().flat_map(BTreeMap::keys);
        for cluster in clusters {
            self.dirty.addon(AddonKey { cluster: cluster.clone(), addon: addon.clone() });
        }
        self.dirty.plan_both(&addon);
    }

    fn mark_users_of_config(&mut self, config: &ObjectName) {
        for (addon, clusters) in &self.addons {
            let is_default = self.managements.get(addon).is_some_and(|management| {
                let configs = management.object.spec.supported_configs.iter();
                configs.filter_map(|one| one.default_config.as_ref()).any(|one| *one.name == *config.name)
            });
            let uses = |object: &ManagedClusterAddOn| {
                is_default || object.spec.configs.iter().any(|one| *one.name == *config.name)
            };
            for (cluster, _) in clusters.iter().filter(|(_, object)| uses(object)) {
                self.dirty.plan(User::Lifecycle, addon.clone());
                self.dirty.addon(AddonKey { cluster: cluster.clone(), addon: addon.clone() });
            }
        }
    }

    fn mark_cluster(&mut self, cluster: &str) {
        let keys: Vec<AddonKey> = self.addons_of(cluster).collect();
        keys.into_iter().for_each(|key| self.dirty.addon(key));
        // It may be selected by placements of any add-on.
        self.all_addons().into_iter().for_each(|addon| self.dirty.plan(User::Install, addon));
    }

    /// The add-ons of a cluster.
    fn addons_of(&self, cluster: &str) -> impl Iterator<Item = AddonKey> {
        let having = self.addons.iter().filter(move |(_, clusters)| clusters.contains_key(cluster));
        having.map(move |(addon, _)| AddonKey { cluster: cluster.into(), addon: addon.clone() })
    }

    fn mark_work(&mut self, cluster: &str, work: &Work) {
        for addon in [&work.addon, &work.foreign_label].into_iter().flatten() {
            self.dirty.addon(AddonKey { cluster: cluster.into(), addon: addon.clone() });
        }
    }
}

/// Whether the install controller sees no difference: it does not read the status.
fn is_same_for_install(before: &ManagedClusterAddOn, after: &ManagedClusterAddOn) -> bool {
    before.metadata.generation == after.metadata.generation
        && before.metadata.deletion_timestamp == after.metadata.deletion_timestamp
        && before.annotations() == after.annotations()
        && before.finalizers() == after.finalizers()
        && before.uid() == after.uid()
}

/// Whether an object is newer than another; also where that cannot be known.
fn is_newer(object: &impl Resource, than: &impl Resource) -> bool {
    let version = |meta: Option<&String>| meta.and_then(|text| text.parse::<u64>().ok());
    match (version(object.meta().resource_version.as_ref()), version(than.meta().resource_version.as_ref())) {
        (Some(one), Some(other)) if object.meta().uid == than.meta().uid => one > other,
        _ => true,
    }
}
