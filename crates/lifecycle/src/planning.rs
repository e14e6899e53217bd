//! When add-ons as a whole are planned: a moment after something stirred, so that a thousand clusters that answer together
//! are one plan and not a thousand; and never for more than a part of the time, as a plan looks at all clusters. Else the
//! work for a change of so many clusters would grow with the square of their number.

use std::collections::VecDeque;
use std::time::Duration;

use bellwether_runtime::Agenda;
use tokio::time::Instant;

/// How long an add-on waits after something stirred.
const MOMENT: Duration = Duration::from_millis(20);
/// How long nothing is planned after a plan, as a multiple of the time that it took.
const REST: u32 = 4;
/// How long nothing is planned at the most.
const LONGEST: Duration = Duration::from_secs(2);

/// What is to be planned, and when.
#[derive(Debug)]
pub(crate) struct Planning<K> {
    agenda: Agenda<K>,
    /// Those whose time has come, in order: who is planned often does not come before who waits.
    due: VecDeque<K>,
    rest: Instant,
}

impl<K> Default for Planning<K> {
    fn default() -> Self {
        Self { agenda: Agenda::default(), due: VecDeque::new(), rest: Instant::now() }
    }
}

impl<K: Clone + Ord + std::hash::Hash> Planning<K> {
    /// Something stirred. A time that was set may be hours away, and is no reason to wait with this.
    pub(crate) fn soon(&mut self, key: K) {
        self.agenda.sooner(key, Instant::now() + MOMENT);
    }

    /// Time alone changes the plan then; that comes instead of what was set before.
    pub(crate) fn at(&mut self, key: K, at: Instant) {
        self.agenda.set(key, at);
    }

    /// Waits until something is to be planned, and takes it. Nothing is lost when it is dropped.
    pub(crate) async fn next(&mut self) -> K {
        loop {
            let rest = self.rest;
            tokio::select! {
                biased;
                key = self.agenda.next() => if !self.due.contains(&key) { self.due.push_back(key) },
                () = tokio::time::sleep_until(rest), if !self.due.is_empty() => {
                    if let Some(key) = self.due.pop_front() {
                        return key;
                    }
                }
            }
        }
    }

    /// A plan that was begun then is made.
    pub(crate) fn planned(&mut self, begun: Instant) {
        self.rest = Instant::now() + (begun.elapsed() * REST).min(LONGEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_stirs_is_planned_once_in_a_moment_and_what_is_set_is_no_reason_to_wait() {
        let mut planning = Planning::default();
        let begun = Instant::now();
        planning.at("a", begun + Duration::from_secs(60));
        (0..10).for_each(|_| planning.soon("a"));
        assert_eq!(planning.next().await, "a");
        assert_eq!(begun.elapsed().as_millis(), 20);
        planning.at("a", begun + Duration::from_secs(60));
        assert_eq!(planning.next().await, "a");
        assert_eq!(begun.elapsed().as_secs(), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn plans_take_a_part_of_the_time_and_each_comes_in_its_turn() {
        let mut planning = Planning::default();
        let begun = Instant::now();
        let mut seen = Vec::new();
        planning.soon("z");
        while seen.len() < 6 {
            // This one stirs all the time, and would come first by its name.
            planning.soon("a");
            seen.push(planning.next().await);
            let now = Instant::now();
            tokio::time::advance(Duration::from_millis(100)).await;
            planning.planned(now);
            if seen.len() % 2 == 0 {
                planning.soon("z");
            }
        }
        assert_eq!(seen, ["a", "z", "a", "z", "a", "z"]);
        let elapsed = begun.elapsed();
        let (least, most) = (Duration::from_millis(2_600), Duration::from_millis(2_700));
        assert!((least..most).contains(&elapsed), "{elapsed:?}");
        let now = Instant::now();
        tokio::time::advance(Duration::from_secs(10)).await;
        planning.planned(now);
        planning.soon("a");
        let now = Instant::now();
        planning.next().await;
        assert_eq!(now.elapsed().as_secs(), 2, "however long it took");
    }
}
