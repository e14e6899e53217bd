//! Collects the values of an object's status that the feedback rules of a ManifestWork request: well-known values of
//! its kind, or values at JSONPaths.

use std::sync::LazyLock;

use bellwether_api::work::{FeedbackPath, FeedbackRule, FeedbackType, FeedbackValue, FieldValue};
use bellwether_conditions::shorten;
use bellwether_jsonpath::JsonPath;
use serde_json::Value;

use super::manifest::KindName;

/// The maximum size of one value in bytes. It bounds the status of a ManifestWork.
const MAX_VALUE_BYTES: usize = 1024;
/// The maximum number of values of one object.
const MAX_VALUES: usize = 64;

/// The values that were found in the status of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Feedback {
    pub(crate) values: Vec<FeedbackValue>,
    pub(crate) state: FeedbackState,
}

/// Whether all requested values were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum FeedbackState {
    #[default]
    NotRequested,
    Complete,
    /// Some values are missing; the message says why.
    Incomplete(String),
}

/// The well-known values of a kind: their names, and their paths below the status.
fn well_known_paths(kind: &KindName) -> Option<&'static [(&'static str, &'static str)]> {
    const REPLICAS: [(&str, &str); 4] = [
        ("ReadyReplicas", ".readyReplicas"),
        ("Replicas", ".replicas"),
        ("AvailableReplicas", ".availableReplicas"),
        // Not part of upstream: during a rolling update, the ready replicas may still be the old ones.
        ("UpdatedReplicas", ".updatedReplicas"),
    ];
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("apps", "Deployment" | "StatefulSet") => Some(&REPLICAS),
        ("apps", "DaemonSet") => Some(&[
            ("NumberReady", ".numberReady"),
            ("DesiredNumberScheduled", ".desiredNumberScheduled"),
            ("NumberAvailable", ".numberAvailable"),
            ("UpdatedNumberScheduled", ".updatedNumberScheduled"),
        ]),
        ("batch", "Job") => Some(&[
            ("JobComplete", r#".conditions[?(@.type=="Complete")].status"#),
            ("JobSucceeded", ".succeeded"),
        ]),
        ("", "Pod") => {
            Some(&[("PodReady", r#".conditions[?(@.type=="Ready")].status"#), ("PodPhase", ".phase")])
        }
        _ => None,
    }
}

/// Collects the values that the rules request from the status of an object.
pub(crate) fn collect_feedback(rules: &[&FeedbackRule], kind: &KindName, live: Option<&Value>) -> Feedback {
    if rules.is_empty() {
        return Feedback::default();
    }
    let Some(live) = live else {
        let state = FeedbackState::Incomplete("the object does not exist".into());
        return Feedback { values: Vec::new(), state };
    };
    let status = live.get("status").unwrap_or(&Value::Null);
    let (mut values, mut errors) = (Vec::new(), Vec::new());
    for rule in rules {
        match rule.type_ {
            FeedbackType::WellKnownStatus => match (well_known_paths(kind), stale_status_error(live)) {
                (Some(paths), None) => {
                    let find =
                        |path: &str| find_path(path, status).ok().flatten().or(zero_if_omitted(kind, status));
                    values.extend(
                        paths.iter().filter_map(|(name, path)| feedback_value(name, find(path)?).ok()),
                    );
                }
                (Some(_), Some(error)) => errors.push(error),
                (None, _) => {
                    errors.push(format!("WellKnownStatus does not support {}; use JSONPaths", kind.kind))
                }
            },
            FeedbackType::JsonPaths => {
                for path in &rule.json_paths {
                    match value_at_path(path, kind, status) {
                        Ok(value) => values.push(value),
                        Err(error) => errors.push(format!("{}: {error}", path.name)),
                    }
                }
            }
            FeedbackType::Other => {
                errors.push(
                    "the type of a feedback rule is invalid: must be WellKnownStatus or JSONPaths".into(),
                );
            }
        }
    }
    if values.len() > MAX_VALUES {
        values.truncate(MAX_VALUES);
        errors.push(format!(
            "more than {MAX_VALUES} values are requested; only the first {MAX_VALUES} are reported"
        ));
    }
    let state = if errors.is_empty() {
        FeedbackState::Complete
    } else {
        FeedbackState::Incomplete(shorten(&errors.join("; "), MAX_VALUE_BYTES))
    };
    Feedback { values, state }
}

/// The value of a number that is missing from the status of a workload. Kubernetes omits numbers that are zero; but as
/// long as no controller has observed the workload, its numbers are unknown.
fn zero_if_omitted(kind: &KindName, status: &Value) -> Option<&'static Value> {
    static ZERO: LazyLock<Value> = LazyLock::new(|| 0.into());
    (kind.group == "apps" && status.get("observedGeneration").is_some()).then(|| &*ZERO)
}

/// Why the status of an object must not be reported: it is older than the last change of the object. A status without
/// `observedGeneration` counts as current.
fn stale_status_error(live: &Value) -> Option<String> {
    let number = |pointer: &str| live.pointer(pointer).and_then(Value::as_i64);
    let (observed, generation) = (number("/status/observedGeneration")?, number("/metadata/generation")?);
    (observed < generation).then(|| {
        format!(
            "the status is stale: it is for generation {observed}, the object has generation {generation}"
        )
    })
}

fn value_at_path(path: &FeedbackPath, kind: &KindName, status: &Value) -> Result<FeedbackValue, String> {
    if !path.version.is_empty() && path.version != kind.version {
        return Err(format!(
            "the path is for version {}, the object has version {}",
            path.version, kind.version
        ));
    }
    match find_path(&path.path, status)? {
        Some(found) => feedback_value(&path.name, found),
        None => Err(format!("the status has no value at {}", path.path)),
    }
}

fn find_path<'v>(path: &str, status: &'v Value) -> Result<Option<&'v Value>, String> {
    Ok(JsonPath::read(path)?.find(status).first().copied())
}

