//! `endpoints.json`: the addresses that are really bound, there exactly while the server is up.

use std::path::PathBuf;

use bellwether_apiserver::pki::write_private;
use serde::{Deserialize, Serialize};

/// What is bound where.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Addresses {
    pub(crate) kubernetes: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) http: Option<String>,
}

/// The file, removed when dropped.
pub(crate) struct Endpoints(PathBuf);

impl Endpoints {
    /// Writes the file, whole or not at all.
    pub(crate) fn publish(path: PathBuf, addresses: &Addresses) -> anyhow::Result<Self> {
        let mut text = serde_json::to_vec(addresses)?;
        text.push(b'\n');
        write_private(&path, &text)?;
        Ok(Self(path))
    }
}

impl Drop for Endpoints {
    fn drop(&mut self) {
        // Gone already is as good as removed.
        let _ = std::fs::remove_file(&self.0);
    }
}
