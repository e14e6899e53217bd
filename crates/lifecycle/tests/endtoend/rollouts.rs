//! At what pace clusters change, with agents that bring what they are told to, or cannot.

use std::collections::BTreeMap;
use std::time::Duration;

use bellwether_testkit::eventually;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::fleet::{ADDONS, Addon, Fleet, Theatre, WORKS, condition};

/// All clusters of a fleet have the first version of an add-on, by the placement `all`.
async fn at_v1<'f>(fleet: &'f Fleet<'f>, versions: &[&str]) -> Addon<'f> {
    let addon = fleet.addon();
    addon.publish(versions).await;
    fleet.grouped_placement("all", json!(2)).await;
    addon.place(json!([addon.placed("all", "v1")])).await;
    for number in 1..=fleet.size() {
        addon.until_done(number, "v1", "").await;
    }
    addon
}

fn progressive(settings: Value) -> Value {
    json!({"type": "Progressive", "progressive": settings})
}

pub(crate) async fn timed_out_clusters_count_as_failures_and_stop_rollout(theatre: &Theatre) {
    let fleet = Fleet::new(theatre, 4).await;
    let addon = at_v1(&fleet, &["v1", "v2"]).await;
    // Two begin and are stuck. If one of them is a moment early, the third begins in its place, and is stuck too.
    for stuck in [1, 2, 3] {
        fleet.dismiss(stuck);
    }
    let pace = progressive(json!({"maxConcurrency": 2, "progressDeadline": "5s", "maxFailures": 1}));
    addon.place(json!([addon.paced("all", "v2", pace)])).await;
    for stuck in [1, 2] {
        let words = "C=unknown L=v1 False/Failed: could not upgrade to version v2: timed out after 5s";
        addon.until_said(stuck, words).await;
    }
    let stopped = format!("the rollout stopped: 2 failed, 1 may: {}, {}", fleet.cluster(1), fleet.cluster(2));
    let three = format!("the rollout stopped: 3 failed, 1 may: {}, ", fleet.cluster(1));
    eventually("the last waits for all of them", async || {
        let said = addon.condition(4, "Configured").await;
        let words = said.strip_prefix("False/WaitingForTurn: ")?.to_owned();
        (words == stopped || words.starts_with(&three)).then_some(())
    })
    .await;
    eventually("and the whole says so", async || {
        let whole = fleet.hub.get(addon.management_path()).await.json();
        let counts = &whole["status"]["installProgressions"][0]["counts"];
        (counts["timedOut"].as_i64() >= Some(2)).then_some(())
    })
    .await;
    assert_eq!(addon.runs(4).await.as_deref(), Some("v1"));
    // They are mended but for one, and the rest goes on.
    fleet.employ(1);
    fleet.employ(3);
    for number in [1, 3, 4] {
        addon.until_done(number, "v2", "v1").await;
    }
    addon.until_progression("all", "False/Failed: 3 of 4 clusters have it, 1 took too long.").await;
    assert_eq!(addon.runs(2).await.as_deref(), Some("v1"));
}

fn since(object: &Value, kind: &str) -> Timestamp {
    condition(object, kind)["lastTransitionTime"].as_str().unwrap().parse().unwrap()
}

