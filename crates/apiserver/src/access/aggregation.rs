//! Roles that are made of other roles: their rules are those of all roles with certain labels.

use std::collections::HashSet;

use serde_json::Value;

use super::rule::Rule;
use crate::object::{Meta, Object, list};
use crate::selector::LabelSelector;

/// The selectors of an aggregated role.
pub(super) fn selectors(role: &Object) -> &[Value] {
    list(role, "aggregationRule.clusterRoleSelectors")
}

/// Whether a role is made of others.
pub(crate) fn is_aggregated(role: &Object) -> bool {
    !selectors(role).is_empty()
}

/// The rules that an aggregated role should have, each once, in the order of the names of the roles they are from.
pub(crate) fn aggregated(role: &Object, all: &[Object]) -> Vec<Value> {
    let mut known: HashSet<Rule> = HashSet::new();
    let mut rules = Vec::new();
    for selector in selectors(role).iter().map(LabelSelector::of) {
        for other in all.iter().filter(|other| other.name() != role.name() && selector.matches_object(other))
        {
            for value in list(other, "rules") {
                let Ok(rule) = serde_json::from_value::<Rule>(value.clone()) else { continue };
                if known.insert(rule) {
                    rules.push(value.clone());
                }
            }
        }
    }
    rules
}
