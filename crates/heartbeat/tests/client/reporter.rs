//! The reporter: intervals, changed periods, retries after faults, and stopping.

use std::time::Duration;

use bellwether_heartbeat::client::{Error, Reporter};
use bellwether_testkit::eventually;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{Fixture, down, health, on_every_cluster, on_paused_cluster, up};

on_every_cluster!(
    reporter_sends_heartbeats_repeatedly,
    removed_conditions_are_restored,
    stop_sends_a_last_heartbeat,
    instance_created_later_gets_heartbeats,
);

impl Fixture {
    async fn last_heartbeat(&self) -> Option<jiff::Timestamp> {
        self.read_instance().await["status"]["lastHeartbeatTime"].as_str().map(|text| text.parse().unwrap())
    }

    /// Waits until `lastHeartbeatTime` differs from `before`.
    async fn wait_for_heartbeat_after(&self, before: Option<jiff::Timestamp>) -> jiff::Timestamp {
        let changed = || async { self.last_heartbeat().await.filter(|time| Some(*time) != before) };
        eventually("another heartbeat", changed).await
    }
}

async fn reporter_sends_heartbeats_repeatedly(fixture: Fixture) {
    fixture.create_instance(json!("1s")).await;
    let reporter = Reporter::start(fixture.client(), Vec::new());
    let mut last = None;
    for _ in 0..4 {
        last = Some(fixture.wait_for_heartbeat_after(last).await);
    }
    assert!(reporter.health().is_healthy());
    assert_eq!(reporter.health().last_success.unwrap().period.effective(), Duration::from_secs(1));
    assert_eq!(fixture.read_instance().await["status"].get("conditions"), None);
}

async fn removed_conditions_are_restored(fixture: Fixture) {
    fixture.create_instance(json!("1s")).await;
    let _reporter = Reporter::start(fixture.client(), vec![up()]);
    eventually("the condition", || async {
        health(&fixture.read_instance().await).is_object().then_some(())
    })
    .await;
    fixture.patch_status(json!({"conditions": null})).await;
    eventually("the condition again", || async {
        health(&fixture.read_instance().await).is_object().then_some(())
    })
    .await;
}

async fn stop_sends_a_last_heartbeat(fixture: Fixture) {
    fixture.create_instance(json!("1h")).await;
    let reporter = Reporter::start(fixture.client(), vec![up()]);
    fixture.wait_for_heartbeat_after(None).await;
    reporter.set_conditions(vec![down()]).await.unwrap();
    fixture.patch_status(json!({"conditions": null, "lastHeartbeatTime": null})).await;
    reporter.stop().await.unwrap();
    let stored = fixture.read_instance().await;
    assert_eq!(health(&stored)["reason"], "ComponentDown", "the last heartbeat has the latest conditions");
    assert!(fixture.last_heartbeat().await.is_some(), "the last heartbeat has a time");

    let stopped = Error::Stopped { instance: format!("{}/addon-instance", fixture.namespace) };
    assert_eq!(reporter.set_conditions(vec![up()]).await, Err(stopped.clone()));
    assert_eq!(reporter.send_heartbeat().await, Err(stopped.clone()));
    assert_eq!(reporter.stop().await, Err(stopped));
    assert_eq!(fixture.read_instance().await, stored);
}

async fn instance_created_later_gets_heartbeats(fixture: Fixture) {
    let reporter = Reporter::start(fixture.client(), vec![up()]);
    let mut health = reporter.subscribe();
    let failing = health.wait_for(|health| health.failures > 0).await.unwrap().clone();
    assert!(matches!(failing.last_error.unwrap().error, Error::NotFound { .. }));
    assert_eq!(failing.last_success, None);
    fixture.create_instance(Value::Null).await;
    let healthy = health.wait_for(|health| health.is_healthy()).await.unwrap().clone();
    assert!(healthy.last_error.is_some(), "the last error is kept");
    fixture.wait_for_heartbeat_after(None).await;
}

/// Tests that depend on exact times.
mod on_paused_time {
    use super::*;
    use crate::faulty_connection::Fault;

    on_paused_cluster!(
        interval_is_90_to_100_percent_of_the_period,
        invalid_period_counts_as_ten_seconds,
        changed_period_is_followed,
        shortened_period_takes_effect_within_a_minute,
        reading_the_period_is_not_a_heartbeat,
        fixed_period_overrides_the_period_of_the_instance,
        new_conditions_are_sent_at_once,
        dropped_reporter_sends_nothing,
        heartbeats_continue_after_an_outage,
        failed_conditions_are_reported_and_retried,
        stop_takes_at_most_five_seconds,
    );

