//! Reports the status of ManifestWorks for the simulated clusters. Failed reports are retried: a lost one would leave a cluster
//! at its old version, and the benchmark would measure the load generator instead of the hub.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bellwether_runtime::BackoffPolicy;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use super::fleet::WORK_API;
use crate::connection::{Access, Connection, Content, ResponseError};

const FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";
/// How many connections share the reports.
const CONNECTIONS: usize = 8;
/// How long an attempt may take.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection waits after failures in a row.
const BACKOFF: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_millis(10), max: Duration::from_secs(1) };

/// The part of a ManifestWork that is used.
#[derive(Clone, Deserialize)]
pub(super) struct ManifestWork {
    metadata: Metadata,
}

#[derive(Clone, Deserialize)]
struct Metadata {
    name: String,
    namespace: String,
    #[serde(default)]
    generation: i64,
    #[serde(default)]
    finalizers: Vec<String>,
}

/// The namespace and name of a ManifestWork.
type Key = (String, String);

impl ManifestWork {
    fn key(&self) -> Key {
        (self.metadata.namespace.clone(), self.metadata.name.clone())
    }
}

/// The latest generation of each ManifestWork, and the number of the connection that reports its status.
type LatestGenerations = BTreeMap<Key, (i64, usize)>;

/// The reports that failed. Each of them was retried.
#[derive(Default)]
pub(super) struct FailedReports {
    pub(super) count: usize,
    /// The error of the last one.
    last_error: String,
}

impl fmt::Display for FailedReports {
    /// Formats the failures as the end of an error message; it is empty without failures.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            0 => Ok(()),
            count => write!(
                formatter,
                "; {count} status reports of the clusters failed, the last with: {}",
                self.last_error
            ),
        }
    }
}

/// Reports the status of ManifestWorks.
pub(super) struct StatusReporter {
    queues: Vec<UnboundedSender<ManifestWork>>,
    latest: Arc<Mutex<LatestGenerations>>,
}

impl StatusReporter {
    /// Starts the connections, which run until the tasks are dropped.
    pub(super) fn start(
        access: &Access,
        failed: &Arc<Mutex<FailedReports>>,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let latest = Arc::<Mutex<LatestGenerations>>::default();
        let queues = (0..CONNECTIONS).map(|_| {
            let (queue, works) = unbounded_channel();
            let worker = Worker {
                hub: HubConnection { access: access.clone(), connection: None },
                works,
                retries: VecDeque::new(),
                latest: latest.clone(),
                failed: failed.clone(),
            };
            tasks.spawn(worker.run());
            queue
        });
        let queues = queues.collect();
        Self { queues, latest }
    }

    /// Enqueues a report, once for each generation. All reports of a ManifestWork use the same connection, so that they stay in order.
    pub(super) fn enqueue(&mut self, work: ManifestWork) {
        let mut latest = self.latest.lock();
        let next = latest.len() % CONNECTIONS;
        let (generation, connection) = latest.entry(work.key()).or_insert((i64::MIN, next));
        if *generation < work.metadata.generation
            && let Some(queue) = self.queues.get(*connection)
        {
            *generation = work.metadata.generation;
            let _ = queue.send(work);
        }
    }
}

/// The hub that gets the reports; tests replace it.
trait Hub: Send {
    /// Makes one attempt to report that a ManifestWork is applied and available.
    fn report(&mut self, work: &ManifestWork) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// Sends the reports of one connection, one after the other.
struct Worker<H> {
    hub: H,
    works: UnboundedReceiver<ManifestWork>,
    /// The ManifestWorks whose report failed; bounded by the number of ManifestWorks.
    retries: VecDeque<ManifestWork>,
    latest: Arc<Mutex<LatestGenerations>>,
    failed: Arc<Mutex<FailedReports>>,
}

impl<H: Hub> Worker<H> {
    async fn run(mut self) {
        let mut failures = 0_u32;
        while let Some(work) = self.next().await {
            if self.is_stale(&work) {
                continue;
            }
            let result = tokio::time::timeout(ATTEMPT_TIMEOUT, self.hub.report(&work)).await;
            let result =
                result.unwrap_or_else(|_| Err(anyhow::anyhow!("no response within {ATTEMPT_TIMEOUT:?}")));
            match result {
                Ok(()) => failures = 0,
                Err(error) if is_not_found(&error) => {}
                Err(error) => {
                    self.record_failure(&error);
                    // At the end, so that a report that always fails does not delay the others.
                    self.retries.push_back(work);
                    failures = failures.saturating_add(1);
                    tokio::time::sleep(BACKOFF.delay(failures, rand::random())).await;
                }
            }
        }
    }

    /// The next ManifestWork, or else one to retry. It is `None` when the queue is closed and empty.
    async fn next(&mut self) -> Option<ManifestWork> {
        if let Ok(work) = self.works.try_recv() {
            return Some(work);
        }
        match self.retries.pop_front() {
            Some(work) => Some(work),
            None => self.works.recv().await,
        }
    }

    /// Whether a later generation has been enqueued, which gets its own report.
    fn is_stale(&self, work: &ManifestWork) -> bool {
        let latest = self.latest.lock();
        latest.get(&work.key()).is_some_and(|(generation, _)| *generation > work.metadata.generation)
    }

