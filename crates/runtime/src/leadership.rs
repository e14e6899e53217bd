//! Which of several copies of a process acts. Copies that stand by may watch, so that they know when their time comes;
//! they write nothing.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube_lease_manager::{LeaseManager, LeaseManagerBuilder, LeaseManagerError};
use tokio::sync::watch;

use crate::backoff::Growth;
use crate::bound::within;
use crate::health::{Health, Part, answer_in_words};
use crate::shutdown::Shutdown;

/// How long a leader that is not heard of keeps its place.
const TERM: Duration = Duration::from_secs(15);
/// How long before its end a term is renewed, and by how much clocks may differ.
const GRACE: Duration = Duration::from_secs(5);
/// How long to wait for an answer: a leader that cannot renew its term has to know before others take its place.
const ANSWER: Duration = Duration::from_secs(3);
/// How long it may take to let go of the lease at the end.
const RELEASE: Duration = Duration::from_secs(2);
/// After which time without an error an election counts as under way.
const SETTLED: Duration = Duration::from_secs(2);
/// How long to wait after elections failed.
const TROUBLE: Growth = Growth { first: Duration::from_secs(1), most: Duration::from_secs(30) };

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

    /// By election among all who want the same lease, from now to the end of the shutdown, at which it is let go.
    pub fn elected(client: Client, election: Election, shutdown: &Shutdown, health: &Health) -> Self {
        let (sender, held) = watch::channel(false);
        let part = health.part(format!("election by the lease {}/{}", election.namespace, election.lease));
        let client = within(ANSWER, &client);
        let campaign = Campaign { client, election, held: sender, part, failures: 0 };
        // Held until nobody acts by it any more: else another copy would, beside what is being finished here.
        shutdown.spawn_last(campaign.run(shutdown.all_others_finished()));
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

/// What an election needs, from the first attempt to the end of the process.
struct Campaign {
    client: Client,
    election: Election,
    held: watch::Sender<bool>,
    part: Part,
    /// Attempts that failed in a row.
    failures: u32,
}

impl Campaign {
    async fn run(mut self, end: impl Future<Output = ()>) {
        let mut end = std::pin::pin!(end);
        loop {
            tokio::select! {
                () = self.attempt() => {}
                () = &mut end => break,
            }
        }
        self.resign().await;
    }

    /// Stands for election, and stays in it until it cannot be known how that goes.
    async fn attempt(&mut self) {
        let error = match stand(&self.client, &self.election).await {
            Ok(manager) => self.stay(&manager).await,
            Err(error) => error,
        };
        // Whether others have taken our place cannot be known: not to act is what does no harm.
        let _ = self.held.send(false);
        let error = in_words(&error);
        self.failures = self.failures.saturating_add(1);
        let wait = TROUBLE.wait(self.failures, rand::random());
        let Election { namespace, lease, .. } = &self.election;
        tracing::warn!(
            "this process stands back, as there is no election by the lease {namespace}/{lease}: {error}; again in {:.0} s",
            wait.as_secs_f64()
        );
        self.part.trouble(error);
        tokio::time::sleep(wait).await;
    }

    /// Tells what becomes of the lease, until it is out of reach.
    async fn stay(&mut self, manager: &LeaseManager) -> LeaseManagerError {
        loop {
            let mut changed = std::pin::pin!(manager.changed());
            let changed = match tokio::time::timeout(SETTLED, &mut changed).await {
                Ok(changed) => changed,
                // Somebody leads, and nothing is wrong with that.
                Err(_) => {
                    self.is_well();
                    changed.await
                }
            };
            match changed {
                Ok(held) => {
                    self.is_well();
                    let Election { candidate, lease, .. } = &self.election;
                    let verb = if held { "leads" } else { "stands by" };
                    tracing::info!("{candidate} {verb}, by the lease {lease}");
                    let _ = self.held.send(held);
                }
                Err(error) => return error,
            }
        }
    }

    fn is_well(&mut self) {
        self.failures = 0;
        self.part.well();
    }

    /// Lets go of the lease, so that nobody has to wait for the end of the term.
    async fn resign(self) {
        let led = self.held.send_replace(false);
        if !led {
            return;
        }
        let released = async {
            let manager = stand(&self.client, &self.election).await?;
            manager.release().await
        };
        let _ = tokio::time::timeout(RELEASE, released).await;
    }
}

/// Why there is no election, in one line.
fn in_words(error: &LeaseManagerError) -> String {
    match error {
        LeaseManagerError::KubeError(kube::Error::Api(status)) if status.code == 415 => {
            "the API knows no server-side apply, which elections need; where there is one copy, switch them off".to_owned()
        }
        LeaseManagerError::KubeError(kube::Error::Api(status)) => answer_in_words(status),
        other => other.to_string(),
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
