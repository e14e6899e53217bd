//! `bellwether run adapter`: handles pulses as its two configuration files say, and reports the result to the fleet API.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bellwether_adapter::api::HttpApi;
use bellwether_adapter::config::{Config, Overrides};
use bellwether_adapter::dry_run::{Detail, DryRunFiles, dry_run};
use bellwether_adapter::execute::{Clients, Executor};
use bellwether_adapter::kubernetes::KubernetesTransport;
use bellwether_adapter::serve::{Adapter, DEFAULT_PARALLELISM};
use bellwether_clock::SystemClock;
use clap::{Args, ValueEnum};

use crate::cli::TargetArgs;
use crate::output::print;
use crate::role::Role;
use crate::sentinel::{BrokerArgs, connect_broker};
use crate::target::Target;

/// How long running events may take after a signal; less than the process may take to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(4);

/// Handle pulses: create, repair and delete objects for a resource of the fleet API, and report the result
///
/// Two YAML files define the adapter: --config how it is deployed (its name, the fleet API, the subscription), --task what it does
/// for every pulse. They are those of HyperFleet's adapters; docs/adapters.md describes them.
///
/// Objects are created in the cluster of --kubeconfig. For resources with `client: maestro`, that cluster is the hub, and
/// manifests reach their target cluster as ManifestWorks.
///
///   bellwether run adapter --config adapter.yaml --task task.yaml --broker sqlite:queue.db
///   bellwether run adapter --config adapter.yaml --task task.yaml --dry-run-event event.json
///   bellwether run adapter --config adapter.yaml --task task.yaml --dump-config
///
/// Exit codes: 0 stopped by a signal, or the dry run succeeded; 1 error, or the event of the dry run failed; 2 invalid
/// arguments.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct AdapterArgs {
    /// The deployment configuration (YAML).
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// The task configuration (YAML).
    #[arg(long, value_name = "FILE")]
    task: PathBuf,

    /// The address of the fleet API. Replaces `clients.hyperfleet_api.base_url` of the file.
    #[arg(long, value_name = "URL", env = "BELLWETHER_API")]
    api: Option<String>,

    /// The topic of the pulses. Replaces `clients.broker.topic` of the file.
    #[arg(long, value_name = "NAME")]
    topic: Option<String>,

    /// The subscription. Adapters with the same one share its pulses. Replaces `clients.broker.subscription_id` of the file.
    /// Default: the name of the adapter.
    #[arg(long, value_name = "NAME")]
    subscription: Option<String>,

    #[command(flatten)]
    broker: BrokerArgs,

    #[command(flatten)]
    target: TargetArgs,

    /// Run one event with recorded responses, print what would happen, and exit. The file has a CloudEvent, or its data.
    #[arg(long, value_name = "FILE")]
    dry_run_event: Option<PathBuf>,

    /// The responses of the API in a dry run. Default: every call is answered with 200 and {}.
    #[arg(long, value_name = "FILE", requires = "dry_run_event")]
    dry_run_api_responses: Option<PathBuf>,

    /// The objects that exist in a dry run, by name. Default: none.
    #[arg(long, value_name = "FILE", requires = "dry_run_event")]
    dry_run_discovery: Option<PathBuf>,

    /// Also show bodies and manifests in a dry run.
    #[arg(long, requires = "dry_run_event")]
    dry_run_verbose: bool,

    /// The output format of a dry run.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = TraceFormat::Text, requires = "dry_run_event")]
    dry_run_output: TraceFormat,

    /// Print both configurations as YAML, without secrets, and exit.
    #[arg(long, conflicts_with = "dry_run_event")]
    dump_config: bool,

    /// The address for plain HTTP: /healthz, /readyz and /metrics. In a pod, use 0.0.0.0 so that probes can reach it. Port 0
    /// selects a free port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9004")]
    listen: SocketAddr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TraceFormat {
    Text,
    Json,
}

pub(crate) fn run(arguments: &AdapterArgs) -> anyhow::Result<()> {
    let overrides = Overrides {
        name: None,
        api_base_url: arguments.api.clone(),
        topic: arguments.topic.clone(),
        subscription_id: arguments.subscription.clone(),
        kube_config_path: arguments.target.kubeconfig.clone(),
    };
    let config = Arc::new(Config::load(&arguments.config, &arguments.task, &overrides)?);
    if arguments.dump_config {
        return Ok(print(config.dump().trim_end())?);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = match &arguments.dry_run_event {
        Some(event) => runtime.block_on(run_dry(arguments, config, event.clone())),
        None => runtime.block_on(serve(arguments, config)),
    };
    runtime.shutdown_timeout(Duration::from_millis(200));
    outcome
}

async fn run_dry(arguments: &AdapterArgs, config: Arc<Config>, event: PathBuf) -> anyhow::Result<()> {
    let files = DryRunFiles {
        event,
        api_responses: arguments.dry_run_api_responses.clone(),
        discovery: arguments.dry_run_discovery.clone(),
    };
    let result = dry_run(config, &files, std::env::vars(), Arc::new(SystemClock)).await?;
    let detail = if arguments.dry_run_verbose { Detail::Verbose } else { Detail::Summary };
    let text = match arguments.dry_run_output {
        TraceFormat::Text => result.text(detail),
        TraceFormat::Json => result.json(detail),
    };
    print(text.trim_end())?;
    anyhow::ensure!(result.is_success(), "the event of the dry run failed");
    Ok(())
}

async fn serve(arguments: &AdapterArgs, config: Arc<Config>) -> anyhow::Result<()> {
    let role = Role { name: "adapter", listen: arguments.listen, leader_election: false, cluster: "" };
    let broker = arguments.broker.config()?;
    let target = Target::find(&TargetArgs {
        kubeconfig: config.adapter.kube_config_path.clone(),
        context: arguments.target.context.clone(),
    })
    .await?;
    let name = config.adapter.name.clone();
    let parallelism = match broker.parallelism {
        0 | 1 => DEFAULT_PARALLELISM,
        more => usize::from(more),
    };
    role.serve_process(&name, |process| {
        let broker = connect_broker(&broker, "adapter", &process.metrics)?;
        let adapter = Adapter {
            executor: executor(config.clone(), target.client.clone()),
            topic: config.adapter.topic.clone().unwrap_or_else(|| "clusters".to_owned()),
            subscription: config.adapter.subscription_id.clone().unwrap_or_else(|| name.clone()),
            parallelism,
            drain_timeout: DRAIN_TIMEOUT,
            metrics: process.metrics.clone(),
            health: process.health.clone(),
            shutdown: process.shutdown.clone(),
        };
        process.shutdown.spawn(adapter.run(broker));
        Ok(())
    })
    .await
}

/// An executor whose objects are in the cluster of a client, which is also the hub of ManifestWorks.
pub(crate) fn executor(config: Arc<Config>, client: kube::Client) -> Executor {
    let transport = Arc::new(KubernetesTransport::new(client, &config.adapter.name));
    let clients = Clients {
        api: HttpApi::new(config.adapter.api.clone()),
        kubernetes: transport.clone(),
        hub: transport,
        clock: Arc::new(SystemClock),
    };
    Executor::new(config, clients, std::env::vars())
}
