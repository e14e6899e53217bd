//! Fleets of a few clusters, and what another version would do to them.

use serde_json::{Value, json};

use super::super::fixture::{
    ADDON, addon, cache, condition, overridden, plan, requesting, select, unfinished,
};
use super::*;

fn version(name: &str) -> Version {
    Version::new(name).unwrap()
}

/// A canary at v2, and two others at v1 of which a user has set one.
fn fleet() -> HubCache {
    cache(
        &[(requesting("global", "v1"), Some(&["a", "b", "c"])), (requesting("canary", "v2"), Some(&["a"]))],
        &[addon("a", "canary", "v2", "v1"), addon("b", "global", "v1", ""), overridden("c", "global", "v1")],
    )
}

fn name(version: Option<&Version>) -> &str {
    version.map(Version::as_str).unwrap_or_default()
}

fn summarize(radius: &BlastRadius) -> (Vec<String>, Vec<String>) {
    let change = |one: &ClusterChange| {
        format!("{} {}>{} {}", one.cluster, name(one.from.as_ref()), radius.version, one.direction.as_str())
    };
    let unchanged =
        |one: &UnchangedCluster| format!("{} {}: {}", one.cluster, name(one.version.as_ref()), one.reason);
    (radius.changes.iter().map(change).collect(), radius.unchanged.iter().map(unchanged).collect())
}

#[test]
fn radius_of_all_placements() {
    let (changes, unchanged) = summarize(&blast_radius(&fleet(), ADDON, &[0, 1], &version("v2")));
    assert_eq!(changes, ["b v1>v2 upgrade"]);
    assert_eq!(
        unchanged,
        ["a v2: already has it", "c v1: its version is set by kubectl-patch, not by its placement"]
    );
}

#[test]
fn radius_of_one_placement_names_clusters_that_are_assigned_to_a_later_one() {
    let found = blast_radius(&fleet(), ADDON, &[0], &version("v3"));
    let (changes, unchanged) = summarize(&found);
    assert_eq!(changes, ["b v1>v3 upgrade"]);
    assert_eq!(
        unchanged[0],
        "a v2: is assigned to default/canary, which is later in the list than default/global"
    );
    let edit = PlacementEdit { index: 0, placement: "default/global".into(), from: Some(version("v1")) };
    assert_eq!(found.edits, [edit]);
}

#[test]
fn clusters_of_a_paused_placement_change_when_it_is_resumed() {
    let paused = json!({"name": "p", "addonTemplate": {"installVersion": "v1"}, "paused": true});
    let cache = cache(&[(paused, Some(&["a"]))], &[addon("a", "p", "v1", "")]);
    let found = blast_radius(&cache, ADDON, &[0], &version("v2"));
    assert_eq!(summarize(&found), (vec![], vec![]));
    assert_eq!(found.paused[0].cluster, "a");
    assert_eq!(found.edits.len(), 1, "the placement has to request it all the same");
    assert_eq!(found.going(Direction::Upgrade).len(), 1, "a paused cluster has a direction too");
}

#[test]
fn unchanged_clusters_have_a_reason() {
    let mut by_user = addon("b", "p", "v1", "");
    by_user["metadata"]["annotations"] = json!({});
    let mut deleting = addon("c", "p", "v1", "");
    deleting["metadata"]["deletionTimestamp"] = json!("2024-05-01T10:00:00Z");
    let changing = unfinished("d", "v2", condition("Progressing", "True", "Upgrading", "m"));
    let cache =
        cache(&[(requesting("p", "v1"), Some(&["a", "b", "c", "d"]))], &[by_user, deleting, changing]);
    let (changes, unchanged) = summarize(&blast_radius(&cache, ADDON, &[0], &version("v2")));
    assert_eq!(changes, ["a >v2 install"]);
    assert_eq!(
        unchanged,
        [
            "b v1: was created by a user, so no placement sets its version",
            "c v1: is being deleted",
            "d v2: is already changing to it: upgrading",
        ]
    );
}

