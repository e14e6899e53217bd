//! The heartbeat checker: marks an AddonInstance whose add-on stopped sending heartbeats, and clears the mark when they are
//! back.
//!
//! `decide` decides what is written, `index` tracks each instance and when it becomes stale; neither makes requests.
//! `instance` reads the object and builds its new status, `reconcile` makes the requests. While heartbeats arrive nothing is read or
//! written: a heartbeat moves a deadline in memory.

mod decide;
mod index;
mod instance;
mod metrics;
mod reconcile;

use std::sync::Arc;

use bellwether_clock::SteadyClock;
use bellwether_runtime::{Context, Watch, Watches, run_indexed};
use kube::Api;
use parking_lot::Mutex;

pub use decide::PendingPolicy;
pub use index::Settings;

use self::index::Index;
use self::instance::Instance;
use self::metrics::CheckerMetrics;
use self::reconcile::Checker;

/// The name of the controller, in logs, health and metrics.
pub const NAME: &str = "heartbeat-checker";

/// Checks the AddonInstances of a cluster until the shutdown. A standby watches too, so that it has seen the heartbeats
/// when it becomes leader.
///
/// It is a health component from this call on, not from when it is first polled.
pub fn run(context: Context, settings: Settings) -> impl Future<Output = ()> + Send {
    // Heartbeats are judged by a clock that never steps, whatever happens to the clock of the machine.
    let clock = SteadyClock::starting_at(context.clock.now());
    let metrics = Arc::new(CheckerMetrics::new(&context.metrics, &context.cluster));
    let index = Arc::new(Mutex::new(Index::new(settings, clock, metrics.clone())));
    let instances = Watch::new(&context.client, Api::<Instance>::all)
        .on_apply(|index: &mut Index, instance| index.apply(&instance))
        .on_delete(|index, deleted| index.delete(&deleted.name));
    let watches = Watches::new(NAME, &context, index.clone()).with(instances);
    run_indexed(Checker::new(&context, index, clock, metrics), watches, context)
}
