//! The hub cache and its judgements against a simulated hub: events are late, outdated writes conflict, agents answer at any
//! time, and users change their minds.

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
use crate::works::is_ours;

const ADDON: &str = "hello";
const VERSIONS: [&str; 3] = ["v1", "v2", "v3"];

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    /// A person asks for a version; the last of them there is not.
    Ask(usize),
    /// The installer reaches a cluster.
    Install(usize),
    /// So many events reach the world.
    Hear(usize),
    /// The world works out whose turn it is.
    Plan,
    /// A visit to a cluster.
    Visit(usize),
    /// The agent of a cluster answers, well or not.
    Answer(usize, bool),
    /// The process dies and another starts.
    Restart,
}

/// An event that the world has not heard of yet.
enum News {
    Addon(Box<ManagedClusterAddOn>),
    Work(Box<ManifestWork>),
    Management(Box<ClusterManagementAddOn>),
}

struct Hub {
    clusters: Vec<String>,
    revision: u64,
    now: Timestamp,
    management: ClusterManagementAddOn,
    addons: BTreeMap<String, ManagedClusterAddOn>,
    works: BTreeMap<String, ManifestWork>,
    news: std::collections::VecDeque<News>,
    cache: HubCache,
    slots: usize,
    /// How many changed at the same time, at most.
    most: usize,
    /// Versions that somebody asked for.
    asked: BTreeSet<String>,
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

impl Hub {
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
            news: std::collections::VecDeque::new(),
            cache: HubCache::default(),
            slots,
            most: 0,
            asked: BTreeSet::from(["v1".to_owned()]),
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
        self.news.clear();
        self.cache = cache;
    }

    fn next_revision(&mut self) -> Option<String> {
        self.revision += 1;
        self.now += SignedDuration::from_secs(1);
        Some(self.revision.to_string())
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Ask(version) => {
                let version = VERSIONS[*version];
                self.management.spec.install_strategy.placements[0]
                    .addon_template
                    .as_mut()
                    .unwrap()
                    .install_version = version.to_owned();
                self.management.metadata.resource_version = self.next_revision();
                self.asked.insert(version.to_owned());
                self.news.push_back(News::Management(Box::new(self.management.clone())));
            }
            Step::Install(place) => self.install(*place),
            Step::Hear(count) => (0..*count).for_each(|_| self.hear()),
            Step::Plan => _ = self.cache.plan(ADDON, self.now),
            Step::Visit(place) => self.visit(*place),
            Step::Answer(place, well) => self.answer(*place, *well),
            Step::Restart => self.start(),
        }
    }

    fn name(&self, place: usize) -> String {
        self.clusters[place % self.clusters.len()].clone()
    }

    /// As the install controller does it: the version that the placement asks for, applied.
    fn install(&mut self, place: usize) {
        let name = self.name(place);
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
        self.news.push_back(News::Addon(Box::new(addon.clone())));
    }

    fn hear(&mut self) {
        match self.news.pop_front() {
            Some(News::Addon(addon)) => self.cache.apply_addon(*addon),
            Some(News::Work(work)) => {
                self.cache.apply_work(&work.namespace().unwrap(), &work.name_any(), Work::of(&work));
            }
            Some(News::Management(management)) => self.cache.apply_management(*management),
            None => {}
        }
    }

    /// As a visit does it: what was judged is written if it is still what was judged.
    fn visit(&mut self, place: usize) {
        let name = self.name(place);
        let key = AddonKey::new(&name, ADDON);
        for _ in 0..3 {
            let Some(judgement) = self.cache.judge(&key, self.now) else { return };
            if judgement.is_settled() {
                return;
            }
            if let Some(status) = judgement.status {
                let revision = self.next_revision();
                if judgement.begins {
                    self.cache.set_starting(&key, self.now);
                }
                // Whatever comes of it, it is answered here.
                self.cache.clear_starting(&key);
                let Some(addon) = self.addons.get_mut(&name) else { return };
                if addon.metadata.resource_version != judgement.object.metadata.resource_version {
                    return;
                }
                addon.status = Some(status);
                addon.metadata.resource_version = revision;
                self.cache.apply_addon(addon.clone());
                self.news.push_back(News::Addon(Box::new(addon.clone())));
                self.most = self.most.max(self.changing());
                if judgement.begins {
                    continue;
                }
            }
            for write in judgement.works {
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
                self.news.push_back(News::Work(Box::new(work.clone())));
                self.works.insert(name.clone(), work);
            }
        }
    }

    fn changing(&self) -> usize {
        let changes = |addon: &&ManagedClusterAddOn| {
            let conditions = addon.status.iter().flat_map(|status| &status.conditions);
            conditions.clone().any(|said| said.type_ == "Progressing" && said.status == "True")
        };
        self.addons.values().filter(changes).count()
    }

    fn answer(&mut self, place: usize, well: bool) {
        let name = self.name(place);
        let revision = self.next_revision();
        let Some(work) = self.works.get_mut(&name) else { return };
        let generation = work.metadata.generation;
        let condition = |type_: &str, status: &str| {
            json!({"type": type_, "status": status, "reason": "AsTold", "message": "as told",
                "observedGeneration": generation, "lastTransitionTime": "2024-05-01T10:00:00Z"})
        };
        let applied = if well { "True" } else { "False" };
        work.status = Some(object(
            json!({"conditions": [condition("Applied", applied), condition("Available", "True")]}),
        ));
        work.metadata.resource_version = revision;
        self.news.push_back(News::Work(Box::new(work.clone())));
    }

    /// Everybody does what is to be done until nothing is left.
    fn settle(&mut self) {
        let count = self.clusters.len();
        for _ in 0..count * 6 + 6 {
            (0..count).for_each(|place| self.install(place));
            while !self.news.is_empty() {
                self.hear();
            }
            self.cache.plan(ADDON, self.now);
            (0..count).for_each(|place| self.visit(place));
            (0..count).for_each(|place| self.answer(place, true));
        }
    }
}

