//! What the roles have in common that run controllers on a cluster of real Kubernetes: where they are asked, which of
//! several copies acts, and how they begin and end.

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
const STOP: Duration = Duration::from_secs(5);
/// How long the first answer may take.
const FIRST_ANSWER: Duration = Duration::from_secs(15);

/// A role as its arguments describe it.
pub(crate) struct Role<'a> {
    /// What people call it, and the lease by which its copies agree on one: `bellwether-<name>`.
    pub(crate) name: &'static str,
    /// Where plain HTTP listens.
    pub(crate) listen: SocketAddr,
    /// Whether copies agree on one that acts.
    pub(crate) leader_election: bool,
    /// What the cluster is called in logs and metrics.
    pub(crate) cluster: &'a str,
}

impl Role<'_> {
    /// Runs what `start` starts until a signal ends it. The cluster must serve `K`, as a sign that it has our definitions.
    pub(crate) async fn serve<K>(&self, target: Target, start: impl FnOnce(&Context)) -> anyhow::Result<()>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        let mut stop = StopSignals::listen()?;
        let listener = TcpListener::bind(self.listen).await.with_context(|| {
            format!("cannot listen on {}; choose another address with --listen", self.listen)
        })?;
        tokio::select! {
            checked = check_definitions::<K>(&target) => checked?,
            () = stop.next() => return Ok(()),
        }
        let context = self.context(&target);
        start(&context);
        let address = listener.local_addr()?;
        println!("The {} of {target} is up; http://{address} has /readyz and /metrics.", self.name);
        let routes = http::routes(context.health.clone(), context.metrics.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });

        stop.next().await;
        eprintln!("Stopping; press Ctrl-C again to stop at once.");
        tokio::select! {
            _ = tokio::time::timeout(STOP, context.shutdown.finish()) => {}
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
    fn identity(&self) -> String {
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| self.name.to_owned());
        format!("{host}-{:08x}", rand::random::<u32>())
    }
}

/// Controllers would wait for ever for kinds that nobody serves; a person had better know at once.
async fn check_definitions<K>(target: &Target) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let objects: Api<K> = Api::all(target.client.clone());
    let one = ListParams::default().limit(1);
    let listed = tokio::time::timeout(FIRST_ANSWER, objects.list(&one)).await;
    let (plural, group) = (K::plural(&()), K::group(&()));
    let Ok(listed) = listed else {
        anyhow::bail!("no answer from {target} within {FIRST_ANSWER:?}; is the cluster running?");
    };
    match listed {
        Ok(_) => Ok(()),
        // By its code: a server that does not know the group answers in plain text, without a reason.
        Err(kube::Error::Api(status)) if status.code == 404 => anyhow::bail!(
            "{target} does not serve {plural}.{group}; install our definitions there with `bellwether crds --install`"
        ),
        Err(error) => Err(target.explain(&format!("list {plural}"), error)),
    }
}
