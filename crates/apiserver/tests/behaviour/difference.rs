//! Where our server differs from kube-apiserver on purpose. Each difference has a row with its reason in
//! `docs/apiserver.md`; a case that meets one says so by name.

use bellwether_testkit::Cluster;

/// A deliberate difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    /// A mistake of the client is a 400, also where Kubernetes answers 500.
    ClientMistakes,
    /// What is wrong with text that is no JSON, no YAML or no time is said in the words of our parsers.
    ParserWords,
    /// Messages do not name keys in etcd, and do not read an object as a kind that it only claims to be.
    Internals,
    /// Values that a message quotes have their keys sorted.
    KeyOrder,
    /// Answers are not in protobuf, and objects of custom kinds are not looked for in it.
    NoProtobuf,
    /// No addresses are given to Services.
    NoClusterIps,
    /// `/api` names no server address.
    NoServerAddress,
    /// The content of Secrets is not looked into for warnings.
    ContentWarnings,
    /// An object that claims to be of another kind or version is looked at no further.
    MistakenIdentity,
    /// A definition whose schema has a type that is none is judged no further.
    UnknownTypes,
    /// Conversion between versions by webhook is refused.
    NoConversionWebhooks,
    /// Nobody is anonymous: who shows nothing gets 401, but for health.
    NoAnonymous,
    /// Webhooks and policies of admission are kept and not enforced, and their authors are warned.
    NotEnforced,
    /// No finalizer holds volumes, claims and their classes while they are in use.
    NoVolumeProtection,
}

impl Difference {
    /// All of them, for the test that looks for each in the documentation.
    #[allow(dead_code, reason = "used by one of the two entry points")]
    pub(crate) const ALL: [Self; 14] = [
        Self::ClientMistakes,
        Self::ParserWords,
        Self::Internals,
        Self::KeyOrder,
        Self::NoProtobuf,
        Self::NoClusterIps,
        Self::NoServerAddress,
        Self::ContentWarnings,
        Self::MistakenIdentity,
        Self::UnknownTypes,
        Self::NoConversionWebhooks,
        Self::NoAnonymous,
        Self::NotEnforced,
        Self::NoVolumeProtection,
    ];

    /// What to expect from this cluster.
    pub(crate) fn expect<T>(self, cluster: &Cluster, kubernetes: T, ours: T) -> T {
        if cluster.is_kubernetes() { kubernetes } else { ours }
    }
}