#[test]
fn who_is_given_back_to_its_placement_does_not_go_by_the_default_meanwhile() {
    let mut hub = Hub::new(1, 1);
    hub.settle();
    let revision = hub.next_revision();
    let addon = hub.addons.get_mut("c0").unwrap();
    let before = addon.status.clone().unwrap();
    addon.spec.install_version.clear();
    addon.metadata.managed_fields = None;
    addon.metadata.resource_version = revision;
    hub.cache.apply_addon(addon.clone());
    hub.cache.plan(ADDON, hub.now);
    hub.visit(0);
    let after = hub.addons["c0"].status.clone().unwrap();
    assert_eq!((after.install_version.as_str(), &after.last_version), ("v1", &before.last_version), "not v2");
    hub.settle();
    assert_eq!(hub.addons["c0"].status.as_ref().unwrap().current_version, "v1");
}

fn step() -> impl proptest::strategy::Strategy<Value = Step> {
    prop_oneof![
        1 => (0..3_usize).prop_map(Step::Ask),
        6 => (0..8_usize).prop_map(Step::Install),
        6 => (1..6_usize).prop_map(Step::Hear),
        4 => Just(Step::Plan),
        8 => (0..8_usize).prop_map(Step::Visit),
        6 => ((0..8_usize), proptest::bool::weighted(0.8)).prop_map(|(place, well)| Step::Answer(place, well)),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_no_more_change_than_may_and_all_ends_well(
        clusters in 1..7_usize,
        slots in 1..4_usize,
        steps in proptest::collection::vec(step(), 0..120),
    ) {
        let mut hub = Hub::new(clusters, slots);
        for step in &steps {
            hub.take(step);
            for (name, work) in &hub.works {
                let found = Work::of(work).found;
                prop_assert!(is_ours(&found, ADDON) && hub.asked.contains(&found.version), "{name} runs {}", found.version);
            }
        }
        hub.settle();
        prop_assert!(hub.most <= hub.slots, "{} changed at the same time, where {} may", hub.most, hub.slots);
        let asked = hub.management.spec.install_strategy.placements[0].addon_template.clone().unwrap().install_version;
        for (name, addon) in &hub.addons {
            let status = addon.status.clone().unwrap_or_default();
            let progressing = status.conditions.iter().find(|said| said.type_ == "Progressing");
            let reason = progressing.map(|said| said.reason.as_str()).unwrap_or_default();
            let wanted = if asked == "v3" { "Failed" } else { "Succeed" };
            prop_assert_eq!(reason, wanted, "{} asks for {}: {:?}", name, asked, status);
            prop_assert_eq!(&status.install_version, &asked);
        }
        // And then nobody writes anything any more.
        let revision = hub.revision;
        for place in 0..clusters {
            let key = AddonKey::new(&hub.name(place), ADDON);
            let judged = hub.cache.judge(&key, hub.now);
            prop_assert!(judged.is_some_and(|judgement| judgement.is_settled()), "after {revision}");
        }
    }
}

#[test]
fn a_cluster_that_was_not_asked_yet_is_not_done_and_comes_first_by_its_name() {
    let mut hub = Hub::new(2, 1);
    hub.settle();
    hub.take(&Step::Ask(1));
    hub.take(&Step::Install(1));
    hub.take(&Step::Hear(8));
    hub.take(&Step::Plan);
    hub.take(&Step::Visit(1));
    let begun = |hub: &Hub, name: &str| hub.addons[name].status.clone().unwrap().install_version;
    assert_eq!(begun(&hub, "c1"), "v1", "the first has the old version, and comes before it");
    hub.settle();
    assert_eq!((begun(&hub, "c0"), begun(&hub, "c1")), ("v2".to_owned(), "v2".to_owned()));
}

fn begun(hub: &Hub) -> Vec<String> {
    hub.addons.values().map(|addon| addon.status.clone().unwrap_or_default().install_version).collect()
}

#[test]
fn a_strategy_and_a_version_in_one_edit_let_nobody_begin_before_they_are_heard_of() {
    let mut hub = Hub::new(3, 3);
    hub.settle();
    let mut edited = json!(hub.management);
    let placement = &mut edited["spec"]["installStrategy"]["placements"][0];
    placement["addonTemplate"]["installVersion"] = json!("v2");
    placement["rolloutStrategy"]["progressive"]["maxConcurrency"] = json!(1);
    hub.management = object(edited);
    hub.management.metadata.resource_version = hub.next_revision();
    // The installer hears of it before the world does.
    (0..3).for_each(|place| hub.take(&Step::Install(place)));
    hub.take(&Step::Hear(100));
    hub.take(&Step::Plan);
    (0..3).for_each(|place| hub.take(&Step::Visit(place)));
    assert_eq!(begun(&hub), ["v1", "v1", "v1"], "by the strategy before, all would go");
    hub.cache.apply_management(hub.management.clone());
    (0..3).for_each(|place| hub.take(&Step::Visit(place)));
    assert_eq!(begun(&hub), ["v1", "v1", "v1"], "it is heard of and not planned yet");
    hub.take(&Step::Plan);
    (0..3).for_each(|place| hub.take(&Step::Visit(place)));
    assert_eq!(begun(&hub), ["v2", "v1", "v1"]);
    hub.most = 0;
    hub.settle();
    assert_eq!((begun(&hub), hub.most), (vec!["v2".to_owned(); 3], 1));
}

/// Two clusters that have v1 and are asked for v2, one at a time, of which everybody has heard.
fn two_to_begin() -> Hub {
    let mut hub = Hub::new(2, 1);
    hub.settle();
    hub.take(&Step::Ask(1));
    (0..2).for_each(|place| hub.take(&Step::Install(place)));
    hub.take(&Step::Hear(100));
    hub.take(&Step::Plan);
    hub
}

fn is_dirty(hub: &mut Hub, task: &AddonTask) -> bool {
    hub.cache.take_dirty(User::Lifecycle).keys().any(|dirty| dirty == task)
}

#[test]
fn a_write_without_an_answer_keeps_its_place_until_it_is_given_up() {
    let mut hub = two_to_begin();
    let key = AddonKey::new("c0", ADDON);
    hub.cache.set_starting(&key, hub.now);
    hub.take(&Step::Plan);
    (0..2).for_each(|place| hub.take(&Step::Visit(place)));
    assert_eq!(begun(&hub), ["v1", "v1"]);
    hub.cache.take_dirty(User::Lifecycle);
    hub.cache.clear_starting(&key);
    assert!(is_dirty(&mut hub, &AddonTask::Plan(ADDON.into())), "it is planned again");
    hub.take(&Step::Plan);
    assert!(is_dirty(&mut hub, &AddonTask::Addon(key)), "and is reconciled then");
    hub.take(&Step::Visit(0));
    assert_eq!(begun(&hub), ["v2", "v1"]);
    hub.settle();
    assert_eq!(begun(&hub), ["v2", "v2"]);
}

#[test]
fn a_refusal_is_told_of_what_was_refused_alone() {
    let mut hub = Hub::new(1, 1);
    hub.settle();
    let key = AddonKey::new("c0", ADDON);
    hub.cache.set_rejected(&key, Some("work x was refused".to_owned()));
    assert!(hub.cache.judge(&key, hub.now).unwrap().is_settled(), "what is deployed was taken");
    hub.take(&Step::Ask(1));
    hub.take(&Step::Install(0));
    hub.take(&Step::Hear(100));
    hub.take(&Step::Plan);
    hub.take(&Step::Visit(0));
    let status = hub.addons["c0"].status.clone().unwrap();
    let progressing = status.conditions.iter().find(|said| said.type_ == "Progressing").unwrap();
    assert_eq!((progressing.reason.as_str(), status.install_version.as_str()), ("Upgrading", "v2"));
}

#[test]
fn who_is_dropped_before_it_is_known_to_be_lost_keeps_its_place() {
    let mut hub = two_to_begin();
    hub.take(&Step::Visit(0));
    assert_eq!(begun(&hub), ["v2", "v1"]);
    select(&mut hub.cache, &["c1".to_owned()]);
    hub.take(&Step::Plan);
    hub.take(&Step::Visit(1));
    assert_eq!(begun(&hub), ["v2", "v1"], "why it was dropped is not heard of yet");
    // It was dropped for another reason, and its add-on is taken away.
    hub.cache.delete_addon(&AddonKey::new("c0", ADDON));
    hub.take(&Step::Plan);
    hub.take(&Step::Visit(1));
    assert_eq!(begun(&hub), ["v2", "v2"]);
}
