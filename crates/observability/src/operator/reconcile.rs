//! The requests of the operator: copies the spec from the hub, applies or deletes the objects of each collector, and reports.

use std::sync::Arc;
use std::time::Duration;

use bellwether_api::observability::{ObservabilityAddon, ObservabilityAddonSpec};
use bellwether_runtime::{BackoffPolicy, Context, DirtyKeys, IndexedReconciler, Next, ReconcileError};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use kube::{Client, Resource as _, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::decide::{Action, Applied, Observed, Presence, Toggle, report_after_apply};
use super::index::{Collectors, Index, Inputs};
use super::render::{Collector, Scale, deployment_name, label_of};
use super::{DEFAULT_INTERVAL_SECONDS, FINALIZER, HUB_INFO_SECRET, NAME, Settings};
use crate::decide::transition::{Actor, current_reason};
use crate::reporter::{ReportError, Reporter, conditions_of, describe_request_error};
use crate::vocabulary::{ADDON_NAME, Component, ComponentReason, Vocabulary};

/// The limits of the interval, as the CRD has them.
const INTERVAL_SECONDS: std::ops::RangeInclusive<i32> = 15..=3600;
/// The largest response of Prometheus if the spec does not limit it, as the CRD has it.
const DEFAULT_SIZE_LIMIT_BYTES: i64 = 1 << 30;

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum OperatorError {
    #[error("cannot {doing}: {}", describe_request_error(.source))]
    Request { doing: String, source: Box<kube::Error> },
    /// Something that the operator needs is missing or invalid.
    #[error("{0}")]
    Input(String),
    #[error(transparent)]
    Report(#[from] ReportError),
}

impl ReconcileError for OperatorError {
    fn label(&self) -> &'static str {
        match self {
            Self::Request { .. } => "api",
            Self::Input(_) => "input",
            Self::Report(_) => "report",
        }
    }
}

fn failed(doing: impl Into<String>) -> impl FnOnce(kube::Error) -> OperatorError {
    let doing = doing.into();
    move |source| OperatorError::Request { doing, source: Box::new(source) }
}

pub(super) struct Operator {
    client: Client,
    local: Api<DynamicObject>,
    on_hub: Api<DynamicObject>,
    reporter: Reporter,
    settings: Settings,
    index: Arc<Mutex<Index>>,
}

impl Operator {
    pub(super) fn new(settings: Settings, context: &Context, index: Arc<Mutex<Index>>) -> Self {
        let resource = ApiResource::erase::<ObservabilityAddon>(&());
        let clock = context.clock.clone();
        let reporter = Reporter::new(
            context.client.clone(),
            &settings.namespace,
            Actor::Operator,
            settings.vocabulary,
            clock,
            &context.metrics,
        );
        Self {
            client: context.client.clone(),
            local: Api::namespaced_with(context.client.clone(), &settings.namespace, &resource),
            on_hub: Api::namespaced_with(settings.hub.clone(), &settings.hub_namespace, &resource),
            reporter,
            settings,
            index,
        }
    }

    /// Makes the add-on of the cluster follow that of the hub. Returns it; `None` if there is none, or it is being deleted.
    async fn follow_hub(&self, inputs: &Inputs) -> Result<Option<Arc<DynamicObject>>, OperatorError> {
        let is_alive = |addon: &Arc<DynamicObject>| addon.metadata.deletion_timestamp.is_none();
        let local = inputs.local.clone().filter(is_alive);
        match &inputs.on_hub {
            // A hub object that is not there is no reason to remove anything.
            None => Ok(local),
            Some(on_hub) if !is_alive(on_hub) => self.clean_up(inputs, on_hub).await.map(|()| None),
            Some(on_hub) => {
                self.set_finalizer(on_hub, true).await?;
                let spec = on_hub.data.get("spec");
                if local.as_ref().is_some_and(|local| local.data.get("spec") == spec) {
                    return Ok(local);
                }
                if inputs.local.is_some() && local.is_none() {
                    // The former one is being deleted; its deletion brings this key back.
                    return Ok(None);
                }
                self.copy_spec(spec.unwrap_or(&json!({}))).await.map(Some)
            }
        }
    }

    async fn copy_spec(&self, spec: &Value) -> Result<Arc<DynamicObject>, OperatorError> {
        let addon = json!({
            "apiVersion": ObservabilityAddon::api_version(&()),
            "kind": ObservabilityAddon::kind(&()),
            "metadata": {"name": ADDON_NAME, "namespace": self.settings.namespace},
            "spec": spec,
        });
        let params = PatchParams::apply(NAME).force();
        let mut applied = self.local.patch(ADDON_NAME, &params, &Patch::Apply(&addon)).await;
        if applied.as_ref().is_err_and(is_missing) {
            self.create_namespace().await?;
            applied = self.local.patch(ADDON_NAME, &params, &Patch::Apply(&addon)).await;
        }
        let applied = applied.map_err(failed("copy the spec of the ObservabilityAddon from the hub"))?;
        Ok(Arc::new(applied))
    }

    async fn create_namespace(&self) -> Result<(), OperatorError> {
        let namespace = Namespace {
            metadata: ObjectMeta { name: Some(self.settings.namespace.clone()), ..ObjectMeta::default() },
            ..Namespace::default()
        };
        let created = Api::all(self.client.clone()).create(&PostParams::default(), &namespace).await;
        created.map(drop).map_err(failed(format!("create the namespace {}", self.settings.namespace)))
    }

    /// Deletes the add-on of the cluster, with the objects that it owns, and then lets that of the hub go.
    async fn clean_up(&self, inputs: &Inputs, on_hub: &DynamicObject) -> Result<(), OperatorError> {
        match &inputs.local {
            Some(local) if local.metadata.deletion_timestamp.is_none() => {
                let deleted = self.local.delete(ADDON_NAME, &DeleteParams::foreground()).await;
                ignore_missing(deleted.map(drop))
                    .map_err(failed("delete the ObservabilityAddon of the cluster"))
            }
            Some(_) => Ok(()),
            None => self.set_finalizer(on_hub, false).await,
        }
    }

    /// Adds or removes the finalizer on the hub's object. It is written as a whole, as the permissions have no patch.
    async fn set_finalizer(&self, on_hub: &DynamicObject, is_wanted: bool) -> Result<(), OperatorError> {
        if on_hub.finalizers().iter().any(|name| name == FINALIZER) == is_wanted {
            return Ok(());
        }
        let mut updated = on_hub.clone();
        updated.finalizers_mut().retain(|name| name != FINALIZER);
        if is_wanted {
            updated.finalizers_mut().push(FINALIZER.to_owned());
        }
        let doing = "set the finalizer of the ObservabilityAddon on the hub";
        let written = self.on_hub.replace(ADDON_NAME, &PostParams::default(), &updated).await;
        ignore_missing(written.map(drop)).map_err(failed(doing))
    }

    /// Does what a collector needs, and reports it.
    async fn reconcile_collector(
        &self,
        component: Component,
        addon: &DynamicObject,
        inputs: &Inputs,
        action: Action,
    ) -> Result<(), OperatorError> {
        let done = match action {
            Action::Run => self.apply(component, addon, inputs, Scale::Running).await,
            Action::Stop => self.apply(component, addon, inputs, Scale::Stopped).await,
            Action::Remove | Action::NotSupported => {
                self.delete(component).await.map(|()| Applied::Unchanged)
            }
        };
        let (reason, message) = match (action, &done) {
            (_, Err(error)) => {
                (ComponentReason::UpdateFailure, format!("Failed to update {}: {error}", noun(component)))
            }
            (Action::Run, Ok(applied)) => {
                let current = current_reason(&conditions_of(addon), component);
                let Some(reason) = report_after_apply(*applied, current) else { return Ok(()) };
                (reason, format!("{} updated", capitalized(component)))
            }
            (Action::Stop | Action::Remove, Ok(_)) => {
                (ComponentReason::DisabledMetrics, format!("{} disabled", capitalized(component)))
            }
            (Action::NotSupported, Ok(_)) => {
                (ComponentReason::NotSupported, "Prometheus service not found".to_owned())
            }
        };
        // A failed update is reported, and retried.
        self.reporter.report(component, reason, &message).await?;
        done.map(drop)
    }

    /// Applies the objects of a collector. Returns whether its Deployment changed.
    async fn apply(
        &self,
        component: Component,
        addon: &DynamicObject,
        inputs: &Inputs,
        scale: Scale,
    ) -> Result<Applied, OperatorError> {
        let spec = <ObservabilityAddonSpec as serde::Deserialize>::deserialize(
            addon.data.get("spec").unwrap_or(&Value::Null),
        )
        .map_err(|error| OperatorError::Input(format!("the spec is invalid: {error}")))?;
        let namespace = self.settings.namespace.as_str();
        let info = match &inputs.hub_info {
            Some(Ok(info)) => info,
            Some(Err(cause)) => {
                return Err(OperatorError::Input(format!("Secret {namespace}/{HUB_INFO_SECRET} {cause}")));
            }
            None => {
                let missing = format!(
                    "Secret {namespace}/{HUB_INFO_SECRET} with the address of the receiver does not exist"
                );
                return Err(OperatorError::Input(missing));
            }
        };
        let allowlist = inputs.allowlist(component, namespace).map_err(OperatorError::Input)?;
        let owner = addon.owner_ref(&ApiResource::erase::<ObservabilityAddon>(&()));
        let owner = serde_json::to_value(owner).unwrap_or_default();
        let resources = spec.resources.as_ref().and_then(|resources| serde_json::to_value(resources).ok());
        let collector = Collector {
            component,
            namespace,
            owner: &owner,
            image: &self.settings.image,
            source: match component {
                Component::Platform => &self.settings.platform,
                Component::UserWorkload => &self.settings.user_workloads,
            },
            receiver: &info.observatorium_api_endpoint,
            cluster: &self.settings.hub_namespace,
            interval_seconds: spec
                .interval
                .filter(|one| INTERVAL_SECONDS.contains(one))
                .unwrap_or(DEFAULT_INTERVAL_SECONDS),
            size_limit_bytes: spec
                .scrape_size_limit_bytes
                .filter(|limit| *limit > 0)
                .unwrap_or(DEFAULT_SIZE_LIMIT_BYTES),
            workers: spec.workers.unwrap_or(1).max(1),
            resources: resources.as_ref(),
            vocabulary: match self.settings.vocabulary {
                Vocabulary::Seed => "seed",
                Vocabulary::Upstream => "upstream",
            },
            allowlist: &allowlist,
        };
        for object in collector.supporting_objects() {
            self.apply_object(&object).await?;
        }
        let deployment = self.apply_object(&collector.deployment(scale)).await?;
        let generation = deployment.metadata.generation.unwrap_or_default();
        let is_changed = self.index.lock().record_applied(component, generation);
        Ok(if is_changed { Applied::Changed } else { Applied::Unchanged })
    }

    async fn apply_object(&self, object: &Value) -> Result<DynamicObject, OperatorError> {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        let api = self.api(text("/apiVersion"), kind);
        let applied = api.patch(name, &PatchParams::apply(NAME).force(), &Patch::Apply(object)).await;
        applied.map_err(failed(format!("apply {kind} {}/{name}", self.settings.namespace)))
    }

    /// Deletes the objects of a collector that exist.
    async fn delete(&self, component: Component) -> Result<(), OperatorError> {
        let name = label_of(component);
        let deployment = deployment_name(component);
        let objects = [
            ("apps/v1", "Deployment", deployment.as_str()),
            ("v1", "Service", name),
            ("rbac.authorization.k8s.io/v1", "RoleBinding", name),
            ("rbac.authorization.k8s.io/v1", "Role", name),
            ("v1", "ServiceAccount", name),
        ];
        for (api_version, kind, name) in objects {
            let deleted = self.api(api_version, kind).delete(name, &DeleteParams::default()).await;
            let doing = || format!("delete {kind} {}/{name}", self.settings.namespace);
            ignore_missing(deleted.map(drop)).map_err(failed(doing()))?;
        }
        Ok(())
    }

    fn api(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), &self.settings.namespace, &resource)
    }
}

