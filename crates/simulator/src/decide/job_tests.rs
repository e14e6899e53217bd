//! The rows of a Job's life.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn world(second: i64) -> World {
    World { now: Time(jiff::Timestamp::from_second(second).unwrap()), nodes: 1 }
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
    status(job, stage, &world(second)).unwrap()
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
#[case::more_hands_than_work(json!({"completions": 2, "parallelism": 5}), (2, 2), None)]
#[case::a_queue_of_work(json!({"parallelism": 3}), (3, 3), None)]
#[case::one_index(json!({"completions": 1, "completionMode": "Indexed"}), (1, 1), Some("0"))]
#[case::two_indexes(json!({"completions": 2, "completionMode": "Indexed"}), (1, 2), Some("0,1"))]
#[case::five_indexes(json!({"completions": 5, "completionMode": "Indexed"}), (1, 5), Some("0-4"))]
#[case::nothing_to_do(json!({"completions": 0}), (0, 0), None)]
fn a_job_is_active_and_then_complete(
    #[case] spec: Value,
    #[case] (active, succeeded): (i32, i32),
    #[case] indexes: Option<&str>,
) {
    let mut job = job(spec);
    let begun = at(&job, Stage::Begun, 10);
    assert_eq!(begun.active.unwrap_or(0), active);
    assert_eq!(begun.start_time, Some(world(10).now));
    assert!(true_conditions(&begun).is_empty());

    job.status = Some(begun);
    let done = at(&job, Stage::Succeeded, 12);
    assert_eq!((done.active, done.succeeded.unwrap_or(0)), (None, succeeded));
    assert_eq!(
        (done.start_time.clone(), done.completion_time.clone()),
        (Some(world(10).now), Some(world(12).now))
    );
    assert_eq!(true_conditions(&done), ["SuccessCriteriaMet", "Complete"]);
    assert_eq!(done.completed_indexes.as_deref(), indexes);
}

#[test]
fn a_job_fails_when_it_has_used_up_its_attempts() {
    let failed = at(&job(json!({"backoffLimit": 2})), Stage::Failed, 10);
    assert_eq!((failed.failed, failed.active, failed.completion_time), (Some(3), None, None));
    assert_eq!(failed.start_time, Some(world(10).now));
    let reasons: Vec<_> =
        failed.conditions.iter().flatten().map(|condition| condition.reason.as_deref()).collect();
    assert_eq!(reasons, [Some("BackoffLimitExceeded"); 2]);
    let kinds: Vec<_> =
        failed.conditions.iter().flatten().map(|condition| condition.type_.as_str()).collect();
    assert_eq!(kinds, ["FailureTarget", "Failed"]);
}

#[test]
fn a_finished_job_never_changes() {
    for end in [Stage::Succeeded, Stage::Failed] {
        let mut job = job(json!({}));
        job.status = Some(at(&job, end, 10));
        for stage in [Stage::Begun, Stage::Succeeded, Stage::Failed] {
            assert_eq!(status(&job, stage, &world(99)), None, "{end:?}, then {stage:?}");
        }
    }
}

#[test]
fn a_suspended_job_has_not_started_and_starts_when_it_is_resumed() {
    let mut job = job(json!({"suspend": true}));
    let waiting = at(&job, Stage::Begun, 10);
    assert_eq!((waiting.start_time.clone(), waiting.active), (None, None));
    assert_eq!(true_conditions(&waiting), ["Suspended"]);
    job.status = Some(waiting);
    job.spec.as_mut().unwrap().suspend = Some(false);
    let resumed = at(&job, Stage::Begun, 20);
    assert_eq!((resumed.start_time.clone(), resumed.active), (Some(world(20).now), Some(1)));
    assert!(true_conditions(&resumed).is_empty());
}

#[test]
fn a_job_that_somebody_else_manages_is_left_alone() {
    assert_eq!(status(&job(json!({"managedBy": "example.com/other"})), Stage::Begun, &world(1)), None);
    assert!(status(&job(json!({"managedBy": JOB_CONTROLLER})), Stage::Begun, &world(1)).is_some());
}

#[test]
fn deciding_again_changes_nothing() {
    let mut job = job(json!({"completions": 3}));
    let once = at(&job, Stage::Begun, 10);
    job.status = Some(once.clone());
    assert_eq!(at(&job, Stage::Begun, 99), once);
}
