//! The rollout plan (`spec/lifecycle.md`, Decisions 7 and 8, §2.4): which clusters of a placement may start to change, and
//! what the others wait for. A cluster that has started goes on whatever happens to the others. Pure.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::strategy::{Pace, Share, Strategy};
use super::wait_reason::{WaitReason, name_some};

/// How long a cluster that was successful may be unhealthy without having failed, when its deadline is long past: a pod that
/// moves to another node is no failure. It is short, as a cluster that flaps would never fail otherwise.
const UNHEALTHY_GRACE: Duration = Duration::from_secs(60);

/// Whether a cluster may start to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It may.
    MayStart,
    /// It waits, for this reason.
    Waits(WaitReason),
}

/// A cluster of a placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub cluster: String,
    /// The index of its decision group.
    pub group: usize,
    /// The name of its decision group, where it has one.
    pub group_name: String,
    /// How far it is.
    pub state: State,
}

/// How far a cluster is with what its placement asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It has no ManagedClusterAddOn yet. It keeps its position all the same: no cluster overtakes it.
    Absent,
    /// It has not started.
    Waiting,
    /// It has started another change, and has to change direction: it counts as changing, and is among the first.
    Diverted,
    /// It has been changing since then.
    Changing(Timestamp),
    /// Everything is applied, and the success criteria are not met.
    Unproven {
        /// Since when everything is applied.
        since: Timestamp,
        /// Since when the criteria are not met: they may have been met before.
        unmet_since: Timestamp,
        /// The criterion that is not met.
        missing: String,
    },
    /// It has been successful since then.
    Done(Timestamp),
    /// The change failed.
    Failed,
    /// The change took longer than its deadline.
    TimedOut,
    /// A user has set its version: the rollout does not apply to it.
    Overridden,
}

/// Which clusters may start, and how far all are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The clusters that have not started.
    turns: HashMap<String, Step>,
    /// What clusters wait for.
    pub waiting: Vec<Waiting>,
    /// The number of clusters in each state.
    pub counts: Counts,
    /// When time alone changes the plan.
    pub next: Option<Timestamp>,
}

/// Whether a cluster that has not started may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Starts,
    /// The index of what it waits for.
    Waits(usize),
}

/// Clusters that wait for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The reason.
    pub reason: WaitReason,
    /// The clusters that they wait for, at the moment; empty where they wait for none.
    pub blockers: String,
    /// Their names, in order.
    pub clusters: Vec<String>,
}

/// The number of clusters in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "named like the states")]
pub struct Counts {
    pub selected: usize,
    pub waiting: usize,
    pub changing: usize,
    pub done: usize,
    pub failed: usize,
    pub timed_out: usize,
    pub overridden: usize,
}

impl State {
    /// Whether it has to start, now or later.
    fn has_to_start(&self) -> bool {
        self.has_not_started() || *self == Self::Diverted
    }

    /// Whether nothing of the change has started.
    fn has_not_started(&self) -> bool {
        matches!(self, Self::Absent | Self::Waiting)
    }
}

impl Plan {
    /// Whether a cluster may start; `None` where it had started when this was planned. **A cluster that starts again after
    /// that has to be planned first**: otherwise a plan for one version would let every cluster start the next.
    pub fn turn(&self, cluster: &str) -> Option<Turn> {
        match self.turns.get(cluster)? {
            Step::Starts => Some(Turn::MayStart),
            Step::Waits(index) => Some(Turn::Waits(self.waiting.get(*index)?.reason.clone())),
        }
    }
}

/// Plans a rollout. `per_group` is how many clusters a decision group of the placement has at most.
pub fn plan(
    strategy: &Result<Strategy, String>,
    members: &[Member],
    per_group: Share,
    now: Timestamp,
) -> Plan {
    let deadline = strategy.as_ref().ok().and_then(|strategy| strategy.deadline);
    let mut members: Vec<Member> = members.iter().map(|member| overdue(member, deadline, now)).collect();
    members.sort_by(|one, other| one.cluster.cmp(&other.cluster));
    let members: Vec<&Member> = members.iter().collect();
    let mut planning = Planning { plan: Plan { counts: counts(&members), ..Plan::default() }, now };
    match strategy {
        Err(why) => {
            planning.hold(&members, &Blocked::by(WaitReason::InvalidStrategy(why.clone())));
        }
        Ok(strategy) if strategy.paused => {
            planning.hold(&members, &Blocked::by(WaitReason::Paused));
            planning.changes_with_time(strategy, &members);
        }
        Ok(strategy) => planning.plan_strategy(strategy, &members, per_group),
    }
    planning.plan
}

/// A cluster that exceeds its deadline has failed, whether its status says so already or not: two that started together
/// also fail together.
fn overdue(member: &Member, deadline: Option<Duration>, now: Timestamp) -> Member {
    let is_overdue = end_of_time(&member.state, deadline, now).is_some_and(|end| end <= now);
    if is_overdue { Member { state: State::TimedOut, ..member.clone() } } else { member.clone() }
}

