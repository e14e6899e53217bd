//! The variables of an execution: params and captured values at the top, and `adapter`, `config`, `env`, `event` and
//! `resources` beside them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Event;
use crate::config::AdapterConfig;
use crate::trace::Phase;

const BUILT_IN: [&str; 5] = ["adapter", "config", "env", "event", "resources"];

#[derive(Clone, Debug)]
pub(super) struct Scope {
    /// Always an object.
    variables: Value,
    empty: Map<String, Value>,
}

impl Scope {
    pub(super) fn new(adapter: &AdapterConfig, env: &BTreeMap<String, String>, event: &Event) -> Self {
        let variables = json!({
            "adapter": {
                "name": adapter.name,
                "version": adapter.version.as_deref().unwrap_or_default(),
                "executionStatus": "success",
                "resourcesSkipped": false,
                "skipReason": "",
                "errorReason": "",
                "errorMessage": "",
                "resourceErrors": {},
            },
            "config": adapter.redacted,
            "env": env,
            "event": event.data,
            "resources": {},
        });
        Self { variables, empty: Map::new() }
    }

    /// All variables, as templates see them.
    pub(super) fn value(&self) -> &Value {
        &self.variables
    }

    /// All variables, as expressions see them.
    pub(super) fn map(&self) -> &Map<String, Value> {
        self.variables.as_object().unwrap_or(&self.empty)
    }

    pub(super) fn set(&mut self, name: &str, value: Value) {
        if let Some(variables) = self.variables.as_object_mut() {
            variables.insert(name.to_owned(), value);
        }
    }

    /// Params and captured values.
    pub(super) fn user_variables(&self) -> Map<String, Value> {
        let user = self.map().iter().filter(|(name, _)| !BUILT_IN.contains(&name.as_str()));
        user.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    pub(super) fn resources(&self) -> &Map<String, Value> {
        self.map().get("resources").and_then(Value::as_object).unwrap_or(&self.empty)
    }

    /// Sets or removes `resources.<name>`.
    pub(super) fn set_resource(&mut self, name: &str, object: Option<Value>) {
        let Some(resources) = self.variables.get_mut("resources").and_then(Value::as_object_mut) else {
            return;
        };
        match object {
            Some(object) => resources.insert(name.to_owned(), object),
            None => resources.remove(name),
        };
    }

    pub(super) fn skip_resources(&mut self, reason: &str) {
        self.set_adapter("resourcesSkipped", json!(true));
        self.set_adapter("skipReason", json!(reason));
    }

    pub(super) fn fail(&mut self, phase: Phase, step: &str, reason: &str, message: &str) {
        self.set_adapter("executionStatus", json!("failed"));
        self.set_adapter("errorReason", json!(reason));
        self.set_adapter("errorMessage", json!(message));
        self.set_adapter(
            "executionError",
            json!({"phase": phase.to_string(), "step": step, "message": message}),
        );
    }

    pub(super) fn add_resource_error(&mut self, name: &str, reason: &str, message: &str) {
        if let Some(errors) =
            self.variables.pointer_mut("/adapter/resourceErrors").and_then(Value::as_object_mut)
        {
            errors.insert(name.to_owned(), json!({"reason": reason, "message": message}));
        }
    }

    fn set_adapter(&mut self, field: &str, value: Value) {
        if let Some(adapter) = self.variables.get_mut("adapter").and_then(Value::as_object_mut) {
            adapter.insert(field.to_owned(), value);
        }
    }
}
