//! The configuration of a metrics collector: its parts, how each is parsed, and which combinations are invalid. Where it comes
//! from is left to the caller.

use std::collections::HashMap;
use std::fmt;
use std::num::{NonZeroU32, NonZeroUsize};
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

pub use super::client::{CredentialFiles, HttpUrl};
pub use super::transform::LabelRules;
use crate::vocabulary::Component;

/// The labels of the source that are removed by default.
pub const DEFAULT_ELIDED_LABELS: [&str; 3] = ["prometheus", "prometheus_replica", "managed_cluster"];
/// The time between the beginnings of two cycles by default.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(270);
/// The largest response of Prometheus by default.
pub const DEFAULT_LIMIT_BYTES: u64 = 200 * 1024;
/// How many cycles in a row fail before a failure is reported, by default.
pub const DEFAULT_FAILURE_THRESHOLD: NonZeroU32 = match NonZeroU32::new(3) {
    Some(three) => three,
    None => NonZeroU32::MIN,
};
/// The shortest interval: a cycle must end before the next one begins.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// The longest selector or query. The address of a request has a limited length.
const MAX_EXPRESSION_BYTES: usize = 8 * 1024;
const FEDERATE_PATH: &str = "/federate";
const QUERY_PATH: &str = "/api/v1/query";

/// The configuration of a collector.
#[derive(Debug, Clone)]
pub struct CollectorConfig {
    /// The component whose state the collector reports.
    pub component: Component,
    /// Prometheus.
    pub source: Source,
    /// The address that receives remote write.
    pub receiver: HttpUrl,
    /// What the collector identifies itself with to the receiver, and how it knows the receiver.
    pub receiver_files: CredentialFiles,
    /// The time between the beginnings of two cycles, and the time limit of a cycle.
    pub interval: Duration,
    /// The largest response of Prometheus.
    pub limit_bytes: u64,
    /// Which series are federated.
    pub matches: Vec<Selector>,
    /// Which queries are evaluated.
    pub recording_rules: Vec<RecordingRule>,
    /// How labels and names change.
    pub labels: LabelRules,
    /// Among how many parallel requests the selectors are divided.
    pub workers: NonZeroUsize,
    /// How many cycles in a row fail before a failure is reported.
    pub failure_threshold: NonZeroU32,
}

/// A Prometheus to collect from.
#[derive(Debug, Clone)]
pub struct Source {
    /// The address of federation.
    pub federate: HttpUrl,
    /// The address of instant queries.
    pub query: HttpUrl,
    /// What the collector identifies itself with, and how it knows Prometheus.
    pub files: CredentialFiles,
}

impl Source {
    /// The source at an address. Without a path it is `/federate`; without an address for queries, `/api/v1/query` next to it.
    pub fn new(from: &HttpUrl, from_query: Option<&HttpUrl>, files: CredentialFiles) -> Self {
        let federate = if from.path() == "/" { from.with_path(FEDERATE_PATH) } else { from.clone() };
        let query = match from_query {
            Some(url) if url.path() == "/" => url.with_path(QUERY_PATH),
            Some(url) => url.clone(),
            None => {
                let prefix = federate.path().strip_suffix(FEDERATE_PATH).unwrap_or_default();
                federate.with_path(&format!("{prefix}{QUERY_PATH}"))
            }
        };
        Self { federate, query, files }
    }
}

/// A combination of values that is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// There is nothing to collect.
    #[error("there is nothing to collect: add --match, --match-file or --recordingrule")]
    NothingToCollect,
    /// There are more workers than selectors.
    #[error(
        "--worker-number {workers} is larger than the number of selectors, which is {selectors}: every worker needs at least one; \
         lower --worker-number or add --match"
    )]
    TooManyWorkers {
        /// The number of workers.
        workers: usize,
        /// The number of selectors.
        selectors: usize,
    },
    /// The interval is too short.
    #[error("--interval {0:?} is too short: must be at least {MIN_INTERVAL:?}")]
    IntervalTooShort(Duration),
    /// Nothing fits into the limit.
    #[error("--limit-bytes must be at least 1")]
    NoBytes,
    /// A label is added twice.
    #[error("--label {0} is given twice")]
    LabelAddedTwice(String),
    /// A metric is renamed twice.
    #[error("--rename {0} is given twice")]
    RenamedTwice(String),
    /// A certificate without its key, or the other way round.
    #[error("--to-upload-cert and --to-upload-key must be given together")]
    CertificateWithoutKey,
}

impl CollectorConfig {
    /// Checks what the parts cannot check alone.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let (workers, selectors) = (self.workers.get(), self.matches.len());
        if self.matches.is_empty() && self.recording_rules.is_empty() {
            return Err(ConfigError::NothingToCollect);
        }
        // Without selectors, the default of one worker has nothing to divide.
        if workers > selectors.max(1) {
            return Err(ConfigError::TooManyWorkers { workers, selectors });
        }
        if self.interval < MIN_INTERVAL {
            return Err(ConfigError::IntervalTooShort(self.interval));
        }
        if self.limit_bytes == 0 {
            return Err(ConfigError::NoBytes);
        }
        if self.receiver_files.certificate.is_some() != self.receiver_files.key.is_some() {
            return Err(ConfigError::CertificateWithoutKey);
        }
        Ok(())
    }

    /// The selectors of each worker, dealt in turn.
    pub(crate) fn shards(&self) -> Vec<Vec<Selector>> {
        let shards = self.workers.get().min(self.matches.len());
        let shard = |start: usize| self.matches.iter().skip(start).step_by(shards).cloned().collect();
        (0..shards).map(shard).collect()
    }
}