/// When a cluster exceeds its deadline; `None` if it is not changing or has no deadline.
fn end_of_time(state: &State, deadline: Option<Duration>, now: Timestamp) -> Option<Timestamp> {
    let deadline = deadline?;
    match state {
        State::Changing(since) => Some(later(*since, deadline)),
        // The cluster reports it by its own clock, which may be ahead.
        State::Unproven { since, unmet_since, .. } if *unmet_since <= now => {
            Some(later(*since, deadline).max(later(*unmet_since, deadline.min(UNHEALTHY_GRACE))))
        }
        State::Unproven { since, .. } => Some(later(*since, deadline)),
        _ => None,
    }
}

struct Planning {
    plan: Plan,
    now: Timestamp,
}

/// Why no other cluster may start, and which clusters that depends on at the moment.
#[derive(Clone)]
struct Blocked {
    reason: WaitReason,
    blockers: String,
}

impl Blocked {
    fn by(reason: WaitReason) -> Self {
        Self { reason, blockers: String::new() }
    }

    fn by_clusters(reason: WaitReason, clusters: &[String]) -> Self {
        Self { reason, blockers: name_some(clusters) }
    }
}

impl Planning {
    fn plan_strategy(&mut self, strategy: &Strategy, members: &[&Member], per_group: Share) {
        self.changes_with_time(strategy, members);
        let (mandatory, rest) = mandatory_groups(strategy, members);
        let mut blocked: Option<Blocked> = None;
        for (name, group) in &mandatory {
            blocked = match blocked {
                None if group.is_empty() => Some(Blocked::by(WaitReason::EmptyMandatoryGroup(name.clone()))),
                // What was tried nowhere is not proven: a user who overrides what failed must not start all others.
                None if group.iter().all(|member| member.state == State::Overridden) => {
                    Some(Blocked::by(WaitReason::OverriddenMandatoryGroup(name.clone())))
                }
                // In a mandatory group no failure is tolerated.
                None => self.plan_group(strategy, name, group, Share::Count(0)),
                Some(blocked) => Some(self.hold(group, &blocked)),
            };
        }
        match (strategy.pace, blocked) {
            (Pace::PerGroup, mut blocked) => {
                for (name, group) in groups(&rest) {
                    blocked = match blocked {
                        None => self.plan_group(strategy, &name, &group, strategy.tolerated),
                        Some(blocked) => Some(self.hold(&group, &blocked)),
                    };
                }
            }
            (_, Some(blocked)) => _ = self.hold(&rest, &blocked),
            (Pace::All, None) => self.admit(&rest),
            (Pace::Progressive(concurrency), None) => {
                let total = members.len();
                let limit = concurrency.unwrap_or(per_group).of(total).max(1);
                self.plan_by_name(strategy, &rest, limit, total);
            }
        }
    }

    /// Admits all clusters of a group together. The next group waits until they are all done.
    fn plan_group(
        &mut self,
        strategy: &Strategy,
        name: &str,
        group: &[&Member],
        tolerated: Share,
    ) -> Option<Blocked> {
        let (failed, tolerated) = (failures(group), tolerated.of(group.len()));
        if failed.len() > tolerated {
            return Some(self.hold(group, &Blocked::by(WaitReason::Stopped { failed, tolerated })));
        }
        self.admit(group);
        let open: Vec<String> = group.iter().filter_map(|member| self.blocker(strategy, member)).collect();
        let reason = WaitReason::EarlierGroup(name.to_owned());
        (!open.is_empty()).then(|| Blocked::by_clusters(reason, &open))
    }

    /// Admits clusters by name, as many at a time as the limit says.
    fn plan_by_name(&mut self, strategy: &Strategy, members: &[&Member], limit: usize, total: usize) {
        let (failed, tolerated) = (failures(members), strategy.tolerated.of(total));
        if failed.len() > tolerated {
            self.hold(members, &Blocked::by(WaitReason::Stopped { failed, tolerated }));
            return;
        }
        let started = members.iter().filter(|member| !member.state.has_not_started());
        let open: Vec<String> = started.filter_map(|member| self.blocker(strategy, member)).collect();
        let select = |wanted: fn(&State) -> bool| -> Vec<&Member> {
            members.iter().copied().filter(|member| wanted(&member.state)).collect()
        };
        self.admit(&select(|state| *state == State::Diverted));
        let waiting = select(State::has_not_started);
        let free = limit.saturating_sub(open.len()).min(waiting.len());
        let (start, wait) = waiting.split_at(free);
        self.admit(start);
        let starting = start.iter().filter_map(|member| self.blocker(strategy, member));
        let blockers: Vec<String> = open.into_iter().chain(starting).collect();
        self.hold(wait, &Blocked::by_clusters(WaitReason::ConcurrencyLimit(limit), &blockers));
    }

