//! One rule of a role: which wishes it allows, and which other rules it covers.

use serde::{Deserialize, Serialize};

use super::wish::{On, Wish};

const ALL: &str = "*";

/// A rule of a role.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Rule {
    #[serde(deserialize_with = "list")]
    pub(crate) verbs: Vec<String>,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub(crate) api_groups: Vec<String>,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub(crate) resources: Vec<String>,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub(crate) resource_names: Vec<String>,
    #[serde(rename = "nonResourceURLs", deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub(crate) non_resource_urls: Vec<String>,
}

/// Lists that are null are empty.
fn list<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Rule {
    /// Whether this rule allows a wish.
    pub(crate) fn allows(&self, wish: &Wish<'_>) -> bool {
        if !has(&self.verbs, wish.verb) {
            return false;
        }
        match wish.on {
            On::Path(path) => self.non_resource_urls.iter().any(|url| url_covers(url, path)),
            On::Resource { group, resource, subresource, name, .. } => {
                has(&self.api_groups, group)
                    && self.resources.iter().any(|allowed| names_resource(allowed, resource, subresource))
                    && (self.resource_names.is_empty() || self.resource_names.iter().any(|it| it == name))
            }
        }
    }

    /// The same as rules of one verb, one group, one resource and at most one name each, or one URL.
    pub(super) fn broken_down(&self) -> Vec<Self> {
        let one = |text: &str| vec![text.to_owned()];
        let mut parts = Vec::new();
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let part = Self {
                        verbs: one(verb),
                        api_groups: one(group),
                        resources: one(resource),
                        ..Self::default()
                    };
                    if self.resource_names.is_empty() {
                        parts.push(part);
                        continue;
                    }
                    let named = self
                        .resource_names
                        .iter()
                        .map(|name| Self { resource_names: one(name), ..part.clone() });
                    parts.extend(named);
                }
            }
        }
        for url in &self.non_resource_urls {
            let part =
                |verb: &String| Self { verbs: one(verb), non_resource_urls: one(url), ..Self::default() };
            parts.extend(self.verbs.iter().map(part));
        }
        parts
    }

    /// Whether whoever has this rule has that one, which is broken down.
    pub(super) fn covers(&self, part: &Self) -> bool {
        let names = match part.resource_names.as_slice() {
            [] => self.resource_names.is_empty(),
            names => {
                self.resource_names.is_empty() || names.iter().all(|name| self.resource_names.contains(name))
            }
        };
        let resource = |wanted: &String| {
            self.resources.iter().any(|allowed| match wanted.split_once('/') {
                Some((resource, subresource)) => names_resource(allowed, resource, subresource),
                None => allowed == ALL || allowed == wanted,
            })
        };
        part.verbs.iter().all(|verb| has(&self.verbs, verb))
            && part.api_groups.iter().all(|group| has(&self.api_groups, group))
            && part.resources.iter().all(resource)
            && names
            && part
                .non_resource_urls
                .iter()
                .all(|path| self.non_resource_urls.iter().any(|url| url_covers(url, path)))
    }
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|allowed| allowed == ALL || allowed == wanted)
}

/// Whether `pods`, `pods/status`, `*/status` or `*` in a rule is a resource or a part of it.
fn names_resource(allowed: &str, resource: &str, subresource: &str) -> bool {
    if allowed == ALL {
        return true;
    }
    match (allowed.split_once('/'), subresource) {
        (None, "") => allowed == resource,
        (Some((whole, part)), subresource) => part == subresource && (whole == ALL || whole == resource),
        (None, _) => false,
    }
}

/// Whether `/path` or `/path/*` in a rule is a path.
fn url_covers(allowed: &str, path: &str) -> bool {
    allowed == path || (allowed.ends_with('*') && path.starts_with(allowed.trim_end_matches('*')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rule(value: serde_json::Value) -> Rule {
        serde_json::from_value(value).unwrap()
    }

    fn wish<'a>(verb: &'a str, group: &'a str, resource: &'a str, name: &'a str) -> Wish<'a> {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        Wish { verb, on: On::Resource { group, resource, subresource, namespace: "", name } }
    }

    #[test]
    fn a_rule_allows_what_it_names_and_nothing_else() {
        let pods =
            rule(json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/scale"]}));
        let one =
            rule(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "resourceNames": ["a"]}));
        for (rule, wish, expected) in [
            (&pods, wish("get", "", "pods", "x"), true),
            (&pods, wish("delete", "", "pods", "x"), false),
            (&pods, wish("get", "apps", "pods", "x"), false),
            (&pods, wish("get", "", "pods/status", "x"), false),
            (&pods, wish("get", "", "anything/scale", "x"), true),
            (&pods, wish("get", "", "scale", "x"), false),
            (&one, wish("get", "apps", "deployments/status", "a"), true),
            (&one, wish("get", "apps", "deployments", "b"), false),
            (&one, wish("list", "apps", "deployments", ""), false),
            (&one, Wish { verb: "get", on: On::Path("/version") }, false),
        ] {
            assert_eq!(rule.allows(&wish), expected, "{wish:?}");
        }
    }

    #[test]
    fn a_url_may_end_in_a_star() {
        let urls = rule(json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/api/*"]}));
        for (path, expected) in
            [("/healthz", true), ("/healthz/x", false), ("/api/v1", true), ("/api", false), ("/apis", false)]
        {
            assert_eq!(urls.allows(&Wish { verb: "get", on: On::Path(path) }), expected, "{path}");
        }
    }

    #[test]
    fn a_rule_covers_what_it_allows_in_full() {
        let edit =
            rule(json!({"verbs": ["get", "update"], "apiGroups": [""], "resources": ["pods", "*/status"]}));
        let named =
            rule(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}));
        for (owner, wanted, expected) in [
            (&edit, json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}), true),
            (
                &edit,
                json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}),
                true,
            ),
            (&edit, json!({"verbs": ["get"], "apiGroups": [""], "resources": ["x/status"]}), true),
            (&edit, json!({"verbs": ["*"], "apiGroups": [""], "resources": ["pods"]}), false),
            (&edit, json!({"verbs": ["get"], "apiGroups": ["*"], "resources": ["pods"]}), false),
            (&edit, json!({"verbs": ["get"], "apiGroups": [""], "resources": ["*"]}), false),
            (&named, json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}), false),
            (
                &named,
                json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["b"]}),
                false,
            ),
        ] {
            let parts = rule(wanted.clone()).broken_down();
            assert_eq!(parts.iter().all(|part| owner.covers(part)), expected, "{wanted}");
        }
    }
}
