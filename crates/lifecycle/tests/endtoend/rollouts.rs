//! Rollout strategies with real agents: limits, deadlines, decision groups and success criteria.

use std::collections::BTreeMap;
use std::time::Duration;

use bellwether_testkit::eventually;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::fleet::{ADDONS, Addon, Environment, Fleet, WORKS, find_condition};

/// Creates an add-on and waits until v1 is installed on all clusters of the fleet, which the placement `all`
/// selects.
async fn install_v1<'f>(fleet: &'f Fleet<'f>, versions: &[&str]) -> Addon<'f> {
    let addon = fleet.new_addon();
    addon.create_versions(versions).await;
    fleet.create_placement_with_groups("all", json!(2)).await;
    addon.set_placements(json!([addon.placement_strategy("all", "v1")])).await;
    for number in 1..=fleet.size() {
        addon.wait_for_success(number, "v1", "").await;
    }
    addon
}

fn progressive_rollout(settings: Value) -> Value {
    json!({"type": "Progressive", "progressive": settings})
}

pub(crate) async fn timed_out_clusters_count_as_failures_and_stop_rollout(environment: &Environment) {
    let fleet = Fleet::new(environment, 4).await;
    let addon = install_v1(&fleet, &["v1", "v2"]).await;
    // Two clusters start and never finish. If one of them times out slightly before the other, cluster 3
    // starts too.
    for stuck in [1, 2, 3] {
        fleet.stop_agent(stuck);
    }
    let rollout =
        progressive_rollout(json!({"maxConcurrency": 2, "progressDeadline": "5s", "maxFailures": 1}));
    addon.set_placements(json!([addon.placement_strategy_with_rollout("all", "v2", rollout)])).await;
    for stuck in [1, 2] {
        let expected = "C=unknown L=v1 False/Failed: could not upgrade to version v2: timed out after 5s";
        addon.wait_for_status(stuck, expected).await;
    }
    let stopped =
        format!("the rollout stopped: 2 failed, 1 may: {}, {}", fleet.cluster_name(1), fleet.cluster_name(2));
    let three = format!("the rollout stopped: 3 failed, 1 may: {}, ", fleet.cluster_name(1));
    eventually("cluster 4 waits because the rollout stopped", async || {
        let configured = addon.condition(4, "Configured").await;
        let reason = configured.strip_prefix("False/WaitingForTurn: ")?.to_owned();
        (reason == stopped || reason.starts_with(&three)).then_some(())
    })
    .await;
    eventually("the ClusterManagementAddOn counts the timed-out clusters", async || {
        let object = fleet.hub.get(addon.management_addon_path()).await.json();
        let counts = &object["status"]["installProgressions"][0]["counts"];
        (counts["timedOut"].as_i64() >= Some(2)).then_some(())
    })
    .await;
    assert_eq!(addon.running_version(4).await.as_deref(), Some("v1"));
    // With only cluster 2 still timed out, the failures are within the limit and the rollout continues.
    fleet.start_agent(1);
    fleet.start_agent(3);
    for number in [1, 3, 4] {
        addon.wait_for_success(number, "v2", "v1").await;
    }
    addon.wait_for_progression("all", "False/Failed: 3 of 4 clusters have it, 1 took too long.").await;
    assert_eq!(addon.running_version(2).await.as_deref(), Some("v1"));
}

fn transition_time(object: &Value, type_: &str) -> Timestamp {
    find_condition(object, type_)["lastTransitionTime"].as_str().unwrap().parse().unwrap()
}