impl LabelRules {
    /// The rules from lists, in which nothing may be given twice.
    pub fn new(
        labels: &[AddedLabel],
        renames: &[Rename],
        elided: Vec<LabelName>,
    ) -> Result<Self, ConfigError> {
        let mut add: Vec<(String, String)> = Vec::new();
        for AddedLabel { name, value } in labels {
            if add.iter().any(|(added, _)| added == name) {
                return Err(ConfigError::LabelAddedTwice(name.clone()));
            }
            add.push((name.clone(), value.clone()));
        }
        let mut rename = HashMap::new();
        for Rename { old, new } in renames {
            if rename.insert(old.clone(), new.clone()).is_some() {
                return Err(ConfigError::RenamedTwice(old.clone()));
            }
        }
        Ok(Self { add, rename, elide: elided.into_iter().map(|name| name.0).collect() })
    }
}

/// A series selector, such as `{__name__=~"up|node_.*"}`. Prometheus checks the rest of its syntax.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector(String);

impl Selector {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let has_labels = text.ends_with('}') && text.contains('{');
        if !has_labels && !is_metric_name(text) {
            return Err("must be a series selector such as '{__name__=\"up\"}' or 'up{job=\"api\"}'".into());
        }
        check_length(text)?;
        Ok(Self(text.to_owned()))
    }
}

/// Parses a file of selectors: a YAML list, or one selector per line. Lines that begin with # are comments.
pub fn parse_match_file(text: &str) -> Result<Vec<Selector>, String> {
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#') && *line != "---")
        .peekable();
    let is_list = lines.peek().is_some_and(|(_, line)| line.starts_with("- ") || line.starts_with('['));
    if is_list {
        let list: Vec<String> =
            crate::yaml::parse(text).map_err(|error| format!("it is not a YAML list: {error}"))?;
        let parse = |(index, text): (usize, &String)| {
            text.parse().map_err(|error: String| format!("item {} {text:?} {error}", index + 1))
        };
        return list.iter().enumerate().map(parse).collect();
    }
    let parse = |(number, line): (usize, &str)| {
        line.parse().map_err(|error: String| format!("line {number} {line:?} {error}"))
    };
    lines.map(parse).collect()
}

/// A query whose result is forwarded as a metric.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordingRule {
    /// The name of the metric.
    pub name: String,
    /// The PromQL query.
    pub query: String,
}

impl FromStr for RecordingRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rule: Self = serde_json::from_str(text).map_err(|error| {
            format!("must be JSON such as '{{\"name\":\"cluster:up:sum\",\"query\":\"sum(up)\"}}': {error}")
        })?;
        if !is_metric_name(&rule.name) {
            return Err(format!("name {:?} must be the name of a metric", rule.name));
        }
        if rule.query.trim().is_empty() {
            return Err("query must not be empty".into());
        }
        check_length(&rule.query)?;
        Ok(rule)
    }
}

/// A label that every series gets, as `NAME=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedLabel {
    name: String,
    value: String,
}

impl FromStr for AddedLabel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE, such as cluster=spoke-1")?;
        let LabelName(name) = name.parse()?;
        if value.is_empty() {
            return Err("must have a value: an empty label is the same as none".into());
        }
        Ok(Self { name, value: value.to_owned() })
    }
}

/// A new name of a metric, as `OLD=NEW`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rename {
    old: String,
    new: String,
}

impl FromStr for Rename {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (old, new) = text.split_once('=').ok_or("must be OLD=NEW, such as up=cluster_up")?;
        match [old, new].into_iter().find(|name| !is_metric_name(name)) {
            Some(invalid) => Err(format!("{invalid:?} must be the name of a metric")),
            None => Ok(Self { old: old.to_owned(), new: new.to_owned() }),
        }
    }
}

/// The name of a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelName(String);

impl FromStr for LabelName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !is_name(text, |_| false) {
            return Err(format!(
                "{text:?} must be the name of a label: letters, digits and _, not beginning with a digit"
            ));
        }
        if text.starts_with("__") {
            return Err(format!("{text:?} must not begin with __, which is reserved for Prometheus"));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for LabelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_metric_name(text: &str) -> bool {
    is_name(text, |character| character == ':')
}

fn is_name(text: &str, is_also_allowed: impl Fn(char) -> bool) -> bool {
    !text.is_empty()
        && !text.starts_with(|first: char| first.is_ascii_digit())
        && text.chars().all(|one| one.is_ascii_alphanumeric() || one == '_' || is_also_allowed(one))
}

fn check_length(expression: &str) -> Result<(), String> {
    match expression.len() {
        0..=MAX_EXPRESSION_BYTES => Ok(()),
        length => Err(format!("must be at most {MAX_EXPRESSION_BYTES} bytes long, not {length}")),
    }
}

#[cfg(test)]
mod tests;
