//! Deletes applied objects: those that were removed from a ManifestWork, and all of them when it is deleted. Objects
//! are deleted in the reverse order of their creation. An object counts as deleted when a read no longer finds it, not
//! when the delete request was accepted.
//!
//! When a ManifestWork is deleted, its objects are deleted first, then its AppliedManifestWork, then its finalizer is
//! removed. If the agent crashes in between, the remaining objects still list everything that is left to delete.

use bellwether_api::work::{AppliedResource, DeleteOption};
use kube::Error::Api;

use super::decide::applied_resources::HasObjectId as _;
use super::decide::deletion::{DeletionAction, decide_deletion, deletion_stages};
use super::decide::manifest::{ObjectId, describe_object};
use super::decide::object_options::{DeletionPolicy, deletion_policy};
use super::decide::owners::Owner;
use super::discovery::KindDiscovery;
use super::error::{ObjectError, WorkError};
use super::spoke::{Address, GetResult, Propagation, SpokeClient};

/// How often the deletion of an object is attempted in one reconcile while other clients change the object.
const MAX_DELETE_ATTEMPTS: usize = 5;

/// Deletes objects that an AppliedManifestWork owns.
pub(crate) struct ObjectDeleter<'a> {
    pub(crate) spoke: &'a SpokeClient,
    pub(crate) discovery: &'a KindDiscovery,
    pub(crate) owner: &'a Owner,
}

/// The result of deleting several objects.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct DeletionResult {
    /// Objects that no longer exist, or that the AppliedManifestWork no longer owns.
    pub(crate) deleted: Vec<ObjectId>,
    /// Descriptions of the objects that still exist.
    pub(crate) waiting: Vec<String>,
    pub(crate) errors: Vec<ObjectError>,
}

impl DeletionResult {
    /// The result if the deletion of all objects is left to a later reconcile.
    pub(crate) fn postponed(resources: &[AppliedResource]) -> Self {
        Self { waiting: resources.iter().map(describe_resource).collect(), ..Self::default() }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.waiting.is_empty() && self.errors.is_empty()
    }
}

impl ObjectDeleter<'_> {
    /// Deletes objects that were removed from a ManifestWork. It does not wait between stages, because the other
    /// objects of the ManifestWork stay.
    pub(crate) async fn prune(&self, removed: &[AppliedResource]) -> Result<DeletionResult, WorkError> {
        let mut result = DeletionResult::default();
        for stage in deletion_stages(removed) {
            for entry in stage {
                self.delete(entry, DeletionPolicy::Delete, Propagation::Background, &mut result).await?;
            }
        }
        Ok(result)
    }

    /// Deletes all objects of a ManifestWork, stage by stage.
    pub(crate) async fn delete_all(
        &self,
        record: &[AppliedResource],
        option: Option<&DeleteOption>,
    ) -> Result<DeletionResult, WorkError> {
        let mut result = DeletionResult::default();
        for stage in deletion_stages(record) {
            for entry in stage {
                let policy = deletion_policy(option, &entry.object_id());
                self.delete(entry, policy, Propagation::Foreground, &mut result).await?;
            }
            // Objects of this stage may need those of the next one until they are deleted.
            if !result.is_complete() {
                break;
            }
        }
        Ok(result)
    }

    async fn delete(
        &self,
        entry: &AppliedResource,
        policy: DeletionPolicy,
        propagation: Propagation,
        result: &mut DeletionResult,
    ) -> Result<(), WorkError> {
        let description = describe_resource(entry);
        match self.delete_or_release(entry, policy, propagation).await {
            Ok(Deletion::Done) => result.deleted.push(entry.object_id()),
            Ok(Deletion::Pending) => result.waiting.push(description),
            Err(error) => {
                let error = ObjectError::from_request(&format!("deleting {description}"), error)?;
                let message = format!("{description}: {}", error.message);
                result.errors.push(ObjectError { message, ..error });
            }
        }
        Ok(())
    }

    async fn delete_or_release(
        &self,
        entry: &AppliedResource,
        policy: DeletionPolicy,
        propagation: Propagation,
    ) -> Result<Deletion, kube::Error> {
        for _ in 0..MAX_DELETE_ATTEMPTS {
            let Some((address, live)) = self.find_object(entry).await? else { return Ok(Deletion::Done) };
            let response = match decide_deletion(Some(&live), self.owner, policy) {
                DeletionAction::AlreadyDeleted | DeletionAction::NotOwned => return Ok(Deletion::Done),
                DeletionAction::Wait => return Ok(Deletion::Pending),
                DeletionAction::Release { owners } => {
                    self.spoke.set_owners(&address, &live, &owners).await.map(drop)
                }
                DeletionAction::Delete { uid, resource_version } => {
                    self.spoke.delete(&address, uid, resource_version, propagation).await
                }
            };
            match response {
                // The read of the next attempt shows whether the object is deleted.
                Ok(()) => {}
                Err(Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Deletion::Pending)
    }

    /// Reads the object of an entry, in any version that is served.
    async fn find_object(
        &self,
        entry: &AppliedResource,
    ) -> Result<Option<(Address, serde_json::Value)>, kube::Error> {
        let id = entry.object_id();
        let address = Address::new(&id, &entry.version);
        match self.spoke.get(&address).await? {
            GetResult::Found(live) => return Ok(Some((address, live))),
            GetResult::NotFound => return Ok(None),
            GetResult::KindNotServed => {}
        }
        // The object may still exist in another version of its kind.
        for version in self.discovery.other_versions(&id.group, &id.resource, &entry.version).await? {
            let address = Address::new(&id, &version);
            if let Some(live) = self.spoke.get_opt(&address).await? {
                return Ok(Some((address, live)));
            }
        }
        Ok(None)
    }
}

/// How far the deletion of one object is.
enum Deletion {
    /// The object no longer exists, or the AppliedManifestWork no longer owns it.
    Done,
    /// The object still exists.
    Pending,
}

fn describe_resource(entry: &AppliedResource) -> String {
    describe_object(&entry.resource, &entry.namespace, &entry.name)
}
