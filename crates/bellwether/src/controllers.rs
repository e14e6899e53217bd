//! The controllers by name: on which clusters each of them runs, which ones --controllers selects, and how they are started.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use bellwether_agent::{Agent, lease, mirror, work};
use bellwether_heartbeat::addon::{AddonOperatorReconciler, AddonReconciler, MirrorTimeouts};
use bellwether_heartbeat::checker;
use bellwether_lifecycle::clusters::{self, ClusterSetBindings, ClusterSets, Clusters};
use bellwether_lifecycle::placement::{self, Placements};
use bellwether_lifecycle::{addon, install, run_addon_controllers};
use bellwether_observability::operator::{self, Source};
use bellwether_observability::vocabulary::{ADDON_NAMESPACE, Vocabulary};
use bellwether_observability::{mirror as observability_mirror, status};
use bellwether_runtime::{Context, Reconciler as _, run};
use clap::Args;

/// A controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Controller {
    Addon,
    HeartbeatChecker,
    Work,
    ClusterLease,
    HeartbeatMirror,
    EndpointOperator,
    ObservabilityStatus,
    Cluster,
    ClusterSet,
    ClusterSetBinding,
    Placement,
    AddonInstall,
    AddonLifecycle,
    ObservabilityMirror,
}

/// The controllers of every cluster, including the hub of `up`.
pub(crate) const EVERYWHERE: &[Controller] = &[Controller::Addon, Controller::HeartbeatChecker];
/// The controllers that a spoke runs for its hub.
pub(crate) const FOR_THE_HUB: &[Controller] = &[
    Controller::Work,
    Controller::ClusterLease,
    Controller::HeartbeatMirror,
    Controller::EndpointOperator,
    Controller::ObservabilityStatus,
];
/// The controllers of a hub.
pub(crate) const ON_THE_HUB: &[Controller] = &[
    Controller::Cluster,
    Controller::ClusterSet,
    Controller::ClusterSetBinding,
    Controller::Placement,
    Controller::AddonInstall,
    Controller::AddonLifecycle,
    Controller::ObservabilityMirror,
];

impl Controller {
    /// The name in flags, logs and metrics, and of the controller's identity.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Addon => AddonReconciler::NAME,
            Self::HeartbeatChecker => checker::NAME,
            Self::Work => work::NAME,
            Self::ClusterLease => lease::NAME,
            Self::HeartbeatMirror => mirror::NAME,
            Self::EndpointOperator => operator::NAME,
            Self::ObservabilityStatus => status::NAME,
            Self::Cluster => clusters::CLUSTERS,
            Self::ClusterSet => clusters::CLUSTER_SETS,
            Self::ClusterSetBinding => clusters::CLUSTER_SET_BINDINGS,
            Self::Placement => placement::NAME,
            Self::AddonInstall => install::NAME,
            Self::AddonLifecycle => addon::NAME,
            Self::ObservabilityMirror => observability_mirror::NAME,
        }
    }
}

/// The controllers that --controllers selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection(BTreeSet<Controller>);

impl Selection {
    /// Parses --controllers of `up`.
    pub(crate) fn of_all(text: &str) -> Result<Self, String> {
        Self::parse(text, &[EVERYWHERE, FOR_THE_HUB, ON_THE_HUB].concat())
    }

    /// Parses --controllers of `run agent`.
    pub(crate) fn of_agent(text: &str) -> Result<Self, String> {
        Self::parse(text, &[EVERYWHERE, FOR_THE_HUB].concat())
    }

    /// Parses --controllers of `run hub`.
    pub(crate) fn of_hub(text: &str) -> Result<Self, String> {
        Self::parse(text, ON_THE_HUB)
    }

