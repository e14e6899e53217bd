//! Tests of the status of Deployments at each stage.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn inputs(second: i64) -> Inputs {
    Inputs { now: Time(jiff::Timestamp::from_second(second).unwrap()), nodes: 1 }
}

fn deployment(generation: i64, replicas: i32, image: &str) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "generation": generation},
        "spec": {
            "replicas": replicas, "selector": {},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": {"spec": {"containers": [{"name": "c", "image": image}]}},
        },
    }))
    .unwrap()
}

/// A Deployment at generation 2 that was available at generation 1 with image `a`.
fn after(replicas: i32, now: Deployment) -> Deployment {
    let before = deployment(1, replicas, "a");
    Deployment { status: Some(status(&before, Stage::Succeeded, &inputs(10))), ..now }
}

fn recreated(mut deployment: Deployment) -> Deployment {
    let strategy = json!({"type": "Recreate"});
    deployment.spec.as_mut().unwrap().strategy = Some(serde_json::from_value(strategy).unwrap());
    deployment
}

fn paused(mut deployment: Deployment) -> Deployment {
    deployment.spec.as_mut().unwrap().paused = Some(true);
    deployment
}

fn reason<'a>(status: &'a DeploymentStatus, kind: &str) -> (&'a str, &'a str) {
    let condition = find(status, kind).unwrap();
    (&condition.status, condition.reason.as_deref().unwrap())
}

const YES: (&str, &str) = ("True", "MinimumReplicasAvailable");
const NO: (&str, &str) = ("False", "MinimumReplicasUnavailable");
const MOVING: (&str, &str) = ("True", "ReplicaSetUpdated");
const DONE: (&str, &str) = ("True", "NewReplicaSetAvailable");
const STUCK: (&str, &str) = ("False", "ProgressDeadlineExceeded");
const PAUSED: (&str, &str) = ("Unknown", "DeploymentPaused");

type Row = ((i32, i32, i32), (&'static str, &'static str), (&'static str, &'static str));

// Each row: replicas, updated and ready; Available; Progressing.
#[rstest]
#[case::new_deployment_is_not_available(deployment(1, 3, "a"), Stage::Begun, ((3, 3, 0), NO, MOVING))]
#[case::deployment_becomes_available(deployment(1, 3, "a"), Stage::Succeeded, ((3, 3, 3), YES, DONE))]
#[case::deployment_fails(deployment(1, 3, "a"), Stage::Failed, ((3, 3, 0), NO, STUCK))]
#[case::deployment_without_replicas_cannot_fail(deployment(1, 0, "a"), Stage::Failed, ((0, 0, 0), YES, DONE))]
#[case::new_template_keeps_old_pods_available(after(3, deployment(2, 3, "b")), Stage::Begun, ((3, 0, 3), YES, MOVING))]
#[case::new_template_becomes_available(after(3, deployment(2, 3, "b")), Stage::Succeeded, ((3, 3, 3), YES, DONE))]
#[case::new_template_fails(after(3, deployment(2, 3, "b")), Stage::Failed, ((3, 3, 0), NO, STUCK))]
#[case::recreate_removes_old_pods_first(after(3, recreated(deployment(2, 3, "b"))), Stage::Begun, ((3, 3, 0), NO, MOVING))]
#[case::scaling_up_does_not_change_progressing(after(3, deployment(2, 8, "a")), Stage::Begun, ((8, 8, 3), NO, DONE))]
#[case::a_quarter_may_be_unavailable(after(3, deployment(2, 4, "a")), Stage::Begun, ((4, 4, 3), YES, DONE))]
#[case::scaling_down_is_at_once(after(3, deployment(2, 1, "a")), Stage::Begun, ((1, 1, 1), YES, DONE))]
#[case::scaling_to_zero(after(3, deployment(2, 0, "a")), Stage::Begun, ((0, 0, 0), YES, DONE))]
#[case::scaled_to_zero(after(3, deployment(2, 0, "a")), Stage::Succeeded, ((0, 0, 0), YES, DONE))]
#[case::pausing_keeps_pods(after(3, paused(deployment(2, 3, "a"))), Stage::Begun, ((3, 3, 3), YES, PAUSED))]
fn deployment_has_the_status_of_its_stage(
    #[case] deployment: Deployment,
    #[case] stage: Stage,
    #[case] (pods, available, progressing): Row,
) {
    let found = status(&deployment, stage, &inputs(20));
    let number = |count: Option<i32>| count.unwrap_or(0);
    assert_eq!((number(found.replicas), number(found.updated_replicas), number(found.ready_replicas)), pods);
    assert_eq!(found.available_replicas, found.ready_replicas);
    assert_eq!(number(found.unavailable_replicas), pods.0 - pods.2);
    assert_eq!(reason(&found, AVAILABLE), available);
    assert_eq!(reason(&found, PROGRESSING), progressing);
    assert_eq!(found.observed_generation, deployment.metadata.generation);
    assert!(found.conditions.iter().flatten().all(|condition| condition.last_transition_time.is_some()));
}

#[test]
fn second_decision_changes_nothing() {
    for stage in [Stage::Begun, Stage::Succeeded, Stage::Failed] {
        let mut deployment = after(3, deployment(2, 3, "b"));
        let once = status(&deployment, stage, &inputs(20));
        deployment.status = Some(once.clone());
        assert_eq!(status(&deployment, stage, &inputs(99)), once, "{stage:?}");
    }
}

#[test]
fn available_deployment_stays_available_after_a_restart() {
    let deployment = after(3, deployment(1, 3, "a"));
    assert_eq!(Some(status(&deployment, Stage::Begun, &inputs(99))), deployment.status);
}

#[test]
fn transition_time_changes_with_the_status_and_update_time_with_the_reason() {
    let times = |status: &DeploymentStatus, kind: &str| -> (Value, Value) {
        let condition = serde_json::to_value(find(status, kind).unwrap()).unwrap();
        (condition["lastTransitionTime"].clone(), condition["lastUpdateTime"].clone())
    };
    let found = status(&after(3, deployment(2, 3, "b")), Stage::Begun, &inputs(20));
    let (at_10, at_20) = (json!("1970-01-01T00:00:10Z"), json!("1970-01-01T00:00:20Z"));
    assert_eq!(times(&found, AVAILABLE), (at_10.clone(), at_10.clone()));
    assert_eq!(times(&found, PROGRESSING), (at_10, at_20));
}
