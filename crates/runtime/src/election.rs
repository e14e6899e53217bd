//! Leader election by a Lease. The leader renews it; a standby watches it, and takes it when it is released or was not
//! renewed for its duration, measured on the standby's own monotonic clock since it saw the last renewal. Every write
//! carries the resourceVersion it was decided by, so that of two candidates one gets a conflict.

use std::time::Duration;

use bellwether_clock::{Clock as _, SystemClock};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::backoff::BackoffPolicy;
use crate::client::limit_response_time;
use crate::health::{Component, describe_status};

/// How long a leader that does not renew its Lease stays the leader.
const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long of that this process acts as leader. The rest is for clocks that run at different speeds, and for requests
/// that are under way.
const LEADER_DURATION: Duration = Duration::from_secs(13);
/// How often the leader renews.
const RENEW_INTERVAL: Duration = Duration::from_secs(5);
/// How long the leader waits before it tries again to renew.
const RENEW_RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// How long a request for the Lease may take.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);
/// How long releasing the Lease may take at the end.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a standby reads the Lease while it cannot watch it.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// How long a candidate waits after a failed request.
const RETRY: BackoffPolicy = BackoffPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(30) };

/// The Lease that decides, and who this process is.
#[derive(Clone, Debug)]
pub struct Election {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub lease: String,
    /// The identity of this process, different from all others.
    pub identity: String,
}

/// What a candidate knows of the Lease.
#[derive(Clone, Debug)]
struct Observed {
    lease: Lease,
    /// When this process first saw this renewal.
    at: Instant,
}

/// What a candidate does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Write the Lease, now: to acquire or to renew it.
    Write,
    /// Nothing before this instant, unless the Lease changes.
    WaitUntil(Instant),
}

impl Observed {
    fn holder(&self) -> Option<&str> {
        let holder = self.lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
        holder.filter(|holder| !holder.is_empty())
    }

    /// When others may take the Lease.
    fn expires(&self) -> Instant {
        let seconds = self.lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        self.at + seconds.map_or(LEASE_DURATION, Duration::from_secs)
    }
}

/// What a candidate does next: `renewed` is when it last sent a write that was granted, if it is the holder by that.
fn step(observed: Option<&Observed>, identity: &str, renewed: Option<Instant>, now: Instant) -> Step {
    let at = |instant: Instant| if instant <= now { Step::Write } else { Step::WaitUntil(instant) };
    match observed {
        None => Step::Write,
        Some(lease) if lease.holder() == Some(identity) => match renewed {
            Some(renewed) => at(renewed + RENEW_INTERVAL),
            // It carries this identity, by a term that this process does not remember.
            None => Step::Write,
        },
        Some(lease) if lease.holder().is_none() => Step::Write,
        Some(lease) => at(lease.expires()),
    }
}

/// One process in the election.
pub(crate) struct Candidate {
    leases: Api<Lease>,
    events: BoxStream<'static, watcher::Result<watcher::Event<Lease>>>,
    election: Election,
    leader: watch::Sender<bool>,
    component: Component,
    observed: Option<Observed>,
    /// When the last write that was granted was sent; the term of this process counts from there.
    renewed: Option<Instant>,
    failures: u32,
    /// Nothing is written before, after a failure.
    retry_at: Instant,
    /// While the watch fails the Lease is read at intervals.
    watch_fails: bool,
}

impl Candidate {
    pub(crate) fn new(
        client: &Client,
        election: Election,
        leader: watch::Sender<bool>,
        component: Component,
    ) -> Self {
        let watched: Api<Lease> = Api::namespaced(client.clone(), &election.namespace);
        let only = watcher::Config::default().fields(&format!("metadata.name={}", election.lease));
        Self {
            leases: Api::namespaced(limit_response_time(client, RESPONSE_TIMEOUT), &election.namespace),
            events: watcher(watched, only).default_backoff().boxed(),
            election,
            leader,
            component,
            observed: None,
            renewed: None,
            failures: 0,
            retry_at: Instant::now(),
            watch_fails: false,
        }
    }

    /// Takes part in the election until `end`, and then releases the Lease.
    pub(crate) async fn run(mut self, end: impl Future<Output = ()>) {
        let mut end = std::pin::pin!(end);
        loop {
            let now = Instant::now();
            let term_ends = self.term_end();
            self.set_leader(term_ends.is_some_and(|end| now < end));
            let next = match step(self.observed.as_ref(), &self.election.identity, self.renewed, now) {
                Step::Write => self.retry_at,
                Step::WaitUntil(at) if self.watch_fails && self.renewed.is_none() => {
                    at.min(now + POLL_INTERVAL).max(self.retry_at)
                }
                Step::WaitUntil(at) => at.max(self.retry_at),
            };
            tokio::select! {
                biased;
                () = &mut end => break,
                () = expired(term_ends) => self.lose("the Lease could not be renewed in time"),
                Some(event) = self.events.next() => self.observe_event(event),
                () = tokio::time::sleep_until(next) => {
                    let write = self.acquire_or_renew();
                    let ended = tokio::select! {
                        result = write => Some(result),
                        () = expired(term_ends) => None,
                    };
                    match ended {
                        Some(Ok(())) => {}
                        Some(Err(error)) => self.fail(&error),
                        None => self.lose("the Lease could not be renewed in time"),
                    }
                }
            }
        }
        self.release().await;
    }