    /// `a,b` selects only these controllers; `-a` selects all but one, and `+a` is the default.
    fn parse(text: &str, all: &[Controller]) -> Result<Self, String> {
        let items: Vec<&str> = text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect();
        let only_listed = items.iter().any(|item| !item.starts_with(['+', '-']));
        let mut selected = if only_listed { BTreeSet::new() } else { all.iter().copied().collect() };
        for item in items {
            let (keep, name) = match item.strip_prefix('-') {
                Some(name) => (false, name),
                None => (true, item.strip_prefix('+').unwrap_or(item)),
            };
            let known = all.iter().find(|controller| controller.name() == name);
            let controller = known.ok_or_else(|| {
                let names: Vec<&str> = all.iter().map(|controller| controller.name()).collect();
                format!("there is no controller {name:?}; this command runs: {}", names.join(", "))
            })?;
            if keep {
                selected.insert(*controller);
            } else {
                selected.remove(controller);
            }
        }
        Ok(Self(selected))
    }

    /// Starts the selected controllers of [`EVERYWHERE`] on a cluster. Each runs with the context that `context_of` returns for
    /// it, until the shutdown of that context.
    pub(crate) fn start_everywhere(
        &self,
        heartbeats: &HeartbeatArgs,
        context_of: impl Fn(Controller) -> Context,
    ) {
        for controller in &self.0 {
            let context = || context_of(*controller);
            match controller {
                Controller::Addon => {
                    let context = context();
                    let addons = AddonReconciler::new(&context, heartbeats.mirror());
                    let operators = AddonOperatorReconciler::new(&context);
                    let shutdown = context.shutdown.clone();
                    shutdown.spawn(run(operators, context.clone()));
                    shutdown.spawn(run(addons, context));
                }
                Controller::HeartbeatChecker => {
                    spawn(context(), |context| checker::run(context, heartbeats.checker()));
                }
                _ => {}
            }
        }
    }

    /// Starts the selected controllers of [`FOR_THE_HUB`] on a cluster.
    pub(crate) fn start_for_the_hub(
        &self,
        agent: &Agent,
        observability: &ObservabilityArgs,
        context_of: impl Fn(Controller) -> Context,
    ) {
        for controller in &self.0 {
            let context = || context_of(*controller);
            let agent = || agent.clone();
            match controller {
                Controller::Work => spawn(context(), |context| work::run(agent(), context)),
                Controller::ClusterLease => spawn(context(), |context| lease::run(agent(), context)),
                Controller::HeartbeatMirror => spawn(context(), |context| mirror::run(agent(), context)),
                Controller::EndpointOperator => {
                    spawn(context(), |context| operator::run(observability.operator(&agent()), context));
                }
                Controller::ObservabilityStatus => {
                    spawn(context(), |context| status::run(observability.status(&agent()), context));
                }
                _ => {}
            }
        }
    }

    /// Starts the selected controllers of [`ON_THE_HUB`].
    pub(crate) fn start_on_the_hub(&self, context_of: impl Fn(Controller) -> Context) {
        // If both run, they share one hub cache.
        let shares_cache =
            [Controller::AddonInstall, Controller::AddonLifecycle].iter().all(|one| self.0.contains(one));
        if shares_cache {
            let install = context_of(Controller::AddonInstall);
            let lifecycle = context_of(Controller::AddonLifecycle);
            spawn(lifecycle, |lifecycle| run_addon_controllers(install, lifecycle));
        }
        for controller in &self.0 {
            let context = || context_of(*controller);
            match controller {
                Controller::Cluster => spawn(context(), |context| run(Clusters::new(&context), context)),
                Controller::ClusterSet => {
                    spawn(context(), |context| run(ClusterSets::new(&context), context))
                }
                Controller::ClusterSetBinding => {
                    spawn(context(), |context| run(ClusterSetBindings::new(&context), context));
                }
                Controller::Placement => spawn(context(), |context| run(Placements::new(&context), context)),
                Controller::AddonInstall if !shares_cache => spawn(context(), install::run),
                Controller::AddonLifecycle if !shares_cache => spawn(context(), addon::run),
                Controller::ObservabilityMirror => spawn(context(), observability_mirror::run),
                _ => {}
            }
        }
    }
}

