//! The kinds that a logical cluster serves, as data. Verbs know resources only through this: a kind is added by
//! describing it, not by writing a handler.

use std::collections::HashMap;
use std::sync::Arc;

use bellwether_store::Revision;
use serde_json::Value;

use crate::crd;
use crate::field::FieldError;
use crate::names::NameRule;
use crate::object::{Meta, Object};
use crate::selector::Selectable;
use crate::shape::{BUILTINS, Conformed};
use crate::status::Qualified;
use crate::table::Column;

/// Where the objects of a kind live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Cluster,
    Namespaced,
}

/// A part of an object with an endpoint of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subresource {
    Status,
    /// The finalizers in a namespace's spec.
    Finalize,
    /// How many there should be, in the form of `autoscaling/v1`.
    Scale,
    /// A token for a ServiceAccount, made when it is asked for.
    Token,
    /// Whether a request for a certificate is granted.
    Approval,
}

/// A question about identity or access, which is answered and not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Review {
    /// Whose a token is.
    Token,
    /// Who the asker is.
    SelfSubject,
    /// Whether somebody may do something.
    Access,
    /// The same, in one namespace.
    LocalAccess,
    /// Whether the asker may.
    SelfAccess,
    /// Everything that the asker may do in a namespace.
    SelfRules,
}

impl Subresource {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Finalize => "finalize",
            Self::Scale => "scale",
            Self::Token => "token",
            Self::Approval => "approval",
        }
    }
}

/// A field that this version of a kind calls differently than the stored one.
pub(crate) struct Rename {
    pub(crate) stored: &'static str,
    pub(crate) here: &'static str,
}

/// How a version that differs in more than names is made of the stored one, and back.
pub(crate) struct Conversion {
    pub(crate) to_stored: fn(&mut Object),
    pub(crate) to_served: fn(&mut Object),
}

/// What decides how the objects of a kind look.
#[derive(Clone)]
pub(crate) enum Typing {
    /// The name of a type in the shapes.
    Builtin(&'static str),
    /// A version of a CustomResourceDefinition.
    Custom(Arc<crd::Version>),
}

/// One kind in one version.
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) scope: Scope,
    pub(crate) subresources: Vec<Subresource>,
    /// Where `/scale` finds its numbers.
    pub(crate) scale: Option<crd::Scale>,
    /// What is asked by creating one; its objects are not kept.
    pub(crate) review: Option<Review>,
    pub(crate) typing: Typing,
    /// Where the objects are kept; versions of one kind share it.
    pub(crate) storage: Storage,
    pub(crate) view: &'static [Rename],
    pub(crate) conversion: Option<&'static Conversion>,
    pub(crate) rules: Rules,
    pub(crate) selectable: Vec<Selectable>,
    pub(crate) columns: Vec<Column>,
    /// What every client of this version is told.
    pub(crate) deprecation: Option<String>,
}

/// How and where the objects of a kind are kept.
#[derive(Clone)]
pub(crate) struct Storage {
    /// The keyspace below the logical cluster, such as `leases.coordination.k8s.io`.
    pub(crate) space: String,
    pub(crate) api_version: String,
    pub(crate) typing: Typing,
}

/// Which changes `metadata.generation` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generations {
    /// The kind has no generation.
    None,
    /// Of everything but metadata and status.
    Content,
    ContentAndAnnotations,
    ContentAndLabels,
}

