//! The acceptance cases (H…) and the answered questions (Q…) of the specification.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bellwether_heartbeat::checker::{PendingPolicy, Settings};
use bellwether_runtime::{Context, Leadership};
use bellwether_testkit::{Tap, eventually};
use http::Method;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::fixture::{Fixture, HEALTHY};

/// H2
pub(crate) async fn instance_without_heartbeats_is_not_written(fixture: &Fixture<'_>) {
    let tap = fixture.start_checker();
    let silent = fixture.create_instance("silent").await;
    let before = silent.version().await;
    fixture.sleep(fixture.period * 6).await;
    let after = silent.read().await;
    assert_eq!(after["metadata"]["resourceVersion"], before.as_str());
    assert_eq!(after.get("status"), None, "{after:#}");
    assert_eq!(tap.requests(), []);
}

/// Q3
pub(crate) async fn pending_is_reported_if_enabled(fixture: &Fixture<'_>) {
    let settings = Settings { pending_policy: PendingPolicy::Report, ..Settings::default() };
    fixture.start_checker_with(settings);
    let instance = fixture.create_instance("pending").await;
    instance.wait_for_healthy("Unknown", "PendingFirstHeartbeat").await;
    assert_eq!(instance.condition(HEALTHY).await["message"], "Waiting for first heartbeat.");
    instance.send_heartbeat().await;
    instance.wait_for_healthy("True", "ReceivingHeartbeats").await;
}

/// H3
pub(crate) async fn heartbeats_cause_no_requests(fixture: &Fixture<'_>) {
    let tap = fixture.start_checker();
    let instance = fixture.create_instance("alive").await;
    for _ in 0..6 {
        let reported = instance.report("True", "ComponentsUp").await;
        fixture.sleep(fixture.period).await;
        let now = instance.read().await;
        assert_eq!(now["metadata"]["resourceVersion"], reported["metadata"]["resourceVersion"]);
    }
    assert_eq!(tap.requests(), [], "in steady state nothing is read or written");
}

/// H4
pub(crate) async fn silence_is_marked_once_and_other_fields_are_kept(fixture: &Fixture<'_>) {
    let tap = fixture.start_checker();
    let instance = fixture.create_instance("falls-silent").await;
    let reported = instance.report("True", "ComponentsUp").await;
    let heartbeat: jiff::Timestamp =
        reported["status"]["lastHeartbeatTime"].as_str().unwrap().parse().unwrap();

    let after = instance.wait_for_timeout_since(heartbeat).await;
    assert!(after >= fixture.threshold(), "after {after:?}");
    assert!(after <= fixture.threshold() + fixture.tolerance(), "after {after:?}");
    let marked = instance.read().await;
    let healthy = instance.condition(HEALTHY).await;
    assert_eq!(healthy["message"], "Addon failed to send heartbeat.");
    assert_eq!(healthy["observedGeneration"], 1);
    let since: jiff::Timestamp = healthy["lastTransitionTime"].as_str().unwrap().parse().unwrap();
    assert!(since.duration_since(heartbeat) >= SignedDuration::try_from(fixture.threshold()).unwrap());
    assert_eq!(marked["status"]["observedGeneration"], 1);
    assert_eq!(marked["status"]["lastHeartbeatTime"], reported["status"]["lastHeartbeatTime"]);
    assert_eq!(marked["status"]["conditions"][0], reported["status"]["conditions"][0]);

    fixture.sleep(fixture.threshold()).await;
    assert_eq!(instance.read().await, marked, "the timeout is written once");
    assert_eq!(tap.writes().len(), 1, "{:?}", tap.writes());
    let text = fixture.metrics.text();
    for line in [
        r#"bellwether_heartbeat_instances{cluster="hub",state="silent"} 1"#,
        r#"bellwether_heartbeat_timeouts_total{cluster="hub"} 1"#,
        r#"bellwether_heartbeat_detection_delay_seconds_count{cluster="hub"} 1"#,
    ] {
        // On real Kubernetes, instances of other scenarios are counted too.
        assert!(fixture.cluster.is_kubernetes() || text.contains(line), "{line} is not in\n{text}");
    }
}

