//! Whose turn it is (`spec/lifecycle.md`, Decisions 7 and 8, §2.4). A cluster that has begun goes on whatever becomes of
//! the others; what is decided is who begins.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::strategy::{Pace, Share, Strategy};
use crate::addon::decide::progress::Turn;

/// How many names stand in a message.
const NAMED: usize = 3;

/// For how long a cluster that was well may be unwell without having failed, when its deadline is long past: a copy that is
/// moved to another node is no failure. It is short, as one that comes and goes would never fail otherwise.
const WEAKNESS: Duration = Duration::from_secs(60);

/// How a rollout says that it goes on no more.
const STOPPED: &str = "it has stopped";

/// Whether that is what clusters wait for, by the words that say so.
pub fn is_stopped(what: &str) -> bool {
    what.starts_with(STOPPED)
}

/// A cluster of a placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub cluster: String,
    /// The place of its decision group.
    pub group: usize,
    /// The name of its decision group, where it has one.
    pub group_name: String,
    /// How far it is.
    pub state: State,
}

/// How far a cluster is with what the placement asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It has no ManagedClusterAddOn yet, and takes its place all the same: nobody goes before those that come first.
    Absent,
    /// It has not begun.
    Waiting,
    /// It has begun something else, and is to change its course: it takes a place already, and is among the first.
    Diverted,
    /// It has begun, since then.
    Changing(Timestamp),
    /// All was done, and it lacks what success needs.
    Unproven {
        /// Since when all was done.
        since: Timestamp,
        /// Since when it lacks that: it may have had it before.
        unwell: Timestamp,
        /// What it lacks.
        lacks: String,
    },
    /// It is where it should be, since then.
    Done(Timestamp),
    /// It could not be brought there.
    Failed,
    /// It took too long.
    TimedOut,
    /// A person has set its version; it goes by that alone.
    Apart,
}

/// Whose turn it is, and how far all are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The clusters that have not begun: their turn has come, or they wait for something.
    turns: HashMap<String, Step>,
    /// What is waited for.
    pub waiting: Vec<Waiting>,
    /// How many are where.
    pub counts: Counts,
    /// When time alone changes the plan.
    pub next: Option<Timestamp>,
}

/// Whether a cluster that has not begun may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Begins,
    /// The place of what it waits for.
    Waits(usize),
}

/// Clusters that wait for the same thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// What they wait for. It stays the same while others come and go, as it is written on each of them.
    pub what: String,
    /// Who that is just now.
    pub whom: String,
    /// Their names, in order.
    pub clusters: Vec<String>,
}

/// How many clusters are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "named like the states")]
pub struct Counts {
    pub selected: usize,
    pub waiting: usize,
    pub changing: usize,
    pub done: usize,
    pub failed: usize,
    pub timed_out: usize,
    pub apart: usize,
}

impl State {
    /// Whether it is to begin, now or later.
    fn is_to_begin(&self) -> bool {
        self.has_nothing() || *self == Self::Diverted
    }

    /// Whether it has nothing of it yet, and takes no place but the one that it is given.
    fn has_nothing(&self) -> bool {
        matches!(self, Self::Absent | Self::Waiting)
    }
}

impl Plan {
    /// Whether the turn of a cluster has come; nothing, where it had begun when this was planned. **Who begins anew after
    /// that is to be planned first**, or a plan for one version would let everybody go to the next.
    pub fn turn(&self, cluster: &str) -> Option<Turn> {
        match self.turns.get(cluster)? {
            Step::Begins => Some(Turn::Come),
            Step::Waits(place) => Some(Turn::Waits(self.waiting.get(*place)?.what.clone())),
        }
    }
}

/// Whose turn it is. `per_group` is how many clusters a decision group of the placement has at most.
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
            planning.hold(&members, Reason::plain(format!("the rolloutStrategy makes no sense: {why}")))
        }
        Ok(strategy) if strategy.paused => {
            planning.hold(&members, Reason::plain("it is paused"));
            planning.changes_with_time(strategy, &members);
        }
        Ok(strategy) => planning.go(strategy, &members, per_group),
    }
    planning.plan
}

/// A cluster that is not through in time has failed, whether its status says so already or not: two that began together
/// also fail together.
fn overdue(member: &Member, deadline: Option<Duration>, now: Timestamp) -> Member {
    let late = patience(&member.state, deadline, now).is_some_and(|end| end <= now);
    if late { Member { state: State::TimedOut, ..member.clone() } } else { member.clone() }
}

