//! How far the rollouts of an add-on are, by placement and decision group. Pure.

use std::collections::BTreeMap;

use bellwether_api::addon::WaitingClusters;
use bellwether_api::addon::vocabulary::PROGRESSING;
use bellwether_conditions::kubernetes::find;
use serde::{Serialize, Serializer};

use crate::hub::{AddonKey, AssignedElsewhere, HubCache, Rollout};
use crate::rollout::{Counts, Member, State, Strategy, WaitReason, Waiting};
use crate::standing::resolve;
use crate::version::Version;

/// The maximum number of clusters that are listed for one wait reason.
const MAX_LISTED_CLUSTERS: usize = 10;
/// The maximum number of wait reasons that are listed for one placement.
const MAX_WAIT_REASONS: usize = 20;

/// How far an add-on is on all clusters. Its JSON is that of `bellwether addon rollout -o json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AddonProgress {
    /// The add-on.
    pub addon: String,
    /// Its placements, in the order of the ClusterManagementAddOn.
    pub placements: Vec<PlacementProgress>,
}

/// How far the rollout of one placement is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementProgress {
    /// The placement, `<namespace>/<name>`.
    pub placement: String,
    /// The version that it requests; empty if the add-on has no versions.
    pub version: String,
    /// The stage of the rollout.
    pub stage: Stage,
    /// The rollout strategy, in short.
    pub strategy: String,
    /// The number of clusters in each state.
    pub total: Counts,
    /// The same by decision group.
    pub groups: Vec<GroupProgress>,
    /// What clusters wait for, as in `status.installProgressions[].waiting`.
    pub waiting: Vec<WaitingClusters>,
    /// How many of the waiting clusters may start: the lifecycle controller starts them next.
    pub may_start: usize,
    /// The clusters on which the change failed or timed out.
    pub failed: Vec<FailedCluster>,
    /// The clusters that it selects and that are assigned to another placement.
    #[serde(rename = "taken", serialize_with = "as_map")]
    pub assigned_elsewhere: Vec<AssignedElsewhere>,
    /// Why the selected clusters are unknown, if they are.
    #[serde(rename = "doubt", skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// The stage of the rollout of a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Stage {
    /// Every cluster has the version.
    Completed,
    /// The placement has no clusters.
    Empty,
    /// Clusters are changing.
    Progressing,
    /// Clusters wait, and none is changing.
    Waiting,
    /// Clusters wait because the rollout is paused.
    Paused,
    /// Clusters wait because too many failed, or because the strategy is invalid.
    Blocked,
    /// No cluster is changing or waiting, and some failed.
    Failed,
    /// The selected clusters are unknown.
    Unknown,
}

impl Stage {
    /// The name of the stage.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "Completed",
            Self::Empty => "Empty",
            Self::Progressing => "Progressing",
            Self::Waiting => "Waiting",
            Self::Paused => "Paused",
            Self::Blocked => "Blocked",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
        }
    }
}

/// How far the clusters of a decision group are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupProgress {
    /// The index of the group.
    pub index: usize,
    /// The name of the group; empty if it has none.
    pub name: String,
    /// The number of clusters in each state.
    #[serde(flatten)]
    pub counts: Counts,
}

impl GroupProgress {
    /// The name of the group, otherwise its index.
    pub fn label(&self) -> String {
        if self.name.is_empty() { self.index.to_string() } else { self.name.clone() }
    }
}

/// A cluster on which a change failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedCluster {
    /// The cluster.
    pub cluster: String,
    /// The message of its condition Progressing, in one line.
    pub why: String,
}

/// How the rollouts of an add-on ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Every cluster has the version that its placement requests.
    Completed,
    /// Failures keep these placements from that.
    Blocked(Vec<String>),
}

