//! The agent of a cluster: applies the objects of ManifestWorks, renews the cluster's Lease, and copies the heartbeat
//! status of add-ons to the hub.
//!
//! | module | what it does |
//! |---|---|
//! | [`work`] | applies the ManifestWorks in the cluster's namespace on the hub, and reports their status |
//! | [`lease`] | renews the cluster's Lease, and reports its name and Kubernetes version |
//! | [`mirror`] | copies the health that AddonInstances report to ManagedClusterAddOns on the hub |
//!
//! Each is one controller with its own watches. **Agents share no state**, so that one process can run thousands of
//! them. The [`Context`](bellwether_runtime::Context) of a controller has the client of the cluster; its [`Agent`] has
//! the client of the hub.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use kube::Client;
use sha2::{Digest as _, Sha256};

pub mod lease;
pub mod mirror;
pub mod work;

/// The identity of an agent: its cluster, and its connection to the hub. Cheap to clone.
#[derive(Clone)]
pub struct Agent {
    /// The client of the hub, with the credentials of the agent.
    pub hub: Client,
    /// The name of the cluster's ManagedCluster, and of its namespace on the hub.
    pub cluster: ClusterName,
    /// Identifies the hub, so that objects of several hubs on one cluster are kept apart.
    pub hub_hash: HubHash,
    /// The name of the agent in AppliedManifestWorks and in the Lease.
    pub agent_id: Arc<str>,
}

/// The name of a cluster, which is also the name of its namespace on the hub.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName(Arc<str>);

/// The text is not a valid name of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid cluster name {0:?}: must be at most 63 lower-case letters, digits and '-', and begin and end with a letter or digit"
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
        let is_alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = text.as_bytes();
        let has_valid_ends =
            bytes.first().is_some_and(is_alphanumeric) && bytes.last().is_some_and(is_alphanumeric);
        let has_valid_bytes =
            bytes.len() <= 63 && bytes.iter().all(|byte| is_alphanumeric(byte) || *byte == b'-');
        if has_valid_ends && has_valid_bytes {
            Ok(Self(text.into()))
        } else {
            Err(InvalidClusterName(text.to_owned()))
        }
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Identifies a hub: the SHA-256 of its URL.
///
/// It is part of the name of every AppliedManifestWork. If the URL of a hub may change, use another text that stays the
/// same: under a new hash, the objects that were applied before belong to another hub, and are not deleted with their
/// ManifestWork.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HubHash(Arc<str>);

impl HubHash {
    /// The hash of a hub's URL, or of another text that identifies the hub permanently.
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

    /// The hash as hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Describes an error of an API request in one line: the message of the server's response, or why there is no response.
pub(crate) fn describe_error(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.trim().is_empty() => status.message.trim().to_owned(),
        kube::Error::Api(status) => {
            format!("the API server responded with {} {}", status.code, status.reason)
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_name_is_a_dns_label() {
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
    fn hub_hash_is_the_sha256_of_the_url() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(HubHash::of("").as_str(), empty);
        assert_ne!(HubHash::of("https://a"), HubHash::of("https://b"));
    }
}