/// Until when a cluster has time; nothing, if it is not on its way, or has all the time there is.
fn patience(state: &State, deadline: Option<Duration>, now: Timestamp) -> Option<Timestamp> {
    let deadline = deadline?;
    match state {
        State::Changing(since) => Some(later(*since, deadline)),
        // The cluster may say since when, by its own clock.
        State::Unproven { since, unwell, .. } if *unwell <= now => {
            Some(later(*since, deadline).max(later(*unwell, deadline.min(WEAKNESS))))
        }
        State::Unproven { since, .. } => Some(later(*since, deadline)),
        _ => None,
    }
}

struct Planning {
    plan: Plan,
    now: Timestamp,
}

/// Why nobody else begins for now.
#[derive(Clone)]
enum Held {
    No,
    Because(Reason),
}

/// What is waited for, and who that is just now.
#[derive(Clone)]
struct Reason {
    what: String,
    whom: String,
}

impl Reason {
    fn plain(what: impl Into<String>) -> Self {
        Self { what: what.into(), whom: String::new() }
    }

    fn of(what: String, whom: &[String]) -> Self {
        Self { what, whom: list(whom) }
    }
}

impl Planning {
    fn go(&mut self, strategy: &Strategy, members: &[&Member], per_group: Share) {
        self.changes_with_time(strategy, members);
        let (mandatory, rest) = self.stages(strategy, members);
        let mut held = Held::No;
        for (name, stage) in &mandatory {
            held = match held {
                // Whoever should go first is not there: a name that is written wrong, or a label that was lost.
                Held::No if stage.is_empty() => {
                    Held::Because(Reason::plain(format!("{name} comes first, and no cluster is in it")))
                }
                // What nobody tried is not proven: a person who takes back what failed must not set all others going.
                Held::No if stage.iter().all(|member| member.state == State::Apart) => {
                    Held::Because(Reason::plain(format!(
                        "{name} comes first, and a person has set the version of all its clusters"
                    )))
                }
                // A group that must not fail: the first failure is one too many.
                Held::No => self.run_together(strategy, name, stage, Share::Count(0)),
                held => self.keep(stage, held),
            };
        }
        match strategy.pace {
            Pace::All => _ = self.admit(&rest, held),
            Pace::Progressive(concurrency) => {
                let total = members.len();
                let slots = concurrency.unwrap_or(per_group).of(total).max(1);
                self.run_by_name(strategy, &rest, slots, total, held);
            }
            Pace::PerGroup => {
                for (name, stage) in groups(&rest) {
                    held = match held {
                        Held::No => self.run_together(strategy, &name, &stage, strategy.tolerated),
                        held => self.keep(&stage, held),
                    };
                }
            }
        }
    }

    /// The groups that go first, in the order in which they are named, and all others.
    fn stages<'m>(
        &self,
        strategy: &Strategy,
        members: &[&'m Member],
    ) -> (Vec<(String, Vec<&'m Member>)>, Vec<&'m Member>) {
        let mut rest = members.to_vec();
        let mut stages = Vec::new();
        for wanted in &strategy.mandatory {
            let belongs = |member: &&'m Member| match wanted.group_name.as_str() {
                "" => wanted.group_index.and_then(|index| usize::try_from(index).ok()) == Some(member.group),
                name => member.group_name == name,
            };
            let stage: Vec<&'m Member> = rest.iter().copied().filter(belongs).collect();
            if stage.is_empty() {
                let name = match (wanted.group_name.as_str(), wanted.group_index) {
                    ("", index) => format!("group {}", index.unwrap_or_default()),
                    (name, _) => format!("group {name}"),
                };
                stages.push((name, stage.clone()));
            }
            stages.extend(groups(&stage));
            rest.retain(|member| !belongs(member));
        }
        (stages, rest)
    }

    /// All clusters of a stage at once; the next stage when they are all through.
    fn run_together(&mut self, strategy: &Strategy, name: &str, stage: &[&Member], tolerated: Share) -> Held {
        let failed = failures(stage);
        if failed.len() > tolerated.of(stage.len()) {
            let why = stopped(&failed, tolerated.of(stage.len()));
            return self.keep(stage, Held::Because(why));
        }
        self.admit(stage, Held::No);
        let open: Vec<String> = stage.iter().filter_map(|member| self.open(strategy, member)).collect();
        match open.is_empty() {
            true => Held::No,
            false => Held::Because(Reason::of(format!("{name} comes first"), &open)),
        }
    }

