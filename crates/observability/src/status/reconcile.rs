//! The requests of the status controller: one side is read and written at a time.

use std::sync::Arc;
use std::time::Duration;

use bellwether_api::observability::ObservabilityAddon;
use bellwether_clock::Clock;
use bellwether_runtime::{BackoffPolicy, Context, DirtyKeys, IndexedReconciler, Next, ReconcileError};
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use parking_lot::Mutex;

use super::index::{Index, Side, conditions_json, desired_conditions};
use super::{NAME, Settings};
use crate::metrics::{ClusterLabel, FailureLabels, HubSyncMetrics};
use crate::reporter::{describe_request_error, set_conditions};
use crate::vocabulary::{ADDON_NAME, Vocabulary};

/// How often a write is tried if another writer is faster.
const WRITE_ATTEMPTS: u32 = 5;
/// The longest time that the hub may ask this controller to wait.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

/// Why a side could not be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum StatusError {
    #[error(
        "ObservabilityAddon {0}/{ADDON_NAME} does not exist on the hub; create it there, and the status follows"
    )]
    NotOnHub(String),
    #[error("cannot {doing} the ObservabilityAddon of the {side}: {}", describe_request_error(.source))]
    Request { doing: &'static str, side: Side, source: Box<kube::Error> },
    #[error(
        "cannot write the status of the ObservabilityAddon of the {0}: {WRITE_ATTEMPTS} attempts in a row conflicted with other writers"
    )]
    Conflict(Side),
}

impl ReconcileError for StatusError {
    fn label(&self) -> &'static str {
        match self {
            Self::NotOnHub(_) => "not-found",
            Self::Conflict(_) => "conflict",
            Self::Request { source, .. } => match &**source {
                kube::Error::Api(status) if matches!(status.code, 401 | 403) => "denied",
                kube::Error::Api(status) if status.code == 429 => "too-many-requests",
                kube::Error::Api(status) if status.code >= 500 => "server",
                kube::Error::Api(_) => "rejected",
                _ => "unreachable",
            },
        }
    }
}

pub(super) struct StatusController {
    cluster: Api<DynamicObject>,
    hub: Api<DynamicObject>,
    hub_namespace: String,
    vocabulary: Vocabulary,
    resync_interval: Duration,
    clock: Arc<dyn Clock>,
    metrics: HubSyncMetrics,
    label: ClusterLabel,
    index: Arc<Mutex<Index>>,
}

impl StatusController {
    pub(super) fn new(settings: &Settings, context: &Context, index: Arc<Mutex<Index>>) -> Self {
        let resource = ApiResource::erase::<ObservabilityAddon>(&());
        Self {
            cluster: Api::namespaced_with(context.client.clone(), &settings.namespace, &resource),
            hub: Api::namespaced_with(settings.hub.clone(), &settings.hub_namespace, &resource),
            hub_namespace: settings.hub_namespace.clone(),
            vocabulary: settings.vocabulary,
            resync_interval: settings.resync_interval,
            clock: context.clock.clone(),
            metrics: context.metrics.group(),
            label: ClusterLabel { cluster: context.cluster.to_string() },
            index,
        }
    }

    /// Writes the state of the add-on into its own status. Only the watch tells the index what was written: a response may be older
    /// than what the watch has delivered meanwhile.
    async fn write_cluster(&self, addon: Arc<DynamicObject>) -> Result<Next, StatusError> {
        let mut addon = (*addon).clone();
        for _ in 0..WRITE_ATTEMPTS {
            let Some(desired) = desired_conditions(&addon, self.vocabulary, &*self.clock) else {
                return Ok(Next::OnChange);
            };
            set_conditions(&mut addon, desired);
            match self.cluster.replace_status(ADDON_NAME, &PostParams::default(), &addon).await {
                Ok(_) => return Ok(Next::OnChange),
                Err(error) if has_code(&error, 409) => {}
                // It was deleted; the watch reports that.
                Err(error) if has_code(&error, 404) => return Ok(Next::OnChange),
                Err(error) => return Err(request_error("write the status of", Side::Cluster)(error)),
            }
            let read = self.cluster.get_opt(ADDON_NAME).await;
            match read.map_err(request_error("read", Side::Cluster))? {
                Some(fresh) => addon = fresh,
                None => return Ok(Next::OnChange),
            }
        }
        Err(StatusError::Conflict(Side::Cluster))
    }