pub(crate) async fn next_group_waits_for_soak_time_of_previous(theatre: &Theatre) {
    let fleet = Fleet::new(theatre, 4).await;
    let addon = at_v1(&fleet, &["v1", "v2"]).await;
    let pace = json!({"type": "ProgressivePerGroup", "progressivePerGroup": {"minSuccessTime": "5s"}});
    addon.place(json!([addon.paced("all", "v2", pace)])).await;
    for first in [1, 2] {
        addon.until_done(first, "v2", "v1").await;
    }
    let objects = [addon.read(1).await, addon.read(2).await];
    let well = objects.iter().map(|object| since(object, "Progressing")).max().unwrap();
    let end = well + SignedDuration::from_secs(5);
    // As long as it lasts nobody of the next group begins; what is read before the end was so before the end.
    let mut looks = 0;
    loop {
        let mut early = Vec::new();
        for next in [3, 4] {
            early.push((addon.said(next).await, addon.work(next).await["metadata"]["generation"].clone()));
        }
        if bellwether_clock::Clock::now(&fleet.clock) >= end {
            break;
        }
        for (said, generation) in early {
            assert!(said.starts_with("C=v1 "), "{said}");
            assert_eq!(generation, 1);
        }
        looks += 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(looks > 0, "there was time to look");
    for next in [3, 4] {
        addon.until_done(next, "v2", "v1").await;
    }
    let later = [addon.read(3).await, addon.read(4).await];
    for object in &later {
        assert!(since(object, "Progressing") >= end, "{object:#}");
    }
}

pub(crate) async fn mandatory_group_goes_first_and_its_failure_stops_rollout(theatre: &Theatre) {
    let fleet = Fleet::new(theatre, 3).await;
    // The canary is not the first by name.
    fleet.label(2, json!({"canary": "true"})).await;
    let addon = at_v1(&fleet, &["v1"]).await;
    // Somebody has an object of that name on the canary, and does not let it go.
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "immutable": true, "data": {"k": "theirs"},
        "metadata": {"name": addon.object("more", 2), "namespace": "default"}});
    let canary = fleet.spoke(2);
    canary.post("/api/v1/namespaces/default/configmaps", &theirs).await.expect(201);
    addon.publish_with("v2", json!([addon.map("more", json!({"k": "ours"}))])).await;
    let pace =
        progressive(json!({"mandatoryDecisionGroups": [{"groupName": "canary"}], "maxFailures": "100%"}));
    addon.place(json!([addon.paced("all", "v2", pace)])).await;
    let beginning = format!(
        "C=unknown L=v1 False/Failed: could not upgrade to version v2: work addon-{}-deploy-0: Failed to apply manifest work: \
         ConfigMap default/{}: ",
        addon.name,
        addon.object("more", 2)
    );
    eventually("the canary fails", async || addon.said(2).await.starts_with(&beginning).then_some(())).await;
    let stopped = format!("False/WaitingForTurn: the rollout stopped: 1 failed, 0 may: {}", fleet.cluster(2));
    for other in [1, 3] {
        addon.until_condition(other, "Configured", &stopped).await;
        assert_eq!(addon.runs(other).await.as_deref(), Some("v1"));
    }
    canary.delete(addon.map_path("more", 2)).await.expect(200);
    for number in [2, 1, 3] {
        addon.until_done(number, "v2", "v1").await;
        assert_eq!(addon.runs(number).await.as_deref(), Some("v2"));
    }
}

pub(crate) async fn clusters_change_one_by_one_without_early_works(theatre: &Theatre) {
    let fleet = Fleet::new(theatre, 5).await;
    let addon = fleet.addon();
    addon.publish(&["v1"]).await;
    fleet.placement("all", json!({})).await;
    let begun = fleet.revision().await;
    let watch =
        async |path: &str| fleet.hub.watch(format!("{path}?watch=true&resourceVersion={begun}")).await;
    let mut addons = watch(&format!("{ADDONS}/managedclusteraddons")).await;
    let mut works = watch(&format!("{WORKS}/manifestworks")).await;
    addon.place(json!([addon.paced("all", "v1", progressive(json!({"maxConcurrency": 1})))])).await;
    for number in 1..=5 {
        addon.until_done(number, "v1", "").await;
    }
    // When each was done, and when the work of each was made, in the order of the hub.
    let mut order: BTreeMap<u64, (&str, String)> = BTreeMap::new();
    let revision =
        |object: &Value| -> u64 { object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap() };
    let place = |object: &Value| object["metadata"]["namespace"].as_str().unwrap().to_owned();
    let (mut done, mut made) = (0, 0);
    while made < 5 {
        let object = works.event().await.object;
        let ours =
            object["metadata"]["labels"]["open-cluster-management.io/addon-name"] == addon.name.as_str();
        if ours && object["metadata"]["generation"] == 1 && object["status"].is_null() {
            let first = !order.values().any(|(what, at)| *what == "made" && *at == place(&object));
            made += usize::from(first);
            if first {
                order.insert(revision(&object), ("made", place(&object)));
            }
        }
    }
    while done < 5 {
        let object = addons.event().await.object;
        let ours = object["metadata"]["name"] == addon.name.as_str();
        if ours && condition(&object, "Progressing")["reason"] == "Succeed" {
            let first = !order.values().any(|(what, at)| *what == "done" && *at == place(&object));
            done += usize::from(first);
            if first {
                order.insert(revision(&object), ("done", place(&object)));
            }
        }
    }
    let order: Vec<(&str, String)> = order.into_values().collect();
    let wanted: Vec<(&str, String)> = (1..=5)
        .flat_map(|number| [("made", fleet.cluster(number)), ("done", fleet.cluster(number))])
        .collect();
    assert_eq!(order, wanted);
}