/// Runs a controller until the shutdown of its context.
fn spawn<F: Future<Output = ()> + Send + 'static>(context: Context, run: impl FnOnce(Context) -> F) {
    let shutdown = context.shutdown.clone();
    shutdown.spawn(run(context));
}

/// The settings of the heartbeat checker and the Addon controller.
#[derive(Clone, Debug, Args)]
pub(crate) struct HeartbeatArgs {
    /// The number of periods without a heartbeat after which an add-on counts as silent; must be >= 1.
    #[arg(long, value_name = "N", default_value_t = checker::Settings::default().timeout_multiplier, value_parser = parse_multiplier)]
    timeout_multiplier: NonZeroU32,

    /// Report AddonInstances that have not had a heartbeat yet, as Healthy=Unknown with the reason PendingFirstHeartbeat.
    /// By default their status is not changed.
    #[arg(long)]
    report_pending: bool,

    /// Also report a heartbeat timeout on the Addon, in the condition HeartbeatTimeout. By default only the AddonInstance
    /// reports it.
    #[arg(long)]
    mirror_timeouts: bool,
}

fn parse_multiplier(text: &str) -> Result<NonZeroU32, String> {
    text.parse().map_err(|_| "must be a whole number >= 1".to_owned())
}

impl HeartbeatArgs {
    fn mirror(&self) -> MirrorTimeouts {
        if self.mirror_timeouts { MirrorTimeouts::On } else { MirrorTimeouts::Off }
    }

    fn checker(&self) -> checker::Settings {
        checker::Settings {
            timeout_multiplier: self.timeout_multiplier,
            pending_policy: if self.report_pending {
                checker::PendingPolicy::Report
            } else {
                checker::PendingPolicy::Ignore
            },
        }
    }
}

/// The settings of the endpoint operator and the observability status controller.
#[derive(Clone, Debug, Args)]
pub(crate) struct ObservabilityArgs {
    /// The namespace of the ObservabilityAddon and the metrics collectors on a cluster.
    #[arg(long, value_name = "NAME", default_value = ADDON_NAMESPACE)]
    observability_namespace: String,

    /// The names of the reasons and condition types that are written to ObservabilityAddons: seed (UpdateSuccesful,
    /// MetricsCollectorStatus), or upstream, those of Open Cluster Management (UpdateSuccessful, MetricsCollector), which
    /// reports Disabled and NotSupported as Degraded. Both are read.
    #[arg(long, value_name = "seed|upstream", default_value = "seed", value_parser = parse_vocabulary)]
    observability_vocabulary: Vocabulary,

    /// The image of the metrics collectors, with its registry. `up` runs them itself, without the image.
    #[arg(long, value_name = "IMAGE", default_value = "bellwether:latest")]
    collector_image: String,

    /// The address of the Prometheus from which the platform's metrics are collected. It is used if the Service
    /// openshift-monitoring/prometheus-k8s exists. Default: https://prometheus-k8s.openshift-monitoring.svc:9091, in the demo
    /// of `up` the built-in source of each spoke.
    #[arg(long, value_name = "URL")]
    prometheus: Option<String>,

    /// The address of the Prometheus from which the metrics of user workloads are collected. Default:
    /// https://prometheus-user-workload.openshift-user-workload-monitoring.svc:9092, in the demo of `up` the built-in source of
    /// each spoke.
    #[arg(long, value_name = "URL")]
    user_workload_prometheus: Option<String>,
}

/// The usual address of the platform's Prometheus.
const PROMETHEUS: &str = "https://prometheus-k8s.openshift-monitoring.svc:9091";
/// The usual address of the Prometheus of user workloads.
const USER_WORKLOAD_PROMETHEUS: &str =
    "https://prometheus-user-workload.openshift-user-workload-monitoring.svc:9092";

fn parse_vocabulary(text: &str) -> Result<Vocabulary, String> {
    text.parse()
}

