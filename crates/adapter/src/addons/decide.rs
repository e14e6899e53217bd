//! What the adapter `addons` reports about a cluster: a pure function of its add-ons.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

/// The most add-ons that a message names.
const MAX_NAMED: usize = 5;

/// An add-on of a cluster, as its ManagedClusterAddOn describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Addon {
    /// The name.
    pub name: String,
    /// The conditions.
    pub conditions: Vec<Condition>,
}

/// What is wrong with an add-on, or not known about it.
enum Finding {
    Available,
    Unavailable(String),
    Unknown(String),
}

/// Whether the cluster is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    /// It is not.
    Active,
    /// It is.
    Deleting,
}

/// The conditions of the report.
///
/// | add-ons | Available |
/// |---|---|
/// | none | True, `NoAddOns` |
/// | one is not available, or degraded | False, `AddOnsUnavailable` |
/// | one has not reported | Unknown, `AddOnsUnknown` |
/// | otherwise | True, `AddOnsAvailable` |
///
/// The adapter creates nothing, so that nothing is left to clean up after a deletion.
pub fn conditions(addons: &[Addon], lifecycle: Lifecycle) -> Value {
    let (status, reason, message) = available(addons);
    let condition = |type_: &str, status: &str, reason: &str, message: &str| json!({ "type": type_, "status": status, "reason": reason, "message": message });
    let mut conditions = vec![
        condition("Available", status, reason, &message),
        condition("Applied", "True", "NothingToApply", "The adapter observes add-ons and creates nothing"),
        condition("Health", "True", "Healthy", "The hub was read"),
    ];
    if lifecycle == Lifecycle::Deleting {
        conditions.push(condition("Finalized", "True", "NothingToDelete", "The adapter has created nothing"));
    }
    Value::Array(conditions)
}

fn available(addons: &[Addon]) -> (&'static str, &'static str, String) {
    if addons.is_empty() {
        return ("True", "NoAddOns", "The cluster has no add-ons".to_owned());
    }
    let (mut unavailable, mut unknown) = (Vec::new(), Vec::new());
    for addon in addons {
        match find(addon) {
            Finding::Available => {}
            Finding::Unavailable(why) => unavailable.push(why),
            Finding::Unknown(why) => unknown.push(why),
        }
    }
    if !unavailable.is_empty() {
        return ("False", "AddOnsUnavailable", list(&unavailable));
    }
    if !unknown.is_empty() {
        return ("Unknown", "AddOnsUnknown", list(&unknown));
    }
    let names: Vec<String> = addons.iter().map(|addon| addon.name.clone()).collect();
    ("True", "AddOnsAvailable", format!("Available: {}", list(&names)))
}

fn find(addon: &Addon) -> Finding {
    let condition = |type_: &str| addon.conditions.iter().find(|condition| condition.type_ == type_);
    let describe = |condition: &Condition| {
        format!(
            "{}: {}={} ({}): {}",
            addon.name, condition.type_, condition.status, condition.reason, condition.message
        )
    };
    match (condition("Degraded"), condition("Available")) {
        (Some(degraded), _) if degraded.status == "True" => Finding::Unavailable(describe(degraded)),
        (_, Some(available)) => match available.status.as_str() {
            "True" => Finding::Available,
            "False" => Finding::Unavailable(describe(available)),
            _ => Finding::Unknown(describe(available)),
        },
        (_, None) => Finding::Unknown(format!("{}: it has not reported yet", addon.name)),
    }
}

fn list(texts: &[String]) -> String {
    let named = texts.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join("; ");
    match texts.len().saturating_sub(MAX_NAMED) {
        0 => named,
        more => format!("{named}; and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn addon(name: &str, conditions: &[(&str, &str)]) -> Addon {
        let conditions = conditions.iter().map(|(type_, status)| Condition {
            type_: (*type_).to_owned(),
            status: (*status).to_owned(),
            reason: "Why".to_owned(),
            message: "because".to_owned(),
            last_transition_time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
                jiff::Timestamp::UNIX_EPOCH,
            ),
            observed_generation: None,
        });
        Addon { name: name.to_owned(), conditions: conditions.collect() }
    }

    #[rstest]
    #[case::no_add_ons(&[], "True", "NoAddOns", "The cluster has no add-ons")]
    #[case::all_available(
        &[addon("a", &[("Available", "True")]), addon("b", &[("Degraded", "False"), ("Available", "True")])],
        "True", "AddOnsAvailable", "Available: a; b"
    )]
    #[case::one_unavailable(
        &[addon("a", &[("Available", "True")]), addon("b", &[("Available", "False")])],
        "False", "AddOnsUnavailable", "b: Available=False (Why): because"
    )]
    #[case::one_degraded(
        &[addon("a", &[("Available", "True"), ("Degraded", "True")])],
        "False", "AddOnsUnavailable", "a: Degraded=True (Why): because"
    )]
    #[case::one_unknown(
        &[addon("a", &[("Available", "Unknown")]), addon("b", &[("Available", "True")])],
        "Unknown", "AddOnsUnknown", "a: Available=Unknown (Why): because"
    )]
    #[case::one_without_conditions(&[addon("a", &[])], "Unknown", "AddOnsUnknown", "a: it has not reported yet")]
    #[case::unavailable_counts_more_than_unknown(
        &[addon("a", &[]), addon("b", &[("Available", "False")])],
        "False", "AddOnsUnavailable", "b: Available=False (Why): because"
    )]
    fn availability_follows_from_the_add_ons(
        #[case] addons: &[Addon],
        #[case] status: &str,
        #[case] reason: &str,
        #[case] message: &str,
    ) {
        let reported = conditions(addons, Lifecycle::Active);
        assert_eq!(
            reported[0],
            json!({"type": "Available", "status": status, "reason": reason, "message": message})
        );
        let types: Vec<&str> =
            reported.as_array().unwrap().iter().map(|one| one["type"].as_str().unwrap()).collect();
        assert_eq!(types, ["Available", "Applied", "Health"]);
    }

    #[test]
    fn cluster_that_is_deleted_is_finalized_at_once() {
        let reported = conditions(&[addon("a", &[])], Lifecycle::Deleting);
        assert_eq!((&reported[3]["type"], &reported[3]["status"]), (&json!("Finalized"), &json!("True")));
    }

    #[test]
    fn message_names_at_most_five_add_ons() {
        let addons: Vec<Addon> = (0..8).map(|number| addon(&format!("a{number}"), &[])).collect();
        let reported = conditions(&addons, Lifecycle::Active);
        let message = reported[0]["message"].as_str().unwrap();
        assert!(message.ends_with("a4: it has not reported yet; and 3 more"), "{message}");
    }
}
