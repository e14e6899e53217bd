//! Shows the state of the add-on on the hub: copies the standard conditions of ObservabilityAddons into the ManagedClusterAddOn
//! `observability-controller` of the same namespace.
//!
//! If a ClusterManagementAddOn manages the add-on, the lifecycle controller writes its conditions, and only `Degraded` is copied;
//! otherwise all of them. Each write owns only the conditions that it copies; those of other writers stay.

mod decide;
mod index;

use std::sync::Arc;
use std::time::Duration;

use bellwether_api::addon::{ClusterManagementAddOn, ManagedClusterAddOn};
use bellwether_api::observability::ObservabilityAddon;
use bellwether_runtime::{
    BackoffPolicy, Context, DirtyKeys, IndexedReconciler, Next, ReconcileError, Retry, Watch, Watches,
    run_indexed,
};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use parking_lot::Mutex;

use self::index::{ClusterNamespace, Index};
use crate::vocabulary::{ADDON_NAME, MANAGED_ADDON_NAME};

/// The name of the controller, in logs, metrics and health, and as field manager.
pub const NAME: &str = "observability-mirror";

/// Copies the state of every cluster until the shutdown, while this process is leader. The context is that of the hub.
///
/// It is a health component from this call on, not from when it is first polled.
pub fn run(context: Context) -> impl Future<Output = ()> + Send {
    let index = Arc::new(Mutex::new(Index::default()));
    let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
    let addons = ApiResource::erase::<ObservabilityAddon>(&());
    let addons = Watch::new(&context.client, move |client| Api::<DynamicObject>::all_with(client, &addons))
        .config(named(ADDON_NAME))
        .if_served()
        .on_apply(|index: &mut Index, addon| index.apply_addon(&addon))
        .on_delete(|index, deleted| index.delete_addon(&deleted.name.namespace));
    let managed = ApiResource::erase::<ManagedClusterAddOn>(&());
    let shown = Watch::new(&context.client, move |client| Api::<DynamicObject>::all_with(client, &managed))
        .config(named(MANAGED_ADDON_NAME))
        .on_apply(|index: &mut Index, shown| index.apply_shown(&shown))
        .on_delete(|index, deleted| index.delete_shown(&deleted.name.namespace));
    let managers = Watch::new(&context.client, Api::<PartialObjectMeta<ClusterManagementAddOn>>::all)
        .config(named(MANAGED_ADDON_NAME))
        .on_apply(|index: &mut Index, _| index.set_managed(true))
        .on_delete(|index, _| index.set_managed(false));
    let watches = Watches::new(NAME, &context, index.clone()).with(addons).with(shown).with(managers);
    run_indexed(Mirror { client: context.client.clone(), index }, watches, context)
}

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
enum MirrorError {
    #[error("cannot write the conditions of ManagedClusterAddOn {0}/{MANAGED_ADDON_NAME}: {1}")]
    Write(ClusterNamespace, Box<kube::Error>),
    /// It would be written again and again.
    #[error(
        "ManagedClusterAddOn {0}/{MANAGED_ADDON_NAME} did not keep the written conditions; another writer may own them"
    )]
    NotKept(ClusterNamespace),
}

impl ReconcileError for MirrorError {
    fn label(&self) -> &'static str {
        match self {
            Self::Write(..) => "write",
            Self::NotKept(_) => "not-kept",
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Write(..) => Retry::Backoff,
            Self::NotKept(_) => Retry::HoldOff,
        }
    }
}

struct Mirror {
    client: Client,
    index: Arc<Mutex<Index>>,
}

impl IndexedReconciler for Mirror {
    type Key = ClusterNamespace;
    type Error = MirrorError;
    const NAME: &'static str = NAME;
    const RETRY: BackoffPolicy =
        BackoffPolicy { initial: Duration::from_millis(500), max: Duration::from_secs(30) };

    fn take_dirty(&self) -> DirtyKeys<ClusterNamespace> {
        self.index.lock().dirty.take()
    }

    fn initial_keys(&self) -> Vec<ClusterNamespace> {
        self.index.lock().clusters()
    }

    async fn reconcile(&self, cluster: &ClusterNamespace) -> Result<Next, MirrorError> {
        let correction = self.index.lock().correction(cluster);
        let Some(correction) = correction else { return Ok(Next::OnChange) };
        let resource = ApiResource::erase::<ManagedClusterAddOn>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), cluster, &resource);
        let params = PatchParams::apply(NAME).force();
        match api.patch_status(MANAGED_ADDON_NAME, &params, &Patch::Apply(&correction)).await {
            Ok(written) => {
                let mut index = self.index.lock();
                index.apply_shown(&written);
                if index.correction(cluster).is_some_and(|remaining| remaining == correction) {
                    return Err(MirrorError::NotKept(cluster.clone()));
                }
            }
            Err(kube::Error::Api(status)) if status.code == 404 => self.index.lock().delete_shown(cluster),
            Err(error) => return Err(MirrorError::Write(cluster.clone(), Box::new(error))),
        }
        Ok(Next::OnChange)
    }
}
