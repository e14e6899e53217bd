//! The configuration of a Sentinel: the file of HyperFleet's Sentinel, parsed strictly. Expressions are compiled when it is loaded.

use std::path::PathBuf;
use std::time::Duration;

use bellwether_fleet::client;
use bellwether_runtime::yaml::{self, YamlError};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value, json};
use serde_saphyr::Spanned;

use crate::decision::{Decision, ExpressionError};

/// The shortest time between two cycles.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The longest time between two cycles: a pulse is late by at most this.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// The configuration, validated.
#[derive(Debug)]
pub struct Config {
    /// The name of this Sentinel: the `source` of its events.
    pub name: String,
    /// The plural name of the kind, such as `clusters`.
    pub resource_type: String,
    /// How often all resources are evaluated.
    pub poll_interval: Duration,
    /// The fleet API.
    pub api: ApiConfig,
    /// The topic of the pulses.
    pub topic: String,
    /// The labels that a resource must have.
    pub selector: Vec<SelectorTerm>,
    /// When a resource is due, and the data of its pulse.
    pub decision: Decision,
    file: ConfigFile,
}

/// The fleet API, as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ApiConfig {
    /// The address, such as `http://127.0.0.1:8000`.
    #[serde(default, deserialize_with = "base_url")]
    pub base_url: String,
    #[serde(default = "v1", deserialize_with = "version")]
    version: String,
    /// Accepted for compatibility: requests have limits of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout: Option<String>,
    /// Accepted for compatibility: resources come from the change feed, which has no pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    page_size: Option<u32>,
    /// How this process authenticates.
    #[serde(default)]
    pub auth: ApiAuth,
}

/// How a client of the fleet API authenticates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ApiAuth {
    /// The file with a bearer token. It is read again for every connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_path: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token_cache_ttl: Option<String>,
}

/// A label that a resource must have.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SelectorTerm {
    /// The key of the label.
    #[serde(deserialize_with = "not_empty")]
    pub label: String,
    /// Its value.
    pub value: String,
}

/// A named expression. Later expressions can use its value by its name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Param {
    /// The name.
    pub name: Spanned<String>,
    /// The expression.
    pub expr: Spanned<String>,
}

/// When a resource is due.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageDecision {
    /// Evaluated in this order.
    #[serde(default)]
    pub params: Vec<Param>,
    /// The resource is due if this is true.
    pub result: Spanned<String>,
}

/// The file as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFile {
    #[serde(default)]
    sentinel: NameSection,
    #[serde(deserialize_with = "resource_type")]
    resource_type: String,
    #[serde(default = "default_poll_interval", deserialize_with = "poll_interval")]
    poll_interval: Duration,
    #[serde(default)]
    clients: Clients,
    #[serde(default)]
    resource_selector: Vec<SelectorTerm>,
    #[serde(default)]
    message_decision: Option<MessageDecision>,
    #[serde(default)]
    message_data: Option<Spanned<Map<String, Value>>>,
    /// Logs are set by --log-format and RUST_LOG; the keys are accepted for compatibility.
    #[serde(default)]
    log: LogSection,
    #[serde(default)]
    tracing_enabled: bool,
    #[serde(default)]
    debug_config: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NameSection {
    #[serde(default = "default_name", deserialize_with = "not_empty")]
    name: String,
}

