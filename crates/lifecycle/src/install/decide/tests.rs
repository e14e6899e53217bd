use serde_json::json;

use super::*;

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

fn complete(clusters: &[&str]) -> Choice {
    Choice::Complete(clusters.iter().map(|name| (*name).to_owned()).collect())
}

fn ours() -> Present {
    Present { made_for: Some("default/global".to_owned()), deleting: false, goes_when_unreachable: false }
}

struct Scene {
    strategy: Option<InstallStrategy>,
    choices: Vec<Choice>,
    clusters: HashMap<String, Cluster>,
    present: BTreeMap<String, Present>,
    absent: HashMap<String, Timestamp>,
}

impl Scene {
    /// Clusters c1 to c3; whichever of them are named have the add-on.
    fn of(choices: [Choice; 2], present: &[&str]) -> Self {
        Self {
            strategy: Some(strategy("Placements")),
            choices: choices.to_vec(),
            clusters: ["c1", "c2", "c3"].map(|name| (name.to_owned(), Cluster::Here)).into(),
            present: present.iter().map(|name| ((*name).to_owned(), ours())).collect(),
            absent: HashMap::new(),
        }
    }

    fn plan(&self, now: Timestamp) -> Plan {
        decide(&Observed {
            strategy: self.strategy.as_ref(),
            choices: &self.choices,
            clusters: &self.clusters,
            present: &self.present,
            absent: &self.absent,
            now,
        })
    }