impl AddonProgress {
    /// How the rollouts ended; `None` while they can still change without a user.
    pub fn end(&self) -> Option<End> {
        let are_in = |stages: &[Stage]| -> Vec<String> {
            let found = self.placements.iter().filter(|one| stages.contains(&one.stage));
            found.map(|one| one.placement.clone()).collect()
        };
        if !are_in(&[Stage::Progressing, Stage::Waiting, Stage::Unknown]).is_empty() {
            return None;
        }
        let blocked = are_in(&[Stage::Blocked, Stage::Failed]);
        match (blocked.is_empty(), are_in(&[Stage::Paused]).is_empty()) {
            (false, _) => Some(End::Blocked(blocked)),
            (true, false) => None,
            (true, true) => Some(End::Completed),
        }
    }

    /// The number of clusters in each state, over all placements.
    pub fn total(&self) -> Counts {
        self.placements.iter().map(|one| one.total).sum()
    }
}

/// The progress of all rollouts of an add-on, as it was last planned.
pub fn addon_progress(cache: &HubCache, addon: &str) -> AddonProgress {
    let rollouts = cache.rollouts_of(addon).iter();
    let placements = rollouts.map(|rollout| placement_progress(cache, addon, rollout)).collect();
    AddonProgress { addon: addon.to_owned(), placements }
}

/// The progress of one rollout of an add-on.
pub fn placement_progress(cache: &HubCache, addon: &str, rollout: &Rollout) -> PlacementProgress {
    let plan = &rollout.plan;
    let catalogue = cache.management(addon).map(|management| &management.catalogue);
    let version = catalogue.and_then(|catalogue| resolve(rollout.request.version.as_ref(), catalogue));
    let mut groups: BTreeMap<(usize, &str), Vec<&Member>> = BTreeMap::new();
    for member in &plan.members {
        groups.entry((member.group, &member.group_name)).or_default().push(member);
    }
    let groups = groups.into_iter().map(|((index, name), members)| GroupProgress {
        index,
        name: name.to_owned(),
        counts: members.into_iter().collect(),
    });
    PlacementProgress {
        placement: rollout.request.placement.clone(),
        version: version.map(Version::to_string).unwrap_or_default(),
        stage: stage(rollout),
        strategy: describe_strategy(&rollout.strategy),
        total: plan.counts,
        groups: groups.collect(),
        waiting: plan.waiting.iter().take(MAX_WAIT_REASONS).map(waiting_clusters).collect(),
        may_start: plan.may_start(),
        failed: plan.members.iter().filter_map(|member| failed_cluster(cache, addon, member)).collect(),
        assigned_elsewhere: rollout.assigned_elsewhere.clone(),
        unknown: rollout.unknown.clone(),
    }
}

fn stage(rollout: &Rollout) -> Stage {
    let is_paused = rollout.strategy.as_ref().is_ok_and(|strategy| strategy.paused);
    // Failures that are tolerated hold no cluster back.
    let is_blocked = rollout.strategy.is_err()
        || rollout.plan.waiting.iter().any(|waiting| matches!(waiting.reason, WaitReason::Stopped { .. }));
    match rollout.plan.counts {
        _ if rollout.unknown.is_some() => Stage::Unknown,
        Counts { selected: 0, .. } => Stage::Empty,
        Counts { changing: 1.., .. } => Stage::Progressing,
        Counts { waiting: 1.., .. } if is_paused => Stage::Paused,
        Counts { waiting: 1.., .. } if is_blocked => Stage::Blocked,
        Counts { waiting: 1.., .. } => Stage::Waiting,
        Counts { failed: 1.., .. } | Counts { timed_out: 1.., .. } => Stage::Failed,
        _ => Stage::Completed,
    }
}

pub(super) fn describe_strategy(strategy: &Result<Strategy, String>) -> String {
    match strategy {
        Ok(strategy) => strategy.to_string(),
        Err(why) => format!("invalid: {why}"),
    }
}

fn waiting_clusters(waiting: &Waiting) -> WaitingClusters {
    WaitingClusters {
        reason: waiting.reason.code().to_owned(),
        for_: waiting.to_string(),
        count: u32::try_from(waiting.clusters.len()).unwrap_or(u32::MAX),
        clusters: waiting.clusters.iter().take(MAX_LISTED_CLUSTERS).cloned().collect(),
    }
}

