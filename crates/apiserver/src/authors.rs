//! Who wrote an object, as the collections record it: where in the course of a write managedFields are brought up to
//! date. What they say then is decided in `managed`.

use std::borrow::Cow;
use std::sync::Arc;

use bellwether_store::Revision;
use serde_json::Value;

use crate::collection::Collection;
use crate::managed::{self, Endpoint};
use crate::object::{Meta, Object};
use crate::registry::{Registry, Subresource, Typing};
use crate::times;

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

impl Collection<'_> {
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
    pub(crate) fn record(
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
}

/// Who wrote what is not written anew when only the times would change.
pub(crate) fn keep_times_if_nothing_else(object: &mut Object, old: &Object) {
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
