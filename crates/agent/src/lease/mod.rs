//! Says that the cluster is in reach, by renewing its Lease on the hub, and what the cluster is, in the status of its
//! ManagedCluster. The Lease is written at every beat; the status only when it would say something new.

mod decide;

use std::time::Duration;

use bellwether_api::cluster::ManagedCluster;
use bellwether_api::cluster::vocabulary::CLUSTER_LEASE;
use bellwether_clock::whole_seconds;
use bellwether_runtime::metrics::Counts;
use bellwether_runtime::{Context, Growth};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::Value;
use tokio::time::Instant;

use self::decide::{Facts, said};
use crate::{Agent, in_words};

/// The name of the controller, in logs, metrics and health, and of what it owns in objects.
pub const NAME: &str = "cluster-lease";

/// How long a lease lasts where nobody says.
const USUAL: i32 = 60;
/// How long to wait after the hub did not take a beat.
const RETRY: Growth = Growth { first: Duration::from_secs(1), most: Duration::from_secs(15) };
/// How long one beat may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why there was no beat.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the hub has no ManagedCluster {0}")]
    Unknown(String),
    #[error("the hub has not accepted the cluster: .spec.hubAcceptsClient of its ManagedCluster is not true")]
    NotAccepted,
    #[error("{doing}: {}", in_words(.source))]
    Api { doing: &'static str, source: Box<kube::Error> },
    #[error("it was not done within {PATIENCE:?}")]
    Late,
}

impl Failure {
    fn label(&self) -> &'static str {
        match self {
            Self::Unknown(_) => "unknown",
            Self::NotAccepted => "not-accepted",
            Self::Api { .. } => "api",
            Self::Late => "late",
        }
    }
}

/// Says that a cluster is in reach until the shutdown, while this process leads. The context is that of the cluster.
///
/// It counts as a part of the process from this call on, not from when it is first polled.
pub fn run(agent: Agent, context: Context) -> impl Future<Output = ()> + Send {
    let part = context.health.part(format!("{NAME} of {}", context.cluster));
    let counts = Counts::of(&context.metrics, &context.cluster, NAME);
    async move {
        let pulse = Pulse::new(agent, &context);
        let mut failures = 0_u32;
        loop {
            counts.leading(context.leadership.is_held());
            if !context.leadership.is_held() {
                // To stand by is no trouble.
                part.well();
            }
            tokio::select! {
                () = context.leadership.held() => {}
                () = context.shutdown.begun() => return,
            }
            counts.leading(true);
            let begun = Instant::now();
            let beat = tokio::time::timeout(PATIENCE, pulse.beat()).await.unwrap_or(Err(Failure::Late));
            counts.reconciled(begun.elapsed());
            let wait = match beat {
                Ok(period) => {
                    failures = 0;
                    part.well();
                    Growth { first: period, most: period }.wait(1, rand::random())
                }
                Err(failure) => {
                    failures = failures.saturating_add(1);
                    counts.failed(failure.label());
                    part.trouble(failure.to_string());
                    tracing::debug!("{NAME} of {}: {failure}", context.cluster);
                    RETRY.wait(failures, rand::random())
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = context.shutdown.begun() => return,
            }
        }
    }
}

struct Pulse {
    agent: Agent,
    context: Context,
    clusters: Api<DynamicObject>,
    leases: Api<Lease>,
}

impl Pulse {
    fn new(agent: Agent, context: &Context) -> Self {
        let resource = ApiResource::erase::<ManagedCluster>(&());
        Self {
            clusters: Api::all_with(agent.hub.clone(), &resource),
            leases: Api::namespaced(agent.hub.clone(), agent.cluster.as_str()),
            agent,
            context: context.clone(),
        }
    }

    /// Says once that the cluster is in reach, and how long that holds.
    async fn beat(&self) -> Result<Duration, Failure> {
        let name = self.agent.cluster.as_str();
        let cluster = self.clusters.get_opt(name).await.map_err(while_("reading the ManagedCluster"))?;
        let cluster = cluster.ok_or_else(|| Failure::Unknown(name.to_owned()))?.data;
        let spec = |member: &str| cluster.get("spec").and_then(|spec| spec.get(member));
        if spec("hubAcceptsClient") != Some(&Value::Bool(true)) {
            return Err(Failure::NotAccepted);
        }
        let seconds = spec("leaseDurationSeconds").and_then(Value::as_i64).unwrap_or(USUAL.into());
        let seconds = i32::try_from(seconds).unwrap_or(USUAL).max(1);
        self.renew(seconds).await.map_err(while_("renewing the lease"))?;
        self.introduce(cluster.get("status").unwrap_or(&Value::Null)).await?;
        Ok(Duration::from_secs(u64::from(seconds.unsigned_abs())))
    }

    async fn renew(&self, seconds: i32) -> Result<(), kube::Error> {
        let lease = Lease {
            metadata: ObjectMeta { name: Some(CLUSTER_LEASE.to_owned()), ..ObjectMeta::default() },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.agent.agent_id.to_string()),
                lease_duration_seconds: Some(seconds),
                renew_time: Some(MicroTime(self.context.clock.now())),
                ..LeaseSpec::default()
            }),
        };
        match self.leases.patch(CLUSTER_LEASE, &PatchParams::default(), &Patch::Merge(&lease)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                self.leases.create(&PostParams::default(), &lease).await.map(drop)
            }
            answer => answer.map(drop),
        }
    }

    /// Says what the cluster is, where the hub does not know that.
    async fn introduce(&self, status: &Value) -> Result<(), Failure> {
        let version = self.context.client.apiserver_version().await;
        let version = version.map_err(while_("asking the cluster for its version"))?.git_version;
        let facts = Facts { cluster: self.agent.cluster.clone(), version };
        let Some(said) = said(status, &facts, whole_seconds(self.context.clock.now())) else { return Ok(()) };
        let name = self.agent.cluster.as_str();
        let applied =
            self.clusters.patch_status(name, &PatchParams::apply(NAME).force(), &Patch::Apply(&said)).await;
        applied.map(drop).map_err(while_("writing the status of the ManagedCluster"))
    }
}

fn while_(doing: &'static str) -> impl Fn(kube::Error) -> Failure {
    move |source| Failure::Api { doing, source: Box::new(source) }
}
