//! Which of several copies of a process acts. Copies that stand by may watch, so that they know when their time comes;
//! they write nothing.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Request;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::client::Body;
use kube_lease_manager::{LeaseManager, LeaseManagerBuilder, LeaseManagerError};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::backoff::Growth;
use crate::bound::within;
use crate::health::{Health, Part, answer_in_words};
use crate::shutdown::Shutdown;

/// How long a leader that is not heard of keeps its place.
const TERM: Duration = Duration::from_secs(15);
/// How long before its end a term is renewed: long enough for some tries.
const EARLY: Duration = Duration::from_secs(10);
/// How long of a term this process acts by it. The rest is for clocks that differ, and for what is on its way.
const HELD: Duration = Duration::from_secs(13);
/// How long to wait for an answer.
const ANSWER: Duration = Duration::from_secs(3);
/// How long a leader waits before it tries again to renew its term.
const AGAIN: Duration = Duration::from_millis(500);
/// How long it may take to let go of the lease at the end.
const RELEASE: Duration = Duration::from_secs(2);
/// After which time without an error an election counts as under way.
const SETTLED: Duration = Duration::from_secs(2);
/// How long to wait after elections failed.
const TROUBLE: Growth = Growth { first: Duration::from_secs(1), most: Duration::from_secs(30) };

/// Whether this process acts. Clones see the same.
#[derive(Clone, Debug)]
pub struct Leadership {
    held: watch::Receiver<bool>,
    /// Without elections nobody else keeps the channel open.
    _alone: Option<Arc<watch::Sender<bool>>>,
}

/// Where an election is held.
#[derive(Clone, Debug)]
pub struct Election {
    /// The namespace of the lease.
    pub namespace: String,
    /// The name of the lease.
    pub lease: String,
    /// This candidate, unlike all others.
    pub candidate: String,
}

impl Leadership {
    /// Of a process that is the only one.
    pub fn alone() -> Self {
        let (sender, held) = watch::channel(true);
        Self { held, _alone: Some(Arc::new(sender)) }
    }

    /// As somebody else decides and tells, by the sender: false at first. When that is dropped, it stays as it is.
    pub fn by_hand() -> (watch::Sender<bool>, Self) {
        let (sender, held) = watch::channel(false);
        (sender, Self { held, _alone: None })
    }

    /// By election among all who want the same lease, from now to the end of the shutdown, at which it is let go.
    pub fn elected(client: Client, election: Election, shutdown: &Shutdown, health: &Health) -> Self {
        let (sender, held) = watch::channel(false);
        let part = health.part(format!("election by the lease {}/{}", election.namespace, election.lease));
        let (begun, term) = watch::channel(None);
        let client = noting(begun, &within(ANSWER, &client));
        let campaign = Campaign { client, election, held: sender, term, part, failures: 0, struggles: false };
        // Held until nobody acts by it any more: else another copy would, beside what is being finished here.
        shutdown.spawn_last(campaign.run(shutdown.all_others_finished()));
        Self { held, _alone: None }
    }

    /// Whether this process acts now.
    pub fn is_held(&self) -> bool {
        *self.held.borrow()
    }

    /// Resolves when this process acts.
    pub async fn held(&self) {
        self.becomes(true).await;
    }

    /// Resolves when this process does not act.
    pub async fn lost(&self) {
        self.becomes(false).await;
    }

    async fn becomes(&self, wanted: bool) {
        let mut held = self.held.clone();
        if held.wait_for(|held| *held == wanted).await.is_err() && wanted {
            // The elections are over, and we are not the one.
            std::future::pending::<()>().await;
        }
    }
}

/// What a candidate may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It acts until then, unless it renews its term before.
    Leads {
        until: Instant,
    },
    StandsBy,
}

impl Standing {
    /// Of a candidate that does or does not hold the lease, by the last term that it knows to have begun.
    ///
    /// That the lease has its name is not enough: it also has when the term is over, until another takes it.
    fn of(holding: Holding, term: Option<Instant>, now: Instant) -> Self {
        let until = term.and_then(|begun| begun.checked_add(HELD)).filter(|until| now < *until);
        match (holding, until) {
            (Holding::Mine, Some(until)) => Self::Leads { until },
            (Holding::Mine, None) | (Holding::NotMine, _) => Self::StandsBy,
        }
    }

    /// How long to wait before the next try, after one to renew failed; nothing for who has nothing to lose by
    /// standing back.
    fn again(self, now: Instant) -> Option<Duration> {
        match self {
            Self::Leads { until } => Some(AGAIN.min(until.saturating_duration_since(now))),
            Self::StandsBy => None,
        }
    }

