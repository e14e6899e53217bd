use serde_json::json;

use jiff::SignedDuration;

use super::*;
use crate::placement::DecidedCluster;
use crate::version::Version;

fn now() -> Timestamp {
    "2024-05-01T10:00:00Z".parse().unwrap()
}

/// `global` asks for v1, `canary` for v2 with a configuration.
fn strategy(type_: &str) -> InstallStrategy {
    serde_json::from_value(json!({
        "type": type_,
        "placements": [
            {"namespace": "default", "name": "global", "addonTemplate": {"installVersion": "v1"}},
            {"namespace": "default", "name": "canary", "addonTemplate": {"installVersion": "v2", "configs": [
                {"group": "g", "resource": "r", "name": "here"},
                {"group": "g", "resource": "r", "namespace": "there", "name": "elsewhere"},
            ]}},
        ],
    }))
    .unwrap()
}

fn settled(clusters: &[&str]) -> Selection {
    let decided = |name: &&str| DecidedCluster {
        group_index: 0,
        cluster: (*name).to_owned(),
        group_name: String::new(),
    };
    Selection::Settled(clusters.iter().map(decided).collect())
}

fn unsettled() -> Selection {
    Selection::Unsettled { last: Vec::new(), why: "it is being written".to_owned() }
}

/// The ManagedClusterAddOns that were created for it are filled in by [`Scene::plan`].
fn missing() -> Selection {
    Selection::Missing { created_for: Vec::new() }
}

const REACHABLE: ClusterState = state(Reachability::Reachable);
const DELETING: ClusterState = ClusterState { is_deleting: true, ..REACHABLE };

const fn state(reachability: Reachability) -> ClusterState {
    ClusterState { reachability, is_deleting: false }
}

fn ours() -> Present {
    Present {
        created_for: Some("default/global".to_owned()),
        is_deleting: false,
        uninstalls_when_unreachable: false,
    }
}

struct Scene {
    strategy: Option<InstallStrategy>,
    selections: Vec<Selection>,
    clusters: HashMap<String, ClusterState>,
    present: BTreeMap<String, Present>,
    unselected: HashMap<String, Timestamp>,
}

impl Scene {
    /// Clusters c1 to c3; whichever of them are named have the add-on.
    fn of(selections: [Selection; 2], present: &[&str]) -> Self {
        Self {
            strategy: Some(strategy("Placements")),
            selections: selections.to_vec(),
            clusters: ["c1", "c2", "c3"].map(|name| (name.to_owned(), REACHABLE)).into(),
            present: present.iter().map(|name| ((*name).to_owned(), ours())).collect(),
            unselected: HashMap::new(),
        }
    }

    fn plan(&self, now: Timestamp) -> InstallPlan {
        let mut selections = self.selections.clone();
        for (name, selection) in ["default/global", "default/canary"].into_iter().zip(&mut selections) {
            if let Selection::Missing { created_for } = selection {
                let its_own = self.present.iter().filter(|(_, one)| one.created_for.as_deref() == Some(name));
                *created_for = its_own.map(|(cluster, _)| cluster.clone()).collect();
            }
        }
        decide(&Observed {
            strategy: self.strategy.as_ref(),
            selections: &selections,
            clusters: &|cluster| self.clusters.get(cluster).copied(),
            present: &self.present,
            unselected: &self.unselected,
            now,
        })
    }

