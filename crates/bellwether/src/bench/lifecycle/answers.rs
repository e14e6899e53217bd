//! The answers of clusters to works, given until they are taken: one that is lost would be a cluster that never comes to
//! its version, and say something of the load generator instead of the hub.

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

use super::fleet::WORKS;
use crate::bench::connection::{Access, Connection, Content, Refusal};

const FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";
/// How many connections share the answers.
const CONNECTIONS: usize = 8;
/// How long a try may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection waits after tries that failed in a row.
const AGAIN: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_millis(10), max: Duration::from_secs(1) };

/// The part of a work that is looked at.
#[derive(Clone, Deserialize)]
pub(super) struct Work {
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

/// A namespace and a name.
type Named = (String, String);

impl Work {
    fn named(&self) -> Named {
        (self.metadata.namespace.clone(), self.metadata.name.clone())
    }
}

/// The newest generation of each work, and the connection that answers it.
type Newest = BTreeMap<Named, (i64, usize)>;

/// Answers that were not taken.
#[derive(Default)]
pub(super) struct Refused {
    pub(super) count: usize,
    /// The words of the last.
    last: String,
}

impl fmt::Display for Refused {
    /// What is said after why a measurement was given up; nothing where nothing was refused.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            0 => Ok(()),
            count => write!(
                formatter,
                "; {count} answers of the clusters were refused, the last with: {}",
                self.last
            ),
        }
    }
}

/// Who answers works.
pub(super) struct Answers {
    queues: Vec<UnboundedSender<Work>>,
    newest: Arc<Mutex<Newest>>,
}

impl Answers {
    /// Answers from now on, until the tasks are dropped.
    pub(super) fn of(access: &Access, refused: &Arc<Mutex<Refused>>, tasks: &mut JoinSet<()>) -> Self {
        let newest = Arc::<Mutex<Newest>>::default();
        let queues = (0..CONNECTIONS).map(|_| {
            let (queue, works) = unbounded_channel();
            let line = Line {
                hub: Hub { access: access.clone(), connection: None },
                works,
                again: VecDeque::new(),
                newest: newest.clone(),
                refused: refused.clone(),
            };
            tasks.spawn(line.attend());
            queue
        });
        let queues = queues.collect();
        Self { queues, newest }
    }

    /// Answers a work, once for each generation. All its answers go the same way, so that none overtakes a later one.
    pub(super) fn give(&mut self, work: Work) {
        let mut newest = self.newest.lock();
        let next = newest.len() % CONNECTIONS;
        let (generation, line) = newest.entry(work.named()).or_insert((i64::MIN, next));
        if *generation < work.metadata.generation
            && let Some(queue) = self.queues.get(*line)
        {
            *generation = work.metadata.generation;
            let _ = queue.send(work);
        }
    }
}

/// Where answers go.
trait Answered: Send {
    /// Tries once to give an answer.
    fn answer(&mut self, work: &Work) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// The works that one connection answers, one after the other.
struct Line<H> {
    hub: H,
    works: UnboundedReceiver<Work>,
    /// Those whose answer was not taken, bounded by the number of works.
    again: VecDeque<Work>,
    newest: Arc<Mutex<Newest>>,
    refused: Arc<Mutex<Refused>>,
}

impl<H: Answered> Line<H> {
    async fn attend(mut self) {
        let mut failures = 0_u32;
        while let Some(work) = self.next().await {
            if self.is_outdated(&work) {
                continue;
            }
            let tried = tokio::time::timeout(PATIENCE, self.hub.answer(&work)).await;
            let tried = tried.unwrap_or_else(|_| Err(anyhow::anyhow!("no answer within {PATIENCE:?}")));
            match tried {
                Ok(()) => failures = 0,
                Err(error) if is_gone(&error) => {}
                Err(error) => {
                    self.note(&error);
                    // Behind all others: one that is never taken does not hold them up.
                    self.again.push_back(work);
                    failures = failures.saturating_add(1);
                    tokio::time::sleep(AGAIN.delay(failures, rand::random())).await;
                }
            }
        }
    }

    /// A new work, else one to be tried again; nothing when there are no more to come.
    async fn next(&mut self) -> Option<Work> {
        if let Ok(work) = self.works.try_recv() {
            return Some(work);
        }
        match self.again.pop_front() {
            Some(work) => Some(work),
            None => self.works.recv().await,
        }
    }

    /// A later generation has its own answer, which comes after this.
    fn is_outdated(&self, work: &Work) -> bool {
        let newest = self.newest.lock();
        newest.get(&work.named()).is_some_and(|(generation, _)| *generation > work.metadata.generation)
    }