/// What a kind allows and how it is prepared and checked. Objects come in their stored form.
#[derive(Clone)]
pub(crate) struct Rules {
    pub(crate) names: NameRule,
    /// A replace without a resourceVersion overwrites whatever is there.
    pub(crate) unconditional_update: bool,
    /// A replace of an absent object creates it.
    pub(crate) create_on_update: bool,
    /// A delete answers with the object rather than with a Status.
    pub(crate) returns_deleted: bool,
    /// Put on an object when its deletion begins, and taken off by a controller of ours.
    pub(crate) cleanup_finalizer: Option<&'static str>,
    /// Nothing new may be made: the definition of the kind is being deleted.
    pub(crate) closed_to_new: bool,
    pub(crate) generations: Generations,
    /// All objects of a collection can be deleted at once.
    pub(crate) deletes_collections: bool,
    /// Finalizers without a domain must be the ones that Kubernetes itself has.
    pub(crate) qualified_finalizers: bool,
    /// Fills in what is left out, on every write.
    pub(crate) default: fn(&mut Object, &Resource),
    pub(crate) prepare_create: fn(&mut Object, &Resource),
    /// Puts back what this endpoint cannot change.
    pub(crate) prepare_update: fn(&mut Object, Change<'_>),
    pub(crate) validate: fn(&Object, Change<'_>) -> Vec<FieldError>,
    /// What the author of a good object is told beside the answer.
    pub(crate) warn: fn(&Object, Change<'_>) -> Vec<String>,
}

/// What a validation looks at beside the object itself.
#[derive(Clone, Copy)]
pub(crate) struct Change<'a> {
    pub(crate) resource: &'a Resource,
    /// The stored object, on an update.
    pub(crate) old: Option<&'a Object>,
    pub(crate) subresource: Option<Subresource>,
    pub(crate) now: jiff::Timestamp,
}

impl Change<'_> {
    /// Puts back a part of the stored object, or its absence.
    pub(crate) fn keep(&self, object: &mut Object, key: &str) {
        match self.old.and_then(|old| old.get(key)) {
            Some(value) => {
                object.insert(key.into(), value.clone());
            }
            None => {
                object.remove(key);
            }
        }
    }
}

impl Change<'_> {
    /// Puts back a part of the stored metadata, or its absence.
    pub(crate) fn keep_meta(&self, object: &mut Object, key: &str) {
        match self.old.and_then(Meta::meta).and_then(|meta| meta.get(key)) {
            Some(value) => object.meta_mut().insert(key.into(), value.clone()),
            None => object.meta_mut().remove(key),
        };
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            names: NameRule::Subdomain,
            unconditional_update: true,
            create_on_update: false,
            returns_deleted: false,
            cleanup_finalizer: None,
            closed_to_new: false,
            generations: Generations::None,
            deletes_collections: true,
            qualified_finalizers: true,
            default: |_, _| {},
            prepare_create: |_, _| {},
            prepare_update: |_, _| {},
            validate: |_, _| Vec::new(),
            warn: |_, _| Vec::new(),
        }
    }
}

impl Resource {
    pub(crate) fn api_version(&self) -> String {
        group_version(&self.group, &self.version)
    }

    /// The resource as messages name it.
    pub(crate) fn qualified(&self) -> Qualified<'_> {
        Qualified { group: &self.group, name: &self.plural }
    }

    /// The kind as messages name it: as it is stored, whichever version was asked for.
    pub(crate) fn qualified_kind(&self) -> Qualified<'_> {
        let group = self.storage.api_version.split_once('/').map_or("", |(group, _)| group);
        Qualified { group, name: &self.kind }
    }

    /// The Go type behind the kind, which some messages of Kubernetes name.
    pub(crate) fn go_type(&self) -> String {
        let group = self.qualified_kind().group.split('.').next().unwrap_or_default();
        format!("{}.{}", if group.is_empty() { "core" } else { group }, self.kind)
    }

    pub(crate) fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// Whether this version differs from the one that is stored.
    pub(crate) fn is_view(&self) -> bool {
        self.group_version_differs() || !self.view.is_empty()
    }

    fn group_version_differs(&self) -> bool {
        self.storage.api_version != self.api_version()
    }

    /// Whether what was stored at a revision can be sent as it is.
    pub(crate) fn sends_as_stored(&self, at: Revision) -> bool {
        match &self.typing {
            _ if self.is_view() => false,
            Typing::Builtin(_) => true,
            // Since the definition changed, fields may have got defaults, and others may be gone.
            Typing::Custom(version) => at > version.since,
        }
    }

    /// Whether the items of a list say their kind.
    pub(crate) fn names_kind_in_lists(&self) -> bool {
        matches!(self.typing, Typing::Custom(_))
    }

    pub(crate) fn subresource(&self, name: &str) -> Option<Subresource> {
        self.subresources.iter().copied().find(|subresource| subresource.name() == name)
    }

    /// From this version's names to the stored ones.
    pub(crate) fn to_stored(&self, mut object: Object) -> Object {
        object.insert("apiVersion".into(), self.storage.api_version.clone().into());
        object.insert("kind".into(), self.kind.clone().into());
        for rename in self.view {
            if let Some(value) = object.remove(rename.here) {
                object.insert(rename.stored.into(), value);
            }
        }
        if let Some(conversion) = self.conversion {
            (conversion.to_stored)(&mut object);
        }
        object
    }

    /// From the stored form to this version's.
    pub(crate) fn to_served(&self, mut object: Object) -> Object {
        if self.is_view() {
            object.insert("apiVersion".into(), self.api_version().into());
            for rename in self.view {
                if let Some(value) = object.remove(rename.stored) {
                    object.insert(rename.here.into(), value);
                }
            }
            if let Some(conversion) = self.conversion {
                (conversion.to_served)(&mut object);
            }
        }
        match &self.typing {
            // What is stored has its shape; only fields that are optional here and not there can be left to drop.
            Typing::Builtin(shape) if self.is_view() => {
                BUILTINS.conform(shape, object).map(|conformed| conformed.object).unwrap_or_default()
            }
            Typing::Builtin(_) => object,
            Typing::Custom(version) => {
                self.settle(&mut object);
                if self.is_view() {
                    crate::schema::prune(&mut object, &version.schema);
                }
                object
            }
        }
    }

    /// Brings an object of a custom kind into what its stored version knows: the version in which it was written
    /// decides whether it is right, this one what is kept.
    pub(crate) fn settle(&self, object: &mut Object) {
        if let Typing::Custom(version) = &self.storage.typing {
            crate::schema::prune(object, &version.schema);
            version.schema.default_object(object);
        }
    }

    /// Brings an object of this version into its shape: unknown fields are dropped and named.
    pub(crate) fn conform(&self, object: Object) -> Result<Conformed, String> {
        conform(&self.typing, object)
    }

    /// Brings an object in its stored form into the shape of that.
    pub(crate) fn conform_stored(&self, object: Object) -> Result<Conformed, String> {
        conform(&self.storage.typing, object)
    }
}

