//! What a client is told beside the answer, be it a success or a refusal.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};
use parking_lot::Mutex;

/// How many characters all warnings of an answer may have before each is cut, as in Kubernetes.
const TOTAL: usize = 4 * 1024;
const EACH: usize = 256;

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
        let warnings = self.0.lock();
        let all: usize = warnings.iter().map(|warning| warning.chars().count()).sum();
        let mut told = 0;
        for warning in warnings.iter() {
            if told > TOTAL {
                return;
            }
            // Where there is too much to say, each is kept short.
            let length = if all > TOTAL { EACH } else { TOTAL };
            let warning: String = warning.chars().take(length).collect();
            told += warning.chars().count();
            let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
            if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
                headers.append(header::WARNING, value);
            }
        }
    }
}
