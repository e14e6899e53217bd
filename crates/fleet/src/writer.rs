//! Writes commands in batches: commands are queued, and those that wait when a commit is done form the next batch. A thousand reports
//! need only a few commits, and each response is sent after its commit.

use std::sync::Arc;
use std::time::Duration;

use bellwether_clock::Clock;
use jiff::{Timestamp, Unit};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::decide::{Batch, Create, Patch, Refusal, Reported, Target};
use crate::kinds::Kinds;
use crate::resource::{Id, Report, Resource};
use crate::store::{Needs, Store, StoreError};

/// The maximum number of commands of a transaction.
const MAX_BATCH: usize = 256;
/// The maximum number of waiting commands.
const QUEUE_CAPACITY: usize = 4096;
/// How long a batch waits for the next commands of the callers that just got their responses.
const MAX_GATHER_DELAY: Duration = Duration::from_millis(2);
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
        let (queue, commands) = mpsc::channel(QUEUE_CAPACITY);
        let commands = Arc::new(Mutex::new(commands));
        let concurrency = store.concurrent_transactions();
        let state = Arc::new(WriterTask { store, kinds, clock });
        let task = tokio::spawn(async move {
            let mut lanes = JoinSet::new();
            for _ in 0..concurrency {
                lanes.spawn(write_batches(Arc::clone(&state), Arc::clone(&commands)));
            }
            lanes.join_all().await;
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

type Commands = mpsc::Receiver<(Command, Answer)>;

/// Writes one batch after the other until the queue is closed.
async fn write_batches(state: Arc<WriterTask>, commands: Arc<Mutex<Commands>>) {
    let mut answered = 0;
    loop {
        // Only one batch is gathered at a time; others are being written meanwhile.
        let batch = gather(&mut *commands.lock().await, answered).await;
        if batch.is_empty() {
            return;
        }
        answered = batch.len();
        state.write(batch).await;
    }
}

/// The commands of the next batch. Callers whose commands were just answered often send the next ones at once; without a short wait for
/// them, two groups of callers would take turns, and each commit would have only half of the commands.
async fn gather(commands: &mut Commands, answered: usize) -> Vec<(Command, Answer)> {
    let mut batch = Vec::with_capacity(MAX_BATCH);
    let expected = (commands.len() + answered).min(MAX_BATCH);
    commands.recv_many(&mut batch, MAX_BATCH).await;
    let deadline = Instant::now() + MAX_GATHER_DELAY;
    while !batch.is_empty() && batch.len() < expected {
        let left = MAX_BATCH - batch.len();
        let more = commands.recv_many(&mut batch, left);
        match tokio::time::timeout_at(deadline, more).await {
            Ok(received) if received > 0 => (),
            Ok(_) | Err(_) => break,
        }
    }
    batch
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

#[cfg(test)]
mod tests {
    use super::*;

    type Queue = mpsc::Sender<(Command, Answer)>;

    fn send(queue: &Queue, count: usize) {
        for _ in 0..count {
            let command = Command::Recompute { id: Id::default() };
            queue.try_send((command, oneshot::channel().0)).unwrap();
        }
    }

    /// Sends commands after a delay.
    fn send_later(queue: &Queue, delay: Duration, count: usize) {
        let queue = queue.clone();
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            send(&queue, count);
        });
    }

    #[tokio::test(start_paused = true)]
    async fn batch_waits_for_callers_that_were_just_answered() {
        let (queue, mut commands) = mpsc::channel(QUEUE_CAPACITY);
        send(&queue, 32);
        send_later(&queue, Duration::from_millis(1), 32);
        let started = Instant::now();
        assert_eq!(gather(&mut commands, 32).await.len(), 64);
        assert_eq!(started.elapsed(), Duration::from_millis(1), "it does not wait longer than it has to");
    }

    #[tokio::test(start_paused = true)]
    async fn batch_does_not_wait_for_callers_that_stay_away() {
        let (queue, mut commands) = mpsc::channel(QUEUE_CAPACITY);
        send(&queue, 3);
        let started = Instant::now();
        assert_eq!(gather(&mut commands, 60).await.len(), 3);
        assert!(started.elapsed() <= MAX_GATHER_DELAY + Duration::from_millis(1), "{:?}", started.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn single_caller_never_waits() {
        let (queue, mut commands) = mpsc::channel(QUEUE_CAPACITY);
        send_later(&queue, Duration::from_secs(1), 1);
        let started = Instant::now();
        assert_eq!(gather(&mut commands, 1).await.len(), 1);
        assert_eq!(started.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn batch_is_limited_and_an_idle_queue_ends_empty() {
        let (queue, mut commands) = mpsc::channel(QUEUE_CAPACITY);
        send(&queue, MAX_BATCH + 1);
        assert_eq!(gather(&mut commands, MAX_BATCH).await.len(), MAX_BATCH);
        assert_eq!(gather(&mut commands, 0).await.len(), 1);
        drop(queue);
        assert!(gather(&mut commands, 5).await.is_empty());
    }
}