    fn record_failure(&self, error: &anyhow::Error) {
        let mut failed = self.failed.lock();
        failed.count += 1;
        failed.last_error = format!("{error:#}");
    }
}

/// Whether the ManifestWork has been deleted.
fn is_not_found(error: &anyhow::Error) -> bool {
    status(error) == Some(StatusCode::NOT_FOUND)
}

/// The HTTP status of an error. It is `None` if there was no response.
fn status(error: &anyhow::Error) -> Option<StatusCode> {
    error.downcast_ref::<ResponseError>().map(|refusal| refusal.status)
}

/// A connection to the hub, which is opened again after it failed.
struct HubConnection {
    access: Access,
    connection: Option<Connection>,
}

impl Hub for HubConnection {
    async fn report(&mut self, work: &ManifestWork) -> anyhow::Result<()> {
        // It is put back if there was a response. After a failure or a timeout, the next attempt opens a new connection.
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.access.connect().await?,
        };
        let result = report_status(&mut connection, &work.metadata).await;
        if result.as_ref().err().is_none_or(|error| status(error).is_some()) {
            self.connection = Some(connection);
        }
        result
    }
}

/// Reports that all objects of a ManifestWork are applied and available.
async fn report_status(connection: &mut Connection, work: &Metadata) -> anyhow::Result<()> {
    let path = format!("{WORK_API}/namespaces/{}/manifestworks/{}", work.namespace, work.name);
    if work.finalizers.is_empty() {
        let patch = json!({"metadata": {"finalizers": [FINALIZER]}}).to_string();
        connection.send(Method::PATCH, &path, Content::MergePatch(patch.into_bytes())).await?;
    }
    let condition = |type_: &str, reason: &str| {
        json!({"type": type_, "status": "True", "reason": reason, "message": "", "observedGeneration": work.generation,
            "lastTransitionTime": "2024-05-01T10:00:00Z"})
    };
    let conditions =
        [condition("Applied", "AppliedManifestWorkComplete"), condition("Available", "ResourcesAvailable")];
    let patch = json!({"status": {"conditions": conditions}}).to_string();
    connection
        .send(Method::PATCH, &format!("{path}/status"), Content::MergePatch(patch.into_bytes()))
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How an attempt fails.
    #[derive(Clone, Copy)]
    enum Failure {
        Status(u16),
        Closed,
        NoResponse,
    }
    use Failure::{Closed, NoResponse, Status};

    /// A hub whose first attempts fail as given; all later ones succeed.
    struct FailingHub {
        failures: VecDeque<Failure>,
        reported: Arc<Mutex<Vec<(String, i64)>>>,
    }

    impl Hub for FailingHub {
        async fn report(&mut self, work: &ManifestWork) -> anyhow::Result<()> {
            match self.failures.pop_front() {
                None => {
                    self.reported.lock().push((work.metadata.name.clone(), work.metadata.generation));
                    Ok(())
                }
                Some(Status(code)) => Err(ResponseError::with_status(code).into()),
                Some(Closed) => Err(anyhow::anyhow!("the connection is closed")),
                Some(NoResponse) => std::future::pending().await,
            }
        }
    }

    fn work(name: &str, generation: i64) -> ManifestWork {
        let metadata =
            Metadata { name: name.into(), namespace: "c".into(), generation, finalizers: Vec::new() };
        ManifestWork { metadata }
    }

    /// Reports to a hub with these failures. Returns the successful reports, and the failed ones.
    async fn report_all(failures: &[Failure], works: &[ManifestWork]) -> (Vec<(String, i64)>, FailedReports) {
        let reported = Arc::<Mutex<Vec<(String, i64)>>>::default();
        let hub = FailingHub { failures: failures.iter().copied().collect(), reported: reported.clone() };
        let (queue, received) = unbounded_channel();
        let (latest, failed) =
            (Arc::<Mutex<LatestGenerations>>::default(), Arc::<Mutex<FailedReports>>::default());
        let mut reporter = StatusReporter { queues: vec![queue; CONNECTIONS], latest: latest.clone() };
        let retries = VecDeque::new();
        let worker = Worker { hub, works: received, retries, latest, failed: failed.clone() };
        works.iter().for_each(|work| reporter.enqueue(work.clone()));
        drop(reporter);
        worker.run().await;
        (std::mem::take(&mut *reported.lock()), std::mem::take(&mut *failed.lock()))
    }

    #[tokio::test(start_paused = true)]
    async fn failed_report_is_retried_until_it_succeeds() {
        let rows = [
            ("success", vec![], 0),
            ("a conflict", vec![Status(409)], 1),
            ("too many requests", vec![Status(429), Status(429), Status(429)], 3),
            ("server errors", vec![Status(500), Status(503)], 2),
            ("a closed connection", vec![Closed, Closed], 2),
            ("no response", vec![NoResponse], 1),
        ];
        for (name, failures, count) in rows {
            let (reported, failed) = report_all(&failures, &[work("one", 1)]).await;
            assert_eq!(reported, [("one".to_owned(), 1)], "{name}");
            assert_eq!(failed.count, count, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn deleted_manifest_work_is_not_retried() {
        let (reported, failed) = report_all(&[Status(404)], &[work("deleted", 1), work("existing", 1)]).await;
        assert_eq!((reported, failed.count), (vec![("existing".to_owned(), 1)], 0));
    }

    #[tokio::test(start_paused = true)]
    async fn retry_comes_after_the_others_and_never_after_a_later_generation() {
        let (reported, _) = report_all(&[Status(409)], &[work("one", 1), work("two", 1)]).await;
        assert_eq!(reported, [("two".to_owned(), 1), ("one".to_owned(), 1)]);
        let (reported, _) =
            report_all(&[], &[work("one", 1), work("one", 1), work("one", 2), work("one", 1)]).await;
        assert_eq!(reported, [("one".to_owned(), 2)]);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_formatted_with_the_last_error() {
        assert_eq!(FailedReports::default().to_string(), "");
        let (_, failed) = report_all(&[Closed, Status(429)], &[work("one", 1)]).await;
        let message = failed.to_string();
        assert!(
            message.starts_with("; 2 status reports of the clusters failed, the last with: "),
            "{message}"
        );
        assert!(message.contains("429"), "{message}");
    }
}
