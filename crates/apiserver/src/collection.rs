//! The objects of one kind in one logical cluster: create, update and delete with all rules, read-decide-commit
//! with compare-and-swap. It knows nothing of HTTP; the verbs and the server's own controllers both stand on it.

use std::borrow::Cow;
use std::sync::Arc;

use bellwether_store::{Change as StoreChange, CommitError, Entry, Expect, Revision, Space, Write};
use bytes::Bytes;
use serde_json::Value;

use crate::kinds;
use crate::managed::{self, Endpoint};
use crate::meta;
use crate::object::{Canonical, Head, Meta, Object, lookup, parse, text};
use crate::options::{DeleteOptions, Effect, Preconditions, Propagation, parse_revision};
use crate::registry::{Change, Generations, Registry, Resource, Subresource, Typing};
use crate::server::{Cluster, Server};
use crate::status::{Answer, Refusal};
use crate::times;

/// How often a write that lost a race is tried again before the client is told.
const RACES: usize = 20;
/// How many generated names are tried.
const GENERATED_NAMES: usize = 8;
/// The largest object that is kept.
const OBJECT_LIMIT: usize = 1536 * 1024;

/// A stored object.
pub(crate) type Stored = Arc<Entry<Head>>;

/// The objects of one kind in one logical cluster.
#[derive(Clone, Copy)]
pub(crate) struct Collection<'a> {
    pub(crate) server: &'a Server,
    pub(crate) cluster: &'a Cluster,
    pub(crate) resource: &'a Resource,
}

/// Where an object is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location<'a> {
    /// Empty for kinds of cluster scope.
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

impl Location<'_> {
    /// The key in the store; keys sort by namespace, then name.
    pub(crate) fn path(&self) -> String {
        if self.namespace.is_empty() {
            self.name.to_owned()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }
}

/// Who writes, as managedFields say.
#[derive(Clone, Copy)]
pub(crate) enum Author<'a> {
    /// What this manager changes is recorded as its own.
    Manager(&'a str),
    /// The managedFields of the object are what they are to be.
    Recorded,
}

impl Author<'static> {
    /// What the server itself provides, and what it says of definitions.
    pub(crate) const SERVER: Self = Self::Manager("kube-apiserver");
    /// What Kubernetes' controllers do.
    pub(crate) const CONTROLLERS: Self = Self::Manager("kube-controller-manager");
}

/// What an update asks for, beside the new object.
#[derive(Clone, Copy)]
pub(crate) struct UpdateRequest<'a> {
    pub(crate) effect: Effect,
    pub(crate) subresource: Option<Subresource>,
    pub(crate) author: Author<'a>,
    pub(crate) absent: Absent,
}

/// What becomes of an update of an object that is not there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absent {
    /// As the kind says.
    ByKind,
    Creates,
}

impl<'a> UpdateRequest<'a> {
    /// A change that is kept, by somebody in the server.
    pub(crate) fn by(author: Author<'a>, subresource: Option<Subresource>) -> Self {
        Self { effect: Effect::Keep, subresource, author, absent: Absent::ByKind }
    }
}

/// The bytes of an object after a write, and how it came about.
pub(crate) struct Written {
    pub(crate) bytes: Bytes,
    pub(crate) created: bool,
    /// What the author is told beside the answer.
    pub(crate) warnings: Vec<String>,
}

/// What a delete left behind.
pub(crate) enum Deleted {
    /// The object is gone; this is its last state.
    Gone(Bytes),
    /// Finalizers hold it back; this is its state.
    Pending(Bytes),
}

/// What a delete does to an object, decided.
enum Deletion {
    Remove(Object),
    Mark(Object),
    /// Already marked, nothing to change.
    Wait,
}

