//! The boot sequence of the design document, and what the status controller writes and does not write (B1, B4, B5, B13).

use std::time::Duration;

use bellwether_observability::decide::transition::Actor;
use bellwether_observability::vocabulary::Component::{Platform, UserWorkload};
use bellwether_observability::vocabulary::ComponentReason::{
    ForwardSuccessful, UpdateFailure, UpdateSuccesful,
};
use http::Method;
use serde_json::json;

use crate::fixture::{Fixture, condition};

pub(crate) async fn boot_sequence_of_the_design_document(fixture: &Fixture<'_>) {
    fixture.create_addons().await;
    fixture.start_status_controller();
    // The operator has deployed both collectors.
    fixture.operator_reports(Platform, UpdateSuccesful).await;
    fixture.operator_reports(UserWorkload, UpdateSuccesful).await;
    let both = "Progressing/UpdateSuccesful: MetricsCollector: UpdateSuccesful; UwlMetricsCollector: UpdateSuccesful";
    fixture.wait_for_state(both).await;
    let since = progressing_since(fixture).await;
    // The first collector forwards metrics: only the message changes.
    fixture.collector_reports(Platform, ForwardSuccessful).await;
    let one = "Progressing/UpdateSuccesful: MetricsCollector: ForwardSuccessful; UwlMetricsCollector: UpdateSuccesful";
    fixture.wait_for_state(one).await;
    assert_eq!(progressing_since(fixture).await, since, "the transition time is kept");
    // The second one does too.
    fixture.collector_reports(UserWorkload, ForwardSuccessful).await;
    let available = "Available/ForwardSuccessful: MetricsCollector: ForwardSuccessful; UwlMetricsCollector: ForwardSuccessful";
    fixture.wait_for_state(available).await;
    let wanted = [
        "MetricsCollectorStatus=True/ForwardSuccessful",
        "UwlMetricsCollectorStatus=True/ForwardSuccessful",
        "Progressing=False/ForwardSuccessful",
        "Available=True/ForwardSuccessful",
    ];
    let mut found = fixture.spoke_state().await;
    found.sort();
    let mut wanted = wanted.map(str::to_owned);
    wanted.sort();
    assert_eq!(found, wanted);
}

async fn progressing_since(fixture: &Fixture<'_>) -> serde_json::Value {
    let addon = fixture.spoke.get(fixture.spoke_path()).await.expect(200);
    let conditions = addon["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|one| one["type"] == "Progressing").unwrap()["lastTransitionTime"].clone()
}

pub(crate) async fn one_report_causes_one_write_on_each_side(fixture: &Fixture<'_>) {
    fixture.create_addons().await;
    let taps = fixture.start_status_controller();
    fixture.wait_for_reconcile().await;
    fixture.operator_reports(Platform, UpdateSuccesful).await;
    fixture.wait_for_state("Progressing/UpdateSuccesful: MetricsCollector: UpdateSuccesful").await;
    fixture.wait_for_reconcile().await;
    for (side, tap) in [("the cluster", taps.spoke), ("the hub", taps.hub)] {
        let writes: Vec<String> = tap.writes().into_iter().map(|sent| sent.method.to_string()).collect();
        assert_eq!(writes, ["PUT"], "one write on {side}");
    }
}

pub(crate) async fn change_before_the_response_to_a_write_is_not_lost(fixture: &Fixture<'_>) {
    fixture.create_addons().await;
    let taps = fixture.start_status_controller();
    fixture.operator_reports(Platform, UpdateSuccesful).await;
    fixture.operator_reports(UserWorkload, UpdateSuccesful).await;
    let both = "Progressing/UpdateSuccesful: MetricsCollector: UpdateSuccesful; UwlMetricsCollector: UpdateSuccesful";
    fixture.wait_for_state(both).await;
    let reporter = fixture.reporter(Actor::Collector);
    taps.spoke.before_response(Method::PUT, "/status", move || async move {
        reporter.report(UserWorkload, ForwardSuccessful, "").await.unwrap();
        // The watch delivers the report before the response.
        tokio::time::sleep(Duration::from_secs(1)).await;
    });
    fixture.collector_reports(Platform, ForwardSuccessful).await;
    fixture.wait_for_state("Available/ForwardSuccessful: MetricsCollector: ForwardSuccessful; UwlMetricsCollector: ForwardSuccessful").await;
    assert!(!taps.spoke.is_set());
}

pub(crate) async fn idle_controller_writes_nothing(fixture: &Fixture<'_>) {
    fixture.create_addons().await;
    let taps = fixture.start_status_controller();
    fixture.collector_reports(Platform, ForwardSuccessful).await;
    fixture.wait_for_state("Available/ForwardSuccessful: MetricsCollector: ForwardSuccessful").await;
    let writes = || taps.spoke.writes().len() + taps.hub.writes().len();
    let before = writes();
    let compared = taps.hub.requests().len();
    fixture.wait_for_resync().await;
    fixture.wait_for_resync().await;
    assert_eq!(writes(), before);
    assert!(taps.hub.requests().len() >= compared + 2, "it compared with the hub");
}

pub(crate) async fn duplicate_types_are_repaired(fixture: &Fixture<'_>) {
    fixture.create_addons().await;
    let (old, new) = ("2024-06-13T10:00:00Z", "2024-06-13T11:00:00Z");
    let twice = json!([
        condition("MetricsCollectorStatus", "True", "ForwardFailure", old),
        condition("MetricsCollectorStatus", "True", "ForwardSuccessful", new),
        condition("Available", "True", "ForwardSuccessful", old),
        condition("Available", "False", "ForwardSuccessful", new),
    ]);
    fixture.write_conditions(fixture.spoke, &fixture.spoke_path(), twice).await;
    fixture.start_status_controller();
    fixture.wait_for_state("Available/ForwardSuccessful: MetricsCollector: ForwardSuccessful: m").await;
    let wanted = ["MetricsCollectorStatus=True/ForwardSuccessful", "Available=True/ForwardSuccessful"];
    assert_eq!(fixture.spoke_state().await, wanted);
}

pub(crate) async fn unknown_reason_is_degraded_and_can_be_replaced(fixture: &Fixture<'_>) {
    fixture.create_addons().await;
    let foreign = json!([condition("MetricsCollectorStatus", "True", "Deployed", "2024-06-13T10:00:00Z")]);
    fixture.write_conditions(fixture.spoke, &fixture.spoke_path(), foreign).await;
    fixture.start_status_controller();
    fixture.wait_for_state("Degraded/Deployed: MetricsCollector: Deployed: m").await;
    fixture.operator_reports(Platform, UpdateFailure).await;
    fixture.wait_for_state("Degraded/UpdateFailure: MetricsCollector: UpdateFailure").await;
    fixture.operator_reports(Platform, UpdateSuccesful).await;
    fixture.wait_for_state("Progressing/UpdateSuccesful: MetricsCollector: UpdateSuccesful").await;
}
