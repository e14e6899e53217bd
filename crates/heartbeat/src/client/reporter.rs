//! A task that sends heartbeats for an add-on at the period of its instance, and retries after errors, until it is stopped.
//! A single heartbeat is sent by `instance`; delays are computed in `timing`.

use std::time::Duration;

use bellwether_conditions::Desired;
use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::debug;

use super::error::{Error, Operation};
use super::instance::{Instance, SentHeartbeat};
use super::timing;
use crate::Period;

/// How long [`Reporter::stop`] may take, including the last heartbeat.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// How many commands may be queued while a heartbeat is being sent; callers of further ones wait.
const COMMAND_QUEUE_CAPACITY: usize = 16;

/// Sends heartbeats for an add-on until it is stopped or dropped.
///
/// It sends them at the period of the instance (`spec.heartbeatUpdatePeriod`), up to a tenth early, and follows changes of
/// the period. Every heartbeat repeats the conditions, so that they are restored if another client removes them. After a
/// failure it retries after 1, 2, 4, … seconds, at most the period; no error ends the task.
///
/// A condition that is left out of a later [`set_conditions`](Self::set_conditions) is no longer repeated; it is not
/// removed from the instance.
#[derive(Debug)]
pub struct Reporter {
    instance: Instance,
    commands: mpsc::Sender<Command>,
    health: watch::Receiver<Health>,
    task: JoinHandle<()>,
}

/// The state of a reporter.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// The last heartbeat that was sent.
    pub last_success: Option<SentHeartbeat>,
    /// The last failure, even if heartbeats have succeeded since.
    pub last_error: Option<Failure>,
    /// The number of failures since the last success.
    pub failures: u32,
    /// The time from this report to the next heartbeat or retry.
    pub next_in: Duration,
}

/// A heartbeat that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The time of the failure.
    pub at: Timestamp,
    /// Its cause.
    pub error: Error,
}

impl Health {
    /// Whether the last heartbeat succeeded.
    pub fn is_healthy(&self) -> bool {
        self.failures == 0 && self.last_success.is_some()
    }
}

#[derive(Debug)]
enum Command {
    /// Send a heartbeat now; if there are conditions, replace the previous ones.
    Send { conditions: Option<Vec<Desired>>, result: oneshot::Sender<Result<(), Error>> },
    /// Send a last heartbeat, then end the task.
    Stop { result: oneshot::Sender<Result<(), Error>> },
}

impl Reporter {
    /// Starts to send heartbeats at once, at the period of the instance, with these conditions, if any.
    ///
    /// # Panics
    /// Outside of a tokio runtime, as [`tokio::spawn`] does.
    pub fn start(instance: Instance, conditions: Vec<Desired>) -> Self {
        Self::spawn(instance, conditions, None)
    }

    /// Like [`start`](Self::start), at this period instead of that of the instance. It is at least a second, because
    /// timestamps are whole seconds.
    ///
    /// # Panics
    /// Outside of a tokio runtime, as [`tokio::spawn`] does.
    pub fn start_with_period(period: Duration, instance: Instance, conditions: Vec<Desired>) -> Self {
        Self::spawn(instance, conditions, Some(period.clamp(Period::MIN, Period::MAX)))
    }

    fn spawn(instance: Instance, conditions: Vec<Desired>, fixed_period: Option<Duration>) -> Self {
        let (commands, queue) = mpsc::channel(COMMAND_QUEUE_CAPACITY);
        let (health, subscriber) = watch::channel(Health::default());
        let task = ReporterTask {
            instance: instance.clone(),
            conditions,
            fixed_period,
            period: fixed_period.unwrap_or(Period::DEFAULT),
            last_started: Instant::now(),
            due: Instant::now(),
            jitter: 0,
            period_read: Instant::now(),
            health,
        };
        Self { instance, commands, health: subscriber, task: tokio::spawn(task.run(queue)) }
    }

    /// Replaces the conditions that are repeated, and sends them at once. If sending fails, they are still repeated with
    /// the next heartbeats.
    pub async fn set_conditions(&self, conditions: Vec<Desired>) -> Result<(), Error> {
        self.execute(|result| Command::Send { conditions: Some(conditions), result }).await
    }

    /// Sends a heartbeat at once.
    pub async fn send_heartbeat(&self) -> Result<(), Error> {
        self.execute(|result| Command::Send { conditions: None, result }).await
    }

