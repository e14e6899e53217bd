//! Runs one event through its phases: params, preconditions, resources, post. Clusters and APIs are behind traits, so that a
//! dry run is the same code.
//!
//! **Post actions run on every event**, also after a failure, because a report that is missing looks like a dead adapter.

mod apply;
mod params;
mod post;
mod preconditions;
mod render;
mod resources;
mod scope;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bellwether_clock::Clock;
use jiff::Timestamp;
use serde_json::Value;

use crate::api::Api;
use crate::config::{AdapterConfig, Config};
use crate::decide::Failure;
use crate::metrics::AdapterMetrics;
use crate::trace::{Phase, Status, Trace, TracedEvent};
use crate::transport::Transport;
use scope::Scope;

/// How long the phases before the report may take. A report of what was done until then is better than none.
pub(crate) const PHASES_TIMEOUT: Duration = Duration::from_secs(300);

/// What an execution needs from outside.
#[derive(Clone)]
pub struct Clients {
    /// HTTP APIs.
    pub api: Arc<dyn Api>,
    /// The cluster of the transport `kubernetes`.
    pub kubernetes: Arc<dyn Transport>,
    /// The hub of the transport `maestro`.
    pub hub: Arc<dyn Transport>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
}

/// Runs events. Cheap to clone.
#[derive(Clone)]
pub struct Executor {
    config: Arc<Config>,
    clients: Clients,
    /// The environment variables that the configuration names.
    env: Arc<BTreeMap<String, String>>,
    metrics: Option<AdapterMetrics>,
}

/// An event to run.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its ID.
    pub id: String,
    /// Its type.
    pub event_type: String,
    /// Its data: `event.*` in expressions.
    pub data: Value,
}

/// The error that ended a phase.
#[derive(Clone, Debug)]
struct PhaseError {
    /// The param, precondition or resource.
    step: String,
    reason: &'static str,
    message: String,
}

impl Executor {
    /// An executor. Of the environment, only variables that params name are kept.
    pub fn new(
        config: Arc<Config>,
        clients: Clients,
        env: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let env = env.into_iter().filter(|(name, _)| config.task.env_names.contains(name)).collect();
        Self { config, clients, env: Arc::new(env), metrics: None }
    }

    /// The same executor, which counts deletions.
    pub(crate) fn with_metrics(mut self, metrics: AdapterMetrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Runs an event.
    pub async fn execute(&self, event: &Event) -> Trace {
        let mut run = Run {
            executor: self,
            now: self.clients.clock.now(),
            scope: Scope::new(&self.config.adapter, &self.env, event),
            trace: Trace {
                event: TracedEvent { id: event.id.clone(), event_type: event.event_type.clone() },
                ..Trace::default()
            },
            phase: Phase::ParamExtraction,
            failure: None,
        };
        run.run().await;
        run.trace
    }
}

/// One execution.
struct Run<'e> {
    executor: &'e Executor,
    now: Timestamp,
    scope: Scope,
    trace: Trace,
    /// The phase that runs.
    phase: Phase,
    failure: Option<Failure>,
}

impl Run<'_> {
    fn adapter(&self) -> &AdapterConfig {
        &self.executor.config.adapter
    }

    async fn run(&mut self) {
        let is_gone = match tokio::time::timeout(PHASES_TIMEOUT, self.run_before_post()).await {
            Ok(is_gone) => is_gone,
            Err(_) => {
                self.fail_by_timeout();
                false
            }
        };
        self.trace.params = self.scope.user_variables();
        self.trace.discovered_resources = self.scope.resources().clone();
        if is_gone {
            self.trace.report = crate::trace::Report::ResourceGone;
            return;
        }
        self.post().await;
        if !self.trace.errors.is_empty() {
            self.trace.status = Status::Failed;
        }
    }

    /// Runs all phases before the report. True if the resource of the event does not exist.
    async fn run_before_post(&mut self) -> bool {
        if let Err(error) = self.params().await {
            self.fail(Phase::ParamExtraction, error);
            return false;
        }
        self.phase = Phase::Preconditions;
        match self.preconditions().await {
            Ok(preconditions::Verdict::Met) => {}
            Ok(preconditions::Verdict::NotMet(reason)) => {
                self.scope.skip_resources(&reason);
                self.trace.skip_reason = Some(reason);
                return false;
            }
            Ok(preconditions::Verdict::ResourceGone(reason)) => {
                self.trace.skip_reason = Some(reason);
                return true;
            }
            Err(error) => {
                self.scope.skip_resources(&error.message);
                self.trace.skip_reason = Some(error.message.clone());
                self.fail(Phase::Preconditions, error);
                return false;
            }
        }
        self.phase = Phase::Resources;
        if let Err(error) = self.resources().await {
            self.fail(Phase::Resources, error);
        }
        false
    }

    fn fail_by_timeout(&mut self) {
        let message = format!(
            "the event took longer than {PHASES_TIMEOUT:?}, and its phase {} was cancelled; the next event tries again",
            self.phase
        );
        if self.phase == Phase::Preconditions {
            self.scope.skip_resources(&message);
            self.trace.skip_reason = Some(message.clone());
        }
        self.fail(self.phase, PhaseError { step: String::new(), reason: "EventTimeout", message });
    }

    fn fail(&mut self, phase: Phase, error: PhaseError) {
        let PhaseError { step, reason, message } = error;
        tracing::warn!(event = %self.trace.event.id, %phase, %step, error = %message, "a phase failed");
        self.scope.fail(phase, &step, reason, &message);
        self.failure = Some(Failure {
            reason: reason.to_owned(),
            message: message.clone(),
            // After a failed precondition nothing was tried, and the configuration decides what that means.
            must_report_unavailable: phase != Phase::Preconditions,
        });
        self.trace.errors.insert(phase, message);
    }
}
