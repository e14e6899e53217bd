//! One reconcile of an AddonInstance: read it, judge it as it is now, write if that is still needed. The index only
//! triggers reconciles: the decision uses the object that was just read, so that a heartbeat that arrived meanwhile counts.

use std::sync::Arc;
use std::time::Duration;

use bellwether_clock::{Clock, SteadyClock};
use bellwether_runtime::{
    BackoffPolicy, Context, DirtyKeys, IndexedReconciler, Next, ObjectName, ReconcileError,
};
use kube::api::PostParams;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client, Resource as _};
use parking_lot::Mutex;

use super::NAME;
use super::decide::CheckerReason;
use super::index::Index;
use super::instance::Instance;
use super::metrics::CheckerMetrics;

/// How often a write is tried in one reconcile while others write the same object.
const WRITE_ATTEMPTS: usize = 5;

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckError {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("{WRITE_ATTEMPTS} writes in a row conflicted with other writers")]
    Contended,
}

impl ReconcileError for CheckError {
    fn label(&self) -> &'static str {
        match self {
            Self::Api(_) => "api",
            Self::Contended => "contended",
        }
    }
}

pub(crate) struct Checker {
    client: Client,
    clock: Arc<dyn Clock>,
    steady: SteadyClock,
    index: Arc<Mutex<Index>>,
    metrics: Arc<CheckerMetrics>,
    recorder: Recorder,
    cluster: Arc<str>,
}

impl IndexedReconciler for Checker {
    type Key = ObjectName;
    type Error = CheckError;
    const NAME: &'static str = NAME;
    const CONCURRENCY: usize = 32;
    /// No event reports that the API server is back, because a watch resumes where it was. So the longest delay bounds how
    /// late silence is marked after an outage.
    const RETRY: BackoffPolicy =
        BackoffPolicy { initial: Duration::from_millis(250), max: Duration::from_secs(10) };

    fn take_dirty(&self) -> DirtyKeys<ObjectName> {
        let mut index = self.index.lock();
        self.metrics.set_census(&index.census());
        index.take_dirty()
    }

    fn initial_keys(&self) -> Vec<ObjectName> {
        self.index.lock().review_all()
    }

    fn on_deadline(&self, key: &ObjectName) {
        self.index.lock().review(key);
    }

    fn on_leader_change(&self, leader: bool) {
        self.index.lock().is_leader = leader;
    }

    async fn reconcile(&self, key: &ObjectName) -> Result<Next, CheckError> {
        if self.check(key).await? == Outcome::Checked {
            self.index.lock().review(key);
        }
        Ok(Next::OnChange)
    }
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The condition `Healthy` of the instance is up to date.
    Checked,
    /// The instance does not exist. The watch reports its deletion too, and a new instance of the same name.
    Deleted,
}

impl Checker {
    pub(crate) fn new(
        context: &Context,
        index: Arc<Mutex<Index>>,
        steady: SteadyClock,
        metrics: Arc<CheckerMetrics>,
    ) -> Self {
        let reporter = Reporter { controller: format!("bellwether-{NAME}"), instance: None };
        Self {
            client: context.client.clone(),
            clock: context.clock.clone(),
            steady,
            index,
            metrics,
            recorder: Recorder::new(context.client.clone(), reporter),
            cluster: context.cluster.clone(),
        }
    }

    async fn check(&self, key: &ObjectName) -> Result<Outcome, CheckError> {
        let api: Api<Instance> = Api::namespaced(self.client.clone(), &key.namespace);
        for _ in 0..WRITE_ATTEMPTS {
            let known = self.index.lock().version(key);
            let Some(instance) = api.get_opt(&key.name).await? else { return Ok(Outcome::Deleted) };
            let found = self.index.lock().observe_read(known, key, &instance);
            let Some(finding) = found else { return Ok(Outcome::Checked) };
            if finding.recovered {
                self.metrics.count_recovery();
            }
            if finding.warn_invalid_period {
                self.warn_invalid_period(key, &instance).await;
            }
            let Some(reason) = finding.reason else { return Ok(Outcome::Checked) };
            match self.write(&api, key, &instance, reason).await {
                Ok(()) => {
                    tracing::info!("{}: {key}: {}", self.cluster, reason.condition().message);
                    if let Some(since) = finding.stale_since {
                        let delay = Duration::try_from(self.steady.now().duration_since(since));
                        self.metrics.count_timeout(delay.unwrap_or_default());
                    }
                    return Ok(Outcome::Checked);
                }
                Err(kube::Error::Api(status)) if status.is_conflict() => {}
                Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(Outcome::Deleted),
                Err(error) => return Err(error.into()),
            }
        }
        Err(CheckError::Contended)
    }

    async fn write(
        &self,
        api: &Api<Instance>,
        key: &ObjectName,
        instance: &Instance,
        reason: CheckerReason,
    ) -> Result<(), kube::Error> {
        let desired = instance.with_reason(reason, self.clock.now());
        let written = api.replace_status(&key.name, &PostParams::default(), &desired).await?;
        // Update the index at once, so that the watch event of this write enqueues nothing.
        self.index.lock().observe(key, &written);
        Ok(())
    }

    /// Writes a Warning event about an invalid period, once per generation. An event that cannot be written is not retried.
    async fn warn_invalid_period(&self, key: &ObjectName, instance: &Instance) {
        let period = instance.period();
        let Some(invalid) = period.validation_error() else { return };
        self.index.lock().mark_warned(key, instance.generation());
        let note = format!("{invalid}; heartbeats are expected every {:?}", period.effective());
        tracing::warn!("{}: {key}: {note}", self.cluster);
        let event = Event {
            type_: EventType::Warning,
            reason: "InvalidHeartbeatUpdatePeriod".into(),
            note: Some(note),
            action: "CheckHeartbeat".into(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &instance.object_ref(&())).await {
            tracing::debug!(
                "{}: {key}: cannot write the Warning event about the period: {error}",
                self.cluster
            );
        }
    }
}