/// H5
pub(crate) async fn report_of_a_recovered_addon_is_kept(fixture: &Fixture<'_>) {
    fixture.start_checker();
    let instance = fixture.create_instance("recovers").await;
    let heartbeat = fixture.now();
    instance.report("True", "ComponentsUp").await;
    instance.wait_for_timeout_since(heartbeat).await;
    for _ in 0..3 {
        instance.report("False", "ComponentDown").await;
        fixture.sleep(fixture.period).await;
        assert_eq!(instance.healthy().await, ("False".into(), "ComponentDown".into()));
    }
    let recovered = r#"bellwether_heartbeat_recoveries_total{cluster="hub"} 1"#;
    let text = fixture.metrics.text();
    assert!(fixture.cluster.is_kubernetes() || text.contains(recovered), "{text}");
}

/// H6, Q2
pub(crate) async fn heartbeat_without_conditions_clears_a_timeout(fixture: &Fixture<'_>) {
    let tap = fixture.start_checker();
    let instance = fixture.create_instance("heartbeat-only").await;
    let heartbeat = fixture.now();
    instance.report("False", "ComponentDown").await;
    instance.wait_for_timeout_since(heartbeat).await;
    instance.send_heartbeat().await;
    instance.wait_for_healthy("True", "ReceivingHeartbeats").await;
    assert_eq!(instance.condition(HEALTHY).await["message"], "Heartbeat received within threshold.");
    assert_eq!(tap.writes().len(), 2);
}

/// H7, Q12
pub(crate) async fn old_heartbeat_time_is_a_timeout_at_startup(fixture: &Fixture<'_>) {
    let instance = fixture.create_instance("old").await;
    instance.send_heartbeat_with_offset(SignedDuration::from_hours(-1)).await;
    let began = fixture.now();
    fixture.start_checker();
    assert!(instance.wait_for_timeout_since(began).await <= Duration::from_secs(2));
}

/// H8, Q8
pub(crate) async fn slow_clock_of_an_addon_causes_no_timeout(fixture: &Fixture<'_>) {
    let tap = fixture.start_checker();
    let instance = fixture.create_instance("lags").await;
    eventually("the checker has indexed the instance", || async {
        let never = r#"bellwether_heartbeat_instances{cluster="hub",state="never"} "#;
        let text = fixture.metrics.text();
        let count = text.lines().find_map(|line| line.strip_prefix(never));
        count.is_some_and(|count| count != "0").then_some(())
    })
    .await;
    for _ in 0..6 {
        instance.send_heartbeat_with_offset(SignedDuration::from_mins(-5)).await;
        fixture.sleep(fixture.period).await;
        assert_eq!(instance.healthy().await, ("True".into(), "ReceivingHeartbeats".into()));
    }
    assert_eq!(tap.writes().len(), 1, "only the first heartbeat causes a write: {:?}", tap.writes());
}

/// H9, Q9
pub(crate) async fn heartbeat_time_in_the_future_is_ignored(fixture: &Fixture<'_>) {
    fixture.start_checker();
    let instance = fixture.create_instance("future").await;
    let received = fixture.now();
    instance.set_heartbeat_time("2099-01-01T00:00:00Z".parse().unwrap()).await;
    instance.wait_for_healthy("True", "ReceivingHeartbeats").await;
    let after = instance.wait_for_timeout_since(received).await;
    assert!(after >= fixture.threshold(), "after {after:?}");
    assert!(after <= fixture.threshold() + fixture.tolerance(), "after {after:?}");
}

/// Q10
pub(crate) async fn earlier_heartbeat_time_counts_as_a_heartbeat(fixture: &Fixture<'_>) {
    fixture.start_checker();
    let instance = fixture.create_instance("backwards").await;
    for minutes in 0..6 {
        instance.send_heartbeat_with_offset(SignedDuration::from_mins(-minutes)).await;
        instance.wait_for_healthy("True", "ReceivingHeartbeats").await;
        fixture.sleep(fixture.period).await;
    }
    assert!(!instance.is_timed_out().await);
}

/// H11
pub(crate) async fn threshold_follows_the_period_of_the_instance(fixture: &Fixture<'_>) {
    fixture.start_checker();
    let instance =
        fixture.create_instance_with_spec("own-period", json!({"heartbeatUpdatePeriod": "2s"})).await;
    let heartbeat = fixture.now();
    instance.send_heartbeat().await;
    let after = instance.wait_for_timeout_since(heartbeat).await;
    // lastHeartbeatTime has whole seconds, so it may be up to one second before the heartbeat.
    assert!(after >= Duration::from_secs(5), "after {after:?}");
    assert!(after <= Duration::from_secs(6) + fixture.tolerance(), "after {after:?}");
}

