//! What a process says of itself at `/readyz`: each part is well, or says what troubles it.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::core::Status;
use kube::runtime::watcher;
use parking_lot::Mutex;

/// Says what troubles a part, when asked.
type Question = Box<dyn Fn() -> Option<String> + Send>;

/// The parts of a process and their troubles. Clones are the same.
#[derive(Clone, Default)]
pub struct Health {
    troubles: Arc<Mutex<BTreeMap<String, Option<String>>>>,
    questions: Arc<Mutex<Vec<(String, Question)>>>,
}

impl Health {
    /// A part, which is in trouble until it says that it is well. It counts until it is dropped.
    pub fn part(&self, name: impl Into<String>) -> Part {
        let part = Part { name: name.into(), health: self.clone() };
        part.trouble("it has not started yet");
        part
    }

    /// A part that does not tell of its troubles by itself, but says them when asked.
    pub fn ask(&self, name: impl Into<String>, question: impl Fn() -> Option<String> + Send + 'static) {
        self.questions.lock().push((name.into(), Box::new(question)));
    }

    /// The parts in trouble, each with its words.
    pub fn troubles(&self) -> Vec<(String, String)> {
        let questions = self.questions.lock();
        let asked = questions.iter().filter_map(|(name, question)| Some((name.clone(), question()?)));
        let troubles = self.troubles.lock();
        let told = troubles.iter().filter_map(|(name, words)| Some((name.clone(), words.clone()?)));
        asked.chain(told).collect()
    }
}

impl std::fmt::Debug for Health {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_map().entries(self.troubles()).finish()
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

/// What the API answers, in one line.
pub(crate) fn answer_in_words(status: &Status) -> String {
    format!("the API answers with {}: {}", status.code, status.message.trim())
}

/// Why a watch fails, in one line: of what the API answers, its words.
pub fn in_words(error: &watcher::Error) -> String {
    use kube::Error::Api;
    use watcher::Error::{InitialListFailed, WatchError, WatchFailed, WatchStartFailed};
    let status = match error {
        InitialListFailed(Api(status)) | WatchStartFailed(Api(status)) | WatchFailed(Api(status)) => status,
        WatchError(status) => status,
        other => return other.to_string(),
    };
    answer_in_words(status)
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
        health.ask("store", || Some("the disk is full".into()));
        assert_eq!(health.troubles(), [("store".into(), "the disk is full".into())]);
    }
}
