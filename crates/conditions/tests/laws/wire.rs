//! The wire format of conditions, and the validation of names.

use bellwether_conditions::{ConditionSet, ConditionType, Desired, Reason, Status, shorten};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use crate::at;

#[test]
fn condition_is_serialized_as_in_kubernetes() {
    let desired = Desired::new(
        ConditionType::constant("Available"),
        Status::True,
        Reason::constant("Up"),
        "all replicas are up",
    );
    let instant = at(0) + jiff::SignedDuration::from_millis(999);
    assert_eq!(
        serde_json::to_value(desired.observed_at(7).since(instant)).unwrap(),
        json!({
            "type": "Available",
            "status": "True",
            "observedGeneration": 7,
            "lastTransitionTime": "2023-11-14T22:13:20Z",
            "reason": "Up",
            "message": "all replicas are up",
        })
    );
}

#[rstest]
#[case::without_a_generation("A", "False", "R")]
#[case::with_an_invalid_status("A", "Banana", "R")]
#[case::with_invalid_names("not a type", "True", "not one word")]
fn condition_of_another_writer_is_written_back_unchanged(
    #[case] type_: &str,
    #[case] status: &str,
    #[case] reason: &str,
) {
    let foreign = json!([{
        "type": type_,
        "status": status,
        "lastTransitionTime": "2024-01-01T00:00:00Z",
        "reason": reason,
        "message": "m",
    }]);
    let set: ConditionSet = serde_json::from_value(foreign.clone()).unwrap();
    assert_eq!(serde_json::to_value(set).unwrap(), foreign);
}

#[rstest]
#[case::only_a_type(json!({"type": "A"}))]
#[case::null_time(json!({"type": "A", "status": "True", "lastTransitionTime": null, "reason": null}))]
#[case::unknown_field(json!({"type": "A", "lastHeartbeatTime": "2024-01-01T00:00:00Z"}))]
fn missing_fields_are_filled_with_defaults(#[case] foreign: Value) {
    let set: ConditionSet = serde_json::from_value(json!([foreign])).unwrap();
    let written = serde_json::to_value(set).unwrap();
    assert_eq!(written[0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
    assert_eq!((&written[0]["reason"], &written[0]["message"]), (&json!(""), &json!("")));
}

#[test]
fn invalid_status_counts_as_unknown() {
    let set: ConditionSet = serde_json::from_value(json!([{"type": "A", "status": "Banana"}])).unwrap();
    assert_eq!(set.as_slice()[0].status, Status::Unknown);
}

#[test]
fn empty_set_is_an_empty_list() {
    assert_eq!(serde_json::to_value(ConditionSet::default()).unwrap(), json!([]));
}

#[rstest]
#[case::plain("Available", true)]
#[case::qualified("addons.managed.openshift.io/ReadyToBeDeleted", true)]
#[case::one_letter("A", true)]
#[case::dots_and_dashes("a.b-c_d", true)]
#[case::empty("", false)]
#[case::blank("a b", false)]
#[case::dash_at_the_end("a-", false)]
#[case::empty_prefix("/a", false)]
#[case::capital_in_prefix("Example.com/a", false)]
#[case::dash_before_a_dot("a-.com/a", false)]
#[case::dash_at_the_beginning("-a.com/a", false)]
#[case::dot_after_a_dot("a..com/a", false)]
#[case::no_name("example.com/", false)]
#[case::two_slashes("example.com/a/b", false)]
#[case::maximum_length(&"a".repeat(316), true)]
#[case::too_long(&"a".repeat(317), false)]
fn condition_type_is_a_qualified_name(#[case] text: &str, #[case] valid: bool) {
    assert_eq!(text.parse::<ConditionType>().is_ok(), valid);
}

#[rstest]
#[case::camel_case("HeartbeatTimeout", true)]
#[case::punctuation("A_b,c:d", true)]
#[case::underscore_at_the_end("A_", true)]
#[case::empty("", false)]
#[case::digit_first("1A", false)]
#[case::colon_at_the_end("A:", false)]
#[case::dash("A-b", false)]
#[case::not_ascii("Größe", false)]
#[case::maximum_length(&"A".repeat(1024), true)]
#[case::too_long(&"A".repeat(1025), false)]
fn reason_is_one_word(#[case] text: &str, #[case] valid: bool) {
    assert_eq!(text.parse::<Reason>().is_ok(), valid);
}

#[test]
fn invalid_name_error_has_the_rule() {
    let error = "not one word".parse::<Reason>().unwrap_err().to_string();
    assert!(error.starts_with(r#""not one word" is not a reason: letters"#), "{error}");
}

proptest! {
    #[test]
    fn shortened_message_fits_and_is_a_prefix(message in "\\PC{0,40}", limit in 0usize..60) {
        let short = shorten(&message, limit);
        prop_assert!(short.len() <= limit);
        if message.len() <= limit {
            prop_assert_eq!(short, message);
        } else if limit >= 3 {
            let kept = short.strip_suffix("...");
            prop_assert!(kept.is_some_and(|kept| message.starts_with(kept) && kept.len() + 4 + 3 > limit));
        }
    }
}
