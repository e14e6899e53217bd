//! Reads what there is of an Addon, has it decided what to do, and does it: again and again until there is nothing
//! left to do, and then writes the status.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use bellwether_api::addons_managed::{Addon, AddonInstance, AddonOperator};
use bellwether_clock::Clock;
use bellwether_runtime::{Context, Next, ReconcileError, Reconciler};
use futures::Stream;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::{Controller, WatchStreamExt as _, watcher};
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::changes::{concerned, pauses};
use super::decide::{Change, MirrorTimeouts, Observed, Piece, Plan, Refusals, Step, decide};
use super::subject::{Instance, Status, Subject};
use crate::loose::Loose;
use crate::vocabulary::INSTANCE;
use crate::vocabulary::addon::OPERATOR;

/// How often the world is read anew while there is something to do. A new Addon takes three.
const ROUNDS: usize = 8;

/// Provides what Addons need.
pub struct Addons {
    client: Client,
    clock: Arc<dyn Clock>,
    mirror: MirrorTimeouts,
}

/// Why an Addon could not be brought to where it should be.
#[derive(Debug, thiserror::Error)]
pub enum AddonError {
    /// The API server did not answer as it should.
    #[error("{doing}: {source}")]
    Api {
        /// What was tried.
        doing: String,
        /// How it failed.
        source: Box<kube::Error>,
    },
    /// The API server refused what the Addon needs; its status says so.
    #[error("the API server refuses what is needed: {0}")]
    Refused(String),
    /// Somebody undoes or changes what is written, as fast as it is written.
    #[error("there is no end to what is to be done")]
    Unsettled,
    /// The status has no form on the wire.
    #[error("the status cannot be written: {0}")]
    Status(#[from] serde_json::Error),
}

impl ReconcileError for AddonError {
    fn label(&self) -> &'static str {
        match self {
            Self::Api { .. } => "api",
            Self::Refused(_) => "refused",
            Self::Unsettled => "unsettled",
            Self::Status(_) => "status",
        }
    }
}

impl Reconciler for Addons {
    type Object = Loose<Addon>;
    type Error = AddonError;
    const NAME: &'static str = "addon-controller";

    fn watch(&self, controller: Controller<Loose<Addon>>) -> Controller<Loose<Addon>> {
        let addons = controller.store();
        controller
            .reconcile_on(concerned(self.events::<Loose<AddonInstance>>(), addons.clone(), self.mirror))
            .reconcile_on(concerned(self.events::<Loose<AddonOperator>>(), addons.clone(), self.mirror))
            .reconcile_on(concerned(self.events::<PartialObjectMeta<Namespace>>(), addons, self.mirror))
    }

    async fn reconcile(&self, addon: Arc<Loose<Addon>>) -> Result<Next, AddonError> {
        let name = addon.name_any();
        let mut refused = Refusals::new();
        let mut known = Some(addon);
        for _ in 0..ROUNDS {
            let addon = match known.take() {
                Some(addon) => addon,
                None => match self.read(&self.all::<Loose<Addon>>(), &name).await? {
                    Some(addon) => Arc::new(addon),
                    None => return Ok(Next::OnChange),
                },
            };
            let Plan { steps, status, next } = self.plan(&addon, &refused).await?;
            if !steps.is_empty() {
                self.carry_out(&name, steps, &mut refused).await?;
            } else if self.report(&addon, &status).await? == Written::Yes {
                return refused
                    .into_values()
                    .next()
                    .map_or(Ok(next), |words| Err(AddonError::Refused(words)));
            }
        }
        Err(AddonError::Unsettled)
    }
}

/// Whether something could be written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Yes,
    /// It has changed since it was read.
    Conflict,
}

impl Addons {
    /// For the cluster of a context.
    pub fn new(context: &Context, mirror: MirrorTimeouts) -> Self {
        Self { client: context.client.clone(), clock: context.clock.clone(), mirror }
    }

