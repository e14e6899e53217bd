//! How far a cluster is with the version that it should have: the table of `spec/lifecycle.md` 3.3, from top to bottom,
//! with the corners of 3.4. What is remembered is what the status of the ManagedClusterAddOn says, and nothing else.

use std::cmp::Ordering;
use std::time::Duration;

use bellwether_api::addon::ManagedClusterAddOnStatus;
use bellwether_api::addon::vocabulary::{CONFIGURED, PROGRESSING, UNKNOWN_VERSION};
use bellwether_conditions::{ConditionType, Desired, Reason, Status};
use jiff::{SignedDuration, Timestamp};

use super::works::Stands;
use crate::version::{Catalogue, Version};

/// Reasons of the condition Progressing.
pub mod reason {
    /// The first version comes to the cluster, or one after a version that there was not.
    pub const INSTALLING: &str = "Installing";
    /// A later version comes to the cluster.
    pub const UPGRADING: &str = "Upgrading";
    /// An earlier version comes to the cluster.
    pub const ROLLING_BACK: &str = "Rollingback";
    pub use bellwether_api::addon::vocabulary::SUCCEED;
    /// The version cannot be brought there, for now.
    pub const FAILED: &str = "Failed";

    /// Of Configured: the cluster has what was asked for, or is on its way there.
    pub const CONFIGURED: &str = "ConfigurationsConfigured";
    /// Of Configured: others come first.
    pub const WAITING: &str = "WaitingForTurn";
    /// Of Configured: there is no such version.
    pub const INVALID: &str = "InvalidVersion";
}

/// What the status of a ManagedClusterAddOn says of its versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// `status.installVersion`: what was last begun.
    pub begun: String,
    /// `status.currentVersion`.
    pub current: String,
    /// `status.lastVersion`.
    pub last: String,
    /// How the change to what was last begun goes.
    pub course: Course,
    /// How the condition Progressing says that.
    pub words: String,
}

/// How a change goes, as the condition Progressing remembers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Course {
    /// It is over, or nothing was ever begun.
    #[default]
    Over,
    /// It goes on since then.
    Since(Timestamp),
    /// It took too long.
    TimedOut,
    /// There was no such version when it was asked for. What there is today does not count (A32).
    Invalid,
}

impl Standing {
    /// What a status says.
    pub fn read(status: &ManagedClusterAddOnStatus) -> Self {
        let begun = status.install_version.clone();
        let progressing = status.conditions.iter().find(|condition| condition.type_ == PROGRESSING);
        let course = progressing.map_or(Course::Over, |condition| {
            let failed = condition.reason == reason::FAILED;
            match condition.status.as_str() {
                "True" => Course::Since(condition.last_transition_time.0),
                _ if failed && condition.message.ends_with(&invalid(&begun)) => Course::Invalid,
                _ if failed && condition.message.contains(&format!(" version {begun}{TIMED_OUT}")) => {
                    Course::TimedOut
                }
                _ => Course::Over,
            }
        });
        let (current, last) = (status.current_version.clone(), status.last_version.clone());
        let words = progressing.map(|condition| condition.message.clone()).unwrap_or_default();
        Self { begun, current, last, course, words }
    }
}

/// How a message says that there is no such version; it is also how that is remembered.
fn invalid(version: &str) -> String {
    format!(" invalid version {version}")
}

/// How many versions are named.
const NAMED: usize = 20;

/// How a message says that a change took too long; it is also how that is remembered.
const TIMED_OUT: &str = ": timed out after ";

/// How long workloads are waited for before it is said that all is done without them: most come up soon after they were
/// applied, and that both are so is then one thing to say.
const COMING_UP: SignedDuration = SignedDuration::from_secs(10);

/// Whether the turn of a cluster has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It may change.
    Come,
    /// Others come first.
    Waits(String),
}

/// What the objects of the wanted version are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rendering {
    /// They could be made, and their works stand so.
    Made(Stands),
    /// They could not be made.
    Failed(String),
}

