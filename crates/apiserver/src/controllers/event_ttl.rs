//! Events are kept for an hour after they were last seen.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::Ground;
use crate::collection::{Collection, Location};
use crate::object::{Object, parse, text};
use crate::options::DeleteOptions;
use crate::times;

const TTL: SignedDuration = SignedDuration::from_hours(1);
const EVERY: Duration = Duration::from_secs(60);

pub(super) async fn run(ground: Ground) {
    loop {
        tokio::time::sleep(EVERY).await;
        sweep(&ground).await;
    }
}

async fn sweep(ground: &Ground) {
    let registry = ground.cluster.registry(&ground.server);
    let Some(resource) = registry.find("", "v1", "events") else { return };
    let collection = Collection { server: &ground.server, cluster: &ground.cluster, resource };
    let now = ground.server.clock.now();
    for stored in ground.server.store.snapshot(&collection.space()).iter() {
        let old = last_seen(&parse(stored.value())).is_some_and(|seen| now.duration_since(seen) > TTL);
        if let (true, Some((namespace, name))) = (old, stored.path().split_once('/')) {
            // A failed delete is tried again with the next sweep.
            let _ = collection.delete(Location { namespace, name }, &DeleteOptions::plain()).await;
        }
    }
}

/// The newest time that an event mentions.
fn last_seen(event: &Object) -> Option<Timestamp> {
    ["metadata.creationTimestamp", "lastTimestamp", "eventTime", "series.lastObservedTime"]
        .iter()
        .filter_map(|path| times::parse(text(event, path)))
        .max()
}
