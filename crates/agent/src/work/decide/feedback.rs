//! What of an object's status is reported to the hub: what is known of its kind, or what the work's paths say.

use std::sync::LazyLock;

use bellwether_api::work::{FeedbackPath, FeedbackRule, FeedbackType, FeedbackValue, FieldValue};
use bellwether_conditions::shorten;
use bellwether_jsonpath::JsonPath;
use serde_json::Value;

use super::manifest::KindName;

/// The most that one value may have, in bytes: the status of a work is no place for documents.
const LONGEST: usize = 1024;
/// The most values of one object.
const MOST: usize = 64;

/// What an object's status says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Feedback {
    pub(crate) values: Vec<FeedbackValue>,
    pub(crate) verdict: Verdict,
}

/// Whether all was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing was asked for.
    #[default]
    Nothing,
    /// All of it.
    Found,
    /// Not all of it, for these reasons.
    Lacking(String),
}

/// What is known of a kind: names and where their values are below the status.
fn well_known(kind: &KindName) -> Option<&'static [(&'static str, &'static str)]> {
    const REPLICAS: [(&str, &str); 4] = [
        ("ReadyReplicas", ".readyReplicas"),
        ("Replicas", ".replicas"),
        ("AvailableReplicas", ".availableReplicas"),
        // Beyond upstream: while a rollout is under way, those that are ready may still be the old ones.
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

/// What an object's status says, by the rules for it.
pub(crate) fn feedback(rules: &[&FeedbackRule], kind: &KindName, live: Option<&Value>) -> Feedback {
    if rules.is_empty() {
        return Feedback::default();
    }
    let Some(live) = live else {
        return Feedback { values: Vec::new(), verdict: Verdict::Lacking("the object is not there".into()) };
    };
    let status = live.get("status").unwrap_or(&Value::Null);
    let (mut values, mut lacking) = (Vec::new(), Vec::new());
    for rule in rules {
        match rule.type_ {
            FeedbackType::WellKnownStatus => match (well_known(kind), outdated(live)) {
                (Some(known), None) => {
                    let found = |path: &str| find(path, status).ok().flatten().or(absent(kind, status));
                    values.extend(known.iter().filter_map(|(name, path)| value(name, found(path)?).ok()));
                }
                (Some(_), Some(words)) => lacking.push(words),
                (None, _) => lacking.push(format!("no status of {} is well known", kind.kind)),
            },
            FeedbackType::JsonPaths => {
                for path in &rule.json_paths {
                    match at(path, kind, status) {
                        Ok(value) => values.push(value),
                        Err(words) => lacking.push(format!("{}: {words}", path.name)),
                    }
                }
            }
            FeedbackType::Other => lacking.push("a rule is of a type that is not known here".into()),
        }
    }
    if values.len() > MOST {
        values.truncate(MOST);
        lacking.push(format!("more than {MOST} values are asked for"));
    }
    let verdict = if lacking.is_empty() {
        Verdict::Found
    } else {
        Verdict::Lacking(shorten(&lacking.join("; "), LONGEST))
    };
    Feedback { values, verdict }
}

/// What a number is that is not there. Kubernetes leaves out what is zero; but where nobody has looked at a workload yet
/// there is nothing to tell.
fn absent(kind: &KindName, status: &Value) -> Option<&'static Value> {
    static ZERO: LazyLock<Value> = LazyLock::new(|| 0.into());
    (kind.group == "apps" && status.get("observedGeneration").is_some()).then(|| &*ZERO)
}

/// What is said of a workload before its last change says nothing of it now. One that does not say of which generation it
/// speaks is believed.
fn outdated(live: &Value) -> Option<String> {
    let number = |pointer: &str| live.pointer(pointer).and_then(Value::as_i64);
    let (observed, generation) = (number("/status/observedGeneration")?, number("/metadata/generation")?);
    (observed < generation)
        .then(|| format!("the status is of generation {observed}, and the object of {generation}"))
}

fn at(path: &FeedbackPath, kind: &KindName, status: &Value) -> Result<FeedbackValue, String> {
    if !path.version.is_empty() && path.version != kind.version {
        return Err(format!("it is for version {}, and the object is of {}", path.version, kind.version));
    }
    match find(&path.path, status)? {
        Some(found) => value(&path.name, found),
        None => Err(format!("there is nothing at {}", path.path)),
    }
}

fn find<'v>(path: &str, status: &'v Value) -> Result<Option<&'v Value>, String> {
    Ok(JsonPath::read(path)?.find(status).first().copied())
}

