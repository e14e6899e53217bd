//! `bellwether run fleet-api`: runs the fleet API alone, on SQLite or PostgreSQL. `up` shares its arguments and its server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use bellwether_clock::SystemClock;
use bellwether_fleet::config::Config;
use bellwether_fleet::serve::{Assembled, assemble};
use bellwether_fleet::store::Store;
use bellwether_fleet::store::postgres::Postgres;
use bellwether_fleet::store::sqlite::Sqlite;
use bellwether_fleet::vocabulary::Vocabulary;
use bellwether_runtime::{Health, Metrics, Shutdown, http};
use clap::{Args, ValueEnum};
use tokio::net::TcpListener;

use crate::signals::StopSignals;

/// How long a clean stop may take; requests in flight are finished first.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// Run the fleet API: clusters and node pools, and whether their current generation is ready
///
/// It serves the API at /api/hyperfleet/v1, and /healthz, /readyz and /metrics. Only one process can use an SQLite
/// database; several replicas can share a PostgreSQL database.
///
///   bellwether run fleet-api --database sqlite:fleet.db
///   bellwether run fleet-api --database postgres://bellwether@db.example/fleet --config fleet.yaml --listen 0.0.0.0:8000
///
/// Exit codes: 0 stopped by a signal; 1 error; 2 invalid arguments.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct FleetApiArgs {
    /// The address for plain HTTP. Port 0 selects a free port. An address that other machines can reach requires `auth` in the
    /// configuration, or --insecure-no-auth.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8000")]
    listen: SocketAddr,

    /// The database: sqlite:PATH, or postgres://USER@HOST/NAME. If the URL has a password, use the environment variable, so that
    /// the password is not in the list of processes.
    #[arg(
        long,
        value_name = "URL",
        env = "BELLWETHER_DATABASE",
        hide_env_values = true,
        default_value = "sqlite:fleet.db"
    )]
    database: Database,

    /// The configuration file (YAML): entities, auth, tenancy, limits. docs/fleet-configuration.md describes it. Default: clusters and
    /// node pools without required adapters, and no authentication.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    common: CommonArgs,
}

/// The arguments that `run fleet-api` and `up` share.
#[derive(Debug, Clone, Args)]
pub(crate) struct CommonArgs {
    /// The names of the two conditions of clusters and node pools in the fleet API: `ready` for Ready and Available, `upstream` for Reconciled and
    /// LastKnownReconciled, `both` for all four, if clients of both kinds share the API. Searches accept either name. After a
    /// change, the conditions of all resources are computed again.
    #[arg(long, value_name = "NAMES", value_enum, default_value_t = Names::Ready)]
    vocabulary: Names,

    /// Serve the fleet API without authentication on an address that other machines can reach. Anybody who can connect can
    /// then change the fleet.
    #[arg(long)]
    insecure_no_auth: bool,
}

impl CommonArgs {
    pub(crate) fn vocabulary(&self) -> Vocabulary {
        match self.vocabulary {
            Names::Ready => Vocabulary::Ready,
            Names::Upstream => Vocabulary::Upstream,
            Names::Both => Vocabulary::Both,
        }
    }

    /// Rejects an address that other machines can reach without authentication, unless --insecure-no-auth is given.
    pub(crate) fn check(&self, address: SocketAddr, flag: &str, authenticates: bool) -> anyhow::Result<()> {
        if address.ip().is_loopback() || authenticates || self.insecure_no_auth {
            return Ok(());
        }
        anyhow::bail!(
            "{flag} {address} can be reached from other machines, and callers are not authenticated: listen on 127.0.0.1, \
             enable `auth` in the configuration of `run fleet-api`, or allow it with --insecure-no-auth"
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Names {
    Ready,
    Upstream,
    Both,
}

/// The database of the fleet API.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Database {
    Sqlite(PathBuf),
    Postgres(String),
}

impl FromStr for Database {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::Sqlite(path.into())),
            Some(("postgres" | "postgresql", _)) => Ok(Self::Postgres(text.to_owned())),
            _ => Err("must be sqlite:PATH or postgres://USER@HOST/NAME".to_owned()),
        }
    }
}

/// Formats the database without its URL, which may contain a password.
impl std::fmt::Debug for Database {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sqlite(path) => write!(formatter, "sqlite:{}", path.display()),
            Self::Postgres(_) => write!(formatter, "postgres"),
        }
    }
}

impl Database {
    pub(crate) async fn open(&self) -> anyhow::Result<Arc<dyn Store>> {
        Ok(match self {
            Self::Sqlite(path) => Arc::new(Sqlite::open(path)?),
            Self::Postgres(url) => Arc::new(Postgres::connect(url).await?),
        })
    }
}

pub(crate) fn run(arguments: &FleetApiArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(serve(arguments));
    runtime.shutdown_timeout(Duration::from_millis(200));
    outcome
}

async fn serve(arguments: &FleetApiArgs) -> anyhow::Result<()> {
    let mut stop = StopSignals::listen()?;
    let config = read_config(arguments)?;
    arguments.common.check(arguments.listen, "--listen", config.auth_enabled())?;
    let listener = TcpListener::bind(arguments.listen).await.with_context(|| {
        format!("cannot listen on {}; choose another address with --listen", arguments.listen)
    })?;
    let store = tokio::select! {
        store = arguments.database.open() => store?,
        () = stop.next() => return Ok(()),
    };
    let (metrics, health, shutdown) = (Metrics::default(), Health::default(), Shutdown::default());
    let Assembled { routes, fleet } =
        assemble(store, config, Arc::new(SystemClock), &metrics, &health, &shutdown)?;
    drop(fleet);
    let address = listener.local_addr()?;
    let routes = http::routes(health, metrics).merge(routes);
    serve_until_shutdown(listener, routes, &shutdown);
    println!("The fleet API is up at http://{address}{}.", bellwether_fleet::kinds::BASE_PATH);

    stop.next().await;
    eprintln!("Stopping; press Ctrl-C again to stop at once.");
    tokio::select! {
        _ = tokio::time::timeout(STOP_TIMEOUT, shutdown.finish()) => {}
        () = stop.next() => {}
    }
    Ok(())
}

/// Serves until shutdown is requested, and then finishes the requests in flight.
pub(crate) fn serve_until_shutdown(listener: TcpListener, routes: Router, shutdown: &Shutdown) {
    let requested = shutdown.requested();
    shutdown.spawn(async move {
        if let Err(error) = axum::serve(listener, routes).with_graceful_shutdown(requested).await {
            tracing::error!(%error, "the HTTP server has stopped");
        }
    });
}

fn read_config(arguments: &FleetApiArgs) -> anyhow::Result<Config> {
    let mut config = match &arguments.config {
        None => Config::default(),
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the configuration {}", path.display()))?;
            Config::parse(&text, &path.display().to_string())?
        }
    };
    config.vocabulary = arguments.common.vocabulary();
    Ok(config)
}
