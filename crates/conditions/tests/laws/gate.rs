//! When a gate is open, and what a change waits for.

use bellwether_conditions::gate::{
    Acceptance, Accepted, BlockCause, Check, Covers, Decision, Finding, Gate, RiskDecision, Unmet,
};
use bellwether_conditions::{ConditionSet, ConditionType, Desired, Reason, Status};
use proptest::prelude::*;
use rstest::rstest;

use crate::at;

fn decision(about: &'static str, decision: Decision, reason: &str) -> RiskDecision<&'static str> {
    RiskDecision { about, decision, reason: (!reason.is_empty()).then(|| reason.to_owned()) }
}

#[rstest]
#[case::no_decision(vec![], "risk: slow disk (not accepted)")]
#[case::accepted(vec![decision("risk", Decision::Accepted, "")], "")]
#[case::other_risk_accepted(vec![decision("other", Decision::Accepted, "")], "risk: slow disk (not accepted)")]
#[case::refused(vec![decision("risk", Decision::Refused, "")], "risk: slow disk (refused)")]
#[case::refusal_overrides_a_later_acceptance(
    vec![decision("risk", Decision::Refused, "not on Friday"), decision("risk", Decision::Accepted, "")],
    "risk: slow disk (refused: not on Friday)")]
#[case::refusal_overrides_an_earlier_acceptance(
    vec![decision("risk", Decision::Accepted, ""), decision("risk", Decision::Refused, "")],
    "risk: slow disk (refused)")]
fn risk_is_unmet_unless_accepted_and_not_refused(
    #[case] decisions: Vec<RiskDecision<&'static str>>,
    #[case] unmet: &str,
) {
    assert_eq!(Gate::evaluate(&[Check::risk("risk", "slow disk")], &decisions).describe_unmet(), unmet);
}

#[test]
fn required_check_cannot_be_accepted() {
    let checks = [Check::must_hold("canary", Finding::Concern("canary is still updating".to_owned()))];
    assert_eq!(
        Gate::of_required(&checks).first_unmet().map(String::as_str),
        Some("canary is still updating")
    );
    let decisions = [decision("canary", Decision::Accepted, "")];
    let gate = Gate::evaluate(&checks, &decisions);
    let concern = "canary is still updating".to_owned();
    let unmet = Unmet { id: &"canary", concern: &concern, cause: BlockCause::MustHold };
    assert_eq!(gate, Gate { unmet: vec![unmet], accepted: vec![] });
    assert_eq!(gate.describe_unmet(), "canary: canary is still updating");
}

#[test]
fn gate_lists_accepted_risks_with_reasons() {
    let checks = [Check::risk("a", "slow disk"), Check::must_hold("b", Finding::Clear)];
    let decisions =
        [decision("a", Decision::Accepted, "replaced tonight"), decision("a", Decision::Accepted, "again")];
    let concern = "slow disk".to_owned();
    let accepted = Accepted { id: &"a", concern: &concern, reason: Some("replaced tonight") };
    let gate = Gate::evaluate(&checks, &decisions);
    assert!(gate.is_open());
    assert_eq!(gate.accepted, [accepted]);
}

