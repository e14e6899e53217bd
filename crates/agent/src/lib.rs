//! The agent of a cluster: brings the objects of ManifestWorks to it, keeps them as they should be, and reports what is
//! there; renews the cluster's lease; carries the silence of add-ons to the hub.
//!
//! | module | what it does |
//! |---|---|
//! | [`work`] | applies the works in the cluster's namespace on the hub, and tells what became of them |
//! | [`lease`] | says that the cluster is in reach, and what it is |
//! | [`mirror`] | says on the hub which add-ons beat |
//!
//! Each is one task with its own watches. **Nothing is shared between agents**, so that a process can run one, or
//! thousands. The [`Context`](bellwether_runtime::Context) that a task is given is that of the cluster; the hub is known
//! by the [`Agent`] beside it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use kube::Client;
use sha2::{Digest as _, Sha256};

pub mod lease;
pub mod mirror;
pub mod work;

/// A cluster as its hub knows it. Cheap to clone.
#[derive(Clone)]
pub struct Agent {
    /// The hub, as the identity of the agent.
    pub hub: Client,
    /// The cluster: the name of its ManagedCluster, and of its namespace on the hub.
    pub cluster: ClusterName,
    /// Which hub it is, as what is made for it is told apart from what is made for another.
    pub hub_hash: HubHash,
    /// Which agent it is, for people.
    pub agent_id: Arc<str>,
}

/// The name of a cluster, which is that of a namespace too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName(Arc<str>);

/// A text that cannot be the name of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} cannot be the name of a cluster: it has at most 63 lower-case letters, digits and '-', and begins and ends with a letter or digit"
)]
pub struct InvalidClusterName(String);

impl ClusterName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ClusterName {
    type Err = InvalidClusterName;

    fn from_str(text: &str) -> Result<Self, InvalidClusterName> {
        let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = text.as_bytes();
        let ends_are_plain = bytes.first().is_some_and(plain) && bytes.last().is_some_and(plain);
        let fits = bytes.len() <= 63 && bytes.iter().all(|byte| plain(byte) || *byte == b'-');
        if ends_are_plain && fits { Ok(Self(text.into())) } else { Err(InvalidClusterName(text.to_owned())) }
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Which hub it is: the SHA-256 of its address.
///
/// It is part of the name of every record on the cluster. A hub whose address may change is best given a text that does
/// not: under another hash what was made before counts as another hub's, and stays when its work goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HubHash(Arc<str>);

impl HubHash {
    /// Of the hub at an address, or by whatever else it is known for good.
    ///
    /// ```
    /// use bellwether_agent::HubHash;
    ///
    /// let hash = HubHash::of("https://hub.example.com:6443");
    /// assert_eq!(hash.as_str().len(), 64);
    /// ```
    pub fn of(url: &str) -> Self {
        let digest = Sha256::digest(url.as_bytes());
        Self(digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into())
    }

    /// As text: hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What an API answers, or why it does not, in one line for people.
pub(crate) fn in_words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.trim().is_empty() => status.message.trim().to_owned(),
        kube::Error::Api(status) => format!("the API answers with {} {}", status.code, status.reason),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_has_the_name_of_a_namespace() {
        let long = "a".repeat(63);
        for name in ["spoke-1", "a", "1", long.as_str()] {
            assert_eq!(name.parse::<ClusterName>().map(|name| name.to_string()), Ok(name.to_owned()));
        }
        let too_long = "a".repeat(64);
        for name in ["", "-a", "a-", "A", "a.b", "a/b", "ä", too_long.as_str()] {
            assert!(name.parse::<ClusterName>().is_err(), "{name}");
        }
    }

    #[test]
    fn a_hub_is_known_by_its_address() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(HubHash::of("").as_str(), empty);
        assert_ne!(HubHash::of("https://a"), HubHash::of("https://b"));
    }
}
