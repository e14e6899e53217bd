//! Decides which clusters are in a ManagedClusterSet, and parses label selectors. Pure.
//! Which sets a Placement may use is left to `placement`.

use std::collections::BTreeMap;

use bellwether_api::cluster::vocabulary::SET_LABEL;
use bellwether_api::cluster::{ManagedClusterSet, SelectorType};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::ResourceExt as _;
use kube::core::{Expression, Selector, SelectorExt as _};

/// Why a label selector is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidSelector {
    #[error(
        "{key} has the operator {operator:?}, which is not known: In, NotIn, Exists and DoesNotExist are"
    )]
    Operator { key: String, operator: String },
    #[error("{key} with the operator {operator} needs values")]
    NoValues { key: String, operator: String },
    #[error("{key} with the operator {operator} takes no values")]
    Values { key: String, operator: String },
    #[error("an expression has no key")]
    NoKey,
}

/// Parses a label selector. An invalid selector is rejected, because it must not select more than intended.
pub(crate) fn parse_selector(selector: &LabelSelector) -> Result<Selector, InvalidSelector> {
    let labels = selector.match_labels.iter().flatten();
    let mut all: Selector = labels.map(|(key, value)| (key.clone(), value.clone())).collect();
    all.extend(parse_expressions(selector.match_expressions.as_deref().unwrap_or_default())?);
    Ok(all)
}

/// Parses the expressions of a label selector.
pub(crate) fn parse_expressions(
    requirements: &[LabelSelectorRequirement],
) -> Result<Selector, InvalidSelector> {
    let mut all = Selector::default();
    for requirement in requirements {
        all.extend(parse_expression(requirement)?);
    }
    Ok(all)
}

fn parse_expression(requirement: &LabelSelectorRequirement) -> Result<Expression, InvalidSelector> {
    let LabelSelectorRequirement { key, operator, values } = requirement;
    let invalid = |what: fn(String, String) -> InvalidSelector| Err(what(key.clone(), operator.clone()));
    let has_values = values.as_ref().is_some_and(|values| !values.is_empty());
    if key.is_empty() {
        return Err(InvalidSelector::NoKey);
    }
    match (operator.as_str(), has_values) {
        ("In" | "NotIn", true) | ("Exists" | "DoesNotExist", false) => {}
        ("In" | "NotIn", false) => {
            return invalid(|key, operator| InvalidSelector::NoValues { key, operator });
        }
        ("Exists" | "DoesNotExist", true) => {
            return invalid(|key, operator| InvalidSelector::Values { key, operator });
        }
        _ => return invalid(|key, operator| InvalidSelector::Operator { key, operator }),
    }
    Expression::try_from(requirement.clone())
        .or_else(|_| invalid(|key, operator| InvalidSelector::Operator { key, operator }))
}

/// How a ManagedClusterSet selects its clusters.
#[derive(Debug)]
pub(crate) enum Membership {
    /// Clusters whose label names the set.
    Named(String),
    /// Clusters that a label selector matches.
    Selected(Selector),
    /// No clusters: the selector is missing or invalid.
    None,
}

impl Membership {
    pub(crate) fn of(set: &ManagedClusterSet) -> Self {
        let selector = &set.spec.cluster_selector;
        match selector.selector_type {
            SelectorType::ExclusiveClusterSetLabel => Self::Named(set.name_any()),
            SelectorType::LabelSelector => match selector.label_selector.as_ref().map(parse_selector) {
                Some(Ok(selector)) => Self::Selected(selector),
                Some(Err(_)) | None => Self::None,
            },
            SelectorType::Other => Self::None,
        }
    }

    /// Whether a cluster with these labels is in the set.
    pub(crate) fn has(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::Named(set) => labels.get(SET_LABEL) == Some(set),
            Self::Selected(selector) => selector.matches(labels),
            Self::None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn set_contains_clusters_that_its_selector_matches() {
        let named = json!({"selectorType": "ExclusiveClusterSetLabel"});
        let by = |selector: Value| json!({"selectorType": "LabelSelector", "labelSelector": selector});
        let is = |operator: &str, values: Value| {
            by(json!({"matchExpressions": [{"key": "env", "operator": operator, "values": values}]}))
        };
        let rows = [
            ("by its name", named.clone(), json!({SET_LABEL: "east"}), true),
            ("of another", named.clone(), json!({SET_LABEL: "west"}), false),
            ("of none", named, json!({}), false),
            ("all", by(json!({})), json!({}), true),
            ("by a label", by(json!({"matchLabels": {"env": "prod"}})), json!({"env": "prod"}), true),
            ("not by another", by(json!({"matchLabels": {"env": "prod"}})), json!({"env": "test"}), false),
            ("one of", is("In", json!(["prod", "test"])), json!({"env": "test"}), true),
            ("none of", is("NotIn", json!(["prod"])), json!({"env": "prod"}), false),
            ("without", is("DoesNotExist", Value::Null), json!({}), true),
            ("unknown operator selects nothing", is("Near", json!(["prod"])), json!({"env": "prod"}), false),
            ("NotIn without values selects nothing", is("NotIn", json!([])), json!({"env": "prod"}), false),
            (
                "unknown selectorType selects nothing",
                json!({"selectorType": "Newer"}),
                json!({SET_LABEL: "east"}),
                false,
            ),
            ("LabelSelector without a selector", json!({"selectorType": "LabelSelector"}), json!({}), false),
        ];
        for (case, way, labels, wanted) in rows {
            let set = json!({"metadata": {"name": "east"}, "spec": {"clusterSelector": way}});
            let set: ManagedClusterSet = serde_json::from_value(set).unwrap();
            let has = Membership::of(&set).has(&serde_json::from_value(labels).unwrap());
            assert_eq!(has, wanted, "{case}");
        }
    }
}