    /// In short, when all has been as it is for a while: `c1=v1 c2=gone`.
    fn acts(&self) -> String {
        let absent = self.plan(now()).absent;
        let later = Scene {
            absent,
            strategy: self.strategy.clone(),
            choices: self.choices.clone(),
            clusters: self.clusters.clone(),
            present: self.present.clone(),
        };
        let plan = later.plan(now() + SignedDuration::from_secs(10));
        let acts = plan.acts.iter().map(|(cluster, act)| match act {
            Act::Keep(wish) => format!("{cluster}={}", wish.version),
            Act::Remove => format!("{cluster}=gone"),
        });
        acts.collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn who_gets_what() {
    let both = || [complete(&["c1", "c2"]), complete(&["c1"])];
    let lone = |choices: [Choice; 2]| Scene::of(choices, &["c1", "c2", "c3"]);
    let with = |mut scene: Scene, change: fn(&mut Scene)| {
        change(&mut scene);
        scene
    };
    let rows: Vec<(&str, Scene, &str)> = vec![
        ("the last placement wins", Scene::of(both(), &[]), "c1=v2 c2=v1"),
        ("who left the canary falls back", Scene::of([complete(&["c1"]), complete(&[])], &["c1"]), "c1=v1"),
        ("who left all goes", lone(both()), "c1=v2 c2=v1 c3=gone"),
        ("a decision that is empty is one", lone([complete(&[]), complete(&[])]), "c1=gone c2=gone c3=gone"),
        ("nothing goes while one is being written", lone([complete(&["c1"]), Choice::Unsettled]), ""),
        (
            "what an unsettled one comes before is certain",
            lone([Choice::Unsettled, complete(&["c1"])]),
            "c1=v2",
        ),
        (
            "a placement that is not there adds and takes nothing",
            lone([complete(&["c1"]), Choice::Missing]),
            "c1=v1",
        ),
        ("no placement at all", lone([Choice::Missing, Choice::Missing]), ""),
        (
            "what a person made is left alone",
            with(lone(both()), |scene| {
                scene.present.values_mut().for_each(|present| present.made_for = None);
            }),
            "",
        ),
        (
            "what goes is left to go",
            with(lone(both()), |scene| {
                scene.present.values_mut().for_each(|present| present.deleting = true);
            }),
            "",
        ),
        (
            "a cluster that is out of reach keeps what it has",
            with(lone(both()), |scene| {
                scene.clusters.insert("c3".into(), Cluster::OutOfReach);
            }),
            "c1=v2 c2=v1",
        ),
        (
            "unless that is asked for",
            with(lone(both()), |scene| {
                scene.clusters.insert("c3".into(), Cluster::OutOfReach);
                scene.present.values_mut().for_each(|present| present.goes_when_unreachable = true);
            }),
            "c1=v2 c2=v1 c3=gone",
        ),
        (
            "a cluster that leaves loses it at once and gets no other",
            with(Scene::of(both(), &["c1"]), |scene| {
                scene.clusters.insert("c1".into(), Cluster::Leaving);
                scene.clusters.insert("c2".into(), Cluster::Leaving);
            }),
            "c1=gone",
        ),
        (
            "a cluster that is not there gets none",
            with(Scene::of(both(), &[]), |scene| scene.clusters.clear()),
            "",
        ),
        (
            "by hand nothing happens",
            with(lone(both()), |scene| scene.strategy = Some(strategy("Manual"))),
            "",
        ),
        (
            "an add-on that is gone takes its own with it",
            with(lone(both()), |scene| {
                scene.strategy = None;
                scene.present.insert("c2".into(), Present { made_for: None, ..ours() });
            }),
            "c1=gone c3=gone",
        ),
    ];
    for (what, scene, wanted) in rows {
        assert_eq!(scene.acts(), wanted, "{what}");
    }
}

#[test]
fn a_configuration_without_a_namespace_is_in_that_of_the_placement() {
    let plan = Scene::of([complete(&[]), complete(&["c1"])], &[]).plan(now());
    let Some(Act::Keep(wish)) = plan.acts.get("c1") else { panic!("{plan:?}") };
    let names: Vec<_> = wish.configs.iter().map(|one| format!("{}/{}", one.namespace, one.name)).collect();
    assert_eq!(names, ["default/here", "there/elsewhere"]);
    assert_eq!(wish.placement, "default/canary");
}

#[test]
fn absence_counts_from_when_it_was_first_seen_and_ends_with_a_return() {
    let mut scene = Scene::of([complete(&[]), complete(&[])], &["c1"]);
    let first = scene.plan(now());
    assert_eq!((first.acts.len(), first.next), (0, Some(now() + SignedDuration::from_secs(10))));
    scene.absent = first.absent;
    let almost = now() + SignedDuration::from_secs(9);
    assert_eq!(scene.plan(almost).acts.len(), 0);
    scene.choices = vec![complete(&["c1"]), complete(&[])];
    let back = scene.plan(almost);
    assert!(back.absent.is_empty());
    scene.absent = back.absent;
    scene.choices = vec![complete(&[]), complete(&[])];
    assert_eq!(scene.plan(now() + SignedDuration::from_secs(11)).acts.len(), 0, "it counts anew");
    // While it is not known, it does not count either.
    scene.absent = HashMap::from([("c1".to_owned(), now())]);
    scene.choices = vec![complete(&[]), Choice::Unsettled];
    assert_eq!(scene.plan(almost), Plan::default());
}

#[test]
fn who_came_back_is_not_missed_before_its_placements_had_time_to_hear_of_it() {
    let back = |seconds: i64| Cluster::Back(now() - SignedDuration::from_secs(seconds));
    // After how many seconds of absence its add-on goes.
    let rows = [
        ("it was never away", Cluster::Here, 10),
        ("it came back just now", back(0), 300),
        ("it came back a while ago", back(200), 100),
        ("it came back long ago", back(299), 10),
        ("its clock is ahead", back(-60), 360),
        ("its clock is far ahead", back(-3600), 10),
    ];
    for (sentence, cluster, wanted) in rows {
        let mut scene = Scene::of([complete(&["c1", "c2"]), complete(&[])], &["c1", "c2", "c3"]);
        scene.clusters.insert("c3".to_owned(), cluster);
        let first = scene.plan(now());
        let end = now() + SignedDuration::from_secs(wanted);
        assert_eq!((first.acts.get("c3"), first.next), (None, Some(end)), "{sentence}");
        scene.absent = first.absent;
        assert_eq!(scene.plan(end - SignedDuration::from_secs(1)).acts.get("c3"), None, "{sentence}");
        assert_eq!(scene.plan(end).acts.get("c3"), Some(&Act::Remove), "{sentence}");
    }
}
