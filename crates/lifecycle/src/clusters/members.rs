//! Who is in a ManagedClusterSet. Pure.

use std::collections::BTreeMap;

use bellwether_api::cluster::vocabulary::SET_LABEL;
use bellwether_api::cluster::{ManagedCluster, ManagedClusterSet, SelectorType};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::ResourceExt as _;
use kube::core::{Expression, Selector, SelectorExt as _};

/// What is wrong with a selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Senseless {
    #[error(
        "{key} has the operator {operator:?}, which is not known: In, NotIn, Exists and DoesNotExist are"
    )]
    Operator { key: String, operator: String },
    #[error("{key} with the operator {operator} needs values")]
    NoValues { key: String, operator: String },
    #[error("{key} with the operator {operator} takes no values")]
    Values { key: String, operator: String },
    #[error("an expression names no key")]
    NoKey,
}

/// A selector of labels. What makes no sense is refused: it must not select more than was meant.
pub(crate) fn selector(selector: &LabelSelector) -> Result<Selector, Senseless> {
    let labels = selector.match_labels.iter().flatten();
    let mut all: Selector = labels.map(|(key, value)| (key.clone(), value.clone())).collect();
    all.extend(expressions(selector.match_expressions.as_deref().unwrap_or_default())?);
    Ok(all)
}

/// The expressions of a selector.
pub(crate) fn expressions(requirements: &[LabelSelectorRequirement]) -> Result<Selector, Senseless> {
    let mut all = Selector::default();
    for requirement in requirements {
        all.extend(expression(requirement)?);
    }
    Ok(all)
}

fn expression(requirement: &LabelSelectorRequirement) -> Result<Expression, Senseless> {
    let LabelSelectorRequirement { key, operator, values } = requirement;
    let told = |what: fn(String, String) -> Senseless| Err(what(key.clone(), operator.clone()));
    let has_values = values.as_ref().is_some_and(|values| !values.is_empty());
    if key.is_empty() {
        return Err(Senseless::NoKey);
    }
    match (operator.as_str(), has_values) {
        ("In" | "NotIn", true) | ("Exists" | "DoesNotExist", false) => {}
        ("In" | "NotIn", false) => return told(|key, operator| Senseless::NoValues { key, operator }),
        ("Exists" | "DoesNotExist", true) => {
            return told(|key, operator| Senseless::Values { key, operator });
        }
        _ => return told(|key, operator| Senseless::Operator { key, operator }),
    }
    Expression::try_from(requirement.clone())
        .or_else(|_| told(|key, operator| Senseless::Operator { key, operator }))
}

/// By what a cluster is in a set.
#[derive(Debug)]
pub(crate) enum Membership {
    /// By the label that names the set.
    Named(String),
    /// By labels.
    Selected(Selector),
    /// Nobody is in it: it does not say, or what it says makes no sense.
    Nobody,
}

impl Membership {
    pub(crate) fn of(set: &ManagedClusterSet) -> Self {
        let way = &set.spec.cluster_selector;
        match way.selector_type {
            SelectorType::ExclusiveClusterSetLabel => Self::Named(set.name_any()),
            SelectorType::LabelSelector => match way.label_selector.as_ref().map(selector) {
                Some(Ok(selector)) => Self::Selected(selector),
                Some(Err(_)) | None => Self::Nobody,
            },
            SelectorType::Other => Self::Nobody,
        }
    }

    pub(crate) fn has(&self, cluster: &ManagedCluster) -> bool {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        let labels = cluster.metadata.labels.as_ref().unwrap_or(&NONE);
        match self {
            Self::Named(set) => labels.get(SET_LABEL) == Some(set),
            Self::Selected(selector) => selector.matches(labels),
            Self::Nobody => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_set_has_the_clusters_that_it_says() {
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
            (
                "an operator that is not known has nobody",
                is("Near", json!(["prod"])),
                json!({"env": "prod"}),
                false,
            ),
            ("not in nothing is nobody", is("NotIn", json!([])), json!({"env": "prod"}), false),
            (
                "a way that is not known has nobody",
                json!({"selectorType": "Newer"}),
                json!({SET_LABEL: "east"}),
                false,
            ),
            ("by labels, but by none", json!({"selectorType": "LabelSelector"}), json!({}), false),
        ];
        for (sentence, way, labels, wanted) in rows {
            let set = json!({"metadata": {"name": "east"}, "spec": {"clusterSelector": way}});
            let cluster = json!({"metadata": {"name": "c", "labels": labels}});
            let set: ManagedClusterSet = serde_json::from_value(set).unwrap();
            let has = Membership::of(&set).has(&serde_json::from_value(cluster).unwrap());
            assert_eq!(has, wanted, "{sentence}");
        }
    }
}