    /// Copies the status to the hub. Returns when to compare again.
    async fn write_hub(&self, addon: &DynamicObject) -> Result<Next, StatusError> {
        let desired = conditions_json(addon);
        for _ in 0..WRITE_ATTEMPTS {
            let read = self.hub.get_opt(ADDON_NAME).await.map_err(request_error("read", Side::Hub))?;
            let Some(mut on_hub) = read else {
                return Err(StatusError::NotOnHub(self.hub_namespace.clone()));
            };
            if conditions_json(&on_hub) != desired {
                set_conditions(&mut on_hub, desired.clone());
                match self.hub.replace_status(ADDON_NAME, &PostParams::default(), &on_hub).await {
                    Ok(_) => {}
                    Err(error) if has_code(&error, 409) => continue,
                    Err(error) => return Err(request_error("write the status of", Side::Hub)(error)),
                }
            }
            self.index.lock().set_on_hub(desired);
            let now = self.clock.now().as_second();
            self.metrics.last_success.get_or_create(&self.label).set(now);
            let jitter = 0.9 + rand::random::<f64>() * 0.2;
            return Ok(Next::After(self.resync_interval.mul_f64(jitter)));
        }
        Err(StatusError::Conflict(Side::Hub))
    }

    /// Counts a failure of the hub. A hub that asks to wait is left alone for exactly that time.
    fn hub_failed(&self, error: StatusError) -> Result<Next, StatusError> {
        self.metrics.failures.get_or_create(&FailureLabels::of(&self.label, error.label())).inc();
        match retry_after(&error) {
            Some(delay) => {
                tracing::debug!(%error, "the hub asks to wait for {delay:?}");
                self.index.lock().dirty.hold_off(Side::Hub, delay);
                Ok(Next::After(delay))
            }
            None => {
                self.index.lock().hub_failed();
                Err(error)
            }
        }
    }
}

impl IndexedReconciler for StatusController {
    type Key = Side;
    type Error = StatusError;
    const NAME: &'static str = NAME;
    const CONCURRENCY: usize = 2;
    // After a hub restart, every cluster has tried again and been answered within two minutes.
    const RETRY: BackoffPolicy =
        BackoffPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(90) };

    fn take_dirty(&self) -> DirtyKeys<Side> {
        self.index.lock().dirty.take()
    }

    fn initial_keys(&self) -> Vec<Side> {
        vec![Side::Cluster, Side::Hub]
    }

    async fn reconcile(&self, side: &Side) -> Result<Next, StatusError> {
        let addon = self.index.lock().addon();
        let Some(addon) = addon else { return Ok(Next::OnChange) };
        match side {
            Side::Cluster => self.write_cluster(addon).await,
            // The status of the cluster is written first, and its event brings this key back.
            Side::Hub if desired_conditions(&addon, self.vocabulary, &*self.clock).is_some() => {
                self.index.lock().hub_waits();
                Ok(Next::OnChange)
            }
            Side::Hub => match self.write_hub(&addon).await {
                Ok(next) => Ok(next),
                Err(error) => self.hub_failed(error),
            },
        }
    }
}

/// How long the hub asks to wait, if it does.
fn retry_after(error: &StatusError) -> Option<Duration> {
    let StatusError::Request { source, .. } = error else { return None };
    let kube::Error::Api(status) = &**source else { return None };
    let seconds = status.details.as_ref()?.retry_after_seconds;
    (status.code == 429 && seconds > 0).then(|| Duration::from_secs(seconds.into()).min(MAX_RETRY_AFTER))
}

fn has_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

fn request_error(doing: &'static str, side: Side) -> impl Fn(kube::Error) -> StatusError {
    move |source| StatusError::Request { doing, side, source: Box::new(source) }
}
