//! What a process says of itself at `/readyz`: each part is well, or says what troubles it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// The parts of a process and their troubles. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Health {
    troubles: Arc<Mutex<BTreeMap<String, Option<String>>>>,
}

impl Health {
    /// A part, which is in trouble until it says that it is well. It counts until it is dropped.
    pub fn part(&self, name: impl Into<String>) -> Part {
        let part = Part { name: name.into(), health: self.clone() };
        part.trouble("it has not started yet");
        part
    }

    /// The parts in trouble, each with its words.
    pub fn troubles(&self) -> Vec<(String, String)> {
        let troubles = self.troubles.lock();
        troubles.iter().filter_map(|(name, words)| Some((name.clone(), words.clone()?))).collect()
    }
}

/// One part of a process.
#[derive(Debug)]
pub struct Part {
    name: String,
    health: Health,
}

impl Part {
    /// Nothing troubles it.
    pub fn well(&self) {
        self.note(None);
    }

    /// Something does.
    pub fn trouble(&self, words: impl Into<String>) {
        self.note(Some(words.into()));
    }

    fn note(&self, trouble: Option<String>) {
        self.health.troubles.lock().insert(self.name.clone(), trouble);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.health.troubles.lock().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_counts_from_its_making_to_its_end() {
        let health = Health::default();
        assert!(health.troubles().is_empty());
        let part = health.part("checker");
        assert_eq!(health.troubles(), [("checker".into(), "it has not started yet".into())]);
        part.well();
        assert!(health.troubles().is_empty());
        part.trouble("no answer");
        assert_eq!(health.troubles(), [("checker".into(), "no answer".into())]);
        drop(part);
        assert!(health.troubles().is_empty());
    }
}