/// A value in the field of its type.
fn value(name: &str, found: &Value) -> Result<FeedbackValue, String> {
    let mut field = FieldValue::default();
    match found {
        Value::Null => return Err("it is null".into()),
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
            field.string = Some(shorten(text, LONGEST));
        }
        other => {
            let text = other.to_string();
            if text.len() > LONGEST {
                return Err(format!("it has {} bytes, and at most {LONGEST} are reported", text.len()));
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

    /// Names and values in short.
    fn told(feedback: &Feedback) -> Value {
        let short = feedback.values.iter().map(|value| {
            let field = serde_json::to_value(&value.field_value).unwrap();
            let mut field = field.as_object().unwrap().clone();
            field.remove("type");
            (value.name.clone(), field.into_iter().next().unwrap().1)
        });
        Value::Object(short.collect())
    }

    #[test]
    fn what_is_known_of_workloads_is_reported() {
        let replicas = json!({"readyReplicas": 1, "replicas": 3, "availableReplicas": 2, "updatedReplicas": 3, "other": 9});
        let wanted = json!({"ReadyReplicas": 1, "Replicas": 3, "AvailableReplicas": 2, "UpdatedReplicas": 3});
        let daemons = json!({"numberReady": 1, "desiredNumberScheduled": 2, "numberAvailable": 1});
        let rows = [
            (kind("apps", "Deployment"), replicas.clone(), wanted.clone()),
            (kind("apps", "StatefulSet"), replicas, wanted),
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
        for (kind, status, wanted) in rows {
            let found = feedback(&[&rule], &kind, Some(&json!({"status": status})));
            assert_eq!((told(&found), found.verdict), (wanted, Verdict::Found), "{kind:?}");
        }
        let at = |observed: i64| json!({"metadata": {"generation": 2}, "status": {"observedGeneration": observed, "replicas": 3}});
        let old = feedback(&[&rule], &kind("apps", "Deployment"), Some(&at(1)));
        let words = "the status is of generation 1, and the object of 2";
        assert_eq!((told(&old), old.verdict), (json!({}), Verdict::Lacking(words.into())));
        assert_eq!(
            told(&feedback(&[&rule], &kind("apps", "Deployment"), Some(&at(2)))),
            json!({"ReadyReplicas": 0, "Replicas": 3, "AvailableReplicas": 0, "UpdatedReplicas": 0})
        );
        let found = feedback(&[&rule], &kind("", "ConfigMap"), Some(&json!({})));
        assert_eq!(found.verdict, Verdict::Lacking("no status of ConfigMap is well known".into()));
    }

    #[test]
    fn paths_lead_to_values_of_every_type_or_say_why_not() {
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
            (".null", "", Err("a: it is null")),
            (".none", "", Err("a: there is nothing at .none")),
            (".word", "v2", Err("a: it is for version v2, and the object is of v1")),
            (".huge", "", Err("a: it has 3004 bytes, and at most 1024 are reported")),
            (".a[", "", Err("a: expected \"]\" at character 3 of \".a[\"")),
        ];
        for (path, version, wanted) in rows {
            let rule = rule(
                json!({"type": "JSONPaths", "jsonPaths": [{"name": "a", "version": version, "path": path}]}),
            );
            let found = feedback(&[&rule], &kind("x.io", "Widget"), Some(&json!({"status": status})));
            match wanted {
                Ok(value) => {
                    assert_eq!(
                        (told(&found), found.verdict),
                        (json!({"a": value}), Verdict::Found),
                        "{path}"
                    );
                }
                Err(words) => assert_eq!(found.verdict, Verdict::Lacking(words.into()), "{path}"),
            }
        }
    }

    #[test]
    fn what_is_found_is_reported_beside_what_is_not() {
        let rule = rule(
            json!({"type": "JSONPaths", "jsonPaths": [{"name": "a", "path": ".a"}, {"name": "b", "path": ".b"}]}),
        );
        let found = feedback(&[&rule], &kind("x.io", "Widget"), Some(&json!({"status": {"b": 1}})));
        assert_eq!(told(&found), json!({"b": 1}));
        assert_eq!(found.verdict, Verdict::Lacking("a: there is nothing at .a".into()));
        assert_eq!(feedback(&[], &kind("", "Pod"), None), Feedback::default());
        let missing = feedback(&[&rule], &kind("", "Pod"), None);
        assert_eq!(missing.verdict, Verdict::Lacking("the object is not there".into()));
    }
}
