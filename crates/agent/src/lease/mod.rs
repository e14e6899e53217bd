//! Renews the Lease of the cluster on the hub, by which the hub knows that the cluster is reachable, and reports the
//! version and name of the cluster in the status of its ManagedCluster. The Lease is written at each renewal, the
//! status only when it changes.

mod decide;

use std::time::Duration;

use bellwether_api::cluster::ManagedCluster;
use bellwether_api::cluster::vocabulary::CLUSTER_LEASE;
use bellwether_clock::whole_seconds;
use bellwether_runtime::metrics::ControllerMetrics;
use bellwether_runtime::{BackoffPolicy, Context};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::Value;
use tokio::time::Instant;

use self::decide::{ClusterInfo, status_to_apply};
use crate::{Agent, describe_error};

/// The name of the controller, in logs, metrics and health, and as field manager.
pub const NAME: &str = "cluster-lease";

/// The duration of the Lease if the ManagedCluster does not set it.
const DEFAULT_LEASE_SECONDS: i32 = 60;
/// How long to wait after a failed renewal.
const RETRY: BackoffPolicy = BackoffPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(15) };
/// How long one renewal may take.
const RENEW_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a renewal failed.
#[derive(Debug, thiserror::Error)]
enum RenewError {
    #[error("the hub has no ManagedCluster {0}; create it with .spec.hubAcceptsClient: true")]
    NotFound(String),
    #[error("the hub has not accepted ManagedCluster {0}; set its .spec.hubAcceptsClient to true")]
    NotAccepted(String),
    #[error("{doing} failed: {}", describe_error(.source))]
    Api { doing: &'static str, source: Box<kube::Error> },
    #[error("the hub did not answer within {RENEW_TIMEOUT:?}")]
    TimedOut,
}

impl RenewError {
    fn label(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "unknown",
            Self::NotAccepted(_) => "not-accepted",
            Self::Api { .. } => "api",
            Self::TimedOut => "timeout",
        }
    }
}

/// Renews the Lease of a cluster until the shutdown, while this process is leader. The context is that of the cluster.
///
/// It is a health component from this call on, not from when it is first polled.
pub fn run(agent: Agent, context: Context) -> impl Future<Output = ()> + Send {
    let component = context.health.component(context.component_name(NAME));
    let metrics = ControllerMetrics::new(&context.metrics, &context.cluster, NAME);
    async move {
        let renewer = Renewer::new(agent, &context);
        let mut failures = 0_u32;
        loop {
            metrics.set_leader(context.leadership.is_leader());
            if !context.leadership.is_leader() {
                component.ready();
            }
            tokio::select! {
                () = context.leadership.acquired() => {}
                () = context.shutdown.requested() => return,
            }
            metrics.set_leader(true);
            let start = Instant::now();
            let renewed = tokio::time::timeout(RENEW_TIMEOUT, renewer.renew()).await;
            metrics.observe_reconcile(start.elapsed());
            let delay = match renewed.unwrap_or(Err(RenewError::TimedOut)) {
                Ok(duration) => {
                    failures = 0;
                    component.ready();
                    BackoffPolicy { initial: duration, max: duration }.delay(1, rand::random())
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    metrics.count_error(error.label());
                    component.not_ready(error.to_string());
                    tracing::debug!("{NAME} of {}: {error}", context.cluster);
                    RETRY.delay(failures, rand::random())
                }
            };
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = context.shutdown.requested() => return,
            }
        }
    }
}

struct Renewer {
    agent: Agent,
    context: Context,
    clusters: Api<DynamicObject>,
    leases: Api<Lease>,
}

impl Renewer {
    fn new(agent: Agent, context: &Context) -> Self {
        let resource = ApiResource::erase::<ManagedCluster>(&());
        Self {
            clusters: Api::all_with(agent.hub.clone(), &resource),
            leases: Api::namespaced(agent.hub.clone(), agent.cluster.as_str()),
            agent,
            context: context.clone(),
        }
    }

    /// Renews the Lease once and returns its duration.
    async fn renew(&self) -> Result<Duration, RenewError> {
        let name = self.agent.cluster.as_str();
        let cluster = self.clusters.get_opt(name).await.map_err(api_error("reading the ManagedCluster"))?;
        let cluster = cluster.ok_or_else(|| RenewError::NotFound(name.to_owned()))?.data;
        let spec = |field: &str| cluster.get("spec").and_then(|spec| spec.get(field));
        if spec("hubAcceptsClient") != Some(&Value::Bool(true)) {
            return Err(RenewError::NotAccepted(name.to_owned()));
        }
        let seconds =
            spec("leaseDurationSeconds").and_then(Value::as_i64).unwrap_or(DEFAULT_LEASE_SECONDS.into());
        let seconds = i32::try_from(seconds).unwrap_or(DEFAULT_LEASE_SECONDS).max(1);
        self.write_lease(seconds).await.map_err(api_error("renewing the Lease"))?;
        self.report_cluster(cluster.get("status").unwrap_or(&Value::Null)).await?;
        Ok(Duration::from_secs(u64::from(seconds.unsigned_abs())))
    }

    async fn write_lease(&self, seconds: i32) -> Result<(), kube::Error> {
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
            response => response.map(drop),
        }
    }

    /// Reports the name and version of the cluster in the status of its ManagedCluster, if they changed.
    async fn report_cluster(&self, status: &Value) -> Result<(), RenewError> {
        let version = self.context.client.apiserver_version().await;
        let version = version.map_err(api_error("reading the version of the cluster"))?.git_version;
        let info = ClusterInfo { cluster: self.agent.cluster.clone(), version };
        let now = whole_seconds(self.context.clock.now());
        let Some(object) = status_to_apply(status, &info, now) else { return Ok(()) };
        let name = self.agent.cluster.as_str();
        let applied =
            self.clusters.patch_status(name, &PatchParams::apply(NAME).force(), &Patch::Apply(&object)).await;
        applied.map(drop).map_err(api_error("writing the status of the ManagedCluster"))
    }
}

fn api_error(doing: &'static str) -> impl Fn(kube::Error) -> RenewError {
    move |source| RenewError::Api { doing, source: Box::new(source) }
}
