//! The watches that fill the hub cache.

use std::sync::Arc;

use bellwether_api::addon::vocabulary::NAME_LABEL;
use bellwether_api::addon::{
    AddOnDeploymentConfig, AddOnTemplate, ClusterManagementAddOn, ManagedClusterAddOn,
};
use bellwether_api::cluster::{ManagedCluster, Placement, PlacementDecision};
use bellwether_api::work::ManifestWork;
use bellwether_runtime::{Context, Watch, Watches};
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;

use super::{AddonKey, HubCache, User, Work};

/// How many ManifestWorks a page of a list has: one may have hundreds of kilobytes.
const WORKS_PER_PAGE: u32 = 100;

/// The watches of a hub cache, with the identity and the permissions of one of its users. The install controller needs, and
/// may read, fewer kinds.
pub(crate) fn watches(
    name: &'static str,
    context: &Context,
    cache: Arc<Mutex<HubCache>>,
    user: User,
) -> Watches<HubCache> {
    let watches = watch_placed(name, context, cache, watcher::Config::default());
    if user == User::Install {
        return watches;
    }
    let works = Watch::new(&context.client, Api::<ManifestWork>::all)
        .config(watcher::Config::default().labels(NAME_LABEL).page_size(WORKS_PER_PAGE))
        .on_apply(|cache: &mut HubCache, work: ManifestWork| {
            cache.apply_work(&work.namespace().unwrap_or_default(), &work.name_any(), Work::of(&work));
        })
        .on_delete(|cache, deleted| cache.delete_work(&deleted.name.namespace, &deleted.name.name));
    watch_rendered(watches, context).with(works)
}

/// The watches for a reader of the rollouts of one add-on.
pub fn watch_addon(
    name: &'static str,
    context: &Context,
    cache: Arc<Mutex<HubCache>>,
    addon: &str,
) -> Watches<HubCache> {
    let by_name = watcher::Config::default().fields(&format!("metadata.name={addon}"));
    watch_rendered(watch_placed(name, context, cache, by_name), context)
}

/// Watches add-ons and the clusters that they are placed on.
fn watch_placed(
    name: &'static str,
    context: &Context,
    cache: Arc<Mutex<HubCache>>,
    addons: watcher::Config,
) -> Watches<HubCache> {
    let client = &context.client;
    let managements = Watch::new(client, Api::<ClusterManagementAddOn>::all)
        .config(addons.clone())
        .on_apply(HubCache::apply_management)
        .on_delete(|cache, deleted| cache.delete_management(&deleted.name.name));
    let placements = Watch::new(client, Api::<Placement>::all)
        .on_apply(HubCache::apply_placement)
        .on_delete(|cache, deleted| cache.delete_placement(&deleted.name));
    let decisions = Watch::new(client, Api::<PlacementDecision>::all)
        .on_apply(HubCache::apply_decision)
        .on_delete(|cache, deleted| cache.delete_decision(&deleted.name));
    let clusters = Watch::new(client, Api::<ManagedCluster>::all)
        .on_apply(|cache: &mut HubCache, cluster| cache.apply_cluster(&cluster))
        .on_delete(|cache, deleted| cache.delete_cluster(&deleted.name.name));
    let addons = Watch::new(client, Api::<ManagedClusterAddOn>::all)
        .config(addons)
        .on_apply(HubCache::apply_addon)
        .on_delete(|cache, deleted| {
            cache.delete_addon(&AddonKey::new(&deleted.name.namespace, &deleted.name.name));
        });
    Watches::new(name, context, cache)
        .with(managements)
        .with(placements)
        .with(decisions)
        .with(clusters)
        .with(addons)
}

/// Watches what a version is rendered from.
fn watch_rendered(watches: Watches<HubCache>, context: &Context) -> Watches<HubCache> {
    let templates = Watch::new(&context.client, Api::<AddOnTemplate>::all)
        .on_apply(HubCache::apply_template)
        .on_delete(|cache, deleted| cache.delete_template(&deleted.name.name));
    let configs = Watch::new(&context.client, Api::<AddOnDeploymentConfig>::all)
        .on_apply(HubCache::apply_config)
        .on_delete(|cache, deleted| cache.delete_config(&deleted.name));
    watches.with(templates).with(configs)
}
