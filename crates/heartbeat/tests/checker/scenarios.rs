//! What the checker must do, sentence by sentence: the acceptance cases of the specification and its open questions.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bellwether_heartbeat::checker::{NeverBeaten, Settings};
use bellwether_runtime::{Context, Leadership};
use bellwether_testkit::{Tap, eventually};
use http::Method;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::stage::{HEALTHY, Stage};

/// H2
pub(crate) async fn an_instance_that_never_beat_is_left_alone(stage: &Stage<'_>) {
    let tap = stage.check();
    let silent = stage.instance("silent").await;
    let before = silent.version().await;
    stage.pass(stage.period * 6).await;
    let after = silent.read().await;
    assert_eq!(after["metadata"]["resourceVersion"], before.as_str());
    assert_eq!(after.get("status"), None, "{after:#}");
    assert_eq!(tap.requests(), []);
}

/// Q3
pub(crate) async fn pending_is_reported_only_if_asked_for(stage: &Stage<'_>) {
    let reported = Settings { never_beaten: NeverBeaten::Reported, ..Settings::default() };
    stage.check_with(reported);
    let instance = stage.instance("pending").await;
    instance.until("Unknown", "PendingFirstHeartbeat").await;
    assert_eq!(instance.condition(HEALTHY).await["message"], "Waiting for first heartbeat.");
    instance.pulse().await;
    instance.until("True", "ReceivingHeartbeats").await;
}

/// H3
pub(crate) async fn a_beating_addon_is_left_alone(stage: &Stage<'_>) {
    let tap = stage.check();
    let instance = stage.instance("beating").await;
    for _ in 0..6 {
        let reported = instance.report("True", "ComponentsUp").await;
        stage.pass(stage.period).await;
        let now = instance.read().await;
        assert_eq!(now["metadata"]["resourceVersion"], reported["metadata"]["resourceVersion"]);
    }
    assert_eq!(tap.requests(), [], "in steady state nothing is read or written");
}

/// H4
pub(crate) async fn silence_is_marked_once_and_the_rest_is_kept(stage: &Stage<'_>) {
    let tap = stage.check();
    let instance = stage.instance("falls-silent").await;
    let reported = instance.report("True", "ComponentsUp").await;
    let beat: jiff::Timestamp = reported["status"]["lastHeartbeatTime"].as_str().unwrap().parse().unwrap();

    let after = instance.silence_marked_after(beat).await;
    assert!(after >= stage.threshold(), "after {after:?}");
    assert!(after <= stage.threshold() + stage.slack(), "after {after:?}");
    let marked = instance.read().await;
    let healthy = instance.condition(HEALTHY).await;
    assert_eq!(healthy["message"], "Addon failed to send heartbeat.");
    assert_eq!(healthy["observedGeneration"], 1);
    let since: jiff::Timestamp = healthy["lastTransitionTime"].as_str().unwrap().parse().unwrap();
    assert!(since.duration_since(beat) >= SignedDuration::try_from(stage.threshold()).unwrap());
    assert_eq!(marked["status"]["observedGeneration"], 1);
    assert_eq!(marked["status"]["lastHeartbeatTime"], reported["status"]["lastHeartbeatTime"]);
    assert_eq!(marked["status"]["conditions"][0], reported["status"]["conditions"][0]);

    stage.pass(stage.threshold()).await;
    assert_eq!(instance.read().await, marked, "it is said once");
    assert_eq!(tap.writes().len(), 1, "{:?}", tap.writes());
    let text = stage.metrics.text();
    for line in [
        r#"bellwether_heartbeat_instances{cluster="hub",state="silent"} 1"#,
        r#"bellwether_heartbeat_timeouts_total{cluster="hub"} 1"#,
        r#"bellwether_heartbeat_judgement_lag_seconds_count{cluster="hub"} 1"#,
    ] {
        // Other scenarios leave instances behind where the cluster is shared.
        assert!(stage.cluster.is_kubernetes() || text.contains(line), "{line} is not in\n{text}");
    }
}