/// Puts a value into the field of its type.
fn feedback_value(name: &str, found: &Value) -> Result<FeedbackValue, String> {
    let mut field = FieldValue::default();
    match found {
        Value::Null => return Err("the value is null".into()),
        Value::Bool(found) => {
            field.type_ = "Boolean".into();
            field.boolean = Some(*found);
        }
        Value::Number(number) if number.is_i64() => {
            field.type_ = "Integer".into();
            field.integer = number.as_i64();
        }
        Value::String(text) => {
            field.type_ = "String".into();
            field.string = Some(shorten(text, MAX_VALUE_BYTES));
        }
        other => {
            let text = other.to_string();
            if text.len() > MAX_VALUE_BYTES {
                return Err(format!("the value has {} bytes: must be ≤ {MAX_VALUE_BYTES}", text.len()));
            }
            field.type_ = "JsonRaw".into();
            field.json_raw = Some(text);
        }
    }
    Ok(FeedbackValue { name: name.to_owned(), field_value: field })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(group: &str, kind: &str) -> KindName {
        KindName { group: group.into(), version: "v1".into(), kind: kind.into() }
    }

    fn rule(rule: Value) -> FeedbackRule {
        serde_json::from_value(rule).unwrap()
    }

    /// The reported values by name, without their types.
    fn values_by_name(feedback: &Feedback) -> Value {
        let short = feedback.values.iter().map(|value| {
            let field = serde_json::to_value(&value.field_value).unwrap();
            let mut field = field.as_object().unwrap().clone();
            field.remove("type");
            (value.name.clone(), field.into_iter().next().unwrap().1)
        });
        Value::Object(short.collect())
    }

    #[test]
    fn well_known_values_of_workloads_are_reported() {
        let replicas = json!({"readyReplicas": 1, "replicas": 3, "availableReplicas": 2, "updatedReplicas": 3, "other": 9});
        let expected =
            json!({"ReadyReplicas": 1, "Replicas": 3, "AvailableReplicas": 2, "UpdatedReplicas": 3});
        let daemons = json!({"numberReady": 1, "desiredNumberScheduled": 2, "numberAvailable": 1});
        let rows = [
            (kind("apps", "Deployment"), replicas.clone(), expected.clone()),
            (kind("apps", "StatefulSet"), replicas, expected),
            (
                kind("apps", "DaemonSet"),
                daemons,
                json!({"NumberReady": 1, "DesiredNumberScheduled": 2, "NumberAvailable": 1}),
            ),
            (
                kind("batch", "Job"),
                json!({"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}),
                json!({"JobComplete": "True", "JobSucceeded": 1}),
            ),
            (
                kind("", "Pod"),
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}),
                json!({"PodReady": "False", "PodPhase": "Running"}),
            ),
            (kind("apps", "Deployment"), json!({"replicas": 3}), json!({"Replicas": 3})),
            (kind("apps", "Deployment"), Value::Null, json!({})),
            (
                kind("apps", "Deployment"),
                json!({"observedGeneration": 1, "replicas": 3}),
                json!({"ReadyReplicas": 0, "Replicas": 3, "AvailableReplicas": 0, "UpdatedReplicas": 0}),
            ),
            (kind("batch", "Job"), json!({"observedGeneration": 1}), json!({})),
        ];
        let rule = rule(json!({"type": "WellKnownStatus"}));
        for (kind, status, expected) in rows {
            let found = collect_feedback(&[&rule], &kind, Some(&json!({"status": status})));
            assert_eq!(
                (values_by_name(&found), found.state),
                (expected, FeedbackState::Complete),
                "{kind:?}"
            );
        }
        let at = |observed: i64| json!({"metadata": {"generation": 2}, "status": {"observedGeneration": observed, "replicas": 3}});
        let stale = collect_feedback(&[&rule], &kind("apps", "Deployment"), Some(&at(1)));
        let error = "the status is stale: it is for generation 1, the object has generation 2";
        assert_eq!(
            (values_by_name(&stale), stale.state),
            (json!({}), FeedbackState::Incomplete(error.into()))
        );
        assert_eq!(
            values_by_name(&collect_feedback(&[&rule], &kind("apps", "Deployment"), Some(&at(2)))),
            json!({"ReadyReplicas": 0, "Replicas": 3, "AvailableReplicas": 0, "UpdatedReplicas": 0})
        );
        let found = collect_feedback(&[&rule], &kind("", "ConfigMap"), Some(&json!({})));
        assert_eq!(
            found.state,
            FeedbackState::Incomplete("WellKnownStatus does not support ConfigMap; use JSONPaths".into())
        );
    }

    #[test]
    fn json_path_yields_a_value_of_any_type_or_an_error() {
        let status = json!({
            "count": 3, "share": 0.5, "up": true, "word": "yes", "list": [1, 2], "null": null, "big": "x".repeat(3000),
            "huge": ["x".repeat(3000)], "conditions": [{"type": "Available", "status": "True"}],
        });
        let rows = [
            (".count", "", Ok(json!(3))),
            (".share", "", Ok(json!("0.5"))),
            (".up", "", Ok(json!(true))),
            (".word", "v1", Ok(json!("yes"))),
            (".list", "", Ok(json!("[1,2]"))),
            (r#".conditions[?(@.type=="Available")].status"#, "", Ok(json!("True"))),
            (".big", "", Ok(json!(format!("{}...", "x".repeat(1021))))),
            (".null", "", Err("a: the value is null")),
            (".none", "", Err("a: the status has no value at .none")),
            (".word", "v2", Err("a: the path is for version v2, the object has version v1")),
            (".huge", "", Err("a: the value has 3004 bytes: must be ≤ 1024")),
            (".a[", "", Err("a: expected \"]\" at character 3 of \".a[\"")),
        ];
        for (path, version, expected) in rows {
            let rule = rule(
                json!({"type": "JSONPaths", "jsonPaths": [{"name": "a", "version": version, "path": path}]}),
            );
            let found = collect_feedback(&[&rule], &kind("x.io", "Widget"), Some(&json!({"status": status})));
            match expected {
                Ok(value) => {
                    assert_eq!(
                        (values_by_name(&found), found.state),
                        (json!({"a": value}), FeedbackState::Complete),
                        "{path}"
                    );
                }
                Err(error) => assert_eq!(found.state, FeedbackState::Incomplete(error.into()), "{path}"),
            }
        }
    }

    #[test]
    fn found_values_are_reported_if_others_are_missing() {
        let rule = rule(
            json!({"type": "JSONPaths", "jsonPaths": [{"name": "a", "path": ".a"}, {"name": "b", "path": ".b"}]}),
        );
        let found = collect_feedback(&[&rule], &kind("x.io", "Widget"), Some(&json!({"status": {"b": 1}})));
        assert_eq!(values_by_name(&found), json!({"b": 1}));
        assert_eq!(found.state, FeedbackState::Incomplete("a: the status has no value at .a".into()));
        assert_eq!(collect_feedback(&[], &kind("", "Pod"), None), Feedback::default());
        let missing = collect_feedback(&[&rule], &kind("", "Pod"), None);
        assert_eq!(missing.state, FeedbackState::Incomplete("the object does not exist".into()));
    }
}
