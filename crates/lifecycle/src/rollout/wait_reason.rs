//! Why clusters of a rollout have not started, as a stable code and a message.

use std::fmt;

/// Why a cluster has not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// The strategy of the placement cannot be read, for this reason.
    InvalidStrategy(String),
    /// The clusters of the placement and their decision groups are not known, for this reason.
    PlacementUnsettled(String),
    /// The rollout is paused.
    Paused,
    /// Too many clusters failed.
    Stopped {
        /// The clusters that failed.
        failed: Vec<String>,
        /// How many may.
        tolerated: usize,
    },
    /// A mandatory decision group has no clusters: its name may be wrong, or a label was lost.
    EmptyMandatoryGroup(String),
    /// A user has set the version of every cluster of a mandatory decision group, so that none of them proves the rollout.
    OverriddenMandatoryGroup(String),
    /// A decision group that comes earlier is not done.
    EarlierGroup(String),
    /// As many clusters as may are changing.
    ConcurrencyLimit(usize),
    /// No placement selects the cluster, as far as is known.
    NotSelected,
}

impl WaitReason {
    /// The stable code of the reason.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidStrategy(_) => "InvalidStrategy",
            Self::PlacementUnsettled(_) => "PlacementUnsettled",
            Self::Paused => "Paused",
            Self::Stopped { .. } => "Stopped",
            Self::EmptyMandatoryGroup(_) => "EmptyMandatoryGroup",
            Self::OverriddenMandatoryGroup(_) => "OverriddenMandatoryGroup",
            Self::EarlierGroup(_) => "EarlierGroup",
            Self::ConcurrencyLimit(_) => "ConcurrencyLimit",
            Self::NotSelected => "NotSelected",
        }
    }
}

/// The text stays the same while clusters come and go, as it is written on each cluster that waits.
impl fmt::Display for WaitReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidStrategy(why) => write!(formatter, "the rolloutStrategy is invalid: {why}"),
            Self::PlacementUnsettled(why) => write!(formatter, "the selected clusters are unknown: {why}"),
            Self::Paused => formatter.write_str("the rollout is paused"),
            Self::Stopped { failed, tolerated } => write!(
                formatter,
                "the rollout stopped: {} failed, {tolerated} may: {}",
                failed.len(),
                name_some(failed)
            ),
            Self::EmptyMandatoryGroup(group) => write!(formatter, "{group} comes first and has no clusters"),
            Self::OverriddenMandatoryGroup(group) => {
                write!(formatter, "{group} comes first, and a user has set the version of all its clusters")
            }
            Self::EarlierGroup(group) => write!(formatter, "{group} comes first"),
            Self::ConcurrencyLimit(limit) => write!(formatter, "at most {limit} at a time"),
            Self::NotSelected => formatter.write_str("no placement selects the cluster, as far as is known"),
        }
    }
}

/// How many clusters are named in a text.
const MAX_NAMES: usize = 3;

/// The first names, and the number of the others.
pub(super) fn name_some(names: &[String]) -> String {
    match names.get(..MAX_NAMES).zip(names.len().checked_sub(MAX_NAMES)) {
        Some((first, more)) if more > 0 => format!("{} and {more} more", first.join(", ")),
        _ => names.join(", "),
    }
}
