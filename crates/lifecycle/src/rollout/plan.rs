//! The rollout plan (`spec/lifecycle.md`, Decisions 7 and 8, §2.4): which clusters of a placement may start to change, and
//! what the others wait for. A cluster that has started goes on whatever happens to the others. Pure.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::iter::Sum;
use std::time::Duration;

use bellwether_clock::{later, whole_seconds};
use bellwether_conditions::gate::{Check, Gate};
use jiff::Timestamp;
use serde::Serialize;

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
    /// All clusters, by name; one that exceeds its deadline has timed out.
    pub members: Vec<Member>,
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

/// The number of clusters in each state, as `bellwether addon rollout -o json` shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "named like the states")]
pub struct Counts {
    #[serde(rename = "total")]
    pub selected: usize,
    pub done: usize,
    #[serde(rename = "inProgress")]
    pub changing: usize,
    pub waiting: usize,
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

    /// How many clusters may start and have not started.
    pub fn may_start(&self) -> usize {
        let has_not_started = |member: &&Member| member.state.has_not_started();
        let may_start = |member: &&Member| self.turns.get(&member.cluster) == Some(&Step::Starts);
        self.members.iter().filter(has_not_started).filter(may_start).count()
    }
}

/// Plans a rollout. `per_group` is how many clusters a decision group of the placement has at most.
pub fn plan(
    strategy: &Result<Strategy, String>,
    members: Vec<Member>,
    per_group: Share,
    now: Timestamp,
) -> Plan {
    let deadline = strategy.as_ref().ok().and_then(|strategy| strategy.deadline);
    plan_members(members, deadline, now, |planning, members| match strategy {
        Err(why) => planning.hold(members, &Blocked::by(WaitReason::InvalidStrategy(why.clone()))),
        Ok(strategy) => planning.plan_strategy(strategy, members, per_group),
    })
}

/// Starts no cluster.
pub fn hold_all(reason: WaitReason, members: Vec<Member>, now: Timestamp) -> Plan {
    plan_members(members, None, now, |planning, members| planning.hold(members, &Blocked::by(reason)))
}

fn plan_members(
    members: Vec<Member>,
    deadline: Option<Duration>,
    now: Timestamp,
    decide: impl FnOnce(&mut Planning, &[&Member]),
) -> Plan {
    let mut members: Vec<Member> = members.into_iter().map(|member| overdue(member, deadline, now)).collect();
    members.sort_by(|one, other| one.cluster.cmp(&other.cluster));
    let mut planning = Planning { plan: Plan::default(), now, checks: Vec::new(), blocked: None };
    decide(&mut planning, &members.iter().collect::<Vec<_>>());
    Plan { counts: members.iter().collect(), members, ..planning.plan }
}