impl Collection<'_> {
    /// The keyspace of these objects.
    pub(crate) fn space(&self) -> Space {
        self.cluster.space(&self.resource.storage.space)
    }

    /// A stored object, if it is there.
    pub(crate) fn find(&self, at: Location<'_>) -> Option<Stored> {
        self.server.store.get(&self.space(), &at.path())
    }

    fn missing(&self, at: Location<'_>) -> Refusal {
        Refusal::not_found(self.resource.qualified(), at.name)
    }

    /// Creates an object that is in its stored form and in the shape of its kind.
    pub(crate) async fn create(
        &self,
        namespace: &str,
        mut object: Object,
        effect: Effect,
        author: Author<'_>,
    ) -> Answer<Written> {
        if self.resource.rules.closed_to_new {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Refusal::forbidden(self.resource.qualified(), object.name(), why));
        }
        self.check_namespace(namespace, &object)?;
        let base = object.meta_str("generateName").to_owned();
        let generated = object.name().is_empty() && !base.is_empty();
        meta::begin(&mut object, self.server.clock.now());
        if self.resource.is_namespaced() {
            object.meta_mut().insert("namespace".into(), namespace.into());
        }
        if !generated {
            let name = object.name().to_owned();
            return match self.try_create(namespace, object, effect, author).await? {
                Some(written) => Ok(written),
                None => Err(Refusal::already_exists(self.resource.qualified(), &name)),
            };
        }
        for _ in 0..GENERATED_NAMES {
            let mut candidate = object.clone();
            candidate.meta_mut().insert("name".into(), meta::generate_name(&base).into());
            if let Some(written) = self.try_create(namespace, candidate, effect, author).await? {
                return Ok(written);
            }
        }
        Err(Refusal::name_not_generated(self.resource.qualified(), &base))
    }

    /// Creates an object that has its name; nothing, if the name is taken.
    async fn try_create(
        &self,
        namespace: &str,
        mut object: Object,
        effect: Effect,
        author: Author<'_>,
    ) -> Answer<Option<Written>> {
        let warnings = self.prepare_new(&mut object, author)?;
        let at = Location { namespace, name: object.name() };
        if effect == Effect::DryRun {
            let free = self.find(at).is_none();
            return Ok(free.then(|| Written { bytes: unstamped(&object), created: true, warnings }));
        }
        let draft = Canonical::of(&object).into_draft();
        match self.commit(at, Expect::Absent, StoreChange::Put(draft)).await {
            Ok(stored) => {
                self.check_namespace_remains(at, &stored).await?;
                Ok(Some(Written { bytes: stored.value().clone(), created: true, warnings }))
            }
            Err(Lost::Race) => Ok(None),
            Err(Lost::Refused(refusal)) => Err(refusal),
        }
    }

    /// Completes and checks a new object; what its author is told beside the answer.
    fn prepare_new(&self, object: &mut Object, author: Author<'_>) -> Answer<Vec<String>> {
        let rules = &self.resource.rules;
        (rules.default)(object, self.resource);
        self.record(object, None, None, author);
        (rules.prepare_create)(object, self.resource);
        if rules.generations != Generations::None {
            object.set_generation(1);
        }
        let change =
            Change { resource: self.resource, old: None, subresource: None, now: self.server.clock.now() };
        let mut errors = meta::validate(object, self.resource);
        errors.extend((rules.validate)(object, change));
        if !errors.is_empty() {
            return Err(Refusal::invalid(self.resource.qualified_kind(), object.name(), &errors));
        }
        let warnings = (rules.warn)(object, change);
        if self.resource.is_view() {
            self.resource.settle(object);
        }
        Ok(warnings)
    }

    /// Changes an object: `produce` makes the new one (in its stored form) from the one that is there.
    pub(crate) async fn update(
        &self,
        at: Location<'_>,
        request: UpdateRequest<'_>,
        mut produce: impl FnMut(Option<&Object>) -> Answer<Object>,
    ) -> Answer<Written> {
        for _ in 0..RACES {
            let Some(stored) = self.find(at) else {
                let creates = self.resource.rules.create_on_update || request.absent == Absent::Creates;
                if !creates || request.subresource.is_some() {
                    return Err(self.missing(at));
                }
                let object = produce(None)?;
                if !object.uid().is_empty() {
                    return Err(self.wrong_uid(at, object.uid(), ""));
                }
                match self.create(at.namespace, object, request.effect, request.author).await {
                    Err(refusal) if refusal.reason() == "AlreadyExists" => continue,
                    outcome => return outcome,
                }
            };
            let live = Value::Object(parse(stored.value()));
            let Value::Object(old) = &live else { unreachable!("it was made an object above") };
            let object = produce(Some(old))?;
            match self.replace(at, request, &stored, &live, object).await {
                Ok(written) => return Ok(written),
                Err(Lost::Race) => {}
                Err(Lost::Refused(refusal)) => return Err(refusal),
            }
        }
        Err(Refusal::modified(self.resource.qualified(), at.name))
    }

    async fn replace(
        &self,
        at: Location<'_>,
        request: UpdateRequest<'_>,
        stored: &Stored,
        live: &Value,
        mut object: Object,
    ) -> Result<Written, Lost> {
        let Value::Object(old) = live else { return Err(self.missing(at).into()) };
        self.check_precondition(at, &object, old)?;
        let rules = &self.resource.rules;
        if let Author::Manager(_) = request.author {
            (rules.default)(&mut object, self.resource);
            self.record(&mut object, Some((live, stored.revision())), request.subresource, request.author);
        }
        meta::carry_over(&mut object, old);
        let (subresource, now) = (request.subresource, self.server.clock.now());
        let change = Change { resource: self.resource, old: Some(old), subresource, now };
        (rules.prepare_update)(&mut object, change);
        (rules.default)(&mut object, self.resource);
        if self.is_new_generation(&object, old, request.subresource) {
            object.set_generation(old.generation() + 1);
        }
        let mut errors = meta::validate_update(&object, old);
        errors.extend(meta::validate(&object, self.resource));
        errors.extend((rules.validate)(&object, change));
        if !errors.is_empty() {
            return Err(Refusal::invalid(self.resource.qualified_kind(), at.name, &errors).into());
        }

        let warnings = (rules.warn)(&object, change);
        if self.resource.is_view() {
            self.resource.settle(&mut object);
        }
        keep_times_if_nothing_else(&mut object, old);
        let canonical = Canonical::of(&object);
        let unchanged = canonical.equals(stored.value(), &stored.revision().to_string());
        if is_released(&object, old) {
            let revision = stored.revision().to_string();
            let bytes = canonical.stamped(&revision);
            if request.effect == Effect::Keep {
                // Watchers are told the last state that was stored.
                let change = StoreChange::Delete(Canonical::of(old).into_draft());
                self.commit(at, Expect::At(stored.revision()), change).await?;
            }
            return Ok(Written { bytes, created: false, warnings });
        }
        // A write that changes nothing leaves no trace: no revision, no event.
        if unchanged {
            return Ok(Written { bytes: stored.value().clone(), created: false, warnings });
        }
        if request.effect == Effect::DryRun {
            let bytes = canonical.stamped(&stored.revision().to_string());
            return Ok(Written { bytes, created: false, warnings });
        }
        let change = StoreChange::Put(canonical.into_draft());
        let stored = self.commit(at, Expect::At(stored.revision()), change).await?;
        Ok(Written { bytes: stored.value().clone(), created: false, warnings })
    }

    /// The endpoint that is written through, as managedFields see it; `at` is when the object was last written.
    pub(crate) fn endpoint<'e>(
        &'e self,
        subresource: Option<Subresource>,
        at: Option<Revision>,
        registry: &'e dyn Fn() -> Arc<Registry>,
    ) -> Endpoint<'e> {
        let changed = match (&self.resource.typing, at) {
            (Typing::Custom(version), Some(at)) => at <= version.since,
            _ => false,
        };
        let now = times::seconds(self.server.clock.now());
        Endpoint::new(self.resource, subresource, now, registry).with_changed_types(changed)
    }

    /// Records in a new state of an object, which is in its stored form, who made it of what was there.
    fn record(
        &self,
        object: &mut Object,
        live: Option<(&Value, Revision)>,
        subresource: Option<Subresource>,
        author: Author<'_>,
    ) {
        let Author::Manager(manager) = author else { return };
        let registry = || self.cluster.registry(self.server);
        let endpoint = self.endpoint(subresource, live.map(|live| live.1), &registry);
        let served = live.map(|(live, at)| match live {
            Value::Object(old) if !self.resource.sends_as_stored(at) => {
                Cow::Owned(Value::Object(self.resource.to_served(old.clone())))
            }
            _ => Cow::Borrowed(live),
        });
        if !self.resource.is_view() {
            let mut value = Value::Object(std::mem::take(object));
            endpoint.record(served.as_deref(), &mut value, manager);
            if let Value::Object(recorded) = value {
                *object = recorded;
            }
            return;
        }
        let mut value = Value::Object(self.resource.to_served(object.clone()));
        endpoint.record(served.as_deref(), &mut value, manager);
        match value.get_mut("metadata").and_then(|meta| meta.get_mut("managedFields")) {
            Some(entries) => object.meta_mut().insert("managedFields".into(), entries.take()),
            None => object.meta_mut().remove("managedFields"),
        };
    }

    /// Whether a change counts as a new generation. A status without an endpoint of its own counts as well.
    fn is_new_generation(&self, object: &Object, old: &Object, subresource: Option<Subresource>) -> bool {
        let differs = |key: &str| {
            let value = |object: &Object| object.meta().and_then(|meta| meta.get(key)).cloned();
            value(object) != value(old)
        };
        if subresource == Some(Subresource::Status) {
            return false;
        }
        let apart = subresource.is_some() || self.resource.subresources.contains(&Subresource::Status);
        let status = !apart && object.get("status") != old.get("status");
        match self.resource.rules.generations {
            Generations::None => false,
            Generations::Content => status || differs_beyond_status(object, old),
            Generations::ContentAndAnnotations => {
                status || differs_beyond_status(object, old) || differs("annotations")
            }
            Generations::ContentAndLabels => {
                status || differs_beyond_status(object, old) || differs("labels")
            }
        }
    }

    /// The resourceVersion and uid in an update are what its author saw; they must still hold.
    fn check_precondition(&self, at: Location<'_>, object: &Object, old: &Object) -> Answer<()> {
        if !object.uid().is_empty() && object.uid() != old.uid() {
            return Err(self.wrong_uid(at, object.uid(), old.uid()));
        }
        let seen = match object.meta_str("resourceVersion") {
            "" => 0,
            text => parse_revision(text)?,
        };
        if seen == 0 {
            if self.resource.rules.unconditional_update {
                return Ok(());
            }
            let error = crate::field::FieldError::invalid(
                "metadata.resourceVersion",
                0,
                "must be specified for an update",
            );
            return Err(Refusal::invalid(self.resource.qualified(), at.name, &[error]));
        }
        if old.meta_str("resourceVersion") == seen.to_string() {
            return Ok(());
        }
        Err(Refusal::modified(self.resource.qualified(), at.name))
    }

    fn wrong_uid(&self, at: Location<'_>, asked: &str, found: &str) -> Refusal {
        let why = format!("Precondition failed: UID in precondition: {asked}, UID in object meta: {found}");
        Refusal::conflict(self.resource.qualified(), at.name, why)
    }

    /// Deletes an object, or marks it as being deleted while finalizers hold it back.
    pub(crate) async fn delete(&self, at: Location<'_>, options: &DeleteOptions) -> Answer<Deleted> {
        if self.is_namespaces() && kinds::is_immortal(at.name) {
            let why = "this namespace may not be deleted";
            return Err(Refusal::forbidden(self.resource.qualified(), at.name, why));
        }
        for _ in 0..RACES {
            let stored = self.find(at).ok_or_else(|| self.missing(at))?;
            let old = parse(stored.value());
            self.check_delete_preconditions(at, &options.preconditions, &old)?;
            let (object, gone) = match self.decide_deletion(&old, options) {
                Deletion::Wait => return Ok(Deleted::Pending(stored.value().clone())),
                Deletion::Remove(object) => (object, true),
                Deletion::Mark(object) => (object, false),
            };
            let canonical = Canonical::of(&object);
            let bytes = if options.effect == Effect::DryRun {
                canonical.stamped(&stored.revision().to_string())
            } else {
                let draft = canonical.into_draft();
                let change = if gone { StoreChange::Delete(draft) } else { StoreChange::Put(draft) };
                match self.commit(at, Expect::At(stored.revision()), change).await {
                    Ok(stored) => stored.value().clone(),
                    Err(Lost::Race) => continue,
                    Err(Lost::Refused(refusal)) => return Err(refusal),
                }
            };
            return Ok(if gone { Deleted::Gone(bytes) } else { Deleted::Pending(bytes) });
        }
        Err(Refusal::modified(self.resource.qualified(), at.name))
    }

    fn check_delete_preconditions(
        &self,
        at: Location<'_>,
        preconditions: &Preconditions,
        old: &Object,
    ) -> Answer<()> {
        let check = |what: &str, asked: &Option<String>, found: &str, hint: &str| match asked {
            Some(asked) if asked != found => Err(if self.is_namespaces() {
                Refusal::conflict(
                    self.resource.qualified(),
                    at.name,
                    format!(
                        "Precondition failed: {what} in precondition: {asked}, {what} in object meta: {found}"
                    ),
                )
            } else {
                Refusal::conflict(
                    self.resource.qualified_kind(),
                    at.name,
                    format!(
                        "the {what} in the precondition ({asked}) does not match the {what} in record ({found}). The object might have been {hint}"
                    ),
                )
            }),
            _ => Ok(()),
        };
        check("UID", &preconditions.uid, old.uid(), "deleted and then recreated")?;
        let revision = old.meta_str("resourceVersion");
        check("ResourceVersion", &preconditions.resource_version, revision, "modified")
    }

    fn decide_deletion(&self, old: &Object, options: &DeleteOptions) -> Deletion {
        let mut object = old.clone();
        let mut finalizers = finalizers_for(old, options.propagation);
        if let Some(cleanup) = self.resource.rules.cleanup_finalizer.filter(|_| !old.is_being_deleted())
            && !finalizers.iter().any(|finalizer| finalizer == cleanup)
        {
            finalizers.push(cleanup.to_owned());
        }
        object.set_finalizers(finalizers);
        let held_by_content = self.is_namespaces() && has_content_finalizers(old);
        if object.finalizers().is_empty() && !held_by_content {
            return Deletion::Remove(object);
        }
        if old.is_being_deleted() {
            let settled = held_by_content || object.finalizers() == old.finalizers();
            return if settled { Deletion::Wait } else { Deletion::Mark(object) };
        }
        if old.generation() > 0 {
            object.set_generation(old.generation() + 1);
        }
        let now = times::seconds(self.server.clock.now());
        object.meta_mut().insert("deletionTimestamp".into(), now.into());
        if self.is_namespaces() {
            if let Some(Value::Object(status)) = object.get_mut("status") {
                status.insert("phase".into(), kinds::TERMINATING.into());
            }
        } else {
            object.meta_mut().insert("deletionGracePeriodSeconds".into(), 0.into());
        }
        Deletion::Mark(object)
    }

    fn is_namespaces(&self) -> bool {
        self.resource.group.is_empty() && self.resource.plural == "namespaces"
    }

    /// New objects need a namespace that is there and not on its way out.
    fn check_namespace(&self, namespace: &str, object: &Object) -> Answer<()> {
        if !self.resource.is_namespaced() {
            return Ok(());
        }
        let Some(stored) = self.cluster.namespace(self.server, namespace) else {
            return Err(Refusal::not_found(kinds::NAMESPACES, namespace));
        };
        // Only a namespace that is being deleted is terminating; the head knows without parsing the object.
        if stored.facts().deleting {
            let name = object.name();
            return Err(Refusal::namespace_terminating(self.resource.qualified(), name, namespace));
        }
        Ok(())
    }

    /// The namespace may have begun to terminate since it was looked at, and its deleter may have passed this kind
    /// already: an object that was committed since then would be left behind for ever.
    async fn check_namespace_remains(&self, at: Location<'_>, stored: &Stored) -> Answer<()> {
        if !self.resource.is_namespaced() {
            return Ok(());
        }
        let refusal = match self.cluster.namespace(self.server, at.namespace) {
            Some(namespace) if !namespace.facts().deleting => return Ok(()),
            Some(_) => Refusal::namespace_terminating(self.resource.qualified(), at.name, at.namespace),
            None => Refusal::not_found(kinds::NAMESPACES, at.namespace),
        };
        let draft = Canonical::of(&parse(stored.value())).into_draft();
        // Whoever changed it since then finds it in a namespace that goes: the deleter's work, not ours.
        let _ = self.commit(at, Expect::At(stored.revision()), StoreChange::Delete(draft)).await;
        Err(refusal)
    }

    async fn commit(&self, at: Location<'_>, expect: Expect, change: StoreChange) -> Result<Stored, Lost> {
        let write = Write { space: self.space(), path: at.path().into(), expect, change };
        self.server.store.commit(write).await.map_err(|error| match error {
            CommitError::Conflict { .. } => Lost::Race,
            CommitError::TooLarge { .. } => Refusal::too_large(OBJECT_LIMIT).into(),
            CommitError::ReadOnly { reason } => {
                Refusal::internal(format!("nothing can be written: {reason}")).into()
            }
            CommitError::Closed => {
                Refusal::unavailable("the server is shutting down", std::time::Duration::from_secs(1)).into()
            }
        })
    }
}

