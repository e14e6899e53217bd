//! What the status of a ManagedClusterAddOn says of its versions: all that is remembered of a change between reconciles.

use std::fmt;
use std::time::Duration;

use bellwether_api::addon::vocabulary::{PROGRESSING, UNKNOWN_VERSION};
use bellwether_api::addon::{
    ChangeFailure, ChangeFailureCode, ManagedClusterAddOn, ManagedClusterAddOnStatus,
};
use jiff::Timestamp;

use crate::version::{Catalogue, Version};

/// A version as a field of the status has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StatusVersion {
    /// There is none; the field is empty.
    #[default]
    None,
    /// It is not known which one is running.
    Unknown,
    /// This one.
    Known(Version),
}

impl StatusVersion {
    /// Reads a field.
    pub fn read(field: &str) -> Self {
        match field {
            UNKNOWN_VERSION => Self::Unknown,
            field => Version::new(field).map_or(Self::None, Self::Known),
        }
    }

    /// The version, where it is known.
    pub fn known(&self) -> Option<&Version> {
        match self {
            Self::Known(version) => Some(version),
            Self::None | Self::Unknown => None,
        }
    }
}

impl From<Option<Version>> for StatusVersion {
    fn from(version: Option<Version>) -> Self {
        version.map_or(Self::None, Self::Known)
    }
}

/// As the field has it.
impl fmt::Display for StatusVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Unknown => formatter.write_str(UNKNOWN_VERSION),
            Self::Known(version) => version.fmt(formatter),
        }
    }
}

/// What the status of a ManagedClusterAddOn says of its versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// `status.installVersion`: the version of the last change that began.
    pub begun: Option<Version>,
    /// `status.currentVersion`.
    pub current: StatusVersion,
    /// `status.lastVersion`.
    pub last: StatusVersion,
    /// The state of that change.
    pub change: ChangeState,
    /// The message of the condition Progressing.
    pub message: String,
}

/// The state of a change from one version to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChangeState {
    /// The last change has ended, or none ever began.
    #[default]
    Ended,
    /// The change has been in progress since this time.
    InProgress(Timestamp),
    /// The change took longer than this deadline.
    TimedOut(Duration),
    /// The version did not exist when it was requested. Versions that were added later do not change that (A32).
    InvalidVersion,
}

impl Standing {
    /// Reads a status.
    pub fn read(status: &ManagedClusterAddOnStatus) -> Self {
        let progressing = status.conditions.iter().find(|condition| condition.type_ == PROGRESSING);
        let change = match (progressing, &status.failure) {
            (Some(condition), _) if condition.status == "True" => {
                ChangeState::InProgress(condition.last_transition_time.0)
            }
            (Some(_), Some(failure)) => match failure.code {
                ChangeFailureCode::InvalidVersion => ChangeState::InvalidVersion,
                ChangeFailureCode::TimedOut => {
                    ChangeState::TimedOut(Duration::from_secs(failure.deadline_seconds.unwrap_or_default()))
                }
                ChangeFailureCode::Other => ChangeState::Ended,
            },
            _ => ChangeState::Ended,
        };
        Self {
            begun: Version::new(&status.install_version),
            current: StatusVersion::read(&status.current_version),
            last: StatusVersion::read(&status.last_version),
            change,
            message: progressing.map(|condition| condition.message.clone()).unwrap_or_default(),
        }
    }

    /// Whether the version of the last change is the one that runs.
    pub fn is_current(&self) -> bool {
        self.begun.is_some() && self.current.known() == self.begun.as_ref()
    }
}

impl ChangeState {
    /// `status.failure`: the part of the state that the condition Progressing does not contain.
    pub fn failure(self) -> Option<ChangeFailure> {
        match self {
            Self::InvalidVersion => {
                Some(ChangeFailure { code: ChangeFailureCode::InvalidVersion, deadline_seconds: None })
            }
            Self::TimedOut(deadline) => Some(ChangeFailure {
                code: ChangeFailureCode::TimedOut,
                deadline_seconds: Some(deadline.as_secs()),
            }),
            Self::Ended | Self::InProgress(_) => None,
        }
    }
}

/// The version that a cluster should have: the requested one, otherwise the default.
pub fn resolve<'a>(requested: Option<&'a Version>, catalogue: &'a Catalogue) -> Option<&'a Version> {
    requested.or_else(|| catalogue.default_version())
}

/// The version that a ManagedClusterAddOn asks for, otherwise the default.
pub fn requested_version(object: &ManagedClusterAddOn, catalogue: &Catalogue) -> Option<Version> {
    Version::new(&object.spec.install_version).or_else(|| catalogue.default_version().cloned())
}
