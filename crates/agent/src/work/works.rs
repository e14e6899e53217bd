//! The index of the work agent: the ManifestWorks of the cluster, and the objects they apply. It decides when a
//! ManifestWork is reconciled.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bellwether_runtime::{BackoffPolicy, Deleted, DirtyKeys, Listing, Next, ObjectName, Origin};
use tokio::time::Instant;

use super::error::WorkError;
use super::hub::Work;
use super::objects::{ObjectIndex, ObjectMetadata, WatchedKind, WorkName};
use super::reconcile::{Outcome, Progress, ReadScope, WorkCache};

/// How often every object of a ManifestWork is read, whatever watches report; with 20 % jitter.
const RESYNC_INTERVAL: Duration = Duration::from_secs(600);
/// How often objects are read whose kind is not watched.
const POLL_INTERVAL: Duration = Duration::from_secs(15);
/// How long changes of objects are collected before their ManifestWork is reconciled.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// How long to wait between reconciles while objects are being deleted.
const DELETION_WAIT: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_millis(500), max: Duration::from_secs(10) };
/// How long a ManifestWork is held off after a repair. If another client keeps changing an object, it is repaired less
/// and less often.
const REPAIR_HOLD_OFF: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_millis(500), max: Duration::from_secs(60) };
/// After this time without a repair, the hold-off starts again at its initial value.
const REPAIR_RESET: Duration = Duration::from_secs(120);

/// The ManifestWorks and their objects.
#[derive(Default)]
pub(crate) struct WorkIndex {
    works: HashMap<WorkName, Entry>,
    pub(crate) objects: ObjectIndex,
    pub(crate) dirty: DirtyKeys<WorkName>,
}

/// A ManifestWork, and its state between reconciles.
struct Entry {
    work: Arc<Work>,
    cache: WorkCache,
    /// When every object is read again.
    resync: Instant,
    /// Reconciles in a row that failed.
    failures: u32,
    /// Reconciles in a row that waited for deletions.
    waits: u32,
    /// The number of repairs of which each followed soon after the previous one.
    repairs: u32,
    repaired: Option<Instant>,
}

/// The input of a reconcile.
pub(crate) struct Start {
    pub(crate) work: Arc<Work>,
    pub(crate) cache: WorkCache,
    pub(crate) scope: ReadScope,
    pub(crate) failures: u32,
}

impl WorkIndex {
    pub(crate) fn apply_work(&mut self, work: Work, origin: Origin) {
        let name: WorkName = work.name.as_str().into();
        let Some(entry) = self.works.get_mut(&name) else {
            self.objects.set_pending(&name);
            self.works.insert(name.clone(), Entry::new(work));
            return self.dirty.enqueue(name);
        };
        // A list is always current, even if the hub was restored from a backup and its resourceVersions are lower.
        let is_stale = origin == Origin::Watch && work.is_older_than(&entry.work);
        if is_stale || work.uid == entry.work.uid && work.resource_version == entry.work.resource_version {
            return;
        }
        let is_changed = !work.has_same_desired_state_as(&entry.work);
        entry.set_work(work);
        if is_changed {
            // The change may resolve earlier failures.
            (entry.failures, entry.waits, entry.repairs) = (0, 0, 0);
            self.objects.set_pending(&name);
            self.dirty.restart(name);
        } else {
            self.dirty.enqueue_after(name, DEBOUNCE);
        }
    }

    pub(crate) fn delete_work(&mut self, deleted: &Deleted) {
        let name = &*deleted.name.name;
        let is_known = self.works.get(name).is_none_or(|entry| {
            // Another ManifestWork of the same name may have been created meanwhile.
            deleted.uid.as_ref().is_none_or(|uid| *uid == entry.work.uid)
        });
        if is_known {
            self.works.remove(name);
            self.objects.delete_work(name);
            self.dirty.forget(name.into());
        }
    }

    pub(crate) fn apply_object(&mut self, kind: &WatchedKind, object: &ObjectMetadata) {
        let works = self.objects.apply(kind, object);
        self.enqueue_debounced(works);
    }

    pub(crate) fn delete_object(&mut self, kind: &WatchedKind, name: &ObjectName) {
        let works = self.objects.delete(kind, name);
        self.enqueue_debounced(works);
    }