    /// The name of a cluster that others have to wait for, and why; `None` if they need not.
    fn blocker(&self, strategy: &Strategy, member: &Member) -> Option<String> {
        let name = &member.cluster;
        match &member.state {
            State::Absent => Some(format!("{name} (it has no ManagedClusterAddOn yet)")),
            State::Waiting | State::Diverted | State::Changing(_) => Some(name.clone()),
            State::Unproven { missing, .. } => Some(format!("{name} ({missing})")),
            State::Done(since) => {
                let end = end_of_soak(*since, strategy)?;
                (end > self.now).then(|| format!("{name} (soaks until {})", seconds(end)))
            }
            State::Failed | State::TimedOut | State::Overridden => None,
        }
    }

    /// Lets clusters start.
    fn admit(&mut self, members: &[&Member]) {
        let start = members.iter().filter(|member| member.state.has_to_start());
        self.plan.turns.extend(start.map(|member| (member.cluster.clone(), Step::Starts)));
    }

    /// Lets clusters wait.
    fn hold(&mut self, members: &[&Member], blocked: &Blocked) -> Blocked {
        let waiting = members.iter().filter(|member| member.state.has_to_start());
        let clusters: Vec<String> = waiting.map(|member| member.cluster.clone()).collect();
        if !clusters.is_empty() {
            let step = Step::Waits(self.plan.waiting.len());
            self.plan.turns.extend(clusters.iter().map(|cluster| (cluster.clone(), step)));
            let Blocked { reason, blockers } = blocked.clone();
            self.plan.waiting.push(Waiting { reason, blockers, clusters });
        }
        blocked.clone()
    }

    /// Sets when the first soak or the first deadline ends.
    fn changes_with_time(&mut self, strategy: &Strategy, members: &[&Member]) {
        let ends = members.iter().filter_map(|member| match member.state {
            State::Done(since) => end_of_soak(since, strategy),
            _ => end_of_time(&member.state, strategy.deadline, self.now),
        });
        self.plan.next = ends.filter(|end| *end > self.now).min();
    }
}

/// The mandatory decision groups in the order of the strategy, and all other clusters.
fn mandatory_groups<'m>(
    strategy: &Strategy,
    members: &[&'m Member],
) -> (Vec<(String, Vec<&'m Member>)>, Vec<&'m Member>) {
    let mut rest = members.to_vec();
    let mut mandatory = Vec::new();
    for wanted in &strategy.mandatory {
        let belongs = |member: &&'m Member| match wanted.group_name.as_str() {
            "" => wanted.group_index.and_then(|index| usize::try_from(index).ok()) == Some(member.group),
            name => member.group_name == name,
        };
        let group: Vec<&'m Member> = rest.iter().copied().filter(belongs).collect();
        if group.is_empty() {
            let name = match (wanted.group_name.as_str(), wanted.group_index) {
                ("", index) => format!("group {}", index.unwrap_or_default()),
                (name, _) => format!("group {name}"),
            };
            mandatory.push((name, Vec::new()));
        }
        mandatory.extend(groups(&group));
        rest.retain(|member| !belongs(member));
    }
    (mandatory, rest)
}

/// When the soak time of a successful cluster ends; `None` where there is none.
fn end_of_soak(since: Timestamp, strategy: &Strategy) -> Option<Timestamp> {
    if strategy.soak.is_zero() {
        return None;
    }
    Some(later(since, strategy.soak))
}

fn later(since: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    since.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// To the second, as conditions have it.
fn seconds(instant: Timestamp) -> String {
    Timestamp::from_second(instant.as_second()).unwrap_or(instant).to_string()
}

fn failures(stage: &[&Member]) -> Vec<String> {
    let failed = stage.iter().filter(|member| matches!(member.state, State::Failed | State::TimedOut));
    failed.map(|member| member.cluster.clone()).collect()
}

/// The clusters by decision group, in the order of the groups.
fn groups<'m>(members: &[&'m Member]) -> Vec<(String, Vec<&'m Member>)> {
    // An unreachable cluster keeps the group that it was last known in, whose index another group may have by now.
    let mut groups: BTreeMap<(usize, bool, &'m str), Vec<&'m Member>> = BTreeMap::new();
    for member in members {
        let name = member.group_name.as_str();
        groups.entry((member.group, name.is_empty(), name)).or_default().push(member);
    }
    let named = |((index, _, name), members): ((usize, bool, &'m str), Vec<&'m Member>)| {
        let name = if name.is_empty() { format!("group {index}") } else { format!("group {name}") };
        (name, members)
    };
    groups.into_iter().map(named).collect()
}

/// The reason, and the clusters that it depends on at the moment.
impl fmt::Display for Waiting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.blockers.as_str() {
            "" => self.reason.fmt(formatter),
            blockers => write!(formatter, "{}: {blockers}", self.reason),
        }
    }
}

fn counts(members: &[&Member]) -> Counts {
    let mut counts = Counts { selected: members.len(), ..Counts::default() };
    for member in members {
        match member.state {
            State::Absent | State::Waiting => counts.waiting += 1,
            State::Diverted | State::Changing(_) | State::Unproven { .. } => counts.changing += 1,
            State::Done(_) => counts.done += 1,
            State::Failed => counts.failed += 1,
            State::TimedOut => counts.timed_out += 1,
            State::Overridden => counts.overridden += 1,
        }
    }
    counts
}

#[cfg(test)]
mod tests;
