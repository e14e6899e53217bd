//! Conditions that the configuration adds.

use serde::Deserialize;

/// A condition as the configuration declares it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MappingConfig {
    /// What it is about.
    #[serde(rename = "type")]
    pub type_: String,
}

/// A condition that is computed from what adapters reported.
#[derive(Debug)]
pub struct Mapping {
    /// What it is about.
    pub type_: String,
}

/// Why a condition cannot be computed.
#[derive(Debug, thiserror::Error)]
pub enum MappingError {}

impl Mapping {
    /// Compiles the expressions.
    pub fn compile(config: MappingConfig) -> Result<Self, MappingError> {
        Ok(Self { type_: config.type_ })
    }

    /// The condition.
    pub fn evaluate(
        &self,
        _resource: &crate::resource::Resource,
        _statuses: &std::collections::BTreeMap<&str, &crate::resource::AdapterStatus>,
        _cause: jiff::Timestamp,
    ) -> Option<crate::resource::ResourceCondition> {
        None
    }
}
