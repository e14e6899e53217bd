//! How objects go: those that a work no longer names, and all of them with their work. What was made last goes first,
//! and an object is gone when it cannot be found any more, not when somebody was told to delete it.
//!
//! The order of writes at the end of a work: its objects, then the record of them, then the work itself. Whenever the
//! agent dies in between, what is left still names all that is to be done.

use bellwether_api::work::{AppliedResource, DeleteOption};
use kube::Error::Api;

use super::decide::manifest::{ObjectId, described};
use super::decide::owners::Owner;
use super::decide::record::Named as _;
use super::decide::removal::{Removal, removal, stages};
use super::decide::rules::{Fate, fate};
use super::kinds::Kinds;
use super::spoke::{Address, Propagation, Sight, Spoke};
use super::trouble::{Failure, Trouble, trouble};

/// How often an object is read anew while others write it.
const ATTEMPTS: usize = 5;

/// Takes objects away.
pub(crate) struct Farewell<'a> {
    pub(crate) spoke: &'a Spoke,
    pub(crate) kinds: &'a Kinds,
    pub(crate) owner: &'a Owner,
}

/// What became of objects that are to go.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Departures {
    pub(crate) gone: Vec<ObjectId>,
    /// What is still there, in words.
    pub(crate) awaited: Vec<String>,
    pub(crate) troubles: Vec<Trouble>,
}

impl Departures {
    /// Of objects that go another time.
    pub(crate) fn to_come(surplus: &[AppliedResource]) -> Self {
        let awaited = surplus.iter().map(|entry| described(&entry.resource, &entry.namespace, &entry.name));
        Self { awaited: awaited.collect(), ..Self::default() }
    }

    pub(crate) fn are_over(&self) -> bool {
        self.awaited.is_empty() && self.troubles.is_empty()
    }
}

impl Farewell<'_> {
    /// Takes away what a work no longer names: all at once, as the rest stays.
    pub(crate) async fn prune(&self, surplus: &[AppliedResource]) -> Result<Departures, Failure> {
        let mut departures = Departures::default();
        for stage in stages(surplus) {
            for entry in stage {
                self.depart(entry, Fate::Goes, Propagation::Background, &mut departures).await?;
            }
        }
        Ok(departures)
    }

    /// Takes away all that was made for a work, stage by stage.
    pub(crate) async fn clear(
        &self,
        record: &[AppliedResource],
        option: Option<&DeleteOption>,
    ) -> Result<Departures, Failure> {
        let mut departures = Departures::default();
        for stage in stages(record) {
            for entry in stage {
                let fate = fate(option, &entry.id());
                self.depart(entry, fate, Propagation::Foreground, &mut departures).await?;
            }
            // What was made before may be needed until these are gone.
            if !departures.are_over() {
                break;
            }
        }
        Ok(departures)
    }

    async fn depart(
        &self,
        entry: &AppliedResource,
        fate: Fate,
        propagation: Propagation,
        departures: &mut Departures,
    ) -> Result<(), Failure> {
        let words = described(&entry.resource, &entry.namespace, &entry.name);
        match self.take_away(entry, fate, propagation).await {
            Ok(true) => departures.gone.push(entry.id()),
            Ok(false) => departures.awaited.push(words),
            Err(error) => {
                let trouble = trouble(&format!("deleting {words}"), error)?;
                departures.troubles.push(Trouble { words: format!("{words}: {}", trouble.words), ..trouble });
            }
        }
        Ok(())
    }

    /// Takes one object away, and says whether it is gone, or at least no longer ours.
    async fn take_away(
        &self,
        entry: &AppliedResource,
        fate: Fate,
        propagation: Propagation,
    ) -> Result<bool, kube::Error> {
        for _ in 0..ATTEMPTS {
            let Some((at, live)) = self.find(entry).await? else { return Ok(true) };
            let done = match removal(Some(&live), self.owner, fate) {
                Removal::Gone | Removal::Leave => return Ok(true),
                Removal::Wait => return Ok(false),
                Removal::Release { owners } => self.spoke.own(&at, &live, &owners).await.map(drop),
                Removal::Delete { uid, revision } => self.spoke.delete(&at, uid, revision, propagation).await,
            };
            match done {
                // Whether it is gone is what the next look shows.
                Ok(()) => {}
                Err(Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// The object of an entry, in a version that is served.
    async fn find(
        &self,
        entry: &AppliedResource,
    ) -> Result<Option<(Address, serde_json::Value)>, kube::Error> {
        let id = entry.id();
        let at = Address::new(&id, &entry.version);
        match self.spoke.look(&at).await? {
            Sight::There(live) => return Ok(Some((at, live))),
            Sight::Missing => return Ok(None),
            Sight::Unserved => {}
        }
        // The version may have gone, and the object not with it.
        for version in self.kinds.other_versions(&id.group, &id.resource, &entry.version).await? {
            let at = Address::new(&id, &version);
            if let Some(live) = self.spoke.read(&at).await? {
                return Ok(Some((at, live)));
            }
        }
        Ok(None)
    }
}