    /// So many clusters at a time, by name.
    fn run_by_name(
        &mut self,
        strategy: &Strategy,
        stage: &[&Member],
        slots: usize,
        total: usize,
        held: Held,
    ) {
        let failed = failures(stage);
        let tolerated = strategy.tolerated.of(total);
        if let Held::Because(_) = held {
            self.keep(stage, held);
            return;
        }
        if failed.len() > tolerated {
            self.keep(stage, Held::Because(stopped(&failed, tolerated)));
            return;
        }
        let open: Vec<String> = stage
            .iter()
            .filter(|member| !member.state.has_nothing())
            .filter_map(|member| self.open(strategy, member))
            .collect();
        let diverted: Vec<&Member> =
            stage.iter().copied().filter(|member| member.state == State::Diverted).collect();
        self.admit(&diverted, Held::No);
        let waiting: Vec<&Member> =
            stage.iter().copied().filter(|member| member.state.has_nothing()).collect();
        let free = slots.saturating_sub(open.len()).min(waiting.len());
        let (begin, wait) = waiting.split_at(free);
        self.admit(begin, Held::No);
        let names = open.into_iter().chain(begin.iter().filter_map(|member| self.open(strategy, member)));
        let names: Vec<String> = names.collect();
        self.hold(wait, Reason::of(format!("at most {slots} at a time"), &names));
    }

    /// A cluster that others wait for, and why, if they do.
    fn open(&self, strategy: &Strategy, member: &Member) -> Option<String> {
        let name = &member.cluster;
        match &member.state {
            State::Absent => Some(format!("{name} (it has no ManagedClusterAddOn yet)")),
            State::Waiting | State::Diverted | State::Changing(_) => Some(name.clone()),
            State::Unproven { lacks, .. } => Some(format!("{name} ({lacks})")),
            State::Done(since) => {
                let end = after(*since, strategy)?;
                (end > self.now).then(|| format!("{name} (well until {})", seconds(end)))
            }
            State::Failed | State::TimedOut | State::Apart => None,
        }
    }

    /// Lets all begin, unless something holds them.
    fn admit(&mut self, stage: &[&Member], held: Held) -> Held {
        match held {
            Held::No => {
                let begin = stage.iter().filter(|member| member.state.is_to_begin());
                self.plan.turns.extend(begin.map(|member| (member.cluster.clone(), Step::Begins)));
                Held::No
            }
            held => self.keep(stage, held),
        }
    }

    fn keep(&mut self, stage: &[&Member], held: Held) -> Held {
        if let Held::Because(reason) = &held {
            self.hold(stage, reason.clone());
        }
        held
    }

    /// Nobody of these begins.
    fn hold(&mut self, stage: &[&Member], reason: Reason) {
        let waiting = stage.iter().filter(|member| member.state.is_to_begin());
        let clusters: Vec<String> = waiting.map(|member| member.cluster.clone()).collect();
        if !clusters.is_empty() {
            let step = Step::Waits(self.plan.waiting.len());
            self.plan.turns.extend(clusters.iter().map(|cluster| (cluster.clone(), step)));
            self.plan.waiting.push(Waiting { what: reason.what, whom: reason.whom, clusters });
        }
    }

    /// When the first soak ends, or the first patience.
    fn changes_with_time(&mut self, strategy: &Strategy, members: &[&Member]) {
        let ends = members.iter().filter_map(|member| match member.state {
            State::Done(since) => after(since, strategy),
            _ => patience(&member.state, strategy.deadline, self.now),
        });
        self.plan.next = ends.filter(|end| *end > self.now).min();
    }
}

/// When a cluster that is done has been well for long enough; nothing, where that need not be waited for.
fn after(since: Timestamp, strategy: &Strategy) -> Option<Timestamp> {
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

fn stopped(failed: &[String], tolerated: usize) -> Reason {
    Reason::plain(format!(
        "{STOPPED}, because {} failed where {tolerated} may: {}",
        failed.len(),
        list(failed)
    ))
}

/// By their groups, in order of those.
fn groups<'m>(members: &[&'m Member]) -> Vec<(String, Vec<&'m Member>)> {
    // A cluster that is out of reach keeps the group that it was last known in, whose place another may have by now.
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

impl Waiting {
    /// What is waited for, and who that is just now.
    pub fn in_words(&self) -> String {
        if self.whom.is_empty() { self.what.clone() } else { format!("{}: {}", self.what, self.whom) }
    }
}

/// A few names, and how many others.
fn list(names: &[String]) -> String {
    match names.get(..NAMED).zip(names.len().checked_sub(NAMED)) {
        Some((first, more)) if more > 0 => format!("{} and {more} more", first.join(", ")),
        _ => names.join(", "),
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
            State::Apart => counts.apart += 1,
        }
    }
    counts
}

#[cfg(test)]
mod tests;
