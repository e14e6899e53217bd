//! How far a rollout is: by placement and decision group, what clusters wait for, and whether it is over. Pure.

use std::collections::BTreeMap;

use bellwether_api::addon::vocabulary::{CONFIGURED, PROGRESSING};
use bellwether_api::addon::{
    ClusterManagementAddOn, ManagedClusterAddOn, PlacementStrategy, SuccessCriteria,
};
use bellwether_lifecycle::addon::decide::progress::reason;
use bellwether_lifecycle::fields::{is_overridden, is_placed};
use bellwether_lifecycle::hub::state_of;
use bellwether_lifecycle::rollout::{Counts, Member, Pace, Share, State, Strategy, WaitReason, plan};
use bellwether_lifecycle::version::Version;
use jiff::Timestamp;
use kube::ResourceExt as _;
use serde::Serialize;

use super::hub::Picture;
use super::reach::{Reach, Taken, reach};
use super::state::find;

/// How far an add-on is on all clusters.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Progress {
    pub(super) addon: String,
    pub(super) placements: Vec<Placed>,
}

/// How far a placement is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Placed {
    /// `<namespace>/<name>`
    pub(super) placement: String,
    /// Empty, where there is none at all.
    pub(super) version: String,
    pub(super) stage: Stage,
    /// At what pace its clusters change.
    pub(super) strategy: String,
    pub(super) total: Tally,
    pub(super) groups: Vec<Group>,
    pub(super) waiting: Vec<Waiting>,
    pub(super) failed: Vec<Failed>,
    #[serde(serialize_with = "names")]
    pub(super) taken: Vec<Taken>,
    /// Why it is not known which clusters these are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) doubt: Option<String>,
}

/// How far a placement is, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Stage {
    /// Every cluster is where it should be.
    Completed,
    /// It has no clusters.
    Empty,
    /// Clusters change.
    Progressing,
    /// Clusters wait, and none changes right now.
    Waiting,
    /// Clusters wait, because it is paused.
    Paused,
    /// Clusters wait, and failures keep them from beginning; or nobody can tell what the strategy means.
    Blocked,
    /// All have had their turn, and some failed.
    Failed,
    /// It cannot be told which clusters it has.
    Unknown,
}

impl Stage {
    pub(super) fn word(self) -> &'static str {
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

/// Clusters of a placement that change together.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Group {
    pub(super) index: usize,
    /// Empty where it has none.
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) tally: Tally,
}

impl Group {
    /// Its name, or else its place.
    pub(super) fn label(&self) -> String {
        if self.name.is_empty() { self.index.to_string() } else { self.name.clone() }
    }
}

/// How many clusters are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tally {
    pub(super) total: usize,
    pub(super) done: usize,
    pub(super) in_progress: usize,
    pub(super) waiting: usize,
    pub(super) failed: usize,
    pub(super) timed_out: usize,
    /// Those that go by a version that a person has set.
    pub(super) overridden: usize,
}

impl From<Counts> for Tally {
    fn from(counts: Counts) -> Self {
        Self {
            total: counts.selected,
            done: counts.done,
            in_progress: counts.changing,
            waiting: counts.waiting,
            failed: counts.failed,
            timed_out: counts.timed_out,
            overridden: counts.overridden,
        }
    }
}

/// Clusters that wait for the same thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Waiting {
    #[serde(rename = "for")]
    pub(super) for_: String,
    pub(super) count: usize,
    /// The first of them.
    pub(super) clusters: Vec<String>,
}

/// A cluster that could not be brought to its version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Failed {
    pub(super) cluster: String,
    pub(super) why: String,
}

/// How a rollout ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Every cluster is where it should be.
    Done,
    /// Failures keep it from that; those of these placements.
    Blocked(Vec<String>),
}

impl Progress {
    pub(super) fn of(picture: &Picture, now: Timestamp) -> Self {
        let placements = reach(picture).into_iter().map(|reach| placed(picture, reach, now)).collect();
        Self { addon: picture.addon.name_any(), placements }
    }

    /// Whether it is over; nothing, while time may still change it.
    pub(super) fn end(&self) -> Option<End> {
        let is = |stages: &[Stage]| {
            let found = self.placements.iter().filter(|placed| stages.contains(&placed.stage));
            found.map(|placed| placed.placement.clone()).collect::<Vec<_>>()
        };
        if !is(&[Stage::Progressing, Stage::Waiting, Stage::Unknown]).is_empty() {
            return None;
        }
        let blocked = is(&[Stage::Blocked, Stage::Failed]);
        match (blocked.is_empty(), is(&[Stage::Paused]).is_empty()) {
            (false, _) => Some(End::Blocked(blocked)),
            (true, false) => None,
            (true, true) => Some(End::Done),
        }
    }

