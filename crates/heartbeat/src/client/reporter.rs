//! The task that beats for an add-on: at the pace that its instance asks for, whatever goes wrong, until it is stopped.

use std::time::Duration;

use bellwether_conditions::Desired;
use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::debug;

use super::error::{Attempt, Error};
use super::instance::{Instance, Sent};
use super::pace;
use crate::Period;

/// How long stopping may take, with the last beat.
const FAREWELL: Duration = Duration::from_secs(5);
/// How many wishes may wait while a beat is under way; more of them wait at the door.
const WISHES: usize = 16;

/// Beats for an add-on until it is stopped or dropped.
///
/// It beats at the period of the instance (`spec.heartbeatUpdatePeriod`), up to a tenth early, and follows it when it
/// changes. Every beat repeats the conditions, so that they come back if somebody removes them. A beat that fails is
/// tried again after 1, 2, 4, … seconds, within the period; no error ends the task.
///
/// A condition that is left out of a later [`set_conditions`](Self::set_conditions) is no longer repeated; it is not
/// removed from the instance.
#[derive(Debug)]
pub struct Reporter {
    instance: Instance,
    wishes: mpsc::Sender<Wish>,
    health: watch::Receiver<Health>,
    task: JoinHandle<()>,
}

/// How beating goes.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// The last beat that arrived.
    pub last_success: Option<Sent>,
    /// The last thing that went wrong, even if all is well since.
    pub last_error: Option<Failure>,
    /// How many beats have failed since the last success.
    pub failures: u32,
    /// How long after this report the next beat or retry was due.
    pub next_in: Duration,
}

/// Something that went wrong, and when.
#[derive(Clone, Debug)]
pub struct Failure {
    /// When.
    pub at: Timestamp,
    /// What.
    pub error: Error,
}

impl Health {
    /// Whether the last beat arrived.
    pub fn is_well(&self) -> bool {
        self.failures == 0 && self.last_success.is_some()
    }
}

#[derive(Debug)]
enum Wish {
    /// Beat now; with other conditions from now on, if there are some.
    Report { conditions: Option<Vec<Desired>>, outcome: oneshot::Sender<Result<(), Error>> },
    /// Beat once more, then end.
    Stop { outcome: oneshot::Sender<Result<(), Error>> },
}

impl Reporter {
    /// Starts to beat at once, at the instance's own period, with these conditions, which may be none.
    ///
    /// # Panics
    /// Outside of a tokio runtime, as [`tokio::spawn`] does.
    pub fn start(instance: Instance, conditions: Vec<Desired>) -> Self {
        Self::spawn(instance, conditions, None)
    }

    /// The same at a period of one's own, whatever the instance says; at least a second, as stamps are whole seconds.
    ///
    /// # Panics
    /// Outside of a tokio runtime, as [`tokio::spawn`] does.
    pub fn every(period: Duration, instance: Instance, conditions: Vec<Desired>) -> Self {
        Self::spawn(instance, conditions, Some(period.clamp(Period::SHORTEST, Period::LONGEST)))
    }

    fn spawn(instance: Instance, conditions: Vec<Desired>, own_period: Option<Duration>) -> Self {
        let (wishes, waiting) = mpsc::channel(WISHES);
        let (health, reports) = watch::channel(Health::default());
        let beating = Beating {
            instance: instance.clone(),
            conditions,
            own_period,
            period: own_period.unwrap_or(Period::DEFAULT),
            begun: Instant::now(),
            due: Instant::now(),
            draw: 0,
            looked: Instant::now(),
            health,
        };
        Self { instance, wishes, health: reports, task: tokio::spawn(beating.run(waiting)) }
    }

    /// Repeats these conditions instead of the former, and reports them at once. Where that fails, they are repeated
    /// nevertheless.
    pub async fn set_conditions(&self, conditions: Vec<Desired>) -> Result<(), Error> {
        self.wish(|outcome| Wish::Report { conditions: Some(conditions), outcome }).await
    }

    /// Beats at once.
    pub async fn pulse(&self) -> Result<(), Error> {
        self.wish(|outcome| Wish::Report { conditions: None, outcome }).await
    }

