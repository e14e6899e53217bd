//! `bellwether up` and `bellwether run apiserver`: bind, open, serve, say so, and stop cleanly.

mod join;
mod objects;
mod rights;

use std::fs::{File, TryLockError};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::Router;
use bellwether_agent::{Agent, HubHash};
use bellwether_api::{Definition, Place};
use bellwether_apiserver::pki::Pki;
use bellwether_apiserver::{ApiServer, HUB, Identity, SigningKey, TlsSettings};
use bellwether_clock::SystemClock;
use bellwether_fleet::config::Config;
use bellwether_fleet::decide::{Create, Refusal};
use bellwether_fleet::resource::Id;
use bellwether_fleet::serve::{Assembled, assemble};
use bellwether_fleet::writer::{Command, WriteError};
use bellwether_runtime::{Context, Health, Leadership, Metrics, Shutdown, http};
use bellwether_simulator::Simulator;
use bellwether_store::OpenError;
use futures::{StreamExt as _, TryStreamExt as _};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use crate::cli::{ApiserverArgs, UpArgs};
use crate::controllers::{Controller, EVERYWHERE, FOR_THE_HUB, HeartbeatArgs, ON_THE_HUB, Selection};
use crate::crds;
use crate::endpoints::{Addresses, Endpoints};
use crate::fleet_api::{Database, serve_until_end};
use crate::kubeconfig;
use crate::signals::StopSignals;
use crate::target::Target;

/// How long a clean stop may take.
const STOP: Duration = Duration::from_secs(5);
/// How long controllers may take to get going before the server says that it is up.
const SETTLE: Duration = Duration::from_secs(2);
/// By whom the clusters of the demo are registered.
const REGISTRAR: &str = "bellwether-up@local";
/// Who brings our definitions to the clusters, and who makes workloads ready.
const INSTALLER: &str = "definition-installer";
const SIMULATOR: &str = "workload-simulator";
/// How agents are called in the records that they leave on their clusters.
const AGENT_ID: &str = "bellwether-up";
/// How many clusters are set up at the same time.
const AT_ONCE: usize = 16;

/// What is served, whichever command asked for it.
struct Plan {
    data_dir: PathBuf,
    listen: SocketAddr,
    http: Option<SocketAddr>,
    clusters: Vec<String>,
    simulation: Option<Simulation>,
    controllers: Option<Controllers>,
    fleet: Option<Config>,
}

/// Which controllers run, and how they judge.
struct Controllers {
    chosen: Selection,
    heartbeats: HeartbeatArgs,
}

/// How workloads are simulated on every cluster.
struct Simulation {
    delay: Duration,
}

impl Simulation {
    /// One task for each cluster. They end when the set is dropped.
    fn start(&self, server: &ApiServer, clusters: &[String]) -> JoinSet<()> {
        let identity = Identity::controller(SIMULATOR);
        let names = std::iter::once(HUB).chain(clusters.iter().map(String::as_str));
        names
            .map(|name| {
                let client = server.client(name, identity.clone());
                Simulator::new(client, self.delay, Arc::new(SystemClock)).run()
            })
            .collect()
    }
}

pub(crate) fn run(arguments: UpArgs) -> anyhow::Result<()> {
    let clusters = (1..=arguments.spokes).map(|number| format!("spoke-{number}")).collect();
    arguments.fleet.check(arguments.http, "--http", false)?;
    start(Plan {
        data_dir: arguments.data_dir,
        listen: arguments.listen,
        http: Some(arguments.http),
        clusters,
        simulation: (!arguments.no_demo).then_some(Simulation { delay: arguments.simulate_delay }),
        controllers: Some(Controllers { chosen: arguments.controllers, heartbeats: arguments.heartbeats }),
        fleet: Some(Config { vocabulary: arguments.fleet.vocabulary(), ..Config::default() }),
    })
}

pub(crate) fn run_apiserver(arguments: ApiserverArgs) -> anyhow::Result<()> {
    start(Plan {
        data_dir: arguments.data_dir,
        listen: arguments.listen,
        http: None,
        clusters: arguments.logical_clusters,
        simulation: None,
        controllers: None,
        fleet: None,
    })
}

fn start(plan: Plan) -> anyhow::Result<()> {
    let begun = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(serve(plan, begun));
    // Whatever still runs has been told to stop; it is not waited for.
    runtime.shutdown_timeout(Duration::from_millis(200));
    outcome
}