/// Why a commit did not happen.
pub(crate) enum Lost {
    /// Somebody else was first.
    Race,
    Refused(Refusal),
}

impl From<Refusal> for Lost {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The object as a dry run answers with it: it has no revision, because it was never kept.
fn unstamped(object: &Object) -> Bytes {
    let mut value = object.clone();
    value.meta_mut().remove("resourceVersion");
    let mut bytes = Vec::new();
    // Writing JSON to memory cannot fail.
    let _ = crate::numbers::write_json(&mut bytes, &value);
    bytes.into()
}

/// Who wrote what is not written anew when only the times would change.
fn keep_times_if_nothing_else(object: &mut Object, old: &Object) {
    fn entries(object: &Object) -> Option<&Value> {
        object.meta().and_then(|meta| meta.get("managedFields"))
    }
    fn others(object: &Object) -> impl Iterator<Item = (&String, &Value)> {
        object
            .iter()
            .filter(|field| !matches!(field.0.as_str(), "metadata" | "managedFields" | "resourceVersion"))
    }
    let same = managed::differ_in_times_only(entries(old), entries(object))
        && others(object).eq(others(old))
        && object.meta().into_iter().flat_map(others).eq(old.meta().into_iter().flat_map(others));
    if let Some(entries) = entries(old).filter(|_| same) {
        object.meta_mut().insert("managedFields".into(), entries.clone());
    }
}

/// Whether anything but metadata and status changed.
fn differs_beyond_status(object: &Object, old: &Object) -> bool {
    let counts =
        |entry: &(&String, &Value)| !matches!(entry.0.as_str(), "metadata" | "status" | "apiVersion");
    !object.iter().filter(counts).eq(old.iter().filter(counts))
}

fn has_content_finalizers(object: &Object) -> bool {
    lookup(object, "spec.finalizers").and_then(Value::as_array).is_some_and(|list| !list.is_empty())
}

/// Whether an update took the last finalizer from an object that is being deleted.
fn is_released(object: &Object, old: &Object) -> bool {
    let grace = old.meta().and_then(|meta| meta.get("deletionGracePeriodSeconds")).and_then(Value::as_i64);
    old.is_being_deleted()
        && object.finalizers().is_empty()
        && grace.unwrap_or(0) == 0
        && !(text(object, "kind") == "Namespace" && has_content_finalizers(object))
}

/// The finalizers an object has once its deletion begins.
fn finalizers_for(object: &Object, propagation: Option<Propagation>) -> Vec<String> {
    let own = object.finalizers();
    let propagation = propagation.unwrap_or({
        if own.contains(&meta::ORPHAN) {
            Propagation::Orphan
        } else if own.contains(&meta::FOREGROUND) {
            Propagation::Foreground
        } else {
            Propagation::Background
        }
    });
    let mut finalizers: Vec<String> = own
        .iter()
        .filter(|finalizer| ![meta::ORPHAN, meta::FOREGROUND].contains(finalizer))
        .map(|finalizer| (*finalizer).to_owned())
        .collect();
    match propagation {
        Propagation::Background => {}
        Propagation::Foreground => finalizers.push(meta::FOREGROUND.into()),
        Propagation::Orphan => finalizers.push(meta::ORPHAN.into()),
    }
    // The same finalizers in another order are the same.
    let mut sorted =
        (finalizers.clone(), own.iter().map(|finalizer| (*finalizer).to_owned()).collect::<Vec<_>>());
    sorted.0.sort_unstable();
    sorted.1.sort_unstable();
    if sorted.0 == sorted.1 { own.into_iter().map(str::to_owned).collect() } else { finalizers }
}