    /// The seconds between the next heartbeats.
    async fn gaps(fixture: &Fixture, count: usize) -> Vec<i64> {
        let mut last = fixture.wait_for_heartbeat_after(fixture.last_heartbeat().await).await;
        let mut gaps = Vec::new();
        while gaps.len() < count {
            let next = fixture.wait_for_heartbeat_after(Some(last)).await;
            gaps.push(next.as_second() - last.as_second());
            last = next;
        }
        gaps
    }

    async fn interval_is_90_to_100_percent_of_the_period(fixture: Fixture) {
        fixture.create_instance(json!("20s")).await;
        let _reporter = Reporter::start(fixture.client(), vec![up()]);
        let gaps = gaps(&fixture, 30).await;
        assert!(gaps.iter().all(|gap| (18..=20).contains(gap)), "{gaps:?}");
        assert!(gaps.iter().any(|gap| *gap != gaps[0]), "the intervals have no jitter: {gaps:?}");
    }

    async fn invalid_period_counts_as_ten_seconds(fixture: Fixture) {
        fixture.create_instance(json!("0s")).await;
        let _reporter = Reporter::start(fixture.client(), Vec::new());
        for period in [json!("0s"), json!("banana"), json!("-5s"), json!(""), Value::Null] {
            fixture.patch_spec(json!({"heartbeatUpdatePeriod": period})).await;
            let gaps = gaps(&fixture, 3).await;
            assert!(gaps.iter().all(|gap| (9..=10).contains(gap)), "{period}: {gaps:?}");
        }
    }

    async fn changed_period_is_followed(fixture: Fixture) {
        fixture.create_instance(json!("10s")).await;
        let _reporter = Reporter::start(fixture.client(), Vec::new());
        for (period, range) in [("2s", 1..=2), ("25s", 22..=25), ("4s", 3..=4)] {
            fixture.patch_spec(json!({"heartbeatUpdatePeriod": period})).await;
            // The current interval still has the previous length.
            fixture.wait_for_heartbeat_after(fixture.last_heartbeat().await).await;
            let gaps = gaps(&fixture, 4).await;
            assert!(gaps.iter().all(|gap| range.contains(gap)), "{period}: {gaps:?}");
        }
    }

    async fn shortened_period_takes_effect_within_a_minute(fixture: Fixture) {
        fixture.create_instance(json!("24h")).await;
        let _reporter = Reporter::start(fixture.client(), Vec::new());
        let first = fixture.wait_for_heartbeat_after(None).await;
        sleep(Duration::from_secs(3 * 3600 + 7)).await;
        assert_eq!(fixture.last_heartbeat().await, Some(first));
        fixture.patch_spec(json!({"heartbeatUpdatePeriod": "5s"})).await;
        let started = Instant::now();
        while fixture.last_heartbeat().await == Some(first) {
            sleep(Duration::from_secs(1)).await;
        }
        assert!(started.elapsed() <= Duration::from_secs(61), "{:?}", started.elapsed());
        assert!(gaps(&fixture, 3).await.iter().all(|gap| (4..=5).contains(gap)));
    }

    async fn reading_the_period_is_not_a_heartbeat(fixture: Fixture) {
        fixture.create_instance(json!("1h")).await;
        let connection = fixture.faulty_connection();
        let _reporter = Reporter::start(fixture.client_over(connection.client()), vec![up()]);
        sleep(Duration::from_secs(50 * 60 + 5)).await;
        let puts = connection.requests().iter().filter(|sent| sent.starts_with("PUT")).count();
        assert_eq!(
            (puts, connection.requests().len()),
            (1, 2 + 50),
            "one heartbeat, and one read of the period per minute"
        );
    }

    async fn fixed_period_overrides_the_period_of_the_instance(fixture: Fixture) {
        fixture.create_instance(json!("1h")).await;
        let reporter = Reporter::start_with_period(Duration::from_secs(30), fixture.client(), Vec::new());
        assert!(gaps(&fixture, 4).await.iter().all(|gap| (27..=30).contains(gap)));
        drop(reporter);
        let _shortest = Reporter::start_with_period(Duration::ZERO, fixture.client(), Vec::new());
        assert!(gaps(&fixture, 9).await.iter().all(|gap| *gap == 1));
    }

