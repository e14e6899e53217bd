//! Tests of the status of Jobs at each stage.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn inputs(second: i64) -> Inputs {
    Inputs { now: Time(jiff::Timestamp::from_second(second).unwrap()), nodes: 1 }
}

fn job(spec: Value) -> Job {
    let template = json!({"spec": {"containers": [], "restartPolicy": "Never"}});
    let mut job: Job = serde_json::from_value(json!({
        "metadata": {"name": "import", "generation": 1}, "spec": {"template": template},
    }))
    .unwrap();
    let mut whole = serde_json::to_value(&job.spec).unwrap();
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    job.spec = Some(serde_json::from_value(whole).unwrap());
    job
}

fn at(job: &Job, stage: Stage, second: i64) -> JobStatus {
    status(job, stage, &inputs(second)).unwrap()
}

fn true_conditions(status: &JobStatus) -> Vec<&str> {
    let conditions = status.conditions.iter().flatten();
    conditions
        .filter(|condition| condition.status == "True")
        .map(|condition| condition.type_.as_str())
        .collect()
}

#[rstest]
#[case::one_pod(json!({}), (1, 1), None)]
#[case::several(json!({"completions": 5, "parallelism": 2}), (2, 5), None)]
#[case::parallelism_above_completions(json!({"completions": 2, "parallelism": 5}), (2, 2), None)]
#[case::no_completions(json!({"parallelism": 3}), (3, 3), None)]
#[case::one_index(json!({"completions": 1, "completionMode": "Indexed"}), (1, 1), Some("0"))]
#[case::two_indexes(json!({"completions": 2, "completionMode": "Indexed"}), (1, 2), Some("0,1"))]
#[case::five_indexes(json!({"completions": 5, "completionMode": "Indexed"}), (1, 5), Some("0-4"))]
#[case::zero_completions(json!({"completions": 0}), (0, 0), None)]
fn job_is_active_and_then_complete(
    #[case] spec: Value,
    #[case] (active, succeeded): (i32, i32),
    #[case] indexes: Option<&str>,
) {
    let mut job = job(spec);
    let begun = at(&job, Stage::Begun, 10);
    assert_eq!(begun.active.unwrap_or(0), active);
    assert_eq!(begun.start_time, Some(inputs(10).now));
    assert!(true_conditions(&begun).is_empty());

    job.status = Some(begun);
    let done = at(&job, Stage::Succeeded, 12);
    assert_eq!((done.active, done.succeeded.unwrap_or(0)), (None, succeeded));
    assert_eq!(
        (done.start_time.clone(), done.completion_time.clone()),
        (Some(inputs(10).now), Some(inputs(12).now))
    );
    assert_eq!(true_conditions(&done), ["SuccessCriteriaMet", "Complete"]);
    assert_eq!(done.completed_indexes.as_deref(), indexes);
}

#[test]
fn job_fails_after_its_backoff_limit() {
    let failed = at(&job(json!({"backoffLimit": 2})), Stage::Failed, 10);
    assert_eq!((failed.failed, failed.active, failed.completion_time), (Some(3), None, None));
    assert_eq!(failed.start_time, Some(inputs(10).now));
    let reasons: Vec<_> =
        failed.conditions.iter().flatten().map(|condition| condition.reason.as_deref()).collect();
    assert_eq!(reasons, [Some("BackoffLimitExceeded"); 2]);
    let kinds: Vec<_> =
        failed.conditions.iter().flatten().map(|condition| condition.type_.as_str()).collect();
    assert_eq!(kinds, ["FailureTarget", "Failed"]);
}

#[test]
fn finished_job_does_not_change() {
    for end in [Stage::Succeeded, Stage::Failed] {
        let mut job = job(json!({}));
        job.status = Some(at(&job, end, 10));
        for stage in [Stage::Begun, Stage::Succeeded, Stage::Failed] {
            assert_eq!(status(&job, stage, &inputs(99)), None, "{end:?}, then {stage:?}");
        }
    }
}

#[test]
fn suspended_job_starts_when_it_is_resumed() {
    let mut job = job(json!({"suspend": true}));
    let waiting = at(&job, Stage::Begun, 10);
    assert_eq!((waiting.start_time.clone(), waiting.active), (None, None));
    assert_eq!(true_conditions(&waiting), ["Suspended"]);
    job.status = Some(waiting);
    job.spec.as_mut().unwrap().suspend = Some(false);
    let resumed = at(&job, Stage::Begun, 20);
    assert_eq!((resumed.start_time.clone(), resumed.active), (Some(inputs(20).now), Some(1)));
    assert!(true_conditions(&resumed).is_empty());
}

#[test]
fn job_of_another_controller_is_ignored() {
    assert_eq!(status(&job(json!({"managedBy": "example.com/other"})), Stage::Begun, &inputs(1)), None);
    assert!(status(&job(json!({"managedBy": JOB_CONTROLLER})), Stage::Begun, &inputs(1)).is_some());
}

#[test]
fn second_decision_changes_nothing() {
    let mut job = job(json!({"completions": 3}));
    let once = at(&job, Stage::Begun, 10);
    job.status = Some(once.clone());
    assert_eq!(at(&job, Stage::Begun, 99), once);
}