    fn note(&self, error: &anyhow::Error) {
        let mut refused = self.refused.lock();
        refused.count += 1;
        refused.last = format!("{error:#}");
    }
}

/// Whether nobody waits for the answer any more.
fn is_gone(error: &anyhow::Error) -> bool {
    status(error) == Some(StatusCode::NOT_FOUND)
}

/// What the server said; nothing, where the connection is to blame.
fn status(error: &anyhow::Error) -> Option<StatusCode> {
    error.downcast_ref::<Refusal>().map(|refusal| refusal.status)
}

/// A connection, made anew when it has failed.
struct Hub {
    access: Access,
    connection: Option<Connection>,
}

impl Answered for Hub {
    async fn answer(&mut self, work: &Work) -> anyhow::Result<()> {
        // Put back when it was of use: a try that fails or is given up leaves none behind.
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.access.connect().await?,
        };
        let answered = answer(&mut connection, &work.metadata).await;
        if answered.as_ref().err().is_none_or(|error| status(error).is_some()) {
            self.connection = Some(connection);
        }
        answered
    }
}

/// Says that all of a work is there.
async fn answer(connection: &mut Connection, work: &Metadata) -> anyhow::Result<()> {
    let path = format!("{WORKS}/namespaces/{}/manifestworks/{}", work.namespace, work.name);
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

    /// What becomes of a try.
    #[derive(Clone, Copy)]
    enum Fate {
        Answered(u16),
        Closed,
        Hangs,
    }
    use Fate::{Answered as With, Closed, Hangs};

    /// A hub with a fate for each try; all after those are taken.
    struct Scripted {
        fates: VecDeque<Fate>,
        taken: Arc<Mutex<Vec<(String, i64)>>>,
    }

    impl Answered for Scripted {
        async fn answer(&mut self, work: &Work) -> anyhow::Result<()> {
            match self.fates.pop_front() {
                None => {
                    self.taken.lock().push((work.metadata.name.clone(), work.metadata.generation));
                    Ok(())
                }
                Some(With(code)) => Err(Refusal::of(code).into()),
                Some(Closed) => Err(anyhow::anyhow!("the connection is closed")),
                Some(Hangs) => std::future::pending().await,
            }
        }
    }

    fn work(name: &str, generation: i64) -> Work {
        let metadata =
            Metadata { name: name.into(), namespace: "c".into(), generation, finalizers: Vec::new() };
        Work { metadata }
    }

    /// Gives works to a hub with these fates; what it has taken, and what was refused.
    async fn given(fates: &[Fate], works: &[Work]) -> (Vec<(String, i64)>, Refused) {
        let taken = Arc::<Mutex<Vec<(String, i64)>>>::default();
        let hub = Scripted { fates: fates.iter().copied().collect(), taken: taken.clone() };
        let (queue, received) = unbounded_channel();
        let (newest, refused) = (Arc::<Mutex<Newest>>::default(), Arc::<Mutex<Refused>>::default());
        let mut answers = Answers { queues: vec![queue; CONNECTIONS], newest: newest.clone() };
        let again = VecDeque::new();
        let line = Line { hub, works: received, again, newest, refused: refused.clone() };
        works.iter().for_each(|work| answers.give(work.clone()));
        drop(answers);
        line.attend().await;
        (std::mem::take(&mut *taken.lock()), std::mem::take(&mut *refused.lock()))
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_given_until_it_is_taken() {
        let rows = [
            ("taken at once", vec![], 0),
            ("a conflict", vec![With(409)], 1),
            ("too many requests", vec![With(429), With(429), With(429)], 3),
            ("a server in trouble", vec![With(500), With(503)], 2),
            ("a connection that is closed", vec![Closed, Closed], 2),
            ("a server that does not answer", vec![Hangs], 1),
        ];
        for (sentence, fates, count) in rows {
            let (taken, refused) = given(&fates, &[work("one", 1)]).await;
            assert_eq!(taken, [("one".to_owned(), 1)], "{sentence}");
            assert_eq!(refused.count, count, "{sentence}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_work_that_is_gone_needs_no_answer() {
        let (taken, refused) = given(&[With(404)], &[work("gone", 1), work("here", 1)]).await;
        assert_eq!((taken, refused.count), (vec![("here".to_owned(), 1)], 0));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_refused_comes_after_the_others_and_never_after_a_later_generation() {
        let (taken, _) = given(&[With(409)], &[work("one", 1), work("two", 1)]).await;
        assert_eq!(taken, [("two".to_owned(), 1), ("one".to_owned(), 1)]);
        let (taken, _) = given(&[], &[work("one", 1), work("one", 1), work("one", 2), work("one", 1)]).await;
        assert_eq!(taken, [("one".to_owned(), 2)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_measurement_that_is_given_up_says_what_was_refused() {
        assert_eq!(Refused::default().to_string(), "");
        let (_, refused) = given(&[Closed, With(429)], &[work("one", 1)]).await;
        let words = refused.to_string();
        assert!(words.starts_with("; 2 answers of the clusters were refused, the last with: "), "{words}");
        assert!(words.contains("429"), "{words}");
    }
}
