//! The add-on lifecycle controller: brings versions of add-ons to clusters. Watches fill the world, which judges; an add-on
//! as a whole is planned after a short debounce, so that a thousand clusters that answer together are one plan.

use std::sync::Arc;
use std::time::Duration;

use bellwether_api::addon::vocabulary::NAME_LABEL;
use bellwether_api::addon::{
    AddOnDeploymentConfig, AddOnTemplate, ClusterManagementAddOn, ManagedClusterAddOn,
};
use bellwether_api::cluster::{ManagedCluster, Placement, PlacementDecision};
use bellwether_api::work::ManifestWork;
use bellwether_runtime::{Context, Watch, Watches, run_indexed};
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;

use super::reconcile::Lifecycle;
use super::world::{Key, Work, World};

/// The name of the controller, in logs, health and metrics, and as an identity.
pub const NAME: &str = "addon-lifecycle-controller";
/// How many ManifestWorks a page of a list has: one may have hundreds of kilobytes.
const WORKS_PER_PAGE: u32 = 100;

/// Brings versions of add-ons to clusters until the shutdown. A standby watches too.
///
/// It is a health component from this call on, not from when it is first polled.
pub fn run(context: Context) -> impl Future<Output = ()> + Send {
    let world = Arc::new(Mutex::new(World::default()));
    let client = &context.client;
    let managements = Watch::new(client, Api::<ClusterManagementAddOn>::all)
        .on_apply(World::manage)
        .on_delete(|world, deleted| world.unmanage(&deleted.name.name));
    let templates = Watch::new(client, Api::<AddOnTemplate>::all)
        .on_apply(World::publish)
        .on_delete(|world, deleted| world.withdraw(&deleted.name.name));
    let configs = Watch::new(client, Api::<AddOnDeploymentConfig>::all)
        .on_apply(World::configure)
        .on_delete(|world, deleted| world.unconfigure(&deleted.name));
    let placements = Watch::new(client, Api::<Placement>::all)
        .on_apply(World::place)
        .on_delete(|world, deleted| world.displace(&deleted.name));
    let decisions = Watch::new(client, Api::<PlacementDecision>::all)
        .on_apply(World::decide)
        .on_delete(|world, deleted| world.undecide(&deleted.name));
    let clusters = Watch::new(client, Api::<ManagedCluster>::all)
        .on_apply(|world: &mut World, cluster| world.join(&cluster))
        .on_delete(|world, deleted| world.leave(&deleted.name.name));
    let addons = Watch::new(client, Api::<ManagedClusterAddOn>::all)
        .on_apply(World::observe)
        .on_delete(|world, deleted| world.forget(&Key::new(&deleted.name.namespace, &deleted.name.name)));
    let works = Watch::new(client, Api::<ManifestWork>::all)
        .config(watcher::Config::default().labels(NAME_LABEL).page_size(WORKS_PER_PAGE))
        .on_apply(|world: &mut World, work: ManifestWork| {
            world.deploy(&work.namespace().unwrap_or_default(), &work.name_any(), Work::of(&work));
        })
        .on_delete(|world, deleted| world.undeploy(&deleted.name.namespace, &deleted.name.name));
    let watches = Watches::new(NAME, &context, world.clone())
        .with(managements)
        .with(templates)
        .with(configs)
        .with(placements)
        .with(decisions)
        .with(clusters)
        .with(addons)
        .with(works);
    run_indexed(Lifecycle::new(&context, world), watches, context)
}

/// How long the plan of an add-on waits for more changes.
pub(super) const PLAN_DEBOUNCE: Duration = Duration::from_millis(20);
/// How long the status of a ClusterManagementAddOn waits for more changes.
pub(super) const SUMMARY_DEBOUNCE: Duration = Duration::from_millis(250);
