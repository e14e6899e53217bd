//! Decides how far a cluster is with its requested version: the table of `spec/lifecycle.md` 3.3, from top to bottom, with
//! the special cases of 3.4. The only memory is the status of the ManagedClusterAddOn; writing is left to the controller.

use std::cmp::Ordering;
use std::time::Duration;

use bellwether_api::addon::vocabulary::{CONFIGURED, PROGRESSING};
use bellwether_clock::later;
use bellwether_conditions::{ConditionType, Desired, Reason, Status};
use jiff::{SignedDuration, Timestamp};

use crate::rollout::Turn;
use crate::standing::{ChangeState, Standing, StatusVersion, resolve};
use crate::version::{Catalogue, Version};
use crate::works::WorkStates;

/// Reasons of the condition Progressing.
pub mod reason {
    /// The first version is being installed, or a version after one that did not exist.
    pub const INSTALLING: &str = "Installing";
    /// A later version is being installed.
    pub const UPGRADING: &str = "Upgrading";
    /// An earlier version is being installed.
    pub const ROLLING_BACK: &str = "Rollingback";
    pub use bellwether_api::addon::vocabulary::SUCCEED;
    /// The version could not be installed; the controller keeps trying.
    pub const FAILED: &str = "Failed";

    /// Of Configured: the cluster has the requested version and configurations, or is changing to them.
    pub const CONFIGURED: &str = "ConfigurationsConfigured";
    /// Of Configured: the rollout has not admitted the cluster yet.
    pub const WAITING: &str = "WaitingForTurn";
    /// Of Configured: the requested version does not exist.
    pub const INVALID: &str = "InvalidVersion";
}

/// The maximum number of versions that a message lists.
const MAX_LISTED_VERSIONS: usize = 20;

/// How long an applied change stays in progress while its workloads start. Most workloads start within this time, and then
/// one status write reports both that the change was applied and that the workloads are available.
const WORKLOAD_START_TIMEOUT: SignedDuration = SignedDuration::from_secs(10);

/// The result of rendering the requested version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rendering {
    /// Rendering succeeded; the ManifestWorks have these states.
    Rendered(WorkStates),
    /// Rendering failed, with this message.
    Failed(String),
}

/// Everything that the progress of an add-on on a cluster depends on.
#[derive(Clone, Debug)]
pub struct ProgressInput<'a> {
    /// The name of the add-on.
    pub addon: &'a str,
    /// The generation of the ManagedClusterAddOn.
    pub generation: i64,
    /// Whether the ManagedClusterAddOn is being deleted.
    pub is_deleting: bool,
    /// The version that the ManagedClusterAddOn requests; `None` for the default.
    pub requested: Option<&'a Version>,
    /// The versions and the state of the last change, from the status.
    pub standing: &'a Standing,
    /// Whether the configurations differ from those of the last change.
    pub reconfigured: bool,
    /// The versions of the add-on.
    pub catalogue: &'a Catalogue,
    /// Whether the rollout lets the cluster start its change.
    pub turn: Turn,
    /// The rendered ManifestWorks of the version; ignored if the version does not exist.
    pub rendering: Rendering,
    /// Whether a workload is not available yet and the agent will report when it is.
    pub has_starting_workload: bool,
    /// The version of the existing ManifestWorks, if it is not the requested one.
    pub running: Option<&'a str>,
    /// ManifestWorks with the label of the add-on that this controller did not create.
    pub foreign_works: &'a [String],
    /// Why the API server of the hub rejected a ManifestWork of the version, if it did.
    pub rejection: Option<&'a str>,
    /// The maximum duration of a change.
    pub deadline: Option<Duration>,
    /// The current time.
    pub now: Timestamp,
}

