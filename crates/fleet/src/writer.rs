//! The one who writes: commands queue up, and whoever waits when the last commit is done goes into the next. So a thousand
//! reports cost a few commits, each answered only after it is on disk.

use std::sync::Arc;
use std::time::Duration;

use bellwether_clock::Clock;
use jiff::{Timestamp, Unit};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::decide::{Batch, Create, Patch, Refusal, Reported, Target};
use crate::kinds::Kinds;
use crate::resource::{Report, Resource};
use crate::store::{Needs, Store, StoreError};

/// How many commands one transaction takes.
const BATCH: usize = 256;
/// How many commands may wait.
const QUEUE: usize = 4096;
/// How often a batch is tried again when another process was in the way.
const TRIES: usize = 5;
/// How long a command may wait for its turn and its commit.
const PATIENCE: Duration = Duration::from_secs(30);

/// What to write.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Command {
    Create { create: Create, by: String },
    Patch { target: Target, patch: Patch, by: String },
    Delete { target: Target, by: String },
    ForceDelete { target: Target },
    Report { target: Target, report: Report },
}

impl Command {
    fn add_needs(&self, needs: &mut Needs) {
        let target = match self {
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
        }
    }
}

/// What came of a command, on disk.
#[derive(Clone, Debug)]
pub enum Done {
    /// The resource as it is, or last was.
    Resource(Box<Resource>),
    /// What became of the report.
    Reported(Reported),
}

/// Why a command was not done.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// It may not be done.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The database does not answer, or too much waits for it.
    #[error("the database is not available")]
    Unavailable,
    /// It took too long; whether it was done is not known.
    #[error("the database did not answer in time")]
    TimedOut,
    /// The database failed.
    #[error("the database failed")]
    Failed,
}

type Outcome = Result<Done, WriteError>;
type Answer = oneshot::Sender<Outcome>;

/// Where commands are handed in. Clones hand in to the same writer, which ends when the last one is gone and everything
/// handed in is done.
#[derive(Clone, Debug)]
pub struct Writer {
    queue: mpsc::Sender<(Command, Answer)>,
}

impl Writer {
    /// Starts the writer of a store.
    pub fn start(store: Arc<dyn Store>, kinds: Arc<Kinds>, clock: Arc<dyn Clock>) -> (Self, JoinHandle<()>) {
        let (queue, mut commands) = mpsc::channel(QUEUE);
        let pen = Pen { store, kinds, clock };
        let task = tokio::spawn(async move {
            let mut waiting = Vec::with_capacity(BATCH);
            while commands.recv_many(&mut waiting, BATCH).await > 0 {
                pen.write(std::mem::take(&mut waiting)).await;
            }
        });
        (Self { queue }, task)
    }

    /// Does a command, and returns when it is on disk.
    pub async fn write(&self, command: Command) -> Result<Done, WriteError> {
        let (answer, done) = oneshot::channel();
        self.queue.try_send((command, answer)).map_err(|_| WriteError::Unavailable)?;
        match tokio::time::timeout(PATIENCE, done).await {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => Err(WriteError::Unavailable),
            Err(_) => Err(WriteError::TimedOut),
        }
    }
}

struct Pen {
    store: Arc<dyn Store>,
    kinds: Arc<Kinds>,
    clock: Arc<dyn Clock>,
}

impl Pen {
    async fn write(&self, mut batch: Vec<(Command, Answer)>) {
        let outcome = self.transact(&mut batch).await;
        // One command that the database cannot take must not take the others with it.
        if matches!(outcome, Err(StoreError::Failed(_))) && batch.len() > 1 {
            for alone in batch {
                let mut alone = vec![alone];
                let outcome = self.transact(&mut alone).await;
                answer(alone, outcome);
            }
        } else {
            answer(batch, outcome);
        }
    }

    /// Does what is still waited for: who has given up may have asked again elsewhere, and must not be surprised.
    async fn transact(&self, batch: &mut Vec<(Command, Answer)>) -> Result<Vec<Outcome>, StoreError> {
        let mut tries = 1;
        loop {
            batch.retain(|(_, answer)| !answer.is_closed());
            match self.attempt(batch).await {
                Err(StoreError::Conflict(words)) if tries < TRIES => {
                    tracing::debug!(%words, tries, "another writer was in the way; trying again");
                    tries += 1;
                }
                Err(error) => {
                    tracing::error!(%error, commands = batch.len(), "writing failed");
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

/// Answers everybody, each with their own outcome or all with the failure.
fn answer(batch: Vec<(Command, Answer)>, outcomes: Result<Vec<Outcome>, StoreError>) {
    let outcomes = match outcomes {
        Ok(outcomes) => outcomes,
        Err(error) => batch.iter().map(|_| Err(in_brief(&error))).collect(),
    };
    for ((_, answer), outcome) in batch.into_iter().zip(outcomes) {
        // Whoever asked may have gone.
        let _ = answer.send(outcome);
    }
}

fn in_brief(error: &StoreError) -> WriteError {
    match error {
        StoreError::Conflict(_) | StoreError::Unavailable(_) => WriteError::Unavailable,
        StoreError::Failed(_) => WriteError::Failed,
    }
}

/// An instant as databases keep it.
pub fn microseconds(instant: Timestamp) -> Timestamp {
    instant
        .round(jiff::TimestampRound::new().smallest(Unit::Microsecond).mode(jiff::RoundMode::Trunc))
        .unwrap_or(instant)
}
