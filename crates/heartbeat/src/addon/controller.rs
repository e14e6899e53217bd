//! Reconciles an Addon: reads its objects, lets `decide` plan the writes, and executes the plan. It repeats that until the plan
//! is empty, and then writes the status.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use bellwether_api::addons_managed::{Addon, AddonInstance, AddonOperator};
use bellwether_clock::Clock;
use bellwether_runtime::{Context, IndexOf, Next, ReconcileError, Reconciler, Watches};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::{Client, Resource, ResourceExt as _};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::changes::{KnownObjects, pauses_all_addons, watch};
use super::decide::{Change, ManagedObject, MirrorTimeouts, Observed, Plan, Rejections, Step, decide};
use super::object::{AddonObject, InstanceObject, Status};
use crate::lenient::LenientObject;
use crate::vocabulary::INSTANCE_NAME;
use crate::vocabulary::addon::OPERATOR_NAME;

/// How often one reconcile reads the objects and plans again. A new Addon takes three passes.
const MAX_PASSES: usize = 8;

/// Creates and repairs the objects of Addons.
pub struct AddonReconciler {
    client: Client,
    clock: Arc<dyn Clock>,
    mirror: MirrorTimeouts,
}

/// Why an Addon or AddonOperator could not be reconciled.
#[derive(Debug, thiserror::Error)]
pub enum AddonError {
    /// A request failed.
    #[error("{operation}: {source}")]
    Api {
        /// What was attempted, on which object.
        operation: String,
        /// The error of the request.
        source: Box<kube::Error>,
    },
    /// The API server rejected a write; the status of the Addon has the details.
    #[error("the API server rejected a write: {0}")]
    Rejected(String),
    /// The plan is still not empty after the last pass, because another client keeps changing the objects.
    #[error(
        "the objects of the Addon still change after {MAX_PASSES} passes; check which other client writes them"
    )]
    NotConverged,
    /// The status could not be serialized.
    #[error("the status cannot be serialized: {0}")]
    Status(#[from] serde_json::Error),
}

impl ReconcileError for AddonError {
    fn label(&self) -> &'static str {
        match self {
            Self::Api { .. } => "api",
            Self::Rejected(_) => "refused",
            Self::NotConverged => "unsettled",
            Self::Status(_) => "status",
        }
    }
}

impl Reconciler for AddonReconciler {
    type Object = LenientObject<Addon>;
    type Related = KnownObjects;
    type Error = AddonError;
    const NAME: &'static str = "addon-controller";

    fn watch(&self, watches: Watches<IndexOf<Self>>) -> Watches<IndexOf<Self>> {
        // The CRDs of AddonInstances and AddonOperators may be missing; the status of the Addons reports that.
        watches
            .with(watch::<LenientObject<AddonInstance>>(&self.client, self.mirror).if_served())
            .with(watch::<LenientObject<AddonOperator>>(&self.client, self.mirror).if_served())
            .with(watch::<PartialObjectMeta<Namespace>>(&self.client, self.mirror))
    }

    async fn reconcile(
        &self,
        addon: Arc<LenientObject<Addon>>,
        _: &Mutex<IndexOf<Self>>,
    ) -> Result<Next, AddonError> {
        let name = addon.name_any();
        let mut rejections = Rejections::new();
        let mut cached = Some(addon);
        for _ in 0..MAX_PASSES {
            let addon = match cached.take() {
                Some(addon) => addon,
                None => match self.read(&self.all::<LenientObject<Addon>>(), &name).await? {
                    Some(addon) => Arc::new(addon),
                    None => return Ok(Next::OnChange),
                },
            };
            let Plan { steps, status, next } = self.plan(&addon, &rejections).await?;
            if !steps.is_empty() {
                self.execute(&name, steps, &mut rejections).await?;
            } else if self.write_status(&addon, &status).await? == WriteResult::Written {
                return rejections
                    .into_values()
                    .next()
                    .map_or(Ok(next), |message| Err(AddonError::Rejected(message)));
            }
        }
        Err(AddonError::NotConverged)
    }
}

/// The result of writing a status.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteResult {
    /// It was written, or did not differ.
    Written,
    /// The object has changed since it was read.
    Conflict,
}

impl AddonReconciler {
    /// A reconciler for the cluster of a context.
    pub fn new(context: &Context, mirror: MirrorTimeouts) -> Self {
        Self { client: context.client.clone(), clock: context.clock.clone(), mirror }
    }

