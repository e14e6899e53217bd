//! Which parts of a resource the expressions can read. Only those are kept in memory: a fleet has many resources, and most
//! expressions read a few fields.

use std::collections::HashSet;
use std::sync::LazyLock;

use bellwether_fleet::resource::Resource;
use bellwether_fleet::vocabulary::is_current;
use regex::Regex;
use serde_json::Value;

#[allow(clippy::unwrap_used, reason = "the pattern is constant, and a test uses it")]
static IDENTIFIER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\w+").unwrap());
/// `resource` as a whole: not followed by a field.
#[allow(clippy::unwrap_used, reason = "the pattern is constant, and a test uses it")]
static WHOLE_RESOURCE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\bresource\b\s*(?:[^.\s]|$|\.\s*\?)").unwrap());
/// A condition whose type is not a literal, or the list of all conditions.
#[allow(clippy::unwrap_used, reason = "the pattern is constant, and a test uses it")]
static ANY_CONDITION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"\bcondition\s*\(\s*[^"'\s]|\bconditions\b|\bstatus\s*\["#).unwrap());

/// Selects the parts of a resource that a set of expressions can read.
#[derive(Clone, Debug)]
pub(crate) enum Projection {
    /// An expression may read anything.
    Everything,
    /// The identifiers in all expressions.
    Identifiers { identifiers: HashSet<String>, all_conditions: bool },
}

impl Projection {
    pub(crate) fn of<'a>(expressions: impl Iterator<Item = &'a str>) -> Self {
        let (mut identifiers, mut all_conditions) = (HashSet::new(), false);
        for text in expressions {
            if WHOLE_RESOURCE.is_match(text) {
                return Self::Everything;
            }
            all_conditions |= ANY_CONDITION.is_match(text);
            identifiers.extend(IDENTIFIER.find_iter(text).map(|found| found.as_str().to_owned()));
        }
        Self::Identifiers { identifiers, all_conditions }
    }

    /// The JSON of the selected parts.
    pub(crate) fn apply(&self, resource: &Resource) -> Value {
        let mut json = serde_json::to_value(resource).unwrap_or_default();
        let Self::Identifiers { identifiers, all_conditions } = self else { return json };
        let Some(members) = json.as_object_mut() else { return json };
        members.retain(|name, _| name == "status" || identifiers.contains(name));
        let conditions = members.get_mut("status").and_then(|status| status.get_mut("conditions"));
        if let Some(conditions) = conditions.and_then(Value::as_array_mut).filter(|_| !all_conditions) {
            let reads_current = identifiers.iter().any(|identifier| is_current(identifier));
            conditions.retain(|condition| {
                let type_ = condition.get("type").and_then(Value::as_str).unwrap_or_default();
                identifiers.contains(type_) || (is_current(type_) && reads_current)
            });
            for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
                condition.retain(|name, _| name == "type" || identifiers.contains(name));
            }
        }
        json
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resource() -> Resource {
        let time = "2026-05-01T00:00:00Z";
        let condition = |type_: &str| {
            json!({
                "type": type_, "status": "True", "reason": "R", "message": "M", "observed_generation": 1,
                "created_time": time, "last_updated_time": time, "last_transition_time": time,
            })
        };
        serde_json::from_value(json!({
            "id": "01976b1e-5f0a-7c3e-8d2b-4a1f6e9c0b7d", "kind": "Cluster", "name": "a", "href": "/a", "spec": {"region": "x"},
            "labels": {"env": "prod"}, "generation": 1, "created_time": time, "created_by": "c", "updated_time": time,
            "updated_by": "u", "status": {"conditions": [condition("Ready"), condition("Available"), condition("DnsSuccessful")]},
        }))
        .unwrap()
    }

    #[test]
    fn only_mentioned_parts_are_kept() {
        let rows = [
            (
                vec!["resource.id", "condition('Ready').status"],
                json!({
                    "id": "01976b1e-5f0a-7c3e-8d2b-4a1f6e9c0b7d", "status": {"conditions": [{"type": "Ready", "status": "True"}]},
                }),
            ),
            // The two names of a condition are the same condition.
            (
                vec!["condition(\"Reconciled\").reason"],
                json!({
                    "status": {"conditions": [{"type": "Ready", "reason": "R"}]},
                }),
            ),
            (
                vec!["resource.labels.env == 'prod'"],
                json!({"labels": {"env": "prod"}, "status": {"conditions": []}}),
            ),
        ];
        for (expressions, expected) in rows {
            assert_eq!(
                Projection::of(expressions.iter().copied()).apply(&resource()),
                expected,
                "{expressions:?}"
            );
        }
    }

    #[test]
    fn expression_that_may_read_anything_keeps_everything() {
        let whole = serde_json::to_value(resource()).unwrap();
        for text in [
            "toJson(resource) != ''",
            "resource['id']",
            "dig(resource, 'a.b')",
            "resource",
            "resource.?labels.env",
        ] {
            assert_eq!(Projection::of([text].into_iter()).apply(&resource()), whole, "{text}");
        }
        for text in [
            "resource.status.conditions.exists(c, true)",
            "condition(resource.name).status",
            "resource.status['x']",
        ] {
            let kept = Projection::of([text].into_iter()).apply(&resource());
            assert_eq!(kept["status"], whole["status"], "{text}");
        }
    }
}
