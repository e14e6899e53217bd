//! The reporter: it beats at the pace that the instance asks for, whatever happens, and says a last word.

use std::time::Duration;

use bellwether_heartbeat::client::{Error, Reporter};
use bellwether_testkit::eventually;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{Place, down, health, on_every_cluster, on_paused_cluster, up};

on_every_cluster!(
    it_beats_again_and_again,
    removed_conditions_come_back,
    a_last_word_is_sent_and_then_none,
    an_instance_that_appears_later_is_found,
);

impl Place {
    async fn stamp(&self) -> Option<jiff::Timestamp> {
        self.stored().await["status"]["lastHeartbeatTime"].as_str().map(|text| text.parse().unwrap())
    }

    /// Waits for another stamp than this, or for the first.
    async fn stamp_after(&self, before: Option<jiff::Timestamp>) -> jiff::Timestamp {
        let changed = || async { self.stamp().await.filter(|stamp| Some(*stamp) != before) };
        eventually("another stamp", changed).await
    }
}

async fn it_beats_again_and_again(place: Place) {
    place.install(json!("1s")).await;
    let reporter = Reporter::start(place.instance(), Vec::new());
    let mut last = None;
    for _ in 0..4 {
        last = Some(place.stamp_after(last).await);
    }
    assert!(reporter.health().is_well());
    assert_eq!(reporter.health().last_success.unwrap().period.effective(), Duration::from_secs(1));
    assert_eq!(place.stored().await["status"].get("conditions"), None);
}

async fn removed_conditions_come_back(place: Place) {
    place.install(json!("1s")).await;
    let _reporter = Reporter::start(place.instance(), vec![up()]);
    eventually("the condition", || async { health(&place.stored().await).is_object().then_some(()) }).await;
    place.patch_status(json!({"conditions": null})).await;
    eventually("the condition again", || async { health(&place.stored().await).is_object().then_some(()) })
        .await;
}

async fn a_last_word_is_sent_and_then_none(place: Place) {
    place.install(json!("1h")).await;
    let reporter = Reporter::start(place.instance(), vec![up()]);
    place.stamp_after(None).await;
    reporter.set_conditions(vec![down()]).await.unwrap();
    place.patch_status(json!({"conditions": null, "lastHeartbeatTime": null})).await;
    reporter.stop().await.unwrap();
    let stored = place.stored().await;
    assert_eq!(health(&stored)["reason"], "ComponentDown", "the latest conditions");
    assert!(place.stamp().await.is_some(), "with a stamp");

    let stopped = Error::Stopped { instance: format!("{}/addon-instance", place.namespace) };
    assert_eq!(reporter.set_conditions(vec![up()]).await, Err(stopped.clone()));
    assert_eq!(reporter.pulse().await, Err(stopped.clone()));
    assert_eq!(reporter.stop().await, Err(stopped));
    assert_eq!(place.stored().await, stored);
}

async fn an_instance_that_appears_later_is_found(place: Place) {
    let reporter = Reporter::start(place.instance(), vec![up()]);
    let mut health = reporter.subscribe();
    let failing = health.wait_for(|health| health.failures > 0).await.unwrap().clone();
    assert!(matches!(failing.last_error.unwrap().error, Error::Missing { .. }));
    assert_eq!(failing.last_success, None);
    place.install(Value::Null).await;
    let well = health.wait_for(|health| health.is_well()).await.unwrap().clone();
    assert!(well.last_error.is_some(), "what went wrong can still be seen");
    place.stamp_after(None).await;
}

/// On time that passes only when everybody waits.
mod on_paused_time {
    use super::*;
    use crate::line::Trouble;

    on_paused_cluster!(
        beats_are_at_most_a_tenth_early_and_never_late,
        a_period_that_makes_no_sense_counts_as_ten_seconds,
        a_changed_period_is_followed,
        a_shortened_long_period_is_noticed_within_a_minute,
        looking_for_a_shorter_period_is_no_beat,
        a_period_of_ones_own_wins,
        new_conditions_are_sent_at_once,
        a_dropped_reporter_is_silent,
        beats_go_on_after_the_server_was_away,
        a_failed_report_is_told_and_repeated,
        stopping_waits_five_seconds_at_most,
    );

