//! Fleets of a few clusters, and what another version would do to them.

use serde_json::{Value, json};

use super::*;
use crate::addon::reach::tests::{asks, condition, instance, picture};

/// A canary at v2, two others at v1 of which a person has set one.
fn fleet() -> Picture {
    let mut theirs = instance("c", "global", "v1", "");
    theirs["metadata"]["managedFields"][0]["manager"] = json!("kubectl-patch");
    picture(
        &[(asks("global", "v1"), Some(&["a", "b", "c"])), (asks("canary", "v2"), Some(&["a"]))],
        &[instance("a", "canary", "v2", "v1"), instance("b", "global", "v1", ""), theirs],
    )
}

fn told(radius: &Radius) -> (Vec<String>, Vec<String>) {
    let touch = |touch: &Touch| {
        format!("{} {}>{} {}", touch.cluster, touch.from, radius.version, touch.direction.word())
    };
    let spare = |spared: &Spared| format!("{} {}: {}", spared.cluster, spared.version, spared.why);
    (radius.touched.iter().map(touch).collect(), radius.spared.iter().map(spare).collect())
}

#[test]
fn the_radius_of_all_placements() {
    let (touched, spared) = told(&radius(&fleet(), &[0, 1], "v2"));
    assert_eq!(touched, ["b v1>v2 upgrade"]);
    assert_eq!(
        spared,
        ["a v2: already there", "c v1: its version is set by kubectl-patch, not by its placement"]
    );
}

#[test]
fn the_radius_of_one_placement_names_those_that_a_later_one_has() {
    let found = radius(&fleet(), &[0], "v3");
    let (touched, spared) = told(&found);
    assert_eq!(touched, ["b v1>v3 upgrade"]);
    assert_eq!(spared[0], "a v2: goes by default/canary, which comes later than default/global");
    assert_eq!(found.edits, [Edit { place: 0, placement: "default/global".into(), from: "v1".into() }]);
}

#[test]
fn a_placement_that_is_paused_holds_its_clusters() {
    let paused = json!({"name": "p", "addonTemplate": {"installVersion": "v1"}, "paused": true});
    let found = picture(&[(paused, Some(&["a"]))], &[instance("a", "p", "v1", "")]);
    let found = radius(&found, &[0], "v2");
    assert_eq!(
        told(&found),
        (
            vec![],
            vec!["a v1: default/p is paused; it changes after `bellwether addon resume hello`".to_owned()]
        )
    );
    assert_eq!(found.edits.len(), 1, "it is to ask for it all the same");
    assert!(found.contradicts(Intent::Rollback, None).is_some(), "also what is held must be wanted");
}

#[test]
fn others_that_do_not_change_say_why() {
    let mut by_hand = instance("b", "p", "v1", "");
    by_hand["metadata"]["annotations"] = json!({});
    let mut going = instance("c", "p", "v1", "");
    going["metadata"]["deletionTimestamp"] = json!("2024-05-01T10:00:00Z");
    let mut moving = instance("d", "p", "v2", "v1");
    moving["status"]["currentVersion"] = json!("unknown");
    moving["status"]["conditions"] = json!([condition("Progressing", "True", "Upgrading", "m")]);
    let found = picture(&[(asks("p", "v1"), Some(&["a", "b", "c", "d"]))], &[by_hand, going, moving]);
    let (touched, spared) = told(&radius(&found, &[0], "v2"));
    assert_eq!(touched, ["a >v2 install"]);
    assert_eq!(
        spared,
        [
            "b v1: was made by hand, so no placement sets its version",
            "c v1: is being taken away",
            "d v2: already on its way there: upgrading",
        ]
    );
}

#[test]
fn where_it_is_asked_for_already_there_is_nothing_to_write() {
    let found = picture(
        &[(asks("p", ""), Some(&["a", "b"]))],
        &[instance("a", "p", "v2", ""), instance("b", "p", "v1", "")],
    );
    let found = radius(&found, &[0], "v2");
    assert_eq!(found.edits, []);
    assert_eq!(
        told(&found).1,
        ["a v2: already there", "b v1: default/p asks for it already; its turn has not come"]
    );
}

