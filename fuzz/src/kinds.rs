//! The kinds that are fuzzed, with an object of each that the server has from its start.

use std::sync::LazyLock;

use serde_json::Value;

use crate::{choose, encoded};

/// A kind, and the object of it that is there.
pub struct Kind {
    /// Where objects of the kind are.
    pub collection: &'static str,
    pub object: Value,
}

impl Kind {
    /// The kind that a byte chooses.
    pub fn chosen(byte: u8) -> &'static Self {
        choose(byte, &KINDS)
    }

    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or("x")
    }

    /// The path of an object.
    pub fn item(&self, name: &str) -> String {
        format!("{}/{}", self.collection, encoded(name))
    }

    /// Whether this is the definition of another kind.
    pub fn defines(&self, other: &Self) -> bool {
        self.object["spec"]["names"]["kind"] == other.object["kind"]
    }

    /// Reviews are answered, and never kept.
    pub fn is_kept(&self) -> bool {
        self.object["metadata"].is_object()
    }
}

/// A new kind goes to the end: seeds choose by number.
pub static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let rows: Vec<(String, Value)> = serde_json::from_str(include_str!("kinds.json")).unwrap();
    rows.into_iter().map(|(path, object)| Kind { collection: path.leak(), object }).collect()
});
