//! The first phase: reads params in order. A required one that fails ends the phase; an optional one is null.

use serde_json::Value;

use super::{PhaseError, Run};
use crate::config::{Param, ParamSource, read_limited};
use crate::decide::{convert, lookup};

impl Run<'_> {
    pub(super) async fn params(&mut self) -> Result<(), PhaseError> {
        let config = self.executor.config.clone();
        for param in &config.task.params {
            let value = match self.param(param).await {
                Ok(value) => value,
                Err(cause) if param.required && param.default.is_none() => {
                    return Err(PhaseError {
                        step: param.name.clone(),
                        reason: "ParamExtractionFailed",
                        message: format!("the required param {:?} has no value: {cause}", param.name),
                    });
                }
                Err(cause) => {
                    tracing::debug!(param = %param.name, %cause, "an optional param has no value");
                    // Expressions can compare it with null, and templates can give another value by `default`.
                    param.default.clone().unwrap_or_default()
                }
            };
            self.scope.set(&param.name, value);
        }
        Ok(())
    }

    /// The value of a param. An error says why there is none.
    async fn param(&self, param: &Param) -> Result<Value, String> {
        let value = match &param.source {
            ParamSource::Path(path) => {
                let found = lookup(self.scope.map(), path).filter(|value| !value.is_null());
                found.cloned().ok_or_else(|| format!("{path} is not set"))?
            }
            ParamSource::ApiCall(call) => {
                let request = self.render_call(call)?;
                let response =
                    self.executor.clients.api.call(&request).await.map_err(|error| error.to_string())?;
                if !response.is_success() {
                    return Err(format!("{} {}: {}", request.method, request.url, response.describe()));
                }
                serde_json::from_str(&response.body).map_err(|error| {
                    format!("{} {}: the response is not JSON: {error}", request.method, request.url)
                })?
            }
            ParamSource::Expression(expression) => {
                let value = expression.evaluate(self.scope.map(), self.now);
                value.map_err(|error| {
                    format!("the expression {:?} failed: {error}", expression.text().trim())
                })?
            }
            ParamSource::File { path, trim } => {
                let text = read_limited(path).map_err(|cause| format!("{}: {cause}", path.display()))?;
                Value::String(if *trim { text.trim().to_owned() } else { text })
            }
        };
        convert(value, param.kind)
    }
}
