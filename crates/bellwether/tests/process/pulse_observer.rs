//! A subscription of the built-in queue that keeps every pulse, so that tests can see which were published, and when.

use std::path::Path;
use std::sync::Arc;

use bellwether_broker::Broker as _;
use bellwether_broker::sqlite::{Limits, Operator, Queue};
use bellwether_clock::SystemClock;
use bellwether_fleet::resource::Id;
use bellwether_testkit::eventually;
use jiff::Timestamp;
use serde_json::{Value, json};

/// The topic of the pulses of clusters.
pub(crate) const CLUSTERS: &str = "clusters";
const SUBSCRIPTION: &str = "observer";

/// A pulse of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pulse {
    pub(crate) generation: i64,
    pub(crate) published_at: Timestamp,
}

/// The pulses of clusters in a queue.
pub(crate) struct PulseObserver(Operator);

impl PulseObserver {
    /// Observes the pulses that are published from now on.
    pub(crate) async fn new(queue: &Path) -> Self {
        let broker = open_queue(queue);
        drop(broker.subscribe(CLUSTERS, SUBSCRIPTION).await.unwrap());
        Self(Operator::open(queue).unwrap())
    }

    /// The pulses of a cluster so far, oldest first.
    pub(crate) fn pulses(&self, cluster: Id) -> Vec<Pulse> {
        let events = self.0.peek(Some(CLUSTERS), u32::MAX).unwrap();
        let pulses = events.iter().filter_map(|event| {
            let body: Value = serde_json::from_str(&event.body).unwrap();
            let generation = body["data"]["generation"].as_i64().unwrap();
            (body["data"]["id"] == json!(cluster))
                .then_some(Pulse { generation, published_at: event.published_at })
        });
        pulses.collect()
    }

    /// The first pulse of a generation of a cluster.
    pub(crate) async fn wait_for_pulse(&self, cluster: Id, generation: i64) -> Pulse {
        eventually(&format!("cluster {cluster} is pulsed at generation {generation}"), || async {
            self.pulses(cluster).into_iter().find(|pulse| pulse.generation == generation)
        })
        .await
    }
}

/// Opens a queue as one of its processes.
pub(crate) fn open_queue(path: &Path) -> Queue {
    Queue::open(path, Limits::default(), Arc::new(SystemClock)).unwrap()
}
