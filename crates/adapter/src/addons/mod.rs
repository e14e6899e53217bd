//! The built-in adapter `addons`: reports whether the add-ons of a cluster are available, from the ManagedClusterAddOns of the hub in
//! the namespace of its name. It reports on every pulse, and at once when an add-on changes.

mod decide;

use std::sync::Arc;
use std::time::Duration;

use bellwether_api::addon::ManagedClusterAddOn;
use bellwether_broker::Broker;
use bellwether_clock::Clock;
use bellwether_fleet::client::{Client, ClientError, ListOf};
use bellwether_fleet::resource::{AdapterStatus, Id, Resource};
use bellwether_runtime::{
    BackoffPolicy, Context, IndexOf, Next, ReconcileError, Reconciler, Shutdown, Watches,
};
use http::Method;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use parking_lot::Mutex;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

pub use decide::{Addon, Lifecycle, conditions};

/// The name of the adapter, and of its subscription.
pub const NAME: &str = "addons";
/// The identity of the adapter on the hub.
pub const IDENTITY: &str = "addons-adapter";
/// How long to wait before a pulse is delivered again whose report failed.
const RETRY_DELAY: Duration = Duration::from_secs(5);
const RECONNECT: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_millis(500), max: Duration::from_secs(30) };

/// Why a report failed.
#[derive(Debug, thiserror::Error)]
pub enum AddonsError {
    /// The fleet API.
    #[error("the fleet API: {0}")]
    Fleet(#[from] ClientError),
    /// The hub.
    #[error("cannot list the ManagedClusterAddOns of cluster {cluster}: {cause}")]
    Hub {
        /// The cluster.
        cluster: String,
        /// The cause.
        cause: kube::Error,
    },
}

impl ReconcileError for AddonsError {
    fn label(&self) -> &'static str {
        match self {
            Self::Fleet(_) => "fleet-api",
            Self::Hub { .. } => "hub",
        }
    }
}

/// The adapter.
#[derive(Clone)]
pub struct AddonsAdapter {
    fleet: Client,
    hub: kube::Client,
    clock: Arc<dyn Clock>,
}

/// When a report is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// Always: a pulse asks for it.
    Always,
    /// If the last report says something else.
    IfChanged,
}

impl AddonsAdapter {
    /// An adapter that reads the hub of a context.
    pub fn new(fleet: Client, context: &Context) -> Self {
        Self { fleet, hub: context.client.clone(), clock: context.clock.clone() }
    }

    /// Answers the pulses of a topic until shutdown is requested.
    pub async fn answer_pulses(self, broker: Arc<dyn Broker>, topic: String, shutdown: Shutdown) {
        let mut failures = 0;
        while !shutdown.is_requested() {
            let received = tokio::select! {
                () = shutdown.requested() => return,
                received = self.receive(broker.as_ref(), &topic, &mut failures) => received,
            };
            if let Err(error) = received {
                failures += 1;
                let delay = RECONNECT.delay(failures, rand::random());
                tracing::warn!(adapter = NAME, %error, ?delay, "pulses cannot be received; retrying");
                tokio::select! {
                    () = shutdown.requested() => return,
                    () = tokio::time::sleep(delay) => {}
                }
            }
        }
    }

    async fn receive(
        &self,
        broker: &dyn Broker,
        topic: &str,
        failures: &mut u32,
    ) -> Result<(), bellwether_broker::BrokerError> {
        let mut subscriber = broker.subscribe(topic, NAME).await?;
        loop {
            let delivery = subscriber.next().await?;
            *failures = 0;
            let id = delivery.event.data.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
            match self.answer(&id).await {
                Ok(()) => delivery.ack().await?,
                Err(error) => {
                    tracing::warn!(adapter = NAME, resource = id, %error, "a report failed; the pulse is delivered again");
                    delivery.nack(RETRY_DELAY).await?;
                }
            }
        }
    }