    /// Until when this process is leader.
    fn term_end(&self) -> Option<Instant> {
        self.renewed.map(|renewed| renewed + LEADER_DURATION)
    }

    fn observe_event(&mut self, event: watcher::Result<watcher::Event<Lease>>) {
        match event {
            Ok(watcher::Event::Apply(lease) | watcher::Event::InitApply(lease)) => self.observe(Some(lease)),
            Ok(watcher::Event::Delete(deleted)) => {
                let known = self.observed.as_ref().is_some_and(|known| known.lease.uid() == deleted.uid());
                if known {
                    self.observed = None;
                    if self.renewed.is_some() {
                        self.lose("the Lease was deleted");
                    }
                }
            }
            Ok(watcher::Event::Init) => {}
            Ok(watcher::Event::InitDone) => self.watch_fails = false,
            Err(error) => {
                tracing::debug!("the watch of Lease {} failed: {error}", self.election.lease);
                self.watch_fails = true;
            }
        }
    }

    /// Takes note of the Lease as it is now.
    fn observe(&mut self, lease: Option<Lease>) {
        let Some(lease) = lease else {
            self.observed = None;
            return;
        };
        match &mut self.observed {
            Some(known) if version(&lease) < version(&known.lease) && lease.uid() == known.lease.uid() => {
                return;
            }
            // The same renewal: its time counts from when it was first seen.
            Some(known) if known.lease.spec == lease.spec => known.lease = lease,
            known => *known = Some(Observed { lease, at: Instant::now() }),
        }
        let mine = self.observed.as_ref().and_then(Observed::holder) == Some(self.election.identity.as_str());
        if !mine && self.renewed.is_some() {
            self.lose("another process took the Lease");
        }
        // To wait for the end of another's term is the healthy state of a standby.
        if !mine && step(self.observed.as_ref(), &self.election.identity, None, Instant::now()) != Step::Write
        {
            self.succeed();
        }
    }

