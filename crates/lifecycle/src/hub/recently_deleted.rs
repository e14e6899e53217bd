//! The objects that were deleted last, so that the late response to a write does not bring one back into the cache.

use std::collections::{HashSet, VecDeque};

/// How many are remembered. A response is late by seconds, in which fewer objects are deleted.
const MAX_REMEMBERED: usize = 16_384;

/// The uids of objects that were deleted last.
#[derive(Debug, Default)]
pub(super) struct RecentlyDeleted {
    uids: HashSet<String>,
    order: VecDeque<String>,
}

impl RecentlyDeleted {
    pub(super) fn add(&mut self, uid: Option<String>) {
        let Some(uid) = uid.filter(|uid| !uid.is_empty()) else { return };
        if self.uids.insert(uid.clone()) {
            self.order.push_back(uid);
        }
        while self.order.len() > MAX_REMEMBERED {
            self.order.pop_front().into_iter().for_each(|uid| _ = self.uids.remove(&uid));
        }
    }

    /// The object exists after all.
    pub(super) fn remove(&mut self, uid: &str) {
        self.uids.remove(uid);
    }

    pub(super) fn contains(&self, uid: Option<&str>) -> bool {
        uid.is_some_and(|uid| self.uids.contains(uid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_ones_are_remembered() {
        let mut deleted = RecentlyDeleted::default();
        deleted.add(None);
        deleted.add(Some(String::new()));
        for number in 0..=MAX_REMEMBERED {
            deleted.add(Some(number.to_string()));
            deleted.add(Some(number.to_string()));
        }
        let known = [Some("0"), Some("1"), Some("16384"), Some(""), None].map(|uid| deleted.contains(uid));
        assert_eq!(known, [false, true, true, false, false]);
        assert_eq!((deleted.uids.len(), deleted.order.len()), (MAX_REMEMBERED, MAX_REMEMBERED));
    }
}
