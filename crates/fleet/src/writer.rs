//! The single writer: commands are queued, and all that wait when a commit is done form the next batch. A thousand reports need only a
//! few commits, and each response is sent after its commit.

use std::sync::Arc;
use std::time::Duration;

use bellwether_clock::Clock;
use jiff::{Timestamp, Unit};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::decide::{Batch, Create, Patch, Refusal, Reported, Target};
use crate::kinds::Kinds;
use crate::resource::{Id, Report, Resource};
use crate::store::{Needs, Store, StoreError};

/// The maximum number of commands of a transaction.
const MAX_BATCH: usize = 256;
/// The maximum number of waiting commands.
const QUEUE_CAPACITY: usize = 4096;
/// How often a batch is attempted if another process causes conflicts.
const MAX_ATTEMPTS: usize = 5;
/// How long a command may wait in the queue and for its commit.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// A write.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Command {
    Create {
        create: Create,
        by: String,
    },
    Patch {
        target: Target,
        patch: Patch,
        by: String,
    },
    Delete {
        target: Target,
        by: String,
    },
    ForceDelete {
        target: Target,
    },
    Report {
        target: Target,
        report: Report,
    },
    /// Computes the conditions again, or completes a deletion that waits for nothing any more.
    Recompute {
        id: Id,
    },
}

impl Command {
    fn add_needs(&self, needs: &mut Needs) {
        let target = match self {
            Self::Recompute { id } => {
                needs.lineages.insert(*id);
                return;
            }
            Self::Create { create, .. } => {
                needs.lineages.extend(create.owner.as_ref().map(|owner| owner.id));
                needs.names.insert(create.name_key());
                return;
            }
            Self::Delete { target, .. } | Self::ForceDelete { target } => {
                needs.descendants.insert(target.id);
                target
            }
            Self::Patch { target, .. } | Self::Report { target, .. } => target,
        };
        needs.lineages.insert(target.id);
        needs.lineages.extend(target.owner.as_ref().map(|owner| owner.id));
    }

    fn apply(self, batch: &mut Batch<'_>) -> Result<Done, Refusal> {
        let resource = |resource| Done::Resource(Box::new(resource));
        match self {
            Self::Create { create, by } => batch.create(create, &by).map(resource),
            Self::Patch { target, patch, by } => batch.patch(&target, patch, &by).map(resource),
            Self::Delete { target, by } => batch.delete(&target, &by).map(resource),
            Self::ForceDelete { target } => batch.force_delete(&target).map(resource),
            Self::Report { target, report } => batch.report(&target, &report).map(Done::Reported),
            Self::Recompute { id } => {
                batch.settle_now(id);
                Ok(Done::Recomputed)
            }
        }
    }
}

/// The committed result of a command.
#[derive(Clone, Debug)]
pub enum Done {
    /// The resource after the command, or before its removal.
    Resource(Box<Resource>),
    /// The verdict on a report.
    Reported(Reported),
    /// The conditions follow the rules.
    Recomputed,
}

/// Why a command failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// The command violates a rule.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The database does not respond, or the queue is full.
    #[error("the database is not available")]
    Unavailable,
    /// The command took too long; it is unknown whether it was committed.
    #[error("the database did not respond in time")]
    TimedOut,
    /// The database failed.
    #[error("the database failed")]
    Failed,
}

type Outcome = Result<Done, WriteError>;
type Answer = oneshot::Sender<Outcome>;

/// The queue of the writer. Clones share it. The writer ends when the last clone is dropped and all commands are done.
#[derive(Clone, Debug)]
pub struct Writer {
    queue: mpsc::Sender<(Command, Answer)>,
}