/// H5
pub(crate) async fn the_addons_own_word_stands_when_it_is_back(stage: &Stage<'_>) {
    stage.check();
    let instance = stage.instance("is-back").await;
    let beat = stage.now();
    instance.report("True", "ComponentsUp").await;
    instance.silence_marked_after(beat).await;
    for _ in 0..3 {
        instance.report("False", "ComponentDown").await;
        stage.pass(stage.period).await;
        assert_eq!(instance.healthy().await, ("False".into(), "ComponentDown".into()));
    }
    let recovered = r#"bellwether_heartbeat_recoveries_total{cluster="hub"} 1"#;
    let text = stage.metrics.text();
    assert!(stage.cluster.is_kubernetes() || text.contains(recovered), "{text}");
}

/// H6, Q2
pub(crate) async fn a_plain_pulse_clears_a_timeout(stage: &Stage<'_>) {
    let tap = stage.check();
    let instance = stage.instance("pulses").await;
    let beat = stage.now();
    instance.report("False", "ComponentDown").await;
    instance.silence_marked_after(beat).await;
    instance.pulse().await;
    instance.until("True", "ReceivingHeartbeats").await;
    assert_eq!(instance.condition(HEALTHY).await["message"], "Heartbeat received within threshold.");
    assert_eq!(tap.writes().len(), 2);
}

/// H7, Q12
pub(crate) async fn an_old_stamp_is_judged_at_first_sight(stage: &Stage<'_>) {
    let instance = stage.instance("old").await;
    instance.pulse_off_by(SignedDuration::from_hours(-1)).await;
    let began = stage.now();
    stage.check();
    assert!(instance.silence_marked_after(began).await <= Duration::from_secs(2));
}

/// H8, Q8
pub(crate) async fn a_clock_that_lags_is_no_silence(stage: &Stage<'_>) {
    let tap = stage.check();
    let instance = stage.instance("lags").await;
    eventually("the checker knows it", || async {
        let never = r#"bellwether_heartbeat_instances{cluster="hub",state="never"} "#;
        let text = stage.metrics.text();
        let count = text.lines().find_map(|line| line.strip_prefix(never));
        count.is_some_and(|count| count != "0").then_some(())
    })
    .await;
    for _ in 0..6 {
        instance.pulse_off_by(SignedDuration::from_mins(-5)).await;
        stage.pass(stage.period).await;
        assert_eq!(instance.healthy().await, ("True".into(), "ReceivingHeartbeats".into()));
    }
    assert_eq!(tap.writes().len(), 1, "the first beat, and no more: {:?}", tap.writes());
}

/// H9, Q9
pub(crate) async fn a_stamp_of_the_future_is_not_believed(stage: &Stage<'_>) {
    stage.check();
    let instance = stage.instance("future").await;
    let seen = stage.now();
    instance.stamp("2099-01-01T00:00:00Z".parse().unwrap()).await;
    instance.until("True", "ReceivingHeartbeats").await;
    let after = instance.silence_marked_after(seen).await;
    assert!(after >= stage.threshold(), "after {after:?}");
    assert!(after <= stage.threshold() + stage.slack(), "after {after:?}");
}

/// Q10
pub(crate) async fn a_stamp_that_goes_backwards_is_a_beat(stage: &Stage<'_>) {
    stage.check();
    let instance = stage.instance("backwards").await;
    for minutes in 0..6 {
        instance.pulse_off_by(SignedDuration::from_mins(-minutes)).await;
        instance.until("True", "ReceivingHeartbeats").await;
        stage.pass(stage.period).await;
    }
    assert!(!instance.is_timed_out().await);
}

/// H11
pub(crate) async fn a_period_of_its_own_counts(stage: &Stage<'_>) {
    stage.check();
    let instance = stage.instance_of("own-period", json!({"heartbeatUpdatePeriod": "2s"})).await;
    let beat = stage.now();
    instance.pulse().await;
    let after = instance.silence_marked_after(beat).await;
    // The stamp has whole seconds, so it may be up to one older than the beat.
    assert!(after >= Duration::from_secs(5), "after {after:?}");
    assert!(after <= Duration::from_secs(6) + stage.slack(), "after {after:?}");
}

