//! The last phase: builds payloads and runs post actions, on every event.

use serde_json::Value;

use super::Run;
use crate::config::PostAction;
use crate::decide::{Built, build_payload};
use crate::trace::{Phase, Report, Status, TracedPostAction};

/// The outcome of one post action.
enum Outcome {
    Done,
    Skipped(String),
    /// The resource of the event does not exist any more.
    ResourceGone(String),
    /// A retry of the event does not help.
    Failed(String),
    /// The API is down: a retry of the event helps.
    Unreachable(String),
}

impl Run<'_> {
    pub(super) async fn post(&mut self) {
        let config = self.executor.config.clone();
        if let Err(error) = self.build_payloads(&config.task.post) {
            self.trace.errors.insert(Phase::PostActions, error);
            // Without a payload there is no report, and another delivery would not change that.
            return;
        }
        for action in &config.task.post.actions {
            let outcome = self.post_action(action).await;
            let (status, skip_reason, error) = match &outcome {
                Outcome::Done => (Status::Success, None, None),
                Outcome::Skipped(reason) | Outcome::ResourceGone(reason) => {
                    (Status::Success, Some(reason.clone()), None)
                }
                Outcome::Failed(error) | Outcome::Unreachable(error) => {
                    (Status::Failed, None, Some(error.clone()))
                }
            };
            let skipped = skip_reason.is_some();
            let name = action.name.clone();
            self.trace.post_actions.push(TracedPostAction {
                name: name.clone(),
                status,
                skipped,
                skip_reason,
                error,
            });
            match outcome {
                Outcome::Done | Outcome::Skipped(_) => {}
                Outcome::ResourceGone(_) => {
                    self.trace.report = Report::ResourceGone;
                    return;
                }
                Outcome::Failed(error) => {
                    self.trace.errors.insert(Phase::PostActions, format!("post action {name:?}: {error}"));
                    return;
                }
                Outcome::Unreachable(error) => {
                    self.trace.errors.insert(Phase::PostActions, format!("post action {name:?}: {error}"));
                    self.trace.report = Report::Undelivered;
                    return;
                }
            }
        }
    }

    fn build_payloads(&mut self, post: &crate::config::Post) -> Result<(), String> {
        let mut texts = Vec::new();
        for payload in &post.payloads {
            let is_wanted = match &payload.when {
                None => true,
                Some(when) => when
                    .evaluate_bool(self.scope.map(), self.now)
                    .map_err(|error| format!("payload {:?}: when: {error}", payload.name))?,
            };
            if is_wanted {
                let Built { payload: value, errors } =
                    build_payload(&payload.build, self.scope.map(), self.now, self.failure.as_ref());
                for error in &errors {
                    tracing::warn!(payload = %payload.name, %error, "a value of a payload cannot be computed");
                }
                self.trace.payload_errors.extend(errors);
                texts.push((payload.name.clone(), value.to_string()));
            }
        }
        for (name, text) in texts {
            self.scope.set(&name, Value::String(text));
        }
        Ok(())
    }

    async fn post_action(&self, action: &PostAction) -> Outcome {
        if let Some(absent) = action.payloads.iter().find(|name| !self.scope.map().contains_key(*name)) {
            return Outcome::Skipped(format!("the payload {absent:?} is absent, because its when is false"));
        }
        if let Some(when) = &action.when {
            match when.evaluate_bool(self.scope.map(), self.now) {
                Ok(true) => {}
                Ok(false) => return Outcome::Skipped("its when is false".to_owned()),
                Err(error) => return Outcome::Failed(format!("when: {error}")),
            }
        }
        self.log(action.log.as_ref());
        let Some(call) = &action.api_call else { return Outcome::Done };
        let request = match self.render_call(call) {
            Ok(request) => request,
            Err(error) => return Outcome::Failed(error),
        };
        match self.executor.clients.api.call(&request).await {
            Err(error @ crate::api::ApiError::Invalid { .. }) => Outcome::Failed(error.to_string()),
            Err(error @ crate::api::ApiError::Unreachable { .. }) => Outcome::Unreachable(error.to_string()),
            Ok(response) if response.is_success() => Outcome::Done,
            Ok(response) => {
                let message = format!("{} {}: {}", request.method, request.url, response.describe());
                match response.status {
                    404 if response.is_resource_missing() => Outcome::ResourceGone(message),
                    // Credentials are read again for every call, so that a rejected one can be accepted later.
                    500.. | 401 | 403 | 408 | 429 => Outcome::Unreachable(message),
                    _ => Outcome::Failed(message),
                }
            }
        }
    }
}