#[test]
fn decision_may_cover_several_checks() {
    struct AllOf(&'static str);
    impl Covers<(&'static str, u8)> for AllOf {
        fn covers(&self, id: &(&'static str, u8)) -> bool {
            id.0 == self.0
        }
    }
    let checks = [
        Check::risk(("disk", 1), "slow"),
        Check::risk(("disk", 2), "slow"),
        Check::risk(("net", 1), "lossy"),
    ];
    let decisions = [RiskDecision { about: AllOf("disk"), decision: Decision::Accepted, reason: None }];
    let gate = Gate::evaluate(&checks, &decisions);
    assert_eq!(gate.unmet.iter().map(|unmet| *unmet.id).collect::<Vec<_>>(), [("net", 1)]);
}

#[rstest]
#[case::absent(None, "Healthy is not reported")]
#[case::true_now(Some((Status::True, Some(2))), "")]
#[case::true_for_a_later_generation(Some((Status::True, Some(3))), "")]
#[case::true_for_an_older_generation(Some((Status::True, Some(1))), "Healthy is not yet reported for generation 2")]
#[case::true_for_no_generation(Some((Status::True, None)), "Healthy is not yet reported for generation 2")]
#[case::false_now(Some((Status::False, Some(2))), "Healthy is False: Why: because")]
#[case::unknown_now(Some((Status::Unknown, Some(2))), "Healthy is Unknown: Why: because")]
fn condition_passes_if_true_for_the_generation(
    #[case] condition: Option<(Status, Option<i64>)>,
    #[case] concern: &str,
) {
    const HEALTHY: ConditionType = ConditionType::constant("Healthy");
    let conditions = condition.map(|(status, observed_generation)| {
        let desired = Desired::new(HEALTHY, status, Reason::constant("Why"), "because");
        Desired { observed_generation, ..desired }.since(at(0))
    });
    let set = ConditionSet::from(Vec::from_iter(conditions));
    let expected = if concern.is_empty() { Finding::Clear } else { Finding::Concern(concern.to_owned()) };
    assert_eq!(Finding::of_condition(&set, &HEALTHY, 2), expected);
}

fn any_checks() -> impl Strategy<Value = Vec<Check<u8>>> {
    let check = (0u8..5, any::<bool>(), any::<bool>()).prop_map(|(id, clear, acceptable)| Check {
        id,
        finding: if clear { Finding::Clear } else { Finding::Concern(format!("concern {id}")) },
        acceptance: if acceptable { Acceptance::ByDecision } else { Acceptance::NotPossible },
    });
    proptest::collection::vec(check, 0..6)
}

fn any_decision() -> impl Strategy<Value = RiskDecision<u8>> {
    (0u8..5, any::<bool>()).prop_map(|(about, accepted)| RiskDecision {
        about,
        decision: if accepted { Decision::Accepted } else { Decision::Refused },
        reason: None,
    })
}

fn any_decisions() -> impl Strategy<Value = Vec<RiskDecision<u8>>> {
    proptest::collection::vec(any_decision(), 0..6)
}

proptest! {
    #[test]
    fn gate_is_open_if_and_only_if_every_concern_is_accepted_and_none_is_refused(
        checks in any_checks(), decisions in any_decisions(),
    ) {
        let decided = |id: u8, decision| decisions.iter().any(|it| it.about == id && it.decision == decision);
        let passes = |check: &Check<u8>| {
            check.finding == Finding::Clear
                || (check.acceptance == Acceptance::ByDecision
                    && decided(check.id, Decision::Accepted)
                    && !decided(check.id, Decision::Refused))
        };
        let gate = Gate::evaluate(&checks, &decisions);
        prop_assert_eq!(gate.is_open(), checks.iter().all(passes));
        let unmet: Vec<u8> = gate.unmet.iter().map(|unmet| *unmet.id).collect();
        prop_assert_eq!(unmet, checks.iter().filter(|check| !passes(check)).map(|check| check.id).collect::<Vec<_>>());
    }

    #[test]
    fn every_concern_is_either_unmet_or_accepted(checks in any_checks(), decisions in any_decisions()) {
        let gate = Gate::evaluate(&checks, &decisions);
        let concerns = checks.iter().filter(|check| check.finding != Finding::Clear).count();
        prop_assert_eq!(gate.unmet.len() + gate.accepted.len(), concerns);
    }

    #[test]
    fn acceptance_never_closes_a_gate_and_refusal_never_opens_one(
        checks in any_checks(), decisions in any_decisions(), one_more in any_decision(),
    ) {
        let before = Gate::evaluate(&checks, &decisions).is_open();
        let more: Vec<_> = decisions.iter().cloned().chain([one_more.clone()]).collect();
        let after = Gate::evaluate(&checks, &more).is_open();
        match one_more.decision {
            Decision::Accepted => prop_assert!(after >= before),
            Decision::Refused => prop_assert!(after <= before),
        }
    }
}
