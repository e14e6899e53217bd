//! The server as its users hold it: built in memory or on disk, asked in process, served on a port, stopped.

use std::convert::Infallible;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bellwether_store::{Clock, OpenError, Options, Store};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use http::{Request, Response};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::answer::Caller;
use crate::audit::AuditLog;
use crate::authentication::{SigningKey, SigningKeyError};
use crate::body::Body;
use crate::compaction;
use crate::controllers::{self, Controllers};
use crate::identity::Identity;
use crate::names;
use crate::pki::Authority;
use crate::serve::{self, TlsSettings};
use crate::server::{HUB, Server};
use crate::status::Refusal;

/// How many logical clusters are set up at the same time.
const AT_ONCE: usize = 16;

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// A logical cluster cannot have this name.
    #[error(transparent)]
    Name(#[from] ClusterNameError),
    /// The audit log cannot be written.
    #[error("cannot open the audit log {path}: {source}")]
    AuditLog {
        /// Where it should be.
        path: PathBuf,
        /// Why it cannot be there.
        source: std::io::Error,
    },
    /// There is no key to sign tokens with.
    #[error(transparent)]
    SigningKey(#[from] SigningKeyError),
    /// The first objects of a logical cluster could not be written.
    #[error("the logical cluster {cluster} could not be set up: {refusal}")]
    Setup {
        /// Which one.
        cluster: String,
        /// What was answered.
        refusal: Refusal,
    },
}

/// A name that no logical cluster can have.
#[derive(Debug, thiserror::Error)]
#[error("{name:?} cannot be the name of a logical cluster: {problem}")]
pub struct ClusterNameError {
    name: String,
    problem: String,
}

/// How a server is to be.
pub struct Builder {
    directory: Option<PathBuf>,
    options: Options,
    controllers: Controllers,
    clusters: Vec<String>,
    ca_certificate: String,
    authority: Option<Authority>,
    signing_key: Option<SigningKey>,
    audit_log: Option<PathBuf>,
}

impl Builder {
    /// Which logical clusters to serve beside the hub.
    #[must_use]
    pub fn clusters(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.clusters.extend(names.into_iter().map(Into::into));
        self
    }

    /// Which of the server's own controllers run.
    #[must_use]
    pub fn controllers(mut self, controllers: Controllers) -> Self {
        self.controllers = controllers;
        self
    }

    /// The clock that everything goes by.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.options.clock = clock;
        self
    }

    /// How the store behaves; the clock is part of it.
    #[must_use]
    pub fn store_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// The certificate that `kube-root-ca.crt` holds.
    #[must_use]
    pub fn ca_certificate(mut self, pem: impl Into<String>) -> Self {
        self.ca_certificate = pem.into();
        self
    }

    /// The CA that signs certificates of clients; without one, requests for them stay unsigned.
    #[must_use]
    pub fn certificate_authority(mut self, authority: Authority) -> Self {
        self.authority = Some(authority);
        self
    }

    /// The key that signs the tokens of ServiceAccounts; without one, tokens end with the process.
    #[must_use]
    pub fn signing_key(mut self, key: SigningKey) -> Self {
        self.signing_key = Some(key);
        self
    }

    /// The file to which every request is written down, by whom and with what outcome; older ones stay beside it.
    #[must_use]
    pub fn audit_log(mut self, path: impl Into<PathBuf>) -> Self {
        self.audit_log = Some(path.into());
        self
    }

    /// Opens the store, sets up the logical clusters and starts the controllers.
    pub async fn start(self) -> Result<ApiServer, StartError> {
        let clock = self.options.clock.clone();
        let store = match self.directory {
            None => Store::in_memory(self.options),
            Some(directory) => {
                let options = self.options;
                // Recovery reads the whole log: that is no work for an async thread.
                tokio::task::spawn_blocking(move || Store::open(&directory, options)).await.map_err(
                    |error| OpenError::Io {
                        attempt: "open",
                        path: PathBuf::from("the store"),
                        source: std::io::Error::other(error),
                    },
                )??
            }
        };
        let signing_key = match self.signing_key {
            Some(key) => key,
            None => SigningKey::generate()?.0,
        };
        let (audit, auditing) = match &self.audit_log {
            None => (AuditLog::default(), None),
            Some(path) => {
                let (log, writing) = AuditLog::open(path)
                    .map_err(|source| StartError::AuditLog { path: path.clone(), source })?;
                (log, Some(writing))
            }
        };
        let server =
            Arc::new(Server::new(store, clock, self.ca_certificate, self.authority, signing_key, audit));
        let mut tasks = vec![
            tokio::spawn(controllers::run(server.clone(), self.controllers)),
            tokio::spawn(compaction::run(server.clone())),
        ];
        tasks.extend(auditing);
        let started = ApiServer { server, tasks: Arc::new(Tasks(tasks)) };
        started.add_cluster(HUB).await?;
        // Together, so that their first objects share syncs.
        let added = self.clusters.iter().map(|name| started.add_cluster(name));
        futures::stream::iter(added).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        Ok(started)
    }
}

