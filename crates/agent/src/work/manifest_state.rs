//! The state of one manifest during a reconcile: the object it describes, what the cluster has, the planned write, and
//! the result that is reported to the hub. It makes no request except to execute a planned write.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use bellwether_api::work::{FeedbackRule, ManifestResourceMeta, ManifestWorkSpec};
use serde_json::Value;

use super::decide::action::{Action, ActionInput, decide_action};
use super::decide::applied_resources::Ownership;
use super::decide::drift::digest;
use super::decide::feedback::{Feedback, collect_feedback};
use super::decide::manifest::{Manifest, ObjectId, ServedKind, request_body};
use super::decide::object_options::{DeletionPolicy, Force, WriteStrategy};
use super::decide::order::ApplyStage;
use super::decide::owners::{Owner, effective_deletion_policy};
use super::decide::status::{ManifestResult, Presence};
use super::error::{ObjectError, RetryHint};
use super::spoke::{Address, SpokeClient, string_at};

/// The state of one manifest during a reconcile.
pub(crate) struct ManifestState<'s> {
    manifest: &'s Value,
    pub(crate) meta: ManifestResourceMeta,
    pub(crate) stage: ApplyStage,
    pub(crate) target: Target<'s>,
    pub(crate) applied: Result<(), ObjectError>,
    /// The object, once it was read or written in this reconcile, or its cached observation was reused.
    pub(crate) observed: Option<ObservedObject>,
    /// The object on the cluster, if it was read or written in this reconcile.
    live: Option<Value>,
    /// The write that was decided, and the hash of its request.
    planned: Option<(Action, u64)>,
    /// Whether the planned write reverts a change that another client made.
    pub(crate) is_repair: bool,
}

/// The object that a manifest describes.
pub(crate) enum Target<'s> {
    /// The manifest is invalid, or another manifest of the ManifestWork describes the same object.
    None,
    /// The cluster does not serve the kind, or that was not looked up yet.
    KindNotServed(Manifest),
    Object(Box<TargetObject<'s>>),
}

/// The object that a manifest describes, and the options of the ManifestWork for it.
pub(crate) struct TargetObject<'s> {
    pub(crate) manifest: Manifest,
    pub(crate) served: ServedKind,
    pub(crate) address: Address,
    pub(crate) strategy: WriteStrategy,
    /// The policy of the ManifestWork, until the object was read; then the effective one.
    pub(crate) policy: DeletionPolicy,
    pub(crate) rules: Vec<&'s FeedbackRule>,
}

/// An object as it was last read or written.
#[derive(Clone)]
pub(crate) struct ObservedObject {
    last_write: Option<LastWrite>,
    /// The resourceVersion; nothing if the object does not exist.
    pub(crate) resource_version: Option<String>,
    ownership: Ownership,
    presence: Presence,
    feedback: Feedback,
    applied: Result<(), ObjectError>,
}

/// The last write of an object: while both hashes stay the same, another write would not change anything.
#[derive(Clone, Copy, PartialEq, Eq)]
struct LastWrite {
    /// The hash of the request.
    request: u64,
    /// The digest of the object after the write.
    result: u64,
}

impl ObservedObject {
    /// Whether the observation can be reused while the object has not changed. After an error that a retry may resolve,
    /// it cannot.
    pub(crate) fn is_reusable(&self) -> bool {
        self.applied.as_ref().err().is_none_or(|error| error.retry == RetryHint::AfterChange)
    }
}

/// The initial states of all manifests of a ManifestWork.
pub(crate) fn manifest_states(spec: &ManifestWorkSpec) -> Vec<ManifestState<'_>> {
    spec.workload
        .manifests
        .iter()
        .enumerate()
        .map(|(ordinal, manifest)| ManifestState::new(ordinal, manifest))
        .collect()
}

