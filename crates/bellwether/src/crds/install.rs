//! Installs CRDs in a cluster: reads, compares, writes only those that differ, and waits until they are established. A CRD that
//! another tool installed is replaced only with --adopt.

use std::time::Duration;

use bellwether_api::Definition;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition,
};
use kube::api::{Api, PostParams};
use kube::runtime::wait::{Error as WaitError, await_condition, conditions::is_crd_established};
use tokio::time::{Instant, timeout_at};

use crate::outcome::Unfinished;
use crate::target::Target;

const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const BELLWETHER: &str = "bellwether";
/// How often a write is tried while other clients write the same CRD.
const WRITE_ATTEMPTS: usize = 5;
/// How long reading the conditions of a CRD may take after the timeout.
const CONDITIONS_TIMEOUT: Duration = Duration::from_secs(2);

/// The result of installing a CRD, as kubectl prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Created,
    Configured,
    Unchanged,
}

impl Change {
    fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
        }
    }
}

/// Which CRDs may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permission {
    /// Only those with our label.
    OursOnly,
    /// Also those that another tool installed; they get our label.
    Adopt,
}

/// Installs all CRDs and waits until they are established. If one of them must not be replaced, nothing is written.
pub(super) async fn all(
    target: &Target,
    crds: &[Definition],
    permission: Permission,
    timeout: Duration,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + timeout;
    let api: Api<CustomResourceDefinition> = Api::all(target.client.clone());
    let written = timeout_at(deadline, write_all(target, &api, crds, permission));
    written.await.map_err(|_| {
        Unfinished::TimedOut(format!(
            "the CRDs were not written to {target} within {timeout:?}; allow more time with --timeout"
        ))
    })??;
    for crd in crds {
        let established = await_condition(api.clone(), crd.name(), is_crd_established());
        match timeout_at(deadline, established).await {
            Ok(Ok(_)) => {}
            Ok(Err(WaitError::ProbeFailed(error))) => {
                return Err(anyhow::Error::new(error)
                    .context(format!("cannot watch whether the CRD {} is established", crd.name())));
            }
            Err(_) => return Err(not_established(&api, crd.name(), timeout).await.into()),
        }
    }
    Ok(())
}

async fn write_all(
    target: &Target,
    api: &Api<CustomResourceDefinition>,
    crds: &[Definition],
    permission: Permission,
) -> anyhow::Result<()> {
    if permission == Permission::OursOnly {
        check_ownership(target, api, crds).await?;
    }
    for crd in crds {
        let change = install(target, api, crd, permission).await?;
        println!("customresourcedefinition.apiextensions.k8s.io/{} {}", crd.name(), change.as_str());
    }
    Ok(())
}

/// The error for a CRD that is not established in time, with the cause from its conditions.
async fn not_established(api: &Api<CustomResourceDefinition>, name: &str, timeout: Duration) -> Unfinished {
    let found = tokio::time::timeout(CONDITIONS_TIMEOUT, api.get(name)).await.ok().and_then(Result::ok);
    let conditions = found.and_then(|found| found.status).and_then(|status| status.conditions);
    let causes: Vec<String> = conditions
        .into_iter()
        .flatten()
        .filter(|condition| condition.status == "False")
        .filter_map(|condition| condition.message)
        .collect();
    let cause =
        if causes.is_empty() { "allow more time with --timeout".to_owned() } else { causes.join("; ") };
    Unfinished::TimedOut(format!("the CRD {name} was not established within {timeout:?}: {cause}"))
}

/// Installs CRDs in the embedded server, which serves them from their commit on, so that there is nothing to wait for. A CRD that
/// another tool installed is kept.
pub(crate) async fn provide(target: &Target, crds: &[Definition]) -> anyhow::Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(target.client.clone());
    for crd in crds {
        match install(target, &api, crd, Permission::OursOnly).await {
            Err(error) if matches!(error.downcast_ref(), Some(Unfinished::Rejected(_))) => {
                tracing::warn!(crd = crd.name(), cluster = %target, "kept a CRD that another tool installed");
            }
            installed => _ = installed?,
        }
    }
    Ok(())
}

