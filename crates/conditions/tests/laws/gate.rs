//! A change waits, and says what for.

use bellwether_conditions::gate::{
    Accepted, Blocked, Check, Covers, Finding, Gate, Ruling, Unmet, Verdict, Waiver,
};
use bellwether_conditions::{ConditionSet, ConditionType, Desired, Reason, Status};
use proptest::prelude::*;
use rstest::rstest;

use crate::at;

fn ruling(about: &'static str, verdict: Verdict, reason: &str) -> Ruling<&'static str> {
    Ruling { about, verdict, reason: (!reason.is_empty()).then(|| reason.to_owned()) }
}

#[rstest]
#[case::nobody_ruled(vec![], "risk: slow disk (not accepted)")]
#[case::accepted(vec![ruling("risk", Verdict::Accepted, "")], "")]
#[case::something_else_accepted(vec![ruling("other", Verdict::Accepted, "")], "risk: slow disk (not accepted)")]
#[case::refused(vec![ruling("risk", Verdict::Refused, "")], "risk: slow disk (refused)")]
#[case::a_refusal_outweighs_a_later_acceptance(
    vec![ruling("risk", Verdict::Refused, "not on Friday"), ruling("risk", Verdict::Accepted, "")],
    "risk: slow disk (refused: not on Friday)")]
#[case::and_an_earlier_one(
    vec![ruling("risk", Verdict::Accepted, ""), ruling("risk", Verdict::Refused, "")],
    "risk: slow disk (refused)")]
fn a_risk_is_weighed_by_the_rulings_on_it(#[case] rulings: Vec<Ruling<&'static str>>, #[case] unmet: &str) {
    assert_eq!(Gate::evaluate(&[Check::risk("risk", "slow disk")], &rulings).describe_unmet(), unmet);
}

#[test]
fn what_must_hold_cannot_be_accepted() {
    let checks = [Check::must_hold("turn", Finding::Concern("canary is still updating".to_owned()))];
    let rulings = [ruling("turn", Verdict::Accepted, "")];
    let gate = Gate::evaluate(&checks, &rulings);
    let unmet = Unmet { id: &"turn", concern: "canary is still updating", why: Blocked::MustHold };
    assert_eq!(gate, Gate { unmet: vec![unmet], accepted: vec![] });
    assert_eq!(gate.describe_unmet(), "turn: canary is still updating");
}

#[test]
fn a_gate_lists_what_was_accepted_and_why() {
    let checks = [Check::risk("a", "slow disk"), Check::must_hold("b", Finding::Clear)];
    let rulings =
        [ruling("a", Verdict::Accepted, "replaced tonight"), ruling("a", Verdict::Accepted, "again")];
    let accepted = Accepted { id: &"a", concern: "slow disk", reason: Some("replaced tonight") };
    let gate = Gate::evaluate(&checks, &rulings);
    assert!(gate.is_open());
    assert_eq!(gate.accepted, [accepted]);
}

#[test]
fn a_ruling_may_cover_many_checks() {
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
    let rulings = [Ruling { about: AllOf("disk"), verdict: Verdict::Accepted, reason: None }];
    let gate = Gate::evaluate(&checks, &rulings);
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
fn a_condition_counts_if_it_is_true_for_the_generation(
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
    let check = (0u8..5, any::<bool>(), any::<bool>()).prop_map(|(id, clear, waivable)| Check {
        id,
        finding: if clear { Finding::Clear } else { Finding::Concern(format!("concern {id}")) },
        waiver: if waivable { Waiver::ByRuling } else { Waiver::Never },
    });
    proptest::collection::vec(check, 0..6)
}

fn any_ruling() -> impl Strategy<Value = Ruling<u8>> {
    (0u8..5, any::<bool>()).prop_map(|(about, accepted)| Ruling {
        about,
        verdict: if accepted { Verdict::Accepted } else { Verdict::Refused },
        reason: None,
    })
}

fn any_rulings() -> impl Strategy<Value = Vec<Ruling<u8>>> {
    proptest::collection::vec(any_ruling(), 0..6)
}

proptest! {
    #[test]
    fn a_gate_is_open_exactly_when_every_concern_is_accepted_and_none_refused(
        checks in any_checks(), rulings in any_rulings(),
    ) {
        let ruled = |id: u8, verdict| rulings.iter().any(|ruling| ruling.about == id && ruling.verdict == verdict);
        let passes = |check: &Check<u8>| {
            check.finding == Finding::Clear
                || (check.waiver == Waiver::ByRuling
                    && ruled(check.id, Verdict::Accepted)
                    && !ruled(check.id, Verdict::Refused))
        };
        let gate = Gate::evaluate(&checks, &rulings);
        prop_assert_eq!(gate.is_open(), checks.iter().all(passes));
        let unmet: Vec<u8> = gate.unmet.iter().map(|unmet| *unmet.id).collect();
        prop_assert_eq!(unmet, checks.iter().filter(|check| !passes(check)).map(|check| check.id).collect::<Vec<_>>());
    }

    #[test]
    fn every_concern_is_either_unmet_or_accepted(checks in any_checks(), rulings in any_rulings()) {
        let gate = Gate::evaluate(&checks, &rulings);
        let concerns = checks.iter().filter(|check| check.finding != Finding::Clear).count();
        prop_assert_eq!(gate.unmet.len() + gate.accepted.len(), concerns);
    }

    #[test]
    fn an_acceptance_never_closes_a_gate_and_a_refusal_never_opens_one(
        checks in any_checks(), rulings in any_rulings(), one_more in any_ruling(),
    ) {
        let before = Gate::evaluate(&checks, &rulings).is_open();
        let more: Vec<_> = rulings.iter().cloned().chain([one_more.clone()]).collect();
        let after = Gate::evaluate(&checks, &more).is_open();
        match one_more.verdict {
            Verdict::Accepted => prop_assert!(after >= before),
            Verdict::Refused => prop_assert!(after <= before),
        }
    }
}