    /// What is done when everything has been as it is for a while, in short: `c1=v1 c2=gone`.
    fn actions(&self) -> String {
        let unselected = self.plan(now()).unselected;
        let later = Scene {
            unselected,
            strategy: self.strategy.clone(),
            selections: self.selections.clone(),
            clusters: self.clusters.clone(),
            present: self.present.clone(),
        };
        let plan = later.plan(now() + SignedDuration::from_secs(10));
        let actions = plan.actions.iter().map(|(cluster, action)| match action {
            Action::Install(request) => {
                format!("{cluster}={}", request.version.as_ref().map(Version::as_str).unwrap_or_default())
            }
            Action::Uninstall => format!("{cluster}=gone"),
        });
        actions.collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn every_situation_has_its_actions() {
    let both = || [settled(&["c1", "c2"]), settled(&["c1"])];
    let lone = |selections: [Selection; 2]| Scene::of(selections, &["c1", "c2", "c3"]);
    let with = |mut scene: Scene, change: fn(&mut Scene)| {
        change(&mut scene);
        scene
    };
    let rows: Vec<(&str, Scene, &str)> = vec![
        ("the last placement wins", Scene::of(both(), &[]), "c1=v2 c2=v1"),
        (
            "a cluster that left the canary falls back",
            Scene::of([settled(&["c1"]), settled(&[])], &["c1"]),
            "c1=v1",
        ),
        ("a cluster that left all placements loses it", lone(both()), "c1=v2 c2=v1 c3=gone"),
        ("an empty decision is a decision", lone([settled(&[]), settled(&[])]), "c1=gone c2=gone c3=gone"),
        ("nothing is uninstalled while one is being written", lone([settled(&["c1"]), unsettled()]), ""),
        ("an unsettled one does not affect a later one", lone([unsettled(), settled(&["c1"])]), "c1=v2"),
        ("a missing placement adds and removes nothing", lone([settled(&["c1"]), missing()]), "c1=v1"),
        ("no placement at all", lone([missing(), missing()]), ""),
        (
            "what a user created is left alone",
            with(lone(both()), |scene| {
                scene.present.values_mut().for_each(|present| present.created_for = None);
            }),
            "",
        ),
        (
            "what is being deleted is left alone",
            with(lone(both()), |scene| {
                scene.present.values_mut().for_each(|present| present.is_deleting = true);
            }),
            "",
        ),
        (
            "an unreachable cluster keeps it",
            with(lone(both()), |scene| {
                scene.clusters.insert("c3".into(), state(Reachability::Unhealthy));
            }),
            "c1=v2 c2=v1",
        ),
        (
            "unless an annotation asks for it",
            with(lone(both()), |scene| {
                scene.clusters.insert("c3".into(), state(Reachability::Unhealthy));
                scene.present.values_mut().for_each(|present| present.uninstalls_when_unreachable = true);
            }),
            "c1=v2 c2=v1 c3=gone",
        ),
        (
            "a cluster that is being deleted loses it at once and gets no other",
            with(Scene::of(both(), &["c1"]), |scene| {
                scene.clusters.insert("c1".into(), DELETING);
                scene.clusters.insert("c2".into(), DELETING);
            }),
            "c1=gone",
        ),
        ("an unknown cluster gets none", with(Scene::of(both(), &[]), |scene| scene.clusters.clear()), ""),
        (
            "a manual strategy does nothing",
            with(lone(both()), |scene| scene.strategy = Some(strategy("Manual"))),
            "",
        ),
        (
            "a deleted ClusterManagementAddOn uninstalls what was created for it",
            with(lone(both()), |scene| {
                scene.strategy = None;
                scene.present.insert("c2".into(), Present { created_for: None, ..ours() });
            }),
            "c1=gone c3=gone",
        ),
    ];
    for (what, scene, wanted) in rows {
        assert_eq!(scene.actions(), wanted, "{what}");
    }
}

#[test]
fn config_without_namespace_is_in_that_of_its_placement() {
    let plan = Scene::of([settled(&[]), settled(&["c1"])], &[]).plan(now());
    let Some(Action::Install(request)) = plan.actions.get("c1") else { panic!("{plan:?}") };
    let names: Vec<_> = request.configs.iter().map(|one| format!("{}/{}", one.namespace, one.name)).collect();
    assert_eq!(names, ["default/here", "there/elsewhere"]);
    assert_eq!(request.placement, "default/canary");
}

#[test]
fn grace_counts_from_when_a_cluster_was_first_unselected_and_ends_when_it_is_selected_again() {
    let mut scene = Scene::of([settled(&[]), settled(&[])], &["c1"]);
    let first = scene.plan(now());
    assert_eq!((first.actions.len(), first.next), (0, Some(now() + SignedDuration::from_secs(10))));
    scene.unselected = first.unselected;
    let almost = now() + SignedDuration::from_secs(9);
    assert_eq!(scene.plan(almost).actions.len(), 0);
    scene.selections = vec![settled(&["c1"]), settled(&[])];
    let back = scene.plan(almost);
    assert!(back.unselected.is_empty());
    scene.unselected = back.unselected;
    scene.selections = vec![settled(&[]), settled(&[])];
    assert_eq!(
        scene.plan(now() + SignedDuration::from_secs(11)).actions.len(),
        0,
        "it counts again from the start"
    );
    // While it is not known which clusters are selected, nothing counts.
    scene.unselected = HashMap::from([("c1".to_owned(), now())]);
    scene.selections = vec![settled(&[]), unsettled()];
    assert_eq!(scene.plan(almost), InstallPlan::default());
}

#[test]
fn returned_cluster_keeps_its_addons_until_placements_had_time_to_select_it() {
    let back = |seconds: i64| state(Reachability::Returned(now() - SignedDuration::from_secs(seconds)));
    // After how many seconds its add-on is uninstalled.
    let rows = [
        ("it was never away", REACHABLE, 10),
        ("it came back just now", back(0), 300),
        ("it came back a while ago", back(200), 100),
        ("it came back long ago", back(299), 10),
        ("its clock is ahead", back(-60), 360),
        ("its clock is far ahead", back(-3600), 10),
    ];
    for (sentence, cluster, wanted) in rows {
        let mut scene = Scene::of([settled(&["c1", "c2"]), settled(&[])], &["c1", "c2", "c3"]);
        scene.clusters.insert("c3".to_owned(), cluster);
        let first = scene.plan(now());
        let end = now() + SignedDuration::from_secs(wanted);
        assert_eq!((first.actions.get("c3"), first.next), (None, Some(end)), "{sentence}");
        scene.unselected = first.unselected;
        assert_eq!(scene.plan(end - SignedDuration::from_secs(1)).actions.get("c3"), None, "{sentence}");
        assert_eq!(scene.plan(end).actions.get("c3"), Some(&Action::Uninstall), "{sentence}");
    }
}
