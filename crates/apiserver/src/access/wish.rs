//! What somebody wants to do, as rules are asked about it, and the words in which it is refused.

use crate::status::{Qualified, Refusal};

/// Something that somebody wants to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish<'a> {
    pub(crate) verb: &'a str,
    pub(crate) on: On<'a>,
}

/// What it is to be done to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum On<'a> {
    Resource {
        group: &'a str,
        resource: &'a str,
        /// Empty: the resource itself.
        subresource: &'a str,
        /// Empty: the cluster scope, or all namespaces.
        namespace: &'a str,
        /// Empty: no object in particular.
        name: &'a str,
    },
    /// A path that leads to no resource.
    Path(&'a str),
}

impl<'a> Wish<'a> {
    /// The namespace whose bindings count; empty when only those of the cluster do.
    pub(crate) fn namespace(&self) -> &'a str {
        match self.on {
            On::Resource { namespace, .. } => namespace,
            On::Path(_) => "",
        }
    }

    /// The answer to somebody who may not.
    pub(crate) fn refused(&self, user: &str, reason: &str) -> Refusal {
        let verb = self.verb;
        let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        match self.on {
            On::Path(path) => Refusal::forbidden(
                Qualified { group: "", name: "" },
                "",
                format!("User {user:?} cannot {verb} path {path:?}{reason}"),
            ),
            On::Resource { group, resource, subresource, namespace, name } => {
                let whole = match subresource {
                    "" => resource.to_owned(),
                    part => format!("{resource}/{part}"),
                };
                let place = match namespace {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {namespace:?}"),
                };
                Refusal::forbidden(
                    Qualified { group, name: resource },
                    name,
                    format!(
                        "User {user:?} cannot {verb} resource {whole:?} in API group {group:?} {place}{reason}"
                    ),
                )
            }
        }
    }
}
