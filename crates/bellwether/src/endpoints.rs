//! `endpoints.json`: the addresses that the server has bound. The file exists while the server is up.

use std::path::PathBuf;

use bellwether_apiserver::pki::write_private;
use serde::{Deserialize, Serialize};

/// The content of `endpoints.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Addresses {
    pub(crate) kubernetes: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) http: Option<String>,
}

/// The file, which is removed on drop.
pub(crate) struct Endpoints(PathBuf);

impl Endpoints {
    /// Writes the file atomically.
    pub(crate) fn publish(path: PathBuf, addresses: &Addresses) -> anyhow::Result<Self> {
        let mut text = serde_json::to_vec(addresses)?;
        text.push(b'\n');
        write_private(&path, &text)?;
        Ok(Self(path))
    }
}

impl Drop for Endpoints {
    fn drop(&mut self) {
        // It is not an error if the file does not exist any more.
        let _ = std::fs::remove_file(&self.0);
    }
}
