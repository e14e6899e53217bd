//! Whether this process is the leader among its replicas. A standby may watch; it writes nothing.

use std::sync::Arc;

use kube::Client;
use tokio::sync::watch;

use crate::election::{Candidate, Election};
use crate::health::Health;
use crate::shutdown::Shutdown;

/// Whether this process is the leader. Clones share the same state.
#[derive(Clone, Debug)]
pub struct Leadership {
    leader: watch::Receiver<bool>,
    /// Keeps the channel open where there is no election.
    _always: Option<Arc<watch::Sender<bool>>>,
}

impl Leadership {
    /// This process is always the leader: it has no replicas.
    pub fn always() -> Self {
        let (sender, leader) = watch::channel(true);
        Self { leader, _always: Some(Arc::new(sender)) }
    }

    /// Leadership that the holder of the sender decides; not leader at first. It stays as it is when the sender is dropped.
    pub fn manual() -> (watch::Sender<bool>, Self) {
        let (sender, leader) = watch::channel(false);
        (sender, Self { leader, _always: None })
    }

    /// Leadership by election among all processes that name the same Lease. The Lease is released at the end of the
    /// shutdown, when no task acts as leader any more.
    pub fn elected(client: &Client, election: Election, shutdown: &Shutdown, health: &Health) -> Self {
        let (sender, leader) = watch::channel(false);
        let component =
            health.component(format!("leader election by Lease {}/{}", election.namespace, election.lease));
        let candidate = Candidate::new(client, election, sender, component);
        shutdown.spawn_last(candidate.run(shutdown.other_tasks_stopped()));
        Self { leader, _always: None }
    }

    /// Whether this process is the leader now.
    pub fn is_leader(&self) -> bool {
        *self.leader.borrow()
    }

    /// Resolves when this process is the leader.
    pub async fn acquired(&self) {
        self.becomes(true).await;
    }

    /// Resolves when this process is not the leader.
    pub async fn lost(&self) {
        self.becomes(false).await;
    }

    async fn becomes(&self, leader: bool) {
        let mut receiver = self.leader.clone();
        if receiver.wait_for(|now| *now == leader).await.is_err() && leader {
            // The election has ended, and this process did not win.
            std::future::pending::<()>().await;
        }
    }
}
