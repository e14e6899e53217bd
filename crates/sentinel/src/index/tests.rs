use rstest::rstest;
use serde_json::Map;

use super::*;
use crate::config::{Config, Overrides};

const ID: &str = "01976b1e-5f0a-7c3e-8d2b-4a1f6e9c0b7d";
/// The resource was last changed at this second.
const CHANGED: i64 = 1_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// The condition for the current generation: its name, status and last report, which is that of the change if there is none.
type Condition<'a> = Option<(&'a str, &'a str, i64)>;

fn resource(generation: i64, condition: Condition<'_>) -> Resource {
    let conditions: Vec<Value> = condition.map_or_else(Vec::new, |(name, status, reported)| {
        vec![json!({
            "type": name, "status": status, "observed_generation": generation, "created_time": at(CHANGED),
            "last_updated_time": at(reported), "last_transition_time": at(CHANGED),
        })]
    });
    serde_json::from_value(json!({
        "id": ID, "kind": "Cluster", "name": "abc", "href": "/api/hyperfleet/v1/clusters/1", "spec": {}, "labels": {"env": "prod"},
        "generation": generation, "created_time": at(CHANGED), "created_by": "a", "updated_time": at(CHANGED),
        "updated_by": "a", "status": {"conditions": conditions},
    }))
    .unwrap()
}

fn configs() -> [Config; 2] {
    let upstream = include_str!("../../tests/data/upstream.yaml");
    // The selector is the subject of another test.
    let (before, after) =
        (upstream.find("resource_selector").unwrap(), upstream.find("message_decision").unwrap());
    let upstream = format!("{}{}", &upstream[..before], &upstream[after..]);
    ["resource_type: clusters", &upstream]
        .map(|text| Config::parse(text, "s.yaml", Overrides::default()).unwrap())
}

const NO_PULSE: Option<(i64, i64)> = None;
const MINUTE: i64 = 60;

// Seconds are counted from the change of the resource; a pulse is (second, generation).
#[rstest]
#[case::ready_and_the_report_is_old(1, Some(("Ready", "True", 5)), NO_PULSE, 5 + 31 * MINUTE, true)]
#[case::ready_and_the_report_is_recent(1, Some(("Ready", "True", 5)), NO_PULSE, 5 + 5 * MINUTE, false)]
#[case::ready_at_the_threshold(1, Some(("Ready", "True", 5)), NO_PULSE, 5 + 30 * MINUTE, false)]
#[case::ready_and_pulsed_since(1, Some(("Ready", "True", 5)), Some((40 * MINUTE, 1)), 50 * MINUTE, false)]
#[case::ready_and_nobody_answered_the_pulse(1, Some(("Ready", "True", 5)), Some((40 * MINUTE, 1)), 71 * MINUTE, true)]
#[case::not_ready_and_the_report_is_old(1, Some(("Ready", "False", 5)), NO_PULSE, 16, true)]
#[case::not_ready_and_the_report_is_recent(1, Some(("Ready", "False", 5)), NO_PULSE, 8, false)]
#[case::not_ready_at_the_threshold(1, Some(("Ready", "False", 5)), NO_PULSE, 15, false)]
#[case::not_ready_and_pulsed_since(1, Some(("Ready", "False", 5)), Some((16, 1)), 25, false)]
#[case::not_ready_and_nobody_answered_the_pulse(1, Some(("Ready", "False", 5)), Some((16, 1)), 27, true)]
#[case::created_and_not_pulsed(1, Some(("Ready", "False", 0)), NO_PULSE, 0, true)]
#[case::created_and_pulsed(1, Some(("Ready", "False", 0)), Some((0, 1)), 3, false)]
#[case::created_and_nobody_answered_the_pulse(1, Some(("Ready", "False", 0)), Some((0, 1)), 11, true)]
#[case::changed_and_only_the_earlier_generation_was_pulsed(2, Some(("Ready", "False", 0)), Some((-1, 1)), 0, true)]
#[case::changed_and_pulsed(2, Some(("Ready", "False", 0)), Some((0, 2)), 1, false)]
#[case::changed_and_an_adapter_has_reported_by_itself(2, Some(("Ready", "False", 1)), Some((-1, 1)), 2, false)]
#[case::the_other_name_of_the_condition(1, Some(("Reconciled", "True", 5)), NO_PULSE, 5 + 31 * MINUTE, true)]
#[case::no_required_adapters_and_not_pulsed(2, None, NO_PULSE, 0, true)]
#[case::no_required_adapters_and_pulsed(2, None, Some((0, 2)), 29 * MINUTE, false)]
#[case::no_required_adapters_and_pulsed_long_ago(2, None, Some((0, 2)), 31 * MINUTE, true)]
#[case::no_required_adapters_and_changed(3, None, Some((0, 2)), 1, true)]
fn resource_is_due(
    #[case] generation: i64,
    #[case] condition: Condition<'_>,
    #[case] pulse: Option<(i64, i64)>,
    #[case] second: i64,
    #[case] expected: bool,
) {
    let resource =
        resource(generation, condition.map(|(name, status, reported)| (name, status, CHANGED + reported)));
    for config in configs() {
        let mut index = Index::new(Vec::new(), &config.decision);
        index.on_apply(&resource);
        if let Some((time, generation)) = pulse {
            index.record_pulse(resource.id, Pulse { time: at(CHANGED + time), generation });
        }
        let due = index.is_due(resource.id, &config.decision, at(CHANGED + second)).unwrap();
        assert_eq!(due, expected, "{}", config.decision.result());
    }
}