    async fn answer(&self, id: &str) -> Result<(), AddonsError> {
        let Ok(id) = id.parse::<Id>() else {
            tracing::warn!(adapter = NAME, id, "a pulse has no valid data.id; it is ignored");
            return Ok(());
        };
        match self.fleet.call::<Resource>(Method::GET, &format!("/clusters/{id}"), None).await {
            Ok(cluster) => self.report(&cluster, When::Always).await,
            Err(error) if error.status().is_some_and(|status| status == 404) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn report(&self, cluster: &Resource, when: When) -> Result<(), AddonsError> {
        let addons = self.addons(&cluster.name).await?;
        let lifecycle = if cluster.is_deleting() { Lifecycle::Deleting } else { Lifecycle::Active };
        let conditions = conditions(&addons, lifecycle);
        let path = format!("/clusters/{}/statuses", cluster.id);
        if when == When::IfChanged {
            let statuses: ListOf<AdapterStatus> =
                self.fleet.call(Method::GET, &format!("{path}?size=100"), None).await?;
            let last = statuses.items.iter().find(|status| status.adapter == NAME);
            if last
                .is_some_and(|last| last.observed_generation == cluster.generation && says(last, &conditions))
            {
                return Ok(());
            }
        }
        let report = json!({
            "adapter": NAME,
            "observed_generation": cluster.generation,
            "observed_time": self.clock.now(),
            "conditions": conditions,
        });
        match self.fleet.call_raw(Method::PUT, &path, Some(&report)).await {
            Ok(_) => Ok(()),
            // It was removed meanwhile.
            Err(error) if error.status().is_some_and(|status| status == 404) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn addons(&self, cluster: &str) -> Result<Vec<Addon>, AddonsError> {
        let addons: Api<ManagedClusterAddOn> = Api::namespaced(self.hub.clone(), cluster);
        let listed = addons.list(&ListParams::default()).await;
        let listed = listed.map_err(|cause| AddonsError::Hub { cluster: cluster.to_owned(), cause })?;
        let addon = |addon: ManagedClusterAddOn| Addon {
            name: addon.name_any(),
            conditions: addon.status.map(|status| status.conditions).unwrap_or_default(),
        };
        Ok(listed.items.into_iter().map(addon).collect())
    }
}

/// Whether a report says the same as these conditions.
fn says(status: &AdapterStatus, conditions: &Value) -> bool {
    let reported: Vec<Value> = status
        .conditions
        .iter()
        .map(|one| json!({"type": one.type_, "status": one.status, "reason": one.reason, "message": one.message}))
        .collect();
    let sorted = |mut conditions: Vec<Value>| {
        conditions.sort_by_key(|one| one.get("type").and_then(Value::as_str).unwrap_or_default().to_owned());
        conditions
    };
    sorted(reported) == sorted(conditions.as_array().cloned().unwrap_or_default())
}

/// Reports at once when an add-on changes.
impl Reconciler for AddonsAdapter {
    type Object = ManagedClusterAddOn;
    type Related = ();
    type Error = AddonsError;
    const NAME: &'static str = IDENTITY;

    fn watch(&self, watches: Watches<IndexOf<Self>>) -> Watches<IndexOf<Self>> {
        watches
    }

    async fn reconcile(
        &self,
        addon: Arc<ManagedClusterAddOn>,
        _: &Mutex<IndexOf<Self>>,
    ) -> Result<Next, AddonsError> {
        let cluster = addon.namespace().unwrap_or_default();
        let search = format!("name = '{cluster}' and deleted_time is null");
        let query = format!("/clusters?search={}", utf8_percent_encode(&search, NON_ALPHANUMERIC));
        let found: ListOf<Resource> = self.fleet.call(Method::GET, &query, None).await?;
        for cluster in &found.items {
            self.report(cluster, When::IfChanged).await?;
        }
        Ok(Next::OnChange)
    }
}
