//! The status of Deployments. There are no ReplicaSets, but the message of Progressing has the name of the current one, as in
//! Kubernetes; it distinguishes a new template from a change of scale.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentSpec, DeploymentStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Inputs, count, revision};
use crate::behaviour::Stage;

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const NEW_REPLICA_SET_AVAILABLE: &str = "NewReplicaSetAvailable";

pub(crate) fn status(deployment: &Deployment, stage: Stage, inputs: &Inputs) -> DeploymentStatus {
    let old = deployment.status.clone().unwrap_or_default();
    let generation = deployment.metadata.generation;
    if stage == Stage::Begun && old.observed_generation == generation {
        return old;
    }
    let spec = deployment.spec.clone().unwrap_or_default();
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let replica_set = revision(name, Some(&spec.template));
    let desired = spec.replicas.unwrap_or(1);
    // A Deployment without replicas cannot fail.
    let stage = if desired == 0 && stage == Stage::Failed { Stage::Succeeded } else { stage };

    let pods = pods(&old, &spec, &replica_set, stage);
    let available = stage != Stage::Failed && pods.ready >= desired - max_unavailable(&spec);
    let mut conditions = old.conditions.clone().unwrap_or_default();
    upsert(&mut conditions, available_condition(available), &inputs.now);
    if let Some(progressing) = progressing(&old, &spec, &replica_set, stage) {
        upsert(&mut conditions, progressing, &inputs.now);
    }
    DeploymentStatus {
        observed_generation: generation,
        replicas: count(desired),
        updated_replicas: count(pods.updated),
        ready_replicas: count(pods.ready),
        available_replicas: count(pods.ready),
        unavailable_replicas: count(desired - pods.ready),
        conditions: Some(conditions),
        ..old
    }
}

struct Pods {
    updated: i32,
    ready: i32,
}

/// How many of the desired pods have the new template, and how many are ready.
fn pods(old: &DeploymentStatus, spec: &DeploymentSpec, replica_set: &str, stage: Stage) -> Pods {
    let desired = spec.replicas.unwrap_or(1);
    match stage {
        Stage::Succeeded => Pods { updated: desired, ready: desired },
        Stage::Failed => Pods { updated: desired, ready: 0 },
        Stage::Begun => {
            let new_template = is_new(old, replica_set);
            let recreate =
                spec.strategy.as_ref().is_some_and(|strategy| strategy.type_.as_deref() == Some("Recreate"));
            let kept = old.available_replicas.unwrap_or(0).min(desired);
            let kept = if new_template && recreate { 0 } else { kept };
            let updated = if new_template && kept > 0 { 0 } else { desired };
            Pods { updated, ready: kept }
        }
    }
}

/// Whether the last rollout was of another template.
fn is_new(old: &DeploymentStatus, replica_set: &str) -> bool {
    let message = find(old, PROGRESSING).and_then(|condition| condition.message.as_deref());
    !message.is_some_and(|message| message.contains(&format!("\"{replica_set}\"")))
}

fn find<'a>(status: &'a DeploymentStatus, kind: &str) -> Option<&'a DeploymentCondition> {
    status.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

fn available_condition(available: bool) -> DeploymentCondition {
    if available {
        condition(
            AVAILABLE,
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.".into(),
        )
    } else {
        condition(
            AVAILABLE,
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.".into(),
        )
    }
}

/// The condition Progressing. It is `None` if the condition stays as it is, as after a change of scale.
fn progressing(
    old: &DeploymentStatus,
    spec: &DeploymentSpec,
    replica_set: &str,
    stage: Stage,
) -> Option<DeploymentCondition> {
    let about_replica_set = |status, reason, text: &str| {
        Some(condition(PROGRESSING, status, reason, format!("ReplicaSet \"{replica_set}\" {text}.")))
    };
    match stage {
        Stage::Succeeded => {
            about_replica_set("True", NEW_REPLICA_SET_AVAILABLE, "has successfully progressed")
        }
        Stage::Failed => about_replica_set("False", "ProgressDeadlineExceeded", "has timed out progressing"),
        Stage::Begun if spec.paused == Some(true) => {
            Some(condition(PROGRESSING, "Unknown", "DeploymentPaused", "Deployment is paused".into()))
        }
        Stage::Begun => {
            let settled = find(old, PROGRESSING)
                .is_some_and(|condition| condition.reason.as_deref() == Some(NEW_REPLICA_SET_AVAILABLE));
            if settled && !is_new(old, replica_set) {
                return None;
            }
            about_replica_set("True", "ReplicaSetUpdated", "is progressing")
        }
    }
}

fn condition(kind: &str, status: &str, reason: &str, message: String) -> DeploymentCondition {
    DeploymentCondition {
        type_: kind.into(),
        status: status.into(),
        reason: Some(reason.into()),
        message: Some(message),
        last_transition_time: None,
        last_update_time: None,
    }
}

/// Sets a condition. lastTransitionTime changes with the status, lastUpdateTime with status, reason or message.
fn upsert(conditions: &mut Vec<DeploymentCondition>, new: DeploymentCondition, now: &Time) {
    let Some(old) = conditions.iter_mut().find(|old| old.type_ == new.type_) else {
        conditions.push(DeploymentCondition {
            last_transition_time: Some(now.clone()),
            last_update_time: Some(now.clone()),
            ..new
        });
        return;
    };
    if (&old.status, &old.reason, &old.message) == (&new.status, &new.reason, &new.message) {
        return;
    }
    let moved = old.status != new.status;
    let last_transition_time = if moved { Some(now.clone()) } else { old.last_transition_time.take() };
    *old = DeploymentCondition { last_transition_time, last_update_time: Some(now.clone()), ..new };
}

/// How many replicas may be unavailable in an available Deployment.
fn max_unavailable(spec: &DeploymentSpec) -> i32 {
    let desired = spec.replicas.unwrap_or(1);
    let Some(rolling) = spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref()) else {
        return 0;
    };
    let surge = resolve(rolling.max_surge.as_ref(), desired, Rounding::Up);
    let unavailable = resolve(rolling.max_unavailable.as_ref(), desired, Rounding::Down);
    // A rollout with neither surge nor unavailable pods could not proceed.
    let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
    unavailable.min(desired)
}

#[derive(Clone, Copy)]
enum Rounding {
    Up,
    Down,
}

/// Resolves a number, or a percentage of the desired replicas.
fn resolve(value: Option<&IntOrString>, of: i32, rounding: Rounding) -> i32 {
    match value {
        None => 0,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(text)) => {
            let percent: i64 = text.strip_suffix('%').and_then(|number| number.parse().ok()).unwrap_or(0);
            let hundredths = percent.saturating_mul(i64::from(of));
            let whole = match rounding {
                Rounding::Up => hundredths.saturating_add(99) / 100,
                Rounding::Down => hundredths / 100,
            };
            i32::try_from(whole).unwrap_or(i32::MAX)
        }
    }
}

#[cfg(test)]
#[path = "deployment_tests.rs"]
mod tests;
