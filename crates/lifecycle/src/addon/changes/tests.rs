//! Tests the decisions against a simulated hub: watch events arrive late, outdated writes conflict, agents report at any
//! time, and users change the requested version.

use bellwether_api::addon::vocabulary::INSTALLED_BY;
use bellwether_api::addon::{ClusterManagementAddOn, ManagedClusterAddOn};
use bellwether_api::work::ManifestWork;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use proptest::prelude::{Just, prop_oneof};
use proptest::strategy::Strategy as _;
use proptest::{prop_assert, prop_assert_eq, proptest};
use serde_json::{Value, json};

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::hub::{AddonTask, User};
use crate::works::is_work_of;

const ADDON: &str = "hello";
const VERSIONS: [&str; 3] = ["v1", "v2", "v3"];

/// A step of a simulation.
#[derive(Clone, Debug)]
enum Step {
    /// A user requests the version with this index; the last version does not exist.
    RequestVersion(usize),
    /// The install controller writes the ManagedClusterAddOn of a cluster.
    Install(usize),
    /// This many watch events are delivered to the cache.
    DeliverEvents(usize),
    /// The rollout is planned.
    Plan,
    /// The add-on of a cluster is reconciled.
    Reconcile(usize),
    /// The agent of a cluster reports success (`true`) or failure.
    AgentReport(usize, bool),
    /// The controller process is restarted.
    Restart,
}

/// A watch event that has not been delivered yet.
enum WatchEvent {
    Addon(Box<ManagedClusterAddOn>),
    Work(Box<ManifestWork>),
    Management(Box<ClusterManagementAddOn>),
}

struct SimulatedHub {
    clusters: Vec<String>,
    revision: u64,
    now: Timestamp,
    management: ClusterManagementAddOn,
    addons: BTreeMap<String, ManagedClusterAddOn>,
    works: BTreeMap<String, ManifestWork>,
    pending_events: std::collections::VecDeque<WatchEvent>,
    cache: HubCache,
    slots: usize,
    /// The maximum number of clusters that changed at the same time.
    max_changing: usize,
    /// All versions that were requested.
    requested_versions: BTreeSet<String>,
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// The placement selects these clusters.
fn select(cache: &mut HubCache, clusters: &[String]) {
    let decisions: Vec<Value> = clusters.iter().map(|name| json!({"clusterName": name})).collect();
    cache.apply_decision(object(json!({
        "metadata": {"name": "all-decision-1", "namespace": "default", "labels": {
            "cluster.open-cluster-management.io/placement": "all",
            "cluster.open-cluster-management.io/decision-group-index": "0",
            "cluster.open-cluster-management.io/decision-group-name": "",
        }},
        "status": {"decisions": decisions},
    })));
    cache.apply_placement(object(json!({
        "metadata": {"name": "all", "namespace": "default"},
        "status": {
            "numberOfSelectedClusters": decisions.len(),
            "decisionGroups": [{"decisionGroupIndex": 0, "decisionGroupName": "", "decisions": ["all-decision-1"], "clusterCount": decisions.len()}],
            "conditions": [{"type": "PlacementSatisfied", "status": "True", "reason": "AllDecisionsScheduled", "message": "", "lastTransitionTime": "2024-05-01T10:00:00Z"}],
        },
    })));
}

impl SimulatedHub {
    fn new(clusters: usize, slots: usize) -> Self {
        let management = object(json!({
            "metadata": {"name": ADDON, "resourceVersion": "1"},
            "spec": {"installStrategy": {"type": "Placements", "placements": [{
                "namespace": "default", "name": "all", "addonTemplate": {"installVersion": "v1"},
                "rolloutStrategy": {"type": "Progressive", "progressive": {"maxConcurrency": slots, "maxFailures": "100%"}},
            }]}},
        }));
        let mut hub = Self {
            clusters: (0..clusters).map(|number| format!("c{number}")).collect(),
            revision: 1,
            now: "2024-05-01T10:00:00Z".parse().unwrap(),
            management,
            addons: BTreeMap::new(),
            works: BTreeMap::new(),
            pending_events: std::collections::VecDeque::new(),
            cache: HubCache::default(),
            slots,
            max_changing: 0,
            requested_versions: BTreeSet::from(["v1".to_owned()]),
        };
        hub.start();
        hub
    }

