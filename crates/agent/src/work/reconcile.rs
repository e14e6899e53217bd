//! One visit to a work: read what is there, decide, do what is missing, and tell the hub.
//!
//! **The order of writes**, and why nothing is lost or taken that should not be, wherever the agent dies:
//!
//! 1. the finalizer on the hub: from here on the work does not go before what was made for it;
//! 2. the AppliedManifestWork with its finalizer: it does not go before its objects either;
//! 3. its record names, without uids, what is about to be made;
//! 4. the objects, each with the AppliedManifestWork as its owner from the first moment on;
//! 5. what is no longer wanted goes, but only when all that is wanted was made: what replaces it is there;
//! 6. the record names what is there, with uids, and what is still to go;
//! 7. the status on the hub.
//!
//! A death before 4 leaves names of objects that do not exist, which does no harm. One before 6 leaves objects that the
//! record names without their uid; they are known as ours by their owner. One before 7 leaves the hub with what it was
//! told last. The next visit begins with 1 and finds at each place what is left to do.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bellwether_api::work::{AppliedResource, DeleteOption, ManifestWorkSpec, WorkPropagation, vocabulary};
use bellwether_clock::{Clock, whole_seconds};
use futures::stream::{self, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use super::decide::manifest::ObjectId;
use super::decide::order::Rank;
use super::decide::record::{self, Named as _};
use super::decide::report::{Finding, WorkStatus};
use super::decide::rules;
use super::farewell::{Departures, Farewell};
use super::hub::{Hub, Work, Written};
use super::kinds::{Kinds, Lookups};
use super::ledger::{self, Ledger, Ledgers};
use super::piece::{Known, Order, Piece, Place, Target, pieces, standings};
use super::spoke::{Address, Spoke};
use super::trouble::{Failure, Hope, Trouble, trouble};
use super::works::WorkIndex;
use crate::Agent;

/// How often a work is gone through in one visit, while kinds come up that its own definitions have brought.
const ROUNDS: usize = 3;
/// How many objects of a work are read or written at the same time.
const ABREAST: usize = 8;
/// How often a status is written anew while the work changes.
const ATTEMPTS: usize = 3;
/// How many times in a row the cluster may be busy before the hub is told.
const MOMENTS: u32 = 3;
/// How long a deletion may take before the hub is told what it waits for.
const SWIFT: SignedDuration = SignedDuration::from_secs(5);

/// What is remembered of a work between visits. All of it can be read again.
#[derive(Default)]
pub(crate) struct Memory {
    /// What was last brought, and by which record: of another nothing that is known holds.
    generation: i64,
    owner: String,
    ledger: Option<Ledger>,
    objects: HashMap<ObjectId, Known>,
}

/// How much is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// What may have changed, as far as watches tell.
    Changes,
    /// Everything.
    All,
}

/// How a reconcile ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) progress: Progress,
    /// Whether something was put back that somebody had changed.
    pub(crate) repaired: bool,
    /// The work as it was last written or read.
    pub(crate) work: Option<Box<Work>>,
}

/// How far a work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Everything is as it should be, or waits for a change.
    Settled,
    /// Something failed and was reported to the hub; it is tried again.
    Failed,
    /// Objects are being deleted.
    Deleting,
    /// The work changed meanwhile: it is reconciled again.
    Changed,
    /// There is no such work any more.
    Gone,
}

