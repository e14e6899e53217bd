//! The add-on lifecycle controller: brings versions of add-ons to clusters at the pace of their rollouts.

use std::sync::Arc;

use bellwether_runtime::{Context, run_indexed};
use parking_lot::Mutex;

use super::NAME;
use super::reconcile::Lifecycle;
use crate::hub::{self, HubCache, User};

/// Brings versions of add-ons to clusters until the shutdown. A standby watches too.
///
/// It is a health component from this call on, not from when it is first polled.
pub fn run(context: Context) -> impl Future<Output = ()> + Send {
    let cache = Arc::new(Mutex::new(HubCache::default()));
    cache.lock().add_user(User::Lifecycle);
    let watches = hub::watches(NAME, &context, cache.clone(), User::Lifecycle);
    run_indexed(Lifecycle::new(&context, cache), watches, context)
}
