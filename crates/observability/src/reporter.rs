//! Reports the state of a collector in the ObservabilityAddon of its cluster: the one way to do so, for the operator and for
//! both collectors. Whether a report is allowed is decided in [`decide::transition`](crate::decide::transition).
//!
//! A report is a GET and, if something changes, a PUT of `/status` with the resourceVersion that was read, repeated after a
//! conflict. So no report of another writer is lost, and `get` and `update` permissions suffice.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bellwether_api::observability::ObservabilityAddon;
use bellwether_clock::Clock;
use bellwether_conditions::ConditionSet;
use bellwether_conditions::guard::Denial;
use bellwether_conditions::kubernetes::parse_list;
use bellwether_runtime::{BackoffPolicy, Metrics};
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::decide::transition::{Actor, Decision, Report, decide};
use crate::metrics::{RefusedLabels, StatusMetrics};
use crate::vocabulary::{ADDON_NAME, Component, ComponentReason, Vocabulary};

/// How often a report is tried if other writers are faster.
const ATTEMPTS: u32 = 12;
/// How long to wait after a conflict.
const CONFLICT_BACKOFF: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_millis(10), max: Duration::from_millis(500) };
/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The result of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reported {
    /// The condition of the component was written.
    Updated,
    /// The condition already said so.
    Unchanged,
    /// The writer may not replace the current reason. Retrying is useless.
    Refused(Denial<Actor, ComponentReason>),
}

/// Why a report failed.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The add-on does not exist.
    #[error("ObservabilityAddon {addon} does not exist; it is created on the hub and copied to the cluster")]
    NotFound {
        /// Namespace and name.
        addon: String,
    },
    /// Every write conflicted with another writer.
    #[error(
        "cannot write the status of ObservabilityAddon {addon}: {ATTEMPTS} attempts in a row conflicted with other writers"
    )]
    Conflict {
        /// Namespace and name.
        addon: String,
    },
    /// There was no response in time.
    #[error("cannot {doing} ObservabilityAddon {addon}: no response within {REQUEST_TIMEOUT:?}")]
    TimedOut {
        /// What was tried.
        doing: &'static str,
        /// Namespace and name.
        addon: String,
    },
    /// The API server rejected the request, or was not reached.
    #[error("cannot {doing} ObservabilityAddon {addon}: {}", describe_request_error(.source))]
    Request {
        /// What was tried.
        doing: &'static str,
        /// Namespace and name.
        addon: String,
        /// The cause.
        source: Box<kube::Error>,
    },
}

/// Reports the state of components as one actor.
#[derive(Clone)]
pub struct Reporter {
    addons: Api<DynamicObject>,
    namespace: String,
    actor: Actor,
    vocabulary: Vocabulary,
    clock: Arc<dyn Clock>,
    metrics: StatusMetrics,
}

impl Reporter {
    /// A reporter for the ObservabilityAddon of a namespace.
    pub fn new(
        client: kube::Client,
        namespace: &str,
        actor: Actor,
        vocabulary: Vocabulary,
        clock: Arc<dyn Clock>,
        metrics: &Metrics,
    ) -> Self {
        let addons = Api::namespaced_with(client, namespace, &ApiResource::erase::<ObservabilityAddon>(&()));
        let metrics = metrics.group::<StatusMetrics>();
        Self { addons, namespace: namespace.to_owned(), actor, vocabulary, clock, metrics }
    }

    /// Reports the state of a component.
    pub async fn report(
        &self,
        component: Component,
        reason: ComponentReason,
        message: &str,
    ) -> Result<Reported, ReportError> {
        let report = Report { actor: self.actor, component, reason, message: message.to_owned() };
        for attempt in 1..=ATTEMPTS {
            let mut addon = self.read().await?;
            let conditions = conditions_of(&addon);
            match decide(&conditions, &report, self.vocabulary, self.clock.now()) {
                Decision::Unchanged => return Ok(Reported::Unchanged),
                Decision::Refused(denial) => {
                    tracing::debug!(%denial, "report refused");
                    self.metrics.refused.get_or_create(&RefusedLabels::of(component, &denial)).inc();
                    return Ok(Reported::Refused(denial));
                }
                Decision::Write(updated) => {
                    let list = serde_json::to_value(updated).unwrap_or_else(|_| json!([]));
                    set_conditions(&mut addon, list);
                }
            }
            if self.write(&addon).await? {
                return Ok(Reported::Updated);
            }
            tokio::time::sleep(CONFLICT_BACKOFF.delay(attempt, rand::random())).await;
        }
        Err(ReportError::Conflict { addon: self.to_string() })
    }

    /// The conditions of the add-on now.
    pub async fn conditions(&self) -> Result<ConditionSet, ReportError> {
        self.read().await.map(|addon| conditions_of(&addon))
    }

    async fn read(&self) -> Result<DynamicObject, ReportError> {
        match self.request("read", self.addons.get_opt(ADDON_NAME)).await? {
            Some(addon) => Ok(addon),
            None => Err(ReportError::NotFound { addon: self.to_string() }),
        }
    }

    /// Writes the status; false if another writer was faster.
    async fn write(&self, addon: &DynamicObject) -> Result<bool, ReportError> {
        let parameters = PostParams::default();
        let request = self.addons.replace_status(ADDON_NAME, &parameters, addon);
        match self.request("write the status of", request).await {
            Ok(_) => Ok(true),
            Err(ReportError::Request { source, .. }) if is_conflict(&source) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn request<T>(
        &self,
        doing: &'static str,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, ReportError> {
        let addon = || self.to_string();
        match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
            Ok(response) => response.map_err(|source| ReportError::Request {
                doing,
                addon: addon(),
                source: Box::new(source),
            }),
            Err(_) => Err(ReportError::TimedOut { doing, addon: addon() }),
        }
    }
}

/// A failed request in one line: the answer of the API, or why there is none.
pub(crate) fn describe_request_error(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => {
            format!("the API answers with {}: {}", status.code, status.message.trim())
        }
        other => other.to_string(),
    }
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

/// The conditions in the status of an add-on, one of each type.
pub fn conditions_of(addon: &DynamicObject) -> ConditionSet {
    parse_list(addon.data.pointer("/status/conditions"))
}

/// Replaces the list of conditions in the status of an add-on.
pub(crate) fn set_conditions(addon: &mut DynamicObject, list: Value) {
    match addon.data.get_mut("status").and_then(Value::as_object_mut) {
        Some(status) => drop(status.insert("conditions".to_owned(), list)),
        None => {
            if let Some(object) = addon.data.as_object_mut() {
                object.insert("status".to_owned(), json!({"conditions": list}));
            }
        }
    }
}

/// Formats as `namespace/name`.
impl fmt::Display for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{ADDON_NAME}", self.namespace)
    }
}
