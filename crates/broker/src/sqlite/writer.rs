//! The thread that writes. Operations that wait at the same time share one transaction, and so one flush of the disk.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use bellwether_clock::Clock;
use parking_lot::Mutex;
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

use super::connection::Location;
use super::statements::{Millis, SubscriptionId};
use crate::BrokerError;

/// The number of operations that wait for the thread. Further ones wait for a permit.
const MAX_WAITING_JOBS: usize = 4_096;
/// The number of operations in one transaction, so that its duration is bounded.
const MAX_JOBS_PER_TRANSACTION: usize = 512;
/// How long an operation may take, with its wait.
const JOB_TIMEOUT: Duration = Duration::from_secs(30);
/// How often the changes of other processes are looked for.
const OTHER_PROCESSES_PERIOD: Duration = Duration::from_millis(200);

/// Whether a change must survive a loss of power. Every change survives the end of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// The disk is flushed before the operation returns.
    Durable,
    /// A loss of power may undo it, which only repeats a delivery.
    Repeatable,
}

/// What an operation returns, and the subscriptions whose subscribers it wakes after the commit.
pub(super) struct Done<T> {
    pub(super) value: T,
    pub(super) wake: Vec<SubscriptionId>,
}

impl<T> Done<T> {
    pub(super) fn new(value: T) -> Self {
        Self { value, wake: Vec::new() }
    }
}

/// Answers the caller of an operation, after its transaction was committed or failed.
type Finish = Box<dyn FnOnce(Result<(), BrokerError>) + Send>;
type Run = Box<dyn FnOnce(&Connection, Millis) -> rusqlite::Result<Finish> + Send>;

struct Job {
    durability: Durability,
    run: Run,
    /// Answers if `run` did not return a [`Finish`].
    fail: Box<dyn FnOnce(BrokerError) + Send>,
    _permit: Option<OwnedSemaphorePermit>,
}

/// The subscribers that wait, by subscription.
#[derive(Default)]
pub(super) struct Wakers {
    waiting: Mutex<HashMap<SubscriptionId, Arc<Notify>>>,
}

impl Wakers {
    pub(super) fn of(&self, subscription: SubscriptionId) -> Arc<Notify> {
        Arc::clone(self.waiting.lock().entry(subscription).or_default())
    }

    fn wake(&self, subscriptions: &[SubscriptionId]) {
        let waiting = self.waiting.lock();
        for notify in subscriptions.iter().filter_map(|subscription| waiting.get(subscription)) {
            notify.notify_waiters();
        }
    }

    fn wake_all(&self) {
        self.waiting.lock().values().for_each(|notify| notify.notify_waiters());
    }
}

/// Sends operations to the thread, which ends when the last handle is gone.
#[derive(Clone)]
pub(super) struct Writer {
    location: Location,
    jobs: Sender<Job>,
    permits: Arc<Semaphore>,
    wakers: Arc<Wakers>,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(
        connection: Connection,
        location: Location,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, BrokerError> {
        let (jobs, receiver) = std::sync::mpsc::channel();
        let wakers = Arc::new(Wakers::default());
        let thread =
            WriterThread { connection, location: location.clone(), clock, wakers: Arc::clone(&wakers) };
        let spawned =
            std::thread::Builder::new().name("queue-writer".to_owned()).spawn(|| thread.run(receiver));
        spawned.map_err(|error| location.unreachable(error))?;
        Ok(Self { location, jobs, permits: Arc::new(Semaphore::new(MAX_WAITING_JOBS)), wakers })
    }

    pub(super) fn location(&self) -> &Location {
        &self.location
    }

    pub(super) fn wakers(&self) -> &Wakers {
        &self.wakers
    }

    /// Runs an operation in a transaction, and returns after the commit. An operation whose caller is gone runs nevertheless.
    pub(super) async fn run<T, F>(&self, durability: Durability, work: F) -> Result<T, BrokerError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, Millis) -> rusqlite::Result<Done<T>> + Send + 'static,
    {
        let answered = async {
            let receiver = self.submit(durability, work, |_, _| ()).await?;
            receiver.await.unwrap_or_else(|_| Err(self.location.unreachable("the writer thread has ended")))
        };
        let timed_out = |_| self.location.unreachable(format!("no answer within {JOB_TIMEOUT:?}"));
        tokio::time::timeout(JOB_TIMEOUT, answered).await.map_err(timed_out)?
    }