    /// The seconds between the next beats.
    async fn gaps(place: &Place, count: usize) -> Vec<i64> {
        let mut last = place.stamp_after(place.stamp().await).await;
        let mut gaps = Vec::new();
        while gaps.len() < count {
            let next = place.stamp_after(Some(last)).await;
            gaps.push(next.as_second() - last.as_second());
            last = next;
        }
        gaps
    }

    async fn beats_are_at_most_a_tenth_early_and_never_late(place: Place) {
        place.install(json!("20s")).await;
        let _reporter = Reporter::start(place.instance(), vec![up()]);
        let gaps = gaps(&place, 30).await;
        assert!(gaps.iter().all(|gap| (18..=20).contains(gap)), "{gaps:?}");
        assert!(gaps.iter().any(|gap| *gap != gaps[0]), "they are spread: {gaps:?}");
    }

    async fn a_period_that_makes_no_sense_counts_as_ten_seconds(place: Place) {
        place.install(json!("0s")).await;
        let _reporter = Reporter::start(place.instance(), Vec::new());
        for period in [json!("0s"), json!("banana"), json!("-5s"), json!(""), Value::Null] {
            place.patch(json!({"heartbeatUpdatePeriod": period})).await;
            let gaps = gaps(&place, 3).await;
            assert!(gaps.iter().all(|gap| (9..=10).contains(gap)), "{period}: {gaps:?}");
        }
    }

    async fn a_changed_period_is_followed(place: Place) {
        place.install(json!("10s")).await;
        let _reporter = Reporter::start(place.instance(), Vec::new());
        for (period, range) in [("2s", 1..=2), ("25s", 22..=25), ("4s", 3..=4)] {
            place.patch(json!({"heartbeatUpdatePeriod": period})).await;
            // The interval under way is still the old one.
            place.stamp_after(place.stamp().await).await;
            let gaps = gaps(&place, 4).await;
            assert!(gaps.iter().all(|gap| range.contains(gap)), "{period}: {gaps:?}");
        }
    }

    async fn a_shortened_long_period_is_noticed_within_a_minute(place: Place) {
        place.install(json!("24h")).await;
        let _reporter = Reporter::start(place.instance(), Vec::new());
        let first = place.stamp_after(None).await;
        sleep(Duration::from_secs(3 * 3600 + 7)).await;
        assert_eq!(place.stamp().await, Some(first));
        place.patch(json!({"heartbeatUpdatePeriod": "5s"})).await;
        let begun = Instant::now();
        while place.stamp().await == Some(first) {
            sleep(Duration::from_secs(1)).await;
        }
        assert!(begun.elapsed() <= Duration::from_secs(61), "{:?}", begun.elapsed());
        assert!(gaps(&place, 3).await.iter().all(|gap| (4..=5).contains(gap)));
    }

    async fn looking_for_a_shorter_period_is_no_beat(place: Place) {
        place.install(json!("1h")).await;
        let line = place.line();
        let _reporter = Reporter::start(place.instance_over(line.client()), vec![up()]);
        sleep(Duration::from_secs(50 * 60 + 5)).await;
        let puts = line.sent().iter().filter(|sent| sent.starts_with("PUT")).count();
        assert_eq!((puts, line.sent().len()), (1, 2 + 50), "one beat, and a look each minute");
    }

    async fn a_period_of_ones_own_wins(place: Place) {
        place.install(json!("1h")).await;
        let reporter = Reporter::every(Duration::from_secs(30), place.instance(), Vec::new());
        assert!(gaps(&place, 4).await.iter().all(|gap| (27..=30).contains(gap)));
        drop(reporter);
        let _shortest = Reporter::every(Duration::ZERO, place.instance(), Vec::new());
        assert!(gaps(&place, 9).await.iter().all(|gap| *gap == 1));
    }