fn conform(typing: &Typing, mut object: Object) -> Result<Conformed, String> {
    match typing {
        Typing::Builtin(shape) => BUILTINS.conform(shape, object),
        Typing::Custom(version) => {
            let mut unknown = Vec::new();
            if let Some(metadata) = object.remove("metadata") {
                let Value::Object(metadata) = metadata else {
                    return Err("metadata must be an object".to_owned());
                };
                let metadata = BUILTINS.conform("meta/v1.ObjectMeta", metadata)?;
                unknown.extend(metadata.unknown.iter().map(|path| format!("metadata.{path}")));
                object.insert("metadata".into(), Value::Object(metadata.object));
            }
            // In the order in which Kubernetes names them: each step sorts its own.
            unknown.extend(crate::schema::prune(&mut object, &version.schema));
            version.schema.drop_nulls(&mut object);
            let embedded = crate::schema::coerce(&mut object, &version.schema);
            unknown.extend(embedded.map_err(|error| error.to_string())?);
            Ok(Conformed { object, unknown })
        }
    }
}

/// `v1`, or `group/v1`.
pub(crate) fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.into() } else { format!("{group}/{version}") }
}

/// Everything that a logical cluster serves.
pub(crate) struct Registry {
    resources: Vec<Arc<Resource>>,
    by_path: HashMap<(String, String, String), Arc<Resource>>,
}

impl Registry {
    pub(crate) fn new(resources: Vec<Resource>) -> Self {
        Self::of(resources.into_iter().map(Arc::new).collect())
    }

    /// This registry with more resources in it.
    pub(crate) fn with(&self, more: Vec<Arc<Resource>>) -> Self {
        Self::of(self.resources.iter().cloned().chain(more).collect())
    }

    fn of(resources: Vec<Arc<Resource>>) -> Self {
        let by_path = resources
            .iter()
            .map(|resource| {
                let path = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
                (path, resource.clone())
            })
            .collect();
        Self { resources, by_path }
    }

    /// The resource that a path names.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.by_path.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// The resource of a kind, in the version an owner reference names.
    pub(crate) fn find_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.resources.iter().find(|resource| resource.kind == kind && resource.api_version() == api_version)
    }

    /// All resources, in the order of discovery.
    pub(crate) fn all(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    /// One resource for each keyspace: the version in which it is stored, or another if that one is not served.
    pub(crate) fn stored(&self) -> impl Iterator<Item = &Arc<Resource>> {
        let mut seen = std::collections::HashSet::new();
        let mut kept: Vec<&Arc<Resource>> =
            self.resources.iter().filter(|resource| resource.review.is_none()).collect();
        kept.sort_by_key(|resource| resource.is_view());
        kept.retain(|resource| seen.insert(resource.storage.space.as_str()));
        kept.into_iter()
    }

    /// The groups with their versions, in the order of discovery.
    pub(crate) fn groups(&self) -> Vec<(&str, Vec<&str>)> {
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for resource in &self.resources {
            let at = match groups.iter().position(|(group, _)| *group == resource.group) {
                Some(at) => at,
                None => {
                    groups.push((&resource.group, Vec::new()));
                    groups.len() - 1
                }
            };
            if let Some((_, versions)) = groups.get_mut(at)
                && !versions.contains(&resource.version.as_str())
            {
                versions.push(&resource.version);
            }
        }
        groups
    }
}
