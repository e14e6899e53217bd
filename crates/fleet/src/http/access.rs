//! Who asks, and whose resources they may see.

use std::collections::BTreeMap;

use axum::http::HeaderMap;
use serde::Deserialize;

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
    /// By what name changes are kept.
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

/// Who may do what.
#[derive(Debug, Default)]
pub struct Access {
    tenancy: TenancyConfig,
}

impl Access {
    /// Nobody has to say who they are; tenants as configured.
    pub fn open(tenancy: TenancyConfig) -> Self {
        Self { tenancy }
    }

    pub(crate) async fn caller(&self, headers: &HeaderMap, operation: Operation) -> Result<Caller, Problem> {
        let identity = NOBODY_IN_PARTICULAR.to_owned();
        Ok(Caller { identity, tenancy: self.tenancy.of(headers, operation)? })
    }
}

impl TenancyConfig {
    /// Whose resources a request is about; `None` is everybody's.
    fn of(&self, headers: &HeaderMap, operation: Operation) -> Result<Option<Tenancy>, Problem> {
        if !self.enabled {
            return Ok(None);
        }
        let system = self.system_header.as_deref().and_then(|name| headers.get(name));
        if system.is_some_and(|value| value.as_bytes() == b"true") {
            return match operation.writes() && operation != Operation::Report {
                true => {
                    Err(forbidden("the system may only report statuses; ask as a tenant to change resources"))
                }
                false => Ok(None),
            };
        }
        let mut tenancy = BTreeMap::new();
        for dimension in &self.dimensions {
            match headers.get(&dimension.header).map(|value| value.to_str().unwrap_or_default()) {
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
