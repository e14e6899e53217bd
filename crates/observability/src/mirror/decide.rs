//! Which conditions of a ManagedClusterAddOn show the state of the add-on. Pure.

use bellwether_conditions::{Condition, ConditionSet, Desired, Reason, Status, shorten};

use crate::vocabulary::StandardType;

/// The reason if the one that was read is not valid in a ManagedClusterAddOn.
const INVALID_REASON: Reason = Reason::constant("Unknown");
/// The longest copied message, in bytes.
const MAX_MESSAGE_BYTES: usize = 1024;

/// Who writes the other conditions of the ManagedClusterAddOn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Management {
    /// Nobody: all conditions are copied.
    #[default]
    Standalone,
    /// The lifecycle controller, because a ClusterManagementAddOn manages the add-on: only Degraded is copied.
    ByClusterManagementAddOn,
}

/// The conditions to show, given those of the ObservabilityAddon and those that the ManagedClusterAddOn has now.
///
/// The columns Available, Progressing and Degraded always have a value; the other two types are copied if they exist.
pub(super) fn shown_conditions(
    addon: &ConditionSet,
    shown: &ConditionSet,
    management: Management,
) -> Vec<Condition> {
    let state = StandardType::ALL
        .iter()
        .filter_map(|type_| addon.get(&type_.condition_type()))
        .find(|one| one.is_true());
    let Some(state) = state else { return Vec::new() };
    let is_shown = |type_: &StandardType| match (management, type_) {
        (_, StandardType::Degraded) => true,
        (Management::ByClusterManagementAddOn, _) => false,
        (Management::Standalone, StandardType::Available | StandardType::Progressing) => true,
        (Management::Standalone, _) => addon.get(&type_.condition_type()).is_some(),
    };
    let to_shown = |type_: StandardType| {
        let type_ = type_.condition_type();
        let source = addon.get(&type_).unwrap_or(state);
        let status = Status::from(source.type_ == type_ && source.is_true());
        let kept = shown.get(&type_).filter(|held| held.status == status);
        let since = kept.map_or(source.last_transition_time, |held| held.last_transition_time);
        let reason = source.reason.as_str().parse().unwrap_or(INVALID_REASON);
        Desired::new(type_, status, reason, shorten(&source.message, MAX_MESSAGE_BYTES)).since(since)
    };
    StandardType::ALL.into_iter().filter(is_shown).map(to_shown).collect()
}

#[cfg(test)]
mod tests {
    use bellwether_conditions::ConditionType;
    use jiff::Timestamp;
    use rstest::rstest;

    use super::*;

    fn set(list: &[(&str, bool, &str, i64)]) -> ConditionSet {
        let condition = |(type_, holds, reason, second): &(&str, bool, &str, i64)| {
            let type_ = ConditionType::as_read(*type_);
            let desired = Desired::new(type_, Status::from(*holds), Reason::as_read(*reason), "why");
            desired.since(Timestamp::from_second(*second).unwrap())
        };
        ConditionSet::from(list.iter().map(condition).collect::<Vec<_>>())
    }

    fn brief(conditions: &[Condition]) -> Vec<String> {
        let text = |one: &Condition| {
            format!("{}={} {} @{}", one.type_, one.status, one.reason, one.last_transition_time.as_second())
        };
        conditions.iter().map(text).collect()
    }

    const FAILING: &[(&str, bool, &str, i64)] = &[
        ("MetricsCollectorStatus", true, "ForwardFailure", 9),
        ("Available", false, "ForwardFailure", 9),
        ("Degraded", true, "ForwardFailure", 9),
    ];

    #[rstest]
    #[case::all_columns_have_a_value(
        FAILING, &[], Management::Standalone,
        &["Available=False ForwardFailure @9", "Progressing=False ForwardFailure @9", "Degraded=True ForwardFailure @9"]
    )]
    #[case::only_degraded_of_a_managed_add_on(
        FAILING, &[], Management::ByClusterManagementAddOn, &["Degraded=True ForwardFailure @9"]
    )]
    #[case::degraded_is_explicitly_false(
        &[("Available", true, "ForwardSuccessful", 7)], &[], Management::ByClusterManagementAddOn,
        &["Degraded=False ForwardSuccessful @7"]
    )]
    #[case::equal_status_keeps_its_time(
        FAILING, &[("Progressing", false, "ForwardSuccessful", 3), ("Degraded", false, "x", 3)], Management::Standalone,
        &["Available=False ForwardFailure @9", "Progressing=False ForwardFailure @3", "Degraded=True ForwardFailure @9"]
    )]
    #[case::disabled_is_copied_where_it_exists(
        &[("Available", false, "DisabledMetrics", 9), ("Disabled", true, "DisabledMetrics", 9)], &[], Management::Standalone,
        &["Available=False DisabledMetrics @9", "Progressing=False DisabledMetrics @9", "Degraded=False DisabledMetrics @9",
          "Disabled=True DisabledMetrics @9"]
    )]
    #[case::nothing_before_the_first_state(
        &[("MetricsCollectorStatus", true, "UpdateSuccesful", 9)], &[], Management::Standalone, &[]
    )]
    #[case::invalid_reason_is_replaced(
        &[("Degraded", true, "not valid", 9)], &[], Management::ByClusterManagementAddOn, &["Degraded=True Unknown @9"]
    )]
    fn conditions_of_the_managed_add_on(
        #[case] addon: &[(&str, bool, &str, i64)],
        #[case] shown: &[(&str, bool, &str, i64)],
        #[case] management: Management,
        #[case] wanted: &[&str],
    ) {
        assert_eq!(brief(&shown_conditions(&set(addon), &set(shown), management)), wanted);
    }
}
