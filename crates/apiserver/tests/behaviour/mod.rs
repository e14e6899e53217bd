//! What clients depend on, as named cases. Each takes a cluster and knows nothing of what stands behind it: the same
//! cases run against our server and against kube-apiserver.

mod apply;
mod cel;
mod crud;
mod custom;
mod deletion;
pub(crate) mod difference;
mod discovery;
mod expiry;
mod identity;
mod kinds;
mod metadata;
mod negotiation;
mod passive;
pub(crate) mod protobuf;
mod reviews;
mod revisions;
mod selectors;
mod status;
mod transport;
mod watch;

use std::fmt;

use bellwether_testkit::Cluster;
use futures::future::BoxFuture;
use serde_json::{Value, json};

/// One case.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    /// The module it is in.
    pub(crate) section: &'static str,
    /// Its name, a sentence.
    pub(crate) name: &'static str,
    /// The case itself.
    pub(crate) run: for<'a> fn(&'a Cluster) -> BoxFuture<'a, ()>,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.section, self.name)
    }
}

/// Registers the cases of a module.
macro_rules! cases {
    ($section:literal: $($case:ident),* $(,)?) => {
        pub(super) const CASES: &[super::Case] = &[
            $(super::Case { section: $section, name: stringify!($case), run: |cluster| Box::pin($case(cluster)) }),*
        ];
    };
}
use cases;

/// Every case there is.
pub(crate) fn all() -> Vec<Case> {
    [
        transport::CASES,
        status::CASES,
        discovery::CASES,
        negotiation::CASES,
        protobuf::CASES,
        crud::CASES,
        metadata::CASES,
        revisions::CASES,
        expiry::CASES,
        watch::CASES,
        selectors::CASES,
        deletion::CASES,
        kinds::CASES,
        passive::CASES,
        identity::CASES,
        reviews::CASES,
        apply::CASES,
        cel::CASES,
        custom::CASES,
    ]
    .concat()
}

/// The path of the ConfigMaps of a namespace.
fn config_maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// A ConfigMap with one entry.
fn config_map(name: &str) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, "data": {"key": "value"}})
}

/// The resourceVersion of an object or a list, as a number.
#[track_caller]
fn revision(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str().expect("a resourceVersion");
    text.parse().expect("a resourceVersion is a number")
}