/// H12
pub(crate) async fn a_longer_period_gives_more_time(stage: &Stage<'_>) {
    let tap = stage.check();
    let instance = stage.instance("longer").await;
    let beat = stage.now();
    instance.report("True", "ComponentsUp").await;
    stage.pass(stage.period * 2).await;
    let longer = json!({"spec": {"heartbeatUpdatePeriod": format!("{}s", 6 * stage.period.as_secs())}});
    stage.cluster.merge(&instance.path, &longer).await.expect(200);
    stage.pass(stage.period * 15).await;
    assert_eq!(tap.writes(), [], "{:?} after the last beat it is not silent", stage.period * 17);
    let after = instance.silence_marked_after(beat).await;
    assert!(after >= stage.period * 18 - Duration::from_secs(1), "after {after:?}");
    assert!(after <= stage.period * 18 + stage.slack(), "after {after:?}");
}

/// H13, Q13
pub(crate) async fn a_restart_during_a_timeout_writes_nothing(stage: &Stage<'_>) {
    stage.check();
    let path = {
        let instance = stage.instance("restart").await;
        let beat = stage.now();
        instance.report("True", "ComponentsUp").await;
        instance.silence_marked_after(beat).await;
        instance.path
    };
    let before = stage.cluster.get(&path).await.expect(200);
    stage.kill();
    let tap = stage.check();
    stage.pass(stage.threshold() * 2).await;
    assert_eq!(stage.cluster.get(&path).await.expect(200), before);
    assert_eq!(tap.writes(), []);
}

/// H14, Q16
pub(crate) async fn a_beat_that_races_the_timeout_wins(stage: &Stage<'_>) {
    let tap = stage.check();
    let instance = stage.instance("races").await;
    instance.report("True", "ComponentsUp").await;
    let (client, clock) = (stage.cluster.client(), stage.clock);
    let path = instance.path.clone();
    // The beat lands between the checker's read and its write.
    tap.before(Method::PUT, "/addoninstances/races/status", move || async move {
        let now = crate::stage::seconds(bellwether_clock::Clock::now(&clock));
        let body = json!({"status": {"lastHeartbeatTime": now}}).to_string();
        let request = http::Request::patch(format!("{path}/status"))
            .header("content-type", "application/merge-patch+json")
            .body(body.into_bytes().into())
            .unwrap();
        let answer = client.send(request).await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.status());
    });
    stage.pass(stage.threshold()).await;
    eventually("the checker tried to write", || async { (!tap.is_set()).then_some(()) }).await;
    stage.pass(stage.period).await;
    assert_eq!(instance.healthy().await, ("True".into(), "ComponentsUp".into()));
    assert_eq!(tap.writes().len(), 1, "the write that was refused: {:?}", tap.writes());
}

/// Q18
pub(crate) async fn a_stamp_that_is_removed_ends_the_judging(stage: &Stage<'_>) {
    let tap = stage.check();
    let instance = stage.instance("removed").await;
    instance.report("True", "ComponentsUp").await;
    stage.pass(stage.period).await;
    instance.merge_status(json!({"lastHeartbeatTime": null})).await;
    stage.pass(stage.threshold() * 2).await;
    assert_eq!(instance.healthy().await, ("True".into(), "ComponentsUp".into()));
    assert_eq!(tap.writes(), []);
}

/// Q20
pub(crate) async fn an_instance_that_is_being_deleted_is_not_judged(stage: &Stage<'_>) {
    let tap = stage.check();
    let instance = stage.instance("deleted").await;
    let held = json!({"metadata": {"finalizers": ["example.com/held"]}});
    stage.cluster.merge(&instance.path, &held).await.expect(200);
    instance.report("True", "ComponentsUp").await;
    stage.cluster.delete(&instance.path).await.expect(200);
    stage.pass(stage.threshold() * 2).await;
    assert_eq!(instance.healthy().await, ("True".into(), "ComponentsUp".into()));
    assert_eq!(tap.writes(), []);
    let freed = json!({"metadata": {"finalizers": null}});
    stage.cluster.merge(&instance.path, &freed).await.expect(200);
}