pub(crate) async fn workload_criteria_wait_for_updated_replicas(theatre: &Theatre) {
    let fleet = Fleet::new(theatre, 2).await;
    let addon = fleet.addon();
    addon.publish_with("v1", json!([addon.deployment("d", "example/main:1")])).await;
    addon.publish_with("v2", json!([addon.deployment("d", "example/main:2")])).await;
    fleet.placement("all", json!({})).await;
    addon.place(json!([addon.placed("all", "v1")])).await;
    for number in [1, 2] {
        addon.until_image("d", number, "example/main:1").await;
        addon.copies("d", number, 2, 2).await;
        addon.until_done(number, "v1", "").await;
        addon.until_condition(number, "Available", "True/ProbeAvailable: 1 workload(s) are available.").await;
    }
    let mut pace = progressive(json!({"maxConcurrency": 1}));
    pace["successCriteria"] = json!("WorkloadAvailable");
    addon.place(json!([addon.paced("all", "v2", pace)])).await;
    addon.until_done(1, "v2", "v1").await;
    let waits = |why: &str| format!("at most 1 at a time: {} ({why})", fleet.cluster(1));
    let unknown = "Available is Unknown/NoProbeResult";
    // What was said of the old copies is not told of the new ones.
    addon.until_condition(2, "Configured", "False/WaitingForTurn: at most 1 at a time").await;
    addon.until_waiting("all", &waits(unknown)).await;
    addon.copies("d", 1, 0, 2).await;
    let name = addon.object("d", 1);
    let down = |words: &str| format!("False/ProbeUnavailable: Deployment default/{name}: {words}");
    addon.until_condition(1, "Available", &down("0 of 2 replicas are updated.")).await;
    addon.until_waiting("all", &waits("Available is False/ProbeUnavailable")).await;
    addon.copies("d", 1, 2, 1).await;
    eventually("the feedback is there", async || {
        let work = addon.work(1).await;
        let text = work["status"]["resourceStatus"].to_string();
        text.contains(r#""integer":1"#).then_some(())
    })
    .await;
    assert_eq!(addon.runs(2).await.as_deref(), Some("v1"));
    addon.copies("d", 1, 2, 2).await;
    addon.until_done(2, "v2", "v1").await;
}

pub(crate) async fn healthy_criteria_wait_for_heartbeat_after_change(theatre: &Theatre) {
    let fleet = Fleet::new(theatre, 2).await;
    let addon = fleet.addon();
    addon.publish(&["v1"]).await;
    fleet.placement("all", json!({})).await;
    let mut pace = progressive(json!({"maxConcurrency": 1}));
    pace["successCriteria"] = json!("Healthy");
    // All follow the default: what they are asked for does not change when that moves.
    addon.place(json!([addon.paced("all", "", pace)])).await;
    addon.until_done(1, "v1", "").await;
    let waits = |why: &str| format!("at most 1 at a time: {} ({why})", fleet.cluster(1));
    addon.until_waiting("all", &waits("Heartbeat is not reported")).await;
    beats_until_done(&addon, 1, 2, "C=v1 L= ").await;
    addon.until_condition(1, "Heartbeat", "True/ReceivingHeartbeats: all is well").await;
    beats_until_completed(&addon, 2, "v1").await;

    addon.publish(&["v2"]).await;
    addon.until_done(1, "v2", "v1").await;
    addon.until_waiting("all", &waits("no heartbeat since it was applied")).await;
    fleet.pass(30).await;
    assert_eq!(addon.runs(2).await.as_deref(), Some("v1"), "what was heard before does not count");
    beats_until_done(&addon, 1, 2, "C=v2 L=v1 ").await;
    beats_until_completed(&addon, 2, "v2").await;
}

/// The add-on beats on a cluster until another is done.
async fn beats_until_done(addon: &Addon<'_>, beating: usize, other: usize, wanted: &str) {
    eventually(&format!("c{other} says {wanted}"), async || {
        addon.beat(beating).await;
        addon.said(other).await.starts_with(wanted).then_some(())
    })
    .await;
}

async fn beats_until_completed(addon: &Addon<'_>, beating: usize, version: &str) {
    eventually(&format!("all have {version}"), async || {
        addon.beat(beating).await;
        let whole = addon.fleet.hub.get(addon.management_path()).await.json();
        let one = &whole["status"]["installProgressions"][0];
        (one["version"] == version && one["counts"]["succeeded"] == 2).then_some(())
    })
    .await;
}
