//! Bringing the definitions of our kinds to a cluster: read, compare, write only what differs, wait until served.
//! A definition that somebody else installed is not touched unless we are told to adopt it.

use std::time::Duration;

use bellwether_api::Definition;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition,
};
use kube::api::{Api, PostParams};
use kube::runtime::wait::{Error as WaitError, await_condition, conditions::is_crd_established};
use tokio::time::{Instant, timeout_at};

use crate::outcome::NotDone;
use crate::target::Target;

const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const US: &str = "bellwether";
/// How often a write is tried while others write too.
const ATTEMPTS: usize = 5;
/// How long it may take to find out why something is late.
const LAST_LOOK: Duration = Duration::from_secs(2);

/// What became of a definition, in kubectl's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Created,
    Configured,
    Unchanged,
}

impl Change {
    fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
        }
    }
}

/// What may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permission {
    /// What has our label.
    OursOnly,
    /// Also what somebody else installed, which then gets our label.
    Adopt,
}

/// Installs all definitions and waits until they are served. Nothing is written if one of them has to be refused.
pub(super) async fn all(
    target: &Target,
    definitions: &[Definition],
    permission: Permission,
    timeout: Duration,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + timeout;
    let api: Api<CustomResourceDefinition> = Api::all(target.client.clone());
    let written = timeout_at(deadline, write_all(target, &api, definitions, permission));
    written.await.map_err(|_| {
        NotDone::Late(format!("{target} took longer than {timeout:?}; give it longer with --timeout"))
    })??;
    for definition in definitions {
        let established = await_condition(api.clone(), definition.name(), is_crd_established());
        match timeout_at(deadline, established).await {
            Ok(Ok(_)) => {}
            Ok(Err(WaitError::ProbeFailed(error))) => {
                return Err(anyhow::Error::new(error)
                    .context(format!("cannot wait for {} to be established", definition.name())));
            }
            Err(_) => return Err(late(&api, definition.name(), timeout).await.into()),
        }
    }
    Ok(())
}

async fn write_all(
    target: &Target,
    api: &Api<CustomResourceDefinition>,
    definitions: &[Definition],
    permission: Permission,
) -> anyhow::Result<()> {
    if permission == Permission::OursOnly {
        refuse_foreign(target, api, definitions).await?;
    }
    for definition in definitions {
        let change = install(target, api, definition, permission).await?;
        println!("customresourcedefinition.apiextensions.k8s.io/{} {}", definition.name(), change.word());
    }
    Ok(())
}

/// What the cluster itself says against a definition is worth a last look.
async fn late(api: &Api<CustomResourceDefinition>, name: &str, timeout: Duration) -> NotDone {
    let found = tokio::time::timeout(LAST_LOOK, api.get(name)).await.ok().and_then(Result::ok);
    let conditions = found.and_then(|found| found.status).and_then(|status| status.conditions);
    let objections: Vec<String> = conditions
        .into_iter()
        .flatten()
        .filter(|condition| condition.status == "False")
        .filter_map(|condition| condition.message)
        .collect();
    let why = if objections.is_empty() {
        "give it longer with --timeout".to_owned()
    } else {
        objections.join("; ")
    };
    NotDone::Late(format!("{name} was not established within {timeout:?}: {why}"))
}

/// Brings definitions to a server of our own, which serves a kind with its definition, so that nothing is waited for.
/// One that somebody else installed stays.
pub(crate) async fn provide(target: &Target, definitions: &[Definition]) -> anyhow::Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(target.client.clone());
    for definition in definitions {
        match install(target, &api, definition, Permission::OursOnly).await {
            Err(error) if matches!(error.downcast_ref(), Some(NotDone::Refused(_))) => {
                tracing::warn!("{target}: {} is somebody else's and stays as it is", definition.name());
            }
            installed => _ = installed?,
        }
    }
    Ok(())
}

async fn refuse_foreign(
    target: &Target,
    api: &Api<CustomResourceDefinition>,
    definitions: &[Definition],
) -> anyhow::Result<()> {
    let mut foreign = Vec::new();
    for definition in definitions {
        let found = get(target, api, definition.name()).await?;
        if found.is_some_and(|found| !is_ours(&found)) {
            foreign.push(definition.name());
        }
    }
    if foreign.is_empty() { Ok(()) } else { Err(refusal(&foreign.join(", ")).into()) }
}

fn refusal(names: &str) -> NotDone {
    NotDone::Refused(format!(
        "refused to replace {names}: installed by somebody else, as it lacks the label {MANAGED_BY}={US}. Look at it \
         with `kubectl get customresourcedefinition {first} -o yaml`; to replace it and keep it from now on, add --adopt",
        first = names.split(',').next().unwrap_or(names),
    ))
}

async fn get(
    target: &Target,
    api: &Api<CustomResourceDefinition>,
    name: &str,
) -> anyhow::Result<Option<CustomResourceDefinition>> {
    api.get_opt(name).await.map_err(|error| target.explain(&format!("read the definition {name}"), error))
}

async fn install(
    target: &Target,
    api: &Api<CustomResourceDefinition>,
    definition: &Definition,
    permission: Permission,
) -> anyhow::Result<Change> {
    let name = definition.name();
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let written = match get(target, api, name).await? {
            None => {
                let wanted = wanted(definition, None);
                api.create(&PostParams::default(), &wanted).await.map(|_| Change::Created)
            }
            Some(found) if permission == Permission::OursOnly && !is_ours(&found) => {
                return Err(refusal(name).into());
            }
            Some(found) => {
                let wanted = wanted(definition, Some(&found));
                if wanted == found {
                    return Ok(Change::Unchanged);
                }
                api.replace(name, &PostParams::default(), &wanted).await.map(|now| judge(&found, &now))
            }
        };
        match written {
            Ok(change) => return Ok(change),
            // Somebody was faster; what they wrote decides what is left to do.
            Err(kube::Error::Api(status))
                if status.is_conflict() || status.is_already_exists() || status.is_not_found() =>
            {
                last = Some(kube::Error::Api(status));
            }
            Err(error) => return Err(target.explain(&format!("write the definition {name}"), error)),
        }
    }
    let error = last.map(|error| target.explain(&format!("write the definition {name}"), error));
    Err(error.unwrap_or_else(|| anyhow::anyhow!("the definition {name} was never written")))
}

/// A server may fill in more than we know; it then keeps the version of an object that did not change.
fn judge(before: &CustomResourceDefinition, after: &CustomResourceDefinition) -> Change {
    if before.metadata.resource_version == after.metadata.resource_version {
        Change::Unchanged
    } else {
        Change::Configured
    }
}

fn is_ours(found: &CustomResourceDefinition) -> bool {
    found.metadata.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY)).is_some_and(|owner| owner == US)
}

/// The definition as it is to be stored: our spec in what is there, with what the server would fill in, so that equal
/// means that there is nothing to write.
fn wanted(definition: &Definition, found: Option<&CustomResourceDefinition>) -> CustomResourceDefinition {
    let mut wanted = definition.crd.clone();
    if let Some(found) = found {
        wanted.metadata = found.metadata.clone();
        wanted.status = found.status.clone();
    }
    wanted.metadata.labels.get_or_insert_default().insert(MANAGED_BY.into(), US.into());
    let spec = &mut wanted.spec;
    spec.names.list_kind.get_or_insert_with(|| format!("{}List", spec.names.kind));
    spec.conversion
        .get_or_insert_with(|| CustomResourceConversion { strategy: "None".into(), webhook: None });
    wanted
}