async fn serve(plan: Plan, begun: Instant) -> anyhow::Result<()> {
    // Listened for from the beginning, so that no signal finds the process without an answer to it.
    let mut stop = StopSignals::listen()?;
    let running = tokio::select! {
        running = bring_up(plan, begun) => running?,
        () = stop.next() => return Ok(()),
    };
    let failure = tokio::select! {
        () = stop.next() => None,
        reason = running.server.failed() => Some(reason),
    };
    let Running { server, serving, simulators, process, published, held: _held } = running;
    drop((published, simulators));
    if let Some(reason) = failure {
        anyhow::bail!("the store failed and must be restarted to be sure of its state: {reason}");
    }
    eprintln!("Stopping; press Ctrl-C again to stop at once.");
    let stopped = async {
        process.shutdown.finish().await;
        server.stop().await;
        let _ = serving.await;
    };
    tokio::select! {
        _ = tokio::time::timeout(STOP, stopped) => {}
        () = stop.next() => {}
    }
    Ok(())
}

/// A server that is up.
struct Running {
    server: ApiServer,
    serving: JoinHandle<()>,
    simulators: JoinSet<()>,
    process: Process,
    published: Endpoints,
    /// Lets the next server in when dropped.
    held: File,
}

async fn bring_up(plan: Plan, begun: Instant) -> anyhow::Result<Running> {
    let kubernetes = bind(plan.listen, "--listen").await?;
    let http = match plan.http {
        Some(address) => Some(bind(address, "--http").await?),
        None => None,
    };
    create_private(&plan.data_dir)?;
    let dir = plan.data_dir.as_path();
    let held = hold(dir)?;
    let pki = Pki::load_or_create(&dir.join("pki"), &[plan.listen.ip()])?;
    let server = ApiServer::durable(dir)
        .clusters(plan.clusters.clone())
        .ca_certificate(&pki.ca)
        .certificate_authority(pki.authority())
        .signing_key(SigningKey::read(&pki.signing_key)?)
        .audit_log(dir.join("audit.log"))
        .start()
        .await?;
    let demo = plan.simulation.is_some();
    let url = format!("https://{}", reachable(kubernetes.local_addr()?));
    give_rights(&plan, &server, &url, &pki).await?;
    let simulators =
        plan.simulation.map(|simulation| simulation.start(&server, &plan.clusters)).unwrap_or_default();
    let process = Process::of(&server);
    if let Some(controllers) = &plan.controllers {
        provide_definitions(&server, &plan.clusters).await?;
        join::join(&server, &plan.clusters).await?;
        if demo {
            join::bring_samples(&server, &plan.clusters).await?;
        }
        process.run_controllers(&server, &plan.clusters, controllers).await?;
    }
    kubeconfig::write(&dir.join("kubeconfig"), &url, &plan.clusters, &pki)?;
    let master = &dir.join("pki").join("break-glass.kubeconfig");
    kubeconfig::write_one(master, &url, "break-glass", None, &pki, &pki.master)?;

    let settings = TlsSettings::new(&pki)?;
    let serving = tokio::spawn({
        let server = server.clone();
        async move { server.serve(kubernetes, settings).await }
    });
    let mut addresses = Addresses { kubernetes: url, http: None };
    if let Some(listener) = http {
        addresses.http = Some(format!("http://{}", reachable(listener.local_addr()?)));
        let mut routes = http::routes(process.health.clone(), process.metrics.clone());
        if let Some(config) = plan.fleet {
            let registered = if demo { plan.clusters.as_slice() } else { &[] };
            routes = routes.merge(process.run_fleet(dir, config, registered).await?);
        }
        serve_until_end(listener, routes, &process.shutdown);
    }
    let published = Endpoints::publish(dir.join("endpoints.json"), &addresses)?;
    greet(dir, &addresses, &plan.clusters, begun.elapsed());
    Ok(Running { server, serving, simulators, process, published, held })
}

/// Everything that `up` runs gets its own rights, and every spoke's agent a credential for the hub.
async fn give_rights(plan: &Plan, server: &ApiServer, url: &str, pki: &Pki) -> anyhow::Result<()> {
    if plan.controllers.is_none() {
        return Ok(());
    }
    let holders = |here: &[Controller]| {
        let names = EVERYWHERE.iter().chain(here).map(|controller| controller.name());
        let simulator = plan.simulation.as_ref().map(|_| SIMULATOR);
        names.chain([INSTALLER]).chain(simulator).collect::<Vec<_>>()
    };
    let (on_hub, on_spoke) = (holders(ON_THE_HUB), holders(FOR_THE_HUB));
    let spokes = plan.clusters.iter().map(|spoke| (spoke.as_str(), &on_spoke));
    let given = std::iter::once((HUB, &on_hub))
        .chain(spokes)
        .map(|(cluster, holders)| rights::provide(server, cluster, holders));
    futures::stream::iter(given).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    let dir = plan.data_dir.as_path();
    create_private(&dir.join("agents"))?;
    let admitted = plan.clusters.iter().map(|spoke| rights::admit_agent(server, spoke, url, dir, pki));
    futures::stream::iter(admitted).buffer_unordered(AT_ONCE).try_collect::<()>().await
}

