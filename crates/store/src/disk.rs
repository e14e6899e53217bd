//! The log on disk: one table from revision to record, and a small one for where the history begins. The live
//! state is the newest record of each path, so opening is one scan. It does not decide what is written.

use std::{
    any::Any,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use redb::{Builder, Database, ReadableDatabase, ReadableTableMetadata, TableDefinition, TableHandle};

use crate::{
    Revision,
    ledger::{Ledger, Plan},
    medium::{Fault, Handle, Medium},
    record::Record,
};

pub(crate) const FORMAT: u64 = 1;

const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

const META_FORMAT: &str = "format";
/// Events at or below are gone.
const META_COMPACTED: &str = "compacted";
/// The newest revision given out when history last ended. No revision up to it may be given out again.
const META_HIGH_WATER: &str = "high_water";

/// All objects are in memory already; pages are only cached to be written next to each other.
const CACHE_BYTES: usize = 8 << 20;

pub(crate) struct Disk {
    medium: Arc<Medium>,
    database: Database,
    quick_repair: bool,
    buffer: Vec<u8>,
}

/// Why the log could not be read.
#[derive(Debug)]
pub(crate) enum DiskError {
    Corrupt(String),
    Format(u64),
    Io(io::Error),
}

impl Disk {
    /// Opens the log and replays what the ledger does not have yet. Nothing is written before all of it was
    /// read and found sound.
    pub(crate) fn open<F>(
        medium: Arc<Medium>,
        quick_repair: bool,
        ledger: &mut Ledger<F>,
    ) -> Result<Self, DiskError> {
        medium.hold().map_err(DiskError::Io)?;
        // The database trusts its pages once it has found their checksums right, and may panic on others.
        let disk = catch_unwind(AssertUnwindSafe(|| Self::open_held(medium.clone(), quick_repair, ledger)))
            .unwrap_or_else(|panic| Err(DiskError::Corrupt(words(panic.as_ref()))))?;
        medium.settle().map_err(DiskError::Io)?;
        Ok(disk)
    }

    fn open_held<F>(
        medium: Arc<Medium>,
        quick_repair: bool,
        ledger: &mut Ledger<F>,
    ) -> Result<Self, DiskError> {
        let database = Builder::new()
            .set_cache_size(CACHE_BYTES)
            .create_with_backend(Handle(medium.clone()))
            .map_err(redb::Error::from)?;
        let disk = Self { medium, database, quick_repair, buffer: Vec::new() };
        if disk.is_blank()? {
            disk.initialise()?;
        }
        disk.replay(ledger)?;
        Ok(disk)
    }

    fn is_blank(&self) -> Result<bool, redb::Error> {
        Ok(self.database.begin_read()?.list_tables()?.next().is_none())
    }

    fn initialise(&self) -> Result<(), redb::Error> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_quick_repair(self.quick_repair);
        transaction.open_table(LOG)?;
        transaction.open_table(META)?.insert(META_FORMAT, FORMAT)?;
        transaction.commit()?;
        Ok(())
    }

    fn replay<F>(&self, ledger: &mut Ledger<F>) -> Result<(), DiskError> {
        let transaction = self.database.begin_read().map_err(redb::Error::from)?;
        let tables = transaction.list_tables().map_err(redb::Error::from)?;
        if !tables.into_iter().any(|table| table.name() == META.name()) {
            return Err(DiskError::Corrupt("it is a database, but not one of ours".to_owned()));
        }
        let meta = transaction.open_table(META).map_err(redb::Error::from)?;
        let number =
            |name| -> Result<Option<u64>, redb::Error> { Ok(meta.get(name)?.map(|guard| guard.value())) };
        match number(META_FORMAT)? {
            Some(FORMAT) => {}
            Some(found) => return Err(DiskError::Format(found)),
            None => return Err(DiskError::Corrupt("it names no format".to_owned())),
        }
        let compacted = Revision(number(META_COMPACTED)?.unwrap_or_default());
        let high_water = Revision(number(META_HIGH_WATER)?.unwrap_or_default());

        let log = transaction.open_table(LOG).map_err(redb::Error::from)?;
        let known = ledger.known();
        let (mut read, mut newest) = (0_u64, Revision::default());
        for row in log.range(known.0 + 1..).map_err(redb::Error::from)? {
            let (key, bytes) = row.map_err(redb::Error::from)?;
            let revision = Revision(key.value());
            if revision <= newest {
                return Err(DiskError::Corrupt(format!("record {revision} is out of order")));
            }
            let record = Record::decode(revision, bytes.value())
                .map_err(|damage| DiskError::Corrupt(format!("record {revision} {damage}")))?;
            ledger.replay(revision, &record, compacted).map_err(DiskError::Corrupt)?;
            newest = revision;
            read += 1;
        }
        let expected = log.len().map_err(redb::Error::from)?;
        if known == Revision::default() && read != expected {
            return Err(DiskError::Corrupt(format!("{read} records were found where {expected} should be")));
        }
        if ledger.known().max(compacted) < high_water {
            return Err(DiskError::Corrupt(format!("the records up to {high_water} are missing")));
        }
        ledger.finish_replay(compacted);
        Ok(())
    }

    /// Makes a plan durable.
    pub(crate) fn commit<F>(&mut self, ledger: &Ledger<F>, plan: &Plan<F>) -> Result<(), Fault> {
        self.transact(ledger, plan)
            .map_err(|error| self.medium.fault().unwrap_or_else(|| Fault::Broken(error.to_string())))
    }

    fn transact<F>(&mut self, ledger: &Ledger<F>, plan: &Plan<F>) -> Result<(), redb::Error> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_quick_repair(self.quick_repair);
        {
            let mut log = transaction.open_table(LOG)?;
            for happening in &plan.events {
                let revision = happening.event.revision();
                Record::of(&happening.keyspace.space, &happening.event).encode(revision, &mut self.buffer);
                log.insert(revision.0, self.buffer.as_slice())?;
            }
            // After the inserts, as a plan may end history that it makes itself.
            for revision in ledger.useless(plan) {
                log.remove(revision.0)?;
            }
        }
        if ledger.compacts(plan) {
            let mut meta = transaction.open_table(META)?;
            meta.insert(META_COMPACTED, plan.compacted.0)?;
            meta.insert(META_HIGH_WATER, ledger.high_water(plan).0)?;
        }
        transaction.commit()?;
        Ok(())
    }
}

impl From<redb::Error> for DiskError {
    fn from(error: redb::Error) -> Self {
        match error {
            redb::Error::Io(error)
                if !matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) =>
            {
                Self::Io(error)
            }
            damage => Self::Corrupt(damage.to_string()),
        }
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    said.unwrap_or("the database could not be read").to_owned()
}
