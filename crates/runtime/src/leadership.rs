//! Which of several copies of a process acts. Copies that stand by may watch, so that they know when their time comes;
//! they write nothing.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube_lease_manager::{LeaseManager, LeaseManagerBuilder, LeaseManagerError};
use tokio::sync::watch;

use crate::backoff::Growth;
use crate::shutdown::Shutdown;

/// How long a leader that is not heard of keeps its place.
const TERM: Duration = Duration::from_secs(15);
/// How long before its end a term is renewed, and by how much clocks may differ.
const GRACE: Duration = Duration::from_secs(5);
/// How long it may take to let go of the lease at the end.
const RELEASE: Duration = Duration::from_secs(2);
/// How long to wait after elections failed.
const TROUBLE: Growth = Growth { first: Duration::from_secs(1), most: Duration::from_secs(10) };

/// Whether this process acts. Clones see the same.
#[derive(Clone, Debug)]
pub struct Leadership {
    held: watch::Receiver<bool>,
    /// Without elections nobody else keeps the channel open.
    _alone: Option<Arc<watch::Sender<bool>>>,
}

/// Where an election is held.
#[derive(Clone, Debug)]
pub struct Election {
    /// The namespace of the lease.
    pub namespace: String,
    /// The name of the lease.
    pub lease: String,
    /// This candidate, unlike all others.
    pub candidate: String,
}

impl Leadership {
    /// Of a process that is the only one.
    pub fn alone() -> Self {
        let (sender, held) = watch::channel(true);
        Self { held, _alone: Some(Arc::new(sender)) }
    }

    /// As somebody else decides and tells, by the sender: false at first. When that is dropped, it stays as it is.
    pub fn by_hand() -> (watch::Sender<bool>, Self) {
        let (sender, held) = watch::channel(false);
        (sender, Self { held, _alone: None })
    }

    /// By election among all who want the same lease, from now to the shutdown, at which it is let go.
    pub fn elected(client: Client, election: Election, shutdown: &Shutdown) -> Self {
        let (sender, held) = watch::channel(false);
        let end = shutdown.begun();
        shutdown.spawn(async move { campaign(client, election, sender, end).await });
        Self { held, _alone: None }
    }

    /// Whether this process acts now.
    pub fn is_held(&self) -> bool {
        *self.held.borrow()
    }

    /// Resolves when this process acts.
    pub async fn held(&self) {
        self.becomes(true).await;
    }

    /// Resolves when this process does not act.
    pub async fn lost(&self) {
        self.becomes(false).await;
    }

    async fn becomes(&self, wanted: bool) {
        let mut held = self.held.clone();
        if held.wait_for(|held| *held == wanted).await.is_err() && wanted {
            // The elections are over, and we are not the one.
            std::future::pending::<()>().await;
        }
    }
}

async fn campaign(
    client: Client,
    election: Election,
    sender: watch::Sender<bool>,
    end: impl Future<Output = ()>,
) {
    let mut end = std::pin::pin!(end);
    let mut failures = 0;
    loop {
        let manager = match stand(&client, &election).await {
            Ok(manager) => manager,
            Err(error) => {
                failures += 1;
                tracing::warn!("no election by the lease {}/{}: {error}", election.namespace, election.lease);
                tokio::select! {
                    () = tokio::time::sleep(TROUBLE.wait(failures, rand::random())) => continue,
                    () = &mut end => return,
                }
            }
        };
        let error = tokio::select! {
            error = hold(&manager, &election, &sender) => error,
            () = &mut end => {
                let _ = sender.send(false);
                let _ = tokio::time::timeout(RELEASE, manager.release()).await;
                return;
            }
        };
        // Whether others have taken our place cannot be known: not to act is what does no harm.
        let _ = sender.send(false);
        failures = 1;
        tracing::warn!("this process stands back, as the lease {} is out of reach: {error}", election.lease);
        tokio::select! {
            () = tokio::time::sleep(TROUBLE.wait(failures, rand::random())) => {}
            () = &mut end => return,
        }
    }
}

async fn stand(client: &Client, election: &Election) -> Result<LeaseManager, LeaseManagerError> {
    LeaseManagerBuilder::new(client.clone(), &election.lease)
        .with_namespace(&election.namespace)
        .with_identity(&election.candidate)
        .with_duration(TERM.as_secs())
        .with_grace(GRACE.as_secs())
        .build()
        .await
}

/// Tells what becomes of the lease, until it cannot be known.
async fn hold(
    manager: &LeaseManager,
    election: &Election,
    sender: &watch::Sender<bool>,
) -> LeaseManagerError {
    loop {
        match manager.changed().await {
            Ok(held) => {
                let Election { candidate, lease, .. } = election;
                let verb = if held { "leads" } else { "stands by" };
                tracing::info!("{candidate} {verb}, by the lease {lease}");
                let _ = sender.send(held);
            }
            Err(error) => return error,
        }
    }
}