    /// Sends a last heartbeat and ends the task. The task has ended when this returns, after five seconds at most, even if
    /// the heartbeat failed.
    pub async fn stop(&self) -> Result<(), Error> {
        let stopped = timeout(STOP_TIMEOUT, self.execute(|result| Command::Stop { result })).await;
        if stopped.is_err() {
            self.task.abort();
        }
        self.commands.closed().await;
        stopped.unwrap_or_else(|_| {
            let instance = self.instance.to_string();
            Err(Error::TimedOut { operation: Operation::Write, instance, timeout: STOP_TIMEOUT })
        })
    }

    /// The current state of the reporter.
    pub fn health(&self) -> Health {
        self.health.borrow().clone()
    }

    /// Subscribes to the state of the reporter.
    pub fn subscribe(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }

    async fn execute(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<(), Error>>) -> Command,
    ) -> Result<(), Error> {
        let stopped = || Error::Stopped { instance: self.instance.to_string() };
        let (sender, result) = oneshot::channel();
        self.commands.send(command(sender)).await.map_err(|_| stopped())?;
        result.await.map_err(|_| stopped())?
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The state of the task that sends heartbeats.
struct ReporterTask {
    instance: Instance,
    conditions: Vec<Desired>,
    /// The period to use instead of that of the instance.
    fixed_period: Option<Duration>,
    period: Duration,
    /// When the last heartbeat was started.
    last_started: Instant,
    /// When the next heartbeat or retry is due.
    due: Instant,
    /// The random number from which the jitter of the current interval is computed.
    jitter: u16,
    /// When the period was last read.
    period_read: Instant,
    health: watch::Sender<Health>,
}

impl ReporterTask {
    async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        loop {
            let next_period_check = self.period_read + timing::PERIOD_CHECK_INTERVAL;
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    None => return,
                    Some(Command::Send { conditions, result }) => {
                        if let Some(conditions) = conditions {
                            self.conditions = conditions;
                        }
                        // The caller may have been dropped.
                        let _ = result.send(self.send_heartbeat().await);
                    }
                    Some(Command::Stop { result }) => {
                        let _ = result.send(self.send_heartbeat().await);
                        return;
                    }
                },
                () = sleep_until(self.due) => { let _ = self.send_heartbeat().await; }
                () = sleep_until(next_period_check), if next_period_check < self.due => self.check_period().await,
            }
        }
    }

    async fn send_heartbeat(&mut self) -> Result<(), Error> {
        self.last_started = Instant::now();
        self.jitter = rand::random();
        let timeout = timing::request_timeout(self.period);
        let sent = self.instance.send_with_timeout(&self.conditions, timeout).await;
        self.period_read = Instant::now();
        match sent {
            Ok(sent) => {
                self.set_period(&sent.period);
                self.record_success(sent);
                Ok(())
            }
            Err(error) => {
                self.record_failure(error.clone());
                Err(error)
            }
        }
    }

    fn record_success(&self, sent: SentHeartbeat) {
        let next_in = self.due.saturating_duration_since(self.period_read);
        self.health.send_modify(|health| {
            *health = Health { last_success: Some(sent), failures: 0, next_in, ..std::mem::take(health) };
        });
    }

    fn record_failure(&mut self, error: Error) {
        debug!(%error, "cannot send the heartbeat; retrying");
        let failures = self.health.borrow().failures.saturating_add(1);
        let next_in = timing::retry_delay(failures, self.period, self.jitter);
        self.due = self.period_read + next_in;
        let failure = Failure { at: self.instance.now(), error };
        self.health.send_modify(|health| {
            *health = Health { last_error: Some(failure), failures, next_in, ..std::mem::take(health) };
        });
    }

    /// Reads the period between heartbeats that are far apart, because it may have been shortened.
    async fn check_period(&mut self) {
        let period = self.instance.read_period(timing::request_timeout(self.period)).await;
        self.period_read = Instant::now();
        match period {
            Ok(period) => self.set_period(&period),
            Err(error) => debug!(%error, "cannot read the period; retrying in a minute"),
        }
    }

    fn set_period(&mut self, period: &Period) {
        self.period = self.fixed_period.unwrap_or(period.effective());
        self.due = self.last_started + timing::heartbeat_interval(self.period, self.jitter);
    }
}
