//! Applies the planned writes one by one to a model and checks it after each.

use bellwether_api::cluster::PlacementDecisionStatus;
use bellwether_api::cluster::vocabulary::SATISFIED;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::placement::{Decided, decided};

const PLACEMENT: &str = "p";

fn decision(cluster: &str) -> ClusterDecision {
    ClusterDecision { cluster_name: cluster.to_owned(), ..ClusterDecision::default() }
}

/// Groups of these sizes, with the clusters in their order.
fn groups(clusters: &[String], sizes: &[usize]) -> Vec<Group> {
    let mut rest = clusters;
    let mut groups = Vec::new();
    for (index, size) in sizes.iter().enumerate() {
        let (part, left) = rest.split_at((*size).min(rest.len()));
        rest = left;
        let clusters = part.iter().map(|cluster| (cluster.clone(), None)).collect();
        groups.push(Group { index, name: String::new(), clusters });
    }
    groups
}

fn numbered(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(|number| format!("c{number:04}")).collect()
}

/// One group with clusters of these numbers.
fn one_group(numbers: impl IntoIterator<Item = usize>) -> Vec<Slice> {
    desired_slices(PLACEMENT, &groups(&numbered(numbers), &[usize::MAX]))
}

/// The slices as the API server would hold them.
struct Model {
    slices: BTreeMap<String, Slice>,
}

impl Model {
    fn new(slices: &[Slice]) -> Self {
        Self { slices: slices.iter().map(|slice| (slice.name.clone(), slice.clone())).collect() }
    }

    fn write(&mut self, write: &Write) {
        match write.clone() {
            Write::Create { name, group } => {
                let slice = Slice { name: name.clone(), group: Some(group), clusters: Vec::new() };
                assert_eq!(self.slices.insert(name, slice), None, "it is there already");
            }
            Write::Label { name, group } => self.slices.get_mut(&name).unwrap().group = Some(group),
            Write::Fill { name, clusters } => self.slices.get_mut(&name).unwrap().clusters = clusters,
            Write::Delete { name } => assert!(self.slices.remove(&name).is_some(), "it is not there"),
        }
    }

    fn clusters(&self) -> HashSet<String> {
        self.slices.values().flat_map(|slice| slice.names().map(str::to_owned)).collect()
    }

    fn decisions(&self) -> Vec<PlacementDecision> {
        let decision = |slice: &Slice| {
            let mut decision = PlacementDecision::new(&slice.name, Default::default());
            decision.metadata.namespace = Some("ns".into());
            decision.metadata.labels = slice.group.as_ref().map(|group| group.labels(PLACEMENT));
            decision.status = Some(PlacementDecisionStatus { decisions: slice.clusters.clone() });
            decision
        };
        self.slices.values().map(decision).collect()
    }
}

/// A placement whose status lists slices.
fn placement(slices: &[Slice]) -> Placement {
    let groups = group_statuses(slices);
    let count: i32 = groups.iter().map(|group| group.clusters_count).sum();
    serde_json::from_value(json!({
        "metadata": {"name": PLACEMENT, "namespace": "ns"},
        "status": {"numberOfSelectedClusters": count, "decisionGroups": groups, "conditions": [{
            "type": SATISFIED, "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2024-05-01T10:00:00Z",
        }]},
    }))
    .unwrap()
}

/// Applies a plan and checks all invariants after every write; returns the number of writes.
fn check(present: &[Slice], goal: &[Slice]) -> usize {
    let (mut model, after) = (Model::new(present), Model::new(goal).clusters());
    let staying: HashSet<String> = model.clusters().intersection(&after).cloned().collect();
    let largest = present.iter().map(|slice| slice.clusters.len()).max().unwrap_or(0).max(DECISIONS_LIMIT);
    let readers = [placement(present), placement(goal)];
    let writes = plan(PLACEMENT, present, goal);
    for (count, write) in writes.iter().enumerate() {
        model.write(write);
        let there = model.clusters();
        let missing: Vec<&String> = staying.difference(&there).collect();
        assert!(missing.is_empty(), "after write {count}, {write:?}, these are missing: {missing:?}");
        assert!(model.slices.values().all(|slice| slice.clusters.len() <= largest), "a slice is too long");
        for reader in &readers {
            if let Decided::Complete(clusters) = decided(reader, &model.decisions()) {
                let seen: HashSet<String> = clusters.into_iter().map(|decided| decided.cluster).collect();
                assert!(staying.is_subset(&seen), "a reader misses somebody after write {count}");
            }
        }
    }
    let end: Vec<Slice> = model.slices.into_values().collect();
    let mut goal = goal.to_vec();
    goal.sort_by(|one, other| one.name.cmp(&other.name));
    assert_eq!(end, goal, "what is wanted is there, and nothing else");
    writes.len()
}

#[test]
fn groups_are_split_into_slices_of_a_hundred() {
    let groups = groups(&numbered(0..330), &[150, 0, 180]);
    let slices = desired_slices(PLACEMENT, &groups);
    let found: Vec<(&str, &str, usize)> = slices
        .iter()
        .map(|slice| {
            (slice.name.as_str(), slice.group.as_ref().unwrap().index.as_str(), slice.clusters.len())
        })
        .collect();
    let expected = [
        ("p-decision-1", "0", 100),
        ("p-decision-2", "0", 50),
        ("p-decision-3", "1", 0),
        ("p-decision-4", "2", 100),
        ("p-decision-5", "2", 80),
    ];
    assert_eq!(found, expected);
}