/// H12
pub(crate) async fn longer_period_extends_the_threshold(fixture: &Fixture<'_>) {
    let tap = fixture.start_checker();
    let instance = fixture.create_instance("longer").await;
    let heartbeat = fixture.now();
    instance.report("True", "ComponentsUp").await;
    fixture.sleep(fixture.period * 2).await;
    let longer = json!({"spec": {"heartbeatUpdatePeriod": format!("{}s", 6 * fixture.period.as_secs())}});
    fixture.cluster.merge(&instance.path, &longer).await.expect(200);
    fixture.sleep(fixture.period * 15).await;
    assert_eq!(tap.writes(), [], "timeout within {:?} after the last heartbeat", fixture.period * 17);
    let after = instance.wait_for_timeout_since(heartbeat).await;
    assert!(after >= fixture.period * 18 - Duration::from_secs(1), "after {after:?}");
    assert!(after <= fixture.period * 18 + fixture.tolerance(), "after {after:?}");
}

/// H13, Q13
pub(crate) async fn restart_during_a_timeout_writes_nothing(fixture: &Fixture<'_>) {
    fixture.start_checker();
    let path = {
        let instance = fixture.create_instance("restart").await;
        let heartbeat = fixture.now();
        instance.report("True", "ComponentsUp").await;
        instance.wait_for_timeout_since(heartbeat).await;
        instance.path
    };
    let before = fixture.cluster.get(&path).await.expect(200);
    fixture.kill_checker();
    let tap = fixture.start_checker();
    fixture.sleep(fixture.threshold() * 2).await;
    assert_eq!(fixture.cluster.get(&path).await.expect(200), before);
    assert_eq!(tap.writes(), []);
}

/// H14, Q16
pub(crate) async fn heartbeat_during_the_timeout_write_wins(fixture: &Fixture<'_>) {
    let tap = fixture.start_checker();
    let instance = fixture.create_instance("races").await;
    instance.report("True", "ComponentsUp").await;
    let (client, clock) = (fixture.cluster.client(), fixture.clock);
    let path = instance.path.clone();
    // The heartbeat is written between the checker's read and its write.
    tap.before(Method::PUT, "/addoninstances/races/status", move || async move {
        let now = crate::fixture::format_seconds(bellwether_clock::Clock::now(&clock));
        let body = json!({"status": {"lastHeartbeatTime": now}}).to_string();
        let request = http::Request::patch(format!("{path}/status"))
            .header("content-type", "application/merge-patch+json")
            .body(body.into_bytes().into())
            .unwrap();
        let response = client.send(request).await.unwrap();
        assert!(response.status().is_success(), "{}", response.status());
    });
    fixture.sleep(fixture.threshold()).await;
    eventually("the checker tried to write", || async { (!tap.is_set()).then_some(()) }).await;
    fixture.sleep(fixture.period).await;
    assert_eq!(instance.healthy().await, ("True".into(), "ComponentsUp".into()));
    assert_eq!(tap.writes().len(), 1, "only the write that conflicted: {:?}", tap.writes());
}

/// Q18
pub(crate) async fn removed_heartbeat_time_stops_the_check(fixture: &Fixture<'_>) {
    let tap = fixture.start_checker();
    let instance = fixture.create_instance("removed").await;
    instance.report("True", "ComponentsUp").await;
    fixture.sleep(fixture.period).await;
    instance.merge_status(json!({"lastHeartbeatTime": null})).await;
    fixture.sleep(fixture.threshold() * 2).await;
    assert_eq!(instance.healthy().await, ("True".into(), "ComponentsUp".into()));
    assert_eq!(tap.writes(), []);
}

/// Q20
pub(crate) async fn instance_being_deleted_is_not_checked(fixture: &Fixture<'_>) {
    let tap = fixture.start_checker();
    let instance = fixture.create_instance("deleted").await;
    let held = json!({"metadata": {"finalizers": ["example.com/held"]}});
    fixture.cluster.merge(&instance.path, &held).await.expect(200);
    instance.report("True", "ComponentsUp").await;
    fixture.cluster.delete(&instance.path).await.expect(200);
    fixture.sleep(fixture.threshold() * 2).await;
    assert_eq!(instance.healthy().await, ("True".into(), "ComponentsUp".into()));
    assert_eq!(tap.writes(), []);
    let freed = json!({"metadata": {"finalizers": null}});
    fixture.cluster.merge(&instance.path, &freed).await.expect(200);
}

