//! The configuration file: kinds, authentication, tenants and limits. It is parsed strictly, and validated completely before anything
//! starts.

use std::time::Duration;

use bellwether_runtime::yaml::{self, YamlError};
use serde::Deserialize;

use crate::http::{AuthConfig, AuthError, TenancyConfig, TenancyError};
use crate::kinds::{KindConfig, KindError, Kinds};
use crate::vocabulary::Vocabulary;

/// The configuration of a fleet.
///
/// ```
/// use bellwether_fleet::config::Config;
///
/// let config = Config::parse("limits: {request_timeout: 5s}", "fleet.yaml")?;
/// assert!(!config.auth_enabled());
/// let error = Config::parse("limitz: {}", "fleet.yaml").unwrap_err();
/// assert!(error.to_string().starts_with("fleet.yaml:1:1: "), "{error}");
/// # Ok::<(), bellwether_fleet::config::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Kinds in addition to the built-in ones, or replacing them.
    pub entities: Vec<KindConfig>,
    /// Authentication.
    pub auth: AuthConfig,
    /// Tenants.
    pub tenancy: TenancyConfig,
    /// Limits.
    pub limits: Limits,
    /// The names of the conditions of a resource. They are set by a flag and not by the file.
    #[serde(skip)]
    pub vocabulary: Vocabulary,
}

/// Limits of requests and of stored data.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// The maximum size of a request body.
    pub max_body_bytes: usize,
    /// The timeout of requests other than watches.
    #[serde(deserialize_with = "yaml::duration")]
    pub request_timeout: Duration,
    /// The maximum number of concurrent watches.
    pub max_watchers: usize,
    /// The retention of the status log in days.
    pub status_log_days: u32,
    /// The number of deletions that are kept for watches that resume.
    pub tombstones: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_body_bytes: crate::http::LARGEST_BODY,
            request_timeout: Duration::from_secs(30),
            max_watchers: 1000,
            status_log_days: 30,
            tombstones: 100_000,
        }
    }
}

/// The largest value of request_timeout.
const MAX_REQUEST_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// The largest value of max_body_bytes.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
/// The largest value of max_watchers.
const MAX_WATCHERS: usize = 1_000_000;
/// The largest value of status_log_days.
const MAX_LOG_DAYS: u32 = 3650;