    /// A cache that has listed everything.
    fn start(&mut self) {
        let mut cache = HubCache::default();
        cache.add_user(User::Lifecycle);
        for version in &VERSIONS[..2] {
            cache.apply_template(object(json!({
                "metadata": {"name": format!("hello-{version}")},
                "spec": {"addonName": ADDON, "version": version, "agentSpec": {"workload": {"manifests": [
                    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hello"}, "data": {"version": version}},
                ]}}},
            })));
        }
        select(&mut cache, &self.clusters);
        for name in &self.clusters {
            cache.apply_cluster(&object(json!({"metadata": {"name": name}, "spec": {}})));
        }
        cache.apply_management(self.management.clone());
        self.addons.values().for_each(|addon| cache.apply_addon(addon.clone()));
        for (name, work) in &self.works {
            cache.apply_work(name, &work.name_any(), Work::of(work));
        }
        self.pending_events.clear();
        self.cache = cache;
    }

    fn next_revision(&mut self) -> Option<String> {
        self.revision += 1;
        self.now += SignedDuration::from_secs(1);
        Some(self.revision.to_string())
    }

    fn run_step(&mut self, step: &Step) {
        match step {
            Step::RequestVersion(version) => {
                let version = VERSIONS[*version];
                self.management.spec.install_strategy.placements[0]
                    .addon_template
                    .as_mut()
                    .unwrap()
                    .install_version = version.to_owned();
                self.management.metadata.resource_version = self.next_revision();
                self.requested_versions.insert(version.to_owned());
                self.pending_events.push_back(WatchEvent::Management(Box::new(self.management.clone())));
            }
            Step::Install(cluster_index) => self.install(*cluster_index),
            Step::DeliverEvents(count) => (0..*count).for_each(|_| self.deliver_event()),
            Step::Plan => _ = self.cache.plan(ADDON, self.now),
            Step::Reconcile(cluster_index) => self.reconcile(*cluster_index),
            Step::AgentReport(cluster_index, succeeds) => self.report_status(*cluster_index, *succeeds),
            Step::Restart => self.start(),
        }
    }

    fn name(&self, cluster_index: usize) -> String {
        self.clusters[cluster_index % self.clusters.len()].clone()
    }

