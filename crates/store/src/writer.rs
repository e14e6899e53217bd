//! The thread that makes writes durable: it drains the queue into a batch, has the ledger plan it, commits it
//! in one transaction with one sync, publishes it and answers. It also turns disk faults into health.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};

use crate::{
    Clock, CommitError, Entry, Health, Options, Revision, Write,
    disk::{Disk, DiskError},
    files::DataDir,
    ledger::Ledger,
    medium::{Fault, Medium},
    reserve::Reserve,
    shared::Shared,
};

const BATCH_WRITES: usize = 256;
const BATCH_BYTES: usize = 1 << 20;
/// How many events end per transaction, so that writes do not wait for a long compaction.
const COMPACTED_AT_ONCE: usize = 1024;
/// How often commits may look whether a full disk has room again.
const RETRY_MILLIS: u64 = 1000;

pub(crate) type Outcome<F> = Result<Arc<Entry<F>>, CommitError<F>>;

pub(crate) enum Request<F> {
    Write { write: Write, answer: oneshot::Sender<Outcome<F>> },
    Compact { goal: Goal, answer: oneshot::Sender<()> },
    Close { answer: oneshot::Sender<()> },
}

/// How much history should end.
pub(crate) enum Goal {
    /// What is older than the history should reach.
    Aged,
    /// Everything up to a revision.
    To(Revision),
}

impl Goal {
    pub(crate) fn revision<F>(&self, ledger: &Ledger<F>) -> Revision {
        match self {
            Self::Aged => ledger.aged(),
            Self::To(at) => ledger.known().min(*at),
        }
    }
}

pub(crate) struct Writer<F> {
    ledger: Ledger<F>,
    shared: Arc<Shared<F>>,
    clock: Arc<dyn Clock>,
    quick_repair: bool,
    mode: Mode,
    medium: Arc<Medium>,
    reserve: Option<Reserve>,
    compaction: Compaction,
    /// Let go after the database, and before those who wait for the end of the requests hear of it.
    _data_dir: Option<DataDir>,
    requests: mpsc::Receiver<Request<F>>,
}

enum Mode {
    Serving(Disk),
    Full { reason: String, tried: Timestamp },
    Failed { reason: String },
}

#[derive(Default)]
struct Compaction {
    goal: Revision,
    waiting: Vec<oneshot::Sender<()>>,
}

struct Batch<F> {
    writes: Vec<Write>,
    answers: Vec<oneshot::Sender<Outcome<F>>>,
    bytes: usize,
    compactions: Vec<(Goal, oneshot::Sender<()>)>,
    close: Option<oneshot::Sender<()>>,
}