/// Q20
pub(crate) async fn instance_marked_for_deletion_is_checked(fixture: &Fixture<'_>) {
    fixture.start_checker();
    let period = format!("{}s", fixture.period.as_secs());
    let spec = json!({"heartbeatUpdatePeriod": period, "markedForDeletion": true});
    let instance = fixture.create_instance_with_spec("marked", spec).await;
    let heartbeat = fixture.now();
    instance.send_heartbeat().await;
    instance.wait_for_timeout_since(heartbeat).await;
}

/// Q15
pub(crate) async fn standby_writes_nothing_until_it_becomes_leader(fixture: &Fixture<'_>) {
    let (client, tap) = Tap::on(fixture.cluster.client());
    let (leader, leadership) = Leadership::manual();
    fixture.start_checker_in(Context { client, leadership, ..fixture.context() }, Settings::default());
    let instance = fixture.create_instance("standby").await;
    let lagging = fixture.create_instance("lags").await;
    let heartbeat = fixture.now();
    instance.send_heartbeat().await;
    for _ in 0..5 {
        lagging.send_heartbeat_with_offset(SignedDuration::from_mins(-5)).await;
        fixture.sleep(fixture.period).await;
    }
    assert_eq!(tap.requests(), [], "a standby only watches");
    leader.send(true).unwrap();
    lagging.send_heartbeat_with_offset(SignedDuration::from_mins(-5)).await;
    instance.wait_for_timeout_since(heartbeat).await;
    // The standby has received the heartbeats of this one all the time.
    lagging.wait_for_healthy("True", "ReceivingHeartbeats").await;
}

/// Q15: a standby may run for months, while instances are created, become silent and are deleted.
pub(crate) async fn standby_forgets_deleted_instances(fixture: &Fixture<'_>) {
    let (client, tap) = Tap::on(fixture.cluster.client());
    let (leader, leadership) = Leadership::manual();
    fixture.start_checker_in(Context { client, leadership, ..fixture.context() }, Settings::default());
    let instance = fixture.create_instance("deleted-later").await;
    instance.send_heartbeat().await;
    fixture.sleep(fixture.threshold() * 2).await;
    fixture.cluster.delete(&instance.path).await.expect(200);
    fixture.sleep(fixture.period).await;
    leader.send(true).unwrap();
    fixture.sleep(fixture.period).await;
    assert_eq!(tap.requests(), [], "there is no instance to reconcile");
}

/// While the API server is unreachable, the checker receives no heartbeats, but must not mark instances that send them.
pub(crate) async fn api_outage_causes_no_false_timeout(fixture: &Fixture<'_>) {
    let up = Arc::new(AtomicBool::new(true));
    let service = tower::service_fn({
        let (client, up) = (fixture.cluster.client(), up.clone());
        move |request: http::Request<kube::client::Body>| {
            let (client, up) = (client.clone(), up.clone());
            async move {
                if !up.load(Ordering::Relaxed) {
                    return Err(kube::Error::Service("the API server is down".into()));
                }
                client.send(request).await
            }
        }
    });
    // The open watch is not interrupted, but that does not matter: the checker reads an instance before it writes.
    let (client, tap) = Tap::on(kube::Client::new(service, "default"));
    fixture.start_checker_in(Context { client, ..fixture.context() }, Settings::default());
    let alive = fixture.create_instance("alive").await;
    let silent = fixture.create_instance("silent").await;
    let heartbeat = fixture.now();
    alive.report("True", "ComponentsUp").await;
    silent.report("True", "ComponentsUp").await;
    up.store(false, Ordering::Relaxed);
    for _ in 0..5 {
        fixture.sleep(fixture.period).await;
        alive.send_heartbeat().await;
    }
    assert!(!silent.is_timed_out().await);
    up.store(true, Ordering::Relaxed);
    silent.wait_for_timeout_since(heartbeat).await;
    alive.send_heartbeat().await;
    fixture.sleep(fixture.period).await;
    assert_eq!(alive.healthy().await, ("True".into(), "ComponentsUp".into()));
    assert!(tap.writes().iter().all(|write| write.path.contains("/silent/")), "{:?}", tap.writes());
}