    async fn new_conditions_are_sent_at_once(place: Place) {
        place.install(json!("10s")).await;
        let reporter = Reporter::start(place.instance(), vec![up()]);
        let first = place.stamp_after(None).await;
        sleep(Duration::from_secs(4)).await;
        let begun = Instant::now();
        reporter.set_conditions(vec![down()]).await.unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO);
        let stored = place.stored().await;
        assert_eq!(health(&stored)["reason"], "ComponentDown");
        let said = place.stamp().await.unwrap();
        assert_eq!(said.as_second() - first.as_second(), 4, "which is a beat");
        let next = place.stamp_after(Some(said)).await;
        assert!((9..=10).contains(&(next.as_second() - said.as_second())), "and begins a period");
        assert_eq!(health(&place.stored().await), health(&stored), "which repeats them");
        sleep(Duration::from_secs(2)).await;
        reporter.pulse().await.unwrap();
        let pulsed = place.stamp().await.unwrap();
        assert_eq!(pulsed.as_second() - next.as_second(), 2);
    }

    async fn a_dropped_reporter_is_silent(place: Place) {
        place.install(json!("1s")).await;
        let reporter = Reporter::start(place.instance(), Vec::new());
        place.stamp_after(None).await;
        drop(reporter);
        let last = place.stamp().await;
        sleep(Duration::from_secs(60)).await;
        assert_eq!(place.stamp().await, last);
    }

    async fn beats_go_on_after_the_server_was_away(place: Place) {
        place.install(json!("10s")).await;
        let line = place.line();
        let reporter = Reporter::start(place.instance_over(line.client()), vec![up()]);
        place.stamp_after(None).await;
        for trouble in [Trouble::Cut, Trouble::Silent] {
            let before = line.sent().len();
            line.meets(trouble.clone());
            let begun = Instant::now();
            sleep(Duration::from_secs(65)).await;
            let (health, tries) = (reporter.health(), line.sent().len() - before);
            assert!(!health.is_well() && health.failures >= 5, "{trouble:?}: {health:?}");
            assert!((5..=12).contains(&tries), "{trouble:?}: neither still nor frantic: {tries}");
            line.meets(Trouble::None);
            place.stamp_after(place.stamp().await).await;
            assert!(
                begun.elapsed() <= Duration::from_secs(65 + 10 + 5),
                "{trouble:?}: {:?}",
                begun.elapsed()
            );
            reporter.subscribe().wait_for(|health| health.is_well()).await.unwrap();
            let gaps = gaps(&place, 2).await;
            assert!(gaps.iter().all(|gap| (9..=10).contains(gap)), "{trouble:?}: {gaps:?}");
        }
    }

    async fn a_failed_report_is_told_and_repeated(place: Place) {
        place.install(json!("10s")).await;
        let line = place.line();
        let reporter = Reporter::start(place.instance_over(line.client()), vec![up()]);
        place.stamp_after(None).await;
        line.meets(Trouble::Cut);
        let error = reporter.set_conditions(vec![down()]).await.unwrap_err();
        assert!(matches!(error, Error::Unanswered { .. }), "{error}");
        assert_eq!(reporter.health().last_error.unwrap().error, error);
        line.meets(Trouble::None);
        let begun = Instant::now();
        eventually("the report", || async {
            (health(&place.stored().await)["reason"] == "ComponentDown").then_some(())
        })
        .await;
        assert!(begun.elapsed() <= Duration::from_millis(1100), "{:?}", begun.elapsed());
    }

    async fn stopping_waits_five_seconds_at_most(place: Place) {
        place.install(json!("10s")).await;
        let line = place.line();
        let reporter = Reporter::start(place.instance_over(line.client()), vec![up()]);
        place.stamp_after(None).await;
        line.meets(Trouble::Silent);
        let begun = Instant::now();
        let error = reporter.stop().await.unwrap_err();
        assert!(matches!(error, Error::Late { .. }), "{error}");
        assert!(begun.elapsed() <= Duration::from_millis(5001), "{:?}", begun.elapsed());
        line.meets(Trouble::None);
        let last = place.stamp().await;
        sleep(Duration::from_secs(60)).await;
        assert_eq!(place.stamp().await, last);
        assert!(matches!(reporter.pulse().await, Err(Error::Stopped { .. })));
    }
}
