//! The endpoint operator of a cluster: runs the metrics collectors that the ObservabilityAddon describes, and reports whether it
//! could.
//!
//! The spec comes from the hub: the operator copies it to the add-on of the cluster, keeps a finalizer on the object of the hub,
//! and removes the collectors before that object goes. It reports `UpdateSuccesful` only if a Deployment changed or a former state
//! has ended, so that a restart of the operator changes no status.

mod allowlist;
mod decide;
mod index;
mod reconcile;
mod render;

use std::sync::Arc;

use bellwether_api::observability::ObservabilityAddon;
use bellwether_runtime::{Context, Watch, Watches, run_indexed};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use parking_lot::Mutex;

use self::index::Index;
use self::reconcile::Operator;
pub use self::render::Source;
use crate::vocabulary::{ADDON_NAME, Vocabulary};

/// The name of the controller, in logs, metrics and health, and as field manager.
pub const NAME: &str = "endpoint-operator";

/// The finalizer of the operator on the hub's object.
pub const FINALIZER: &str = "observability.open-cluster-management.io/addon-cleanup";

/// Where the operator finds what it needs.
#[derive(Clone)]
pub struct Settings {
    /// The namespace of the add-on on the cluster.
    pub namespace: String,
    /// The client of the hub.
    pub hub: Client,
    /// The namespace of the cluster on the hub, which is its name.
    pub hub_namespace: String,
    /// The image of the collectors.
    pub image: String,
    /// The Prometheus of the platform.
    pub platform: Source,
    /// The namespace and the name of the Service by which the platform's Prometheus is found.
    pub platform_service: (String, String),
    /// The Prometheus of user workloads.
    pub user_workloads: Source,
    /// The namespace and the name of the StatefulSet by which the Prometheus of user workloads is found.
    pub user_workload_stateful_set: (String, String),
    /// The spelling of reasons and condition types.
    pub vocabulary: Vocabulary,
}

/// The usual Service of the platform's Prometheus: namespace and name.
pub const PLATFORM_SERVICE: (&str, &str) = ("openshift-monitoring", "prometheus-k8s");
/// The usual StatefulSet of the Prometheus of user workloads: namespace and name.
pub const USER_WORKLOAD_STATEFUL_SET: (&str, &str) =
    ("openshift-user-workload-monitoring", "prometheus-user-workload");
/// The interval if the spec has none or an invalid one, as the CRD has it.
pub(crate) const DEFAULT_INTERVAL_SECONDS: i32 = 300;
/// The Secret with the address of the receiving API.
pub(crate) const HUB_INFO_SECRET: &str = "hub-info-secret";

/// Runs the operator until the shutdown, while this process is leader. The context is that of the cluster.
///
/// It is a health component from this call on, not from when it is first polled.
pub fn run(settings: Settings, context: Context) -> impl Future<Output = ()> + Send {
    let index = Arc::new(Mutex::new(Index::default()));
    let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
    let client = &context.client;
    let addon = |client: &Client, namespace: String| {
        Watch::new(client, move |client| {
            let resource = ApiResource::erase::<ObservabilityAddon>(&());
            Api::<DynamicObject>::namespaced_with(client, &namespace, &resource)
        })
        .config(named(ADDON_NAME))
        .if_served()
    };
    let local = addon(client, settings.namespace.clone())
        .on_apply(|index: &mut Index, addon| index.set_local(Some(addon)))
        .on_delete(|index, _| index.set_local(None));
    let on_hub = addon(&settings.hub, settings.hub_namespace.clone())
        .on_apply(|index: &mut Index, addon| index.set_on_hub(Some(addon)))
        .on_delete(|index, _| index.set_on_hub(None));
    let (namespace, service) = settings.platform_service.clone();
    let platform =
        Watch::new(client, move |client| Api::<PartialObjectMeta<Service>>::namespaced(client, &namespace))
            .config(named(&service))
            .on_apply(|index: &mut Index, _| index.set_platform(true))
            .on_delete(|index, _| index.set_platform(false));
    let (namespace, set) = settings.user_workload_stateful_set.clone();
    let user_workloads = Watch::new(client, move |client| {
        Api::<PartialObjectMeta<StatefulSet>>::namespaced(client, &namespace)
    })
    .config(named(&set))
    .on_apply(|index: &mut Index, _| index.set_user_workloads(true))
    .on_delete(|index, _| index.set_user_workloads(false));
    let lists = |namespace: Option<String>, name: &str| {
        Watch::new(client, move |client| match namespace {
            Some(namespace) => Api::<ConfigMap>::namespaced(client, &namespace),
            None => Api::all(client),
        })
        .config(named(name))
        .on_apply(|index: &mut Index, map| index.apply_allowlist(map))
        .on_delete(|index, deleted| index.delete_allowlist(&deleted.name))
    };
    let namespace = settings.namespace.clone();
    let hub_info = Watch::new(client, move |client| Api::<Secret>::namespaced(client, &namespace))
        .config(named(HUB_INFO_SECRET))
        .on_apply(|index: &mut Index, secret: Secret| index.set_hub_info(Some(&secret)))
        .on_delete(|index, _| index.set_hub_info(None));
    let namespace = settings.namespace.clone();
    let deployments = Watch::new(client, move |client| {
        Api::<PartialObjectMeta<Deployment>>::namespaced(client, &namespace)
    })
    .config(watcher::Config::default().labels(render::COMPONENT_LABEL))
    .on_apply(|index: &mut Index, deployment| index.apply_deployment(&deployment))
    .on_delete(|index, deleted| index.delete_deployment(&deleted.name.name));
    let watches = Watches::new(NAME, &context, index.clone())
        .with(local)
        .with(on_hub)
        .with(platform)
        .with(user_workloads)
        .with(lists(Some(settings.namespace.clone()), allowlist::DEFAULT_CONFIGMAP))
        .with(lists(None, allowlist::CUSTOM_CONFIGMAP))
        .with(hub_info)
        .with(deployments);
    run_indexed(Operator::new(settings, &context, index), watches, context)
}