    pub(crate) fn list_objects(&mut self, kind: &WatchedKind, listing: Listing) {
        let works = self.objects.list(kind, listing);
        self.enqueue_debounced(works);
    }

    fn enqueue_debounced(&mut self, works: BTreeSet<WorkName>) {
        works.into_iter().for_each(|work| self.dirty.enqueue_after(work, DEBOUNCE));
    }

    /// Every ManifestWork, with all its objects to be read, because this process has just become leader.
    pub(crate) fn resync_all(&mut self) -> Vec<WorkName> {
        let now = Instant::now();
        self.works.values_mut().for_each(|entry| entry.resync = now);
        self.works.keys().cloned().collect()
    }

    /// Begins a reconcile; nothing if the ManifestWork was deleted.
    pub(crate) fn start(&mut self, name: &str) -> Option<Start> {
        let entry = self.works.get_mut(name)?;
        let now = Instant::now();
        let scope = if entry.resync <= now { ReadScope::All } else { ReadScope::Changed };
        if scope == ReadScope::All {
            entry.resync = now + RESYNC_INTERVAL.mul_f64(0.8 + 0.4 * rand::random::<f64>());
        }
        let failures = entry.failures;
        // A reconcile that panics or is cancelled counts as failed, because it never reaches `conclude`.
        entry.failures = failures.saturating_add(1);
        Some(Start { work: entry.work.clone(), cache: std::mem::take(&mut entry.cache), scope, failures })
    }

    /// Notes that a reconcile has ended, successfully or not. The manifests count as reconciled if they did not change
    /// since.
    pub(crate) fn end(&mut self, reconciled: &Work) {
        match self.works.get(reconciled.name.as_str()) {
            Some(entry) if entry.work.has_same_desired_state_as(reconciled) => {
                self.objects.clear_pending(&reconciled.name);
            }
            Some(_) => {}
            None => self.objects.delete_work(&reconciled.name),
        }
    }

    /// Stores the result of a reconcile, and returns when the next one is due.
    pub(crate) fn conclude(
        &mut self,
        name: &WorkName,
        cache: WorkCache,
        failures: u32,
        result: Result<Outcome, WorkError>,
    ) -> Result<Next, WorkError> {
        let now = Instant::now();
        let is_watched = self.objects.is_watched(name);
        let Some(entry) = self.works.get_mut(name) else { return Ok(Next::OnChange) };
        entry.cache = cache;
        let outcome = result?;
        if let Some(work) = outcome.work.filter(|work| !work.is_older_than(&entry.work)) {
            entry.set_work(*work);
        }
        entry.failures = if outcome.progress == Progress::Failed { failures } else { 0 };
        entry.waits = if outcome.progress == Progress::Deleting { entry.waits.saturating_add(1) } else { 0 };
        if outcome.repaired {
            let soon = entry.repaired.is_some_and(|before| now.duration_since(before) <= REPAIR_RESET);
            entry.repairs = if soon { entry.repairs.saturating_add(1) } else { 1 };
            entry.repaired = Some(now);
            let time = REPAIR_HOLD_OFF.delay(entry.repairs, rand::random());
            self.dirty.hold_off(name.clone(), time);
        }
        let until_resync = entry.resync.saturating_duration_since(now);
        Ok(match outcome.progress {
            Progress::Settled if is_watched => Next::After(until_resync),
            Progress::Settled => Next::After(until_resync.min(POLL_INTERVAL)),
            Progress::Failed => Next::Backoff,
            Progress::Deleting => Next::After(DELETION_WAIT.delay(entry.waits, rand::random())),
            Progress::Changed => {
                self.dirty.restart(name.clone());
                Next::OnChange
            }
            // The watch reports the deletion, and then the entry is removed. If it does not, the response was wrong,
            // and the next resync reconciles the ManifestWork again.
            Progress::Deleted => Next::After(until_resync),
        })
    }
}

impl Entry {
    fn new(work: Work) -> Self {
        Self {
            work: Arc::new(work),
            cache: WorkCache::default(),
            resync: Instant::now(),
            failures: 0,
            waits: 0,
            repairs: 0,
            repaired: None,
        }
    }

    fn set_work(&mut self, work: Work) {
        if work.uid != self.work.uid {
            self.cache = WorkCache::default();
        }
        self.work = Arc::new(work);
    }
}
