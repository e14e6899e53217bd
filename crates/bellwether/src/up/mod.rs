//! `bellwether up` and `bellwether run apiserver`: binds the addresses, opens the store, starts all parts, and stops them
//! cleanly. What the parts do is in other crates.

mod join;
mod metrics;
mod objects;
mod pulses;
mod rbac;

use std::fs::{File, TryLockError};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::Router;
use bellwether_adapter::addons::IDENTITY as ADDONS_ADAPTER;
use bellwether_adapter::registration::{self, Registration};
use bellwether_agent::{Agent, HubHash};
use bellwether_api::{Definition, Place};
use bellwether_apiserver::pki::Pki;
use bellwether_apiserver::{ApiServer, HUB, Identity, SigningKey, TlsSettings};
use bellwether_clock::SystemClock;
use bellwether_fleet::client::Client;
use bellwether_fleet::config::Config;
use bellwether_fleet::serve::assemble;
use bellwether_runtime::{Context, Health, Leadership, Metrics, Shutdown, http};
use bellwether_simulator::Simulator;
use bellwether_store::OpenError;
use futures::{StreamExt as _, TryStreamExt as _};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use crate::cli::{ApiserverArgs, UpArgs};
use crate::controllers::{
    Controller, EVERYWHERE, FOR_THE_HUB, HeartbeatArgs, ON_THE_HUB, ObservabilityArgs, Selection,
};
use crate::crds;
use crate::endpoints::{Addresses, Endpoints};
use crate::fleet_api::{Database, serve_until_shutdown};
use crate::kubeconfig;
use crate::signals::StopSignals;
use crate::target::Target;
use crate::up::metrics::DemoMetrics;
use crate::up::rbac::Roles;

/// How long a clean stop may take.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait for controllers to be ready before the banner is printed.
const READY_TIMEOUT: Duration = Duration::from_secs(2);
/// The identities that install the CRDs, and that simulate workloads.
const CRD_INSTALLER: &str = "definition-installer";
const SIMULATOR: &str = "workload-simulator";
/// The agents' ID in the AppliedManifestWorks on their clusters.
const AGENT_ID: &str = "bellwether-up";
/// How many clusters are set up concurrently.
const CONCURRENT_SETUPS: usize = 16;

/// The settings of `up` or `run apiserver`.
struct Settings {
    data_dir: PathBuf,
    listen: SocketAddr,
    http: Option<SocketAddr>,
    clusters: Vec<String>,
    simulation: Option<Simulation>,
    controllers: Option<Controllers>,
    fleet: Option<Config>,
}

/// The controllers to run, and their settings.
struct Controllers {
    selection: Selection,
    heartbeats: HeartbeatArgs,
    observability: ObservabilityArgs,
}

/// The settings of the workload simulators.
struct Simulation {
    delay: Duration,
}

impl Simulation {
    /// Starts a task for each cluster. The tasks end when the returned set is dropped.
    fn start(&self, server: &ApiServer, clusters: &[String]) -> JoinSet<()> {
        let identity = Identity::controller(SIMULATOR);
        let names = std::iter::once(HUB).chain(clusters.iter().map(String::as_str));
        names
            .map(|name| {
                let client = server.client(name, identity.clone());
                let context = Context { cluster: name.into(), ..Context::standalone(client) };
                Simulator::new(context, self.delay).run()
            })
            .collect()
    }
}

pub(crate) fn run(arguments: UpArgs) -> anyhow::Result<()> {
    let clusters = (1..=arguments.spokes).map(|number| format!("spoke-{number}")).collect();
    arguments.fleet.check(arguments.http, "--http", false)?;
    let fleet =
        pulses::fleet_config(arguments.fleet.vocabulary(), !arguments.no_demo, arguments.spokes.into())?;
    start(Settings {
        data_dir: arguments.data_dir,
        listen: arguments.listen,
        http: Some(arguments.http),
        clusters,
        simulation: (!arguments.no_demo).then_some(Simulation { delay: arguments.simulate_delay }),
        controllers: Some(Controllers {
            selection: arguments.controllers,
            heartbeats: arguments.heartbeats,
            observability: arguments.observability,
        }),
        fleet: Some(fleet),
    })
}

pub(crate) fn run_apiserver(arguments: ApiserverArgs) -> anyhow::Result<()> {
    start(Settings {
        data_dir: arguments.data_dir,
        listen: arguments.listen,
        http: None,
        clusters: arguments.logical_clusters,
        simulation: None,
        controllers: None,
        fleet: None,
    })
}