impl IndexedReconciler for Operator {
    type Key = Collectors;
    type Error = OperatorError;
    const NAME: &'static str = NAME;
    const CONCURRENCY: usize = 1;
    const RETRY: BackoffPolicy =
        BackoffPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(60) };

    fn take_dirty(&self) -> DirtyKeys<Collectors> {
        self.index.lock().dirty.take()
    }

    fn initial_keys(&self) -> Vec<Collectors> {
        vec![Collectors]
    }

    async fn reconcile(&self, _: &Collectors) -> Result<Next, OperatorError> {
        let inputs = self.index.lock().inputs();
        let Some(addon) = self.follow_hub(&inputs).await? else { return Ok(Next::OnChange) };
        let is_disabled = addon.data.pointer("/spec/enableMetrics") == Some(&Value::Bool(false));
        let has_user_series = inputs
            .allowlist(Component::UserWorkload, &self.settings.namespace)
            .is_ok_and(|list| !list.is_empty());
        let observed = Observed {
            metrics: if is_disabled { Toggle::Off } else { Toggle::On },
            platform: inputs.platform,
            user_workloads: if has_user_series { inputs.user_workloads } else { Presence::Absent },
        };
        let mut failure = None;
        for component in Component::ALL {
            let action = observed.action(component);
            // One collector that cannot be updated does not keep the other from being updated.
            if let Err(error) = self.reconcile_collector(component, &addon, &inputs, action).await {
                failure = failure.or(Some(error));
            }
        }
        failure.map_or(Ok(Next::OnChange), Err)
    }
}

fn is_missing(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

fn ignore_missing(result: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(error) if is_missing(&error) => Ok(()),
        other => other,
    }
}

fn noun(component: Component) -> &'static str {
    match component {
        Component::Platform => "metrics collector",
        Component::UserWorkload => "UWL Metrics collector",
    }
}

fn capitalized(component: Component) -> &'static str {
    match component {
        Component::Platform => "Metrics collector",
        Component::UserWorkload => "UWL Metrics collector",
    }
}