    /// Sends an operation. `unclaimed` gets a value whose receiver is gone.
    pub(super) async fn submit<T, F, U>(
        &self,
        durability: Durability,
        work: F,
        unclaimed: U,
    ) -> Result<oneshot::Receiver<Result<T, BrokerError>>, BrokerError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, Millis) -> rusqlite::Result<Done<T>> + Send + 'static,
        U: FnOnce(&Self, T) + Send + 'static,
    {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|error| self.location.unreachable(error))?;
        Ok(self.send(durability, work, unclaimed, Some(permit)))
    }

    /// Sends an operation whose result nobody needs, without waiting for a permit. The caller bounds their number.
    pub(super) fn send_detached<F>(&self, work: F)
    where
        F: FnOnce(&Connection, Millis) -> rusqlite::Result<Done<()>> + Send + 'static,
    {
        self.send(Durability::Repeatable, work, |_, ()| (), None);
    }

    fn send<T, F, U>(
        &self,
        durability: Durability,
        work: F,
        unclaimed: U,
        permit: Option<OwnedSemaphorePermit>,
    ) -> oneshot::Receiver<Result<T, BrokerError>>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, Millis) -> rusqlite::Result<Done<T>> + Send + 'static,
        U: FnOnce(&Self, T) + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let sender = Arc::new(Mutex::new(Some(sender)));
        let (failed, writer) = (Arc::clone(&sender), self.clone());
        let run: Run = Box::new(move |connection, now| {
            let Done { value, wake } = work(connection, now)?;
            let finish: Finish = Box::new(move |committed| {
                if committed.is_ok() {
                    writer.wakers.wake(&wake);
                }
                let Some(sender) = sender.lock().take() else { return };
                if let Err(Ok(value)) = sender.send(committed.map(|()| value)) {
                    unclaimed(&writer, value);
                }
            });
            Ok(finish)
        });
        let fail = Box::new(move |error| {
            if let Some(sender) = failed.lock().take() {
                // A caller that is gone needs no answer.
                let _ = sender.send(Err(error));
            }
        });
        // A thread that has ended drops the job, and with it the sender of the answer.
        let _ = self.jobs.send(Job { durability, run, fail, _permit: permit });
        receiver
    }
}

struct WriterThread {
    connection: Connection,
    location: Location,
    clock: Arc<dyn Clock>,
    wakers: Arc<Wakers>,
}

impl WriterThread {
    fn run(mut self, jobs: Receiver<Job>) {
        let (mut looked, mut version) = (Instant::now(), self.data_version());
        loop {
            match jobs.recv_timeout(OTHER_PROCESSES_PERIOD) {
                Ok(first) => {
                    let mut batch = vec![first];
                    batch.extend(jobs.try_iter().take(MAX_JOBS_PER_TRANSACTION - 1));
                    self.run_transaction(batch);
                }
                Err(RecvTimeoutError::Timeout) => (),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if looked.elapsed() >= OTHER_PROCESSES_PERIOD {
                let current = self.data_version();
                if current != version {
                    self.wakers.wake_all();
                }
                (looked, version) = (Instant::now(), current);
            }
        }
    }

    /// A number that changes with the commits of other connections.
    fn data_version(&self) -> Option<i64> {
        self.connection.pragma_query_value(None, "data_version", |row| row.get(0)).ok()
    }

    /// Runs operations in one transaction. If one fails, all of them fail and change nothing.
    fn run_transaction(&mut self, jobs: Vec<Job>) {
        let now = self.clock.now().as_millisecond();
        let is_durable = jobs.iter().any(|job| job.durability == Durability::Durable);
        let (mut runs, mut fails, mut permits) = (Vec::new(), Vec::new(), Vec::new());
        for Job { run, fail, _permit, .. } in jobs {
            runs.push(run);
            fails.push(fail);
            permits.push(_permit);
        }
        let (mut finishes, outcome) = self.commit(runs, now, is_durable);
        match outcome {
            Ok(()) => finishes.drain(..).for_each(|finish| finish(Ok(()))),
            Err(error) => {
                let error = Arc::new(error);
                for fail in fails {
                    fail(self.copy_of(&error));
                }
            }
        }
    }

    fn commit(
        &mut self,
        runs: Vec<Run>,
        now: Millis,
        is_durable: bool,
    ) -> (Vec<Finish>, rusqlite::Result<()>) {
        let mut finishes = Vec::with_capacity(runs.len());
        let outcome = (|| {
            let synchronous = if is_durable { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", synchronous)?;
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for run in runs {
                finishes.push(run(&transaction, now)?);
            }
            transaction.commit()
        })();
        (finishes, outcome)
    }

    /// The error for one of several callers.
    fn copy_of(&self, error: &rusqlite::Error) -> BrokerError {
        match error {
            rusqlite::Error::SqliteFailure(code, message) => {
                self.location.error(rusqlite::Error::SqliteFailure(*code, message.clone()))
            }
            other => self.location.rejected("an operation", &other.to_string()),
        }
    }
}