fn start(settings: Settings) -> anyhow::Result<()> {
    let begun = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(serve(settings, begun));
    // All tasks have been asked to stop; blocking ones may still run, and are abandoned after this time.
    runtime.shutdown_timeout(Duration::from_millis(200));
    outcome
}

async fn serve(settings: Settings, begun: Instant) -> anyhow::Result<()> {
    // Signals are handled from the start on, so that one during the start-up also stops the process cleanly.
    let mut stop = StopSignals::listen()?;
    let running = tokio::select! {
        running = start_all(settings, begun) => running?,
        () = stop.next() => return Ok(()),
    };
    let failure = tokio::select! {
        () = stop.next() => None,
        reason = running.server.failed() => Some(reason),
    };
    let Running { server, serving, simulators, process, endpoints, lock: _lock } = running;
    drop((endpoints, simulators));
    if let Some(reason) = failure {
        anyhow::bail!("the store failed: {reason}; restart the server to recover the last committed state");
    }
    eprintln!("Stopping; press Ctrl-C again to stop at once.");
    let stopped = async {
        process.shutdown.finish().await;
        server.stop().await;
        let _ = serving.await;
    };
    tokio::select! {
        _ = tokio::time::timeout(STOP_TIMEOUT, stopped) => {}
        () = stop.next() => {}
    }
    Ok(())
}

/// The running parts.
struct Running {
    server: ApiServer,
    serving: JoinHandle<()>,
    simulators: JoinSet<()>,
    process: Process,
    endpoints: Endpoints,
    /// The lock of the data directory, released on drop.
    lock: File,
}

async fn start_all(settings: Settings, begun: Instant) -> anyhow::Result<Running> {
    let kubernetes = bind(settings.listen, "--listen").await?;
    let http = match settings.http {
        Some(address) => Some(bind(address, "--http").await?),
        None => None,
    };
    create_private(&settings.data_dir)?;
    let dir = settings.data_dir.as_path();
    let lock = lock_data_dir(dir)?;
    let pki = Pki::load_or_create(&dir.join("pki"), &[settings.listen.ip()])?;
    let server = ApiServer::durable(dir)
        .clusters(settings.clusters.clone())
        .ca_certificate(&pki.ca)
        .certificate_authority(pki.authority())
        .signing_key(SigningKey::read(&pki.signing_key)?)
        .audit_log(dir.join("audit.log"))
        .start()
        .await?;
    let demo = settings.simulation.is_some();
    let http_url = match &http {
        Some(listener) => Some(format!("http://{}", reachable_address(listener.local_addr()?))),
        None => None,
    };
    let metrics = http_url.clone().filter(|_| demo).map(|url| DemoMetrics::new(url, settings.clusters.len()));
    let url = format!("https://{}", reachable_address(kubernetes.local_addr()?));
    create_permissions(&settings, &server, &url, &pki).await?;
    let simulators = settings
        .simulation
        .map(|simulation| simulation.start(&server, &settings.clusters))
        .unwrap_or_default();
    let process = Process::of(&server);
    if let Some(controllers) = &settings.controllers {
        install_crds(&server, &settings.clusters).await?;
        join::join_spokes(&server, &settings.clusters).await?;
        if let Some(metrics) = &metrics {
            join::create_samples(&server, &settings.clusters).await?;
            metrics::create_samples(&server, &settings.clusters, metrics).await?;
            process.run_collectors(&server, &settings.clusters, metrics);
        }
        process.run_controllers(&server, &settings.clusters, controllers, metrics.as_ref()).await?;
    }
    kubeconfig::write(&dir.join("kubeconfig"), &url, &settings.clusters, &pki)?;
    let break_glass = &dir.join("pki").join("break-glass.kubeconfig");
    kubeconfig::write_one(break_glass, &url, "break-glass", None, &pki, &pki.master)?;

    let tls = TlsSettings::new(&pki)?;
    let serving = tokio::spawn({
        let server = server.clone();
        async move { server.serve(kubernetes, tls).await }
    });
    let addresses = Addresses { kubernetes: url, http: http_url };
    if let Some(listener) = http {
        let mut routes = http::routes(process.health.clone(), process.metrics.clone());
        let has_fleet = settings.fleet.is_some();
        if let Some(config) = settings.fleet {
            routes = routes.merge(process.run_fleet(dir, config).await?);
        }
        if demo {
            routes = routes.merge(metrics::routes(&server, &settings.clusters));
        }
        serve_until_shutdown(listener, routes, &process.shutdown);
        if let Some(api) = addresses.http.as_deref().filter(|_| has_fleet) {
            let queue = pulses::open_queue(dir, &process)?;
            pulses::run_sentinels(&process, &queue, api)?;
            if settings.controllers.is_some() {
                let context = process.context(&server, HUB, registration::IDENTITY);
                process.shutdown.spawn(Registration::run(Client::new(api, None)?, context));
            }
            if demo {
                pulses::run_adapters(&process, &server, &queue, api, &settings.clusters, dir)?;
            }
            process.await_ready().await;
        }
    }
    let endpoints = Endpoints::publish(dir.join("endpoints.json"), &addresses)?;
    print_banner(dir, &addresses, &settings.clusters, begun.elapsed());
    Ok(Running { server, serving, simulators, process, endpoints, lock })
}

