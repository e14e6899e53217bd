//! Sends one heartbeat to an AddonInstance: reads it, updates its status and writes it back. Repeating heartbeats is left to
//! `reporter`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bellwether_api::addons_managed::AddonInstance;
use bellwether_clock::{Clock, SystemClock};
use bellwether_conditions::Desired;
use jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use serde_json::Value;

use super::error::{Error, Operation};
use super::{edit, timing};
use crate::Period;
use crate::vocabulary::INSTANCE_NAME;

/// The `AddonInstance` of an add-on, to which it sends heartbeats.
///
/// A heartbeat is a GET and a PUT of `/status` with the resourceVersion that was read, retried after a conflict. So no write
/// of another client is lost, and the permissions `get addoninstances` and `update addoninstances/status` suffice.
///
/// ```no_run
/// # async fn add_on(client: kube::Client) -> Result<(), bellwether_heartbeat::client::Error> {
/// use bellwether_heartbeat::client::Instance;
///
/// Instance::in_namespace(client, "reference-addon").send_heartbeat().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Instance {
    api: Api<DynamicObject>,
    namespace: String,
    name: String,
    clock: Arc<dyn Clock>,
}

/// A heartbeat that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentHeartbeat {
    /// Its `lastHeartbeatTime`.
    pub at: Timestamp,
    /// The period of the instance.
    pub period: Period,
}

impl Instance {
    /// The instance of a namespace, with the default name `addon-instance`.
    pub fn in_namespace(client: kube::Client, namespace: &str) -> Self {
        let api = Api::namespaced_with(client, namespace, &ApiResource::erase::<AddonInstance>(&()));
        Self { api, namespace: namespace.into(), name: INSTANCE_NAME.into(), clock: Arc::new(SystemClock) }
    }

    /// Uses another name than `addon-instance`.
    #[must_use]
    pub fn with_name(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Uses another clock for timestamps than the system clock.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Sends a heartbeat without conditions.
    pub async fn send_heartbeat(&self) -> Result<SentHeartbeat, Error> {
        self.set_conditions(&[]).await
    }

    /// Sends a heartbeat with conditions. Conditions of other types stay as they are.
    pub async fn set_conditions(&self, conditions: &[Desired]) -> Result<SentHeartbeat, Error> {
        self.send_with_timeout(conditions, timing::request_timeout(Period::DEFAULT)).await
    }

    /// Sends a heartbeat; `timeout` applies to each request.
    pub(super) async fn send_with_timeout(
        &self,
        conditions: &[Desired],
        timeout: Duration,
    ) -> Result<SentHeartbeat, Error> {
        for attempt in 1..=timing::WRITE_ATTEMPTS {
            let mut object = self.read(timeout).await?;
            let sent = SentHeartbeat { at: self.clock.now(), period: period_of(&object) };
            edit::apply_heartbeat(&mut object.data, object.metadata.generation, conditions, sent.at);
            match self.write(&object, timeout).await {
                Err(Error::Rejected { code: 409, .. }) if attempt < timing::WRITE_ATTEMPTS => {
                    tokio::time::sleep(timing::conflict_delay(attempt, rand::random())).await;
                }
                Err(Error::Rejected { code: 409, .. }) => break,
                written => return written.map(|()| sent),
            }
        }
        Err(Error::Conflict { instance: self.to_string(), attempts: timing::WRITE_ATTEMPTS })
    }

    /// Reads the period of the instance.
    pub(super) async fn read_period(&self, timeout: Duration) -> Result<Period, Error> {
        self.read(timeout).await.map(|object| period_of(&object))
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn read(&self, timeout: Duration) -> Result<DynamicObject, Error> {
        self.with_timeout(timeout, Operation::Read, self.api.get(&self.name)).await
    }

    async fn write(&self, object: &DynamicObject, timeout: Duration) -> Result<(), Error> {
        let parameters = PostParams::default();
        let request = self.api.replace_status(&self.name, &parameters, object);
        self.with_timeout(timeout, Operation::Write, request).await.map(drop)
    }

    async fn with_timeout<T>(
        &self,
        timeout: Duration,
        operation: Operation,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Error> {
        match tokio::time::timeout(timeout, request).await {
            Ok(response) => {
                response.map_err(|error| Error::from_request(operation, self.to_string(), &self.name, error))
            }
            Err(_) => Err(Error::TimedOut { operation, instance: self.to_string(), timeout }),
        }
    }
}

/// The period is read from JSON, because the API server accepts any string.
fn period_of(object: &DynamicObject) -> Period {
    Period::from_spec(object.data.pointer("/spec/heartbeatUpdatePeriod").and_then(Value::as_str))
}

/// Formats as `namespace/name`.
impl fmt::Display for Instance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Instance({self})")
    }
}