#[test]
fn pulse_is_remembered_when_the_resource_changes_and_when_the_feed_begins_anew() {
    let [config, _] = configs();
    let mut index = Index::new(Vec::new(), &config.decision);
    let created = resource(1, Some(("Ready", "False", CHANGED)));
    let is_due =
        |index: &Index, second| index.is_due(created.id, &config.decision, at(CHANGED + second)).unwrap();
    assert!(index.on_apply(&created));
    index.record_pulse(created.id, Pulse { time: at(CHANGED), generation: 1 });
    index.on_apply(&created);
    assert!(!is_due(&index, 5));
    index.restart(at(CHANGED + 1));
    assert!(index.is_empty() && !is_due(&index, 5));
    index.on_apply(&created);
    assert!(!is_due(&index, 5) && is_due(&index, 11));

    index.on_delete(created.id);
    index.on_apply(&created);
    assert!(is_due(&index, 5), "another resource with the ID of a deleted one");
}

#[test]
fn resource_that_loses_its_label_is_removed() {
    let [config, _] = configs();
    let selector = vec![SelectorTerm { label: "env".to_owned(), value: "prod".to_owned() }];
    let mut index = Index::new(selector, &config.decision);
    let mut resource = resource(1, None);
    assert!(index.on_apply(&resource));
    resource.labels.clear();
    assert!(!index.on_apply(&resource));
    assert!(index.is_empty());
}

#[test]
fn data_of_a_pulse_is_that_of_the_resource() {
    let [config, _] = configs();
    let mut index = Index::new(Vec::new(), &config.decision);
    let resource = resource(3, Some(("Ready", "False", CHANGED)));
    index.on_apply(&resource);
    let (view, generation) = index.view(resource.id).unwrap();
    let (data, errors) = config.decision.message_data(view.json());
    let expected =
        json!({"id": ID, "kind": "Cluster", "href": "/api/hyperfleet/v1/clusters/1", "generation": 3});
    assert_eq!((generation, data, errors), (3, expected, vec![]));
    assert_ne!(index.records[&resource.id].json.len(), 0);
    assert!(index.records[&resource.id].json.len() < 400, "{}", index.records[&resource.id].json);
    let _: Map<String, Value> = serde_json::from_str(&index.records[&resource.id].json).unwrap();
}

#[test]
fn pulse_that_completes_while_the_feed_begins_anew_counts() {
    let [config, _] = configs();
    let mut index = Index::new(Vec::new(), &config.decision);
    let created = resource(1, Some(("Ready", "False", CHANGED)));
    let is_due =
        |index: &Index, second| index.is_due(created.id, &config.decision, at(CHANGED + second)).unwrap();
    index.on_apply(&created);
    index.restart(at(CHANGED + 1));
    index.record_pulse(created.id, Pulse { time: at(CHANGED), generation: 1 });
    index.on_apply(&created);
    assert!(!is_due(&index, 5) && is_due(&index, 11));

    index.restart(at(CHANGED + 1));
    index.forget_earlier_pulses(at(CHANGED + 60 * MINUTE));
    index.on_apply(&created);
    assert!(is_due(&index, 5));
}