async fn check_ownership(
    target: &Target,
    api: &Api<CustomResourceDefinition>,
    crds: &[Definition],
) -> anyhow::Result<()> {
    let mut foreign = Vec::new();
    for crd in crds {
        let found = get(target, api, crd.name()).await?;
        if found.is_some_and(|found| !is_ours(&found)) {
            foreign.push(crd.name());
        }
    }
    if foreign.is_empty() { Ok(()) } else { Err(refusal(&foreign.join(", ")).into()) }
}

fn refusal(names: &str) -> Unfinished {
    Unfinished::Rejected(format!(
        "refused to replace CRDs that another tool installed, without the label {MANAGED_BY}={BELLWETHER}: {names}. Compare: \
         kubectl get customresourcedefinition {first} -o yaml; to replace and label them, add --adopt",
        first = names.split(',').next().unwrap_or(names),
    ))
}

async fn get(
    target: &Target,
    api: &Api<CustomResourceDefinition>,
    name: &str,
) -> anyhow::Result<Option<CustomResourceDefinition>> {
    api.get_opt(name).await.map_err(|error| target.explain(&format!("read the CRD {name}"), error))
}

async fn install(
    target: &Target,
    api: &Api<CustomResourceDefinition>,
    crd: &Definition,
    permission: Permission,
) -> anyhow::Result<Change> {
    let name = crd.name();
    let mut last = None;
    for _ in 0..WRITE_ATTEMPTS {
        let written = match get(target, api, name).await? {
            None => {
                let wanted = desired_crd(crd, None);
                api.create(&PostParams::default(), &wanted).await.map(|_| Change::Created)
            }
            Some(found) if permission == Permission::OursOnly && !is_ours(&found) => {
                return Err(refusal(name).into());
            }
            Some(found) => {
                let wanted = desired_crd(crd, Some(&found));
                if wanted == found {
                    return Ok(Change::Unchanged);
                }
                api.replace(name, &PostParams::default(), &wanted)
                    .await
                    .map(|now| change_between(&found, &now))
            }
        };
        match written {
            Ok(change) => return Ok(change),
            // Another client wrote it at the same time: read it again, and decide again.
            Err(kube::Error::Api(status))
                if status.is_conflict() || status.is_already_exists() || status.is_not_found() =>
            {
                last = Some(kube::Error::Api(status));
            }
            Err(error) => return Err(target.explain(&format!("write the CRD {name}"), error)),
        }
    }
    let error = last.map(|error| target.explain(&format!("write the CRD {name}"), error));
    Err(error.unwrap_or_else(|| anyhow::anyhow!("the CRD {name} was not written")))
}

/// Compares resourceVersions: a server may set defaults that we do not know, and keeps the resourceVersion of an object that did
/// not change.
fn change_between(before: &CustomResourceDefinition, after: &CustomResourceDefinition) -> Change {
    if before.metadata.resource_version == after.metadata.resource_version {
        Change::Unchanged
    } else {
        Change::Configured
    }
}

fn is_ours(found: &CustomResourceDefinition) -> bool {
    found
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(MANAGED_BY))
        .is_some_and(|owner| owner == BELLWETHER)
}

/// The CRD to store: the found object with our spec, and with the defaults that the server sets. If it equals the found object,
/// there is nothing to write.
fn desired_crd(crd: &Definition, found: Option<&CustomResourceDefinition>) -> CustomResourceDefinition {
    let mut wanted = crd.crd.clone();
    if let Some(found) = found {
        wanted.metadata = found.metadata.clone();
        wanted.status = found.status.clone();
    }
    wanted.metadata.labels.get_or_insert_default().insert(MANAGED_BY.into(), BELLWETHER.into());
    let spec = &mut wanted.spec;
    spec.names.list_kind.get_or_insert_with(|| format!("{}List", spec.names.kind));
    spec.conversion
        .get_or_insert_with(|| CustomResourceConversion { strategy: "None".into(), webhook: None });
    wanted
}
