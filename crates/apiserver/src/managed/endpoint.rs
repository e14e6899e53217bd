//! The endpoint of a kind that is written through, as managedFields see it: the types of its versions, how objects go
//! from one to the other, and which fields the endpoint leaves as they are.

use std::cell::OnceCell;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::record::{Before, Scene};
use super::set::Set;
use super::types::Type;
use super::update::Versions;
use super::{Applying, Refused};
use crate::object::Object;
use crate::registry::{Registry, Resource, Subresource, Typing};
use crate::shape::BUILTINS;

/// How a Scale is written.
static SCALE: Typing = Typing::Builtin("autoscaling/v1.Scale");

/// An endpoint of a kind.
pub(crate) struct Endpoint<'a> {
    /// Nothing for a Scale, which is an object of no kind that is kept.
    resource: Option<&'a Resource>,
    typing: &'a Typing,
    kind: &'a str,
    api_version: String,
    subresource: &'static str,
    now: String,
    ignored: Set<'static>,
    nothing: Set<'static>,
    changed: bool,
    /// What else is served: other versions of the kind are looked up only when somebody wrote in one.
    registry: &'a dyn Fn() -> Arc<Registry>,
    found: OnceCell<Arc<Registry>>,
}

impl<'a> Endpoint<'a> {
    pub(crate) fn new(
        resource: &'a Resource,
        subresource: Option<Subresource>,
        now: String,
        registry: &'a dyn Fn() -> Arc<Registry>,
    ) -> Self {
        Self {
            resource: Some(resource),
            typing: &resource.typing,
            kind: &resource.kind,
            api_version: resource.api_version(),
            subresource: subresource.map_or("", Subresource::name),
            now,
            ignored: left_alone(resource, subresource),
            nothing: Set::default(),
            changed: false,
            registry,
            found: OnceCell::new(),
        }
    }

    /// The endpoint of the Scale of an object.
    pub(crate) fn scale(now: String, registry: &'a dyn Fn() -> Arc<Registry>) -> Self {
        Self {
            resource: None,
            typing: &SCALE,
            kind: "Scale",
            api_version: "autoscaling/v1".to_owned(),
            subresource: Subresource::Scale.name(),
            now,
            ignored: Set::default(),
            nothing: Set::default(),
            changed: false,
            registry,
            found: OnceCell::new(),
        }
    }

    /// Whether this is the kind and version that an object claims to be of.
    pub(crate) fn serves(&self, api_version: &str, kind: &str) -> bool {
        self.api_version == api_version && self.kind == kind
    }

    /// The types changed since the object was written.
    pub(crate) fn with_changed_types(mut self, changed: bool) -> Self {
        self.changed = changed;
        self
    }

    fn scene(&self) -> Scene<'_> {
        Scene {
            api_version: &self.api_version,
            subresource: self.subresource,
            now: &self.now,
            versions: self,
        }
    }

    /// What a new object begins as: nothing, but for fields that its type always has.
    pub(crate) fn blank(&self) -> Value {
        let mut blank = match self.typing {
            Typing::Builtin(shape) => {
                BUILTINS.conform(shape, Map::new()).map(|conformed| conformed.object).unwrap_or_default()
            }
            Typing::Custom(_) => Map::new(),
        };
        blank.insert("apiVersion".into(), self.api_version.as_str().into());
        blank.insert("kind".into(), self.kind.into());
        Value::Object(blank)
    }

    /// Records that a manager made an object of what was there, or of nothing.
    pub(crate) fn record(&self, live: Option<&Value>, object: &mut Value, manager: &str) {
        match live {
            Some(live) => super::record(self.scene(), Before::Live(live), object, manager),
            None => super::record(self.scene(), Before::Blank(&self.blank()), object, manager),
        }
    }

    /// Applies to what is there, or to nothing.
    pub(crate) fn apply(&self, live: Option<&Value>, applying: Applying<'_>) -> Result<Value, Refused> {
        let blank = self.blank();
        let before = live.map_or(Before::Blank(&blank), Before::Live);
        super::apply(self.scene(), before, &blank, applying)
    }

    /// Another version of the kind.
    fn other(&self, api_version: &str) -> Option<&Resource> {
        let resource = self.resource?;
        if api_version == self.api_version {
            return Some(resource);
        }
        let registry = self.found.get_or_init(|| (self.registry)());
        let other = registry.find_kind(api_version, self.kind)?;
        // Another group is another world: the entries of one are not followed in the other, as in Kubernetes.
        let same = other.group == resource.group && other.storage.space == resource.storage.space;
        same.then_some(other)
    }
}

impl Versions for Endpoint<'_> {
    fn kind(&self, api_version: &str) -> Option<Type<'_>> {
        let typing = match api_version == self.api_version {
            true => self.typing,
            false => &self.other(api_version)?.typing,
        };
        Some(match typing {
            Typing::Builtin(shape) => Type::Struct(shape),
            Typing::Custom(version) => Type::custom(&version.schema),
        })
    }

    fn convert(&self, object: &Value, from: &str, to: &str) -> Option<Value> {
        let (from, to) = (self.other(from)?, self.other(to)?);
        let object: Object = object.as_object()?.clone();
        Some(Value::Object(to.to_served(from.to_stored(object))))
    }

    fn ignored(&self, api_version: &str) -> &Set<'_> {
        if api_version == self.api_version { &self.ignored } else { &self.nothing }
    }

    fn changed(&self) -> bool {
        self.changed
    }
}

/// What an endpoint leaves as it is, whatever is written there: nobody comes to own it through that endpoint.
fn left_alone(resource: &Resource, subresource: Option<Subresource>) -> Set<'static> {
    let custom = matches!(resource.typing, Typing::Custom(_));
    match subresource {
        Some(Subresource::Scale | Subresource::Token) => Set::default(),
        Some(Subresource::Approval) => Set::of(&[&["spec"], &["status", "certificate"]]),
        Some(Subresource::Finalize) => Set::of(&[&["status"]]),
        Some(Subresource::Status) if custom => Set::of(&[&["metadata"], &["spec"]]),
        Some(Subresource::Status) => match resource.kind.as_str() {
            "Deployment" => Set::of(&[&["spec"], &["metadata", "labels"]]),
            "Pod" => {
                Set::of(&[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]])
            }
            _ => Set::of(&[&["spec"]]),
        },
        None if resource.subresources.contains(&Subresource::Status) => Set::of(&[&["status"]]),
        None => Set::default(),
    }
}