/// All that counts for the progress of an add-on on a cluster.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// The add-on.
    pub addon: &'a str,
    /// The generation of the ManagedClusterAddOn.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The version that it asks for; empty for the default.
    pub requested: &'a str,
    /// What it has come to so far.
    pub standing: &'a Standing,
    /// Whether the configurations are others than those it was last begun with.
    pub reconfigured: bool,
    /// The versions that there are.
    pub catalogue: &'a Catalogue,
    /// Whether it may change.
    pub turn: Turn,
    /// Where the works of the version stand. Not looked at where there is no such version.
    pub rendering: Rendering,
    /// Whether a workload in them is still to come up, and it will be told when it is.
    pub coming_up: bool,
    /// The version of the works that there are, where it is another.
    pub running: Option<&'a str>,
    /// Works that say that they are of the add-on, and are not ours.
    pub strangers: &'a [String],
    /// Why the hub does not take a work of the version, if it does not.
    pub refused: Option<&'a str>,
    /// How long a change may take.
    pub deadline: Option<Duration>,
    /// The time.
    pub now: Timestamp,
}

/// What is to be said, and what is to be done about the works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// `status.installVersion`, `.currentVersion` and `.lastVersion`.
    pub begun: String,
    #[allow(missing_docs, reason = "with the one above")]
    pub current: String,
    #[allow(missing_docs, reason = "with the one above")]
    pub last: String,
    /// The condition Progressing; left as it is where nothing is said.
    pub progressing: Option<Desired>,
    /// The condition Configured; left as it is where nothing is said.
    pub configured: Option<Desired>,
    /// What is done about the works.
    pub works: Deed,
    /// Whether the version in use is no longer among those that there are.
    pub unsupported: bool,
    /// When time alone changes the verdict.
    pub next: Option<Timestamp>,
}

/// What is done about works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// They stay as they are.
    Leave,
    /// They are made what the version needs, and no others stay.
    Bring,
}

/// The version that a cluster should have: what it asks for, else the default.
pub fn wanted<'a>(requested: &'a str, catalogue: &'a Catalogue) -> Option<&'a str> {
    match requested {
        "" => catalogue.default_version().map(Version::as_str),
        requested => Some(requested),
    }
}

/// Decides, by the table.
pub fn decide(observed: &Observed<'_>) -> Verdict {
    let standing = observed.standing;
    let unchanged = Verdict {
        begun: standing.begun.clone(),
        current: standing.current.clone(),
        last: standing.last.clone(),
        progressing: None,
        configured: None,
        works: Deed::Leave,
        unsupported: false,
        next: None,
    };
    if observed.deleting {
        return unchanged;
    }
    if let Turn::Waits(what) = &observed.turn {
        let configured = observed.condition(CONFIGURED, Status::False, reason::WAITING, what.clone());
        return Verdict { configured: Some(configured), ..unchanged };
    }
    let Some(version) = wanted(observed.requested, observed.catalogue) else {
        let message = format!("Waiting for ClusterManagementAddOn {} status.defaultVersion.", observed.addon);
        let progressing = observed.condition(PROGRESSING, Status::True, reason::INSTALLING, message);
        return Verdict { current: String::new(), progressing: Some(progressing), ..unchanged };
    };
    Attempt::of(observed, version).verdict()
}

impl Observed<'_> {
    fn condition(
        &self,
        type_: &'static str,
        status: Status,
        reason: &'static str,
        message: String,
    ) -> Desired {
        Desired::new(ConditionType::constant(type_), status, Reason::constant(reason), message)
            .observed_at(self.generation)
    }
}

/// Which way a change goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Install,
    Upgrade,
    Rollback,
}

impl Direction {
    fn reason(self) -> &'static str {
        match self {
            Self::Install => reason::INSTALLING,
            Self::Upgrade => reason::UPGRADING,
            Self::Rollback => reason::ROLLING_BACK,
        }
    }

    /// As it follows "could not".
    fn verb(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Upgrade => "upgrade to",
            Self::Rollback => "rollback to",
        }
    }
}

/// A cluster whose turn has come, on its way to a version.
struct Attempt<'a> {
    observed: &'a Observed<'a>,
    version: &'a str,
    /// Whether this is the first look at it.
    edge: bool,
    last: String,
}

