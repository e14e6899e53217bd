//! Which clusters have an add-on, and what each asks for (`spec/lifecycle.md`, A14 to A21, A25, A26). Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use bellwether_api::addon::{ConfigReference, InstallStrategy, InstallType, PlacementStrategy};
use jiff::{SignedDuration, Timestamp};

/// For how long a cluster must be absent from all decisions before its add-on goes.
pub const ABSENCE: Duration = Duration::from_secs(10);

/// For how long a cluster that came back must be there before it can be missed: the placements that dropped it while it
/// was away have to hear of it first, and are at their busiest then.
pub const RETURN: Duration = Duration::from_secs(300);

/// What a placement has chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// These clusters, and no others.
    Complete(Vec<String>),
    /// There is no such placement: it adds nothing, and nothing goes for that.
    Missing,
    /// It is being decided or written.
    Unsettled,
}

/// A cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cluster {
    /// It is there, and may have add-ons.
    Here,
    /// It is there again since then, after it was out of reach.
    Back(Timestamp),
    /// It is there and out of reach, for which placements may have dropped it.
    OutOfReach,
    /// It is being deleted.
    Leaving,
}

/// A ManagedClusterAddOn that there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    /// The placement that it was made for; nothing, if a person made it.
    pub made_for: Option<String>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it goes also where its cluster is out of reach.
    pub goes_when_unreachable: bool,
}

/// What a ManagedClusterAddOn should ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The placement that it is made for, `<namespace>/<name>`.
    pub placement: String,
    /// The version; empty for the default.
    pub version: String,
    /// The configurations.
    pub configs: Vec<ConfigReference>,
}

/// What is to be done with the add-on on a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// It should be there and ask for this.
    Keep(Wish),
    /// It should go.
    Remove,
}

/// All that counts.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// Where the add-on is to go; nothing, if there is no such add-on any more.
    pub strategy: Option<&'a InstallStrategy>,
    /// What each of its placements has chosen.
    pub choices: &'a [Choice],
    /// The clusters.
    pub clusters: &'a HashMap<String, Cluster>,
    /// What is there.
    pub present: &'a BTreeMap<String, Present>,
    /// Since when clusters are absent from all decisions.
    pub absent: &'a HashMap<String, Timestamp>,
    /// The time.
    pub now: Timestamp,
}

/// What is to be done, and what to remember.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// By cluster. Those that are not named are left alone.
    pub acts: BTreeMap<String, Act>,
    /// Since when clusters are absent from all decisions.
    pub absent: HashMap<String, Timestamp>,
    /// When time alone changes the plan.
    pub next: Option<Timestamp>,
}

/// Decides for all clusters.
pub fn decide(observed: &Observed<'_>) -> Plan {
    match observed.strategy {
        None => farewell(observed),
        Some(strategy) if strategy.type_ == InstallType::Placements => by_placements(observed, strategy),
        // By hand: what is there stays, and is nobody's business but theirs (A21).
        Some(_) => Plan::default(),
    }
}

/// The add-on is gone as a whole: what was made for it goes too (A25).
fn farewell(observed: &Observed<'_>) -> Plan {
    let ours = observed.present.iter().filter(|(_, present)| present.made_for.is_some() && !present.deleting);
    let acts = ours.map(|(cluster, _)| (cluster.clone(), Act::Remove)).collect();
    Plan { acts, ..Plan::default() }
}

fn by_placements(observed: &Observed<'_>, strategy: &InstallStrategy) -> Plan {
    let mut plan = Plan::default();
    let assigned = assigned(strategy, observed.choices);
    let missing: BTreeSet<String> = strategy
        .placements
        .iter()
        .zip(observed.choices)
        .filter(|(_, choice)| **choice == Choice::Missing)
        .map(|(placement, _)| wish(placement).placement)
        .collect();
    for (cluster, assignment) in &assigned {
        let state = observed.clusters.get(*cluster);
        let present = observed.present.get(*cluster);
        let made_for = present.and_then(|present| present.made_for.as_ref());
        if made_for.is_some_and(|made_for| missing.contains(made_for)) {
            // Its placement is gone and still asked for: whether that was meant is not known (A18).
            continue;
        }
        let theirs = present.is_some_and(|present| present.made_for.is_none());
        let goes = present.is_some_and(|present| present.deleting);
        if theirs || goes || !matches!(state, Some(Cluster::Here | Cluster::Back(_) | Cluster::OutOfReach)) {
            continue;
        }
        if let Assignment::Certain(placement) = assignment {
            plan.acts.insert((*cluster).to_owned(), Act::Keep(wish(placement)));
        }
    }
    let settled = observed.choices.iter().all(|choice| matches!(choice, Choice::Complete(_)));
    for (cluster, present) in observed.present {
        if present.made_for.is_none() || present.deleting {
            continue;
        }
        if observed.clusters.get(cluster) == Some(&Cluster::Leaving) {
            plan.acts.insert(cluster.clone(), Act::Remove);
        } else if settled && !assigned.contains_key(cluster.as_str()) {
            plan.leave(observed, cluster, present);
        }
    }
    plan
}

impl Plan {
    /// A cluster that no placement has chosen: its add-on goes when that has been so for a while, and its cluster is not
    /// merely out of reach.
    fn leave(&mut self, observed: &Observed<'_>, cluster: &str, present: &Present) {
        let reachable = observed.clusters.get(cluster) != Some(&Cluster::OutOfReach);
        if !reachable && !present.goes_when_unreachable {
            return;
        }
        let since = observed.absent.get(cluster).copied().unwrap_or(observed.now);
        let mut end = later(since, ABSENCE);
        if let Some(Cluster::Back(back)) = observed.clusters.get(cluster) {
            // It says so by its own clock, which may be far off.
            let end_of_return = later(*back, RETURN);
            if end_of_return <= later(observed.now, RETURN * 2) {
                end = end.max(end_of_return);
            }
        }
        self.absent.insert(cluster.to_owned(), since);
        if end <= observed.now {
            self.acts.insert(cluster.to_owned(), Act::Remove);
        } else {
            self.next = Some(self.next.map_or(end, |next| next.min(end)));
        }
    }
}

fn later(since: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    since.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// The placement that a cluster goes by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Assignment<'a> {
    /// This one.
    Certain(&'a PlacementStrategy),
    /// One that comes later might have it too, and is not settled.
    Open,
}

/// The placement that each cluster goes by: the last that has it wins (A14). There is a choice for each placement.
pub fn assigned<'a>(
    strategy: &'a InstallStrategy,
    choices: &'a [Choice],
) -> BTreeMap<&'a str, Assignment<'a>> {
    let mut assigned = BTreeMap::new();
    let mut open = false;
    for (placement, choice) in strategy.placements.iter().zip(choices).rev() {
        match choice {
            Choice::Complete(clusters) => {
                for cluster in clusters {
                    let assignment = if open { Assignment::Open } else { Assignment::Certain(placement) };
                    assigned.entry(cluster.as_str()).or_insert(assignment);
                }
            }
            Choice::Missing => {}
            Choice::Unsettled => open = true,
        }
    }
    assigned
}

/// What a placement asks for.
pub fn wish(placement: &PlacementStrategy) -> Wish {
    let template = placement.addon_template.clone().unwrap_or_default();
    let in_namespace = |mut config: ConfigReference| {
        if config.namespace.is_empty() {
            config.namespace.clone_from(&placement.namespace);
        }
        config
    };
    Wish {
        placement: format!("{}/{}", placement.namespace, placement.name),
        version: template.install_version,
        configs: template.configs.into_iter().map(in_namespace).collect(),
    }
}

#[cfg(test)]
mod tests;
