//! Tracks in memory when the Lease of each cluster was last renewed. It reads no clock and writes nothing.
//!
//! The age of a Lease counts from when this process saw it change, on a monotonic clock; `renewTime` is only compared for
//! changes. So after an outage of the hub, during which agents could not renew their Leases, no cluster is unreachable.

use std::collections::HashMap;
use std::time::Duration;

use bellwether_api::cluster::ManagedCluster;
use bellwether_api::cluster::vocabulary::LEASE_GRACE;
use bellwether_conditions::Status;
use bellwether_conditions::freshness::{Beat, Boundary, Freshness, Judgement};
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::decide::{Reach, availability, lease_seconds};

/// How many entries of deleted clusters may remain before they are removed.
const MAX_DELETED_ENTRIES: usize = 64;

/// The last renewals of the Leases of all clusters.
#[derive(Default)]
pub(super) struct LeaseTracker {
    clusters: HashMap<String, ClusterLease>,
    /// When a request to the API server last failed; agents may have been unable to renew their Leases then.
    last_api_failure: Option<Timestamp>,
}

struct ClusterLease {
    last_renewal: Beat,
    /// Whether the condition Available was Unknown at the last reconcile.
    was_unreachable: bool,
}

impl LeaseTracker {
    /// Records the `renewTime` of a Lease that was received at `now`.
    pub(super) fn record_renewal(&mut self, cluster: &str, renew_time: Option<Timestamp>, now: Timestamp) {
        let Some(renew_time) = renew_time else { return };
        match self.clusters.get_mut(cluster) {
            Some(lease) => lease.last_renewal = Beat::observe(Some(lease.last_renewal), renew_time, now),
            // However old the Lease is, the agent may have been unable to renew it until now.
            None => {
                let lease =
                    ClusterLease { last_renewal: Beat::arrived(renew_time, now), was_unreachable: false };
                self.clusters.insert(cluster.to_owned(), lease);
            }
        }
    }

    /// Records that a request to the API server failed at `now`.
    pub(super) fn record_api_failure(&mut self, now: Timestamp) {
        self.last_api_failure = Some(now);
    }

    /// Whether a cluster is reachable at `now`.
    pub(super) fn reach(&mut self, cluster: &ManagedCluster, now: Timestamp) -> Reach {
        let available = cluster.status.as_ref().and_then(|status| availability(&status.conditions));
        let lease = self
            .clusters
            .entry(cluster.name_any())
            .or_insert_with(|| ClusterLease { last_renewal: Beat::witnessed(now), was_unreachable: false });
        if lease.was_unreachable && available != Some(Status::Unknown) {
            // The agent has set the condition again, which proves that it is back, possibly before its next renewal.
            lease.last_renewal = Beat::witnessed(now);
        }
        lease.was_unreachable = available == Some(Status::Unknown);
        let limit =
            Duration::from_secs(u64::from(lease_seconds(cluster)) * u64::from(LEASE_GRACE.unsigned_abs()));
        let freshness = Freshness { limit, boundary: Boundary::StaleAtLimit, max_clock_lead: limit };
        let since_failure =
            self.last_api_failure.map(|failure| freshness.judge(Some(&Beat::witnessed(failure)), now));
        let since_renewal = freshness.judge(Some(&lease.last_renewal), now);
        let until = [Some(since_renewal), since_failure]
            .into_iter()
            .flatten()
            .filter_map(Judgement::next_change)
            .max();
        until.map_or(Reach::Unreachable, |until| Reach::Reachable { until })
    }

    /// Removes the entries of deleted clusters, once there are many.
    pub(super) fn forget_deleted(&mut self, present: usize, is_present: impl Fn(&str) -> bool) {
        if self.clusters.len() > present.saturating_mul(2).saturating_add(MAX_DELETED_ENTRIES) {
            self.clusters.retain(|cluster, _| is_present(cluster));
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
        Reach::Reachable { until: at(second) }
    }

    #[test]
    fn cluster_is_reachable_for_five_lease_durations() {
        let mut leases = LeaseTracker::default();
        leases.record_renewal("c", Some(at(1000)), at(1000));
        leases.record_renewal("c", Some(at(1010)), at(1011));
        assert_eq!(leases.reach(&cluster("True"), at(1012)), until(1061));
        leases.record_renewal("c", Some(at(1010)), at(1020));
        assert_eq!(
            leases.reach(&cluster("True"), at(1060)),
            until(1061),
            "an unchanged renewTime is no renewal"
        );
        assert_eq!(leases.reach(&cluster("True"), at(1061)), Reach::Unreachable);
        leases.record_renewal("c", Some(at(500)), at(1062));
        assert_eq!(
            leases.reach(&cluster("True"), at(1062)),
            until(1112),
            "a renewTime in the past is a renewal too"
        );
    }

    #[test]
    fn newly_seen_cluster_gets_full_grace_period() {
        let rows = [
            ("an old lease", Some(10)),
            ("no lease", None),
            ("a lease with a renewTime in the future", Some(90_000)),
        ];
        for (case, renew_time) in rows {
            let mut leases = LeaseTracker::default();
            leases.record_renewal("c", renew_time.map(at), at(1000));
            assert_eq!(leases.reach(&cluster("True"), at(1000)), until(1050), "{case}");
            assert_eq!(leases.reach(&cluster("True"), at(1050)), Reach::Unreachable, "{case}");
        }
    }

    #[test]
    fn grace_period_restarts_after_api_failure() {
        let mut leases = LeaseTracker::default();
        leases.record_renewal("c", Some(at(1000)), at(1000));
        leases.record_api_failure(at(1045));
        assert_eq!(leases.reach(&cluster("True"), at(1060)), until(1095));
        assert_eq!(leases.reach(&cluster("True"), at(1095)), Reach::Unreachable);
    }

    #[test]
    fn condition_set_by_agent_makes_cluster_reachable_before_renewal() {
        let mut leases = LeaseTracker::default();
        leases.record_renewal("c", Some(at(1000)), at(1000));
        assert_eq!(leases.reach(&cluster("True"), at(1050)), Reach::Unreachable);
        assert_eq!(leases.reach(&cluster("Unknown"), at(1051)), Reach::Unreachable);
        assert_eq!(leases.reach(&cluster("True"), at(1100)), until(1150));
        assert_eq!(leases.reach(&cluster("True"), at(1150)), Reach::Unreachable);
    }

    #[test]
    fn entries_of_deleted_clusters_are_removed_once_there_are_many() {
        let mut leases = LeaseTracker::default();
        for number in 0..200 {
            leases.record_renewal(&number.to_string(), Some(at(0)), at(0));
        }
        leases.forget_deleted(100, |_| false);
        assert_eq!(leases.clusters.len(), 200);
        leases.forget_deleted(10, |cluster| cluster.len() == 1);
        assert_eq!(leases.clusters.len(), 10);
    }
}
