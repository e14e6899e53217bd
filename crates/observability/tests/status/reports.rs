//! Reports through the reporter: every transition, concurrent writers, bad input (B3, B12, B14, B15).

use bellwether_observability::decide::transition::Actor;
use bellwether_observability::reporter::{ReportError, Reported};
use bellwether_observability::vocabulary::Component::{self, Platform, UserWorkload};
use bellwether_observability::vocabulary::ComponentReason::{
    self, DisabledMetrics, ForwardFailure, ForwardSuccessful, NotSupported, UpdateFailure, UpdateSuccesful,
};
use serde_json::{Value, json};

use crate::fixture::{Fixture, condition};

const TIME: &str = "2024-06-13T10:00:00Z";

fn writer_of(reason: ComponentReason) -> Actor {
    match reason {
        ForwardSuccessful | ForwardFailure => Actor::Collector,
        _ => Actor::Operator,
    }
}

/// The states that a collector cannot leave by itself.
const LOCKED: [ComponentReason; 3] = [UpdateFailure, DisabledMetrics, NotSupported];

pub(crate) async fn every_transition_of_the_table(fixture: &Fixture<'_>) {
    fixture.create_on_spoke().await;
    let froms = [None].into_iter().chain(ComponentReason::ALL.map(Some));
    for from in froms {
        for to in ComponentReason::ALL {
            let before: Vec<Value> = from
                .map(|from| condition("MetricsCollectorStatus", "True", &from.to_string(), TIME))
                .into_iter()
                .collect();
            fixture.write_conditions(fixture.spoke, &fixture.spoke_path(), json!(before)).await;
            let reported = fixture.try_report(writer_of(to), Platform, to).await.unwrap();
            let is_refused =
                writer_of(to) == Actor::Collector && from.is_some_and(|from| LOCKED.contains(&from));
            assert_eq!(
                matches!(reported, Reported::Refused(_)),
                is_refused,
                "{from:?} to {to}: {reported:?}"
            );
            let wanted = if is_refused { from.unwrap() } else { to };
            assert_eq!(
                fixture.spoke_state().await,
                [format!("MetricsCollectorStatus=True/{wanted}")],
                "{from:?} to {to}"
            );
        }
    }
}

pub(crate) async fn late_success_after_disabling_is_refused(fixture: &Fixture<'_>) {
    fixture.create_on_spoke().await;
    assert_eq!(fixture.operator_reports(Platform, DisabledMetrics).await, Reported::Updated);
    let version = || async {
        fixture.spoke.get(fixture.spoke_path()).await.expect(200)["metadata"]["resourceVersion"].clone()
    };
    let before = version().await;
    let reported = fixture.collector_reports(Platform, ForwardSuccessful).await;
    assert!(matches!(reported, Reported::Refused(_)), "{reported:?}");
    assert_eq!(fixture.operator_reports(Platform, DisabledMetrics).await, Reported::Unchanged);
    assert_eq!(version().await, before, "nothing was written");
}

pub(crate) async fn concurrent_writers_lose_no_report(fixture: &Fixture<'_>) {
    const REPORTS: usize = 100;
    fixture.create_on_spoke().await;
    let report = async |actor: Actor, component: Component, reasons: [ComponentReason; 2]| {
        let reporter = fixture.reporter(actor);
        let mut updated = 0;
        for number in 0..REPORTS {
            let message = format!("report {number}");
            match reporter.report(component, reasons[number % 2], &message).await.unwrap() {
                Reported::Updated => updated += 1,
                Reported::Unchanged => panic!("every message is new"),
                Reported::Refused(_) => {}
            }
        }
        updated
    };
    let (operator, platform, user) = tokio::join!(
        report(Actor::Operator, Platform, [UpdateSuccesful, UpdateSuccesful]),
        report(Actor::Collector, Platform, [ForwardSuccessful, ForwardFailure]),
        report(Actor::Collector, UserWorkload, [ForwardSuccessful, ForwardFailure]),
    );
    assert_eq!([operator, platform, user], [REPORTS; 3], "no report failed");
    let addon = fixture.spoke.get(fixture.spoke_path()).await.expect(200);
    let conditions = addon["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions.len(), 2);
    for condition in conditions {
        assert_eq!(condition["message"], "report 99", "the last report of each component is there");
    }
}

pub(crate) async fn long_message_is_stored_within_the_limit(fixture: &Fixture<'_>) {
    fixture.create_on_spoke().await;
    let long = "µ".repeat(2048);
    let reporter = fixture.reporter(Actor::Collector);
    reporter.report(Platform, ForwardFailure, &long).await.unwrap();
    let addon = fixture.spoke.get(fixture.spoke_path()).await.expect(200);
    let message = addon["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(message.len() <= 1024 && message.ends_with("µ..."), "{} bytes", message.len());
}

pub(crate) async fn missing_add_on_is_an_error_that_names_it(fixture: &Fixture<'_>) {
    let error = fixture.try_report(Actor::Operator, Platform, UpdateFailure).await.unwrap_err();
    assert!(matches!(error, ReportError::NotFound { .. }), "{error}");
    assert!(error.to_string().contains(&format!("{}/observability-addon", fixture.namespace)), "{error}");
}