    /// Reads the Lease where it is not known, and writes it where this process may hold it.
    async fn acquire_or_renew(&mut self) -> Result<(), kube::Error> {
        if self.renewed.is_none() {
            // What a watch showed may be old: a Lease that looks expired may have been renewed.
            let found = self.leases.get_opt(&self.election.lease).await?;
            self.observe(found);
            let now = Instant::now();
            if step(self.observed.as_ref(), &self.election.identity, None, now) != Step::Write {
                return Ok(());
            }
        }
        let sent = Instant::now();
        let written = match &self.observed {
            None => self.leases.create(&PostParams::default(), &self.new_lease()).await,
            Some(known) => {
                let patch = self.renewal(&known.lease);
                self.leases.patch(&self.election.lease, &PatchParams::default(), &Patch::Merge(&patch)).await
            }
        };
        let written = match written {
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                // Somebody wrote it meanwhile. Whether this process still holds it is read from what is there now.
                let found = self.leases.get_opt(&self.election.lease).await?;
                self.observe(found);
                self.retry_at = self.retry_at.max(Instant::now() + RENEW_RETRY_INTERVAL);
                return Ok(());
            }
            Err(kube::Error::Api(status)) if status.code == 404 && self.observed.is_some() => {
                self.observed = None;
                self.lose("the Lease was deleted");
                return Err(kube::Error::Api(status));
            }
            written => written?,
        };
        self.renewed = Some(sent);
        self.observed = Some(Observed { lease: written, at: sent });
        self.succeed();
        Ok(())
    }

    fn new_lease(&self) -> Lease {
        let mut lease = Lease { spec: Some(self.held_spec(None)), ..Lease::default() };
        lease.metadata.name = Some(self.election.lease.clone());
        lease
    }

    fn renewal(&self, known: &Lease) -> serde_json::Value {
        json!({
            "metadata": {"resourceVersion": known.metadata.resource_version, "uid": known.metadata.uid},
            "spec": self.held_spec(known.spec.as_ref()),
        })
    }

    /// The spec of the Lease with this process as its holder.
    fn held_spec(&self, known: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(SystemClock.now());
        let identity = &self.election.identity;
        let kept = known.filter(|known| known.holder_identity.as_ref() == Some(identity));
        let transitions = known.and_then(|known| known.lease_transitions).unwrap_or_default();
        LeaseSpec {
            holder_identity: Some(identity.clone()),
            lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
            acquire_time: kept.and_then(|kept| kept.acquire_time.clone()).or_else(|| Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(if kept.is_some() { transitions } else { transitions.saturating_add(1) }),
            ..LeaseSpec::default()
        }
    }

    fn succeed(&mut self) {
        self.failures = 0;
        self.retry_at = Instant::now();
        self.component.ready();
    }

    fn fail(&mut self, error: &kube::Error) {
        let now = Instant::now();
        let Election { namespace, lease, .. } = &self.election;
        let reason = describe(error);
        if self.renewed.is_some() {
            if self.failures == 0 {
                tracing::warn!(
                    "Lease {namespace}/{lease} could not be renewed: {reason}; this process stays leader until its term ends"
                );
            }
            self.failures = self.failures.saturating_add(1);
            self.retry_at = now + RENEW_RETRY_INTERVAL;
            self.component.not_ready(format!("still leader, but the Lease could not be renewed: {reason}"));
            return;
        }
        self.failures = self.failures.saturating_add(1);
        let delay = RETRY.delay(self.failures, rand::random());
        self.retry_at = now + delay;
        tracing::warn!(
            "this process cannot become leader: Lease {namespace}/{lease}: {reason}; retry in {:.0} s",
            delay.as_secs_f64()
        );
        self.component.not_ready(reason);
    }

    /// This process is leader no more. The election goes on after a short delay.
    fn lose(&mut self, why: &str) {
        self.renewed = None;
        self.failures = 0;
        self.retry_at = Instant::now() + RETRY.delay(1, rand::random());
        self.set_leader(false);
        self.component.not_ready(why);
        let Election { namespace, lease, .. } = &self.election;
        tracing::warn!("this process is not leader any more: Lease {namespace}/{lease}: {why}");
    }

    fn set_leader(&self, leader: bool) {
        if self.leader.send_if_modified(|now| std::mem::replace(now, leader) != leader) {
            let Election { namespace, lease, identity } = &self.election;
            let role = if leader { "leader" } else { "standby" };
            tracing::info!("{identity} is {role} by Lease {namespace}/{lease}");
        }
    }

    /// Releases the Lease, so that a standby need not wait for its end.
    async fn release(self) {
        let was_leader = self.leader.send_replace(false);
        let Some(known) = self.observed.filter(|_| was_leader) else { return };
        let patch = Patch::Merge(json!({
            "metadata": {"resourceVersion": known.lease.metadata.resource_version, "uid": known.lease.metadata.uid},
            "spec": {"holderIdentity": null, "renewTime": null, "acquireTime": null},
        }));
        let params = PatchParams::default();
        let release = self.leases.patch(&self.election.lease, &params, &patch);
        if !matches!(tokio::time::timeout(RELEASE_TIMEOUT, release).await, Ok(Ok(_))) {
            tracing::debug!("Lease {} could not be released; it expires by itself", self.election.lease);
        }
    }
}

async fn expired(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}

fn version(lease: &Lease) -> Option<u64> {
    lease.resource_version().and_then(|version| version.parse().ok())
}

/// Why a request for the Lease failed, in one line.
fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => describe_status(status),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: &str) -> Lease {
        serde_json::from_value(json!({
            "metadata": {"name": "controllers"},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
        }))
        .unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn candidate_waits_for_the_holder_and_renews_its_own_lease() {
        let start = Instant::now();
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        let seen = |holder: &str| Some(Observed { lease: lease(holder), at: start });
        let rows = [
            ("no Lease", None, None, 0.0, Step::Write),
            ("released", seen(""), None, 0.1, Step::Write),
            ("just renewed", seen("me"), Some(start), 0.0, Step::WaitUntil(at(5.0))),
            ("time to renew", seen("me"), Some(start), 5.0, Step::Write),
            ("renewal is late", seen("me"), Some(start), 12.9, Step::Write),
            ("own identity of an unknown term", seen("me"), None, 0.0, Step::Write),
            ("another holds it", seen("other"), None, 3.0, Step::WaitUntil(at(15.0))),
            ("another took it", seen("other"), Some(start), 3.0, Step::WaitUntil(at(15.0))),
            ("another let it expire", seen("other"), None, 15.0, Step::Write),
        ];
        for (sentence, observed, renewed, now, expected) in rows {
            assert_eq!(step(observed.as_ref(), "me", renewed, at(now)), expected, "{sentence}");
        }
        assert!(LEADER_DURATION + Duration::from_secs(2) <= LEASE_DURATION, "clocks may differ");
        let one_late_response = RENEW_INTERVAL + RESPONSE_TIMEOUT + RENEW_RETRY_INTERVAL;
        assert!(
            one_late_response + RESPONSE_TIMEOUT < LEADER_DURATION,
            "one late response is not the end of a term"
        );
    }
}