    /// Applies the version that the placement requests, as the install controller does.
    fn install(&mut self, cluster_index: usize) {
        let name = self.name(cluster_index);
        let version = self.management.spec.install_strategy.placements[0]
            .addon_template
            .clone()
            .unwrap()
            .install_version;
        let revision = self.next_revision();
        let addon = self.addons.entry(name.clone()).or_insert_with(|| {
            object(json!({
                "metadata": {"name": ADDON, "namespace": name, "uid": name, "generation": 0,
                    "annotations": {INSTALLED_BY: "default/all"},
                    "finalizers": [bellwether_api::addon::vocabulary::FINALIZER],
                    "managedFields": [{"manager": crate::fields::INSTALL_FIELD_MANAGER, "operation": "Apply", "apiVersion": "v1",
                        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:installVersion": {}}}}]},
                "spec": {},
            }))
        });
        if addon.spec.install_version == version {
            return;
        }
        addon.spec.install_version = version;
        addon.metadata.generation = addon.metadata.generation.map(|generation| generation + 1);
        addon.metadata.resource_version = revision;
        self.pending_events.push_back(WatchEvent::Addon(Box::new(addon.clone())));
    }

    fn deliver_event(&mut self) {
        match self.pending_events.pop_front() {
            Some(WatchEvent::Addon(addon)) => self.cache.apply_addon(*addon),
            Some(WatchEvent::Work(work)) => {
                self.cache.apply_work(&work.namespace().unwrap(), &work.name_any(), Work::of(&work));
            }
            Some(WatchEvent::Management(management)) => self.cache.apply_management(*management),
            None => {}
        }
    }

    /// Writes the decided changes if the object still has the same resourceVersion, as the controller does.
    fn reconcile(&mut self, cluster_index: usize) {
        let name = self.name(cluster_index);
        let key = AddonKey::new(&name, ADDON);
        for _ in 0..3 {
            let Some(changes) = self.cache.decide_changes(&key, self.now) else { return };
            if changes.is_empty() {
                return;
            }
            if let Some(status) = changes.status {
                let revision = self.next_revision();
                if changes.starts_change {
                    self.cache.set_starting(&key, self.now);
                }
                // The request has been answered here, whether or not it succeeded.
                self.cache.clear_starting(&key);
                let Some(addon) = self.addons.get_mut(&name) else { return };
                if addon.metadata.resource_version != changes.object.metadata.resource_version {
                    return;
                }
                addon.status = Some(status);
                addon.metadata.resource_version = revision;
                self.cache.apply_addon(addon.clone());
                self.pending_events.push_back(WatchEvent::Addon(Box::new(addon.clone())));
                self.max_changing = self.max_changing.max(self.changing());
                if changes.starts_change {
                    continue;
                }
            }
            for write in changes.works {
                let work = match write {
                    WorkWrite::Create(work) => work,
                    WorkWrite::Replace(work) => {
                        let held =
                            self.works.get(&name).and_then(|held| held.metadata.resource_version.clone());
                        if held != work.metadata.resource_version {
                            return;
                        }
                        work
                    }
                    WorkWrite::Delete { .. } => continue,
                };
                let before = self.works.get(&name);
                let mut work = *work;
                let same = before.is_some_and(|before| before.spec == work.spec);
                let generation = before.and_then(|before| before.metadata.generation).unwrap_or_default();
                work.metadata.generation = Some(generation + i64::from(!same));
                work.metadata.uid = Some(format!("w-{name}"));
                work.status = before.and_then(|before| before.status.clone());
                work.metadata.resource_version = self.next_revision();
                self.cache.apply_work(&name, &work.name_any(), Work::of(&work));
                self.pending_events.push_back(WatchEvent::Work(Box::new(work.clone())));
                self.works.insert(name.clone(), work);
            }
        }
    }

    fn changing(&self) -> usize {
        let changes = |addon: &&ManagedClusterAddOn| {
            let conditions = addon.status.iter().flat_map(|status| &status.conditions);
            conditions.clone().any(|condition| condition.type_ == "Progressing" && condition.status == "True")
        };
        self.addons.values().filter(changes).count()
    }

    fn report_status(&mut self, cluster_index: usize, succeeds: bool) {
        let name = self.name(cluster_index);
        let revision = self.next_revision();
        let Some(work) = self.works.get_mut(&name) else { return };
        let generation = work.metadata.generation;
        let condition = |type_: &str, status: &str| {
            json!({"type": type_, "status": status, "reason": "Simulated", "message": "simulated report",
                "observedGeneration": generation, "lastTransitionTime": "2024-05-01T10:00:00Z"})
        };
        let applied = if succeeds { "True" } else { "False" };
        work.status = Some(object(
            json!({"conditions": [condition("Applied", applied), condition("Available", "True")]}),
        ));
        work.metadata.resource_version = revision;
        self.pending_events.push_back(WatchEvent::Work(Box::new(work.clone())));
    }

    /// Runs all controllers and agents often enough that every change completes.
    fn run_until_settled(&mut self) {
        let count = self.clusters.len();
        for _ in 0..count * 6 + 6 {
            (0..count).for_each(|cluster_index| self.install(cluster_index));
            while !self.pending_events.is_empty() {
                self.deliver_event();
            }
            self.cache.plan(ADDON, self.now);
            (0..count).for_each(|cluster_index| self.reconcile(cluster_index));
            (0..count).for_each(|cluster_index| self.report_status(cluster_index, true));
        }
    }
}

#[test]
fn addon_returned_to_its_placement_does_not_start_default_version() {
    let mut hub = SimulatedHub::new(1, 1);
    hub.run_until_settled();
    let revision = hub.next_revision();
    let addon = hub.addons.get_mut("c0").unwrap();
    let before = addon.status.clone().unwrap();
    addon.spec.install_version.clear();
    addon.metadata.managed_fields = None;
    addon.metadata.resource_version = revision;
    hub.cache.apply_addon(addon.clone());
    hub.cache.plan(ADDON, hub.now);
    hub.reconcile(0);
    let after = hub.addons["c0"].status.clone().unwrap();
    assert_eq!((after.install_version.as_str(), &after.last_version), ("v1", &before.last_version), "not v2");
    hub.run_until_settled();
    assert_eq!(hub.addons["c0"].status.as_ref().unwrap().current_version, "v1");
}

fn step() -> impl proptest::strategy::Strategy<Value = Step> {
    prop_oneof![
        1 => (0..3_usize).prop_map(Step::RequestVersion),
        6 => (0..8_usize).prop_map(Step::Install),
        6 => (1..6_usize).prop_map(Step::DeliverEvents),
        4 => Just(Step::Plan),
        8 => (0..8_usize).prop_map(Step::Reconcile),
        6 => ((0..8_usize), proptest::bool::weighted(0.8)).prop_map(|(cluster_index, succeeds)| Step::AgentReport(cluster_index, succeeds)),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    #[test]
    fn any_sequence_of_steps_respects_concurrency_and_converges(
        clusters in 1..7_usize,
        slots in 1..4_usize,
        steps in proptest::collection::vec(step(), 0..120),
    ) {
        let mut hub = SimulatedHub::new(clusters, slots);
        for step in &steps {
            hub.run_step(step);
            for (name, work) in &hub.works {
                let found = Work::of(work).observed;
                prop_assert!(is_work_of(&found, ADDON) && hub.requested_versions.contains(&found.version), "{name} runs {}", found.version);
            }
        }
        hub.run_until_settled();
        prop_assert!(hub.max_changing <= hub.slots, "{} changed at the same time, where {} may", hub.max_changing, hub.slots);
        let requested_versions = hub.management.spec.install_strategy.placements[0].addon_template.clone().unwrap().install_version;
        for (name, addon) in &hub.addons {
            let status = addon.status.clone().unwrap_or_default();
            let progressing = status.conditions.iter().find(|condition| condition.type_ == "Progressing");
            let reason = progressing.map(|condition| condition.reason.as_str()).unwrap_or_default();
            let wanted = if requested_versions == "v3" { "Failed" } else { "Succeed" };
            prop_assert_eq!(reason, wanted, "{} asks for {}: {:?}", name, requested_versions, status);
            prop_assert_eq!(&status.install_version, &requested_versions);
        }
        // In the settled state no controller has anything to write.
        let revision = hub.revision;
        for cluster_index in 0..clusters {
            let key = AddonKey::new(&hub.name(cluster_index), ADDON);
            let changes = hub.cache.decide_changes(&key, hub.now);
            prop_assert!(changes.is_some_and(|changes| changes.is_empty()), "after {revision}");
        }
    }
}

#[test]
fn cluster_without_new_request_is_not_done_and_starts_first_by_name() {
    let mut hub = SimulatedHub::new(2, 1);
    hub.run_until_settled();
    hub.run_step(&Step::RequestVersion(1));
    hub.run_step(&Step::Install(1));
    hub.run_step(&Step::DeliverEvents(8));
    hub.run_step(&Step::Plan);
    hub.run_step(&Step::Reconcile(1));
    let begun = |hub: &SimulatedHub, name: &str| hub.addons[name].status.clone().unwrap().install_version;
    assert_eq!(begun(&hub, "c1"), "v1", "c0 still has the old version and must start first");
    hub.run_until_settled();
    assert_eq!((begun(&hub, "c0"), begun(&hub, "c1")), ("v2".to_owned(), "v2".to_owned()));
}

fn started_versions(hub: &SimulatedHub) -> Vec<String> {
    hub.addons.values().map(|addon| addon.status.clone().unwrap_or_default().install_version).collect()
}

#[test]
fn edit_of_strategy_and_version_starts_no_cluster_before_it_is_planned() {
    let mut hub = SimulatedHub::new(3, 3);
    hub.run_until_settled();
    let mut edited = json!(hub.management);
    let placement = &mut edited["spec"]["installStrategy"]["placements"][0];
    placement["addonTemplate"]["installVersion"] = json!("v2");
    placement["rolloutStrategy"]["progressive"]["maxConcurrency"] = json!(1);
    hub.management = object(edited);
    hub.management.metadata.resource_version = hub.next_revision();
    // The install controller receives the edit before the cache does.
    (0..3).for_each(|cluster_index| hub.run_step(&Step::Install(cluster_index)));
    hub.run_step(&Step::DeliverEvents(100));
    hub.run_step(&Step::Plan);
    (0..3).for_each(|cluster_index| hub.run_step(&Step::Reconcile(cluster_index)));
    assert_eq!(
        started_versions(&hub),
        ["v1", "v1", "v1"],
        "with the previous strategy all clusters would start"
    );
    hub.cache.apply_management(hub.management.clone());
    (0..3).for_each(|cluster_index| hub.run_step(&Step::Reconcile(cluster_index)));
    assert_eq!(started_versions(&hub), ["v1", "v1", "v1"], "the edit is in the cache but not planned yet");
    hub.run_step(&Step::Plan);
    (0..3).for_each(|cluster_index| hub.run_step(&Step::Reconcile(cluster_index)));
    assert_eq!(started_versions(&hub), ["v2", "v1", "v1"]);
    hub.max_changing = 0;
    hub.run_until_settled();
    assert_eq!((started_versions(&hub), hub.max_changing), (vec!["v2".to_owned(); 3], 1));
}

/// Two clusters that run v1 and are to change to v2 one at a time; all events are delivered and the rollout is planned.
fn two_clusters_before_upgrade() -> SimulatedHub {
    let mut hub = SimulatedHub::new(2, 1);
    hub.run_until_settled();
    hub.run_step(&Step::RequestVersion(1));
    (0..2).for_each(|cluster_index| hub.run_step(&Step::Install(cluster_index)));
    hub.run_step(&Step::DeliverEvents(100));
    hub.run_step(&Step::Plan);
    hub
}

fn is_dirty(hub: &mut SimulatedHub, task: &AddonTask) -> bool {
    hub.cache.take_dirty(User::Lifecycle).keys().any(|dirty| dirty == task)
}

#[test]
fn write_without_response_counts_as_changing_until_cleared() {
    let mut hub = two_clusters_before_upgrade();
    let key = AddonKey::new("c0", ADDON);
    hub.cache.set_starting(&key, hub.now);
    hub.run_step(&Step::Plan);
    (0..2).for_each(|cluster_index| hub.run_step(&Step::Reconcile(cluster_index)));
    assert_eq!(started_versions(&hub), ["v1", "v1"]);
    hub.cache.take_dirty(User::Lifecycle);
    hub.cache.clear_starting(&key);
    assert!(is_dirty(&mut hub, &AddonTask::Plan(ADDON.into())), "the rollout is planned again");
    hub.run_step(&Step::Plan);
    assert!(is_dirty(&mut hub, &AddonTask::Addon(key)), "and the add-on is reconciled then");
    hub.run_step(&Step::Reconcile(0));
    assert_eq!(started_versions(&hub), ["v2", "v1"]);
    hub.run_until_settled();
    assert_eq!(started_versions(&hub), ["v2", "v2"]);
}

#[test]
fn rejection_applies_only_to_rejected_version() {
    let mut hub = SimulatedHub::new(1, 1);
    hub.run_until_settled();
    let key = AddonKey::new("c0", ADDON);
    hub.cache.set_rejected(&key, Some("work x was rejected".to_owned()));
    assert!(
        hub.cache.decide_changes(&key, hub.now).unwrap().is_empty(),
        "the deployed ManifestWork was accepted"
    );
    hub.run_step(&Step::RequestVersion(1));
    hub.run_step(&Step::Install(0));
    hub.run_step(&Step::DeliverEvents(100));
    hub.run_step(&Step::Plan);
    hub.run_step(&Step::Reconcile(0));
    let status = hub.addons["c0"].status.clone().unwrap();
    let progressing = status.conditions.iter().find(|condition| condition.type_ == "Progressing").unwrap();
    assert_eq!((progressing.reason.as_str(), status.install_version.as_str()), ("Upgrading", "v2"));
}

#[test]
fn deselected_changing_cluster_keeps_its_slot_until_addon_is_deleted() {
    let mut hub = two_clusters_before_upgrade();
    hub.run_step(&Step::Reconcile(0));
    assert_eq!(started_versions(&hub), ["v2", "v1"]);
    select(&mut hub.cache, &["c1".to_owned()]);
    hub.run_step(&Step::Plan);
    hub.run_step(&Step::Reconcile(1));
    assert_eq!(
        started_versions(&hub),
        ["v2", "v1"],
        "the reason for the deselection is not in the cache yet"
    );
    // The cluster was not unreachable: its ManagedClusterAddOn is deleted.
    hub.cache.delete_addon(&AddonKey::new("c0", ADDON));
    hub.run_step(&Step::Plan);
    hub.run_step(&Step::Reconcile(1));
    assert_eq!(started_versions(&hub), ["v2", "v2"]);
}