pub(crate) struct WorkReconciler {
    pub(crate) agent: Agent,
    pub(crate) hub: Hub,
    pub(crate) spoke: Spoke,
    pub(crate) kinds: Kinds,
    pub(crate) index: Arc<Mutex<WorkIndex>>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl WorkReconciler {
    /// Reconciles a work.
    pub(crate) async fn reconcile(
        &self,
        work: &Work,
        memory: &mut Memory,
        extent: Extent,
        failures: u32,
    ) -> Result<Outcome, Failure> {
        if work.deleted.is_some() {
            return self.remove(work, memory).await;
        }
        let work = match self.held(work).await? {
            Written::Now(work) => work,
            Written::Conflict => return self.anew(&work.name).await,
            Written::Gone => return Ok(Outcome::only(Progress::Gone)),
        };
        let spec = match &work.spec {
            Ok(spec) => spec.clone(),
            Err(why) => return self.refuse(&work, &why.clone()).await,
        };
        let ledger = match self.ledger(&work, memory, extent).await {
            Ok(ledger) => ledger,
            Err(failure) => match failure.refusal() {
                Some(why) => return self.refuse(&work, &why).await,
                None => return Err(failure),
            },
        };
        if ledger.is_being_deleted {
            return self.make_way(&work, memory, &ledger).await;
        }
        self.bring(work, &spec, ledger, memory, extent, failures).await
    }

    /// The work with our finalizer.
    async fn held(&self, work: &Work) -> Result<Written, Failure> {
        if work.is_held() {
            return Ok(Written::Now(Box::new(work.clone())));
        }
        self.hub.hold(work, true).await.map_err(|error| Failure::hub("holding the work", error))
    }

    async fn ledger(&self, work: &Work, memory: &mut Memory, extent: Extent) -> Result<Ledger, Failure> {
        if let Some(known) = memory.ledger.as_ref().filter(|known| known.is_of(work, &self.agent)) {
            let at = ledger::address(&work.name, &self.agent);
            if extent == Extent::Changes && self.index.lock().objects.is_unchanged(&at, Some(&known.revision))
            {
                return Ok(known.clone());
            }
        }
        memory.ledger = None;
        let ledger = self.ledgers().provide(work).await?;
        memory.ledger = Some(ledger.clone());
        Ok(ledger)
    }

    async fn bring(
        &self,
        work: Box<Work>,
        spec: &ManifestWorkSpec,
        mut ledger: Ledger,
        memory: &mut Memory,
        extent: Extent,
        failures: u32,
    ) -> Result<Outcome, Failure> {
        let is_new = memory.generation != work.generation || memory.owner != ledger.owner.uid;
        let extent = if is_new { Extent::All } else { extent };
        let mut pieces = pieces(spec);
        let mut repaired = false;
        for _ in 0..ROUNDS {
            self.place(spec, &mut pieces).await?;
            self.attend(&work.name, &pieces, &ledger);
            self.survey(&mut pieces, &ledger, memory, extent).await?;
            let planned: Vec<(ObjectId, String)> = pieces.iter().filter_map(Piece::plan).collect();
            if let Some(noted) = record::before(&ledger.resources, &planned) {
                ledger = self.note_down(&work.name, ledger, &noted, memory).await?;
            }
            let done = self.carry_out(&mut pieces, &ledger).await?;
            repaired |= pieces.iter().any(|piece| piece.repairs);
            let unserved = pieces.iter().any(|piece| matches!(piece.place, Place::Unserved(_)));
            if done == 0 || !unserved {
                break;
            }
        }
        memory.generation = work.generation;
        memory.owner.clone_from(&ledger.owner.uid);
        memory.objects = pieces
            .iter()
            .filter_map(|piece| Some((piece.target()?.at.id.clone(), piece.known.clone()?)))
            .collect();

        let departures = self.prune(&work.name, &pieces, &ledger, is_new).await?;
        let noted = record::after(&ledger.resources, &standings(&pieces), &departures.gone);
        if noted != ledger.resources {
            ledger = self.note_down(&work.name, ledger, &noted, memory).await?;
        }
        self.attend(&work.name, &pieces, &ledger);

        let troubles: Vec<&Trouble> =
            pieces.iter().filter_map(|piece| piece.applied.as_ref().err()).collect();
        let passing = troubles.iter().find(|trouble| trouble.hope == Hope::Moment);
        if let Some(passing) = passing.filter(|_| failures < MOMENTS) {
            return Err(Failure::Moment(passing.words.clone()));
        }
        for trouble in &departures.troubles {
            tracing::warn!("{}: {}: not deleted: {}", self.agent.cluster, work.name, trouble.words);
        }
        let worth_a_try = troubles.iter().any(|trouble| trouble.hope != Hope::Change);
        let next = if worth_a_try || !departures.troubles.is_empty() {
            Progress::Failed
        } else if departures.awaited.is_empty() {
            Progress::Settled
        } else {
            Progress::Deleting
        };
        let findings: Vec<Finding> = pieces.into_iter().map(Piece::finding).collect();
        let outcome =
            self.report(work, |status, generation, now| status.telling(&findings, generation, now)).await?;
        Ok(Outcome {
            progress: if outcome.progress == Progress::Settled { next } else { outcome.progress },
            repaired,
            ..outcome
        })
    }

    /// Finds out which objects manifests are, where that is not known yet.
    async fn place<'s>(&self, spec: &'s ManifestWorkSpec, pieces: &mut [Piece<'s>]) -> Result<(), Failure> {
        let mut lookups = Lookups::default();
        let mut taken: HashMap<ObjectId, usize> = pieces
            .iter()
            .filter_map(|piece| Some((piece.target()?.at.id.clone(), piece.target()?.manifest.ordinal)))
            .collect();
        for piece in pieces {
            let Place::Unserved(manifest) = &piece.place else { continue };
            let manifest = manifest.clone();
            let found = match self.kinds.find(&manifest.kind, &mut lookups).await {
                Ok(found) => found,
                Err(error) => {
                    piece.applied = Err(trouble("asking which kinds there are", error)?);
                    continue;
                }
            };
            let Some(served) = found else {
                let words = format!(
                    "the cluster knows no kind {} in {}",
                    manifest.kind.kind,
                    manifest.kind.api_version()
                );
                piece.applied = Err(Trouble::lasting(words));
                continue;
            };
            piece.meta = manifest.meta(Some(&served));
            let id = match manifest.object(&served) {
                Ok(id) => id,
                Err(words) => {
                    piece.applied = Err(Trouble { words, hope: Hope::Change });
                    continue;
                }
            };
            if let Some(first) = taken.get(&id) {
                let words = format!("the work names it twice: manifests {first} and {}", manifest.ordinal);
                piece.applied = Err(Trouble { words, hope: Hope::Change });
                piece.place = Place::Nowhere;
                continue;
            }
            taken.insert(id.clone(), manifest.ordinal);
            piece.rank = Rank::of(&id.group, &id.resource);
            piece.applied = Ok(());
            piece.place = Place::Object(Box::new(Target {
                at: Address::new(&id, &manifest.kind.version),
                treatment: rules::treatment(&spec.manifest_configs, &id),
                fate: rules::fate(spec.delete_option.as_ref(), &id),
                rules: rules::feedback(&spec.manifest_configs, &id),
                manifest,
                served,
            }));
        }
        Ok(())
    }

    /// From now on changes of these objects concern the work.
    fn attend(&self, work: &str, pieces: &[Piece<'_>], ledger: &Ledger) {
        let mut objects: Vec<Address> =
            pieces.iter().filter_map(|piece| Some(piece.target()?.at.clone())).collect();
        let known: BTreeSet<ObjectId> = objects.iter().map(|at| at.id.clone()).collect();
        let surplus = ledger.resources.iter().filter(|entry| !known.contains(&entry.id()));
        objects.extend(surplus.map(|entry| Address::new(&entry.id(), &entry.version)));
        objects.push(ledger::address(work, &self.agent));
        self.index.lock().objects.set_objects(&work.into(), objects);
    }

    /// Reads what may have changed, and decides what is to be done.
    async fn survey(
        &self,
        pieces: &mut [Piece<'_>],
        ledger: &Ledger,
        memory: &Memory,
        extent: Extent,
    ) -> Result<(), Failure> {
        let mut unread = Vec::new();
        for (place, piece) in pieces.iter_mut().enumerate() {
            let Place::Object(target) = &piece.place else { continue };
            if piece.known.is_some() || piece.applied.is_err() {
                continue;
            }
            let unchanged = |known: &&Known| {
                let revision = known.revision.as_deref();
                extent == Extent::Changes
                    && known.is_conclusive()
                    && self.index.lock().objects.is_unchanged(&target.at, revision)
            };
            match memory.objects.get(&target.at.id).filter(unchanged) {
                Some(known) => piece.remember(known),
                None => unread.push((place, target.at.clone())),
            }
        }
        let spoke = self.spoke.clone();
        let mut reads = stream::iter(unread)
            .map(move |(place, at)| {
                let spoke = spoke.clone();
                async move { (place, spoke.read(&at).await, at.id) }
            })
            .buffer_unordered(ABREAST);
        while let Some((place, found, id)) = reads.next().await {
            let Some(piece) = pieces.get_mut(place) else { continue };
            let before = memory.objects.get(&id);
            match found {
                Ok(live) => piece.decide(live, &ledger.owner, before),
                Err(error) => piece.despair(trouble("reading objects", error)?, before),
            }
        }
        Ok(())
    }

    /// Does what was decided, rank by rank, and says how much was written.
    async fn carry_out(&self, pieces: &mut [Piece<'_>], ledger: &Ledger) -> Result<usize, Failure> {
        let mut ranks: BTreeMap<Rank, Vec<Order>> = BTreeMap::new();
        for (place, piece) in pieces.iter_mut().enumerate() {
            ranks.entry(piece.rank).or_default().extend(piece.order(place));
        }
        let mut done = 0;
        for orders in ranks.into_values() {
            let spoke = self.spoke.clone();
            let mut writes = stream::iter(orders)
                .map(move |order| {
                    let spoke = spoke.clone();
                    async move { (order.place, order.sent, order.write(&spoke).await) }
                })
                .buffer_unordered(ABREAST);
            while let Some((place, sent, answer)) = writes.next().await {
                let Some(piece) = pieces.get_mut(place) else { continue };
                match answer {
                    Ok(live) => {
                        done += 1;
                        piece.succeed(live, sent, &ledger.owner);
                    }
                    Err(error) => {
                        let unserved = matches!(&error, kube::Error::Api(status) if status.code == 404);
                        if let Some(target) = piece.target().filter(|_| unserved) {
                            self.kinds.doubt(&target.served.name);
                        }
                        let conflict = matches!(&error, kube::Error::Api(status) if status.code == 409);
                        let trouble = trouble("writing objects", error)?;
                        piece.fail(trouble, conflict, &ledger.owner);
                    }
                }
            }
        }
        Ok(done)
    }

    /// Takes away what the work no longer names, once all that it names was made, and nobody else may still ask for it:
    /// not in the same breath, as an object that moves to another work comes there a moment later.
    async fn prune(
        &self,
        work: &str,
        pieces: &[Piece<'_>],
        ledger: &Ledger,
        is_new: bool,
    ) -> Result<Departures, Failure> {
        if pieces.iter().any(|piece| piece.applied.is_err()) {
            return Ok(Departures::default());
        }
        let wanted = pieces.iter().filter_map(|piece| Some(&piece.target()?.at.id)).collect();
        let uids = pieces.iter().filter_map(Piece::uid).collect();
        let surplus = record::surplus(&ledger.resources, &wanted, &uids);
        if is_new || self.index.lock().objects.may_be_claimed_by_others(work) {
            return Ok(Departures::to_come(&surplus));
        }
        self.farewell(ledger).prune(&surplus).await
    }

    async fn note_down(
        &self,
        work: &str,
        ledger: Ledger,
        resources: &[AppliedResource],
        memory: &mut Memory,
    ) -> Result<Ledger, Failure> {
        memory.ledger = None;
        let ledger = self.ledgers().write(work, &ledger, resources).await?;
        memory.ledger = Some(ledger.clone());
        Ok(ledger)
    }

    /// Takes all away that was made for a work that is deleted, and lets the work go.
    async fn remove(&self, work: &Work, memory: &mut Memory) -> Result<Outcome, Failure> {
        if !work.is_held() {
            return Ok(Outcome::only(Progress::Settled));
        }
        let said = self.report(Box::new(work.clone()), |status, generation, now| {
            if status
                .conditions
                .iter()
                .any(|held| held.type_.as_str() == vocabulary::DELETING && held.is_true())
            {
                return status.clone();
            }
            status.deleting(&[], generation, now)
        });
        let said = said.await?;
        let work = match said {
            Outcome { progress: Progress::Settled, work: Some(work), .. } => work,
            other => return Ok(other),
        };
        memory.objects.clear();
        memory.ledger = None;
        if let Some(ledger) = self.ledgers().read(&work.name).await? {
            self.attend(&work.name, &[], &ledger);
            if self.index.lock().objects.may_be_claimed_by_others(&work.name) {
                return Ok(Outcome { progress: Progress::Deleting, repaired: false, work: Some(work) });
            }
            let option = match &work.spec {
                Ok(spec) => spec.delete_option.clone(),
                // Nobody can tell what is to stay: rather too much than too little.
                Err(_) => Some(DeleteOption {
                    propagation_policy: WorkPropagation::Orphan,
                    selectively_orphans: None,
                }),
            };
            let departures = self.farewell(&ledger).clear(&ledger.resources, option.as_ref()).await?;
            if !departures.are_over() {
                return self.await_departures(work, departures).await;
            }
            self.ledgers().close(&work.name, &ledger).await?;
        }
        match self.hub.hold(&work, false).await.map_err(|error| Failure::hub("releasing the work", error))? {
            Written::Now(_) | Written::Gone => Ok(Outcome::only(Progress::Gone)),
            Written::Conflict => self.anew(&work.name).await,
        }
    }

    /// Tells the hub what a deletion waits for, where that lasts.
    async fn await_departures(&self, work: Box<Work>, departures: Departures) -> Result<Outcome, Failure> {
        let mut awaited = departures.awaited;
        awaited.extend(departures.troubles.into_iter().map(|trouble| trouble.words));
        let since = work.deleted.unwrap_or_default();
        if self.clock.now().duration_since(since) < SWIFT {
            return Ok(Outcome { progress: Progress::Deleting, repaired: false, work: Some(work) });
        }
        let said =
            self.report(work, |status, generation, now| status.deleting(&awaited, generation, now)).await?;
        let next = if said.progress == Progress::Settled { Progress::Deleting } else { said.progress };
        Ok(Outcome { progress: next, ..said })
    }

    /// Somebody deletes the record of a work that is wanted: what was made goes with it, and all is made anew.
    async fn make_way(&self, work: &Work, memory: &mut Memory, ledger: &Ledger) -> Result<Outcome, Failure> {
        *memory = Memory::default();
        self.attend(&work.name, &[], ledger);
        let departures = self.farewell(ledger).clear(&ledger.resources, None).await?;
        if !departures.are_over() {
            return Ok(Outcome::only(Progress::Deleting));
        }
        self.ledgers().close(&work.name, ledger).await?;
        Ok(Outcome::only(Progress::Changed))
    }

    /// Tells the hub why nothing can be done for a work.
    async fn refuse(&self, work: &Work, why: &str) -> Result<Outcome, Failure> {
        let said = self
            .report(Box::new(work.clone()), |status, generation, now| status.refusing(why, generation, now))
            .await?;
        let next = if said.progress == Progress::Settled { Progress::Failed } else { said.progress };
        Ok(Outcome { progress: next, ..said })
    }

    /// Writes the status of a work where it says something new; on what the work says by now, as long as it asks for the
    /// same.
    async fn report(
        &self,
        mut work: Box<Work>,
        telling: impl Fn(&WorkStatus, i64, Timestamp) -> WorkStatus,
    ) -> Result<Outcome, Failure> {
        for _ in 0..ATTEMPTS {
            let status = telling(&work.status, work.generation, whole_seconds(self.clock.now()));
            if status == work.status {
                return Ok(Outcome { progress: Progress::Settled, repaired: false, work: Some(work) });
            }
            let told = self.hub.tell(&work, &status).await;
            match told.map_err(|error| Failure::hub("writing the status of the work", error))? {
                Written::Now(work) => {
                    return Ok(Outcome { progress: Progress::Settled, repaired: false, work: Some(work) });
                }
                Written::Gone => return Ok(Outcome::only(Progress::Gone)),
                Written::Conflict => {}
            }
            let now = self.hub.read(&work.name).await;
            match now.map_err(|error| Failure::hub("reading the work", error))? {
                None => return Ok(Outcome::only(Progress::Gone)),
                Some(now) if now.asks_for_the_same_as(&work) => work = Box::new(now),
                Some(now) => {
                    return Ok(Outcome {
                        progress: Progress::Changed,
                        repaired: false,
                        work: Some(Box::new(now)),
                    });
                }
            }
        }
        Err(Failure::Contended)
    }

    /// Reads a work that has changed, to begin again.
    async fn anew(&self, name: &str) -> Result<Outcome, Failure> {
        let work = self.hub.read(name).await.map_err(|error| Failure::hub("reading the work", error))?;
        Ok(match work {
            Some(work) => {
                Outcome { progress: Progress::Changed, repaired: false, work: Some(Box::new(work)) }
            }
            None => Outcome::only(Progress::Gone),
        })
    }

    fn ledgers(&self) -> Ledgers<'_> {
        Ledgers { spoke: &self.spoke, agent: &self.agent }
    }

    fn farewell<'a>(&'a self, ledger: &'a Ledger) -> Farewell<'a> {
        Farewell { spoke: &self.spoke, kinds: &self.kinds, owner: &ledger.owner }
    }
}

impl Outcome {
    fn only(progress: Progress) -> Self {
        Self { progress, repaired: false, work: None }
    }
}