#[test]
fn no_selected_cluster_is_missing_at_any_time() {
    let rows = [
        ("the first choice", Vec::new(), one_group(0..150), 4),
        ("no choice yet", Vec::new(), one_group(0..0), 1),
        ("nothing changes", one_group(0..150), one_group(0..150), 0),
        ("one that sorts first joins", one_group(1..151), one_group(0..151), 2),
        ("one that sorts first joins many", one_group(1..951), one_group(0..951), 10),
        ("one that sorts first joins full slices", one_group(1..301), one_group(0..301), 5),
        ("one that sorts first goes", one_group(0..250), one_group(1..250), 3),
        ("half of them go", one_group(0..250), one_group((0..250).step_by(2)), 3),
        ("all go", one_group(0..250), one_group(0..0), 3),
        ("all others", one_group(0..200), one_group(200..400), 2),
        ("as many join in between", one_group((0..400).step_by(2)), one_group(0..400), 6),
    ];
    for (case, present, goal, most) in rows {
        let writes = check(&present, &goal);
        assert!(writes <= most, "{case}: {writes} writes, and not {most}");
    }
}

#[test]
fn swapped_clusters_use_a_temporary_slice() {
    let clusters = numbered(0..200);
    let mut swapped = clusters.clone();
    swapped.swap(10, 150);
    let slices = |clusters: &[String]| desired_slices(PLACEMENT, &groups(clusters, &[100, 100]));
    let writes = plan(PLACEMENT, &slices(&clusters), &slices(&swapped));
    let spare = Write::Fill { name: "p-decision-3".into(), clusters: vec![decision("c0150")] };
    assert!(writes.contains(&spare), "{writes:?}");
    assert_eq!(check(&slices(&clusters), &slices(&swapped)), 5);
}

#[test]
fn leftovers_of_a_crash_are_deleted() {
    let (before, after) = (one_group(1..151), one_group(0..151));
    let writes = plan(PLACEMENT, &before, &after);
    for done in 0..writes.len() {
        let mut model = Model::new(&before);
        writes.iter().take(done).for_each(|write| model.write(write));
        let left: Vec<Slice> = model.slices.into_values().collect();
        check(&left, &after);
        check(&left, &before);
    }
}

#[test]
fn changed_scores_alone_cause_no_write() {
    let slices = one_group(0..3);
    let mut scored = slices.clone();
    scored[0].clusters[1].score = Some(7);
    assert_eq!(plan(PLACEMENT, &slices, &scored), []);
}

#[test]
fn labels_change_before_clusters() {
    let clusters = numbered(0..6);
    let before = desired_slices(PLACEMENT, &groups(&clusters, &[3, 3]));
    let mut after = groups(&clusters, &[2, 4]);
    after[1].name = "canary".into();
    let writes = plan(PLACEMENT, &before, &desired_slices(PLACEMENT, &after));
    let place = |is: fn(&Write) -> bool| writes.iter().position(is).unwrap();
    let labelled = place(|write| matches!(write, Write::Label { name, .. } if name == "p-decision-2"));
    let filled = place(|write| matches!(write, Write::Fill { name, .. } if name == "p-decision-2"));
    assert!(labelled < filled, "{writes:?}");
}

/// Any distribution of some of thirty clusters over slices of any groups, some of them twice as after a crash.
fn any_slices() -> impl Strategy<Value = Vec<Slice>> {
    let slice = (prop::collection::btree_set(0..30_usize, 0..8), 0..3_usize);
    prop::collection::vec(slice, 0..6).prop_map(|slices| {
        let slices = slices.into_iter().enumerate();
        slices
            .map(|(place, (clusters, index))| Slice {
                name: name(PLACEMENT, place + 1),
                group: Some(GroupLabels { index: index.to_string(), name: String::new() }),
                clusters: numbered(clusters).iter().map(|cluster| decision(cluster)).collect(),
            })
            .collect()
    })
}

/// A permutation of many clusters over full slices: rings in plenty.
fn any_order(count: usize) -> impl Strategy<Value = Vec<String>> {
    Just(numbered(0..count)).prop_shuffle()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_slices_can_become_any_other(present in any_slices(), goal in any_slices()) {
        // A choice has a cluster once, whatever there is at present.
        let mut seen = HashSet::new();
        let mut goal = goal;
        for slice in &mut goal {
            slice.clusters.retain(|decision| seen.insert(decision.cluster_name.clone()));
        }
        check(&present, &goal);
        prop_assert!(plan(PLACEMENT, &goal, &goal).is_empty());
    }

    #[test]
    fn cycles_between_full_slices_lose_no_cluster(before in any_order(330), after in any_order(330), gone in 0..40_usize) {
        let slices = |clusters: &[String]| desired_slices(PLACEMENT, &groups(clusters, &[100, 130, 100]));
        check(&slices(&before), &slices(&after[gone..]));
    }
}
