//! Authentication of callers, and the tenant of their requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName};
use jiff::Timestamp;
use serde::Deserialize;

use super::auth::{AuthConfig, AuthError, AuthRejection, Issuers};
use super::problem::{Code, Problem};
use super::routes::Operation;
use crate::resource::Tenancy;

/// The identity of callers without authentication.
const DEFAULT_IDENTITY: &str = "system@hyperfleet.local";
/// The longest value of a tenant dimension.
const MAX_VALUE_LENGTH: usize = 63;

/// The caller of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The identity that is recorded with changes. It may be empty for reads.
    pub(crate) identity: String,
    /// The tenant whose resources the caller sees; `None` is all tenants.
    pub(crate) tenancy: Option<Tenancy>,
}

/// The configuration of tenants.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenancyConfig {
    /// Whether resources belong to tenants.
    #[serde(default)]
    pub enabled: bool,
    /// The header that marks requests of the system itself, which sees all tenants and may only report statuses.
    #[serde(default)]
    pub system_header: Option<String>,
    /// The dimensions that identify a tenant.
    #[serde(default)]
    pub dimensions: Vec<Dimension>,
}

/// One dimension of a tenant.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dimension {
    /// The header with the value.
    pub header: String,
    /// The name of the dimension.
    pub key: String,
    /// Whether every request must have the header.
    #[serde(default)]
    pub required: bool,
}

/// An error of the configuration of tenants.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum TenancyError {
    #[error("tenancy is enabled, but tenancy.dimensions has no entries; add at least one dimension")]
    NoDimensions,
    #[error("tenancy.dimensions[{index}].key must not be empty")]
    NoKey { index: usize },
    #[error("tenancy.{field} {name:?} is not a valid header name")]
    Header { field: String, name: String },
    #[error("tenancy has {0:?} twice; keys and headers must be unique")]
    Twice(String),
}

/// Authentication and tenancy of requests.
#[derive(Debug, Default)]
pub struct Access {
    issuers: Option<Arc<Issuers>>,
    tenancy: TenancyConfig,
}

impl Access {
    /// Access as configured. Key files are read now; other keys by [`keep_keys`](Self::keep_keys), or when they are first needed.
    pub fn new(auth: &AuthConfig, tenancy: TenancyConfig) -> Result<Self, AuthError> {
        Ok(Self { issuers: Issuers::new(auth)?, tenancy })
    }

    /// Access without authentication, with tenants as configured.
    pub fn open(tenancy: TenancyConfig) -> Self {
        Self { issuers: None, tenancy }
    }

    /// Refreshes the keys of issuers periodically; `None` without authentication.
    pub fn keep_keys(&self) -> Option<impl Future<Output = ()> + Send + 'static + use<>> {
        let issuers = self.issuers.clone()?;
        Some(async move { issuers.keep_keys().await })
    }

    pub(crate) async fn caller(
        &self,
        headers: &HeaderMap,
        operation: Operation,
        now: Timestamp,
    ) -> Result<Caller, Problem> {
        let identity = self.identity(headers, operation, now).await?;
        tracing::Span::current().record("caller", identity.as_str());
        Ok(Caller { identity, tenancy: self.tenancy.of(headers, operation)? })
    }

    async fn identity(
        &self,
        headers: &HeaderMap,
        operation: Operation,
        now: Timestamp,
    ) -> Result<String, AuthRejection> {
        let Some(issuers) = &self.issuers else { return Ok(DEFAULT_IDENTITY.to_owned()) };
        let authenticated = issuers.caller(headers, now).await;
        match authenticated
            .inspect_err(|rejection| tracing::info!(%rejection, "rejected the credentials of a caller"))?
        {
            Some(identity) => Ok(identity),
            None if operation.writes() => Err(AuthRejection::NoIdentity),
            None => Ok(String::new()),
        }
    }
}

impl TenancyConfig {
    pub(crate) fn check(&self) -> Result<(), TenancyError> {
        if self.enabled && self.dimensions.is_empty() {
            return Err(TenancyError::NoDimensions);
        }
        let mut keys = BTreeSet::new();
        let mut headers = BTreeSet::new();
        let mut header = |field: String, name: &String| match HeaderName::try_from(name) {
            Err(_) => Err(TenancyError::Header { field, name: name.clone() }),
            Ok(parsed) if !headers.insert(parsed.to_string()) => Err(TenancyError::Twice(name.clone())),
            Ok(_) => Ok(()),
        };
        if let Some(name) = &self.system_header {
            header("system_header".to_owned(), name)?;
        }
        for (index, dimension) in self.dimensions.iter().enumerate() {
            header(format!("dimensions[{index}].header"), &dimension.header)?;
            if dimension.key.is_empty() {
                return Err(TenancyError::NoKey { index });
            }
            if !keys.insert(&dimension.key) {
                return Err(TenancyError::Twice(dimension.key.clone()));
            }
        }
        Ok(())
    }

    /// The tenant of a request; `None` is all tenants.
    fn of(&self, headers: &HeaderMap, operation: Operation) -> Result<Option<Tenancy>, Problem> {
        if !self.enabled {
            return Ok(None);
        }
        let mut system = self.system_header.as_deref().into_iter().flat_map(|name| headers.get_all(name));
        let (claims, more) = (system.next(), system.next());
        if more.is_some() {
            // One of them may come from the client, in front of the one that the proxy sets.
            return Err(forbidden("the header that marks requests of the system must not be repeated"));
        }
        if claims.is_some_and(|value| value.as_bytes() == b"true") {
            return match operation.writes() && operation != Operation::Report {
                true => Err(forbidden("the system may only report statuses; change resources as a tenant")),
                false => Ok(None),
            };
        }
        let mut tenancy = BTreeMap::new();
        for dimension in &self.dimensions {
            let mut values = headers.get_all(&dimension.header).iter();
            let value = values.next().map(|value| value.to_str().unwrap_or_default());
            if values.next().is_some() {
                return Err(forbidden(format!("the header {} must not be repeated", dimension.header)));
            }
            match value {
                Some(value) if is_valid_value(value) => {
                    tenancy.insert(dimension.key.clone(), value.to_owned());
                }
                Some(_) => {
                    return Err(forbidden(format!(
                        "the header {} must have 1 to {MAX_VALUE_LENGTH} letters, digits, dots, dashes and underscores",
                        dimension.header
                    )));
                }
                None if dimension.required => {
                    return Err(forbidden(format!("the header {} is required", dimension.header)));
                }
                None => {}
            }
        }
        if tenancy.is_empty() {
            return Err(forbidden("no header names the tenant"));
        }
        Ok(Some(tenancy))
    }
}

fn is_valid_value(value: &str) -> bool {
    let letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    (1..=MAX_VALUE_LENGTH).contains(&value.len()) && value.chars().all(letter)
}

fn forbidden(detail: impl Into<String>) -> Problem {
    Problem::new(Code::Forbidden, detail)
}
