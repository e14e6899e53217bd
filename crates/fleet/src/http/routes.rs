//! The table of paths and their operations. Requests are resolved by it, and the OpenAPI document is generated from it.

use axum::http::Method;

use crate::kinds::{Kind, Kinds};

/// The segment under which resources of every kind are served.
pub(crate) const EVERY_KIND: &str = "resources";

/// The part of the API that a path addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Collection,
    Resource,
    Statuses,
    StatusLog,
    ForceDelete,
}

impl Place {
    pub(crate) const ALL: [Self; 5] =
        [Self::Collection, Self::Resource, Self::Statuses, Self::StatusLog, Self::ForceDelete];

    /// The operations of the path.
    pub(crate) const fn operations(self) -> &'static [Operation] {
        match self {
            Self::Collection => &[Operation::List, Operation::Create],
            Self::Resource => &[Operation::Get, Operation::Patch, Operation::Delete],
            Self::Statuses => &[Operation::Statuses, Operation::Report],
            Self::StatusLog => &[Operation::StatusLog],
            Self::ForceDelete => &[Operation::ForceDelete],
        }
    }

    /// The part of the path after the ID.
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Self::Collection | Self::Resource => "",
            Self::Statuses => "/statuses",
            Self::StatusLog => "/statuses/log",
            Self::ForceDelete => "/force-delete",
        }
    }

    /// The allowed methods, for the header Allow.
    pub(crate) fn allow(self) -> String {
        let methods = self.operations().iter().map(|operation| operation.method());
        let with_head = methods.flat_map(|method| match method {
            Method::GET => vec![Method::GET, Method::HEAD],
            method => vec![method],
        });
        with_head.map(|method| method.to_string()).collect::<Vec<_>>().join(", ")
    }
}

/// An operation of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    List,
    Create,
    Get,
    Patch,
    Delete,
    ForceDelete,
    Statuses,
    Report,
    StatusLog,
}

impl Operation {
    pub(crate) const fn method(self) -> Method {
        match self {
            Self::List | Self::Get | Self::Statuses | Self::StatusLog => Method::GET,
            Self::Create | Self::ForceDelete => Method::POST,
            Self::Patch => Method::PATCH,
            Self::Delete => Method::DELETE,
            Self::Report => Method::PUT,
        }
    }

    /// Whether the operation writes.
    pub(crate) const fn writes(self) -> bool {
        !matches!(self, Self::List | Self::Get | Self::Statuses | Self::StatusLog)
    }
}

/// The resources that a path addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scope<'k> {
    /// Resources of every kind.
    Every,
    /// Resources of a kind.
    Flat(&'k Kind),
    /// Resources of a kind, below their owner.
    Nested { kind: &'k Kind, parent: &'k Kind },
}

impl<'k> Scope<'k> {
    /// All scopes.
    pub(crate) fn all(kinds: &'k Kinds) -> Vec<Self> {
        let mut all = Vec::new();
        for kind in kinds.iter() {
            all.push(Self::Flat(kind));
            if let Some(parent) = kind.parent.as_deref().and_then(|parent| kinds.get(parent)) {
                all.push(Self::Nested { kind, parent });
            }
        }
        all.push(Self::Every);
        all
    }

    pub(crate) fn kind(self) -> Option<&'k Kind> {
        match self {
            Self::Every => None,
            Self::Flat(kind) | Self::Nested { kind, .. } => Some(kind),
        }
    }

    /// The path of a place below the base, with its parameters in braces.
    pub(crate) fn template(self, place: Place) -> String {
        let collection = match self {
            Self::Every => format!("/{EVERY_KIND}"),
            Self::Flat(kind) => format!("/{}", kind.plural),
            Self::Nested { kind, parent } => format!("/{}/{{parent_id}}/{}", parent.plural, kind.plural),
        };
        match place {
            Place::Collection => collection,
            _ => format!("{collection}/{{id}}{}", place.suffix()),
        }
    }
}

/// A resolved path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located<'k, 'p> {
    pub(crate) scope: Scope<'k>,
    pub(crate) place: Place,
    pub(crate) parent_id: Option<&'p str>,
    pub(crate) id: Option<&'p str>,
}

/// Resolves a path below the base path.
pub(crate) fn locate<'k, 'p>(kinds: &'k Kinds, path: &'p str) -> Option<Located<'k, 'p>> {
    let segments: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    let by_plural = |plural: &str| kinds.iter().find(|kind| kind.plural == plural);
    let (first, below) = segments.split_first()?;
    let scope = if *first == EVERY_KIND { Scope::Every } else { Scope::Flat(by_plural(first)?) };
    if let (Scope::Flat(parent), [parent_id, plural, below @ ..]) = (scope, below)
        && let Some(kind) = by_plural(plural).filter(|kind| kind.parent.as_deref() == Some(&parent.name))
    {
        let (place, id) = place(below)?;
        return Some(Located {
            scope: Scope::Nested { kind, parent },
            place,
            parent_id: Some(parent_id),
            id,
        });
    }
    let (place, id) = place(below)?;
    Some(Located { scope, place, parent_id: None, id })
}

fn place<'p>(segments: &[&'p str]) -> Option<(Place, Option<&'p str>)> {
    match segments {
        [] => Some((Place::Collection, None)),
        [id] if !id.is_empty() => Some((Place::Resource, Some(id))),
        [id, "statuses"] => Some((Place::Statuses, Some(id))),
        [id, "statuses", "log"] => Some((Place::StatusLog, Some(id))),
        [id, "force-delete"] => Some((Place::ForceDelete, Some(id))),
        _ => None,
    }
}
