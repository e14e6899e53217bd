//! Properties that hold for any fleet.

use proptest::prelude::*;

use super::*;
use crate::placement::slices::{Slice, desired_slices, plan};

/// Whether it is a canary, its taint, whether this and other placements selected it, and its memory.
type Traits = (bool, Option<&'static str>, bool, bool, u8);

/// Clusters with labels and taints, some of them selected before by this and other placements.
fn any_fleet() -> impl Strategy<Value = Fleet> {
    let effect = prop::option::of(prop::sample::select(vec!["NoSelect", "PreferNoSelect", "NoSelectIfNew"]));
    let cluster = (any::<bool>(), effect, any::<bool>(), any::<bool>(), 0..4_u8);
    let requested = (prop::option::of(0..12_u8), 0..4_i32, -3..4_i32, -3..4_i32, 1..5_u8, any::<bool>());
    (prop::collection::vec(cluster, 0..15), requested).prop_map(|(clusters, requested)| {
        let (count, steady, balance, memory, size, tolerates) = requested;
        let score = |name: &str, weight: i32| json!({"scoreCoordinate": {"type": "BuiltIn", "builtIn": name}, "weight": weight});
        let canary = json!({"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "true"}}}});
        let mut spec = json!({
            "prioritizerPolicy": {"mode": "Exact", "configurations": [
                score("Steady", steady), score("Balance", balance), score("ResourceAllocatableMemory", memory),
            ]},
            "decisionStrategy": {"groupStrategy": {"decisionGroups": [canary], "clustersPerDecisionGroup": size}},
        });
        if let Some(count) = count {
            spec["numberOfClusters"] = json!(count);
        }
        if tolerates {
            spec["tolerations"] = json!([{"key": "t", "operator": "Exists", "tolerationSeconds": 150}]);
        }
        let names: Vec<String> = (0..clusters.len()).map(|number| format!("c{number:02}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let picked = |pick: fn(&Traits) -> bool| -> Vec<&str> {
            let both = names.iter().zip(&clusters);
            both.filter(|(_, cluster)| pick(cluster)).map(|(name, _)| *name).collect()
        };
        let mut fleet = Fleet::new(&names, spec).chosen(&picked(|cluster| cluster.2));
        fleet.others = vec![decision("q", &picked(|cluster| cluster.3))];
        for (name, (canary, effect, _, _, memory)) in names.iter().zip(&clusters) {
            fleet = fleet.label(name, "canary", &canary.to_string());
            fleet = fleet.cluster(name, |cluster| cluster["status"]["allocatable"] = json!({"memory": memory.to_string()}));
            if let Some(effect) = effect {
                fleet = fleet.taint(name, effect);
            }
        }
        fleet
    })
}

/// The slices of a selection.
fn slices(choice: &ClusterSelection) -> Vec<Slice> {
    desired_slices("p", &choice.groups)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Repeated decisions settle, so that a controller does not react to its own writes for ever. It may take several steps:
    /// a cluster tainted NoSelectIfNew is not selected again once it was dropped, and then the others are ranked without it.
    #[test]
    fn repeated_decisions_settle(fleet in any_fleet()) {
        let may_only_stay = fleet.clusters.iter().filter(|one| one["spec"]["taints"][0]["effect"] == "NoSelectIfNew");
        let mut decisions_made = may_only_stay.count() + 1;
        let (mut fleet, mut choice) = (fleet.clone(), fleet.choice());
        loop {
            let names = fleet.names();
            fleet = fleet.chosen(&names.iter().map(String::as_str).collect::<Vec<_>>());
            let again = fleet.choice();
            if plan("p", &slices(&choice), &slices(&again)).is_empty() && choice.until == again.until {
                break;
            }
            prop_assert!(decisions_made > 0, "it does not come to rest");
            (decisions_made, choice) = (decisions_made - 1, again);
        }
    }

    #[test]
    fn excluded_clusters_are_never_selected(fleet in any_fleet()) {
        let names = fleet.names();
        let tolerates = fleet.placement["spec"]["tolerations"].is_array();
        let before: Vec<&str> = fleet.own[0]["status"]["decisions"].as_array().into_iter().flatten()
            .filter_map(|decided| decided["clusterName"].as_str()).collect();
        for cluster in &fleet.clusters {
            let name = cluster["metadata"]["name"].as_str().unwrap();
            let refused = match cluster["spec"]["taints"][0]["effect"].as_str() {
                Some("NoSelect") => !tolerates,
                Some("NoSelectIfNew") => !tolerates && !before.contains(&name),
                _ => false,
            };
            prop_assert!(!refused || !names.iter().any(|chosen| chosen == name));
        }
        if let Some(most) = fleet.placement["spec"]["numberOfClusters"].as_u64() {
            prop_assert!(names.len() as u64 <= most);
        }
    }

    /// Every chosen cluster is in one group, groups are numbered, and the names in each are sorted.
    #[test]
    fn groups_partition_the_selection(fleet in any_fleet()) {
        let choice = fleet.choice();
        let size = fleet.placement["spec"]["decisionStrategy"]["groupStrategy"]["clustersPerDecisionGroup"].as_u64();
        let mut seen = HashSet::new();
        for (place, group) in choice.groups.iter().enumerate() {
            prop_assert_eq!(group.index, place);
            prop_assert!(group.clusters.is_sorted());
            prop_assert!(group.clusters.len() as u64 <= size.unwrap());
            prop_assert!(group.clusters.iter().all(|(cluster, _)| seen.insert(cluster.clone())));
        }
        prop_assert!(choice.groups.len() == 1 || choice.groups.iter().all(|group| !group.clusters.is_empty()));
    }
}
