//! `endpoints.json`: the addresses that are really bound, there exactly while the server is up.

use std::path::PathBuf;

use bellwether_apiserver::pki::write_private;
use serde_json::Value;

/// The file, removed when dropped.
pub(crate) struct Endpoints(PathBuf);

impl Endpoints {
    /// Writes the file, whole or not at all.
    pub(crate) fn publish(path: PathBuf, addresses: &Value) -> anyhow::Result<Self> {
        write_private(&path, format!("{addresses}\n").as_bytes())?;
        Ok(Self(path))
    }
}

impl Drop for Endpoints {
    fn drop(&mut self) {
        // Gone already is as good as removed.
        let _ = std::fs::remove_file(&self.0);
    }
}