/// What the controllers of all clusters share, and what is said of them.
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

    /// Starts the fleet API on a file of the data directory, and registers clusters that it does not know yet.
    async fn run_fleet(&self, dir: &Path, config: Config, clusters: &[String]) -> anyhow::Result<Router> {
        let store = Database::Sqlite(dir.join("fleet.db")).open().await?;
        let Assembled { routes, fleet } =
            assemble(store, config, Arc::new(SystemClock), &self.metrics, &self.health, &self.shutdown)?;
        for name in clusters {
            let create = Create {
                id: Id::at(fleet.now()),
                kind: "Cluster".to_owned(),
                name: name.clone(),
                owner: None,
                spec: Default::default(),
                labels: [("bellwether.io/demo".to_owned(), "true".to_owned())].into(),
                tenancy: Default::default(),
            };
            match fleet.write(Command::Create { create, by: REGISTRAR.to_owned() }).await {
                Ok(_) | Err(WriteError::Refused(Refusal::Exists { .. })) => {}
                Err(error) => return Err(error).context(format!("cannot register {name} in the fleet")),
            }
        }
        Ok(routes)
    }

    /// Starts the controllers of the hub and of every spoke. They are under way when this returns, so that the first
    /// thing a person does finds them at work.
    async fn run_controllers(
        &self,
        server: &ApiServer,
        spokes: &[String],
        controllers: &Controllers,
    ) -> anyhow::Result<()> {
        let Controllers { chosen, heartbeats } = controllers;
        chosen.start_everywhere(heartbeats, self.context_on(server, HUB));
        chosen.start_on_the_hub(self.context_on(server, HUB));
        for spoke in spokes {
            let agent = Agent {
                hub: server.client(HUB, rights::agent(spoke)),
                cluster: spoke.parse()?,
                hub_hash: HubHash::of(HUB),
                agent_id: AGENT_ID.into(),
            };
            chosen.start_everywhere(heartbeats, self.context_on(server, spoke));
            chosen.start_for_the_hub(&agent, self.context_on(server, spoke));
        }
        let well = async {
            while !self.health.not_ready().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        // One that takes longer says so at /readyz.
        let _ = tokio::time::timeout(SETTLE, well).await;
        Ok(())
    }

    /// What each controller of a cluster is given.
    fn context_on(&self, server: &ApiServer, cluster: &str) -> impl Fn(Controller) -> Context {
        move |controller| Context {
            client: server.client(cluster, Identity::controller(controller.name())),
            cluster: cluster.into(),
            clock: Arc::new(SystemClock),
            leadership: Leadership::always(),
            metrics: self.metrics.clone(),
            health: self.health.clone(),
            shutdown: self.shutdown.clone(),
        }
    }
}

/// Brings our definitions to the hub and every spoke.
async fn provide_definitions(server: &ApiServer, spokes: &[String]) -> anyhow::Result<()> {
    let names = std::iter::once(HUB).chain(spokes.iter().map(String::as_str));
    let provided = names.map(|cluster| async move {
        let definitions: Vec<Definition> = bellwether_api::crds()
            .into_iter()
            .filter(|definition| belongs(definition.place, cluster))
            .collect();
        let installer = server.client(cluster, Identity::controller(INSTALLER));
        crds::provide(&Target::in_process(installer, cluster), &definitions).await
    });
    futures::stream::iter(provided).buffer_unordered(AT_ONCE).try_collect().await
}

fn belongs(place: Place, cluster: &str) -> bool {
    match place {
        Place::Hub => cluster == HUB,
        Place::Spokes => cluster != HUB,
        Place::EveryCluster => true,
    }
}

async fn bind(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address}; is another server running? Choose another address with {flag}")
    })
}

fn create_private(dir: &Path) -> anyhow::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .with_context(|| format!("cannot create the data directory {}", dir.display()))
}

/// Keeps other servers out of the directory before anything in it is read or written. The store has a lock of its
/// own, but certificates come before it.
fn hold(dir: &Path) -> anyhow::Result<File> {
    let held =
        File::open(dir).with_context(|| format!("cannot open the data directory {}", dir.display()))?;
    match held.try_lock() {
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { dir: dir.to_owned() }.into()),
        // A file system that cannot lock a directory leaves it to the store to notice.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(held),
    }
}

/// The address by which this machine reaches what is bound to all addresses.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => SocketAddr::from(([127, 0, 0, 1], v4.port())),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => {
            SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, v6.port()))
        }
        other => other,
    }
}

fn greet(dir: &Path, addresses: &Addresses, clusters: &[String], took: Duration) {
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