/// Q20
pub(crate) async fn one_that_is_marked_for_deletion_is_judged(stage: &Stage<'_>) {
    stage.check();
    let period = format!("{}s", stage.period.as_secs());
    let spec = json!({"heartbeatUpdatePeriod": period, "markedForDeletion": true});
    let instance = stage.instance_of("marked", spec).await;
    let beat = stage.now();
    instance.pulse().await;
    instance.silence_marked_after(beat).await;
}

/// Q15
pub(crate) async fn a_copy_that_stands_by_writes_nothing_until_it_leads(stage: &Stage<'_>) {
    let (client, tap) = Tap::on(stage.cluster.client());
    let (lead, leadership) = Leadership::manual();
    stage.check_in(Context { client, leadership, ..stage.context() }, Settings::default());
    let instance = stage.instance("stands-by").await;
    let lagging = stage.instance("lags").await;
    let beat = stage.now();
    instance.pulse().await;
    for _ in 0..5 {
        lagging.pulse_off_by(SignedDuration::from_mins(-5)).await;
        stage.pass(stage.period).await;
    }
    assert_eq!(tap.requests(), [], "it only watches");
    lead.send(true).unwrap();
    lagging.pulse_off_by(SignedDuration::from_mins(-5)).await;
    instance.silence_marked_after(beat).await;
    // It has seen this one beat all the while.
    lagging.until("True", "ReceivingHeartbeats").await;
}

/// Q15: it may stand by for months, while instances come, fall silent and go.
pub(crate) async fn a_copy_that_stands_by_keeps_nothing_of_what_has_gone(stage: &Stage<'_>) {
    let (client, tap) = Tap::on(stage.cluster.client());
    let (lead, leadership) = Leadership::manual();
    stage.check_in(Context { client, leadership, ..stage.context() }, Settings::default());
    let instance = stage.instance("gone").await;
    instance.pulse().await;
    stage.pass(stage.threshold() * 2).await;
    stage.cluster.delete(&instance.path).await.expect(200);
    stage.pass(stage.period).await;
    lead.send(true).unwrap();
    stage.pass(stage.period).await;
    assert_eq!(tap.requests(), [], "there is nobody to visit");
}

/// Peers hang up: while nobody answers, nothing is known, and nobody is said to be silent who was not.
pub(crate) async fn an_outage_of_the_api_is_no_silence(stage: &Stage<'_>) {
    let up = Arc::new(AtomicBool::new(true));
    let service = tower::service_fn({
        let (client, up) = (stage.cluster.client(), up.clone());
        move |request: http::Request<kube::client::Body>| {
            let (client, up) = (client.clone(), up.clone());
            async move {
                if !up.load(Ordering::Relaxed) {
                    return Err(kube::Error::Service("nobody answers".into()));
                }
                client.send(request).await
            }
        }
    });
    // The watch that is open stays so, but what it tells no longer matters: the instances are read before a write.
    let (client, tap) = Tap::on(kube::Client::new(service, "default"));
    stage.check_in(Context { client, ..stage.context() }, Settings::default());
    let beating = stage.instance("beating").await;
    let silent = stage.instance("silent").await;
    let beat = stage.now();
    beating.report("True", "ComponentsUp").await;
    silent.report("True", "ComponentsUp").await;
    up.store(false, Ordering::Relaxed);
    for _ in 0..5 {
        stage.pass(stage.period).await;
        beating.pulse().await;
    }
    assert!(!silent.is_timed_out().await);
    up.store(true, Ordering::Relaxed);
    silent.silence_marked_after(beat).await;
    beating.pulse().await;
    stage.pass(stage.period).await;
    assert_eq!(beating.healthy().await, ("True".into(), "ComponentsUp".into()));
    assert!(tap.writes().iter().all(|write| write.path.contains("/silent/")), "{:?}", tap.writes());
}