impl<'a> Attempt<'a> {
    fn of(observed: &'a Observed<'a>, version: &'a str) -> Self {
        let standing = observed.standing;
        let edge = standing.begun != version;
        let last = match (edge, standing.begun.as_str()) {
            (false, _) => standing.last.clone(),
            (true, "") => String::new(),
            (true, _) if standing.course == Course::Invalid => UNKNOWN_VERSION.to_owned(),
            (true, begun) => begun.to_owned(),
        };
        Self { observed, version, edge, last }
    }

    fn verdict(&self) -> Verdict {
        let observed = self.observed;
        let succeeded = !self.edge && observed.standing.current == self.version;
        if !observed.catalogue.supports(self.version) {
            // It was good when it came, and is not taken away for that (A22).
            return if succeeded {
                Verdict { unsupported: true, ..self.succeeded(Deed::Leave) }
            } else {
                self.invalid()
            };
        }
        let stands = match &observed.rendering {
            Rendering::Made(stands) => stands,
            Rendering::Failed(why) => return self.failed(why, Deed::Leave),
        };
        if let (Some(why), false) = (observed.refused, stands.deployed()) {
            return self.failed(why, Deed::Bring);
        }
        let sticks = succeeded && !observed.reconfigured && stands.deployed();
        if let Some((work, why)) = stands.failure() {
            return self.failed(&format!("work {work}: {why}"), Deed::Bring);
        }
        if !sticks && !stands.done() {
            return self.progressing();
        }
        match self.coming_up().filter(|_| !sticks) {
            Some(until) => {
                let verdict = self.progressing();
                Verdict { next: Some(verdict.next.map_or(until, |next| next.min(until))), ..verdict }
            }
            None => self.succeeded(Deed::Bring),
        }
    }

    /// Until when workloads are waited for. Where there is a deadline, long before it: what was applied is not too late.
    fn coming_up(&self) -> Option<Timestamp> {
        let Course::Since(since) = self.observed.standing.course else { return None };
        if self.edge || self.observed.reconfigured || !self.observed.coming_up {
            return None;
        }
        let half = self.observed.deadline.and_then(|limit| SignedDuration::try_from(limit / 2).ok());
        let patience = half.map_or(COMING_UP, |half| half.min(COMING_UP));
        let until = since.saturating_add(patience).unwrap_or(Timestamp::MAX);
        // Whoever wrote when it began may have had another clock: then it is not known how long to wait.
        (since <= self.observed.now && until > self.observed.now).then_some(until)
    }

    /// Row 8.
    fn succeeded(&self, works: Deed) -> Verdict {
        let message = "install completed with no errors.".to_owned();
        let progressing = self.observed.condition(PROGRESSING, Status::False, reason::SUCCEED, message);
        Verdict { current: self.version.to_owned(), works, ..self.verdict_of(progressing) }
    }

    /// Rows 3 to 6. What was deployed stays.
    fn invalid(&self) -> Verdict {
        let verb = match self.order() {
            None | Some(Ordering::Equal) => Direction::Install.verb(),
            Some(Ordering::Less) => Direction::Upgrade.verb(),
            Some(Ordering::Greater) => Direction::Rollback.verb(),
        };
        let message = format!("could not {verb}{}", invalid(self.version));
        let progressing = self.observed.condition(PROGRESSING, Status::False, reason::FAILED, message);
        let configured = self.observed.condition(CONFIGURED, Status::False, reason::INVALID, self.choice());
        Verdict { configured: Some(configured), ..self.verdict_of(progressing) }
    }

    /// What there is to choose from.
    fn choice(&self) -> String {
        let known = self.observed.catalogue.supported();
        let names: Vec<&str> = known.iter().map(Version::as_str).collect();
        match names.as_slice() {
            [] => format!("there is no version {}: no AddOnTemplate has any of this add-on", self.version),
            names => {
                let newest = names.get(names.len().saturating_sub(NAMED)..).unwrap_or_default().join(", ");
                let older = names.len().saturating_sub(NAMED);
                let more = if older == 0 { String::new() } else { format!(" and {older} older") };
                format!("there is no version {}; there are: {newest}{more}", self.version)
            }
        }
    }

