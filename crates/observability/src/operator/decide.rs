//! What the operator does with each collector, from what it knows of the cluster. Pure.

use bellwether_conditions::guard::CurrentReason;

use crate::vocabulary::{Component, ComponentReason};

/// What the operator knows of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    /// `spec.enableMetrics`.
    pub(super) metrics: Toggle,
    /// Whether there is a Prometheus of the platform.
    pub(super) platform: Presence,
    /// Whether there is a Prometheus of user workloads, and something to collect from it.
    pub(super) user_workloads: Presence,
}

/// A setting of the add-on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Toggle {
    On,
    Off,
}

/// Whether something exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Present,
    Absent,
}

/// What to do with a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Apply its objects, and run it.
    Run,
    /// Apply its objects with no replicas, and report that it is disabled.
    Stop,
    /// Delete its objects, and report that it is disabled.
    Remove,
    /// Delete its objects, and report that the cluster is not supported.
    NotSupported,
}

impl Observed {
    /// What to do with a collector.
    pub(super) fn action(self, component: Component) -> Action {
        match (component, self.platform, self.metrics, self.user_workloads) {
            (Component::Platform, Presence::Absent, _, _) => Action::NotSupported,
            (Component::Platform, Presence::Present, Toggle::On, _) => Action::Run,
            (Component::Platform, Presence::Present, Toggle::Off, _) => Action::Stop,
            (Component::UserWorkload, Presence::Present, Toggle::On, Presence::Present) => Action::Run,
            (Component::UserWorkload, _, _, _) => Action::Remove,
        }
    }
}

/// Whether applying the objects of a collector changed its Deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Applied {
    Changed,
    Unchanged,
}

/// What to report after the objects of a running collector were applied: that it was updated, if its Deployment changed or the
/// current reason is one that only the operator can end.
pub(super) fn report_after_apply(
    applied: Applied,
    current: CurrentReason<ComponentReason>,
) -> Option<ComponentReason> {
    use ComponentReason::{
        DisabledMetrics, ForwardFailure, ForwardSuccessful, NotSupported, UpdateFailure, UpdateSuccesful,
    };
    match (applied, current) {
        (Applied::Changed, _) => Some(UpdateSuccesful),
        (Applied::Unchanged, CurrentReason::Known(ForwardFailure | ForwardSuccessful | UpdateSuccesful)) => {
            None
        }
        (Applied::Unchanged, CurrentReason::Known(UpdateFailure | DisabledMetrics | NotSupported))
        | (Applied::Unchanged, CurrentReason::Absent | CurrentReason::Unrecognized) => Some(UpdateSuccesful),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use Action::{NotSupported, Remove, Run, Stop};
    use Presence::{Absent, Present};
    use Toggle::{Off, On};

    #[rstest]
    #[case(On, Present, Present, [Run, Run])]
    #[case(On, Present, Absent, [Run, Remove])]
    #[case(Off, Present, Present, [Stop, Remove])]
    #[case(Off, Present, Absent, [Stop, Remove])]
    #[case(On, Absent, Present, [NotSupported, Remove])]
    #[case(Off, Absent, Absent, [NotSupported, Remove])]
    fn actions(
        #[case] metrics: Toggle,
        #[case] platform: Presence,
        #[case] user_workloads: Presence,
        #[case] wanted: [Action; 2],
    ) {
        let observed = Observed { metrics, platform, user_workloads };
        assert_eq!(Component::ALL.map(|component| observed.action(component)), wanted);
    }

    #[test]
    fn update_is_reported_for_a_change_or_to_end_a_state_of_the_operator() {
        use ComponentReason::{
            DisabledMetrics, ForwardFailure, ForwardSuccessful, UpdateFailure, UpdateSuccesful,
        };
        let rows = [
            (CurrentReason::Absent, true),
            (CurrentReason::Unrecognized, true),
            (CurrentReason::Known(UpdateFailure), true),
            (CurrentReason::Known(DisabledMetrics), true),
            (CurrentReason::Known(ComponentReason::NotSupported), true),
            (CurrentReason::Known(UpdateSuccesful), false),
            (CurrentReason::Known(ForwardSuccessful), false),
            (CurrentReason::Known(ForwardFailure), false),
        ];
        for (current, reports_unchanged) in rows {
            assert_eq!(report_after_apply(Applied::Changed, current), Some(UpdateSuccesful), "{current:?}");
            let unchanged = report_after_apply(Applied::Unchanged, current);
            assert_eq!(unchanged.is_some(), reports_unchanged, "{current:?}");
        }
    }
}