/// The status to write, and what to do with the ManifestWorks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgressDecision {
    /// `status.installVersion`, `.currentVersion` and `.lastVersion`.
    pub begun: Option<Version>,
    #[allow(missing_docs, reason = "with the one above")]
    pub current: StatusVersion,
    #[allow(missing_docs, reason = "with the one above")]
    pub last: StatusVersion,
    /// The state of the change; it determines `status.failure`.
    pub change: ChangeState,
    /// The condition Progressing; `None` leaves it unchanged.
    pub progressing: Option<Desired>,
    /// The condition Configured; `None` leaves it unchanged.
    pub configured: Option<Desired>,
    /// What to do with the ManifestWorks.
    pub work_action: WorkAction,
    /// Whether the running version no longer exists in the catalogue.
    pub is_unsupported: bool,
    /// When the decision must be made again even if no object changes.
    pub recheck_at: Option<Timestamp>,
}

impl ProgressDecision {
    /// Whether the version of the change is the running one.
    pub fn is_current(&self) -> bool {
        self.begun.is_some() && self.current.known() == self.begun.as_ref()
    }
}

/// What to do with the ManifestWorks of the add-on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkAction {
    /// Keep them unchanged.
    Keep,
    /// Create, update and delete them until they are what the version needs.
    Apply,
}

/// Decides by the table.
pub fn decide(input: &ProgressInput<'_>) -> ProgressDecision {
    let standing = input.standing;
    let unchanged = ProgressDecision {
        begun: standing.begun.clone(),
        current: standing.current.clone(),
        last: standing.last.clone(),
        change: standing.change,
        progressing: None,
        configured: None,
        work_action: WorkAction::Keep,
        is_unsupported: false,
        recheck_at: None,
    };
    if input.is_deleting {
        return unchanged;
    }
    if let Turn::Waits(why) = &input.turn {
        let configured = input.condition(CONFIGURED, Status::False, reason::WAITING, why.to_string());
        return ProgressDecision { configured: Some(configured), ..unchanged };
    }
    let Some(version) = resolve(input.requested, input.catalogue) else {
        let message = format!("Waiting for ClusterManagementAddOn {} status.defaultVersion.", input.addon);
        let progressing = input.condition(PROGRESSING, Status::True, reason::INSTALLING, message);
        return ProgressDecision {
            current: StatusVersion::None,
            progressing: Some(progressing),
            ..unchanged
        };
    };
    ChangeAttempt::new(input, version).decide()
}

impl ProgressInput<'_> {
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

/// The direction of a change of version.
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

    /// The verb for a message that starts with "could not".
    fn verb(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Upgrade => "upgrade to",
            Self::Rollback => "rollback to",
        }
    }
}

/// An admitted change of a cluster to a version.
struct ChangeAttempt<'a> {
    input: &'a ProgressInput<'a>,
    version: &'a Version,
    /// Whether the change starts now.
    is_new: bool,
    last: StatusVersion,
}

impl<'a> ChangeAttempt<'a> {
    fn new(input: &'a ProgressInput<'a>, version: &'a Version) -> Self {
        let standing = input.standing;
        let is_new = standing.begun.as_ref() != Some(version);
        let last = match (is_new, &standing.begun) {
            (false, _) => standing.last.clone(),
            (true, Some(_)) if standing.change == ChangeState::InvalidVersion => StatusVersion::Unknown,
            (true, begun) => begun.clone().into(),
        };
        Self { input, version, is_new, last }
    }