fn failed_cluster(cache: &HubCache, addon: &str, member: &Member) -> Option<FailedCluster> {
    if !matches!(member.state, State::Failed | State::TimedOut) {
        return None;
    }
    let status = cache.addon(&AddonKey::new(&member.cluster, addon))?.status.as_ref()?;
    let message = find(&status.conditions, PROGRESSING).map(|condition| condition.message.as_str());
    let parts: Vec<&str> = message.unwrap_or_default().split_whitespace().collect();
    Some(FailedCluster { cluster: member.cluster.clone(), why: parts.join(" ") })
}

/// From the cluster to its placement.
fn as_map<S: Serializer>(clusters: &[AssignedElsewhere], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(clusters.iter().map(|one| (&one.cluster, &one.placement)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::fixture::{
        ADDON, addon, cache, condition, overridden, plan, requesting, select, unfinished,
    };
    use super::*;

    fn upgrading(cluster: &str) -> Value {
        unfinished(
            cluster,
            "v2",
            condition("Progressing", "True", "Upgrading", "Upgrading addon to version v2."),
        )
    }

    fn failed(cluster: &str) -> Value {
        let message = "could not upgrade to version v2: work w: no";
        unfinished(cluster, "v2", condition("Progressing", "False", "Failed", message))
    }

    fn timed_out(cluster: &str) -> Value {
        let mut addon = failed(cluster);
        addon["status"]["failure"] = json!({"code": "TimedOut", "deadlineSeconds": 5});
        addon
    }

    #[test]
    fn stage_follows_from_the_states_of_the_clusters() {
        let (done, old) =
            (|cluster| addon(cluster, "p", "v2", "v1"), |cluster| addon(cluster, "p", "v1", ""));
        let progressive = |paused: bool| {
            json!({"name": "p", "addonTemplate": {"installVersion": "v2"}, "paused": paused,
                "rolloutStrategy": {"type": "Progressive", "progressive": {"maxConcurrency": 1}}})
        };
        let all = requesting("p", "v2");
        let invalid = json!({"name": "p", "addonTemplate": {"installVersion": "v2"}, "rolloutStrategy": {"type": "Sideways"}});
        let mut tolerant = progressive(false);
        tolerant["rolloutStrategy"]["progressive"]["maxFailures"] = json!(1);
        type Row = (Value, Vec<Value>, Stage, Option<End>);
        let completed = || Some(End::Completed);
        let blocked = || Some(End::Blocked(vec!["default/p".to_owned()]));
        let rows: Vec<Row> = vec![
            (all.clone(), vec![done("a"), done("b")], Stage::Completed, completed()),
            (all.clone(), vec![overridden("a", "p", "v1"), done("b")], Stage::Completed, completed()),
            (all.clone(), vec![done("a"), upgrading("b")], Stage::Progressing, None),
            (all.clone(), vec![failed("a"), upgrading("b")], Stage::Progressing, None),
            (all.clone(), vec![done("a"), failed("b")], Stage::Failed, blocked()),
            (all.clone(), vec![done("a"), timed_out("b")], Stage::Failed, blocked()),
            (all.clone(), vec![done("a"), old("b")], Stage::Waiting, None),
            (all.clone(), vec![done("a")], Stage::Waiting, None),
            (progressive(false), vec![failed("a"), old("b")], Stage::Blocked, blocked()),
            (tolerant, vec![failed("a"), old("b")], Stage::Waiting, None),
            (progressive(true), vec![done("a"), old("b")], Stage::Paused, None),
            (progressive(true), vec![upgrading("a"), old("b")], Stage::Progressing, None),
            (invalid, vec![old("a"), old("b")], Stage::Blocked, blocked()),
        ];
        for (placement, addons, stage, end) in rows {
            let found = addon_progress(&cache(&[(placement, Some(&["a", "b"]))], &addons), ADDON);
            let counts = format!("{:?}", found.placements[0].total);
            assert_eq!((found.placements[0].stage, found.end()), (stage, end), "{counts}");
        }
    }

    #[test]
    fn rollout_with_unknown_selection_has_not_ended() {
        let cache =
            cache(&[(requesting("p", "v2"), None)], &[addon("a", "p", "v2", ""), addon("b", "p", "v1", "")]);
        let found = addon_progress(&cache, ADDON);
        let placement = &found.placements[0];
        assert_eq!((placement.stage, found.end()), (Stage::Unknown, None));
        assert_eq!((placement.total.done, placement.total.waiting), (1, 1), "clusters created for it count");
        assert_eq!((placement.waiting[0].reason.as_str(), placement.may_start), ("PlacementUnsettled", 0));
    }

    #[test]
    fn cluster_counts_in_its_assigned_placement() {
        let cache = cache(
            &[(requesting("global", "v1"), Some(&["a", "b"])), (requesting("canary", "v2"), Some(&["a"]))],
            &[addon("a", "canary", "v2", "v1"), addon("b", "global", "v1", "")],
        );
        let found = addon_progress(&cache, ADDON);
        let counts: Vec<_> =
            found.placements.iter().map(|one| (one.total.selected, one.total.done)).collect();
        assert_eq!(counts, [(1, 1), (1, 1)]);
        assert_eq!(found.end(), Some(End::Completed));
        let elsewhere = &found.placements[0].assigned_elsewhere[0];
        assert_eq!((elsewhere.cluster.as_str(), elsewhere.placement.as_str()), ("a", "default/canary"));
    }

    #[test]
    fn while_a_later_placement_is_unsettled_clusters_stay_with_the_placement_they_were_created_for() {
        let cache = cache(
            &[(requesting("global", "v1"), Some(&["a", "b"])), (requesting("canary", "v2"), None)],
            &[addon("a", "canary", "v2", ""), addon("b", "global", "v1", "")],
        );
        let found = addon_progress(&cache, ADDON);
        let counts: Vec<_> =
            found.placements.iter().map(|one| (one.total.selected, one.total.done)).collect();
        assert_eq!(counts, [(1, 1), (1, 1)]);
    }

    #[test]
    fn started_cluster_that_is_no_longer_selected_still_counts() {
        let mut cache = cache(
            &[(requesting("p", "v2"), Some(&["a", "b"]))],
            &[upgrading("a"), addon("b", "p", "v1", "")],
        );
        select(&mut cache, "p", Some(&["b"]));
        plan(&mut cache);
        let found = addon_progress(&cache, ADDON);
        let total = found.placements[0].total;
        assert_eq!((total.selected, total.changing, total.waiting), (2, 1, 1));
        let unselected: Vec<&str> =
            cache.rollouts_of(ADDON)[0].unselected.iter().map(|one| one.cluster.as_str()).collect();
        assert_eq!(unselected, ["a"]);
    }

    #[test]
    fn json_has_counts_groups_and_wait_reasons() {
        let one_at_a_time = json!({"name": "p", "addonTemplate": {"installVersion": "v2"},
            "rolloutStrategy": {"type": "Progressive", "progressive": {"maxConcurrency": 1}}});
        let cache = cache(
            &[(one_at_a_time, Some(&["a", "b"])), (requesting("q", "v1"), Some(&["c"]))],
            &[upgrading("a"), addon("b", "p", "v1", ""), addon("c", "q", "v1", "")],
        );
        let found = serde_json::to_value(addon_progress(&cache, ADDON)).unwrap();
        let counts = json!({"total": 2, "done": 0, "inProgress": 1, "waiting": 1, "failed": 0, "timedOut": 0, "overridden": 0});
        let mut group = counts.clone();
        (group["index"], group["name"]) = (json!(0), json!(""));
        assert_eq!(
            found["placements"][0],
            json!({"placement": "default/p", "version": "v2", "stage": "Progressing", "strategy": "1 at a time",
                "total": counts, "groups": [group], "mayStart": 0, "failed": [], "taken": {},
                "waiting": [{"reason": "ConcurrencyLimit", "for": "at most 1 at a time: a", "count": 1, "clusters": ["b"]}]})
        );
    }
}