#[test]
fn a_way_back_is_no_upgrade_and_a_way_on_no_rollback() {
    let fleet = fleet();
    let rows = [
        (vec![0, 1], "v3", Intent::Upgrade, None),
        (vec![1], "v1", Intent::Rollback, None),
        (
            vec![1],
            "v1",
            Intent::Upgrade,
            Some(
                "v1 is earlier than what there is on a (v2); `bellwether addon rollback hello --version v1 --placement p` goes there",
            ),
        ),
        (
            vec![0],
            "v2",
            Intent::Rollback,
            Some(
                "v2 is later than what there is on b (v1); `bellwether addon upgrade hello --version v2 --placement p` goes there",
            ),
        ),
    ];
    for (places, version, intent, wanted) in rows {
        let found = radius(&fleet, &places, version).contradicts(intent, Some("p"));
        assert_eq!(found.as_deref(), wanted, "{version} {intent:?}");
    }
    let mixed = picture(
        &[(asks("p", "v1"), Some(&["a", "b"]))],
        &[instance("a", "p", "v1", ""), instance("b", "p", "v3", "v1")],
    );
    let found = radius(&mixed, &[0], "v2").contradicts(Intent::Upgrade, None).unwrap();
    assert!(found.contains("b (v3)") && found.contains("--placement"), "{found}");
}

fn on_the_way_to(cluster: &str, version: &str, last: &str) -> Value {
    let mut moving = instance(cluster, "p", version, last);
    moving["status"]["currentVersion"] = json!("unknown");
    moving["status"]["conditions"] = json!([condition("Progressing", "False", "Failed", "no")]);
    moving
}

#[test]
fn clusters_go_back_to_what_they_had_where_all_agree() {
    let v2 = || asks("p", "v2");
    type Row = (&'static str, Value, Vec<Value>, Result<&'static str, &'static str>);
    let rows: Vec<Row> = vec![
        ("all had it", v2(), vec![instance("a", "p", "v2", "v1"), instance("b", "p", "v2", "v1")], Ok("v1")),
        (
            "one failed, the other has not begun",
            v2(),
            vec![on_the_way_to("a", "v2", "v1"), instance("b", "p", "v1", "")],
            Ok("v1"),
        ),
        (
            "one came new to the later version",
            v2(),
            vec![instance("a", "p", "v2", "v1"), instance("b", "p", "v2", "")],
            Ok("v1"),
        ),
        (
            "a version that there was not",
            v2(),
            vec![instance("a", "p", "v2", "unknown")],
            Err("no cluster of hello had an earlier version"),
        ),
        ("none before", v2(), vec![instance("a", "p", "v2", "")], Err("say which by --version: v1, v2, v3")),
        (
            "the one before was later",
            v2(),
            vec![instance("a", "p", "v2", "v3")],
            Err("no cluster of hello had an earlier version"),
        ),
        (
            "they differ",
            asks("p", "v3"),
            vec![instance("a", "p", "v3", "v1"), instance("b", "p", "v3", "v2")],
            Err("did not all have the same version before: v1 on a; v2 on b; say which by --version"),
        ),
    ];
    for (sentence, placement, instances, wanted) in rows {
        let found = way_back(&picture(&[(placement, Some(&["a", "b"]))], &instances), &[0]);
        let found = found.map(|back| back.version);
        match (found, wanted) {
            (Ok(found), Ok(wanted)) => assert_eq!(found, wanted, "{sentence}"),
            (Err(found), Err(wanted)) => assert!(found.contains(wanted), "{sentence}: {found}"),
            (found, wanted) => panic!("{sentence}: {found:?} {wanted:?}"),
        }
    }
}

#[test]
fn who_never_had_another_version_stays() {
    let fleet = fleet();
    let back = way_back(&fleet, &[0, 1]).unwrap();
    assert_eq!(back, WayBack { version: "v1".into(), places: vec![1] });
    let mut found = radius(&fleet, &back.places, &back.version);
    found.spare(&fleet, &[0]);
    let (touched, spared) = told(&found);
    assert_eq!(touched, ["a v2>v1 rollback"]);
    let stays = ["b", "c"].map(|cluster| format!("{cluster} v1: had no earlier version to go back to"));
    assert_eq!(spared, stays);
}

#[test]
fn a_version_that_there_is_not_names_those_that_there_are() {
    let mut addon = fleet().addon;
    assert_eq!(supported_version(&addon, "v9"), Err("hello has no version v9; there are: v1, v2, v3".into()));
    assert_eq!(default_version(&addon), Ok("v2".into()));
    addon.status = None;
    assert!(default_version(&addon).unwrap_err().contains("no AddOnTemplate"));
}

#[test]
fn the_radius_is_shown_with_counts_and_bounds() {
    let lines = radius(&fleet(), &[0, 1], "v2").lines(20);
    assert_eq!(
        lines,
        [
            "hello to v2: 1 of 3 clusters changes.",
            "",
            "CLUSTER  FROM  TO  DIRECTION  PLACEMENT       STRATEGY",
            "b        v1    v2  upgrade    default/global  all at once",
            "",
            "NOT TOUCHED  VERSION  WHY",
            "a            v2       already there",
            "c            v1       its version is set by kubectl-patch, not by its placement",
        ]
    );
    let lines = radius(&fleet(), &[0, 1], "v2").lines(1);
    assert_eq!(lines.last().unwrap(), "… and 1 more; --dry-run shows them all");
}