    /// Over all placements.
    pub(super) fn total(&self) -> Tally {
        self.placements.iter().fold(Tally::default(), |sum, placed| Tally {
            total: sum.total + placed.total.total,
            done: sum.done + placed.total.done,
            in_progress: sum.in_progress + placed.total.in_progress,
            waiting: sum.waiting + placed.total.waiting,
            failed: sum.failed + placed.total.failed,
            timed_out: sum.timed_out + placed.total.timed_out,
            overridden: sum.overridden + placed.total.overridden,
        })
    }
}

fn placed(picture: &Picture, reach: Reach<'_>, now: Timestamp) -> Placed {
    let strategy = Strategy::read(reach.placement);
    let criteria = strategy.as_ref().map_or(SuccessCriteria::Applied, |strategy| strategy.criteria);
    let members: Vec<Member> = reach
        .members
        .iter()
        .map(|one| Member {
            cluster: one.cluster.clone(),
            group: one.group_index,
            group_name: one.group_name.clone(),
            state: state(picture.instances.get(&one.cluster), &reach.version, criteria),
        })
        .collect();
    // Only what time makes of states is wanted of the plan; whose turn it is, the controller says.
    let tally = |members: &[Member]| Tally::from(plan(&strategy, members, Share::Percent(100), now).counts);
    let mut groups: BTreeMap<(usize, String), Vec<Member>> = BTreeMap::new();
    for member in &members {
        groups.entry((member.group, member.group_name.clone())).or_default().push(member.clone());
    }
    let total = tally(&members);
    let waiting = waiting(&picture.addon, &reach, &members);
    // Failures that are tolerated hold nobody.
    let planned = plan(&strategy, &members, Share::Percent(100), now);
    let stopped = strategy.is_err()
        || planned.waiting.iter().any(|waiting| matches!(waiting.reason, WaitReason::Stopped { .. }));
    Placed {
        stage: stage(&total, &strategy, stopped, reach.doubt.as_deref()),
        strategy: pace(reach.placement),
        total,
        groups: groups
            .into_iter()
            .map(|((index, name), members)| Group { index, name, tally: tally(&members) })
            .collect(),
        waiting,
        failed: members.iter().filter_map(|member| failed(picture, member)).collect(),
        placement: reach.name,
        version: reach.version,
        taken: reach.taken,
        doubt: reach.doubt,
    }
}

/// How far a cluster is with the version of its placement.
pub(super) fn state(
    instance: Option<&ManagedClusterAddOn>,
    version: &str,
    criteria: SuccessCriteria,
) -> State {
    let Some(instance) = instance else { return State::Waiting };
    if !is_placed(instance) || is_overridden(instance) {
        return State::Overridden;
    }
    let conditions = instance.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let waits = find(conditions, CONFIGURED)
        .is_some_and(|said| said.status == "False" && said.reason == reason::WAITING);
    state_of(instance, Version::new(version).as_ref(), !waits, criteria)
}

fn stage(tally: &Tally, strategy: &Result<Strategy, String>, stopped: bool, doubt: Option<&str>) -> Stage {
    let failures = tally.failed + tally.timed_out;
    let paused = strategy.as_ref().is_ok_and(|strategy| strategy.paused);
    match tally {
        _ if doubt.is_some() => Stage::Unknown,
        Tally { total: 0, .. } => Stage::Empty,
        Tally { in_progress: 1.., .. } => Stage::Progressing,
        Tally { waiting: 1.., .. } if paused => Stage::Paused,
        Tally { waiting: 1.., .. } if stopped => Stage::Blocked,
        Tally { waiting: 1.., .. } => Stage::Waiting,
        _ if failures > 0 => Stage::Failed,
        _ => Stage::Completed,
    }
}