    /// Rows 7 and 9 to 11.
    fn failed(&self, why: &str, works: Deed) -> Verdict {
        self.failed_in_words(&format!(": {why}"), works)
    }

    fn failed_in_words(&self, why: &str, works: Deed) -> Verdict {
        let verb = self.direction().verb();
        let message = format!("could not {verb} version {}{why}", self.version);
        let progressing = self.observed.condition(PROGRESSING, Status::False, reason::FAILED, message);
        Verdict { works, ..self.verdict_of(progressing) }
    }

    /// Rows 12 to 16.
    fn progressing(&self) -> Verdict {
        let end = match self.observed.deadline.map(|limit| (limit, self.end(limit))) {
            Some((limit, end)) if end.is_none_or(|end| end <= self.observed.now) => {
                return self.failed_in_words(&timed_out(limit), Deed::Bring);
            }
            Some((_, end)) => end,
            None => None,
        };
        let reason = self.direction().reason();
        let progressing = self.observed.condition(PROGRESSING, Status::True, reason, self.announcement());
        Verdict { works: Deed::Bring, next: end, ..self.verdict_of(progressing) }
    }

    /// What is under way. After a version that there was not, also what runs meanwhile (A6); that is said when it begins,
    /// and stays, as the works tell only until they are written.
    fn announcement(&self) -> String {
        let plain = format!("{} addon to version {}.", self.direction().reason(), self.version);
        let held = &self.observed.standing.words;
        match self.observed.running {
            _ if !self.edge && held.starts_with(&plain) => held.clone(),
            Some(running) if self.last == UNKNOWN_VERSION => {
                format!("{plain} Version {running} is there until then.")
            }
            _ => plain,
        }
    }

    /// When the change will have taken too long: counted from when it began, and anew where the configurations changed
    /// (A33). Nothing, if it already has.
    fn end(&self, limit: Duration) -> Option<Timestamp> {
        let now = self.observed.now;
        let since = match self.observed.standing.course {
            _ if self.edge || self.observed.reconfigured => now,
            Course::Since(since) => since,
            // Whoever is given more time than before begins anew.
            Course::TimedOut if self.observed.standing.words.ends_with(&timed_out(limit)) => return None,
            Course::TimedOut => now,
            Course::Over | Course::Invalid => now,
        };
        let limit = SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX);
        Some(since.saturating_add(limit).unwrap_or(Timestamp::MAX))
    }

    fn verdict_of(&self, progressing: Desired) -> Verdict {
        let mut message = format!("version {} is asked for", self.version);
        if let Some(first) = self.observed.strangers.first() {
            let more = self.observed.strangers.len() - 1;
            let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
            message.push_str(&format!(
                "; work {first}{more} has the label of the add-on and is not its own, and is left alone"
            ));
        }
        let configured = self.observed.condition(CONFIGURED, Status::True, reason::CONFIGURED, message);
        Verdict {
            begun: self.version.to_owned(),
            current: UNKNOWN_VERSION.to_owned(),
            last: self.last.clone(),
            progressing: Some(progressing),
            configured: Some(configured),
            works: Deed::Leave,
            unsupported: false,
            next: None,
        }
    }

    /// How the version before compares with this one.
    fn order(&self) -> Option<Ordering> {
        match self.last.as_str() {
            "" | UNKNOWN_VERSION => None,
            last => self.observed.catalogue.compare(last, self.version),
        }
    }

    fn direction(&self) -> Direction {
        match (self.last.as_str(), self.order()) {
            ("" | UNKNOWN_VERSION, _) => Direction::Install,
            (_, Some(Ordering::Greater)) => Direction::Rollback,
            // Row 16: another spelling of the same numbers, or names that cannot be compared.
            (_, Some(Ordering::Less | Ordering::Equal) | None) => Direction::Upgrade,
        }
    }
}

fn timed_out(limit: Duration) -> String {
    format!("{TIMED_OUT}{}", in_words(limit))
}

/// A duration as strategies write it.
fn in_words(limit: Duration) -> String {
    let seconds = limit.as_secs();
    let parts = [(seconds / 3600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let words: String =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
    if words.is_empty() { "0s".to_owned() } else { words }
}

#[cfg(test)]
mod tests;
