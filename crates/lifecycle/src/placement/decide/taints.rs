//! Decides whether the taints of a cluster prevent a Placement from selecting it, and until when tolerations last. Pure.

use bellwether_api::cluster::{Taint, TaintEffect, Toleration, TolerationOperator};
use jiff::{SignedDuration, Timestamp};

/// What the taints of a cluster mean for a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TaintEffectOnCluster {
    /// All taints are tolerated.
    Tolerated,
    /// It is selected only if there are not enough other clusters.
    Avoided,
    /// It would stay selected, but is not newly selected.
    NotNewlySelected,
    /// It is not selected.
    Excluded,
}

/// The effect of the taints at `now`, and when it next changes because a toleration ends.
pub(super) fn taint_effect(
    taints: &[Taint],
    tolerations: &[Toleration],
    is_selected: bool,
    now: Timestamp,
) -> (TaintEffectOnCluster, Option<Timestamp>) {
    let mut effect = TaintEffectOnCluster::Tolerated;
    let mut next: Option<Timestamp> = None;
    for taint in taints {
        match tolerance(taint, tolerations, now) {
            Tolerance::Always => {}
            Tolerance::Until(end) => next = Some(next.map_or(end, |next| next.min(end))),
            Tolerance::Never => {
                effect = effect.max(match taint.effect {
                    TaintEffect::NoSelect => TaintEffectOnCluster::Excluded,
                    TaintEffect::NoSelectIfNew if !is_selected => TaintEffectOnCluster::NotNewlySelected,
                    TaintEffect::PreferNoSelect => TaintEffectOnCluster::Avoided,
                    TaintEffect::NoSelectIfNew | TaintEffect::Other => TaintEffectOnCluster::Tolerated,
                });
            }
        }
    }
    (effect, next)
}

enum Tolerance {
    Always,
    Until(Timestamp),
    Never,
}

fn tolerance(taint: &Taint, tolerations: &[Toleration], now: Timestamp) -> Tolerance {
    let mut until = None;
    for toleration in tolerations.iter().filter(|toleration| tolerates(toleration, taint)) {
        match end(toleration, taint) {
            None => return Tolerance::Always,
            end => until = until.max(end),
        }
    }
    match until {
        Some(end) if end > now => Tolerance::Until(end),
        _ => Tolerance::Never,
    }
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let key = toleration.key.is_empty() || toleration.key == taint.key;
    let effect = toleration.effect.is_none_or(|effect| effect == taint.effect);
    key && effect
        && match toleration.operator {
            TolerationOperator::Exists => true,
            TolerationOperator::Equal => !toleration.key.is_empty() && toleration.value == taint.value,
            TolerationOperator::Other => false,
        }
}

/// When a toleration of a taint ends; `None` where it does not. The seconds count from when the taint was added; one that
/// has no time yet gets it from the cluster controller, and has only just come.
fn end(toleration: &Toleration, taint: &Taint) -> Option<Timestamp> {
    let seconds = toleration.toleration_seconds.filter(|_| taint.effect != TaintEffect::NoSelectIfNew)?;
    let added = taint.time_added.as_ref()?.0;
    added.checked_add(SignedDuration::from_secs(seconds.max(0))).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn taint(key: &str, value: &str, effect: &str) -> Value {
        json!({"key": key, "value": value, "effect": effect, "timeAdded": at(1000).to_string()})
    }

    #[test]
    fn taints_and_tolerations() {
        use TaintEffectOnCluster::{Avoided, Excluded, NotNewlySelected, Tolerated};
        let gpu = |effect: &str| json!([taint("gpu", "a", effect)]);
        let equal = |value: &str| json!([{"key": "gpu", "operator": "Equal", "value": value}]);
        let exists = json!([{"key": "gpu", "operator": "Exists"}]);
        let all = json!([{"operator": "Exists"}]);
        let of_effect = json!([{"operator": "Exists", "effect": "NoSelectIfNew"}]);
        let seconds =
            |seconds: i64| json!([{"key": "gpu", "operator": "Exists", "tolerationSeconds": seconds}]);
        let undated = json!([{"key": "gpu", "effect": "NoSelect"}]);
        let both = json!([
            {"key": "gpu", "operator": "Exists", "tolerationSeconds": 10},
            {"key": "gpu", "operator": "Exists", "tolerationSeconds": 200},
        ]);
        let two = json!([taint("gpu", "a", "NoSelect"), taint("disk", "", "PreferNoSelect")]);
        let new = false;
        let rows = [
            ("no taint", json!([]), json!([]), new, Tolerated, None),
            ("excluded", gpu("NoSelect"), json!([]), new, Excluded, None),
            ("excluded though selected before", gpu("NoSelect"), json!([]), true, Excluded, None),
            ("avoided", gpu("PreferNoSelect"), json!([]), new, Avoided, None),
            ("not newly selected", gpu("NoSelectIfNew"), json!([]), new, NotNewlySelected, None),
            ("stays selected", gpu("NoSelectIfNew"), json!([]), true, Tolerated, None),
            ("unknown effect", gpu("NoSelectAtNight"), json!([]), new, Tolerated, None),
            ("tolerated by value", gpu("NoSelect"), equal("a"), new, Tolerated, None),
            ("another value", gpu("NoSelect"), equal("b"), new, Excluded, None),
            ("any value", gpu("NoSelect"), exists.clone(), new, Tolerated, None),
            ("another key", json!([taint("disk", "", "NoSelect")]), exists, new, Excluded, None),
            ("any key", gpu("NoSelect"), all, new, Tolerated, None),
            ("the effect", gpu("NoSelectIfNew"), of_effect.clone(), new, Tolerated, None),
            ("another effect", gpu("NoSelect"), of_effect, new, Excluded, None),
            ("for a while", gpu("NoSelect"), seconds(101), new, Tolerated, Some(at(1101))),
            ("no longer", gpu("NoSelect"), seconds(100), new, Excluded, None),
            ("not at all", gpu("NoSelect"), seconds(-5), new, Excluded, None),
            ("without end", gpu("NoSelect"), seconds(i64::MAX), new, Tolerated, None),
            ("the longer of two", gpu("NoSelect"), both, new, Tolerated, Some(at(1200))),
            ("seconds do not end the new", gpu("NoSelectIfNew"), seconds(1), new, Tolerated, None),
            ("avoided later", gpu("PreferNoSelect"), seconds(150), new, Tolerated, Some(at(1150))),
            ("one that has no time yet", undated, seconds(1), new, Tolerated, None),
            ("the worst of two", two, json!([]), new, Excluded, None),
        ];
        for (case, taints, tolerations, is_selected, wanted, next) in rows {
            let taints: Vec<Taint> = serde_json::from_value(taints).unwrap();
            let tolerations: Vec<Toleration> = serde_json::from_value(tolerations).unwrap();
            assert_eq!(taint_effect(&taints, &tolerations, is_selected, at(1100)), (wanted, next), "{case}");
        }
    }
}
