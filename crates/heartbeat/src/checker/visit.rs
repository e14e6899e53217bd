//! One visit to an instance: read it, judge what is there now, write if that is still needed. What was seen before only
//! says that a visit is worth it; a beat that came meanwhile is never overlooked.

use std::sync::Arc;
use std::time::Duration;

use bellwether_clock::{Clock, SteadyClock};
use bellwether_runtime::Context;
use kube::api::PostParams;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client, Resource as _};
use parking_lot::Mutex;

use super::NAME;
use super::decide::Verdict;
use super::index::{Index, Key};
use super::instance::Instance;
use super::metrics::Counts;

/// How often a write is tried while others write too.
const ATTEMPTS: usize = 5;
/// How long the API may take for one visit.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a visit came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("others wrote it {ATTEMPTS} times while it was to be written")]
    Contended,
    #[error("the API did not answer within {PATIENCE:?}")]
    Late,
}

impl Error {
    /// The kind of error in a word, for metrics.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Api(_) => "api",
            Self::Contended => "contended",
            Self::Late => "late",
        }
    }
}

/// What a visit found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is as it should be, by now.
    Settled,
    /// There is no such instance.
    Gone,
}

pub(crate) struct Visitor {
    client: Client,
    clock: Arc<dyn Clock>,
    steady: SteadyClock,
    index: Arc<Mutex<Index>>,
    counts: Arc<Counts>,
    recorder: Recorder,
    cluster: Arc<str>,
}

impl Visitor {
    pub(crate) fn new(
        context: &Context,
        index: Arc<Mutex<Index>>,
        steady: SteadyClock,
        counts: Arc<Counts>,
    ) -> Self {
        let reporter = Reporter { controller: format!("bellwether-{NAME}"), instance: None };
        Self {
            client: context.client.clone(),
            clock: context.clock.clone(),
            steady,
            index,
            counts,
            recorder: Recorder::new(context.client.clone(), reporter),
            cluster: context.cluster.clone(),
        }
    }

    pub(crate) async fn visit(&self, key: &Key) -> Result<Outcome, Error> {
        tokio::time::timeout(PATIENCE, self.call(key)).await.unwrap_or(Err(Error::Late))
    }

    async fn call(&self, key: &Key) -> Result<Outcome, Error> {
        let api: Api<Instance> = Api::namespaced(self.client.clone(), key.namespace());
        for _ in 0..ATTEMPTS {
            let known = self.index.lock().version(key);
            let Some(instance) = api.get_opt(key.name()).await? else { return Ok(Outcome::Gone) };
            let found = self.index.lock().read_after(known, key, &instance, self.steady.now());
            let Some(finding) = found else { return Ok(Outcome::Settled) };
            if finding.recovered {
                self.counts.recovered();
            }
            if finding.untold {
                self.tell(key, &instance).await;
            }
            let Some(verdict) = finding.verdict else { return Ok(Outcome::Settled) };
            match self.write(&api, key, &instance, verdict).await {
                Ok(()) => {
                    tracing::info!("{}: {key}: {}", self.cluster, verdict.condition().message);
                    if let Some(since) = finding.since {
                        let lag = Duration::try_from(self.steady.now().duration_since(since));
                        self.counts.timed_out(lag.unwrap_or_default());
                    }
                    return Ok(Outcome::Settled);
                }
                Err(kube::Error::Api(status)) if status.is_conflict() => {}
                Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(Outcome::Gone),
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Contended)
    }

    async fn write(
        &self,
        api: &Api<Instance>,
        key: &Key,
        instance: &Instance,
        verdict: Verdict,
    ) -> Result<(), kube::Error> {
        let wanted = instance.saying(verdict, self.clock.now());
        let written = api.replace_status(key.name(), &PostParams::default(), &wanted).await?;
        // Known at once, so that the event of our own write finds nothing to do.
        self.index.lock().observe(key, &written, self.steady.now());
        Ok(())
    }

    /// Tells once in each generation that a period makes no sense. An event that cannot be written is not worth a retry.
    async fn tell(&self, key: &Key, instance: &Instance) {
        let period = instance.period();
        let Some(shortcoming) = period.shortcoming() else { return };
        self.index.lock().told(key, instance.generation());
        let note = format!("{shortcoming}; heartbeats are expected every {:?}", period.effective());
        tracing::warn!("{}: {key}: {note}", self.cluster);
        let event = Event {
            type_: EventType::Warning,
            reason: "InvalidHeartbeatUpdatePeriod".into(),
            note: Some(note),
            action: "CheckHeartbeat".into(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &instance.object_ref(&())).await {
            tracing::debug!("{}: {key}: no event could be written: {error}", self.cluster);
        }
    }
}