/// H15
pub(crate) async fn many_beat_and_nothing_is_written(stage: &Stage<'_>) {
    let (count, rounds) = if stage.cluster.is_kubernetes() { (50, 8) } else { (1000, 30) };
    let tap = stage.check();
    let mut instances = Vec::new();
    for number in 0..count {
        instances.push(stage.instance(&format!("one-of-many-{number}")).await);
    }
    for instance in &instances {
        instance.report("True", "ComponentsUp").await;
    }
    for _ in 0..rounds {
        stage.pass(stage.period).await;
        for instance in &instances {
            instance.pulse().await;
        }
    }
    assert_eq!(tap.requests(), []);
}

/// H10, Q6, Q7, and one in 2099: they count as ten seconds, are told of once, and change nothing for the rest.
pub(crate) async fn periods_that_make_no_sense_count_as_ten_seconds(stage: &Stage<'_>) {
    let multiplier = NonZeroU32::new(3).unwrap();
    let tap = stage.check_with(Settings { timeout_multiplier: multiplier, ..Settings::default() });
    let specs: [(&str, Value); 5] = [
        ("zero", json!({"heartbeatUpdatePeriod": "0s"})),
        ("negative", json!({"heartbeatUpdatePeriod": "-5s"})),
        ("banana", json!({"heartbeatUpdatePeriod": "banana"})),
        ("empty", json!({"heartbeatUpdatePeriod": ""})),
        ("no-spec", Value::Null),
    ];
    let sound = stage.instance("sound").await;
    let future = stage.instance("future").await;
    let mut strange = Vec::new();
    for (name, spec) in specs {
        strange.push(stage.instance_of(name, spec).await);
    }
    let beat = stage.now();
    sound.report("True", "ComponentsUp").await;
    future.stamp("2099-01-01T00:00:00Z".parse().unwrap()).await;
    for instance in &strange {
        instance.pulse().await;
        instance.until("True", "ReceivingHeartbeats").await;
    }
    stage.beat_for(Duration::from_secs(25), &[&sound]).await;
    for instance in strange.iter().chain([&future]) {
        let after = instance.silence_marked_after(beat).await;
        assert!(after >= Duration::from_secs(29), "{} after {after:?}", instance.path);
        // All of them, with a second for the beats one after the other.
        assert!(after <= Duration::from_secs(31) + stage.slack(), "{} after {after:?}", instance.path);
    }
    assert_eq!(sound.healthy().await, ("True".into(), "ComponentsUp".into()));
    let events =
        stage.cluster.get(format!("/apis/events.k8s.io/v1/namespaces/{}/events", stage.namespace)).await;
    let events = events.expect(200);
    let mut told: Vec<String> = events["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["reason"] == "InvalidHeartbeatUpdatePeriod")
        .map(|event| event["regarding"]["name"].as_str().unwrap().to_owned())
        .collect();
    told.sort();
    assert_eq!(told, ["banana", "empty", "negative", "no-spec", "zero"]);
    let specs = tap.writes().into_iter().filter(|write| write.path.ends_with("addoninstances"));
    assert_eq!(specs.count(), 0, "no spec is written");
}

/// H3, H4 and H5 in one run of real time.
pub(crate) async fn a_minute_of_beats_then_silence_then_a_return(stage: &Stage<'_>) {
    let tap = stage.check();
    let instance = stage.instance("in-real-time").await;
    for _ in 0..6 {
        let reported = instance.report("True", "ComponentsUp").await;
        stage.pass(stage.period).await;
        assert_eq!(instance.version().await, reported["metadata"]["resourceVersion"].as_str().unwrap());
    }
    assert_eq!(tap.requests(), []);
    let reported = instance.report("True", "ComponentsUp").await;
    let beat: jiff::Timestamp = reported["status"]["lastHeartbeatTime"].as_str().unwrap().parse().unwrap();
    let after = instance.silence_marked_after(beat).await;
    println!("marked as silent {after:?} after the stamp of the last beat");
    assert!(after >= Duration::from_secs(30) && after <= Duration::from_secs(32), "after {after:?}");
    instance.report("False", "ComponentDown").await;
    stage.pass(stage.period).await;
    assert_eq!(instance.healthy().await, ("False".into(), "ComponentDown".into()));
    assert_eq!(tap.writes().len(), 1);
}
