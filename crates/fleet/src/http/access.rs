//! Who asks, and whose resources they may see.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName};
use jiff::Timestamp;
use serde::Deserialize;

use super::auth::{AuthConfig, AuthError, AuthRejection, Issuers};
use super::problem::{Code, Problem};
use super::routes::Operation;
use crate::resource::Tenancy;

/// Who asks where nobody has to say.
const NOBODY_IN_PARTICULAR: &str = "system@hyperfleet.local";
/// How long a value of a tenant is at most.
const LONGEST_VALUE: usize = 63;

/// One who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// By what name changes are kept. One who only reads may have none.
    pub(crate) identity: String,
    /// Whose resources they see; `None` is everybody's.
    pub(crate) tenancy: Option<Tenancy>,
}

/// How tenants are told apart.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenancyConfig {
    /// Whether there are tenants.
    #[serde(default)]
    pub enabled: bool,
    /// The header by which the system itself says that it asks; it sees all tenants, and may only report.
    #[serde(default)]
    pub system_header: Option<String>,
    /// What makes a tenant.
    #[serde(default)]
    pub dimensions: Vec<Dimension>,
}

/// One dimension of a tenant.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dimension {
    /// The header that has its value.
    pub header: String,
    /// What it is called.
    pub key: String,
    /// Whether every request has to have it.
    #[serde(default)]
    pub required: bool,
}

/// Why tenants cannot be told apart as configured.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum TenancyError {
    #[error("tenancy is enabled, and tenancy.dimensions has nothing that would tell tenants apart")]
    NoDimensions,
    #[error("tenancy.dimensions[{index}].key must not be empty")]
    NoKey { index: usize },
    #[error("tenancy.{field} {name:?} is not the name of a header")]
    Header { field: String, name: String },
    #[error("tenancy has {0:?} twice; every key and every header stands for one thing")]
    Twice(String),
}

/// Who may do what.
#[derive(Debug, Default)]
pub struct Access {
    issuers: Option<Arc<Issuers>>,
    tenancy: TenancyConfig,
}

impl Access {
    /// As configured. Keys in files are read now; others by [`keep_keys`](Self::keep_keys), or when they are first needed.
    pub fn new(auth: &AuthConfig, tenancy: TenancyConfig) -> Result<Self, AuthError> {
        Ok(Self { issuers: Issuers::new(auth)?, tenancy })
    }

    /// Nobody has to say who they are; tenants as configured.
    pub fn open(tenancy: TenancyConfig) -> Self {
        Self { issuers: None, tenancy }
    }

    /// Reads the keys of issuers now and then, without end; `None` where there is nobody whose keys to read.
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
        let Some(issuers) = &self.issuers else { return Ok(NOBODY_IN_PARTICULAR.to_owned()) };
        let believed = issuers.caller(headers, now).await;
        match believed.inspect_err(|rejection| tracing::info!(%rejection, "a caller is not believed"))? {
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

    /// Whose resources a request is about; `None` is everybody's.
    fn of(&self, headers: &HeaderMap, operation: Operation) -> Result<Option<Tenancy>, Problem> {
        if !self.enabled {
            return Ok(None);
        }
        let mut system = self.system_header.as_deref().into_iter().flat_map(|name| headers.get_all(name));
        let (claims, more) = (system.next(), system.next());
        if more.is_some() {
            // One of them may be a stranger's, before that of the proxy.
            return Err(forbidden("the header by which the system says that it asks must be there once"));
        }
        if claims.is_some_and(|value| value.as_bytes() == b"true") {
            return match operation.writes() && operation != Operation::Report {
                true => {
                    Err(forbidden("the system may only report statuses; ask as a tenant to change resources"))
                }
                false => Ok(None),
            };
        }
        let mut tenancy = BTreeMap::new();
        for dimension in &self.dimensions {
            let mut values = headers.get_all(&dimension.header).iter();
            let value = values.next().map(|value| value.to_str().unwrap_or_default());
            if values.next().is_some() {
                return Err(forbidden(format!("the header {} comes more than once", dimension.header)));
            }
            match value {
                Some(value) if fits(value) => {
                    tenancy.insert(dimension.key.clone(), value.to_owned());
                }
                Some(_) => {
                    return Err(forbidden(format!(
                        "the header {} must have 1 to {LONGEST_VALUE} letters, digits, dots, dashes and underscores",
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
            return Err(forbidden("no header says which tenant asks"));
        }
        Ok(Some(tenancy))
    }
}

fn fits(value: &str) -> bool {
    let letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    (1..=LONGEST_VALUE).contains(&value.len()) && value.chars().all(letter)
}

fn forbidden(detail: impl Into<String>) -> Problem {
    Problem::new(Code::Forbidden, detail)
}