/// What clusters wait for: in the words of the controller, if those are about this version.
fn waiting(addon: &ClusterManagementAddOn, reach: &Reach<'_>, members: &[Member]) -> Vec<Waiting> {
    let clusters: Vec<String> = members
        .iter()
        .filter(|member| member.state == State::Waiting)
        .map(|member| member.cluster.clone())
        .collect();
    if clusters.is_empty() {
        return Vec::new();
    }
    let status = addon.status.clone().unwrap_or_default();
    let told = status.install_progressions.into_iter().find(|told| {
        told.namespace == reach.placement.namespace
            && told.name == reach.placement.name
            && told.version == reach.version
    });
    match told.map(|told| told.waiting) {
        Some(waiting) if !waiting.is_empty() => waiting
            .into_iter()
            .map(|one| Waiting {
                for_: one.for_,
                count: usize::try_from(one.count).unwrap_or(usize::MAX),
                clusters: one.clusters,
            })
            .collect(),
        _ => {
            let for_ = "no controller has said yet whose turn it is".to_owned();
            vec![Waiting { for_, count: clusters.len(), clusters }]
        }
    }
}

fn failed(picture: &Picture, member: &Member) -> Option<Failed> {
    if !matches!(member.state, State::Failed | State::TimedOut) {
        return None;
    }
    let status = picture.instances.get(&member.cluster)?.status.as_ref()?;
    let why = find(&status.conditions, PROGRESSING).map(|said| said.message.clone()).unwrap_or_default();
    Some(Failed {
        cluster: member.cluster.clone(),
        why: why.split_whitespace().collect::<Vec<_>>().join(" "),
    })
}

/// At what pace the clusters of a placement change, in words.
pub(super) fn pace(placement: &PlacementStrategy) -> String {
    let strategy = match Strategy::read(placement) {
        Ok(strategy) => strategy,
        Err(why) => return format!("makes no sense: {why}"),
    };
    let share = |share: Share| match share {
        Share::Count(count) => count.to_string(),
        Share::Percent(percent) => format!("{percent}%"),
    };
    let mut words = match strategy.pace {
        Pace::All => "all at once".to_owned(),
        Pace::Progressive(Some(most)) => format!("{} at a time", share(most)),
        Pace::Progressive(None) => "as many at a time as a group has".to_owned(),
        Pace::PerGroup => "group by group".to_owned(),
    };
    let first: Vec<String> = strategy
        .mandatory
        .iter()
        .map(|group| match (&group.group_name, group.group_index) {
            (name, None) => name.clone(),
            (name, Some(index)) if name.is_empty() => format!("group {index}"),
            (name, Some(_)) => name.clone(),
        })
        .collect();
    if !first.is_empty() {
        words.push_str(&format!(", beginning with {}", first.join(", ")));
    }
    words
}