pub(crate) async fn next_group_waits_for_soak_time_of_previous(environment: &Environment) {
    let fleet = Fleet::new(environment, 4).await;
    let addon = install_v1(&fleet, &["v1", "v2"]).await;
    let rollout = json!({"type": "ProgressivePerGroup", "progressivePerGroup": {"minSuccessTime": "5s"}});
    addon.set_placements(json!([addon.placement_strategy_with_rollout("all", "v2", rollout)])).await;
    for first in [1, 2] {
        addon.wait_for_success(first, "v2", "v1").await;
    }
    let objects = [addon.get_addon(1).await, addon.get_addon(2).await];
    let succeeded = objects.iter().map(|object| transition_time(object, "Progressing")).max().unwrap();
    let end = succeeded + SignedDuration::from_secs(5);
    // No cluster of the next group starts during the soak time. The clock is read after the objects, so what
    // is checked was read before the end.
    let mut checks = 0;
    loop {
        let mut early = Vec::new();
        for next in [3, 4] {
            early.push((
                addon.status_line(next).await,
                addon.get_work(next).await["metadata"]["generation"].clone(),
            ));
        }
        if bellwether_clock::Clock::now(&fleet.clock) >= end {
            break;
        }
        for (status, generation) in early {
            assert!(status.starts_with("C=v1 "), "{status}");
            assert_eq!(generation, 1);
        }
        checks += 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(checks > 0, "the soak time was over before the first check");
    for next in [3, 4] {
        addon.wait_for_success(next, "v2", "v1").await;
    }
    let later = [addon.get_addon(3).await, addon.get_addon(4).await];
    for object in &later {
        assert!(transition_time(object, "Progressing") >= end, "{object:#}");
    }
}

pub(crate) async fn mandatory_group_changes_first_and_its_failure_stops_rollout(environment: &Environment) {
    let fleet = Fleet::new(environment, 3).await;
    // The canary is not the first cluster by name, so that the group decides the order.
    fleet.label_cluster(2, json!({"canary": "true"})).await;
    let addon = install_v1(&fleet, &["v1"]).await;
    // An immutable ConfigMap of the same name on the canary makes the apply of v2 fail there.
    let immutable = json!({"apiVersion": "v1", "kind": "ConfigMap", "immutable": true, "data": {"k": "theirs"},
        "metadata": {"name": addon.object_name("more", 2), "namespace": "default"}});
    let canary = fleet.spoke(2);
    canary.post("/api/v1/namespaces/default/configmaps", &immutable).await.expect(201);
    addon.create_version_with("v2", json!([addon.config_map("more", json!({"k": "ours"}))])).await;
    let rollout = progressive_rollout(
        json!({"mandatoryDecisionGroups": [{"groupName": "canary"}], "maxFailures": "100%"}),
    );
    addon.set_placements(json!([addon.placement_strategy_with_rollout("all", "v2", rollout)])).await;
    let beginning = format!(
        "C=unknown L=v1 False/Failed: could not upgrade to version v2: work addon-{}-deploy-0: Failed to apply manifest work: \
         ConfigMap default/{}: ",
        addon.name,
        addon.object_name("more", 2)
    );
    eventually("the canary fails", async || addon.status_line(2).await.starts_with(&beginning).then_some(()))
        .await;
    let stopped =
        format!("False/WaitingForTurn: the rollout stopped: 1 failed, 0 may: {}", fleet.cluster_name(2));
    for other in [1, 3] {
        addon.wait_for_condition(other, "Configured", &stopped).await;
        assert_eq!(addon.running_version(other).await.as_deref(), Some("v1"));
    }
    canary.delete(addon.config_map_path("more", 2)).await.expect(200);
    for number in [2, 1, 3] {
        addon.wait_for_success(number, "v2", "v1").await;
        assert_eq!(addon.running_version(number).await.as_deref(), Some("v2"));
    }
}

pub(crate) async fn clusters_change_one_by_one_without_early_works(environment: &Environment) {
    let fleet = Fleet::new(environment, 5).await;
    let addon = fleet.new_addon();
    addon.create_versions(&["v1"]).await;
    fleet.create_placement("all", json!({})).await;
    let start_version = fleet.resource_version().await;
    let watch = async |path: &str| {
        fleet.hub.watch(format!("{path}?watch=true&resourceVersion={start_version}")).await
    };
    let mut addons = watch(&format!("{ADDONS}/managedclusteraddons")).await;
    let mut works = watch(&format!("{WORKS}/manifestworks")).await;
    addon
        .set_placements(json!([addon.placement_strategy_with_rollout(
            "all",
            "v1",
            progressive_rollout(json!({"maxConcurrency": 1}))
        )]))
        .await;
    for number in 1..=5 {
        addon.wait_for_success(number, "v1", "").await;
    }
    // When the ManifestWork of each cluster was created and when its change succeeded, by resourceVersion.
    let mut order: BTreeMap<u64, (&str, String)> = BTreeMap::new();
    let revision =
        |object: &Value| -> u64 { object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap() };
    let cluster_of = |object: &Value| object["metadata"]["namespace"].as_str().unwrap().to_owned();
    let (mut done, mut created) = (0, 0);
    while created < 5 {
        let object = works.event().await.object;
        let ours =
            object["metadata"]["labels"]["open-cluster-management.io/addon-name"] == addon.name.as_str();
        if ours && object["metadata"]["generation"] == 1 && object["status"].is_null() {
            let first = !order.values().any(|(step, at)| *step == "created" && *at == cluster_of(&object));
            created += usize::from(first);
            if first {
                order.insert(revision(&object), ("created", cluster_of(&object)));
            }
        }
    }
    while done < 5 {
        let object = addons.event().await.object;
        let ours = object["metadata"]["name"] == addon.name.as_str();
        if ours && find_condition(&object, "Progressing")["reason"] == "Succeed" {
            let first = !order.values().any(|(step, at)| *step == "done" && *at == cluster_of(&object));
            done += usize::from(first);
            if first {
                order.insert(revision(&object), ("done", cluster_of(&object)));
            }
        }
    }
    let order: Vec<(&str, String)> = order.into_values().collect();
    let wanted: Vec<(&str, String)> = (1..=5)
        .flat_map(|number| [("created", fleet.cluster_name(number)), ("done", fleet.cluster_name(number))])
        .collect();
    assert_eq!(order, wanted);
}

pub(crate) async fn workload_criteria_wait_for_updated_replicas(environment: &Environment) {
    let fleet = Fleet::new(environment, 2).await;
    let addon = fleet.new_addon();
    addon.create_version_with("v1", json!([addon.deployment("d", "example/main:1")])).await;
    addon.create_version_with("v2", json!([addon.deployment("d", "example/main:2")])).await;
    fleet.create_placement("all", json!({})).await;
    addon.set_placements(json!([addon.placement_strategy("all", "v1")])).await;
    for number in [1, 2] {
        addon.wait_for_image("d", number, "example/main:1").await;
        addon.set_replicas("d", number, 2, 2).await;
        addon.wait_for_success(number, "v1", "").await;
        addon
            .wait_for_condition(number, "Available", "True/ProbeAvailable: 1 workload(s) are available.")
            .await;
    }
    let mut rollout = progressive_rollout(json!({"maxConcurrency": 1}));
    rollout["successCriteria"] = json!("WorkloadAvailable");
    addon.set_placements(json!([addon.placement_strategy_with_rollout("all", "v2", rollout)])).await;
    addon.wait_for_success(1, "v2", "v1").await;
    let waiting_for = |why: &str| format!("at most 1 at a time: {} ({why})", fleet.cluster_name(1));
    let unknown = "Available is Unknown/NoProbeResult";
    // Feedback about the replicas of v1 does not count for v2.
    addon.wait_for_condition(2, "Configured", "False/WaitingForTurn: at most 1 at a time").await;
    addon.wait_for_wait_reason("all", &waiting_for(unknown)).await;
    addon.set_replicas("d", 1, 0, 2).await;
    let name = addon.object_name("d", 1);
    let unavailable = |message: &str| format!("False/ProbeUnavailable: Deployment default/{name}: {message}");
    addon.wait_for_condition(1, "Available", &unavailable("0 of 2 replicas are updated.")).await;
    addon.wait_for_wait_reason("all", &waiting_for("Available is False/ProbeUnavailable")).await;
    addon.set_replicas("d", 1, 2, 1).await;
    eventually("the agent has reported the feedback", async || {
        let work = addon.get_work(1).await;
        let text = work["status"]["resourceStatus"].to_string();
        text.contains(r#""integer":1"#).then_some(())
    })
    .await;
    assert_eq!(addon.running_version(2).await.as_deref(), Some("v1"));
    addon.set_replicas("d", 1, 2, 2).await;
    addon.wait_for_success(2, "v2", "v1").await;
}

pub(crate) async fn healthy_criteria_wait_for_heartbeat_after_change(environment: &Environment) {
    let fleet = Fleet::new(environment, 2).await;
    let addon = fleet.new_addon();
    addon.create_versions(&["v1"]).await;
    fleet.create_placement("all", json!({})).await;
    let mut rollout = progressive_rollout(json!({"maxConcurrency": 1}));
    rollout["successCriteria"] = json!("Healthy");
    // All clusters follow the default version, so the add-on's spec does not change with a new default.
    addon.set_placements(json!([addon.placement_strategy_with_rollout("all", "", rollout)])).await;
    addon.wait_for_success(1, "v1", "").await;
    let waiting_for = |why: &str| format!("at most 1 at a time: {} ({why})", fleet.cluster_name(1));
    addon.wait_for_wait_reason("all", &waiting_for("Heartbeat is not reported")).await;
    send_heartbeats_until_status(&addon, 1, 2, "C=v1 L= ").await;
    addon.wait_for_condition(1, "Heartbeat", "True/ReceivingHeartbeats: all components are available").await;
    send_heartbeats_until_completed(&addon, 2, "v1").await;

    addon.create_versions(&["v2"]).await;
    addon.wait_for_success(1, "v2", "v1").await;
    addon.wait_for_wait_reason("all", &waiting_for("no heartbeat since it was applied")).await;
    fleet.sleep(30).await;
    assert_eq!(
        addon.running_version(2).await.as_deref(),
        Some("v1"),
        "heartbeats from before the change do not count"
    );
    send_heartbeats_until_status(&addon, 1, 2, "C=v2 L=v1 ").await;
    send_heartbeats_until_completed(&addon, 2, "v2").await;
}

/// Sends heartbeats on one cluster until the status line of another cluster begins as wanted.
async fn send_heartbeats_until_status(addon: &Addon<'_>, sender: usize, other: usize, wanted: &str) {
    eventually(&format!("status of c{other} begins with {wanted}"), async || {
        addon.send_heartbeat(sender).await;
        addon.status_line(other).await.starts_with(wanted).then_some(())
    })
    .await;
}

/// Sends heartbeats on one cluster until the rollout of a version has succeeded on both clusters.
async fn send_heartbeats_until_completed(addon: &Addon<'_>, sender: usize, version: &str) {
    eventually(&format!("both clusters have {version}"), async || {
        addon.send_heartbeat(sender).await;
        let object = addon.fleet.hub.get(addon.management_addon_path()).await.json();
        let one = &object["status"]["installProgressions"][0];
        (one["version"] == version && one["counts"]["succeeded"] == 2).then_some(())
    })
    .await;
}