/// A cluster that exceeds its deadline has failed, whether its status says so already or not: two that started together
/// also fail together.
fn overdue(member: Member, deadline: Option<Duration>, now: Timestamp) -> Member {
    let is_overdue = end_of_time(&member.state, deadline, now).is_some_and(|end| end <= now);
    if is_overdue { Member { state: State::TimedOut, ..member } } else { member }
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

/// A rollout passes one gate after the other: what comes later starts only if the checks of all that comes earlier hold.
struct Planning {
    plan: Plan,
    now: Timestamp,
    /// The checks since the last gate that was open.
    checks: Vec<StartCheck>,
    /// The concern of the first gate that was closed.
    blocked: Option<Blocked>,
}

/// A check before more clusters start; nobody can accept its concern.
type StartCheck = Check<&'static str, Blocked>;

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
        if strategy.paused {
            return self.hold(members, &Blocked::by(WaitReason::Paused));
        }
        let (mandatory, rest) = mandatory_groups(strategy, members);
        for (name, group) in &mandatory {
            self.require("mandatory group", unproven_group(name, group));
            // In a mandatory group no failure is tolerated.
            self.plan_group(strategy, name, group, Share::Count(0));
        }
        match strategy.pace {
            Pace::All => self.start(&rest),
            Pace::PerGroup => {
                for (name, group) in groups(&rest) {
                    self.plan_group(strategy, &name, &group, strategy.tolerated);
                }
            }
            Pace::Progressive(concurrency) => {
                let total = members.len();
                let limit = concurrency.unwrap_or(per_group).of(total).max(1);
                self.plan_by_name(strategy, &rest, limit, total);
            }
        }
    }

    /// Adds a check to the next gate.
    fn require(&mut self, id: &'static str, concern: Option<Blocked>) {
        if self.blocked.is_none() {
            self.checks.push(Check::must_hold(id, concern.into()));
        }
    }

    /// The concern that closes the gate; `None` if it is open.
    fn gate(&mut self) -> Option<Blocked> {
        if self.blocked.is_none() {
            self.blocked = Gate::of_required(&self.checks).first_unmet().cloned();
            self.checks.clear();
        }
        self.blocked.clone()
    }

    /// Lets clusters start if the gate is open.
    fn start(&mut self, members: &[&Member]) {
        match self.gate() {
            None => self.admit(members),
            Some(blocked) => self.hold(members, &blocked),
        }
    }

    /// Starts all clusters of a group together. The next group waits until they are all done.
    fn plan_group(&mut self, strategy: &Strategy, name: &str, group: &[&Member], tolerated: Share) {
        self.require("failures", too_many_failures(group, tolerated.of(group.len())));
        self.start(group);
        if self.blocked.is_none() {
            let open: Vec<String> =
                group.iter().filter_map(|member| self.blocker(strategy, member)).collect();
            let reason = WaitReason::EarlierGroup(name.to_owned());
            self.require("earlier group", (!open.is_empty()).then(|| Blocked::by_clusters(reason, &open)));
        }
    }

    /// Starts clusters by name, as many at a time as the limit says.
    fn plan_by_name(&mut self, strategy: &Strategy, members: &[&Member], limit: usize, total: usize) {
        self.require("failures", too_many_failures(members, strategy.tolerated.of(total)));
        if let Some(blocked) = self.gate() {
            return self.hold(members, &blocked);
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
                (end > self.now).then(|| format!("{name} (soaks until {})", whole_seconds(end)))
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
    fn hold(&mut self, members: &[&Member], blocked: &Blocked) {
        let waiting = members.iter().filter(|member| member.state.has_to_start());
        let clusters: Vec<String> = waiting.map(|member| member.cluster.clone()).collect();
        if !clusters.is_empty() {
            let step = Step::Waits(self.plan.waiting.len());
            self.plan.turns.extend(clusters.iter().map(|cluster| (cluster.clone(), step)));
            let Blocked { reason, blockers } = blocked.clone();
            self.plan.waiting.push(Waiting { reason, blockers, clusters });
        }
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

/// Why a mandatory group proves nothing, if it does not.
fn unproven_group(name: &str, group: &[&Member]) -> Option<Blocked> {
    if group.is_empty() {
        return Some(Blocked::by(WaitReason::EmptyMandatoryGroup(name.to_owned())));
    }
    // A version that was tried nowhere is not proven: a user who overrides what failed must not start all others.
    let is_overridden = group.iter().all(|member| member.state == State::Overridden);
    is_overridden.then(|| Blocked::by(WaitReason::OverriddenMandatoryGroup(name.to_owned())))
}

fn too_many_failures(members: &[&Member], tolerated: usize) -> Option<Blocked> {
    let failed = members.iter().filter(|member| matches!(member.state, State::Failed | State::TimedOut));
    let failed: Vec<String> = failed.map(|member| member.cluster.clone()).collect();
    (failed.len() > tolerated).then(|| Blocked::by(WaitReason::Stopped { failed, tolerated }))
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

impl<'m> FromIterator<&'m Member> for Counts {
    fn from_iter<M: IntoIterator<Item = &'m Member>>(members: M) -> Self {
        let mut counts = Self::default();
        for member in members {
            counts.selected += 1;
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
}

impl Sum for Counts {
    fn sum<C: Iterator<Item = Self>>(all: C) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            selected: sum.selected + one.selected,
            waiting: sum.waiting + one.waiting,
            changing: sum.changing + one.changing,
            done: sum.done + one.done,
            failed: sum.failed + one.failed,
            timed_out: sum.timed_out + one.timed_out,
            overridden: sum.overridden + one.overridden,
        })
    }
}

#[cfg(test)]
mod tests;
