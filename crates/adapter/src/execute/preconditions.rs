//! The second phase: checks preconditions in order, and stops at the first that is not met.

use serde_json::{Map, Value};

use super::{PhaseError, Run};
use crate::config::{ApiCall, Precondition, ValueSource};
use crate::decide::lookup;
use crate::trace::{Status, TracedPrecondition};

/// Whether resources may be touched.
pub(super) enum Verdict {
    Met,
    NotMet(String),
    /// The API says that the resource of the event does not exist.
    ResourceGone(String),
}

/// The outcome of one precondition.
enum Checked {
    Met,
    NotMet(String),
    ResourceGone(String),
    Failed(String),
}

impl Run<'_> {
    pub(super) async fn preconditions(&mut self) -> Result<Verdict, PhaseError> {
        let config = self.executor.config.clone();
        for precondition in &config.task.preconditions {
            let checked = self.precondition(precondition).await;
            let name = precondition.name.clone();
            let (status, matched, error) = match &checked {
                Checked::Met => (Status::Success, true, None),
                Checked::NotMet(reason) | Checked::ResourceGone(reason) => {
                    (Status::Success, false, Some(reason.clone()))
                }
                Checked::Failed(error) => (Status::Failed, false, Some(error.clone())),
            };
            self.trace.preconditions.push(TracedPrecondition { name: name.clone(), status, matched, error });
            match checked {
                Checked::Met => self.log(precondition.log.as_ref()),
                Checked::NotMet(reason) => {
                    return Ok(Verdict::NotMet(format!("precondition {name:?} is not met: {reason}")));
                }
                Checked::ResourceGone(reason) => return Ok(Verdict::ResourceGone(reason)),
                Checked::Failed(message) => {
                    let message = format!("precondition {name:?} failed: {message}");
                    return Err(PhaseError { step: name, reason: "PreconditionFailed", message });
                }
            }
        }
        Ok(Verdict::Met)
    }

    async fn precondition(&mut self, precondition: &Precondition) -> Checked {
        let mut response = Map::new();
        if let Some(call) = &precondition.api_call {
            match self.call_for_json(call).await {
                Ok(Response::Json(Value::Object(fields))) => response = fields,
                Ok(Response::Json(other)) => {
                    response.insert("response".to_owned(), other);
                }
                Ok(Response::Missing(reason)) => return Checked::ResourceGone(reason),
                Err(error) => return Checked::Failed(error),
            }
        }
        if let Err(error) = self.capture(precondition, response) {
            return Checked::Failed(error);
        }
        for condition in &precondition.conditions {
            let actual = lookup(self.scope.map(), &condition.field);
            match condition.operator.holds(actual, &condition.value) {
                Ok(true) => {}
                Ok(false) => {
                    let shown = actual.map_or("nothing".to_owned(), Value::to_string);
                    let operator = condition.operator.name();
                    return Checked::NotMet(format!(
                        "{} is {shown}, wanted {operator} {}",
                        condition.field, condition.value
                    ));
                }
                Err(error) => return Checked::Failed(format!("{}: {error}", condition.field)),
            }
        }
        match &precondition.expression {
            None => Checked::Met,
            // As upstream, an expression that fails at run time is one that is not met.
            Some(expression) => match expression.evaluate_bool(self.scope.map(), self.now) {
                Ok(true) => Checked::Met,
                Ok(false) => Checked::NotMet(format!("{} is false", expression.text().trim())),
                Err(error) => Checked::NotMet(error),
            },
        }
    }

    async fn call_for_json(&self, call: &ApiCall) -> Result<Response, String> {
        let request = self.render_call(call)?;
        let response = self.executor.clients.api.call(&request).await.map_err(|error| error.to_string())?;
        if response.is_resource_missing() {
            return Ok(Response::Missing(format!(
                "{} {}: {}",
                request.method,
                request.url,
                response.describe()
            )));
        }
        if !response.is_success() {
            return Err(format!("{} {}: {}", request.method, request.url, response.describe()));
        }
        let parsed = serde_json::from_str(&response.body);
        parsed
            .map(Response::Json)
            .map_err(|error| format!("{}: the response is not JSON: {error}", request.url))
    }

    /// Sets captured variables. Expressions see the fields of the response beside the variables.
    fn capture(&mut self, precondition: &Precondition, response: Map<String, Value>) -> Result<(), String> {
        if precondition.captures.is_empty() {
            return Ok(());
        }
        let mut variables = self.scope.map().clone();
        variables.extend(response.clone());
        for capture in &precondition.captures {
            let found = match &capture.value {
                ValueSource::Field(field) => {
                    let found = lookup(&response, field).or_else(|| lookup(&variables, field));
                    found.cloned().ok_or_else(|| format!("the response has no field {field:?}"))
                }
                ValueSource::Expression(expression) => {
                    expression.evaluate(&variables, self.now).map_err(|error| {
                        format!("the expression {:?} failed: {error}", expression.text().trim())
                    })
                }
            };
            let value = match (found, &capture.default) {
                (Ok(Value::Null) | Err(_), Some(default)) => default.clone(),
                (Ok(value), _) => value,
                (Err(error), None) => return Err(format!("capture {:?}: {error}", capture.name)),
            };
            variables.insert(capture.name.clone(), value.clone());
            self.scope.set(&capture.name, value);
        }
        Ok(())
    }
}

enum Response {
    Json(Value),
    Missing(String),
}
