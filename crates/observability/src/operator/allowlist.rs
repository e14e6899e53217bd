//! Which series a collector forwards: allowlists in ConfigMaps, merged and turned into match rules. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// The ConfigMap with the default allowlist, in the namespace of the add-on.
pub(super) const DEFAULT_CONFIGMAP: &str = "observability-metrics-allowlist";
/// The ConfigMaps with which users add series, in any namespace.
pub(super) const CUSTOM_CONFIGMAP: &str = "observability-metrics-custom-allowlist";
/// The key of the allowlist for the platform collector.
pub(super) const PLATFORM_KEY: &str = "metrics_list.yaml";
/// The key of the allowlist for the collector of user workloads.
pub(super) const USER_WORKLOAD_KEY: &str = "uwl_metrics_list.yaml";

/// The series to forward.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Allowlist {
    /// Series selectors such as `{__name__="up"}`.
    pub(super) matches: BTreeSet<String>,
    /// New names of metrics, by their old names.
    pub(super) renames: BTreeMap<String, String>,
    /// Queries whose results are forwarded, by the name of the resulting metric.
    pub(super) recording_rules: BTreeMap<String, String>,
}

/// An allowlist as users write it. Rules of other kinds are accepted and ignored, as they are not supported.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Document {
    names: Vec<String>,
    matches: Vec<String>,
    renames: BTreeMap<String, String>,
    recording_rules: Vec<RecordingRule>,
    rules: Vec<RecordingRule>,
}

#[derive(Debug, Deserialize)]
struct RecordingRule {
    record: String,
    expr: String,
}

impl Allowlist {
    /// Parses an allowlist. All selectors are limited to `namespace`, if there is one.
    pub(super) fn parse(yaml: &str, namespace: Option<&str>) -> Result<Self, String> {
        let document: Option<Document> = crate::yaml::parse(yaml)?;
        let document = document.unwrap_or_default();
        let names = document.names.iter().map(|name| format!("__name__=\"{name}\""));
        let matches = document.matches.iter().map(|text| text.trim().trim_matches(['{', '}']).to_owned());
        let limited = |matchers: String| match namespace {
            Some(namespace) => format!("{{{matchers},namespace=\"{namespace}\"}}"),
            None => format!("{{{matchers}}}"),
        };
        let rules = document.recording_rules.into_iter().chain(document.rules);
        Ok(Self {
            matches: names.chain(matches).map(limited).collect(),
            renames: document.renames,
            recording_rules: rules.map(|rule| (rule.record, rule.expr)).collect(),
        })
    }

    /// Adds the series of another allowlist.
    pub(super) fn extend(&mut self, other: Self) {
        self.matches.extend(other.matches);
        self.renames.extend(other.renames);
        self.recording_rules.extend(other.recording_rules);
    }

    /// Whether there is nothing to forward.
    pub(super) fn is_empty(&self) -> bool {
        self.matches.is_empty() && self.recording_rules.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_matches_become_selectors() {
        let yaml = "names: [up, go_info]\nmatches:\n- __name__=\"x\",job=\"a\"\nrenames: {a: b}\nrecording_rules:\n- {record: r, expr: sum(up)}\ncollect_rules: []\n";
        let list = Allowlist::parse(yaml, None).unwrap();
        let matches: Vec<&str> = list.matches.iter().map(String::as_str).collect();
        assert_eq!(matches, [r#"{__name__="go_info"}"#, r#"{__name__="up"}"#, r#"{__name__="x",job="a"}"#]);
        assert_eq!(list.renames["a"], "b");
        assert_eq!(list.recording_rules["r"], "sum(up)");
    }

    #[test]
    fn selectors_of_users_are_limited_to_their_namespace() {
        let list = Allowlist::parse("names: [up]", Some("shop")).unwrap();
        assert_eq!(list.matches, [r#"{__name__="up",namespace="shop"}"#.to_owned()].into());
    }

    #[test]
    fn empty_document_is_an_empty_list_and_invalid_yaml_an_error() {
        assert!(Allowlist::parse("", None).unwrap().is_empty());
        assert!(Allowlist::parse("names: 7", None).is_err());
    }
}