impl Default for NameSection {
    fn default() -> Self {
        Self { name: default_name() }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Clients {
    #[serde(default)]
    hyperfleet_api: ApiConfig,
    #[serde(default)]
    broker: BrokerSection,
}

impl Default for ApiConfig {
    fn default() -> Self {
        Self {
            base_url: String::new(),
            version: v1(),
            timeout: None,
            page_size: None,
            auth: ApiAuth::default(),
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct BrokerSection {
    #[serde(default)]
    topic: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct LogSection {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    level: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    format: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<String>,
}

fn default_name() -> String {
    "hyperfleet-sentinel".to_owned()
}

fn default_poll_interval() -> Duration {
    Duration::from_secs(5)
}

fn v1() -> String {
    "v1".to_owned()
}

/// Values that replace those of the file: from flags and environment variables.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The kind.
    pub resource_type: Option<String>,
    /// The address of the fleet API.
    pub api: Option<String>,
    /// The topic.
    pub topic: Option<String>,
    /// The interval of cycles.
    pub poll_interval: Option<Duration>,
}

impl Overrides {
    fn check(&self) -> Result<(), ConfigError> {
        let checks = [
            ("--resource-type", self.resource_type.as_deref().map(check_resource_type)),
            ("--api", self.api.as_deref().map(check_base_url)),
            ("--poll-interval", self.poll_interval.map(check_poll_interval)),
        ];
        for (flag, checked) in checks {
            checked.unwrap_or(Ok(())).map_err(|cause| ConfigError::Flag { flag, cause })?;
        }
        Ok(())
    }
}

/// Why a configuration is rejected.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The text is not a configuration.
    #[error(transparent)]
    Text(#[from] YamlError),
    /// A setting is missing.
    #[error("{path}: {setting} is missing: set it in the file or by {flag}")]
    Missing {
        /// The file.
        path: String,
        /// The setting.
        setting: &'static str,
        /// The flag that sets it too.
        flag: &'static str,
    },
    /// A flag has an invalid value.
    #[error("{flag}: {cause}")]
    Flag {
        /// The flag.
        flag: &'static str,
        /// What must hold.
        cause: &'static str,
    },
}

impl Config {
    /// Parses the text of a file; `path` is used in errors. Without a file, the text is empty and `overrides` has the kind.
    pub fn parse(text: &str, path: &str, overrides: Overrides) -> Result<Self, ConfigError> {
        overrides.check()?;
        let file: Option<ConfigFile> = match (text.trim().is_empty(), &overrides.resource_type) {
            (true, Some(kind)) => yaml::parse(&json!({ "resource_type": kind }).to_string(), path)?,
            _ => yaml::parse(text, path)?,
        };
        let missing = |setting, flag| ConfigError::Missing { path: path.to_owned(), setting, flag };
        let mut file = file.ok_or_else(|| missing("resource_type", "--resource-type"))?;
        let Overrides { resource_type, api, topic, poll_interval } = overrides;
        set(&mut file.resource_type, resource_type);
        set(&mut file.clients.hyperfleet_api.base_url, api);
        set(&mut file.clients.broker.topic, topic);
        set(&mut file.poll_interval, poll_interval);
        if file.clients.broker.topic.is_empty() {
            // As HyperFleet's chart names it, without the namespace of the release.
            file.clients.broker.topic.clone_from(&file.resource_type);
        }
        let decision = Decision::compile(
            file.message_decision.as_ref(),
            file.message_data.as_ref().map(|data| &data.value),
        );
        let decision = decision.map_err(|error| file.place(error, path))?;
        Ok(Self {
            name: file.sentinel.name.clone(),
            resource_type: file.resource_type.clone(),
            poll_interval: file.poll_interval,
            api: file.clients.hyperfleet_api.clone(),
            topic: file.clients.broker.topic.clone(),
            selector: file.resource_selector.clone(),
            decision,
            file,
        })
    }

    /// The configuration with all defaults, as JSON. It has no secrets: tokens are in files.
    pub fn dump(&self) -> Value {
        let file = &self.file;
        let params = self.decision.params().map(|(name, expr)| json!({ "name": name, "expr": expr }));
        json!({
            "sentinel": { "name": self.name },
            "resource_type": self.resource_type,
            "poll_interval": format!("{:#}", jiff::SignedDuration::try_from(self.poll_interval).unwrap_or_default()),
            "clients": { "hyperfleet_api": self.api, "broker": { "topic": self.topic } },
            "resource_selector": self.selector,
            "message_decision": { "params": params.collect::<Vec<_>>(), "result": self.decision.result() },
            "message_data": self.decision.data(),
            "log": file.log,
            "tracing_enabled": file.tracing_enabled,
            "debug_config": file.debug_config,
        })
    }

    /// The selector in one line, for metrics: `all`, or `key=value,…`.
    pub fn selector_text(&self) -> String {
        if self.selector.is_empty() {
            return "all".to_owned();
        }
        let terms = self.selector.iter().map(|term| format!("{}={}", term.label, term.value));
        terms.collect::<Vec<_>>().join(",")
    }
}

fn set<T>(setting: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *setting = given;
    }
}

/// A value of a setting that is not allowed: what must hold.
type Rule = &'static str;

fn check_resource_type(name: &str) -> Result<(), Rule> {
    let is_plural =
        !name.is_empty() && name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-');
    if is_plural { Ok(()) } else { Err("resource_type must be the plural name of a kind, such as clusters") }
}

fn check_poll_interval(interval: Duration) -> Result<(), Rule> {
    let is_allowed = (MIN_POLL_INTERVAL..=MAX_POLL_INTERVAL).contains(&interval);
    if is_allowed { Ok(()) } else { Err("poll_interval must be from 100ms to 1h") }
}

fn check_base_url(url: &str) -> Result<(), Rule> {
    if client::has_credentials(url) {
        return Err("base_url must not have a user or a password: use auth.token_path");
    }
    Ok(())
}

/// Parses a text that a rule allows.
fn checked<'de, D: Deserializer<'de>>(
    deserializer: D,
    check: impl Fn(&str) -> Result<(), Rule>,
) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    check(&text).map_err(de::Error::custom)?;
    Ok(text)
}

fn resource_type<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    checked(deserializer, check_resource_type)
}

fn base_url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    checked(deserializer, check_base_url)
}

fn version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    checked(deserializer, |version| if version == v1() { Ok(()) } else { Err("version must be v1") })
}

