//! One AddonInstance, as its add-on sees it: read, stamped and written back. How often is not decided here.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bellwether_api::addons_managed::AddonInstance;
use bellwether_clock::{Clock, SystemClock};
use bellwether_conditions::Desired;
use jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use serde_json::Value;

use super::error::{Attempt, Error};
use super::{edit, pace};
use crate::Period;
use crate::vocabulary::INSTANCE;

/// The `AddonInstance` of an add-on, to be stamped.
///
/// A beat is a GET and a PUT of `/status` with the resourceVersion that was read, tried again where somebody else wrote
/// in between. So nothing that others write is lost, and the rights `get addoninstances` and `update
/// addoninstances/status` suffice.
///
/// ```no_run
/// # async fn add_on(client: kube::Client) -> Result<(), bellwether_heartbeat::client::Error> {
/// use bellwether_heartbeat::client::Instance;
///
/// Instance::in_namespace(client, "reference-addon").pulse().await?;
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

/// A beat that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The stamp.
    pub at: Timestamp,
    /// How often the instance asks for beats.
    pub period: Period,
}

impl Instance {
    /// The instance of a namespace, by its usual name `addon-instance`.
    pub fn in_namespace(client: kube::Client, namespace: &str) -> Self {
        let api = Api::namespaced_with(client, namespace, &ApiResource::erase::<AddonInstance>(&()));
        Self { api, namespace: namespace.into(), name: INSTANCE.into(), clock: Arc::new(SystemClock) }
    }

    /// The same namespace's instance of another name.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// With another clock to stamp by than the machine's.
    #[must_use]
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Says: alive.
    pub async fn pulse(&self) -> Result<Sent, Error> {
        self.set_conditions(&[]).await
    }

    /// Says: alive, and this is how it is. Conditions of other types stay as they are.
    pub async fn set_conditions(&self, conditions: &[Desired]) -> Result<Sent, Error> {
        self.beat(conditions, pace::limit(Period::DEFAULT)).await
    }

    /// One beat, of which each request may take so long.
    pub(super) async fn beat(&self, conditions: &[Desired], limit: Duration) -> Result<Sent, Error> {
        for conflicts in 1..=pace::TRIES {
            let mut object = self.read(limit).await?;
            let sent = Sent { at: self.clock.now(), period: period(&object) };
            edit::beat(&mut object.data, object.metadata.generation, conditions, sent.at);
            match self.write(&object, limit).await {
                Err(Error::Refused { code: 409, .. }) if conflicts < pace::TRIES => {
                    tokio::time::sleep(pace::after_conflict(conflicts, rand::random())).await;
                }
                Err(Error::Refused { code: 409, .. }) => break,
                written => return written.map(|()| sent),
            }
        }
        Err(Error::Contended { instance: self.to_string(), tries: pace::TRIES })
    }

    /// How often the instance asks for beats now.
    pub(super) async fn period(&self, limit: Duration) -> Result<Period, Error> {
        self.read(limit).await.map(|object| period(&object))
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn read(&self, limit: Duration) -> Result<DynamicObject, Error> {
        self.within(limit, Attempt::Read, self.api.get(&self.name)).await
    }

    async fn write(&self, object: &DynamicObject, limit: Duration) -> Result<(), Error> {
        let parameters = PostParams::default();
        let written = self.api.replace_status(&self.name, &parameters, object);
        self.within(limit, Attempt::Write, written).await.map(drop)
    }

    async fn within<T>(
        &self,
        limit: Duration,
        attempt: Attempt,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Error> {
        match tokio::time::timeout(limit, request).await {
            Ok(answer) => {
                answer.map_err(|error| Error::of_request(attempt, self.to_string(), &self.name, error))
            }
            Err(_) => Err(Error::Late { attempt, instance: self.to_string(), limit }),
        }
    }
}

/// The text is taken as it stands: to the server any text is a period.
fn period(object: &DynamicObject) -> Period {
    Period::of(object.data.pointer("/spec/heartbeatUpdatePeriod").and_then(Value::as_str))
}

/// Namespace and name.
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
