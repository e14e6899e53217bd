//! Where our server differs from kube-apiserver on purpose. Each difference has a row with its reason in
//! `docs/apiserver.md`; a case that meets one says so by name.

use bellwether_testkit::Cluster;

/// A deliberate difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    /// A resourceVersion on a new object is the client's mistake, not ours.
    RevisionOnCreate,
}

impl Difference {
    /// What to expect from this cluster.
    pub(crate) fn expect<T>(self, cluster: &Cluster, kubernetes: T, ours: T) -> T {
        if cluster.is_kubernetes() { kubernetes } else { ours }
    }
}