fn not_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    checked(deserializer, |text| if text.is_empty() { Err("must not be empty") } else { Ok(()) })
}

fn poll_interval<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let interval = yaml::duration(deserializer)?;
    check_poll_interval(interval).map_err(de::Error::custom)?;
    Ok(interval)
}

impl ConfigFile {
    /// The place of an invalid expression in the file.
    fn place(&self, error: ExpressionError, path: &str) -> ConfigError {
        let decision = self.message_decision.as_ref();
        let location = match &error {
            ExpressionError::Param { index, .. } => {
                decision.and_then(|decision| decision.params.get(*index)).map(|param| param.expr.referenced)
            }
            ExpressionError::Name { index, .. } => {
                decision.and_then(|decision| decision.params.get(*index)).map(|param| param.name.referenced)
            }
            ExpressionError::Result(_) => decision.map(|decision| decision.result.referenced),
            ExpressionError::Data { .. } => self.message_data.as_ref().map(|data| data.referenced),
        };
        let (line, column) = location.map_or((1, 1), |at| (at.line(), at.column()));
        ConfigError::Text(YamlError { path: path.to_owned(), line, column, cause: error.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const UPSTREAM: &str = include_str!("../tests/data/upstream.yaml");

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(text, "sentinel.yaml", Overrides::default())
    }

    #[test]
    fn file_of_upstream_is_loaded_unchanged() {
        let config = parse(UPSTREAM).unwrap();
        assert_eq!(
            (config.name.as_str(), config.resource_type.as_str()),
            ("hyperfleet-sentinel", "clusters")
        );
        assert_eq!(
            (config.topic.as_str(), config.poll_interval),
            ("hyperfleet-clusters", Duration::from_secs(5))
        );
        assert_eq!(config.selector_text(), "region=us-east,shard=1");
        assert_eq!(config.decision.params().count(), 7);
    }

    #[test]
    fn dump_has_all_defaults_and_can_be_loaded_again() {
        let config = parse("resource_type: clusters").unwrap();
        let dump = config.dump();
        assert_eq!(dump["poll_interval"], "5s");
        assert_eq!(dump["message_data"]["id"], "resource.id");
        assert_eq!(dump["clients"]["broker"]["topic"], "clusters");
        assert_eq!(parse(&dump.to_string()).unwrap().dump(), dump);
    }

    #[test]
    fn flags_replace_settings_of_the_file() {
        let overrides = Overrides {
            resource_type: Some("nodepools".to_owned()),
            api: Some("http://api:8000".to_owned()),
            topic: Some("pools".to_owned()),
            poll_interval: Some(Duration::from_secs(1)),
        };
        for text in ["", UPSTREAM] {
            let config = Config::parse(text, "sentinel.yaml", overrides.clone()).unwrap();
            assert_eq!((config.resource_type.as_str(), config.topic.as_str()), ("nodepools", "pools"));
            assert_eq!(
                (config.api.base_url.as_str(), config.poll_interval),
                ("http://api:8000", Duration::from_secs(1))
            );
        }
    }

    #[test]
    fn invalid_flag_is_named() {
        let flags = Overrides { resource_type: Some("clusters".to_owned()), ..Overrides::default() };
        let rows = [
            (
                Overrides { resource_type: Some("A".to_owned()), ..flags.clone() },
                "--resource-type: resource_type must be the plural",
            ),
            (
                Overrides { api: Some("http://a:b@c".to_owned()), ..flags.clone() },
                "--api: base_url must not have a user",
            ),
            (
                Overrides { poll_interval: Some(Duration::ZERO), ..flags },
                "--poll-interval: poll_interval must be from 100ms",
            ),
        ];
        for (overrides, expected) in rows {
            let error = Config::parse("", "sentinel.yaml", overrides).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[rstest]
    #[case::nothing("", "sentinel.yaml: resource_type is missing: set it in the file or by --resource-type")]
    #[case::an_unknown_key(
        "resource_type: clusters\npoll_intervall: 5s",
        "sentinel.yaml:2:1: unknown field `poll_intervall`"
    )]
    #[case::an_unknown_key_below(
        "resource_type: clusters\nclients:\n  broker: {topik: a}",
        "sentinel.yaml:3:12: unknown field `topik`"
    )]
    #[case::no_duration(
        "resource_type: clusters\npoll_interval: soon",
        "sentinel.yaml:2:16: \"soon\" is not a duration"
    )]
    #[case::too_often(
        "resource_type: clusters\npoll_interval: 1ms",
        "sentinel.yaml:2:16: poll_interval must be from 100ms to 1h"
    )]
    #[case::no_plural(
        "resource_type: Cluster/x",
        "sentinel.yaml:1:16: resource_type must be the plural name of a kind"
    )]
    #[case::another_version(
        "resource_type: a\nclients: {hyperfleet_api: {version: v2}}",
        "sentinel.yaml:2:37: version must be v1"
    )]
    #[case::a_password(
        "resource_type: a\nclients:\n  hyperfleet_api:\n    base_url: https://me:secret@api:8000/x",
        "sentinel.yaml:4:15: base_url must not have a user or a password: use auth.token_path"
    )]
    #[case::a_label_without_a_key(
        "resource_type: a\nresource_selector:\n- {label: '', value: a}",
        "sentinel.yaml:3:11: must not be empty"
    )]
    #[case::a_param_that_is_not_cel(
        "resource_type: a\nmessage_decision:\n  params:\n  - name: b\n    expr: 'resource.generation >'\n  result: b",
        "sentinel.yaml:5:11: the expression of the param b is invalid: line 1, column "
    )]
    #[case::a_type_error(
        "resource_type: a\nmessage_decision:\n  result: 'now > 5'",
        "sentinel.yaml:3:11: the expression of result is invalid: line 1, column "
    )]
    #[case::a_result_that_is_no_bool(
        "resource_type: a\nmessage_decision:\n  result: '\"yes\"'",
        "sentinel.yaml:3:11: the expression of result is invalid: it must be a bool, and is a string"
    )]
    #[case::an_undeclared_variable(
        "resource_type: a\nmessage_decision:\n  result: unknown_param",
        "undeclared reference to 'unknown_param'"
    )]
    #[case::a_param_twice(
        "resource_type: a\nmessage_decision:\n  params:\n  - {name: b, expr: 'true'}\n  - {name: b, expr: 'true'}\n  result: b",
        "sentinel.yaml:5:12: the name of a param must be new"
    )]
    #[case::a_param_that_hides_a_variable(
        "resource_type: a\nmessage_decision:\n  params:\n  - {name: resource, expr: 'true'}\n  result: 'true'",
        "sentinel.yaml:4:12: the name of a param must be new"
    )]
    #[case::data_that_is_not_cel(
        "resource_type: a\nmessage_data:\n  owner:\n    id: 'resource.'",
        "sentinel.yaml:3:3: the expression of message_data.owner.id is invalid: line 1, column "
    )]
    #[case::data_that_is_no_expression(
        "resource_type: a\nmessage_data: {id: 5}",
        "the expression of message_data.id is invalid: it must be a string with an expression, or a map of those"
    )]
    fn invalid_file_is_rejected_with_the_place(#[case] text: &str, #[case] expected: &str) {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{error}");
    }
}
