//! Metrics of Deployments as Prometheus exposes them, and which of them selectors match. Pure.

use std::fmt::Write as _;

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;

/// A series with its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    name: &'static str,
    labels: Vec<(&'static str, String)>,
    value: f64,
}

/// The series about Deployments, and one that says that the source is up.
pub(super) fn series_of(deployments: &[Deployment]) -> Vec<Series> {
    let up = Series { name: "up", labels: vec![("job", "kube-state-metrics".to_owned())], value: 1.0 };
    let of_deployment = |deployment: &Deployment| {
        let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let available = deployment.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0);
        let labels = vec![
            ("namespace", deployment.namespace().unwrap_or_default()),
            ("deployment", deployment.name_any()),
        ];
        [
            Series {
                name: "kube_deployment_spec_replicas",
                labels: labels.clone(),
                value: f64::from(replicas),
            },
            Series { name: "kube_deployment_status_replicas_available", labels, value: f64::from(available) },
        ]
    };
    std::iter::once(up).chain(deployments.iter().flat_map(of_deployment)).collect()
}

/// Formats the series that at least one selector matches.
pub(super) fn federate(series: &[Series], selectors: &[Selector], now_milliseconds: i64) -> String {
    let mut text = String::new();
    for one in series.iter().filter(|one| selectors.iter().any(|selector| selector.matches(one))) {
        text.push_str(one.name);
        for (place, (label, value)) in one.labels.iter().enumerate() {
            let separator = if place == 0 { '{' } else { ',' };
            // Names of objects need no escapes. Writing to a string cannot fail.
            let _ = write!(text, "{separator}{label}=\"{value}\"");
        }
        let end = if one.labels.is_empty() { "" } else { "}" };
        let _ = writeln!(text, "{end} {} {now_milliseconds}", one.value);
    }
    text
}

/// A series selector: all of its matchers must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selector(Vec<Matcher>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Matcher {
    label: String,
    value: String,
    is_equal: bool,
}

impl Selector {
    /// Parses `{name="value",other!="value"}`. Regular expressions are not supported.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let error = || {
            format!(
                "the built-in metrics source supports only selectors such as {{__name__=\"up\",job!=\"x\"}}, not {text}"
            )
        };
        let (name, rest) = text.split_once('{').unwrap_or((text, "}"));
        let mut rest = rest.strip_suffix('}').ok_or_else(error)?;
        let mut matchers = Vec::new();
        if !name.is_empty() {
            matchers.push(Matcher { label: "__name__".into(), value: name.into(), is_equal: true });
        }
        while !rest.is_empty() {
            let (label, after) = rest.split_once('=').ok_or_else(error)?;
            let (label, is_equal) = match label.strip_suffix('!') {
                Some(label) => (label, false),
                None => (label, true),
            };
            let (value, after) =
                after.strip_prefix('"').and_then(|after| after.split_once('"')).ok_or_else(error)?;
            if value.contains('\\') {
                return Err(error());
            }
            matchers.push(Matcher { label: label.trim().into(), value: value.into(), is_equal });
            rest = after.trim_start().strip_prefix(',').unwrap_or(after).trim_start();
        }
        if matchers.is_empty() { Err(error()) } else { Ok(Self(matchers)) }
    }

    fn matches(&self, series: &Series) -> bool {
        self.0.iter().all(|matcher| {
            let value = match matcher.label.as_str() {
                "__name__" => series.name,
                label => series
                    .labels
                    .iter()
                    .find(|(name, _)| *name == label)
                    .map_or("", |(_, value)| value.as_str()),
            };
            (value == matcher.value) == matcher.is_equal
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployments() -> Vec<Deployment> {
        let deployment = |name: &str, available: i32| {
            let object = json!({"metadata": {"namespace": "shop", "name": name}, "spec": {"replicas": 2,
                "selector": {}, "template": {}}, "status": {"availableReplicas": available}});
            serde_json::from_value(object).unwrap()
        };
        vec![deployment("web", 2), deployment("db", 0)]
    }

    #[test]
    fn selected_series_are_exposed() {
        let rows = [
            (r#"{__name__="up"}"#, "up{job=\"kube-state-metrics\"} 1 7\n"),
            ("up", "up{job=\"kube-state-metrics\"} 1 7\n"),
            (
                r#"{__name__="kube_deployment_status_replicas_available",deployment!="db"}"#,
                "kube_deployment_status_replicas_available{namespace=\"shop\",deployment=\"web\"} 2 7\n",
            ),
            (
                r#"kube_deployment_spec_replicas{namespace="shop", deployment="db"}"#,
                "kube_deployment_spec_replicas{namespace=\"shop\",deployment=\"db\"} 2 7\n",
            ),
            (r#"{__name__="other"}"#, ""),
            (r#"{job=""}"#, EVERY_DEPLOYMENT),
        ];
        const EVERY_DEPLOYMENT: &str =
            "kube_deployment_spec_replicas{namespace=\"shop\",deployment=\"web\"} 2 7
kube_deployment_status_replicas_available{namespace=\"shop\",deployment=\"web\"} 2 7
kube_deployment_spec_replicas{namespace=\"shop\",deployment=\"db\"} 2 7
kube_deployment_status_replicas_available{namespace=\"shop\",deployment=\"db\"} 0 7
";
        for (selector, wanted) in rows {
            let selector = Selector::parse(selector).unwrap();
            assert_eq!(
                federate(&series_of(&deployments()), std::slice::from_ref(&selector), 7),
                wanted,
                "{selector:?}"
            );
        }
    }

    #[test]
    fn other_selectors_are_rejected() {
        for text in
            ["", "{}", r#"{__name__=~"a.*"}"#, r#"{a!~"b"}"#, "{a=b}", r#"{a="b"#, r#"{a="\n"}"#, "{,}"]
        {
            let error = Selector::parse(text).unwrap_err();
            assert!(error.contains("supports only selectors"), "{text}: {error}");
        }
    }
}