/// Creates the permissions of everything that `up` runs, and a kubeconfig of the hub for every spoke's agent.
async fn create_permissions(
    settings: &Settings,
    server: &ApiServer,
    url: &str,
    pki: &Pki,
) -> anyhow::Result<()> {
    if settings.controllers.is_none() {
        return Ok(());
    }
    let roles = &Roles::parse()?;
    let identities = |additional: &[Controller], demo_adapter: &'static str| {
        let names = EVERYWHERE.iter().chain(additional).map(|controller| controller.name());
        let demo = settings.simulation.as_ref().map(|_| [SIMULATOR, demo_adapter]);
        names.chain([CRD_INSTALLER]).chain(demo.into_iter().flatten()).collect::<Vec<_>>()
    };
    let mut on_hub = identities(ON_THE_HUB, ADDONS_ADAPTER);
    on_hub.push(registration::IDENTITY);
    let on_spoke = identities(FOR_THE_HUB, pulses::VALIDATION_IDENTITY);
    let spokes = settings.clusters.iter().map(|spoke| (spoke.as_str(), &on_spoke));
    let granted = std::iter::once((HUB, &on_hub))
        .chain(spokes)
        .map(|(cluster, names)| rbac::grant_to_controllers(server, cluster, names, roles));
    futures::stream::iter(granted).buffer_unordered(CONCURRENT_SETUPS).try_collect::<()>().await?;
    let dir = settings.data_dir.as_path();
    create_private(&dir.join("agents"))?;
    let granted =
        settings.clusters.iter().map(|spoke| rbac::grant_to_agent(server, spoke, url, dir, pki, roles));
    futures::stream::iter(granted).buffer_unordered(CONCURRENT_SETUPS).try_collect::<()>().await
}

/// Metrics, health and shutdown, which the controllers of all clusters share.
#[derive(Default)]
struct Process {
    metrics: Metrics,
    health: Health,
    shutdown: Shutdown,
}

impl Process {
    fn of(server: &ApiServer) -> Self {
        let process = Self::default();
        let server = server.clone();
        process.health.add_check("the store", move || server.trouble());
        process
    }

    /// Starts the fleet API on a database in the data directory.
    async fn run_fleet(&self, dir: &Path, config: Config) -> anyhow::Result<Router> {
        let store = Database::Sqlite(dir.join("fleet.db")).open().await?;
        let clock = Arc::new(SystemClock);
        let assembled = assemble(store, config, clock, &self.metrics, &self.health, &self.shutdown)?;
        Ok(assembled.routes)
    }

    /// Starts the metrics collectors that the endpoint operators of the spokes deploy.
    fn run_collectors(&self, server: &ApiServer, spokes: &[String], metrics: &DemoMetrics) {
        for spoke in spokes {
            let context = self.context(server, spoke, SIMULATOR);
            self.shutdown.spawn(metrics::run_collectors(server, spoke, metrics.interval(), context));
        }
    }

    /// Starts the controllers of the hub and of every spoke, and waits until they are ready.
    async fn run_controllers(
        &self,
        server: &ApiServer,
        spokes: &[String],
        controllers: &Controllers,
        metrics: Option<&DemoMetrics>,
    ) -> anyhow::Result<()> {
        let Controllers { selection, heartbeats, observability } = controllers;
        selection.start_everywhere(heartbeats, self.context_on(server, HUB));
        selection.start_on_the_hub(self.context_on(server, HUB));
        for spoke in spokes {
            let agent = Agent {
                hub: server.client(HUB, rbac::agent_identity(spoke)),
                cluster: spoke.parse()?,
                hub_hash: HubHash::of(HUB),
                agent_id: AGENT_ID.into(),
            };
            selection.start_everywhere(heartbeats, self.context_on(server, spoke));
            let observability = match metrics {
                Some(metrics) => {
                    observability.with_sources(metrics.platform(spoke), metrics.user_workloads(spoke))
                }
                None => observability.clone(),
            };
            selection.start_for_the_hub(&agent, &observability, self.context_on(server, spoke));
        }
        self.await_ready().await;
        Ok(())
    }

