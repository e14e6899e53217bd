//! `bellwether run fleet-api`: the fleet API alone, on SQLite or PostgreSQL.

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

/// How long a clean stop may take: requests in flight are let finish.
const STOP: Duration = Duration::from_secs(20);

/// Run the fleet API: clusters and node pools, and whether they are ready at the generation that was asked for.
///
/// One address serves the API at /api/hyperfleet/v1, and /healthz, /readyz and /metrics. On SQLite it is one process; on
/// PostgreSQL several may serve one database.
///
///   bellwether run fleet-api --database sqlite:fleet.db
///   bellwether run fleet-api --database postgres://bellwether@db.example/fleet --config fleet.yaml --listen 0.0.0.0:8000
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct FleetApiArgs {
    /// Where plain HTTP listens. Port 0 picks a free port. Beyond loopback callers have to be known, by `auth` of the
    /// configuration, or --insecure-no-auth has to be given.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8000")]
    listen: SocketAddr,

    /// Where the fleet is kept: sqlite:PATH, or postgres://USER@HOST/NAME. One with a password is better named by the
    /// variable, so that it is not in the list of processes.
    #[arg(
        long,
        value_name = "URL",
        env = "BELLWETHER_DATABASE",
        hide_env_values = true,
        default_value = "sqlite:fleet.db"
    )]
    database: Database,

    /// The configuration: entities, auth, tenancy, limits. docs/fleet-api.md describes it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    common: CommonArgs,
}

/// What `run fleet-api` and `up` share.
#[derive(Debug, Clone, Args)]
pub(crate) struct CommonArgs {
    /// What the two conditions of a whole resource are called: Ready and Available, or as upstream has them Reconciled and
    /// LastKnownReconciled. Either is understood in searches.
    #[arg(long, value_name = "NAMES", value_enum, default_value_t = Names::Ready)]
    vocabulary: Names,

    /// Serve plain HTTP beyond loopback to callers who need not say who they are.
    #[arg(long)]
    insecure_no_auth: bool,
}

impl CommonArgs {
    pub(crate) fn vocabulary(&self) -> Vocabulary {
        match self.vocabulary {
            Names::Ready => Vocabulary::Ready,
            Names::Upstream => Vocabulary::Upstream,
        }
    }

    /// Refuses to serve strangers by mistake.
    pub(crate) fn check(&self, address: SocketAddr, flag: &str, authenticates: bool) -> anyhow::Result<()> {
        if address.ip().is_loopback() || authenticates || self.insecure_no_auth {
            return Ok(());
        }
        anyhow::bail!(
            "{flag} {address} can be reached from other machines, and callers need not say who they are: listen on \
             127.0.0.1, switch on `auth` in the configuration of `run fleet-api`, or accept it by --insecure-no-auth"
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Names {
    Ready,
    Upstream,
}

/// Where a fleet is kept.
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
            _ => Err("a database is sqlite:PATH or postgres://USER@HOST/NAME".to_owned()),
        }
    }
}

/// Without what may be a password.
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
    let config = read(arguments)?;
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
    serve_until_end(listener, routes, &shutdown);
    println!("The fleet API is up at http://{address}{}.", bellwether_fleet::kinds::BASE_PATH);

    stop.next().await;
    eprintln!("Stopping; press Ctrl-C again to stop at once.");
    tokio::select! {
        _ = tokio::time::timeout(STOP, shutdown.finish()) => {}
        () = stop.next() => {}
    }
    Ok(())
}

/// Serves until the end begins, and then finishes what was asked.
pub(crate) fn serve_until_end(listener: TcpListener, routes: Router, shutdown: &Shutdown) {
    let begun = shutdown.requested();
    shutdown.spawn(async move {
        if let Err(error) = axum::serve(listener, routes).with_graceful_shutdown(begun).await {
            tracing::error!(%error, "HTTP is not served any more");
        }
    });
}

fn read(arguments: &FleetApiArgs) -> anyhow::Result<Config> {
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
