//! Objects that are gone, so that the answer to a write that was under way does not bring them back.

use std::collections::{HashSet, VecDeque};

/// How many are remembered. An answer is late by seconds, and as many objects do not go in that time.
const MOST: usize = 16_384;

/// Objects that are gone, by their uid, the last ones only.
#[derive(Debug, Default)]
pub(super) struct Departed {
    uids: HashSet<String>,
    order: VecDeque<String>,
}

impl Departed {
    /// It is gone.
    pub(super) fn add(&mut self, uid: Option<String>) {
        let Some(uid) = uid.filter(|uid| !uid.is_empty()) else { return };
        if self.uids.insert(uid.clone()) {
            self.order.push_back(uid);
        }
        while self.order.len() > MOST {
            self.order.pop_front().into_iter().for_each(|uid| _ = self.uids.remove(&uid));
        }
    }

    /// It is there after all.
    pub(super) fn remove(&mut self, uid: &str) {
        self.uids.remove(uid);
    }

    /// Whether it is gone.
    pub(super) fn has(&self, uid: Option<&str>) -> bool {
        uid.is_some_and(|uid| self.uids.contains(uid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_are_remembered() {
        let mut departed = Departed::default();
        departed.add(None);
        departed.add(Some(String::new()));
        for number in 0..=MOST {
            departed.add(Some(number.to_string()));
            departed.add(Some(number.to_string()));
        }
        let known = [Some("0"), Some("1"), Some("16384"), Some(""), None].map(|uid| departed.has(uid));
        assert_eq!(known, [false, true, true, false, false]);
        assert_eq!((departed.uids.len(), departed.order.len()), (MOST, MOST));
    }
}