impl Writer {
    /// Starts the writer of a store.
    pub fn start(store: Arc<dyn Store>, kinds: Arc<Kinds>, clock: Arc<dyn Clock>) -> (Self, JoinHandle<()>) {
        let (queue, mut commands) = mpsc::channel(QUEUE_CAPACITY);
        let task_state = WriterTask { store, kinds, clock };
        let task = tokio::spawn(async move {
            let mut waiting = Vec::with_capacity(MAX_BATCH);
            while commands.recv_many(&mut waiting, MAX_BATCH).await > 0 {
                task_state.write(std::mem::take(&mut waiting)).await;
            }
        });
        (Self { queue }, task)
    }

    /// Executes a command, and returns after its commit.
    pub async fn write(&self, command: Command) -> Result<Done, WriteError> {
        let (answer, done) = oneshot::channel();
        self.queue.try_send((command, answer)).map_err(|_| WriteError::Unavailable)?;
        match tokio::time::timeout(WRITE_TIMEOUT, done).await {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => Err(WriteError::Unavailable),
            Err(_) => Err(WriteError::TimedOut),
        }
    }
}

struct WriterTask {
    store: Arc<dyn Store>,
    kinds: Arc<Kinds>,
    clock: Arc<dyn Clock>,
}

impl WriterTask {
    async fn write(&self, mut batch: Vec<(Command, Answer)>) {
        let outcome = self.transact(&mut batch).await;
        // A command that the database rejects must not fail the others: repeat them one by one.
        if matches!(outcome, Err(StoreError::Failed(_))) && batch.len() > 1 {
            for command in batch {
                let mut single = vec![command];
                let outcome = self.transact(&mut single).await;
                respond(single, outcome);
            }
        } else {
            respond(batch, outcome);
        }
    }

    /// Executes the commands whose callers still wait. A caller that has given up may have retried elsewhere.
    async fn transact(&self, batch: &mut Vec<(Command, Answer)>) -> Result<Vec<Outcome>, StoreError> {
        let mut attempts = 1;
        loop {
            batch.retain(|(_, answer)| !answer.is_closed());
            match self.attempt(batch).await {
                Err(StoreError::Conflict(cause)) if attempts < MAX_ATTEMPTS => {
                    tracing::debug!(%cause, attempts, "conflict with another writer; retrying");
                    attempts += 1;
                }
                Err(error) => {
                    tracing::error!(%error, commands = batch.len(), "cannot write to the fleet database");
                    return Err(error);
                }
                done => return done,
            }
        }
    }

    async fn attempt(&self, commands: &[(Command, Answer)]) -> Result<Vec<Outcome>, StoreError> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let mut needs = Needs::default();
        commands.iter().for_each(|(command, _)| command.add_needs(&mut needs));
        let (transaction, loaded) = self.store.begin(&needs).await?;
        let mut batch = Batch::new(&self.kinds, loaded, microseconds(self.clock.now()));
        let outcomes = commands
            .iter()
            .map(|(command, _)| command.clone().apply(&mut batch).map_err(WriteError::Refused))
            .collect();
        let changes = batch.into_changes();
        if !changes.is_empty() {
            transaction.commit(&changes).await?;
        }
        Ok(outcomes)
    }
}

/// Sends each caller its outcome, or all callers the error.
fn respond(batch: Vec<(Command, Answer)>, outcomes: Result<Vec<Outcome>, StoreError>) {
    let outcomes = match outcomes {
        Ok(outcomes) => outcomes,
        Err(error) => batch.iter().map(|_| Err(write_error(&error))).collect(),
    };
    for ((_, answer), outcome) in batch.into_iter().zip(outcomes) {
        // The caller may have given up.
        let _ = answer.send(outcome);
    }
}

fn write_error(error: &StoreError) -> WriteError {
    match error {
        StoreError::Conflict(_) | StoreError::Unavailable(_) => WriteError::Unavailable,
        StoreError::Failed(_) => WriteError::Failed,
    }
}

/// A time in microseconds, which both databases store.
pub fn microseconds(instant: Timestamp) -> Timestamp {
    instant
        .round(jiff::TimestampRound::new().smallest(Unit::Microsecond).mode(jiff::RoundMode::Trunc))
        .unwrap_or(instant)
}