/// Background tasks, which end with the last holder of the server.
struct Tasks(Vec<JoinHandle<()>>);

impl Drop for Tasks {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

/// A running API server. Cheap to clone; all clones are the same server.
#[derive(Clone)]
pub struct ApiServer {
    server: Arc<Server>,
    tasks: Arc<Tasks>,
}

impl ApiServer {
    /// A server that forgets everything when it ends. It spawns no thread, so a paused clock works.
    pub fn in_memory() -> Builder {
        Builder {
            directory: None,
            options: Options::default(),
            controllers: Controllers::all(),
            clusters: Vec::new(),
            ca_certificate: String::new(),
            authority: None,
            signing_key: None,
            audit_log: None,
        }
    }

    /// A server that keeps its objects in a directory.
    pub fn durable(directory: impl Into<PathBuf>) -> Builder {
        Builder { directory: Some(directory.into()), ..Self::in_memory() }
    }

    /// Serves one more logical cluster; one that is served already stays as it is.
    pub async fn add_cluster(&self, name: &str) -> Result<(), StartError> {
        if let Some(problem) = names::label(name).into_iter().next() {
            return Err(ClusterNameError { name: name.to_owned(), problem }.into());
        }
        if self.server.cluster(name).is_some() {
            return Ok(());
        }
        self.server
            .add_cluster(name)
            .await
            .map_err(|refusal| StartError::Setup { cluster: name.to_owned(), refusal })
    }

    /// The API of a logical cluster, as somebody, without TCP or TLS.
    pub fn service(&self, cluster: &str, identity: Identity) -> Service {
        Service { server: self.clone(), cluster: cluster.into(), identity: Some(identity) }
    }

    /// The API of a logical cluster for somebody who is known by what the request itself shows, or not at all.
    pub fn stranger(&self, cluster: &str) -> Service {
        Service { server: self.clone(), cluster: cluster.into(), identity: None }
    }

    /// A client of a logical cluster, as somebody, without TCP or TLS.
    pub fn client(&self, cluster: &str, identity: Identity) -> kube::Client {
        kube::Client::new(self.service(cluster, identity), "default")
    }

    /// Serves the API on a port, to whoever shows a certificate; returns when the server stops.
    pub async fn serve(&self, listener: TcpListener, settings: TlsSettings) {
        serve::serve(self.server.clone(), listener, settings).await;
    }

    /// Why nothing can be written at the moment, if that is so.
    pub fn trouble(&self) -> Option<String> {
        self.server.trouble()
    }

    /// Resolves when the store failed in a way from which only a restart recovers.
    pub async fn failed(&self) -> String {
        self.server.store.failed().await
    }

    /// Drops history up to the current revision, as time would: continuing from an older one is then refused.
    pub async fn compact_now(&self) {
        self.server.store.compact_to(self.server.store.revision()).await;
    }

    /// Stops taking requests and lets watches end; what was answered is on disk.
    pub async fn stop(&self) {
        self.server.close();
        for task in &self.tasks.0 {
            task.abort();
        }
        self.server.audit.close();
        self.server.store.close().await;
    }
}

/// The API of one logical cluster, as one identity: a tower service, and so a transport for `kube::Client`.
#[derive(Clone)]
pub struct Service {
    server: ApiServer,
    cluster: Arc<str>,
    identity: Option<Identity>,
}

impl<B> tower::Service<Request<B>> for Service
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { server, cluster, identity } = self.clone();
        let caller = Caller { identity, address: None };
        Box::pin(async move { Ok(server.server.clone().answer(&cluster, caller, request).await) })
    }
}