fn names<S: serde::Serializer>(taken: &[Taken], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(taken.iter().map(|one| (&one.cluster, &one.by)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::reach::tests::{asks, condition, instance, picture};
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn progress(picture: &Picture) -> Progress {
        Progress::of(picture, at("2024-05-01T10:05:00Z"))
    }

    /// An instance that has begun a version, and is so far.
    fn on_the_way(cluster: &str, version: &str, status: &str, reason: &str, message: &str) -> Value {
        let mut instance = instance(cluster, "p", version, "v1");
        instance["status"]["currentVersion"] = json!("unknown");
        instance["status"]["conditions"] = json!([condition("Progressing", status, reason, message)]);
        instance
    }

    fn upgrading(cluster: &str) -> Value {
        on_the_way(cluster, "v2", "True", "Upgrading", "Upgrading addon to version v2.")
    }

    fn failed(cluster: &str) -> Value {
        on_the_way(cluster, "v2", "False", "Failed", "could not upgrade to version v2: work w: no")
    }

    fn late(cluster: &str) -> Value {
        on_the_way(cluster, "v2", "False", "Failed", "could not upgrade to version v2: timed out after 5s")
    }

    #[test]
    fn a_placement_is_as_far_as_its_clusters() {
        let (done, old) =
            (|cluster| instance(cluster, "p", "v2", "v1"), |cluster| instance(cluster, "p", "v1", ""));
        let mut overridden = instance("a", "p", "v1", "");
        overridden["metadata"]["managedFields"][0]["manager"] = json!("kubectl-patch");
        let progressive = |paused: bool| {
            json!({"name": "p", "addonTemplate": {"installVersion": "v2"}, "paused": paused,
                "rolloutStrategy": {"type": "Progressive", "progressive": {"maxConcurrency": 1}}})
        };
        let all = asks("p", "v2");
        let odd = json!({"name": "p", "addonTemplate": {"installVersion": "v2"}, "rolloutStrategy": {"type": "Sideways"}});
        let mut tolerant = progressive(false);
        tolerant["rolloutStrategy"]["progressive"]["maxFailures"] = json!(1);
        type Row = (Value, Vec<Value>, Stage, Option<End>);
        let blocked = || Some(End::Blocked(vec!["default/p".to_owned()]));
        let rows: Vec<Row> = vec![
            (all.clone(), vec![done("a"), done("b")], Stage::Completed, Some(End::Done)),
            (all.clone(), vec![overridden, done("b")], Stage::Completed, Some(End::Done)),
            (all.clone(), vec![done("a"), upgrading("b")], Stage::Progressing, None),
            (all.clone(), vec![failed("a"), upgrading("b")], Stage::Progressing, None),
            (all.clone(), vec![done("a"), failed("b")], Stage::Failed, blocked()),
            (all.clone(), vec![done("a"), late("b")], Stage::Failed, blocked()),
            (all.clone(), vec![done("a"), old("b")], Stage::Waiting, None),
            (all.clone(), vec![done("a")], Stage::Waiting, None),
            (progressive(false), vec![failed("a"), old("b")], Stage::Blocked, blocked()),
            (tolerant, vec![failed("a"), old("b")], Stage::Waiting, None),
            (progressive(true), vec![done("a"), old("b")], Stage::Paused, None),
            (progressive(true), vec![upgrading("a"), old("b")], Stage::Progressing, None),
            (odd, vec![old("a"), old("b")], Stage::Blocked, blocked()),
        ];
        for (placement, instances, stage, end) in rows {
            let found = progress(&picture(&[(placement, Some(&["a", "b"]))], &instances));
            let sentence = format!("{:?}", found.placements[0].total);
            assert_eq!((found.placements[0].stage, found.end()), (stage, end), "{sentence}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_over() {
        let found = progress(&picture(&[(asks("p", "v2"), None)], &[instance("a", "p", "v2", "")]));
        assert_eq!((found.placements[0].stage, found.end()), (Stage::Unknown, None));
        assert_eq!(found.placements[0].total.done, 1, "what was made for it is counted");
    }

    #[test]
    fn a_cluster_is_counted_where_it_goes() {
        let found = progress(&picture(
            &[(asks("global", "v1"), Some(&["a", "b"])), (asks("canary", "v2"), Some(&["a"]))],
            &[instance("a", "canary", "v2", "v1"), instance("b", "global", "v1", "")],
        ));
        let told: Vec<_> = found.placements.iter().map(|one| (one.total.total, one.total.done)).collect();
        assert_eq!(told, [(1, 1), (1, 1)]);
        assert_eq!(found.end(), Some(End::Done));
    }

    #[test]
    fn what_clusters_wait_for_is_in_the_words_of_the_controller_if_they_are_about_this_version() {
        let mut found = picture(&[(asks("p", "v2"), Some(&["a", "b"]))], &[upgrading("a")]);
        let told = |version: &str| {
            json!({"installProgressions": [{"namespace": "default", "name": "p", "version": version,
                "counts": {"selected": 2, "waiting": 1, "progressing": 1, "succeeded": 0, "failed": 0, "timedOut": 0, "overridden": 0},
                "waiting": [{"for": "at most 1 at a time: a", "count": 1, "clusters": ["b"]}]}]})
        };
        for (version, wanted) in
            [("v2", "at most 1 at a time: a"), ("v1", "no controller has said yet whose turn it is")]
        {
            found.addon.status = serde_json::from_value(told(version)).unwrap();
            let waiting = &progress(&found).placements[0].waiting;
            assert_eq!((waiting[0].for_.as_str(), waiting[0].count), (wanted, 1));
        }
    }

    #[test]
    fn a_strategy_is_told_in_words() {
        let rows = [
            (json!({"type": "All"}), "all at once"),
            (json!({"type": "Progressive", "progressive": {"maxConcurrency": "25%"}}), "25% at a time"),
            (json!({"type": "Progressive"}), "as many at a time as a group has"),
            (
                json!({"type": "ProgressivePerGroup", "progressivePerGroup": {"mandatoryDecisionGroups": [{"groupName": "canary"}, {"groupIndex": 2}]}}),
                "group by group, beginning with canary, group 2",
            ),
            (json!({"type": "Sideways"}), "makes no sense: this type of rollout is not known"),
        ];
        for (rollout, wanted) in rows {
            let placement = json!({"name": "p", "namespace": "n", "rolloutStrategy": rollout});
            assert_eq!(pace(&serde_json::from_value(placement).unwrap()), wanted);
        }
    }
}