/// Why a configuration is rejected.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ConfigError {
    #[error(transparent)]
    Text(#[from] YamlError),
    #[error("{path}: {source}")]
    Kinds { path: String, source: KindError },
    #[error("{path}: {source}")]
    Auth { path: String, source: AuthError },
    #[error("{path}: {source}")]
    Tenancy { path: String, source: TenancyError },
    #[error("{path}: limits.{field} must be from {least} to {most}")]
    Limit { path: String, field: &'static str, least: String, most: String },
}

impl Config {
    /// Parses the text of a file; `path` is used in errors. Files that it refers to are not opened.
    pub fn parse(text: &str, path: &str) -> Result<Self, ConfigError> {
        // An empty file, or one with only comments, has the defaults.
        let config: Self = yaml::parse(text, path)?.unwrap_or_default();
        config.check(path)?;
        Ok(config)
    }

    /// Whether authentication is required.
    pub fn auth_enabled(&self) -> bool {
        self.auth.enabled()
    }

    fn check(&self, path: &str) -> Result<(), ConfigError> {
        let path = || path.to_owned();
        Kinds::new(self.entities.clone(), self.vocabulary)
            .map_err(|source| ConfigError::Kinds { path: path(), source })?;
        self.auth.check().map_err(|source| ConfigError::Auth { path: path(), source })?;
        self.tenancy.check().map_err(|source| ConfigError::Tenancy { path: path(), source })?;
        let out_of_range = |field, least: &str, most: String| {
            Err(ConfigError::Limit { path: path(), field, least: least.to_owned(), most })
        };
        let Limits { max_body_bytes, request_timeout, max_watchers, status_log_days, tombstones } =
            &self.limits;
        if !(1024..=MAX_BODY_BYTES).contains(max_body_bytes) {
            return out_of_range("max_body_bytes", "1024", MAX_BODY_BYTES.to_string());
        }
        if !(Duration::from_millis(100)..=MAX_REQUEST_TIMEOUT).contains(request_timeout) {
            return out_of_range("request_timeout", "100ms", "1h".to_owned());
        }
        if *max_watchers > MAX_WATCHERS {
            return out_of_range("max_watchers", "0", MAX_WATCHERS.to_string());
        }
        if !(1..=MAX_LOG_DAYS).contains(status_log_days) {
            return out_of_range("status_log_days", "1", MAX_LOG_DAYS.to_string());
        }
        if i64::try_from(*tombstones).is_err() {
            return out_of_range("tombstones", "0", i64::MAX.to_string());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_error(text: &str) -> String {
        Config::parse(text, "fleet.yaml").expect_err(text).to_string()
    }

    #[test]
    fn empty_configuration_has_the_defaults() {
        for text in ["", "# nothing\n", "{}", "limits: {}\nauth: {}\ntenancy: {}\nentities: []"] {
            let config = Config::parse(text, "fleet.yaml").expect(text);
            assert_eq!(config.limits, Limits::default());
            assert!(!config.auth_enabled() && !config.tenancy.enabled && config.entities.is_empty());
        }
    }

    #[test]
    fn all_settings_are_parsed() {
        let text = r#"
entities:
  - kind: Cluster
    plural: clusters
    required_adapters: [validation, dns]
    spec_schema: {type: object, properties: {region: {type: string}}}
auth:
  issuers:
    - issuer_url: https://issuer.example.com
      jwk_cert_url: https://issuer.example.com/keys?all=true
      audience: fleet
      identity_claim_pattern: '@example\.com$'
      identity_header: X-User
tenancy:
  enabled: true
  system_header: X-System
  dimensions:
    - {header: X-Org, key: org, required: true}
    - {header: X-Project, key: project}
limits:
  max_body_bytes: 2097152
  request_timeout: 1m30s
  max_watchers: 10
  status_log_days: 7
  tombstones: 5
"#;
        let config = Config::parse(text, "fleet.yaml").expect("the configuration is valid");
        assert!(config.auth_enabled());
        assert_eq!(config.limits.request_timeout, Duration::from_secs(90));
        assert_eq!(config.entities.len(), 1);
        assert_eq!(config.tenancy.dimensions.len(), 2);
    }

    #[test]
    fn syntax_errors_have_a_position() {
        let rows = [
            ("entitys: []", "fleet.yaml:1:1: ", "entitys"),
            ("limits:\n  max_body: 1", "fleet.yaml:2:3: ", "max_body"),
            ("auth:\n  issuers:\n    - issuer: x", "fleet.yaml:3:7: ", "issuer"),
            ("limits: {request_timeout: 30}", "fleet.yaml:1:", "is not a duration"),
            ("limits: {request_timeout: soon}", "fleet.yaml:1:", "\"soon\" is not a duration"),
            ("limits: {request_timeout: -5s}", "fleet.yaml:1:", "is not a duration"),
            ("limits: {max_watchers: many}", "fleet.yaml:1:24: ", "invalid"),
            ("limits: {}\nlimits: {}", "fleet.yaml:2:1: ", "limits"),
            ("limits: [", "fleet.yaml:1:", ""),
            ("text", "fleet.yaml:1:1: ", ""),
        ];
        for (text, position, expected) in rows {
            let error = parse_error(text);
            assert!(error.starts_with(position) && error.contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn invalid_settings_are_rejected_with_a_cause() {
        let issuer =
            |fields: &str| format!("auth: {{issuers: [{{issuer_url: https://i.example.com, {fields}}}]}}");
        let rows = [
            ("auth: {enabled: true}".to_owned(), "auth.issuers has no entries"),
            (issuer(""), "has neither jwk_cert_url nor jwk_cert_file"),
            (
                issuer("jwk_cert_url: https://i.example.com/k, jwk_cert_file: k"),
                "has both jwk_cert_url and jwk_cert_file",
            ),
            (issuer("jwk_cert_url: http://i.example.com/k"), "https is required"),
            (issuer("jwk_cert_url: http://127.0.0.1.example.com/k"), "https is required"),
            (issuer("jwk_cert_url: http://127.0.0.1@i.example.com/k"), "https is required"),
            (issuer("jwk_cert_url: ftp://i.example.com/k"), "is not an address"),
            (issuer("jwk_cert_url: keys"), "is not an address"),
            (issuer("jwk_cert_file: k, identity_claim_pattern: '('"), "is not a regular expression"),
            (issuer("jwk_cert_file: k, identity_claim: ''"), "identity_claim must not be empty"),
            (
                "auth: {issuers: [{issuer_url: i, jwk_cert_file: k}, {issuer_url: i, jwk_cert_file: l}]}"
                    .to_owned(),
                "auth.issuers[1] has the same issuer_url and header as another",
            ),
            (issuer("jwk_cert_file: k, audience: ''"), "audience must not be empty"),
            (
                issuer("jwk_cert_file: k, header: 'a b'"),
                "auth.issuers[0].header \"a b\" is not a valid header name",
            ),
            (issuer("jwk_cert_file: k, identity_header: 'a:b'"), "auth.issuers[0].identity_header"),
            (
                "auth: {issuers: [{issuer_url: '', jwk_cert_file: k}]}".to_owned(),
                "issuer_url must not be empty",
            ),
            ("tenancy: {enabled: true}".to_owned(), "tenancy.dimensions has no entries"),
            ("tenancy: {dimensions: [{header: 'a b', key: a}]}".to_owned(), "dimensions[0].header \"a b\""),
            (
                "tenancy: {dimensions: [{header: a, key: ''}]}".to_owned(),
                "dimensions[0].key must not be empty",
            ),
            ("tenancy: {dimensions: [{header: a, key: k}, {header: A, key: l}]}".to_owned(), "\"A\" twice"),
            ("tenancy: {dimensions: [{header: a, key: k}, {header: b, key: k}]}".to_owned(), "\"k\" twice"),
            ("tenancy: {system_header: a, dimensions: [{header: a, key: k}]}".to_owned(), "\"a\" twice"),
            ("entities: [{kind: Thing, plural: resources}]".to_owned(), "resources"),
            ("limits: {max_body_bytes: 0}".to_owned(), "limits.max_body_bytes must be from 1024"),
            ("limits: {request_timeout: 0s}".to_owned(), "limits.request_timeout must be from 100ms to 1h"),
            ("limits: {status_log_days: 0}".to_owned(), "limits.status_log_days must be from 1"),
        ];
        for (text, expected) in rows {
            let error = parse_error(&text);
            assert!(error.starts_with("fleet.yaml: ") && error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn keys_can_be_read_over_http_on_this_machine() {
        for host in ["127.0.0.1:8080", "localhost", "[::1]:80"] {
            let text = format!("auth: {{issuers: [{{issuer_url: i, jwk_cert_url: 'http://{host}/k'}}]}}");
            assert!(Config::parse(&text, "fleet.yaml").is_ok(), "{host}");
        }
    }

    #[test]
    fn auth_can_be_disabled_with_issuers() {
        let text = "auth: {enabled: false, issuers: [{issuer_url: i, jwk_cert_file: k}]}";
        assert!(!Config::parse(text, "fleet.yaml").expect(text).auth_enabled());
    }

    #[test]
    fn example_of_the_documentation_is_valid() {
        let document = include_str!("../../../docs/fleet-configuration.md");
        let (_, rest) = document.split_once("```yaml\n").expect("the page has an example");
        let (example, _) = rest.split_once("```").expect("the example has an end");
        let config = Config::parse(example, "fleet.yaml").expect("the configuration is valid");
        assert!(config.auth_enabled() && config.tenancy.enabled && config.limits == Limits::default());
    }
}