    /// Waits until all parts are ready, so that the first command of a user finds them running.
    async fn await_ready(&self) {
        let ready = async {
            while !self.health.not_ready().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        // /readyz shows a part that takes longer.
        let _ = tokio::time::timeout(READY_TIMEOUT, ready).await;
    }

    /// The context of each controller of a cluster.
    fn context_on(&self, server: &ApiServer, cluster: &str) -> impl Fn(Controller) -> Context {
        move |controller| self.context(server, cluster, controller.name())
    }

    /// The context of what runs on a cluster with an identity of its own.
    fn context(&self, server: &ApiServer, cluster: &str, name: &str) -> Context {
        Context {
            client: server.client(cluster, Identity::controller(name)),
            cluster: cluster.into(),
            clock: Arc::new(SystemClock),
            leadership: Leadership::always(),
            metrics: self.metrics.clone(),
            health: self.health.clone(),
            shutdown: self.shutdown.clone(),
        }
    }
}

/// Installs the CRDs that the hub and every spoke need.
async fn install_crds(server: &ApiServer, spokes: &[String]) -> anyhow::Result<()> {
    let names = std::iter::once(HUB).chain(spokes.iter().map(String::as_str));
    let installed = names.map(|cluster| async move {
        let crds: Vec<Definition> =
            bellwether_api::crds().into_iter().filter(|crd| is_needed(crd.place, cluster)).collect();
        let installer = server.client(cluster, Identity::controller(CRD_INSTALLER));
        crds::provide(&Target::in_process(installer, cluster), &crds).await
    });
    futures::stream::iter(installed).buffer_unordered(CONCURRENT_SETUPS).try_collect().await
}

fn is_needed(place: Place, cluster: &str) -> bool {
    match place {
        Place::Hub => cluster == HUB,
        Place::Spokes => cluster != HUB,
        Place::EveryCluster => true,
    }
}

async fn bind(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address}; is another server running? Select another address with {flag}")
    })
}

fn create_private(dir: &Path) -> anyhow::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .with_context(|| format!("cannot create the data directory {}", dir.display()))
}

/// Locks the data directory before anything in it is read or written. The store has its own lock, but it is opened after the
/// certificates were created.
fn lock_data_dir(dir: &Path) -> anyhow::Result<File> {
    let lock =
        File::open(dir).with_context(|| format!("cannot open the data directory {}", dir.display()))?;
    match lock.try_lock() {
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { dir: dir.to_owned() }.into()),
        // If the file system cannot lock directories, the lock of the store still protects the data.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(lock),
    }
}

/// An address that clients on this machine can use; an unspecified address becomes the loopback address.
fn reachable_address(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => SocketAddr::from(([127, 0, 0, 1], v4.port())),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => {
            SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, v6.port()))
        }
        other => other,
    }
}

fn print_banner(dir: &Path, addresses: &Addresses, clusters: &[String], took: Duration) {
    println!("Bellwether is up after {:.2} s.\n", took.as_secs_f64());
    println!("  Kubernetes API  {}  ({})", addresses.kubernetes, summary(clusters));
    if let Some(http) = &addresses.http {
        println!("  Fleet API       {http}{}", bellwether_fleet::kinds::BASE_PATH);
        println!("  HTTP            {http}  (/healthz, /readyz, /metrics)");
    }
    println!("  Data            {}\n", dir.display());
    println!("Next, in another terminal:\n");
    println!("  export KUBECONFIG={}", dir.join("kubeconfig").display());
    println!("  kubectl get namespaces");
    if let Some(first) = clusters.first() {
        println!("  kubectl --context {first} get namespaces");
    }
    if let Some(http) = &addresses.http {
        println!("  bellwether addon status");
        println!("  bellwether observability status");
        println!("  bellwether cluster get --api {http}");
    }
    println!("\nCtrl-C stops it; the data stays.");
}

fn summary(clusters: &[String]) -> String {
    match clusters {
        [] => "hub".into(),
        [only] => format!("hub and {only}"),
        [first, .., last] => format!("hub, and {} more from {first} to {last}", clusters.len()),
    }
}