    /// Beats once more and ends. However that goes, and after five seconds at most, the task has ended.
    pub async fn stop(&self) -> Result<(), Error> {
        let last_word = timeout(FAREWELL, self.wish(|outcome| Wish::Stop { outcome })).await;
        if last_word.is_err() {
            self.task.abort();
        }
        self.wishes.closed().await;
        last_word.unwrap_or_else(|_| {
            Err(Error::Late { attempt: Attempt::Write, instance: self.instance.to_string(), limit: FAREWELL })
        })
    }

    /// How beating goes now.
    pub fn health(&self) -> Health {
        self.health.borrow().clone()
    }

    /// How beating goes, with every change.
    pub fn subscribe(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }

    async fn wish(&self, wish: impl FnOnce(oneshot::Sender<Result<(), Error>>) -> Wish) -> Result<(), Error> {
        let stopped = || Error::Stopped { instance: self.instance.to_string() };
        let (sender, outcome) = oneshot::channel();
        self.wishes.send(wish(sender)).await.map_err(|_| stopped())?;
        outcome.await.map_err(|_| stopped())?
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The state of the task.
struct Beating {
    instance: Instance,
    conditions: Vec<Desired>,
    /// What counts instead of the instance's period.
    own_period: Option<Duration>,
    period: Duration,
    /// When the last beat began.
    begun: Instant,
    /// When the next beat or retry is due.
    due: Instant,
    /// The chance in the interval under way.
    draw: u16,
    /// When the spec was last read.
    looked: Instant,
    health: watch::Sender<Health>,
}

impl Beating {
    async fn run(mut self, mut wishes: mpsc::Receiver<Wish>) {
        loop {
            let look = self.looked + pace::LOOK;
            tokio::select! {
                biased;
                wish = wishes.recv() => match wish {
                    None => return,
                    Some(Wish::Report { conditions, outcome }) => {
                        if let Some(conditions) = conditions {
                            self.conditions = conditions;
                        }
                        // Whoever asked may have gone.
                        let _ = outcome.send(self.beat().await);
                    }
                    Some(Wish::Stop { outcome }) => {
                        let _ = outcome.send(self.beat().await);
                        return;
                    }
                },
                () = sleep_until(self.due) => { let _ = self.beat().await; }
                () = sleep_until(look), if look < self.due => self.look().await,
            }
        }
    }

    async fn beat(&mut self) -> Result<(), Error> {
        self.begun = Instant::now();
        self.draw = rand::random();
        let sent = self.instance.beat(&self.conditions, pace::limit(self.period)).await;
        self.looked = Instant::now();
        match sent {
            Ok(sent) => {
                self.follow(&sent.period);
                self.succeeded(sent);
                Ok(())
            }
            Err(error) => {
                self.failed(error.clone());
                Err(error)
            }
        }
    }

    fn succeeded(&self, sent: Sent) {
        let next_in = self.due.saturating_duration_since(self.looked);
        self.health.send_modify(|health| {
            *health = Health { last_success: Some(sent), failures: 0, next_in, ..std::mem::take(health) };
        });
    }

    fn failed(&mut self, error: Error) {
        debug!(%error, "a beat was not sent");
        let failures = self.health.borrow().failures.saturating_add(1);
        let next_in = pace::retry(failures, self.period, self.draw);
        self.due = self.looked + next_in;
        let failure = Failure { at: self.instance.now(), error };
        self.health.send_modify(|health| {
            *health = Health { last_error: Some(failure), failures, next_in, ..std::mem::take(health) };
        });
    }

    /// Between beats that are far apart: is there another period by now?
    async fn look(&mut self) {
        let period = self.instance.period(pace::limit(self.period)).await;
        self.looked = Instant::now();
        match period {
            Ok(period) => self.follow(&period),
            Err(error) => debug!(%error, "the period could not be looked at"),
        }
    }

    fn follow(&mut self, asked: &Period) {
        self.period = self.own_period.unwrap_or(asked.effective());
        self.due = self.begun + pace::interval(self.period, self.draw);
    }
}