    fn decide(&self) -> ProgressDecision {
        let input = self.input;
        let has_succeeded = !self.is_new && input.standing.is_current();
        if !input.catalogue.supports(self.version) {
            // The version existed when it was installed; it keeps running (A22).
            return if has_succeeded {
                ProgressDecision { is_unsupported: true, ..self.succeeded(WorkAction::Keep) }
            } else {
                self.invalid()
            };
        }
        let work_states = match &input.rendering {
            Rendering::Rendered(work_states) => work_states,
            Rendering::Failed(why) => return self.failed(why, WorkAction::Keep),
        };
        if let (Some(why), false) = (input.rejection, work_states.is_deployed()) {
            return self.failed(why, WorkAction::Apply);
        }
        // A change that succeeded stays successful while its ManifestWorks are on the hub, whatever the agent reports later.
        let stays_succeeded = has_succeeded && !input.reconfigured && work_states.is_deployed();
        if let Some((work, why)) = work_states.failure() {
            return self.failed(&format!("work {work}: {why}"), WorkAction::Apply);
        }
        if !stays_succeeded && !work_states.is_ready() {
            return self.progressing();
        }
        match self.wait_for_workloads_until().filter(|_| !stays_succeeded) {
            Some(until) => {
                let decision = self.progressing();
                let recheck_at = decision.recheck_at.map_or(until, |deadline| deadline.min(until));
                ProgressDecision { recheck_at: Some(recheck_at), ..decision }
            }
            None => self.succeeded(WorkAction::Apply),
        }
    }

    /// Until when the change waits for its workloads to start. It waits at most half of the deadline, so that an applied change
    /// does not time out because of this wait.
    fn wait_for_workloads_until(&self) -> Option<Timestamp> {
        let ChangeState::InProgress(since) = self.input.standing.change else { return None };
        if self.is_new || self.input.reconfigured || !self.input.has_starting_workload {
            return None;
        }
        let half = self.input.deadline.and_then(|limit| SignedDuration::try_from(limit / 2).ok());
        let timeout = half.map_or(WORKLOAD_START_TIMEOUT, |half| half.min(WORKLOAD_START_TIMEOUT));
        let until = since.saturating_add(timeout).unwrap_or(Timestamp::MAX);
        // A start time in the future was written with another clock; then the remaining wait is unknown, and it does not wait.
        (since <= self.input.now && until > self.input.now).then_some(until)
    }

    /// Row 8.
    fn succeeded(&self, work_action: WorkAction) -> ProgressDecision {
        let message = "install completed with no errors.".to_owned();
        let progressing = self.input.condition(PROGRESSING, Status::False, reason::SUCCEED, message);
        let current = StatusVersion::Known(self.version.clone());
        ProgressDecision { current, work_action, ..self.decision_with(progressing) }
    }

    /// Rows 3 to 6. The existing ManifestWorks stay unchanged.
    fn invalid(&self) -> ProgressDecision {
        let verb = match self.compare_with_last() {
            None | Some(Ordering::Equal) => Direction::Install.verb(),
            Some(Ordering::Less) => Direction::Upgrade.verb(),
            Some(Ordering::Greater) => Direction::Rollback.verb(),
        };
        let message = format!("could not {verb} invalid version {}", self.version);
        let progressing = self.input.condition(PROGRESSING, Status::False, reason::FAILED, message);
        let configured =
            self.input.condition(CONFIGURED, Status::False, reason::INVALID, self.available_versions());
        ProgressDecision {
            configured: Some(configured),
            change: ChangeState::InvalidVersion,
            ..self.decision_with(progressing)
        }
    }

    /// The message that the version does not exist, with the versions that do.
    fn available_versions(&self) -> String {
        let known = self.input.catalogue.supported();
        let names: Vec<&str> = known.iter().map(Version::as_str).collect();
        match names.as_slice() {
            [] => {
                format!("version {} does not exist: there is no AddOnTemplate for this add-on", self.version)
            }
            names => {
                let newest = names
                    .get(names.len().saturating_sub(MAX_LISTED_VERSIONS)..)
                    .unwrap_or_default()
                    .join(", ");
                let older = names.len().saturating_sub(MAX_LISTED_VERSIONS);
                let more = if older == 0 { String::new() } else { format!(" and {older} older") };
                format!("version {} does not exist; available versions: {newest}{more}", self.version)
            }
        }
    }

    /// Rows 7 and 9 to 11.
    fn failed(&self, why: &str, work_action: WorkAction) -> ProgressDecision {
        let verb = self.direction().verb();
        let message = format!("could not {verb} version {}: {why}", self.version);
        let progressing = self.input.condition(PROGRESSING, Status::False, reason::FAILED, message);
        ProgressDecision { work_action, ..self.decision_with(progressing) }
    }

