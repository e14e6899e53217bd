//! The status controller of a cluster: writes the state of the add-on into its ObservabilityAddon, and copies the status to the
//! hub.
//!
//! The cluster comes first and does not wait for the hub: both are keys of their own, each with its own retries. Its own writes
//! change nothing that it would write again, so that they cause no further reconcile. **It writes the status of the hub's object,
//! and never creates the object.**

mod index;
mod reconcile;

use std::sync::Arc;
use std::time::Duration;

use bellwether_api::observability::ObservabilityAddon;
use bellwether_runtime::{Context, Watch, Watches, run_indexed};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::watcher;
use parking_lot::Mutex;

use self::index::Index;
use self::reconcile::StatusController;
use crate::vocabulary::{ADDON_NAME, Vocabulary};

/// The name of the controller, in logs, metrics and health.
pub const NAME: &str = "observability-status";

/// The usual [`resync_interval`](Settings::resync_interval).
pub const RESYNC_INTERVAL: Duration = Duration::from_secs(300);

/// Where the status controller finds the add-on, and what it writes.
#[derive(Clone)]
pub struct Settings {
    /// The namespace of the add-on on the cluster.
    pub namespace: String,
    /// The client of the hub.
    pub hub: Client,
    /// The namespace of the cluster on the hub.
    pub hub_namespace: String,
    /// The spelling of reasons and condition types.
    pub vocabulary: Vocabulary,
    /// How often the status is compared with that on the hub, so that a change there is undone. Each time differs by up to a
    /// tenth.
    pub resync_interval: Duration,
}

/// Runs the status controller until the shutdown, while this process is leader. The context is that of the cluster.
///
/// It is a health component from this call on, not from when it is first polled.
pub fn run(settings: Settings, context: Context) -> impl Future<Output = ()> + Send {
    let index = Arc::new(Mutex::new(Index::new(settings.vocabulary, context.clock.clone())));
    let addons = ApiResource::erase::<ObservabilityAddon>(&());
    let namespace = settings.namespace.clone();
    let watch = Watch::new(&context.client, move |client| {
        Api::<DynamicObject>::namespaced_with(client, &namespace, &addons)
    })
    .config(watcher::Config::default().fields(&format!("metadata.name={ADDON_NAME}")))
    .if_served()
    .on_apply(|index: &mut Index, addon| index.apply(addon))
    .on_delete(|index, _| index.delete());
    let watches = Watches::new(NAME, &context, index.clone()).with(watch);
    run_indexed(StatusController::new(&settings, &context, index), watches, context)
}
