//! `bellwether run sentinel`: publishes pulses for the resources of one kind of the fleet API.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bellwether_broker::Broker;
use bellwether_broker::config::{BrokerConfig, BrokerUrl, connect_metered};
use bellwether_broker::metrics::BrokerMetrics;
use bellwether_clock::SystemClock;
use bellwether_runtime::{Election, Leadership, Metrics, Shutdown};
use bellwether_sentinel::config::{Config, Overrides};
use bellwether_sentinel::feed::HttpFeed;
use bellwether_sentinel::sentinel::{Sentinel, Surroundings};
use bellwether_sentinel::shard::{OwnedShards, Shard};
use clap::Args;
use tokio::sync::watch;

use crate::cli::{TargetArgs, duration};
use crate::role::{Process, Role};
use crate::target::Target;

/// The version in the metrics of brokers.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Publish pulses: messages that ask adapters to reconcile a resource of the fleet API
///
/// It watches the resources of one kind. A new generation is pulsed at once; after that, a resource that is not ready is pulsed
/// every 10 s, and a ready one every 30 min, unless the configuration decides otherwise in CEL. The configuration file is
/// that of HyperFleet's Sentinel; docs/sentinel.md describes it.
///
///   bellwether run sentinel --resource-type clusters --api http://127.0.0.1:8000 --broker sqlite:queue.db
///   bellwether run sentinel --config sentinel.yaml --broker nats://nats.example:4222
///   bellwether run sentinel --config sentinel.yaml --broker-config broker.yaml --shard 0/3 --leader-election
///   bellwether run sentinel --config sentinel.yaml --dump-config
///
/// Exit codes: 0 stopped by a signal; 1 error; 2 invalid arguments.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct SentinelArgs {
    /// The configuration file (YAML).
    #[arg(long, value_name = "FILE", required_unless_present = "resource_type")]
    config: Option<PathBuf>,

    /// The plural name of the kind, such as clusters. Replaces `resource_type` of the file.
    #[arg(long, value_name = "PLURAL")]
    resource_type: Option<String>,

    /// The address of the fleet API. Replaces `clients.hyperfleet_api.base_url` of the file.
    #[arg(long, value_name = "URL", env = "BELLWETHER_API")]
    api: Option<String>,

    /// The topic of the pulses. Replaces `clients.broker.topic` of the file. Default: the plural name of the kind.
    #[arg(long, value_name = "NAME")]
    topic: Option<String>,

    /// How often all resources are evaluated, from 100ms to 1h. Replaces `poll_interval` of the file. Default: 5s.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    poll_interval: Option<Duration>,

    /// The part of the resources that this process is responsible for: INDEX/COUNT, by a hash of the ID. Default: all.
    #[arg(long, value_name = "INDEX/COUNT")]
    shard: Option<Shard>,

    /// Elect a leader among the replicas of the shard by a Lease in the cluster of --kubeconfig; the others are standbys.
    #[arg(long)]
    leader_election: bool,

    /// Print the configuration with all defaults as YAML, and exit.
    #[arg(long)]
    dump_config: bool,

    #[command(flatten)]
    broker: BrokerArgs,

    #[command(flatten)]
    target: TargetArgs,

    /// The address for plain HTTP: /healthz, /readyz and /metrics. In a pod, use 0.0.0.0 so that probes can reach it. Port 0
    /// selects a free port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9003")]
    listen: SocketAddr,
}

/// The broker that a role uses.
#[derive(Debug, Args)]
pub(crate) struct BrokerArgs {
    /// The broker: sqlite:FILE for the built-in queue, nats://HOST:PORT, amqp://USER@HOST/VHOST or amqps://…. If the URL has a
    /// password, use the environment variable or --broker-config, so that the password is not in the list of processes.
    #[arg(long, value_name = "URL", env = "BELLWETHER_BROKER", hide_env_values = true)]
    broker: Option<BrokerUrl>,

    /// The file with the settings of the broker: HyperFleet's broker.yaml, with the types embedded and nats in addition.
    #[arg(long, value_name = "FILE", env = "BROKER_CONFIG_FILE", conflicts_with = "broker")]
    broker_config: Option<PathBuf>,
}

