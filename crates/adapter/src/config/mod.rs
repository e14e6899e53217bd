//! The two configuration files of an adapter: loaded, validated and compiled before the first event.

mod adapter;
mod compile;
mod error;
mod fields;
mod node;
mod read_task;
mod redact;
mod task;
#[cfg(test)]
mod tests;

use std::path::Path;

use serde_json::{Value, json};

pub use adapter::{AdapterConfig, ApiConfig, Overrides, RetryBackoff};
pub use error::{ConfigError, ConfigErrors};
pub(crate) use fields::parse_duration;
pub(crate) use node::read_limited;
pub use task::{
    ApiCall, Build, Capture, Condition, DeleteRule, DiscoverBy, Discovery, LogMessage, Manifest,
    NestedDiscovery, Param, ParamSource, ParamType, Payload, Post, PostAction, Precondition, Propagation,
    Resource, TaskConfig, TransportKind, Tree, ValueSource,
};

use fields::Reader;
use node::Source;

/// Both configurations of an adapter.
#[derive(Clone, Debug)]
pub struct Config {
    /// The deployment configuration.
    pub adapter: AdapterConfig,
    /// The task configuration.
    pub task: TaskConfig,
    /// The task configuration as JSON, for the dump.
    task_json: Value,
}

impl Config {
    /// Loads and validates both files. Every error names its file, line and column.
    pub fn load(adapter: &Path, task: &Path, overrides: &Overrides) -> Result<Self, ConfigErrors> {
        let mut errors = Vec::new();
        let adapter_config =
            load_file(adapter, &mut errors, |node, reader| adapter::read(node, overrides, reader));
        let task_config = load_file(task, &mut errors, |node, reader| {
            Some((read_task::read(node, reader), node.to_json()))
        });
        match (adapter_config, task_config) {
            (Some(adapter), Some((task, task_json))) if errors.is_empty() => {
                Ok(Self { adapter, task, task_json })
            }
            _ => Err(ConfigErrors(errors)),
        }
    }

    /// Both configurations as one YAML document, with secrets redacted.
    pub fn dump(&self) -> String {
        let mut merged = self.adapter.redacted.clone();
        if let (Some(merged), Value::Object(task)) =
            (merged.as_object_mut(), redact::redact(self.task_json.clone()))
        {
            merged.extend(task);
        }
        serde_saphyr::to_string(&merged).unwrap_or_else(|_| json!(merged).to_string())
    }
}

fn load_file<T>(
    path: &Path,
    errors: &mut Vec<ConfigError>,
    read: impl FnOnce(&node::Node, &mut Reader<'_>) -> Option<T>,
) -> Option<T> {
    let source = Source::read(path).map_err(|failed| errors.extend(failed.0)).ok()?;
    let node = source.parse().map_err(|failed| errors.extend(failed.0)).ok()?;
    let mut reader = Reader::new(&source);
    let config = read(&node, &mut reader);
    errors.extend(reader.errors);
    config
}
