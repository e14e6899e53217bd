//! Nobody grants what they do not have: a role may hold only rules that its author has, and a binding may be made only
//! to a role whose rules its author has, unless somebody allowed them to `escalate` or to `bind`.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::policy::{Policy, RoleRef};
use super::rule::Rule;
use super::wish::{On, Wish};
use crate::identity::{Identity, MASTERS};
use crate::object::{Meta, Object};
use crate::registry::Resource;
use crate::status::{Answer, Qualified, Refusal};

/// How many combinations of verb, group, resource and name are looked at one by one.
const PARTS: usize = 20_000;
/// How many missing rights are named.
const NAMED: usize = 1_000;

/// Checks a role or binding that somebody writes. Objects of other kinds pass.
pub(crate) fn check(
    policy: &Policy,
    identity: &Identity,
    resource: &Resource,
    namespace: &str,
    old: Option<&Object>,
    new: &Object,
) -> Answer<()> {
    if resource.group != super::GROUP || identity.groups.iter().any(|group| group == MASTERS) {
        return Ok(());
    }
    if old.is_some_and(|old| changes_only_owners(old, new)) {
        return Ok(());
    }
    let author = Author { policy, identity, namespace };
    match resource.plural.as_str() {
        "roles" | "clusterroles" => author.check_role(resource, old, new),
        "rolebindings" | "clusterrolebindings" => author.check_binding(resource, new),
        _ => Ok(()),
    }
}

/// Whether an update only lets the garbage collector do its work.
fn changes_only_owners(old: &Object, new: &Object) -> bool {
    let strip = |object: &Object| {
        let mut object = object.clone();
        let meta = object.meta_mut();
        for key in ["ownerReferences", "finalizers", "managedFields", "resourceVersion"] {
            meta.remove(key);
        }
        object
    };
    strip(old) == strip(new)
}

struct Author<'a> {
    policy: &'a Policy,
    identity: &'a Identity,
    namespace: &'a str,
}

impl Author<'_> {
    fn check_role(&self, resource: &Resource, old: Option<&Object>, new: &Object) -> Answer<()> {
        if self.may("escalate", &resource.plural, new.name()) {
            return Ok(());
        }
        self.check_rules(resource.qualified(), new.name(), &rules_of(new))?;
        if old.is_some_and(aggregates) || aggregates(new) {
            let everything = [
                Rule { verbs: star(), api_groups: star(), resources: star(), ..Rule::default() },
                Rule { verbs: star(), non_resource_urls: star(), ..Rule::default() },
            ];
            if !self.missing(&everything).is_empty() {
                let why = "must have cluster-admin privileges to use the aggregationRule";
                return Err(Refusal::forbidden(resource.qualified(), new.name(), why));
            }
        }
        Ok(())
    }

    fn check_binding(&self, resource: &Resource, new: &Object) -> Answer<()> {
        let role: RoleRef =
            new.get("roleRef").and_then(|role| serde_json::from_value(role.clone()).ok()).unwrap_or_default();
        let plural = match role.kind.as_str() {
            "Role" => "roles",
            "ClusterRole" => "clusterroles",
            // What is wrong with it is said by the rules of the kind.
            _ => return Ok(()),
        };
        if self.may("bind", plural, &role.name) {
            return Ok(());
        }
        let Some(rules) = self.policy.rules_behind(&role, self.namespace) else {
            // In the words of Kubernetes, which names the binding's resource and the role.
            return Err(Refusal::not_found(resource.qualified(), &role.name));
        };
        self.check_rules(resource.qualified(), new.name(), &rules)
    }

    fn may(&self, verb: &str, resource: &str, name: &str) -> bool {
        let on =
            On::Resource { group: super::GROUP, resource, subresource: "", namespace: self.namespace, name };
        self.policy.allows(self.identity, &Wish { verb, on })
    }

    fn check_rules(&self, resource: Qualified<'_>, name: &str, rules: &[Rule]) -> Answer<()> {
        let held: Vec<&Rule> = self.policy.rules_of(self.identity, self.namespace).collect();
        let left = rules.iter().filter(|rule| !held.iter().any(|held| held.covers(rule)));
        if left.fold(0, |sum: usize, rule| sum.saturating_add(rule.size())) > PARTS {
            let why = format!(
                "the rules of a role have more than {PARTS} combinations that are not held as a whole"
            );
            return Err(Refusal::forbidden(resource, name, why));
        }
        let missing = self.missing(rules);
        if missing.is_empty() {
            return Ok(());
        }
        let words: BTreeSet<String> = compact(missing).iter().map(describe).collect();
        let words: Vec<String> = words.into_iter().collect();
        let why = format!(
            "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            self.identity.user,
            quoted(&self.identity.groups),
            words.get(..NAMED).unwrap_or(&words).join("\n")
        );
        let gaps = self.policy.gaps(self.identity, self.namespace);
        let gaps = if gaps.is_empty() {
            gaps
        } else {
            format!("; resolution errors: {}", gaps.replacen("RBAC: ", "", 1))
        };
        Err(Refusal::forbidden(resource, name, format!("{why}{gaps}")))
    }

    /// The parts of rules that the author does not have.
    fn missing(&self, rules: &[Rule]) -> Vec<Rule> {
        let held: Vec<&Rule> = self.policy.rules_of(self.identity, self.namespace).collect();
        let whole = |rule: &&Rule| !held.iter().any(|held| held.covers(rule));
        let parts = rules.iter().filter(whole).flat_map(Rule::broken_down);
        parts.filter(|part| !held.iter().any(|rule| rule.covers(part))).collect()
    }
}

fn star() -> Vec<String> {
    vec!["*".to_owned()]
}

pub(super) fn rules_of(role: &Object) -> Vec<Rule> {
    let rules = role.get("rules").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    rules.iter().filter_map(|rule| serde_json::from_value(rule.clone()).ok()).collect()
}

fn aggregates(role: &Object) -> bool {
    !super::aggregation::selectors(role).is_empty()
}

/// Parts of one resource become one rule again, with all their verbs.
fn compact(parts: Vec<Rule>) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    let mut places = HashMap::new();
    for part in parts {
        let alike = (part.api_groups.clone(), part.resources.clone(), part.resource_names.clone());
        let place: Option<usize> = places.get(&alike).copied().filter(|_| !part.resources.is_empty());
        match place.and_then(|place| rules.get_mut(place)) {
            Some(rule) => rule.verbs.extend(part.verbs),
            None => {
                places.insert(alike, rules.len());
                rules.push(part);
            }
        }
    }
    rules
}

fn describe(rule: &Rule) -> String {
    let parts = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.non_resource_urls),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(_, list)| !list.is_empty())
        .map(|(name, list)| format!("{name}:{}", quoted(list)))
        .collect();
    format!("{{{}}}", parts.join(", "))
}

fn quoted(list: &[String]) -> String {
    let quoted: Vec<String> = list.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", quoted.join(" "))
}
