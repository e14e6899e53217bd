//! How far a cluster is with the version that it should have: the table of `spec/lifecycle.md` 3.3, from top to bottom,
//! with the corners of 3.4. What is remembered is what the status of the ManagedClusterAddOn says, and nothing else.

use std::cmp::Ordering;
use std::time::Duration;

use bellwether_api::addon::vocabulary::{CONFIGURED, PROGRESSING};
use bellwether_conditions::{ConditionType, Desired, Reason, Status};
use jiff::{SignedDuration, Timestamp};

use crate::rollout::Turn;
use crate::standing::{Course, Standing, StatusVersion, resolve};
use crate::version::{Catalogue, Version};
use crate::works::Stands;

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

/// How many versions are named.
const NAMED: usize = 20;

/// How long workloads are waited for before it is said that all is done without them: most come up soon after they were
/// applied, and that both are so is then one thing to say.
const COMING_UP: SignedDuration = SignedDuration::from_secs(10);

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
    /// The version that it asks for; `None` for the default.
    pub requested: Option<&'a Version>,
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
    pub begun: Option<Version>,
    #[allow(missing_docs, reason = "with the one above")]
    pub current: StatusVersion,
    #[allow(missing_docs, reason = "with the one above")]
    pub last: StatusVersion,
    /// How the change goes, as far as it failed.
    pub course: Course,
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

impl Verdict {
    /// Whether the version of the change is the one that runs.
    pub fn is_current(&self) -> bool {
        self.begun.is_some() && self.current.known() == self.begun.as_ref()
    }
}

/// What is done about works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// They stay as they are.
    Leave,
    /// They are made what the version needs, and no others stay.
    Bring,
}

/// Decides, by the table.
pub fn decide(observed: &Observed<'_>) -> Verdict {
    let standing = observed.standing;
    let unchanged = Verdict {
        begun: standing.begun.clone(),
        current: standing.current.clone(),
        last: standing.last.clone(),
        course: standing.course,
        progressing: None,
        configured: None,
        works: Deed::Leave,
        unsupported: false,
        next: None,
    };
    if observed.deleting {
        return unchanged;
    }
    if let Turn::Waits(why) = &observed.turn {
        let configured = observed.condition(CONFIGURED, Status::False, reason::WAITING, why.to_string());
        return Verdict { configured: Some(configured), ..unchanged };
    }
    let Some(version) = resolve(observed.requested, observed.catalogue) else {
        let message = format!("Waiting for ClusterManagementAddOn {} status.defaultVersion.", observed.addon);
        let progressing = observed.condition(PROGRESSING, Status::True, reason::INSTALLING, message);
        return Verdict { current: StatusVersion::None, progressing: Some(progressing), ..unchanged };
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
    version: &'a Version,
    /// Whether the change to it begins now.
    edge: bool,
    last: StatusVersion,
}

impl<'a> Attempt<'a> {
    fn of(observed: &'a Observed<'a>, version: &'a Version) -> Self {
        let standing = observed.standing;
        let edge = standing.begun.as_ref() != Some(version);
        let last = match (edge, &standing.begun) {
            (false, _) => standing.last.clone(),
            (true, Some(_)) if standing.course == Course::Invalid => StatusVersion::Unknown,
            (true, begun) => begun.clone().into(),
        };
        Self { observed, version, edge, last }
    }

    fn verdict(&self) -> Verdict {
        let observed = self.observed;
        let succeeded = !self.edge && observed.standing.is_current();
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
        let current = StatusVersion::Known(self.version.clone());
        Verdict { current, works, ..self.verdict_of(progressing) }
    }

    /// Rows 3 to 6. What was deployed stays.
    fn invalid(&self) -> Verdict {
        let verb = match self.order() {
            None | Some(Ordering::Equal) => Direction::Install.verb(),
            Some(Ordering::Less) => Direction::Upgrade.verb(),
            Some(Ordering::Greater) => Direction::Rollback.verb(),
        };
        let message = format!("could not {verb} invalid version {}", self.version);
        let progressing = self.observed.condition(PROGRESSING, Status::False, reason::FAILED, message);
        let configured = self.observed.condition(CONFIGURED, Status::False, reason::INVALID, self.choice());
        Verdict { configured: Some(configured), course: Course::Invalid, ..self.verdict_of(progressing) }
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
        let verb = self.direction().verb();
        let message = format!("could not {verb} version {}: {why}", self.version);
        let progressing = self.observed.condition(PROGRESSING, Status::False, reason::FAILED, message);
        Verdict { works, ..self.verdict_of(progressing) }
    }

    /// Rows 12 to 16.
    fn progressing(&self) -> Verdict {
        let end = match self.observed.deadline.map(|limit| (limit, self.end(limit))) {
            Some((limit, end)) if end.is_none_or(|end| end <= self.observed.now) => {
                let verdict = self.failed(&format!("timed out after {}", display(limit)), Deed::Bring);
                return Verdict { course: Course::TimedOut(limit), ..verdict };
            }
            Some((_, end)) => end,
            None => None,
        };
        let reason = self.direction().reason();
        let progressing = self.observed.condition(PROGRESSING, Status::True, reason, self.announcement());
        Verdict { works: Deed::Bring, next: end, ..self.verdict_of(progressing) }
    }

    /// The message of a change. After an invalid version it also names the version that runs meanwhile (A6); the works show
    /// that only until they are written, so the message of a change that goes on is kept.
    fn announcement(&self) -> String {
        let plain = format!("{} addon to version {}.", self.direction().reason(), self.version);
        let standing = self.observed.standing;
        let goes_on = !self.edge && matches!(standing.course, Course::Since(_));
        match self.observed.running {
            // While it waits for a default version, none is running.
            _ if goes_on && standing.current == StatusVersion::Unknown => standing.message.clone(),
            Some(running) if self.last == StatusVersion::Unknown => {
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
            // Another deadline than the one it exceeded gives it time again.
            Course::TimedOut(exceeded) if exceeded == limit => return None,
            Course::TimedOut(_) => now,
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
            begun: Some(self.version.clone()),
            current: StatusVersion::Unknown,
            last: self.last.clone(),
            course: Course::Over,
            progressing: Some(progressing),
            configured: Some(configured),
            works: Deed::Leave,
            unsupported: false,
            next: None,
        }
    }

    /// How the version before compares with this one.
    fn order(&self) -> Option<Ordering> {
        self.observed.catalogue.compare(self.last.known()?, self.version)
    }

    fn direction(&self) -> Direction {
        match (self.last.known(), self.order()) {
            (None, _) => Direction::Install,
            (_, Some(Ordering::Greater)) => Direction::Rollback,
            // Row 16: another spelling of the same numbers, or names that cannot be compared.
            (_, Some(Ordering::Less | Ordering::Equal) | None) => Direction::Upgrade,
        }
    }
}

/// A duration as strategies write it.
fn display(limit: Duration) -> String {
    let seconds = limit.as_secs();
    let parts = [(seconds / 3600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let words: String =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
    if words.is_empty() { "0s".to_owned() } else { words }
}

#[cfg(test)]
mod tests;
