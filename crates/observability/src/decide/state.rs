//! The state of the add-on from the states of its collectors: exactly one standard condition is True (table 6.2).
//!
//! A collector of user workloads that is off does not count. A platform collector that is off, or has nothing to collect from,
//! decides alone. Otherwise the worse of the two reasons decides.

use std::fmt;

use bellwether_conditions::fold::severity::{Fold, Report};
use bellwether_conditions::guard::GuardedReason as _;
use bellwether_conditions::{ConditionSet, Desired, Reason, Status, TransitionKey, shorten};
use jiff::Timestamp;

use super::transition::current;
use crate::vocabulary::ComponentReason::{
    DisabledMetrics, ForwardFailure, ForwardSuccessful, NotSupported, UpdateFailure, UpdateSuccesful,
};
use crate::vocabulary::{Component, ComponentReason, StandardType, Vocabulary};

/// The longest message of a standard condition, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 1024;

/// The state of the add-on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The standard condition that is True.
    pub type_: StandardType,
    /// The reason of the collector that decides.
    pub reason: Reason,
    /// The state of each collector that counts.
    pub message: String,
}

/// The reason of a component with its rank among others, and its spelling.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Severity {
    rank: u8,
    reason: Reason,
}

impl Severity {
    fn of(known: Option<ComponentReason>, read: &Reason, vocabulary: Vocabulary) -> Self {
        Self { rank: rank(known), reason: known.map_or(read.clone(), |known| known.spelled(vocabulary)) }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

/// How bad a reason is; a reason of another program is the least bad, so that it hides nothing.
const fn rank(reason: Option<ComponentReason>) -> u8 {
    match reason {
        None => 0,
        Some(ForwardSuccessful) => 1,
        Some(UpdateSuccesful) => 2,
        Some(UpdateFailure) => 3,
        Some(ForwardFailure) => 4,
        Some(DisabledMetrics) => 5,
        Some(NotSupported) => 6,
    }
}

/// The state of the add-on, or `None` if no collector that counts has one.
pub fn state_of(conditions: &ConditionSet, vocabulary: Vocabulary) -> Option<State> {
    let mut fold: Fold<Component, Severity> = Fold::default();
    for component in Component::ALL {
        let Some(condition) = current(conditions, component) else { continue };
        let known = ComponentReason::parse(&condition.reason);
        let is_off = matches!(known, Some(DisabledMetrics | NotSupported));
        if component == Component::UserWorkload && is_off {
            continue;
        }
        let severity = Severity::of(known, &condition.reason, vocabulary);
        fold.add(component, Report::new(severity, condition.message.clone()));
        if is_off {
            // While the platform collector is off, the other one does not run either.
            break;
        }
    }
    let (_, worst) = fold.worst()?;
    let reason = worst.severity.reason.clone();
    let type_ =
        ComponentReason::parse(&reason).map_or(StandardType::Degraded, ComponentReason::standard_type);
    Some(State {
        type_: type_.written(vocabulary),
        reason,
        message: shorten(&fold.describe(), MAX_MESSAGE_BYTES),
    })
}

/// The conditions with the state of the add-on in them: its standard condition is True, and the others that exist are False
/// for the same reason. Transition times change with the status.
pub fn with_state(conditions: &ConditionSet, vocabulary: Vocabulary, now: Timestamp) -> ConditionSet {
    let mut updated = conditions.clone();
    let Some(state) = state_of(conditions, vocabulary) else { return updated };
    for type_ in StandardType::ALL {
        let exists = updated.get(&type_.condition_type()).is_some();
        if type_ == state.type_ || exists {
            let status = Status::from(type_ == state.type_);
            let desired =
                Desired::new(type_.condition_type(), status, state.reason.clone(), state.message.clone());
            // Any outcome is fine: the caller compares the lists.
            let _ = updated.upsert(desired, TransitionKey::Status, now);
        }
    }
    updated
}

/// Whether a condition is one of the components, and not a standard one that follows from them.
pub fn is_component(type_: &bellwether_conditions::ConditionType) -> bool {
    Component::ALL.iter().any(|component| component.has_condition_type(type_))
}

#[cfg(test)]
mod tests {
    use bellwether_conditions::{Condition, ConditionType};
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn condition(
        type_: ConditionType,
        status: Status,
        reason: &str,
        message: &str,
        second: i64,
    ) -> Condition {
        Desired::new(type_, status, Reason::as_read(reason), message).since(at(second))
    }

    fn components(platform: Option<&str>, user: Option<&str>) -> ConditionSet {
        let of = |component: Component, reason: Option<&str>| {
            let type_ = component.condition_type(Vocabulary::Seed);
            reason.map(|reason| condition(type_, Status::True, reason, "", 1))
        };
        let list = [of(Component::Platform, platform), of(Component::UserWorkload, user)];
        ConditionSet::from(list.into_iter().flatten().collect::<Vec<_>>())
    }

    const USER_COLUMNS: [Option<&str>; 7] = [
        None,
        Some("ForwardSuccessful"),
        Some("UpdateSuccesful"),
        Some("UpdateFailure"),
        Some("ForwardFailure"),
        Some("DisabledMetrics"),
        Some("NotSupported"),
    ];
    const OK: &str = "ForwardSuccessful/Available";
    const PR: &str = "UpdateSuccesful/Progressing";
    const UF: &str = "UpdateFailure/Degraded";
    const FF: &str = "ForwardFailure/Degraded";
    const DI: &str = "DisabledMetrics/Disabled";
    const NS: &str = "NotSupported/NotSupported";

    #[rstest]
    #[case(None, ["", OK, PR, UF, FF, "", ""])]
    #[case(Some("ForwardSuccessful"), [OK, OK, PR, UF, FF, OK, OK])]
    #[case(Some("UpdateSuccesful"), [PR, PR, PR, UF, FF, PR, PR])]
    #[case(Some("UpdateFailure"), [UF, UF, UF, UF, FF, UF, UF])]
    #[case(Some("ForwardFailure"), [FF, FF, FF, FF, FF, FF, FF])]
    #[case(Some("DisabledMetrics"), [DI; 7])]
    #[case(Some("NotSupported"), [NS; 7])]
    #[case(Some("Deployed"), ["Deployed/Degraded", OK, PR, UF, FF, "Deployed/Degraded", "Deployed/Degraded"])]
    fn table_of_states(#[case] platform: Option<&str>, #[case] row: [&str; 7]) {
        for (user, wanted) in USER_COLUMNS.into_iter().zip(row) {
            let state = state_of(&components(platform, user), Vocabulary::Seed);
            let found = state.map(|state| format!("{}/{}", state.reason, state.type_)).unwrap_or_default();
            assert_eq!(found, wanted, "{platform:?} and {user:?}");
        }
    }

    #[rstest]
    #[case("DisabledMetrics", "Disabled/Degraded")]
    #[case("NotSupported", "NotSupported/Degraded")]
    #[case("ForwardFailure", "ForwardFailed/Degraded")]
    #[case("UpdateSuccesful", "UpdateSuccessful/Progressing")]
    fn upstream_has_three_types_and_other_spellings(#[case] platform: &str, #[case] wanted: &str) {
        let state = state_of(&components(Some(platform), None), Vocabulary::Upstream).unwrap();
        assert_eq!(format!("{}/{}", state.reason, state.type_), wanted);
    }

    #[test]
    fn message_describes_each_collector_that_counts() {
        let list = vec![
            condition(
                Component::UserWorkload.condition_type(Vocabulary::Seed),
                Status::True,
                "ForwardFailure",
                "no response",
                1,
            ),
            condition(
                Component::Platform.condition_type(Vocabulary::Seed),
                Status::True,
                "UpdateSuccesful",
                "",
                1,
            ),
        ];
        let state = state_of(&ConditionSet::from(list), Vocabulary::Seed).unwrap();
        let wanted = "MetricsCollector: UpdateSuccesful; UwlMetricsCollector: ForwardFailure: no response";
        assert_eq!(state.message, wanted);
        let off = state_of(&components(Some("ForwardSuccessful"), Some("DisabledMetrics")), Vocabulary::Seed);
        assert_eq!(off.unwrap().message, "MetricsCollector: ForwardSuccessful");
    }

    #[test]
    fn losing_conditions_are_false_and_missing_ones_are_not_created() {
        let mut set = components(Some("ForwardSuccessful"), None);
        set = with_state(&set, Vocabulary::Seed, at(10));
        let types = |set: &ConditionSet| -> Vec<String> {
            set.iter()
                .map(|one| format!("{}={}@{}", one.type_, one.status, one.last_transition_time.as_second()))
                .collect()
        };
        assert_eq!(types(&set), ["MetricsCollectorStatus=True@1", "Available=True@10"]);
        assert_eq!(with_state(&set, Vocabulary::Seed, at(11)), set, "nothing changes twice");
        let platform = Component::Platform.condition_type(Vocabulary::Seed);
        let failing = Desired::new(
            platform,
            Status::True,
            Reason::constant("ForwardFailure"),
            "Failed to send metrics",
        );
        let _ = set.upsert(failing, TransitionKey::Reason, at(20));
        set = with_state(&set, Vocabulary::Seed, at(21));
        assert_eq!(types(&set), ["MetricsCollectorStatus=True@20", "Available=False@21", "Degraded=True@21"]);
        for type_ in [StandardType::Available, StandardType::Degraded] {
            let condition = set.get(&type_.condition_type()).unwrap();
            let wanted = "MetricsCollector: ForwardFailure: Failed to send metrics";
            assert_eq!((condition.reason.as_str(), condition.message.as_str()), ("ForwardFailure", wanted));
        }
    }

    #[test]
    fn message_alone_keeps_the_transition_time() {
        let set = with_state(
            &components(Some("UpdateSuccesful"), Some("UpdateSuccesful")),
            Vocabulary::Seed,
            at(10),
        );
        let mut changed = set.clone();
        let platform = Component::Platform.condition_type(Vocabulary::Seed);
        let forwarded = Desired::new(platform, Status::True, Reason::constant("ForwardSuccessful"), "");
        let _ = changed.upsert(forwarded, TransitionKey::Reason, at(20));
        let changed = with_state(&changed, Vocabulary::Seed, at(21));
        let progressing = changed.get(&StandardType::Progressing.condition_type()).unwrap();
        assert_eq!(progressing.last_transition_time, at(10));
        assert_eq!(
            progressing.message,
            "MetricsCollector: ForwardSuccessful; UwlMetricsCollector: UpdateSuccesful"
        );
    }

    #[test]
    fn long_message_is_valid_and_within_the_limit() {
        let type_ = Component::Platform.condition_type(Vocabulary::Seed);
        let long = condition(type_, Status::True, "ForwardFailure", &"ü".repeat(4096), 1);
        let state = state_of(&ConditionSet::from(vec![long]), Vocabulary::Seed).unwrap();
        assert!(state.message.len() <= MAX_MESSAGE_BYTES && state.message.ends_with("..."));
    }

    fn any_reason() -> impl Strategy<Value = Option<&'static str>> {
        prop::sample::select(vec![
            None,
            Some("ForwardSuccessful"),
            Some("UpdateSuccesful"),
            Some("UpdateSuccessful"),
            Some("UpdateFailure"),
            Some("ForwardFailed"),
            Some("ForwardFailure"),
            Some("Disabled"),
            Some("NotSupported"),
            Some("Deployed"),
        ])
    }

    proptest! {
        /// Whatever was reported one after the other: at most one standard condition is True, and deciding again changes nothing.
        #[test]
        fn exactly_one_standard_condition_is_true(steps in prop::collection::vec((any_reason(), any_reason()), 1..12)) {
            let mut standard: Vec<Condition> = Vec::new();
            for (second, (platform, user)) in (1..).zip(steps) {
                let mut list: Vec<Condition> = components(platform, user).into();
                list.append(&mut standard);
                let set = with_state(&ConditionSet::from(list), Vocabulary::Seed, at(second));
                prop_assert_eq!(&with_state(&set, Vocabulary::Seed, at(second + 1)), &set);
                standard = set.iter().filter(|one| !is_component(&one.type_)).cloned().collect();
                let trues = standard.iter().filter(|one| one.is_true()).count();
                let known = state_of(&set, Vocabulary::Seed).is_some();
                prop_assert!(trues == 1 || (!known && trues <= 1));
            }
        }
    }
}