    /// Resolves when the time of a leader is over.
    async fn over(self) {
        match self {
            Self::Leads { until } => tokio::time::sleep_until(until).await,
            Self::StandsBy => std::future::pending().await,
        }
    }
}

/// Whose name was last read in the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holding {
    Mine,
    NotMine,
}

/// What an election needs, from the first attempt to the end of the process.
struct Campaign {
    client: Client,
    election: Election,
    held: watch::Sender<bool>,
    /// When the last term of this candidate began.
    term: watch::Receiver<Option<Instant>>,
    part: Part,
    /// Attempts that failed in a row.
    failures: u32,
    /// Whether it was said that the term could not be renewed yet.
    struggles: bool,
}

impl Campaign {
    async fn run(mut self, end: impl Future<Output = ()>) {
        let mut end = std::pin::pin!(end);
        loop {
            tokio::select! {
                () = self.attempt() => {}
                () = &mut end => break,
            }
        }
        self.resign().await;
    }

    /// Stands for election, and stays in it until it cannot be known how that goes.
    async fn attempt(&mut self) {
        let error = match stand(&self.client, &self.election).await {
            Ok(manager) => self.stay(&manager).await,
            Err(error) => in_words(&error),
        };
        // Whether others have taken our place cannot be known: not to act is what does no harm.
        let _ = self.held.send(false);
        self.failures = self.failures.saturating_add(1);
        let wait = TROUBLE.wait(self.failures, rand::random());
        let Election { namespace, lease, .. } = &self.election;
        tracing::warn!(
            "this process stands back, as there is no election by the lease {namespace}/{lease}: {error}; again in {:.0} s",
            wait.as_secs_f64()
        );
        self.part.trouble(error);
        tokio::time::sleep(wait).await;
    }