impl<F: Send + Sync + 'static> Writer<F> {
    pub(crate) fn new(
        ledger: Ledger<F>,
        shared: Arc<Shared<F>>,
        disk: Disk,
        medium: Arc<Medium>,
        requests: mpsc::Receiver<Request<F>>,
        options: &Options,
    ) -> Self {
        Self {
            ledger,
            shared,
            clock: options.clock.clone(),
            quick_repair: options.quick_repair,
            mode: Mode::Serving(disk),
            medium,
            reserve: None,
            compaction: Compaction::default(),
            _data_dir: None,
            requests,
        }
    }

    /// Keeps the lock of the data directory, and a reserve in it.
    pub(crate) fn with_data_dir(mut self, data_dir: DataDir, reserve: Reserve) -> Self {
        self._data_dir = Some(data_dir);
        if let Err(error) = reserve.secure() {
            let (Fault::Full(reason) | Fault::Broken(reason)) = Fault::from(&error);
            self.turn_read_only(format!("no disk space could be set aside: {reason}"));
        }
        self.reserve = Some(reserve);
        self
    }

    pub(crate) fn run(mut self) {
        while let Some(mut batch) = self.collect() {
            let close = batch.close.take();
            self.turn(batch);
            if let Some(answer) = close {
                drop(self);
                // The one who asked may be gone.
                let _ = answer.send(());
                return;
            }
        }
    }

    /// Waits for requests; `None` when nobody can send any more.
    fn collect(&mut self) -> Option<Batch<F>> {
        let mut batch = Batch::new();
        if self.compaction.is_done() {
            batch.add(self.requests.blocking_recv()?);
        }
        while batch.has_room()
            && let Ok(request) = self.requests.try_recv()
        {
            batch.add(request);
        }
        Some(batch)
    }

    fn turn(&mut self, mut batch: Batch<F>) {
        let asked_to_compact = !batch.compactions.is_empty();
        if let Mode::Full { tried, .. } = &self.mode
            && (asked_to_compact || self.is_retry_due(*tried))
        {
            self.reopen();
        }
        for (goal, answer) in batch.compactions.drain(..) {
            self.compaction.goal = self.compaction.goal.max(goal.revision(&self.ledger));
            self.compaction.waiting.push(answer);
        }

        let Mode::Serving(disk) = &mut self.mode else {
            return self.refuse(batch);
        };
        let plan = self.ledger.plan(&batch.writes, self.compaction.goal, COMPACTED_AT_ONCE);
        if !plan.events.is_empty() || self.ledger.compacts(&plan) {
            match disk.commit(&self.ledger, &plan) {
                Ok(()) => self.ledger.apply(&plan),
                Err(fault) => {
                    self.suffer(fault);
                    return self.refuse(batch);
                }
            }
        }
        for (answer, outcome) in batch.answers.into_iter().zip(plan.outcomes) {
            let _ = answer.send(outcome);
        }
        self.compaction.settle(self.shared.compacted());
    }

    fn is_retry_due(&self, tried: Timestamp) -> bool {
        self.clock.now().as_millisecond().abs_diff(tried.as_millisecond()) >= RETRY_MILLIS
    }

    fn refuse(&mut self, batch: Batch<F>) {
        let (Mode::Full { reason, .. } | Mode::Failed { reason }) = &self.mode else { return };
        for answer in batch.answers {
            let _ = answer.send(Err(CommitError::ReadOnly { reason: reason.clone() }));
        }
        self.compaction = Compaction::default();
    }

    fn suffer(&mut self, fault: Fault) {
        match fault {
            Fault::Full(reason) => {
                if let Some(reserve) = &self.reserve {
                    reserve.release();
                }
                self.turn_read_only(reason);
            }
            Fault::Broken(reason) => {
                tracing::error!(%reason, "the disk failed: what it holds is unknown");
                self.shared.set_health(Health::Failed { reason: reason.clone() });
                self.mode = Mode::Failed { reason };
            }
        }
    }

    fn turn_read_only(&mut self, reason: String) {
        tracing::warn!(%reason, "the disk is full: reads are served, writes refused");
        self.shared.set_health(Health::ReadOnly { reason: reason.clone() });
        self.mode = Mode::Full { reason, tried: self.clock.now() };
    }

    /// Looks whether the disk has room again. What the failed batch left on it counts as written.
    fn reopen(&mut self) {
        let reserved = self.reserve.as_ref().map_or(Ok(()), Reserve::secure_again).map_err(DiskError::Io);
        let reopened = reserved
            .and_then(|()| self.medium.settle().map_err(DiskError::Io))
            .and_then(|()| Disk::open(self.medium.clone(), self.quick_repair, &mut self.ledger));
        match reopened {
            Ok(disk) => {
                tracing::info!("the disk has room again: writes are served");
                self.mode = Mode::Serving(disk);
                self.shared.set_health(Health::Serving);
            }
            Err(DiskError::Io(error)) => self.suffer(Fault::from(&error)),
            Err(DiskError::Corrupt(detail)) => self.suffer(Fault::Broken(detail)),
            Err(DiskError::Format(found)) => self.suffer(Fault::Broken(format!("its format became {found}"))),
        }
    }
}

impl Compaction {
    fn is_done(&self) -> bool {
        self.waiting.is_empty()
    }

    fn settle(&mut self, compacted: Revision) {
        if compacted < self.goal {
            return;
        }
        for answer in self.waiting.drain(..) {
            let _ = answer.send(());
        }
    }
}

impl<F> Batch<F> {
    fn new() -> Self {
        Self { writes: Vec::new(), answers: Vec::new(), bytes: 0, compactions: Vec::new(), close: None }
    }

    fn has_room(&self) -> bool {
        self.writes.len() < BATCH_WRITES && self.bytes < BATCH_BYTES && self.close.is_none()
    }

    fn add(&mut self, request: Request<F>) {
        match request {
            Request::Write { write, answer } => {
                self.bytes += write.size();
                self.writes.push(write);
                self.answers.push(answer);
            }
            Request::Compact { goal, answer } => self.compactions.push((goal, answer)),
            Request::Close { answer } => self.close = Some(answer),
        }
    }
}