    async fn new_conditions_are_sent_at_once(fixture: Fixture) {
        fixture.create_instance(json!("10s")).await;
        let reporter = Reporter::start(fixture.client(), vec![up()]);
        let first = fixture.wait_for_heartbeat_after(None).await;
        sleep(Duration::from_secs(4)).await;
        let started = Instant::now();
        reporter.set_conditions(vec![down()]).await.unwrap();
        assert_eq!(started.elapsed(), Duration::ZERO);
        let stored = fixture.read_instance().await;
        assert_eq!(health(&stored)["reason"], "ComponentDown");
        let reported = fixture.last_heartbeat().await.unwrap();
        assert_eq!(reported.as_second() - first.as_second(), 4, "new conditions are a heartbeat");
        let next = fixture.wait_for_heartbeat_after(Some(reported)).await;
        assert!(
            (9..=10).contains(&(next.as_second() - reported.as_second())),
            "the next heartbeat is one period later"
        );
        assert_eq!(
            health(&fixture.read_instance().await),
            health(&stored),
            "the next heartbeat repeats the conditions"
        );
        sleep(Duration::from_secs(2)).await;
        reporter.send_heartbeat().await.unwrap();
        let sent = fixture.last_heartbeat().await.unwrap();
        assert_eq!(sent.as_second() - next.as_second(), 2);
    }

    async fn dropped_reporter_sends_nothing(fixture: Fixture) {
        fixture.create_instance(json!("1s")).await;
        let reporter = Reporter::start(fixture.client(), Vec::new());
        fixture.wait_for_heartbeat_after(None).await;
        drop(reporter);
        let last = fixture.last_heartbeat().await;
        sleep(Duration::from_secs(60)).await;
        assert_eq!(fixture.last_heartbeat().await, last);
    }

    async fn heartbeats_continue_after_an_outage(fixture: Fixture) {
        fixture.create_instance(json!("10s")).await;
        let connection = fixture.faulty_connection();
        let reporter = Reporter::start(fixture.client_over(connection.client()), vec![up()]);
        fixture.wait_for_heartbeat_after(None).await;
        for fault in [Fault::Disconnected, Fault::NoResponse] {
            let before = connection.requests().len();
            connection.set_fault(fault.clone());
            let started = Instant::now();
            sleep(Duration::from_secs(65)).await;
            let (health, attempts) = (reporter.health(), connection.requests().len() - before);
            assert!(!health.is_healthy() && health.failures >= 5, "{fault:?}: {health:?}");
            assert!((5..=12).contains(&attempts), "{fault:?}: {attempts} attempts");
            connection.set_fault(Fault::None);
            fixture.wait_for_heartbeat_after(fixture.last_heartbeat().await).await;
            assert!(
                started.elapsed() <= Duration::from_secs(65 + 10 + 5),
                "{fault:?}: {:?}",
                started.elapsed()
            );
            reporter.subscribe().wait_for(|health| health.is_healthy()).await.unwrap();
            let gaps = gaps(&fixture, 2).await;
            assert!(gaps.iter().all(|gap| (9..=10).contains(gap)), "{fault:?}: {gaps:?}");
        }
    }

    async fn failed_conditions_are_reported_and_retried(fixture: Fixture) {
        fixture.create_instance(json!("10s")).await;
        let connection = fixture.faulty_connection();
        let reporter = Reporter::start(fixture.client_over(connection.client()), vec![up()]);
        fixture.wait_for_heartbeat_after(None).await;
        connection.set_fault(Fault::Disconnected);
        let error = reporter.set_conditions(vec![down()]).await.unwrap_err();
        assert!(matches!(error, Error::NoResponse { .. }), "{error}");
        assert_eq!(reporter.health().last_error.unwrap().error, error);
        connection.set_fault(Fault::None);
        let started = Instant::now();
        eventually("the conditions", || async {
            (health(&fixture.read_instance().await)["reason"] == "ComponentDown").then_some(())
        })
        .await;
        assert!(started.elapsed() <= Duration::from_millis(1100), "{:?}", started.elapsed());
    }

    async fn stop_takes_at_most_five_seconds(fixture: Fixture) {
        fixture.create_instance(json!("10s")).await;
        let connection = fixture.faulty_connection();
        let reporter = Reporter::start(fixture.client_over(connection.client()), vec![up()]);
        fixture.wait_for_heartbeat_after(None).await;
        connection.set_fault(Fault::NoResponse);
        let started = Instant::now();
        let error = reporter.stop().await.unwrap_err();
        assert!(matches!(error, Error::TimedOut { .. }), "{error}");
        assert!(started.elapsed() <= Duration::from_millis(5001), "{:?}", started.elapsed());
        connection.set_fault(Fault::None);
        let last = fixture.last_heartbeat().await;
        sleep(Duration::from_secs(60)).await;
        assert_eq!(fixture.last_heartbeat().await, last);
        assert!(matches!(reporter.send_heartbeat().await, Err(Error::Stopped { .. })));
    }
}