    async fn plan(&self, addon: &Loose<Addon>, refused: &Refusals) -> Result<Plan, AddonError> {
        let subject = Subject::of(addon);
        let operator = self.read(&self.all::<Loose<AddonOperator>>(), OPERATOR).await?;
        let mut observed = Observed {
            subject: &subject,
            all_paused: operator.is_some_and(|operator| pauses(&operator)),
            namespaces: BTreeMap::new(),
            instance: None,
            refused,
            mirror: self.mirror,
            now: self.clock.now(),
        };
        let namespaces = self.all::<PartialObjectMeta<Namespace>>();
        for name in subject.namespaces().filter(|name| !name.is_empty()) {
            let found = self.read(&namespaces, name).await?;
            observed.namespaces.extend(found.map(|found| (name.to_owned(), found.metadata)));
        }
        if let Some(target) = subject.target() {
            let found = self.read(&self.instances(target), INSTANCE).await?;
            observed.instance = found.as_ref().map(Instance::of);
        }
        Ok(decide(&observed))
    }

    /// Writes the status where it says something new.
    async fn report(&self, addon: &Loose<Addon>, status: &Status) -> Result<Written, AddonError> {
        if Subject::of(addon).status == *status {
            return Ok(Written::Yes);
        }
        let (name, wanted) = (addon.name_any(), addon.with_status(serde_json::to_value(status)?));
        let written = self.all::<Loose<Addon>>().replace_status(&name, &PostParams::default(), &wanted).await;
        match written {
            Ok(_) => Ok(Written::Yes),
            Err(error) if is_outdated(&error) => Ok(Written::Conflict),
            Err(error) => Err(failed(format!("writing the status of Addon {name}"), error)),
        }
    }

    async fn carry_out(
        &self,
        name: &str,
        steps: Vec<Step>,
        refused: &mut Refusals,
    ) -> Result<(), AddonError> {
        for Step { piece, change } in steps {
            let written = match &piece {
                Piece::Addon => write(&self.all::<Loose<Addon>>(), name, &change).await,
                Piece::Namespace(name) => write(&self.all::<Namespace>(), name, &change).await,
                Piece::Instance { namespace } => write(&self.instances(namespace), INSTANCE, &change).await,
            };
            match written {
                Ok(()) => {}
                // What is there now is read in the next round.
                Err(error) if is_outdated(&error) && !is_nowhere(&change, &error) => {}
                Err(error) => match refusal(&error) {
                    Some(words) if piece != Piece::Addon => drop(refused.insert(piece, words)),
                    _ => return Err(failed(format!("writing {}", described(&piece, name)), error)),
                },
            }
        }
        Ok(())
    }

    async fn read<K>(&self, api: &Api<K>, name: &str) -> Result<Option<K>, AddonError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        api.get_opt(name).await.map_err(|error| failed(format!("reading {} {name}", K::kind(&())), error))
    }

    fn all<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    fn instances(&self, namespace: &str) -> Api<Loose<AddonInstance>> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn events<K>(&self) -> impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + use<K>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        watcher(self.all::<K>(), watcher::Config::default()).default_backoff()
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

/// Whether something was written for a state that has passed: it has changed, come or gone since.
pub(super) fn is_outdated(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_conflict() || status.is_already_exists() || status.is_not_found())
}

/// Whether there is no place for what was to be created: its namespace has gone, or nobody serves its kind.
fn is_nowhere(change: &Change, error: &kube::Error) -> bool {
    matches!((change, error), (Change::Create(_), kube::Error::Api(status)) if status.code == 404)
}

/// The words of the API server, where it refuses what was asked rather than fails.
fn refusal(error: &kube::Error) -> Option<String> {
    match error {
        kube::Error::Api(status) if matches!(status.code, 400 | 403 | 404 | 422) => {
            Some(status.message.clone())
        }
        _ => None,
    }
}

fn described(piece: &Piece, addon: &str) -> String {
    match piece {
        Piece::Addon => format!("Addon {addon}"),
        Piece::Namespace(name) => format!("namespace {name}"),
        Piece::Instance { namespace } => format!("AddonInstance {namespace}/{INSTANCE}"),
    }
}

pub(super) fn failed(doing: String, source: kube::Error) -> AddonError {
    AddonError::Api { doing, source: Box::new(source) }
}