#[test]
fn unreachable_cluster_that_is_no_longer_selected_does_not_change() {
    let upgrading = unfinished("a", "v2", condition("Progressing", "True", "Upgrading", "m"));
    let mut cache = cache(&[(requesting("p", "v2"), Some(&["a"]))], &[upgrading]);
    select(&mut cache, "p", Some(&[]));
    plan(&mut cache);
    let (changes, unchanged) = summarize(&blast_radius(&cache, ADDON, &[0], &version("v3")));
    assert_eq!(changes, Vec::<String>::new());
    assert_eq!(unchanged, ["a v2: is not selected by default/p now; it changes when it is selected again"]);
}

#[test]
fn placement_that_requests_the_version_needs_no_edit() {
    let cache = cache(
        &[(requesting("p", ""), Some(&["a", "b"]))],
        &[addon("a", "p", "v2", ""), addon("b", "p", "v1", "")],
    );
    let found = blast_radius(&cache, ADDON, &[0], &version("v2"));
    assert_eq!(found.edits, []);
    assert_eq!(
        summarize(&found).1,
        [
            "a v2: already has it",
            "b v1: default/p already requests it; the rollout has not admitted the cluster"
        ]
    );
}

fn failed_at(cluster: &str, version: &str) -> Value {
    unfinished(cluster, version, condition("Progressing", "False", "Failed", "no"))
}

#[test]
fn previous_version_is_the_one_that_all_clusters_had() {
    let v2 = || requesting("p", "v2");
    type Row = (&'static str, Value, Vec<Value>, Result<&'static str, &'static str>);
    let rows: Vec<Row> = vec![
        ("all had it", v2(), vec![addon("a", "p", "v2", "v1"), addon("b", "p", "v2", "v1")], Ok("v1")),
        (
            "one failed, the other has not started",
            v2(),
            vec![failed_at("a", "v2"), addon("b", "p", "v1", "")],
            Ok("v1"),
        ),
        (
            "one was installed at the later version",
            v2(),
            vec![addon("a", "p", "v2", "v1"), addon("b", "p", "v2", "")],
            Ok("v1"),
        ),
        ("the version before is unknown", v2(), vec![addon("a", "p", "v2", "unknown")], Err("")),
        ("no version before", v2(), vec![addon("a", "p", "v2", "")], Err("")),
        ("the version before was later", v2(), vec![addon("a", "p", "v2", "v3")], Err("")),
        (
            "they differ",
            requesting("p", "v3"),
            vec![addon("a", "p", "v3", "v1"), addon("b", "p", "v3", "v2")],
            Err("v1: a; v2: b"),
        ),
    ];
    for (case, placement, addons, expected) in rows {
        let cache = cache(&[(placement, Some(&["a", "b"]))], &addons);
        let found = match previous_version(&cache, ADDON, &[0]) {
            Ok(found) => Ok(found.version.to_string()),
            Err(NoPreviousVersion::None) => Err(String::new()),
            Err(NoPreviousVersion::Different(all)) => {
                let all = all.iter().map(|(version, clusters)| format!("{version}: {}", clusters.join(" ")));
                Err(all.collect::<Vec<_>>().join("; "))
            }
        };
        assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{case}");
    }
}

#[test]
fn clusters_without_a_previous_version_do_not_roll_back() {
    let fleet = fleet();
    let previous = previous_version(&fleet, ADDON, &[0, 1]).unwrap();
    assert_eq!(previous, PreviousVersion { version: version("v1"), placements: vec![1] });
    let mut found = blast_radius(&fleet, ADDON, &previous.placements, &previous.version);
    found.add_without_previous(&fleet, &[0]);
    let (changes, unchanged) = summarize(&found);
    assert_eq!(changes, ["a v2>v1 rollback"]);
    assert_eq!(unchanged, ["b v1: had no earlier version", "c v1: had no earlier version"]);
}
