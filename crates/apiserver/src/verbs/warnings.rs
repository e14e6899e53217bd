//! What a client is told beside the answer, be it a success or a refusal.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};
use parking_lot::Mutex;

/// The warnings of one request; clones share them.
#[derive(Clone, Default)]
pub(crate) struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Adds warnings, each once.
    pub(crate) fn add(&self, warnings: impl IntoIterator<Item = String>) {
        let mut known = self.0.lock();
        for warning in warnings {
            if !known.contains(&warning) {
                known.push(warning);
            }
        }
    }

    /// Writes them where clients look for them.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        for warning in self.0.lock().iter() {
            let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
            if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
                headers.append(header::WARNING, value);
            }
        }
    }
}