    /// Rows 12 to 16.
    fn progressing(&self) -> ProgressDecision {
        let end = match self.input.deadline.map(|limit| (limit, self.deadline_for(limit))) {
            Some((limit, end)) if end.is_none_or(|end| end <= self.input.now) => {
                let decision =
                    self.failed(&format!("timed out after {}", format_duration(limit)), WorkAction::Apply);
                return ProgressDecision { change: ChangeState::TimedOut(limit), ..decision };
            }
            Some((_, end)) => end,
            None => None,
        };
        let reason = self.direction().reason();
        let progressing = self.input.condition(PROGRESSING, Status::True, reason, self.progress_message());
        ProgressDecision {
            work_action: WorkAction::Apply,
            recheck_at: end,
            ..self.decision_with(progressing)
        }
    }

    /// The message of a change in progress. After an invalid version it also names the version that keeps running until then
    /// (A6). The ManifestWorks have that version only until they are updated, so an ongoing change keeps its message.
    fn progress_message(&self) -> String {
        let plain = format!("{} addon to version {}.", self.direction().reason(), self.version);
        let standing = self.input.standing;
        let is_ongoing = !self.is_new && matches!(standing.change, ChangeState::InProgress(_));
        match self.input.running {
            // While the add-on waits for a default version, no version is running, and the message is not kept.
            _ if is_ongoing && standing.current == StatusVersion::Unknown => standing.message.clone(),
            Some(running) if self.last == StatusVersion::Unknown => {
                format!("{plain} Version {running} keeps running until then.")
            }
            _ => plain,
        }
    }

    /// When the change times out. The time counts from its start, and again from a change of configurations (A33). `None` if
    /// it has already timed out.
    fn deadline_for(&self, limit: Duration) -> Option<Timestamp> {
        let now = self.input.now;
        let since = match self.input.standing.change {
            _ if self.is_new || self.input.reconfigured => now,
            ChangeState::InProgress(since) => since,
            // If the deadline was changed after the timeout, the time starts again.
            ChangeState::TimedOut(exceeded) if exceeded == limit => return None,
            ChangeState::TimedOut(_) => now,
            ChangeState::Ended | ChangeState::InvalidVersion => now,
        };
        Some(later(since, limit))
    }

    fn decision_with(&self, progressing: Desired) -> ProgressDecision {
        let mut message = format!("version {} is requested", self.version);
        if let Some(first) = self.input.foreign_works.first() {
            let more = self.input.foreign_works.len() - 1;
            let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
            message.push_str(&format!(
                "; ManifestWork {first}{more} has the label of the add-on but was not created for it, and is ignored"
            ));
        }
        let configured = self.input.condition(CONFIGURED, Status::True, reason::CONFIGURED, message);
        ProgressDecision {
            begun: Some(self.version.clone()),
            current: StatusVersion::Unknown,
            last: self.last.clone(),
            change: ChangeState::Ended,
            progressing: Some(progressing),
            configured: Some(configured),
            work_action: WorkAction::Keep,
            is_unsupported: false,
            recheck_at: None,
        }
    }

    /// Compares the last version with this one.
    fn compare_with_last(&self) -> Option<Ordering> {
        self.input.catalogue.compare(self.last.known()?, self.version)
    }

    fn direction(&self) -> Direction {
        match (self.last.known(), self.compare_with_last()) {
            (None, _) => Direction::Install,
            (_, Some(Ordering::Greater)) => Direction::Rollback,
            // Row 16: the same version numbers in another spelling, or names that cannot be compared.
            (_, Some(Ordering::Less | Ordering::Equal) | None) => Direction::Upgrade,
        }
    }
}

/// Formats a duration as rollout strategies write it, for example `1m30s`.
fn format_duration(limit: Duration) -> String {
    let seconds = limit.as_secs();
    let parts = [(seconds / 3600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let text: String =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests;