    async fn plan(&self, addon: &LenientObject<Addon>, rejections: &Rejections) -> Result<Plan, AddonError> {
        let object = AddonObject::read(addon);
        let operator = self.read(&self.all::<LenientObject<AddonOperator>>(), OPERATOR_NAME).await?;
        let mut observed = Observed {
            addon: &object,
            all_paused: operator.is_some_and(|operator| pauses_all_addons(&operator)),
            namespaces: BTreeMap::new(),
            instance: None,
            rejections,
            mirror: self.mirror,
            now: self.clock.now(),
        };
        let namespaces = self.all::<PartialObjectMeta<Namespace>>();
        for name in object.namespaces().filter(|name| !name.is_empty()) {
            let found = self.read(&namespaces, name).await?;
            observed.namespaces.extend(found.map(|found| (name.to_owned(), found.metadata)));
        }
        if let Some(target) = object.target_namespace() {
            let found = self.read(&self.instances(target), INSTANCE_NAME).await?;
            observed.instance = found.as_ref().map(InstanceObject::read);
        }
        Ok(decide(&observed))
    }

    /// Writes the status if it differs.
    async fn write_status(
        &self,
        addon: &LenientObject<Addon>,
        status: &Status,
    ) -> Result<WriteResult, AddonError> {
        if AddonObject::read(addon).status == *status {
            return Ok(WriteResult::Written);
        }
        let (name, desired) = (addon.name_any(), addon.with_status(serde_json::to_value(status)?));
        let written =
            self.all::<LenientObject<Addon>>().replace_status(&name, &PostParams::default(), &desired).await;
        match written {
            Ok(_) => Ok(WriteResult::Written),
            Err(error) if is_outdated(&error) => Ok(WriteResult::Conflict),
            Err(error) => Err(api_error(format!("cannot write the status of Addon {name}"), error)),
        }
    }

    async fn execute(
        &self,
        name: &str,
        steps: Vec<Step>,
        rejections: &mut Rejections,
    ) -> Result<(), AddonError> {
        for Step { object, change } in steps {
            let written = match &object {
                ManagedObject::Addon => write(&self.all::<LenientObject<Addon>>(), name, &change).await,
                ManagedObject::Namespace(name) => write(&self.all::<Namespace>(), name, &change).await,
                ManagedObject::Instance { namespace } => {
                    write(&self.instances(namespace), INSTANCE_NAME, &change).await
                }
            };
            match written {
                Ok(()) => {}
                // The next pass reads the current state.
                Err(error) if is_outdated(&error) && !is_missing_parent(&change, &error) => {}
                Err(error) => match rejection_message(&error) {
                    Some(message) if object != ManagedObject::Addon => {
                        rejections.insert(object, message);
                    }
                    _ => return Err(api_error(format!("cannot write {}", describe(&object, name)), error)),
                },
            }
        }
        Ok(())
    }

    async fn read<K>(&self, api: &Api<K>, name: &str) -> Result<Option<K>, AddonError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        api.get_opt(name)
            .await
            .map_err(|error| api_error(format!("cannot read {} {name}", K::kind(&())), error))
    }

    fn all<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    fn instances(&self, namespace: &str) -> Api<LenientObject<AddonInstance>> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

async fn write<K>(api: &Api<K>, name: &str, change: &Change) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    match change {
        Change::Create(object) => {
            let object: K = serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
            api.create(&PostParams::default(), &object).await.map(drop)
        }
        Change::Patch(patch) => {
            api.patch(name, &PatchParams::default(), &Patch::<&Value>::Merge(patch)).await.map(drop)
        }
    }
}

/// Whether a write failed because the object has been changed, created or deleted since it was read.
pub(super) fn is_outdated(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_conflict() || status.is_already_exists() || status.is_not_found())
}

/// Whether an object could not be created because its namespace or its CRD does not exist.
fn is_missing_parent(change: &Change, error: &kube::Error) -> bool {
    matches!((change, error), (Change::Create(_), kube::Error::Api(status)) if status.code == 404)
}

/// The message of the API server, if it rejected the request; `None` for other failures.
fn rejection_message(error: &kube::Error) -> Option<String> {
    match error {
        kube::Error::Api(status) if matches!(status.code, 400 | 403 | 404 | 422) => {
            Some(status.message.clone())
        }
        _ => None,
    }
}

fn describe(object: &ManagedObject, addon: &str) -> String {
    match object {
        ManagedObject::Addon => format!("Addon {addon}"),
        ManagedObject::Namespace(name) => format!("namespace {name}"),
        ManagedObject::Instance { namespace } => format!("AddonInstance {namespace}/{INSTANCE_NAME}"),
    }
}

pub(super) fn api_error(operation: String, source: kube::Error) -> AddonError {
    AddonError::Api { operation, source: Box::new(source) }
}