/// The observed objects, with their version and ownership, for the AppliedManifestWork.
pub(crate) fn ownerships(states: &[ManifestState<'_>]) -> Vec<(ObjectId, String, Ownership)> {
    let observed = states.iter().filter_map(|state| Some((state.target_object()?, state.observed.as_ref()?)));
    observed
        .map(|(target, observed)| {
            (target.address.id.clone(), target.address.version.clone(), observed.ownership.clone())
        })
        .collect()
}

impl<'s> ManifestState<'s> {
    fn new(ordinal: usize, manifest: &'s Value) -> Self {
        let (meta, target, applied) = match Manifest::parse(ordinal, manifest) {
            Ok(parsed) => (parsed.resource_meta(None), Target::KindNotServed(parsed), Ok(())),
            Err(invalid) => (invalid.meta, Target::None, Err(ObjectError::until_change(invalid.message))),
        };
        Self {
            manifest,
            meta,
            stage: ApplyStage::Other,
            target,
            applied,
            observed: None,
            live: None,
            planned: None,
            is_repair: false,
        }
    }

    pub(crate) fn target_object(&self) -> Option<&TargetObject<'s>> {
        match &self.target {
            Target::Object(target) => Some(target),
            Target::None | Target::KindNotServed(_) => None,
        }
    }

    /// The object and its version, if the planned write makes the AppliedManifestWork its owner.
    pub(crate) fn planned_object(&self) -> Option<(ObjectId, String)> {
        let target = self.target_object().filter(|target| target.policy == DeletionPolicy::Delete)?;
        self.planned.as_ref().map(|_| (target.address.id.clone(), target.address.version.clone()))
    }

    /// The uid of the object, if the AppliedManifestWork owns it.
    pub(crate) fn owned_uid(&self) -> Option<&str> {
        match self.observed.as_ref().map(|observed| &observed.ownership) {
            Some(Ownership::Owned { uid }) => Some(uid),
            _ => None,
        }
    }

    /// Uses the observation of an earlier reconcile, because the object has not changed since.
    pub(crate) fn reuse(&mut self, observed: &ObservedObject) {
        self.applied = observed.applied.clone();
        self.observed = Some(observed.clone());
    }

    /// Records that reading the object failed.
    pub(crate) fn set_read_error(&mut self, error: ObjectError, previous: Option<&ObservedObject>) {
        self.observed = Some(ObservedObject {
            last_write: previous.and_then(|previous| previous.last_write),
            resource_version: None,
            ownership: Ownership::Unknown,
            presence: Presence::Unreadable(error.message.clone()),
            feedback: previous.map(|previous| previous.feedback.clone()).unwrap_or_default(),
            applied: Err(error.clone()),
        });
        self.applied = Err(error);
    }

    /// Decides, from the object on the cluster, whether and how to write it.
    pub(crate) fn plan(&mut self, live: Option<Value>, owner: &Owner, previous: Option<&ObservedObject>) {
        self.live = live;
        let Target::Object(target) = &mut self.target else { return };
        let live = self.live.as_ref();
        target.policy = effective_deletion_policy(&target.address.id, live, target.policy);
        let owners = owner.owners_to_apply(self.manifest, live, target.policy);
        let body = request_body(self.manifest, &target.served, owners);
        let request = hash_request(&body, &target.strategy);
        let last_write = previous.and_then(|previous| previous.last_write);
        let same_write = live.map(|live| LastWrite { request, result: digest(live) });
        let action = decide_action(ActionInput {
            strategy: &target.strategy,
            policy: target.policy,
            owner,
            body,
            live,
            is_result_of_same_write: last_write.is_some() && last_write == same_write,
        });
        match action {
            Action::None => self.observe(owner, Some(request)),
            Action::Fail { message } => {
                self.applied = Err(ObjectError::until_change(message));
                self.observe(owner, None);
            }
            Action::Apply { .. } | Action::Create { .. } | Action::SetOwners { .. } => {
                self.is_repair = last_write.is_some_and(|last| last.request == request);
                self.planned = Some((action, request));
            }
        }
    }

    /// Takes the planned write of the manifest at this index.
    pub(crate) fn take_planned_write(&mut self, index: usize) -> Option<PlannedWrite> {
        let Target::Object(target) = &self.target else { return None };
        let (action, request) = self.planned.take()?;
        Some(PlannedWrite {
            index,
            request,
            action,
            address: target.address.clone(),
            live: self.live.clone(),
        })
    }

    /// Records that the write succeeded.
    pub(crate) fn set_written(&mut self, live: Value, request: u64, owner: &Owner) {
        self.applied = Ok(());
        self.live = Some(live);
        self.observe(owner, Some(request));
    }

    /// Records that the write failed. A conflict with another field manager is retried only after a change, unless the
    /// strategy forces the apply.
    pub(crate) fn set_write_error(&mut self, error: ObjectError, is_conflict: bool, owner: &Owner) {
        let strategy = self.target_object().map(|target| &target.strategy);
        let is_unforced = matches!(strategy, Some(WriteStrategy::Apply { force: Force::No, .. }));
        let retry = if is_conflict && is_unforced { RetryHint::AfterChange } else { error.retry };
        self.applied = Err(ObjectError { retry, ..error });
        self.is_repair = false;
        self.observe(owner, None);
    }

    /// Records the current state of the object, and the request that led to it.
    fn observe(&mut self, owner: &Owner, request: Option<u64>) {
        let Target::Object(target) = &self.target else { return };
        let live = self.live.as_ref();
        let is_never_written =
            matches!(target.strategy, WriteStrategy::ReadOnly | WriteStrategy::Unsupported);
        self.observed = Some(ObservedObject {
            last_write: request.zip(live.map(digest)).map(|(request, result)| LastWrite { request, result }),
            resource_version: live.map(|live| string_at(live, "/metadata/resourceVersion").to_owned()),
            ownership: match live {
                Some(live) if owner.is_owner_of(live) => {
                    Ownership::Owned { uid: string_at(live, "/metadata/uid").to_owned() }
                }
                Some(_) => Ownership::NotOwned,
                None if is_never_written => Ownership::NotOwned,
                None => Ownership::Unknown,
            },
            presence: if live.is_some() { Presence::Present } else { Presence::Missing },
            feedback: collect_feedback(&target.rules, &target.manifest.kind, live),
            applied: self.applied.clone(),
        });
    }

    /// The result that is reported to the hub.
    pub(crate) fn into_result(self) -> ManifestResult {
        let (presence, feedback) = match self.observed {
            Some(observed) => (observed.presence, observed.feedback),
            None => (Presence::NotIdentified, Feedback::default()),
        };
        ManifestResult {
            meta: self.meta,
            applied: self.applied.map_err(|error| error.message),
            presence,
            feedback,
        }
    }
}

