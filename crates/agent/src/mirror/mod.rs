//! Mirrors heartbeats to the hub: the condition `Healthy` of AddonInstances on the cluster becomes the condition
//! `Heartbeat` of the add-on's ManagedClusterAddOn.
//!
//! A heartbeat costs a comparison in memory. The hub is written to when an add-on falls silent, sends heartbeats again
//! or reports that it is unhealthy, and once after each change of an add-on, to confirm that a heartbeat arrived since.
//! What came first is decided by the order of the events in this process, and not by clocks.

mod decide;
mod index;

use std::sync::Arc;
use std::time::Duration;

use bellwether_api::addon::ManagedClusterAddOn;
use bellwether_api::addons_managed::AddonInstance;
use bellwether_runtime::{
    BackoffPolicy, Context, DirtyKeys, IndexedReconciler, Next, ReconcileError, Retry, Watch, Watches,
    run_indexed,
};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use parking_lot::Mutex;
use serde_json::Value;

use self::index::{AddonName, Correction, Index};
use crate::Agent;

/// The name of the controller, in logs, metrics and health, and as field manager.
pub const NAME: &str = "heartbeat-mirror";

/// Mirrors heartbeats to the hub until the shutdown, while this process is leader. The context is that of the cluster.
///
/// It is a health component from this call on, not from when it is first polled.
pub fn run(agent: Agent, context: Context) -> impl Future<Output = ()> + Send {
    let index = Arc::new(Mutex::new(Index::new(agent.cluster.clone())));
    let addons = ApiResource::erase::<ManagedClusterAddOn>(&());
    let namespace = agent.cluster.to_string();
    let mirror =
        Mirror { addons: Api::namespaced_with(agent.hub.clone(), &namespace, &addons), index: index.clone() };
    let instances = Watch::new(&context.client, |client| {
        Api::<DynamicObject>::all_with(client, &ApiResource::erase::<AddonInstance>(&()))
    })
    .on_apply_from(|index: &mut Index, instance, origin| index.apply_instance(&instance, origin))
    .on_delete(|index, deleted| index.delete_instance(deleted.name));
    let addons = Watch::new(&agent.hub, move |client| {
        Api::<DynamicObject>::namespaced_with(client, &namespace, &addons)
    })
    .on_apply(|index: &mut Index, addon| index.apply_addon(&addon))
    .on_delete(|index, deleted| index.delete_addon(&deleted.name.name));
    let watches = Watches::new(NAME, &context, index).with(instances).with(addons);
    run_indexed(mirror, watches, context)
}

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
enum MirrorError {
    #[error("the hub rejected the write: {}", crate::describe_error(.0))]
    Write(Box<kube::Error>),
    /// The watch delivers what the object is now, if it did not yet.
    #[error("the ManagedClusterAddOn changed since it was read; the write is retried")]
    Conflict,
    /// It would be written again and again.
    #[error("the hub accepted the condition and did not keep it; another writer may own it")]
    NotKept,
}

impl ReconcileError for MirrorError {
    fn label(&self) -> &'static str {
        match self {
            Self::Write(_) | Self::NotKept => "write",
            Self::Conflict => "conflict",
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::NotKept => Retry::HoldOff,
            Self::Write(_) | Self::Conflict => Retry::Backoff,
        }
    }
}

struct Mirror {
    addons: Api<DynamicObject>,
    index: Arc<Mutex<Index>>,
}

impl IndexedReconciler for Mirror {
    type Key = AddonName;
    type Error = MirrorError;
    const NAME: &'static str = NAME;
    const CONCURRENCY: usize = 4;
    const RETRY: BackoffPolicy =
        BackoffPolicy { initial: Duration::from_millis(500), max: Duration::from_secs(30) };

    fn take_dirty(&self) -> DirtyKeys<AddonName> {
        self.index.lock().dirty.take()
    }

    fn initial_keys(&self) -> Vec<AddonName> {
        self.index.lock().addons()
    }

    /// Writes the condition `Heartbeat` of an add-on on the hub, if it differs from the desired one.
    async fn reconcile(&self, addon: &AddonName) -> Result<Next, MirrorError> {
        let correction = self.index.lock().correction(addon);
        let Some(correction) = correction else { return Ok(Next::OnChange) };
        let params = PatchParams::apply(NAME).force();
        let body = bound_to_version(&correction);
        match self.addons.patch_status(addon, &params, &Patch::Apply(&body)).await {
            Ok(written) => {
                let mut index = self.index.lock();
                index.apply_addon(&written);
                let remaining = index.correction(addon);
                if remaining.is_some_and(|remaining| remaining.body == correction.body) {
                    return Err(MirrorError::NotKept);
                }
            }
            Err(kube::Error::Api(status)) if status.code == 404 => self.index.lock().delete_addon(addon),
            Err(kube::Error::Api(status)) if status.code == 409 => return Err(MirrorError::Conflict),
            Err(error) => return Err(MirrorError::Write(Box::new(error))),
        }
        Ok(Next::OnChange)
    }
}

/// A correction that confirms a generation is only right for the version it was decided by: if the object changed
/// since, the write must conflict.
fn bound_to_version(correction: &Correction) -> Value {
    let mut body = correction.body.clone();
    let confirms = body.pointer("/status/conditions/0/observedGeneration").is_some();
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut).filter(|_| confirms) {
        metadata.insert("resourceVersion".into(), correction.resource_version.clone().into());
    }
    body
}
