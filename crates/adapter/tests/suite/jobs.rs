//! The lifecycle of Jobs with the example "validation".

use std::time::Duration;

use bellwether_testkit::{Cluster, embedded, on_paused_time};
use serde_json::{Value, json};

use crate::fixture::{Fixture, example, operations};

const JOB: &str = "/apis/batch/v1/namespaces/default/jobs/validate-c1";

/// Ends a Job, as the controller of Jobs does.
pub(crate) async fn finish(cluster: &Cluster, job: &str, kind: &str) {
    let live = cluster.get(job).await.expect(200);
    let now = live["metadata"]["creationTimestamp"].clone();
    let mut conditions =
        vec![json!({"type": kind, "status": "True", "lastTransitionTime": now, "lastProbeTime": now})];
    let mut status = json!({"startTime": now});
    if kind == "Complete" {
        conditions.push(json!({"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": now, "lastProbeTime": now}));
        status["completionTime"] = now;
        status["succeeded"] = json!(1);
    } else {
        conditions.push(json!({"type": "FailureTarget", "status": "True", "lastTransitionTime": now, "lastProbeTime": now}));
    }
    status["conditions"] = Value::Array(conditions);
    cluster.merge(format!("{job}/status"), &json!({"status": status})).await.expect(200);
}

async fn uid(cluster: &Cluster) -> Value {
    cluster.get(JOB).await.expect(200)["metadata"]["uid"].clone()
}

#[test]
fn job_runs_then_its_result_is_reused_until_the_next_generation() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let fixture = Fixture::new(example("validation"), &cluster);
        let trace = fixture.pulse_at(1).await;
        assert_eq!(operations(&trace), ["create"], "{:?}", trace.errors);
        assert_eq!(fixture.api.condition("Available"), ("Unknown".into(), "ValidationRuns".into()));
        let first = uid(&cluster).await;
        assert_eq!(operations(&fixture.pulse_at(1).await), ["skip"]);

        finish(&cluster, JOB, "Complete").await;
        assert_eq!(operations(&fixture.pulse_at(1).await), ["skip"]);
        assert_eq!(fixture.api.condition("Available"), ("True".into(), "Validated".into()));
        assert_eq!(uid(&cluster).await, first);

        assert_eq!(operations(&fixture.pulse_at(2).await), ["recreate"]);
        assert_ne!(uid(&cluster).await, first);
        assert_eq!(fixture.api.condition("Available").0, "Unknown");
        assert_eq!(operations(&fixture.pulse_at(1).await), ["skip"], "a pulse of an older generation");
    });
}

#[test]
fn result_older_than_its_ttl_is_computed_again() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let fixture = Fixture::new(example("validation"), &cluster);
        fixture.pulse().await;
        finish(&cluster, JOB, "Complete").await;
        tokio::time::advance(Duration::from_secs(23 * 3600)).await;
        assert_eq!(operations(&fixture.pulse().await), ["skip"]);
        tokio::time::advance(Duration::from_secs(2 * 3600)).await;
        assert_eq!(operations(&fixture.pulse().await), ["recreate"]);
    });
}

#[test]
fn failed_job_is_reported_and_created_again_with_growing_delays() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let fixture = Fixture::new(example("validation"), &cluster);
        fixture.pulse().await;
        for (attempt, delay) in [(1, 10), (2, 20), (3, 40)] {
            finish(&cluster, JOB, "Failed").await;
            let trace = fixture.pulse().await;
            assert_eq!(operations(&trace), ["skip"], "attempt {attempt}");
            assert_eq!(fixture.api.condition("Available"), ("False".into(), "ValidationFailed".into()));
            tokio::time::advance(Duration::from_secs(delay)).await;
            assert_eq!(operations(&fixture.pulse().await), ["recreate"], "attempt {attempt}");
            assert_eq!(fixture.api.condition("Available").0, "Unknown");
            let annotations = cluster.get(JOB).await.expect(200)["metadata"]["annotations"].clone();
            assert_eq!(annotations["bellwether.io/job-attempts"], attempt.to_string());
        }
    });
}

#[test]
fn job_that_never_ends_is_unknown_and_then_created_again() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let fixture = Fixture::new(example("validation"), &cluster);
        fixture.pulse().await;
        for _ in 0..2 {
            tokio::time::advance(Duration::from_secs(14 * 60)).await;
            assert_eq!(operations(&fixture.pulse().await), ["skip"]);
            assert_eq!(fixture.api.condition("Available").0, "Unknown");
        }
        tokio::time::advance(Duration::from_secs(3 * 60)).await;
        assert_eq!(operations(&fixture.pulse().await), ["recreate"]);
    });
}

#[test]
fn job_of_a_deleted_cluster_is_deleted() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let fixture = Fixture::new(example("validation"), &cluster);
        fixture.pulse().await;
        fixture.api.cluster.lock()["deleted_time"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(operations(&fixture.pulse_at(2).await), ["delete"]);
        fixture.pulse_at(2).await;
        assert_eq!(fixture.api.condition("Finalized").0, "True");
    });
}
