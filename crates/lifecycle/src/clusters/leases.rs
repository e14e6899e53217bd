//! Whether clusters are heard: the last sign of life of each, in memory. It reads no clock and writes nothing.
//!
//! What counts is when this process saw a lease change, on a clock that does not step; the stamp in it only says that it
//! did. So a hub that was down, and whose agents could not renew their leases, finds nobody lost when it is back.

use std::collections::HashMap;
use std::time::Duration;

use bellwether_api::cluster::ManagedCluster;
use bellwether_api::cluster::vocabulary::LEASE_GRACE;
use bellwether_conditions::Status;
use bellwether_conditions::freshness::{Beat, Boundary, Freshness, Judgement};
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::decide::{Reach, availability, lease_seconds};

/// How many clusters are remembered beyond those that there are, before those that have gone are forgotten.
const STRAYS: usize = 64;

/// What is known of all clusters.
#[derive(Default)]
pub(super) struct Leases {
    lives: HashMap<String, Life>,
    /// When the API could last not be reached; nobody could renew a lease then.
    troubled: Option<Timestamp>,
}

struct Life {
    beat: Beat,
    /// Whether it was last seen to be out of reach.
    lost: bool,
}

impl Leases {
    /// The lease of a cluster was seen at `now`.
    pub(super) fn seen(&mut self, cluster: &str, stamp: Option<Timestamp>, now: Timestamp) {
        let Some(stamp) = stamp else { return };
        match self.lives.get_mut(cluster) {
            Some(life) => life.beat = Beat::observe(Some(life.beat), stamp, now),
            // However old it is, it may have been renewed in vain until now.
            None => {
                let life = Life { beat: Beat::arrived(stamp, now), lost: false };
                self.lives.insert(cluster.to_owned(), life);
            }
        }
    }

    /// The API could not be reached at `now`.
    pub(super) fn troubled(&mut self, now: Timestamp) {
        self.troubled = Some(now);
    }

    /// Whether a cluster is heard at `now`.
    pub(super) fn judge(&mut self, cluster: &ManagedCluster, now: Timestamp) -> Reach {
        let said = cluster.status.as_ref().and_then(|status| availability(&status.conditions));
        let life = self
            .lives
            .entry(cluster.name_any())
            .or_insert_with(|| Life { beat: Beat::witnessed(now), lost: false });
        if life.lost && said != Some(Status::Unknown) {
            // The agent has spoken, which is a sign of life too, and may come before the next renewal.
            life.beat = Beat::witnessed(now);
        }
        life.lost = said == Some(Status::Unknown);
        let limit =
            Duration::from_secs(u64::from(lease_seconds(cluster)) * u64::from(LEASE_GRACE.unsigned_abs()));
        let freshness = Freshness { limit, boundary: Boundary::StaleAtLimit, max_clock_lead: limit };
        let excused = self.troubled.map(|troubled| freshness.judge(Some(&Beat::witnessed(troubled)), now));
        let heard = freshness.judge(Some(&life.beat), now);
        let until = [Some(heard), excused].into_iter().flatten().filter_map(Judgement::next_change).max();
        until.map_or(Reach::Silent, |until| Reach::Heard { until })
    }

    /// Forgets those that have gone, once they are many.
    pub(super) fn forget(&mut self, present: usize, is_present: impl Fn(&str) -> bool) {
        if self.lives.len() > present.saturating_mul(2).saturating_add(STRAYS) {
            self.lives.retain(|cluster, _| is_present(cluster));
        }
    }
}

#[cfg(test)]
mod tests {
    use bellwether_api::cluster::vocabulary::AVAILABLE;
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn cluster(available: &str) -> ManagedCluster {
        serde_json::from_value(json!({
            "metadata": {"name": "c"}, "spec": {"leaseDurationSeconds": 10},
            "status": {"conditions": [{"type": AVAILABLE, "status": available, "reason": "R", "message": "",
                "lastTransitionTime": "1970-01-01T00:00:00Z"}]},
        }))
        .unwrap()
    }

    fn until(second: i64) -> Reach {
        Reach::Heard { until: at(second) }
    }

    #[test]
    fn a_cluster_is_heard_for_five_times_its_lease() {
        let mut leases = Leases::default();
        leases.seen("c", Some(at(1000)), at(1000));
        leases.seen("c", Some(at(1010)), at(1011));
        assert_eq!(leases.judge(&cluster("True"), at(1012)), until(1061));
        leases.seen("c", Some(at(1010)), at(1020));
        assert_eq!(leases.judge(&cluster("True"), at(1060)), until(1061), "the same stamp is no renewal");
        assert_eq!(leases.judge(&cluster("True"), at(1061)), Reach::Silent);
        leases.seen("c", Some(at(500)), at(1062));
        assert_eq!(leases.judge(&cluster("True"), at(1062)), until(1112), "also by a clock that lags");
    }

    #[test]
    fn who_is_seen_for_the_first_time_has_its_whole_time() {
        let rows = [("an old lease", Some(10)), ("no lease", None), ("a lease of the future", Some(90_000))];
        for (sentence, stamp) in rows {
            let mut leases = Leases::default();
            leases.seen("c", stamp.map(at), at(1000));
            assert_eq!(leases.judge(&cluster("True"), at(1000)), until(1050), "{sentence}");
            assert_eq!(leases.judge(&cluster("True"), at(1050)), Reach::Silent, "{sentence}");
        }
    }

    #[test]
    fn time_in_which_the_api_could_not_be_reached_is_nobodys_silence() {
        let mut leases = Leases::default();
        leases.seen("c", Some(at(1000)), at(1000));
        leases.troubled(at(1045));
        assert_eq!(leases.judge(&cluster("True"), at(1060)), until(1095));
        assert_eq!(leases.judge(&cluster("True"), at(1095)), Reach::Silent);
    }

    #[test]
    fn an_agent_that_speaks_again_is_heard_before_it_renews_its_lease() {
        let mut leases = Leases::default();
        leases.seen("c", Some(at(1000)), at(1000));
        assert_eq!(leases.judge(&cluster("True"), at(1050)), Reach::Silent);
        assert_eq!(leases.judge(&cluster("Unknown"), at(1051)), Reach::Silent);
        assert_eq!(leases.judge(&cluster("True"), at(1100)), until(1150));
        assert_eq!(leases.judge(&cluster("True"), at(1150)), Reach::Silent);
    }

    #[test]
    fn those_that_have_gone_are_forgotten_once_they_are_many() {
        let mut leases = Leases::default();
        for number in 0..200 {
            leases.seen(&number.to_string(), Some(at(0)), at(0));
        }
        leases.forget(100, |_| false);
        assert_eq!(leases.lives.len(), 200);
        leases.forget(10, |cluster| cluster.len() == 1);
        assert_eq!(leases.lives.len(), 10);
    }
}