impl BrokerArgs {
    /// Reads the settings of the broker.
    pub(crate) fn config(&self) -> anyhow::Result<BrokerConfig> {
        match (&self.broker, &self.broker_config) {
            (Some(url), _) => Ok(BrokerConfig::from_url(url.clone())),
            (None, Some(path)) => {
                let text = read(path, "the broker configuration")?;
                Ok(BrokerConfig::parse(&text, &path.display().to_string(), &|name| std::env::var(name).ok())?)
            }
            (None, None) => anyhow::bail!(
                "no broker is given: name one with --broker (such as sqlite:queue.db or nats://127.0.0.1:4222) or with --broker-config"
            ),
        }
    }
}

/// Connects to a broker. It need not be reachable yet.
pub(crate) fn connect_broker(
    config: &BrokerConfig,
    component: &str,
    metrics: &Metrics,
) -> anyhow::Result<Arc<dyn Broker>> {
    let metrics = BrokerMetrics::register(metrics, component, VERSION);
    Ok(connect_metered(config, Arc::new(SystemClock), metrics)?)
}

fn read(path: &Path, what: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {what} {}", path.display()))
}

pub(crate) fn run(arguments: &SentinelArgs) -> anyhow::Result<()> {
    let config = arguments.config()?;
    if arguments.dump_config {
        print!("{}", serde_saphyr::to_string(&config.dump())?);
        return Ok(());
    }
    anyhow::ensure!(
        !config.api.base_url.is_empty(),
        "no fleet API is given: name one with --api, BELLWETHER_API or clients.hyperfleet_api.base_url of the configuration"
    );
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(serve(arguments, config));
    runtime.shutdown_timeout(Duration::from_millis(200));
    outcome
}

impl SentinelArgs {
    fn config(&self) -> anyhow::Result<Config> {
        let overrides = Overrides {
            resource_type: self.resource_type.clone(),
            api: self.api.clone(),
            topic: self.topic.clone(),
            poll_interval: self.poll_interval,
        };
        let (text, path) = match &self.config {
            Some(path) => (read(path, "the configuration")?, path.display().to_string()),
            None => (String::new(), "the command line".to_owned()),
        };
        Ok(Config::parse(&text, &path, overrides)?)
    }
}

async fn serve(arguments: &SentinelArgs, config: Config) -> anyhow::Result<()> {
    let role = Role { name: "sentinel", listen: arguments.listen, leader_election: false, cluster: "" };
    let broker = arguments.broker.config()?;
    let target = match arguments.leader_election {
        true => Some(Target::find(&arguments.target).await?),
        false => None,
    };
    let subject = config.resource_type.clone();
    role.serve_process(&subject, |process| {
        let broker = connect_broker(&broker, "sentinel", &process.metrics)?;
        let shards = match &target {
            None => arguments.shard.map_or_else(OwnedShards::all, OwnedShards::fixed),
            Some(target) => {
                elected_shards(target, &config.resource_type, arguments.shard, process, role.identity())
            }
        };
        let surroundings = Surroundings {
            broker,
            shards,
            clock: Arc::new(SystemClock),
            metrics: process.metrics.clone(),
            health: process.health.clone(),
        };
        let feed = HttpFeed::new(&config)?;
        let sentinel = Sentinel::new(config, Arc::new(feed), surroundings);
        process.shutdown.spawn(sentinel.run(process.shutdown.clone()));
        Ok(())
    })
    .await
}

/// The shard is owned while this process is the leader of it.
fn elected_shards(
    target: &Target,
    resource_type: &str,
    shard: Option<Shard>,
    process: &Process,
    identity: String,
) -> OwnedShards {
    let shard = shard.unwrap_or_default();
    let election = Election {
        namespace: target.client.default_namespace().to_owned(),
        lease: format!("bellwether-sentinel-{resource_type}-{}-of-{}", shard.index, shard.count),
        identity,
    };
    let leadership = Leadership::elected(&target.client, election, &process.shutdown, &process.health);
    let (sender, shards) = OwnedShards::manual(shard.count);
    process.shutdown.spawn(own_while_leader(leadership, shard.index, sender, process.shutdown.clone()));
    shards
}

async fn own_while_leader(
    leadership: Leadership,
    index: u32,
    owned: watch::Sender<BTreeSet<u32>>,
    shutdown: Shutdown,
) {
    let follow = async {
        loop {
            leadership.acquired().await;
            owned.send_replace([index].into());
            leadership.lost().await;
            owned.send_replace(BTreeSet::new());
        }
    };
    tokio::select! {
        () = shutdown.requested() => {}
        () = follow => {}
    }
}
