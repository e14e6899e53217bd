//! The kinds that a logical cluster serves, as data. Verbs know resources only through this: a kind is added by
//! describing it, not by writing a handler.

use std::collections::HashMap;
use std::sync::Arc;

use crate::field::FieldError;
use crate::names::NameRule;
use crate::object::Object;
use crate::selector::Selectable;
use crate::shape::BUILTINS;
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
}

impl Subresource {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Finalize => "finalize",
        }
    }
}

/// A field that this version of a kind calls differently than the stored one.
pub(crate) struct Rename {
    pub(crate) stored: &'static str,
    pub(crate) here: &'static str,
}

/// One kind in one version.
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) scope: Scope,
    pub(crate) subresources: Vec<Subresource>,
    /// The name of the type in the shapes.
    pub(crate) shape: &'static str,
    /// Where the objects are kept; versions of one kind share it.
    pub(crate) storage: Storage,
    pub(crate) view: &'static [Rename],
    pub(crate) rules: Rules,
    pub(crate) selectable: &'static [Selectable],
    pub(crate) columns: Vec<Column>,
}

/// How and where the objects of a kind are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Storage {
    /// The keyspace below the logical cluster, such as `leases.coordination.k8s.io`.
    pub(crate) space: String,
    pub(crate) api_version: String,
    pub(crate) shape: &'static str,
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
    /// All objects of a collection can be deleted at once.
    pub(crate) deletes_collections: bool,
    /// Finalizers without a domain must be the ones that Kubernetes itself has.
    pub(crate) qualified_finalizers: bool,
    /// Fills in what is left out, on every write.
    pub(crate) default: fn(&mut Object),
    pub(crate) prepare_create: fn(&mut Object),
    /// Puts back what this endpoint cannot change.
    pub(crate) prepare_update: fn(&mut Object, &Object, Option<Subresource>),
    pub(crate) validate: fn(&Object, Change<'_>) -> Vec<FieldError>,
}

/// What a validation looks at beside the object itself.
#[derive(Clone, Copy)]
pub(crate) struct Change<'a> {
    pub(crate) resource: &'a Resource,
    /// The stored object, on an update.
    pub(crate) old: Option<&'a Object>,
    pub(crate) subresource: Option<Subresource>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            names: NameRule::Subdomain,
            unconditional_update: true,
            create_on_update: false,
            returns_deleted: false,
            deletes_collections: true,
            qualified_finalizers: true,
            default: |_| {},
            prepare_create: |_| {},
            prepare_update: |_, _, _| {},
            validate: |_, _| Vec::new(),
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

    /// Whether this version differs from what is stored.
    pub(crate) fn is_view(&self) -> bool {
        !self.view.is_empty()
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
        object
    }

    /// From the stored names to this version's.
    pub(crate) fn to_served(&self, mut object: Object) -> Object {
        if !self.is_view() {
            return object;
        }
        object.insert("apiVersion".into(), self.api_version().into());
        for rename in self.view {
            if let Some(value) = object.remove(rename.stored) {
                object.insert(rename.here.into(), value);
            }
        }
        // What is stored has its shape; only fields that are optional here and not there can be left to drop.
        BUILTINS.conform(self.shape, object).map(|conformed| conformed.object).unwrap_or_default()
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
        let resources: Vec<Arc<Resource>> = resources.into_iter().map(Arc::new).collect();
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

    /// One resource for each keyspace: the version in which it is stored.
    pub(crate) fn stored(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.iter().filter(|resource| !resource.is_view())
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
