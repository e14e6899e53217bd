//! Pulses in `bellwether up`: the built-in queue, a Sentinel for clusters and one for node pools, and in the demo the adapters that
//! every cluster requires.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bellwether_adapter::addons::{self, AddonsAdapter};
use bellwether_adapter::config::{Config as AdapterConfig, Overrides as AdapterOverrides};
use bellwether_adapter::serve::{Adapter, DEFAULT_PARALLELISM};
use bellwether_apiserver::pki::write_private;
use bellwether_apiserver::{ApiServer, HUB};
use bellwether_broker::Broker;
use bellwether_broker::config::{BrokerConfig, BrokerUrl};
use bellwether_clock::SystemClock;
use bellwether_fleet::client::Client;
use bellwether_fleet::config::Config;
use bellwether_fleet::vocabulary::Vocabulary;
use bellwether_runtime::Context;
use bellwether_sentinel::Sentinel;
use bellwether_sentinel::config::{Config as SentinelConfig, Overrides};
use bellwether_sentinel::feed::HttpFeed;
use bellwether_sentinel::sentinel::Surroundings;
use bellwether_sentinel::shard::OwnedShards;

use super::Process;
use crate::adapter::executor;
use crate::sentinel::connect_broker;

/// The kinds that are pulsed. Each has a topic of the same name.
const RESOURCE_TYPES: [&str; 2] = [CLUSTERS, "nodepools"];
const CLUSTERS: &str = "clusters";
/// The demo's adapter that runs a Job, and its identity on the cluster of the Job.
const VALIDATION: &str = "validation";
pub(super) const VALIDATION_IDENTITY: &str = "validation-adapter";
/// How long running events may take after a signal: their reports cannot be delivered, because the fleet API stops too.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);
/// The files of the demo's adapter, as they are written to the data directory.
const VALIDATION_FILES: [(&str, &str); 3] = [
    ("adapter.yaml", include_str!("../../../../deploy/examples/adapter/validation/adapter.yaml")),
    ("task.yaml", include_str!("../../../../deploy/examples/adapter/validation/task.yaml")),
    ("job.yaml", include_str!("../../../../deploy/examples/adapter/validation/job.yaml")),
];

/// The configuration of the fleet API: in the demo, clusters require the adapters that `up` runs.
pub(super) fn fleet_config(vocabulary: Vocabulary, demo: bool, spokes: usize) -> anyhow::Result<Config> {
    let adapters = match (demo, spokes) {
        (false, _) => "",
        (true, 0) => addons::NAME,
        (true, _) => "addons, validation",
    };
    let text = format!(
        "entities: [{{kind: Cluster, plural: clusters, name_min_len: 3, name_max_len: 53, required_adapters: [{adapters}]}}]"
    );
    Ok(Config { vocabulary, ..Config::parse(&text, "the configuration of `up`")? })
}

/// The queue of the data directory.
pub(super) fn open_queue(dir: &Path, process: &Process) -> anyhow::Result<Arc<dyn Broker>> {
    let config = BrokerConfig::from_url(BrokerUrl::Sqlite(dir.join("queue.db")));
    connect_broker(&config, "up", &process.metrics).context("cannot open the queue of the data directory")
}

/// Starts the Sentinels.
pub(super) fn run_sentinels(process: &Process, broker: &Arc<dyn Broker>, api: &str) -> anyhow::Result<()> {
    for resource_type in RESOURCE_TYPES {
        let overrides = Overrides {
            resource_type: Some(resource_type.to_owned()),
            api: Some(api.to_owned()),
            ..Overrides::default()
        };
        let config = SentinelConfig::parse("", "the configuration of `up`", overrides)?;
        let feed = Arc::new(HttpFeed::new(&config)?);
        let surroundings = Surroundings {
            broker: broker.clone(),
            shards: OwnedShards::all(),
            clock: Arc::new(SystemClock),
            metrics: process.metrics.clone(),
            health: process.health.clone(),
        };
        let sentinel = Sentinel::new(config, feed, surroundings);
        process.shutdown.spawn(sentinel.run(process.shutdown.clone()));
    }
    Ok(())
}

/// Starts the adapters of the demo. Jobs run on the first spoke.
pub(super) fn run_adapters(
    process: &Process,
    server: &ApiServer,
    broker: &Arc<dyn Broker>,
    api: &str,
    spokes: &[String],
    dir: &Path,
) -> anyhow::Result<()> {
    let context: Context = process.context(server, HUB, addons::IDENTITY);
    let adapter = AddonsAdapter::new(Client::new(api, None)?, &context);
    let shutdown = process.shutdown.clone();
    shutdown.spawn(adapter.clone().answer_pulses(broker.clone(), CLUSTERS.to_owned(), shutdown.clone()));
    shutdown.spawn(bellwether_runtime::run(adapter, context));

    let Some(spoke) = spokes.first() else { return Ok(()) };
    let config = Arc::new(write_validation(dir, api)?);
    let client = process.context(server, spoke, VALIDATION_IDENTITY).client;
    let adapter = Adapter {
        executor: executor(config, client),
        topic: CLUSTERS.to_owned(),
        subscription: VALIDATION.to_owned(),
        parallelism: DEFAULT_PARALLELISM,
        drain_timeout: DRAIN_TIMEOUT,
        metrics: process.metrics.clone(),
        health: process.health.clone(),
        shutdown: shutdown.clone(),
    };
    shutdown.spawn(adapter.run(broker.clone()));
    Ok(())
}

/// Writes the files of the demo's adapter, so that users can read them, and loads them.
fn write_validation(dir: &Path, api: &str) -> anyhow::Result<AdapterConfig> {
    let dir = dir.join("adapters").join(VALIDATION);
    super::create_private(&dir)?;
    for (name, text) in VALIDATION_FILES {
        let path = dir.join(name);
        write_private(&path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let overrides = AdapterOverrides { api_base_url: Some(api.to_owned()), ..AdapterOverrides::default() };
    Ok(AdapterConfig::load(&dir.join("adapter.yaml"), &dir.join("task.yaml"), &overrides)?)
}