    /// Tells what becomes of the lease, until it is out of reach; why, in words. A leader asks on for as long as its term
    /// lasts: to stand back means that everything is listed anew, by the server that was too slow to answer.
    async fn stay(&mut self, manager: &LeaseManager) -> String {
        let mut holding = Holding::NotMine;
        loop {
            match self.next(manager, holding).await {
                Heard::Holding(now) => {
                    holding = now;
                    self.is_well();
                }
                Heard::TermOver => return "the term could not be renewed in time".to_owned(),
                Heard::Failed(error) if is_gone(&error) => return in_words(&error),
                Heard::Failed(error) => {
                    let now = Instant::now();
                    let Some(wait) = self.standing(holding, now).again(now) else { return in_words(&error) };
                    self.leads_on(&in_words(&error));
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    /// What is heard next of the lease. A renewal is noticed meanwhile.
    async fn next(&mut self, manager: &LeaseManager, holding: Holding) -> Heard {
        let mut changed = std::pin::pin!(manager.changed());
        let mut settled = std::pin::pin!(tokio::time::sleep(SETTLED));
        let mut term = self.term.clone();
        loop {
            term.borrow_and_update();
            let standing = self.standing(holding, Instant::now());
            self.tell(standing);
            tokio::select! {
                changed = &mut changed => return match changed {
                    Ok(true) => Heard::Holding(Holding::Mine),
                    Ok(false) => Heard::Holding(Holding::NotMine),
                    Err(error) => Heard::Failed(error),
                },
                () = standing.over() => return Heard::TermOver,
                Ok(()) = term.changed() => self.is_well(),
                // Somebody else leads, and nothing is wrong with that.
                () = &mut settled, if holding == Holding::NotMine && !settled.is_elapsed() => self.is_well(),
            }
        }
    }

    fn standing(&self, holding: Holding, now: Instant) -> Standing {
        Standing::of(holding, *self.term.borrow(), now)
    }

    fn tell(&self, standing: Standing) {
        let leads = standing != Standing::StandsBy;
        if self.held.send_if_modified(|held| std::mem::replace(held, leads) != leads) {
            let Election { candidate, lease, .. } = &self.election;
            let verb = if leads { "leads" } else { "stands by" };
            tracing::info!("{candidate} {verb}, by the lease {lease}");
        }
    }

    /// Says once in a row of failures that the term could not be renewed yet.
    fn leads_on(&mut self, error: &str) {
        if !std::mem::replace(&mut self.struggles, true) {
            let Election { namespace, lease, .. } = &self.election;
            tracing::warn!(
                "this process leads on for now, though the lease {namespace}/{lease} could not be renewed: {error}"
            );
        }
        self.part.trouble(format!("it leads on for now, though its term could not be renewed: {error}"));
    }

    fn is_well(&mut self) {
        (self.failures, self.struggles) = (0, false);
        self.part.well();
    }

    /// Lets go of the lease, so that nobody has to wait for the end of the term.
    async fn resign(self) {
        let led = self.held.send_replace(false);
        if !led {
            return;
        }
        let released = async {
            let manager = stand(&self.client, &self.election).await?;
            manager.release().await
        };
        let _ = tokio::time::timeout(RELEASE, released).await;
    }
}

/// What becomes of a lease.
enum Heard {
    Holding(Holding),
    /// It was not renewed in time.
    TermOver,
    Failed(LeaseManagerError),
}

/// Whether the lease is not there, so that anybody may make it their own.
fn is_gone(error: &LeaseManagerError) -> bool {
    match error {
        LeaseManagerError::NonexistentLease(_) => true,
        LeaseManagerError::KubeError(kube::Error::Api(status)) => status.code == 404,
        _ => false,
    }
}

/// A client for the lease, which notes when each term began: when the request that was granted was sent.
fn noting(begun: watch::Sender<Option<Instant>>, client: &Client) -> Client {
    let (client, namespace) = (client.clone(), client.default_namespace().to_owned());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, begun) = (client.clone(), begun.clone());
        async move {
            let sent = Instant::now();
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let renews = renews(&body);
            let answer = client.send(Request::from_parts(head, Body::from(body))).await?;
            if renews && answer.status().is_success() {
                begun.send_replace(Some(sent));
            }
            Ok::<_, kube::Error>(answer)
        }
    });
    Client::new(service, namespace)
}

/// Whether what is written to a lease begins a term. Not all of it does: there is also how often it changed hands.
fn renews(written: &[u8]) -> bool {
    let lease = serde_json::from_slice::<Lease>(written).ok();
    lease.and_then(|lease| lease.spec?.renew_time).is_some()
}

/// Why there is no election, in one line.
fn in_words(error: &LeaseManagerError) -> String {
    match error {
        LeaseManagerError::KubeError(kube::Error::Api(status)) if status.code == 415 => {
            "the API knows no server-side apply, which elections need; where there is one copy, switch them off".to_owned()
        }
        LeaseManagerError::KubeError(kube::Error::Api(status)) => answer_in_words(status),
        other => other.to_string(),
    }
}

async fn stand(client: &Client, election: &Election) -> Result<LeaseManager, LeaseManagerError> {
    LeaseManagerBuilder::new(client.clone(), &election.lease)
        .with_namespace(&election.namespace)
        .with_identity(&election.candidate)
        .with_duration(TERM.as_secs())
        .with_grace(EARLY.as_secs())
        .build()
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_leads_holds_the_lease_and_has_a_term_that_is_not_nearly_over() {
        let begun = Instant::now();
        let at = |seconds: f64| begun + Duration::from_secs_f64(seconds);
        let leads = Standing::Leads { until: at(13.0) };
        let by = Standing::StandsBy;
        let rows = [
            ("just renewed", Holding::Mine, Some(begun), 0.0, leads, Some(AGAIN)),
            ("time to renew", Holding::Mine, Some(begun), 5.0, leads, Some(AGAIN)),
            ("the last try", Holding::Mine, Some(begun), 12.9, leads, Some(Duration::from_millis(100))),
            ("nearly over", Holding::Mine, Some(begun), 13.0, by, None),
            ("over, and nobody has taken it", Holding::Mine, Some(begun), 100.0, by, None),
            ("found with our name, of a term that nobody knows", Holding::Mine, None, 0.0, by, None),
            ("another has taken it", Holding::NotMine, Some(begun), 1.0, by, None),
            ("another has it", Holding::NotMine, None, 1.0, by, None),
        ];
        for (sentence, holding, term, now, wanted, again) in rows {
            let standing = Standing::of(holding, term, at(now));
            assert_eq!(standing, wanted, "{sentence}");
            let wait = standing.again(at(now)).map(|wait| wait.as_millis());
            assert_eq!(wait, again.map(|wait| wait.as_millis()), "{sentence}");
        }
        assert!(HELD + Duration::from_secs(2) <= TERM, "clocks may differ");
        assert!(TERM - EARLY + ANSWER + AGAIN < HELD, "one answer that is late is not the end");
    }

    #[test]
    fn a_term_begins_with_its_time() {
        let rows = [
            (r#"{"spec": {"renewTime": "2024-05-01T10:00:00.000000Z", "leaseDurationSeconds": 15}}"#, true),
            (r#"{"spec": {"leaseTransitions": 3}}"#, false),
            (r#"{"spec": {"renewTime": null, "holderIdentity": null}}"#, false),
            ("", false),
        ];
        for (written, expected) in rows {
            assert_eq!(renews(written.as_bytes()), expected, "{written}");
        }
    }
}
