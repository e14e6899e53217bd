//! Components, reasons and condition types of an ObservabilityAddon, and how they are spelled. Which of them applies when is
//! decided elsewhere.

use std::fmt;
use std::str::FromStr;

use bellwether_conditions::guard::GuardedReason;
use bellwether_conditions::{ConditionType, Reason};

/// The name of the ObservabilityAddon, on the hub and on every cluster.
pub const ADDON_NAME: &str = "observability-addon";
/// The name of the ManagedClusterAddOn that shows the state on the hub.
pub const MANAGED_ADDON_NAME: &str = "observability-controller";
/// The namespace of the add-on on a cluster.
pub const ADDON_NAMESPACE: &str = "open-cluster-management-addon-observability";

/// Which spelling of reasons and condition types is written. Both are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Vocabulary {
    /// The names of the design document, such as `UpdateSuccesful` and `MetricsCollectorStatus`.
    #[default]
    Seed,
    /// The names that Open Cluster Management's components write, such as `UpdateSuccessful` and `MetricsCollector`.
    Upstream,
}

impl FromStr for Vocabulary {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "seed" => Ok(Self::Seed),
            "upstream" => Ok(Self::Upstream),
            _ => Err("must be seed or upstream".to_owned()),
        }
    }
}

/// A metrics collector of a cluster. Ordered as messages list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// The collector of the platform's metrics.
    Platform,
    /// The collector of the metrics of user workloads (UWL).
    UserWorkload,
}

impl Component {
    /// Both components.
    pub const ALL: [Self; 2] = [Self::Platform, Self::UserWorkload];

    /// The type of the condition whose reason is the state of the component.
    pub const fn condition_type(self, vocabulary: Vocabulary) -> ConditionType {
        match (self, vocabulary) {
            (Self::Platform, Vocabulary::Seed) => ConditionType::constant("MetricsCollectorStatus"),
            (Self::Platform, Vocabulary::Upstream) => ConditionType::constant("MetricsCollector"),
            (Self::UserWorkload, Vocabulary::Seed) => ConditionType::constant("UwlMetricsCollectorStatus"),
            (Self::UserWorkload, Vocabulary::Upstream) => ConditionType::constant("UwlMetricsCollector"),
        }
    }

    /// Whether a condition is about this component, in either spelling.
    pub fn has_condition_type(self, type_: &ConditionType) -> bool {
        [Vocabulary::Seed, Vocabulary::Upstream]
            .iter()
            .any(|spelling| self.condition_type(*spelling) == *type_)
    }

    /// The name in messages and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Platform => "MetricsCollector",
            Self::UserWorkload => "UwlMetricsCollector",
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The state of a component, which is the reason of its condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ComponentReason {
    /// The collector forwarded metrics.
    ForwardSuccessful,
    /// The collector could not forward metrics in several cycles in a row.
    ForwardFailure,
    /// The operator created or changed the Deployment of the collector.
    UpdateSuccesful,
    /// The operator could not update the collector.
    UpdateFailure,
    /// The collector is turned off.
    DisabledMetrics,
    /// The cluster has no Prometheus to collect from.
    NotSupported,
}

impl ComponentReason {
    /// All reasons.
    pub const ALL: [Self; 6] = [
        Self::UpdateSuccesful,
        Self::UpdateFailure,
        Self::ForwardSuccessful,
        Self::ForwardFailure,
        Self::DisabledMetrics,
        Self::NotSupported,
    ];

    /// The reason as it is written.
    pub const fn spelled(self, vocabulary: Vocabulary) -> Reason {
        match (self, vocabulary) {
            (Self::ForwardSuccessful, _) => Reason::constant("ForwardSuccessful"),
            (Self::NotSupported, _) => Reason::constant("NotSupported"),
            (Self::ForwardFailure, Vocabulary::Seed) => Reason::constant("ForwardFailure"),
            (Self::ForwardFailure, Vocabulary::Upstream) => Reason::constant("ForwardFailed"),
            (Self::UpdateSuccesful, Vocabulary::Seed) => Reason::constant("UpdateSuccesful"),
            (Self::UpdateSuccesful, Vocabulary::Upstream) => Reason::constant("UpdateSuccessful"),
            (Self::UpdateFailure, Vocabulary::Seed) => Reason::constant("UpdateFailure"),
            (Self::UpdateFailure, Vocabulary::Upstream) => Reason::constant("UpdateFailed"),
            (Self::DisabledMetrics, Vocabulary::Seed) => Reason::constant("DisabledMetrics"),
            (Self::DisabledMetrics, Vocabulary::Upstream) => Reason::constant("Disabled"),
        }
    }

    /// The standard condition that a component with this reason makes True.
    pub const fn standard_type(self) -> StandardType {
        match self {
            Self::ForwardSuccessful => StandardType::Available,
            Self::UpdateSuccesful => StandardType::Progressing,
            Self::ForwardFailure | Self::UpdateFailure => StandardType::Degraded,
            Self::DisabledMetrics => StandardType::Disabled,
            Self::NotSupported => StandardType::NotSupported,
        }
    }
}

impl GuardedReason for ComponentReason {
    fn parse(reason: &Reason) -> Option<Self> {
        Self::ALL.into_iter().find(|known| {
            [Vocabulary::Seed, Vocabulary::Upstream]
                .iter()
                .any(|spelling| known.spelled(*spelling) == *reason)
        })
    }
}

impl fmt::Display for ComponentReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.spelled(Vocabulary::Seed).as_str())
    }
}

/// A standard condition of the add-on; one of them is True.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StandardType {
    /// Metrics are forwarded.
    Available,
    /// The add-on is being installed, or was updated and has not forwarded metrics since.
    Progressing,
    /// Metrics are not forwarded, or the add-on could not be updated.
    Degraded,
    /// Forwarding metrics is turned off.
    Disabled,
    /// The cluster has no Prometheus to collect from.
    NotSupported,
}

impl StandardType {
    /// All standard conditions.
    pub const ALL: [Self; 5] =
        [Self::Available, Self::Progressing, Self::Degraded, Self::Disabled, Self::NotSupported];

    /// The standard condition that is written: upstream has no conditions for the last two and reports both as Degraded.
    pub const fn written(self, vocabulary: Vocabulary) -> Self {
        match (self, vocabulary) {
            (Self::Disabled | Self::NotSupported, Vocabulary::Upstream) => Self::Degraded,
            (other, _) => other,
        }
    }

    /// The type of the condition.
    pub const fn condition_type(self) -> ConditionType {
        ConditionType::constant(self.as_str())
    }

    /// The name of the condition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Available => "Available",
            Self::Progressing => "Progressing",
            Self::Degraded => "Degraded",
            Self::Disabled => "Disabled",
            Self::NotSupported => "NotSupported",
        }
    }
}

impl fmt::Display for StandardType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_read_as_one_reason() {
        for reason in ComponentReason::ALL {
            for spelling in [Vocabulary::Seed, Vocabulary::Upstream] {
                assert_eq!(ComponentReason::parse(&reason.spelled(spelling)), Some(reason), "{reason}");
            }
        }
        assert_eq!(ComponentReason::parse(&Reason::constant("Deployed")), None);
    }

    #[test]
    fn both_spellings_of_a_condition_type_are_read_as_one_component() {
        for component in Component::ALL {
            for spelling in [Vocabulary::Seed, Vocabulary::Upstream] {
                let type_ = component.condition_type(spelling);
                let readers: Vec<_> =
                    Component::ALL.into_iter().filter(|one| one.has_condition_type(&type_)).collect();
                assert_eq!(readers, [component]);
            }
        }
    }
}