/// A write that was decided and not executed yet.
pub(crate) struct PlannedWrite {
    /// The index of the manifest.
    pub(crate) index: usize,
    /// The hash of the request.
    pub(crate) request: u64,
    action: Action,
    address: Address,
    live: Option<Value>,
}

impl PlannedWrite {
    /// Sends the request and returns the object after the write.
    pub(crate) async fn execute(&self, spoke: &SpokeClient) -> Result<Value, kube::Error> {
        let live = self.live.as_ref();
        match &self.action {
            Action::Apply { body, field_manager, force } => {
                spoke.apply(&self.address, body, field_manager, *force, live.is_some()).await
            }
            Action::Create { body } => spoke.create(&self.address, body).await,
            Action::SetOwners { owners } => {
                spoke.set_owners(&self.address, live.unwrap_or(&Value::Null), owners).await
            }
            // `plan` never plans a write for these.
            Action::None | Action::Fail { .. } => Ok(self.live.clone().unwrap_or_default()),
        }
    }
}

fn hash_request(body: &Value, strategy: &WriteStrategy) -> u64 {
    let mut hasher = DefaultHasher::new();
    digest(body).hash(&mut hasher);
    body.get("status").map(ToString::to_string).hash(&mut hasher);
    strategy.hash(&mut hasher);
    hasher.finish()
}