/// H15
pub(crate) async fn heartbeats_of_many_instances_cause_no_requests(fixture: &Fixture<'_>) {
    let (count, repetitions) = if fixture.cluster.is_kubernetes() { (50, 8) } else { (1000, 30) };
    let tap = fixture.start_checker();
    let mut instances = Vec::new();
    for number in 0..count {
        instances.push(fixture.create_instance(&format!("one-of-many-{number}")).await);
    }
    for instance in &instances {
        instance.report("True", "ComponentsUp").await;
    }
    for _ in 0..repetitions {
        fixture.sleep(fixture.period).await;
        for instance in &instances {
            instance.send_heartbeat().await;
        }
    }
    assert_eq!(tap.requests(), []);
}

/// H10, Q6, Q7, and a heartbeat time in 2099: invalid periods count as ten seconds, cause one event each, and do not affect
/// other instances.
pub(crate) async fn invalid_periods_count_as_ten_seconds(fixture: &Fixture<'_>) {
    let multiplier = NonZeroU32::new(3).unwrap();
    let tap = fixture.start_checker_with(Settings { timeout_multiplier: multiplier, ..Settings::default() });
    let specs: [(&str, Value); 5] = [
        ("zero", json!({"heartbeatUpdatePeriod": "0s"})),
        ("negative", json!({"heartbeatUpdatePeriod": "-5s"})),
        ("banana", json!({"heartbeatUpdatePeriod": "banana"})),
        ("empty", json!({"heartbeatUpdatePeriod": ""})),
        ("no-spec", Value::Null),
    ];
    let valid = fixture.create_instance("valid").await;
    let future = fixture.create_instance("future").await;
    let mut invalid = Vec::new();
    for (name, spec) in specs {
        invalid.push(fixture.create_instance_with_spec(name, spec).await);
    }
    let heartbeat = fixture.now();
    valid.report("True", "ComponentsUp").await;
    future.set_heartbeat_time("2099-01-01T00:00:00Z".parse().unwrap()).await;
    for instance in &invalid {
        instance.send_heartbeat().await;
        instance.wait_for_healthy("True", "ReceivingHeartbeats").await;
    }
    fixture.send_heartbeats_for(Duration::from_secs(25), &[&valid]).await;
    for instance in invalid.iter().chain([&future]) {
        let after = instance.wait_for_timeout_since(heartbeat).await;
        assert!(after >= Duration::from_secs(29), "{} after {after:?}", instance.path);
        // One more second, because the heartbeats are sent one after the other.
        assert!(after <= Duration::from_secs(31) + fixture.tolerance(), "{} after {after:?}", instance.path);
    }
    assert_eq!(valid.healthy().await, ("True".into(), "ComponentsUp".into()));
    let events =
        fixture.cluster.get(format!("/apis/events.k8s.io/v1/namespaces/{}/events", fixture.namespace)).await;
    let events = events.expect(200);
    let mut warned: Vec<String> = events["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["reason"] == "InvalidHeartbeatUpdatePeriod")
        .map(|event| event["regarding"]["name"].as_str().unwrap().to_owned())
        .collect();
    warned.sort();
    assert_eq!(warned, ["banana", "empty", "negative", "no-spec", "zero"]);
    let specs = tap.writes().into_iter().filter(|write| write.path.ends_with("addoninstances"));
    assert_eq!(specs.count(), 0, "the checker writes specs");
}

/// H3, H4 and H5 in one run, in real time.
pub(crate) async fn a_minute_of_heartbeats_then_silence_then_recovery(fixture: &Fixture<'_>) {
    let tap = fixture.start_checker();
    let instance = fixture.create_instance("in-real-time").await;
    for _ in 0..6 {
        let reported = instance.report("True", "ComponentsUp").await;
        fixture.sleep(fixture.period).await;
        assert_eq!(instance.version().await, reported["metadata"]["resourceVersion"].as_str().unwrap());
    }
    assert_eq!(tap.requests(), []);
    let reported = instance.report("True", "ComponentsUp").await;
    let heartbeat: jiff::Timestamp =
        reported["status"]["lastHeartbeatTime"].as_str().unwrap().parse().unwrap();
    let after = instance.wait_for_timeout_since(heartbeat).await;
    println!("marked as silent {after:?} after lastHeartbeatTime");
    assert!(after >= Duration::from_secs(30) && after <= Duration::from_secs(32), "after {after:?}");
    instance.report("False", "ComponentDown").await;
    fixture.sleep(fixture.period).await;
    assert_eq!(instance.healthy().await, ("False".into(), "ComponentDown".into()));
    assert_eq!(tap.writes().len(), 1);
}