impl ObservabilityArgs {
    /// The same, with other addresses of Prometheus where none is given.
    pub(crate) fn with_sources(&self, platform: String, user_workloads: String) -> Self {
        Self {
            prometheus: self.prometheus.clone().or(Some(platform)),
            user_workload_prometheus: self.user_workload_prometheus.clone().or(Some(user_workloads)),
            ..self.clone()
        }
    }

    fn status(&self, agent: &Agent) -> status::Settings {
        status::Settings {
            namespace: self.observability_namespace.clone(),
            hub: agent.hub.clone(),
            hub_namespace: agent.cluster.to_string(),
            vocabulary: self.observability_vocabulary,
            resync_interval: status::RESYNC_INTERVAL,
        }
    }

    fn operator(&self, agent: &Agent) -> operator::Settings {
        let found = |(namespace, name): (&str, &str)| (namespace.to_owned(), name.to_owned());
        operator::Settings {
            namespace: self.observability_namespace.clone(),
            hub: agent.hub.clone(),
            hub_namespace: agent.cluster.to_string(),
            image: self.collector_image.clone(),
            platform: source(self.prometheus.as_deref().unwrap_or(PROMETHEUS)),
            platform_service: found(operator::PLATFORM_SERVICE),
            user_workloads: source(
                self.user_workload_prometheus.as_deref().unwrap_or(USER_WORKLOAD_PROMETHEUS),
            ),
            user_workload_stateful_set: found(operator::USER_WORKLOAD_STATEFUL_SET),
            vocabulary: self.observability_vocabulary,
        }
    }
}

/// A Prometheus of OpenShift: it has a certificate of the cluster's service CA, and accepts ServiceAccount tokens.
fn source(url: &str) -> Source {
    const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
    let is_tls = url.starts_with("https:");
    let file = |name: &str| is_tls.then(|| format!("{SERVICE_ACCOUNT}/{name}"));
    Source { url: url.to_owned(), ca_file: file("service-ca.crt"), token_file: file("token") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selection_is_all_but_some_or_only_some() {
        use Controller::{
            Addon, ClusterLease, EndpointOperator, HeartbeatChecker, HeartbeatMirror, ObservabilityStatus,
            Work,
        };
        let without_observability = "-endpoint-operator,-observability-status";
        let rows: [(&str, &[Controller]); 7] = [
            (
                "",
                &[
                    Addon,
                    HeartbeatChecker,
                    Work,
                    ClusterLease,
                    HeartbeatMirror,
                    EndpointOperator,
                    ObservabilityStatus,
                ],
            ),
            (without_observability, &[Addon, HeartbeatChecker, Work, ClusterLease, HeartbeatMirror]),
            (
                &format!("-addon-controller,{without_observability}"),
                &[HeartbeatChecker, Work, ClusterLease, HeartbeatMirror],
            ),
            (
                &format!("+addon-controller,-heartbeat-checker,-heartbeat-mirror,{without_observability}"),
                &[Addon, Work, ClusterLease],
            ),
            ("heartbeat-checker", &[HeartbeatChecker]),
            ("heartbeat-checker, addon-controller", &[Addon, HeartbeatChecker]),
            (
                &format!(
                    "-addon-controller,-heartbeat-checker,-work-agent,-cluster-lease,-heartbeat-mirror,{without_observability}"
                ),
                &[],
            ),
        ];
        for (text, wanted) in rows {
            assert_eq!(Selection::of_agent(text), Ok(Selection(wanted.iter().copied().collect())), "{text}");
        }
        let unknown = Selection::of_agent("-placement-controller");
        let names = "addon-controller, heartbeat-checker, work-agent, cluster-lease, heartbeat-mirror, endpoint-operator, observability-status";
        assert_eq!(
            unknown,
            Err(format!("there is no controller \"placement-controller\"; this command runs: {names}"))
        );
        let all = Selection::of_all("").map(|selection| selection.0.len());
        assert_eq!((all, Selection::of_hub("").map(|selection| selection.0.len())), (Ok(14), Ok(7)));
    }
}
