//! The common part of `run hub`, `run agent` and `run collector`: binding the HTTP address, checking the CRDs, leader election,
//! and a clean stop. What runs is left to the roles.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bellwether_clock::SystemClock;
use bellwether_runtime::{Context, Election, Health, Leadership, Metrics, Shutdown, http};
use kube::Resource;
use kube::api::{Api, ListParams};
use serde::de::DeserializeOwned;
use tokio::net::TcpListener;

use crate::signals::StopSignals;
use crate::target::Target;

/// How long a clean stop may take.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the API server may take to respond to the first request.
const FIRST_RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);

/// The settings of a role, from its arguments.
pub(crate) struct Role<'a> {
    /// The name in messages; the leader-election Lease is `bellwether-<name>`.
    pub(crate) name: &'static str,
    /// The address for plain HTTP.
    pub(crate) listen: SocketAddr,
    /// Whether replicas elect a leader.
    pub(crate) leader_election: bool,
    /// The name of the cluster in logs and metrics.
    pub(crate) cluster: &'a str,
}

/// What a role reports about itself, and how it stops.
#[derive(Default)]
pub(crate) struct Process {
    pub(crate) health: Health,
    pub(crate) metrics: Metrics,
    pub(crate) shutdown: Shutdown,
}

impl Role<'_> {
    /// Runs the controllers that `start` starts until a signal arrives. The cluster must serve `K`: if it does not, the CRDs are
    /// not installed.
    pub(crate) async fn serve<K>(&self, target: Target, start: impl FnOnce(&Context)) -> anyhow::Result<()>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        let mut stop = StopSignals::listen()?;
        let listener = self.bind().await?;
        tokio::select! {
            checked = check_crds::<K>(&target) => checked?,
            () = stop.next() => return Ok(()),
        }
        let context = self.context(&target);
        start(&context);
        let process =
            Process { health: context.health, metrics: context.metrics, shutdown: context.shutdown };
        self.serve_until_stopped(listener, stop, process, &target).await
    }

    /// Runs what `start` starts until a signal arrives. It needs no cluster; `subject` names what it works on.
    pub(crate) async fn serve_process(
        &self,
        subject: &str,
        start: impl FnOnce(&Process) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let stop = StopSignals::listen()?;
        let listener = self.bind().await?;
        let process = Process::default();
        start(&process)?;
        self.serve_until_stopped(listener, stop, process, &subject).await
    }

    async fn bind(&self) -> anyhow::Result<TcpListener> {
        TcpListener::bind(self.listen).await.with_context(|| {
            format!("cannot listen on {}; choose another address with --listen", self.listen)
        })
    }

    async fn serve_until_stopped(
        &self,
        listener: TcpListener,
        mut stop: StopSignals,
        process: Process,
        subject: &dyn std::fmt::Display,
    ) -> anyhow::Result<()> {
        let address = listener.local_addr()?;
        println!("The {} of {subject} is up; http://{address} has /readyz and /metrics.", self.name);
        let routes = http::routes(process.health, process.metrics);
        tokio::spawn(async move { axum::serve(listener, routes).await });

        stop.next().await;
        eprintln!("Stopping; press Ctrl-C again to stop at once.");
        tokio::select! {
            _ = tokio::time::timeout(STOP_TIMEOUT, process.shutdown.finish()) => {}
            () = stop.next() => {}
        }
        Ok(())
    }

    fn context(&self, target: &Target) -> Context {
        let (shutdown, health) = (Shutdown::default(), Health::default());
        let leadership = if self.leader_election {
            let election = Election {
                namespace: target.client.default_namespace().to_owned(),
                lease: format!("bellwether-{}", self.name),
                identity: self.identity(),
            };
            Leadership::elected(&target.client, election, &shutdown, &health)
        } else {
            Leadership::always()
        };
        Context {
            client: target.client.clone(),
            cluster: self.cluster.into(),
            clock: Arc::new(SystemClock),
            leadership,
            metrics: Metrics::default(),
            health,
            shutdown,
        }
    }

    /// An identity that no other replica has: host name, process and a random part.
    pub(crate) fn identity(&self) -> String {
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| self.name.to_owned());
        format!("{host}-{:08x}", rand::random::<u32>())
    }
}

/// Fails at once if the CRDs are not installed. Controllers would only retry their watches.
async fn check_crds<K>(target: &Target) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let objects: Api<K> = Api::all(target.client.clone());
    let one = ListParams::default().limit(1);
    let listed = tokio::time::timeout(FIRST_RESPONSE_TIMEOUT, objects.list(&one)).await;
    let (plural, group) = (K::plural(&()), K::group(&()));
    let Ok(listed) = listed else {
        anyhow::bail!("no response from {target} within {FIRST_RESPONSE_TIMEOUT:?}; is the cluster running?");
    };
    match listed {
        Ok(_) => Ok(()),
        // The status code decides: for an unknown group the body is plain text, without a reason.
        Err(kube::Error::Api(status)) if status.code == 404 => anyhow::bail!(
            "{target} does not serve {plural}.{group}: the CRDs are not installed; run `bellwether crds --install`"
        ),
        Err(error) => Err(target.explain(&format!("list {plural}"), error)),
    }
}
