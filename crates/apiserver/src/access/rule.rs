//! One rule of a role: which wishes it allows, and which other rules it covers.

use serde::{Deserialize, Serialize};

use super::wish::{On, Wish};

const ALL: &str = "*";

/// A rule of a role.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Hash, Serialize)]
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

    /// How many parts it is broken down into.
    pub(super) fn size(&self) -> usize {
        let resources = [self.api_groups.len(), self.resources.len(), self.resource_names.len().max(1)];
        let resources = resources.into_iter().fold(self.verbs.len(), usize::saturating_mul);
        resources.saturating_add(self.verbs.len().saturating_mul(self.non_resource_urls.len()))
    }

    /// The same as rules of one verb, one group, one resource and at most one name each, or one URL; made one by one,
    /// because there can be many.
    pub(super) fn broken_down(&self) -> impl Iterator<Item = Self> {
        let one = |text: &String| vec![text.clone()];
        let resources = self.api_groups.iter().flat_map(move |group| {
            self.resources.iter().flat_map(move |resource| {
                self.verbs.iter().flat_map(move |verb| {
                    let part = Self {
                        verbs: one(verb),
                        api_groups: one(group),
                        resources: one(resource),
                        ..Self::default()
                    };
                    let unnamed = self.resource_names.is_empty().then(|| part.clone());
                    let named = self.resource_names.iter();
                    unnamed
                        .into_iter()
                        .chain(named.map(move |name| Self { resource_names: one(name), ..part.clone() }))
                })
            })
        });
        let urls = self.non_resource_urls.iter().flat_map(move |url| {
            let part = move |verb| Self { verbs: one(verb), non_resource_urls: one(url), ..Self::default() };
            self.verbs.iter().map(part)
        });
        resources.chain(urls)
    }

    /// Whether whoever has this rule has all of that one.
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
            let wanted = rule(wanted);
            assert_eq!(wanted.broken_down().count(), wanted.size());
            assert_eq!(wanted.broken_down().all(|part| owner.covers(&part)), expected, "{wanted:?}");
        }
    }
}
