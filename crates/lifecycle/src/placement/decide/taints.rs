//! Whether the taints of a cluster keep a Placement from choosing it, and until when they do not. Pure.

use bellwether_api::cluster::{Taint, TaintEffect, Toleration, TolerationOperator};
use jiff::{SignedDuration, Timestamp};

/// What the taints of a cluster mean for a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// Nothing speaks against it.
    Welcome,
    /// It is chosen when there is no other.
    Avoided,
    /// It would stay, but is not chosen anew.
    NotAnew,
    /// It is not chosen.
    Refused,
}

/// What the taints mean at `now`, and when that next changes because a toleration ends.
pub(super) fn standing(
    taints: &[Taint],
    tolerations: &[Toleration],
    is_chosen: bool,
    now: Timestamp,
) -> (Standing, Option<Timestamp>) {
    let mut standing = Standing::Welcome;
    let mut next: Option<Timestamp> = None;
    for taint in taints {
        match tolerance(taint, tolerations, now) {
            Tolerance::Always => {}
            Tolerance::Until(end) => next = Some(next.map_or(end, |next| next.min(end))),
            Tolerance::Never => {
                standing = standing.max(match taint.effect {
                    TaintEffect::NoSelect => Standing::Refused,
                    TaintEffect::NoSelectIfNew if !is_chosen => Standing::NotAnew,
                    TaintEffect::PreferNoSelect => Standing::Avoided,
                    TaintEffect::NoSelectIfNew | TaintEffect::Other => Standing::Welcome,
                });
            }
        }
    }
    (standing, next)
}

enum Tolerance {
    Always,
    Until(Timestamp),
    Never,
}

fn tolerance(taint: &Taint, tolerations: &[Toleration], now: Timestamp) -> Tolerance {
    let mut until = None;
    for toleration in tolerations.iter().filter(|toleration| is_meant(toleration, taint)) {
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

fn is_meant(toleration: &Toleration, taint: &Taint) -> bool {
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
        use Standing::{Avoided, NotAnew, Refused, Welcome};
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
            ("no taint", json!([]), json!([]), new, Welcome, None),
            ("refused", gpu("NoSelect"), json!([]), new, Refused, None),
            ("refused though it was chosen", gpu("NoSelect"), json!([]), true, Refused, None),
            ("avoided", gpu("PreferNoSelect"), json!([]), new, Avoided, None),
            ("not chosen anew", gpu("NoSelectIfNew"), json!([]), new, NotAnew, None),
            ("stays chosen", gpu("NoSelectIfNew"), json!([]), true, Welcome, None),
            ("an effect that is not known", gpu("NoSelectAtNight"), json!([]), new, Welcome, None),
            ("tolerated by value", gpu("NoSelect"), equal("a"), new, Welcome, None),
            ("another value", gpu("NoSelect"), equal("b"), new, Refused, None),
            ("any value", gpu("NoSelect"), exists.clone(), new, Welcome, None),
            ("another key", json!([taint("disk", "", "NoSelect")]), exists, new, Refused, None),
            ("any key", gpu("NoSelect"), all, new, Welcome, None),
            ("the effect", gpu("NoSelectIfNew"), of_effect.clone(), new, Welcome, None),
            ("another effect", gpu("NoSelect"), of_effect, new, Refused, None),
            ("for a while", gpu("NoSelect"), seconds(101), new, Welcome, Some(at(1101))),
            ("no longer", gpu("NoSelect"), seconds(100), new, Refused, None),
            ("not at all", gpu("NoSelect"), seconds(-5), new, Refused, None),
            ("without end", gpu("NoSelect"), seconds(i64::MAX), new, Welcome, None),
            ("the longer of two", gpu("NoSelect"), both, new, Welcome, Some(at(1200))),
            ("seconds do not end the new", gpu("NoSelectIfNew"), seconds(1), new, Welcome, None),
            ("avoided later", gpu("PreferNoSelect"), seconds(150), new, Welcome, Some(at(1150))),
            ("one that has no time yet", undated, seconds(1), new, Welcome, None),
            ("the worst of two", two, json!([]), new, Refused, None),
        ];
        for (sentence, taints, tolerations, is_chosen, wanted, next) in rows {
            let taints: Vec<Taint> = serde_json::from_value(taints).unwrap();
            let tolerations: Vec<Toleration> = serde_json::from_value(tolerations).unwrap();
            assert_eq!(standing(&taints, &tolerations, is_chosen, at(1100)), (wanted, next), "{sentence}");
        }
    }
}
