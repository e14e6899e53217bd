//! Controllers for clusters, placements and add-ons of a fleet: which clusters run an add-on, in which version, and how fast
//! they change. Applying objects on a cluster is left to the agent.
//!
//! | module | what it decides |
//! |---|---|
//! | `clusters` | which clusters are accepted and reachable |
//! | `placement` | which clusters a Placement selects |
//! | `install` | which clusters have a ManagedClusterAddOn, and which version it requests |
//! | `report` | what status and command line show: the progress of rollouts, the blast radius of a change |
//! | `version`, `render`, `rollout`, `addon` | which versions exist, which objects they consist of, which clusters may start, and how far each cluster is |
//!
//! In each module, `decide` is pure and has the tables; `controller` reads, calls it, and writes the differences.

pub mod addon;
pub mod assignment;
pub mod clusters;
pub mod fields;
pub mod hub;
pub mod install;
pub mod placement;
pub mod render;
pub mod report;
pub mod rollout;
pub mod standing;
pub mod version;
pub mod works;

use std::sync::Arc;

use bellwether_runtime::{Context, run_indexed};
use parking_lot::Mutex;

/// Runs the install and the lifecycle controller on one hub cache until the shutdown. Each has its own context, with its own
/// identity; the cache is filled with that of the lifecycle controller.
///
/// Both are health components from this call on.
pub fn run_addon_controllers(install: Context, lifecycle: Context) -> impl Future<Output = ()> + Send {
    let cache = Arc::new(Mutex::new(hub::HubCache::default()));
    for user in [hub::User::Install, hub::User::Lifecycle] {
        cache.lock().add_user(user);
    }
    let component = install.health.component(install.component_name(install::NAME));
    let watches = hub::watches(addon::NAME, &lifecycle, cache.clone(), hub::User::Lifecycle);
    let watches = watches.reporting_to(component).share();
    let installer =
        run_indexed(install::Installer::new(&install, cache.clone()), watches.subscribe(), install);
    let lifecycle_controller =
        run_indexed(addon::Lifecycle::new(&lifecycle, cache), watches.subscribe(), lifecycle.clone());
    async move {
        tokio::join!(watches.run(lifecycle.shutdown), installer, lifecycle_controller);
    }
}
