//! Which paths there are and what can be done at each: one table, by which requests are resolved and from which the OpenAPI
//! document is written.

use axum::http::Method;

use crate::kinds::{Kind, Kinds};

/// The segment under which resources of every kind are served.
pub(crate) const EVERY_KIND: &str = "resources";

/// Where a path leads.
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

    /// What can be done there.
    pub(crate) const fn operations(self) -> &'static [Operation] {
        match self {
            Self::Collection => &[Operation::List, Operation::Create],
            Self::Resource => &[Operation::Get, Operation::Patch, Operation::Delete],
            Self::Statuses => &[Operation::Statuses, Operation::Report],
            Self::StatusLog => &[Operation::StatusLog],
            Self::ForceDelete => &[Operation::ForceDelete],
        }
    }

    /// What follows the id in its path.
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Self::Collection | Self::Resource => "",
            Self::Statuses => "/statuses",
            Self::StatusLog => "/statuses/log",
            Self::ForceDelete => "/force-delete",
        }
    }

    /// The methods there, as the header Allow has them.
    pub(crate) fn allow(self) -> String {
        let methods = self.operations().iter().map(|operation| operation.method());
        let with_head = methods.flat_map(|method| match method {
            Method::GET => vec![Method::GET, Method::HEAD],
            method => vec![method],
        });
        with_head.map(|method| method.to_string()).collect::<Vec<_>>().join(", ")
    }
}

/// What is done at a place.
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

    /// Whether it changes something.
    pub(crate) const fn writes(self) -> bool {
        !matches!(self, Self::List | Self::Get | Self::Statuses | Self::StatusLog)
    }
}

/// Whose resources a path is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scope<'k> {
    /// Resources of every kind.
    Every,
    /// Those of a kind.
    Flat(&'k Kind),
    /// Those of a kind, named by their owner.
    Nested { kind: &'k Kind, parent: &'k Kind },
}

impl<'k> Scope<'k> {
    /// All there are.
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

/// What a path names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located<'k, 'p> {
    pub(crate) scope: Scope<'k>,
    pub(crate) place: Place,
    pub(crate) parent_id: Option<&'p str>,
    pub(crate) id: Option<&'p str>,
}

/// Finds where a path below the base leads.
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
