//! The status of Jobs. Kubernetes validates every write of it: a finished Job has a start time and no active pods, and does not
//! change any more.

use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus, UncountedTerminatedPods};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Inputs, count};
use crate::behaviour::Stage;

const COMPLETE: &str = "Complete";
const FAILED: &str = "Failed";
const SUSPENDED: &str = "Suspended";
/// The default of `spec.managedBy`.
const JOB_CONTROLLER: &str = "kubernetes.io/job-controller";

/// Whether a Job is suspended.
pub(crate) fn is_suspended(job: &Job) -> bool {
    job.spec.as_ref().is_some_and(|spec| spec.suspend == Some(true))
}

/// The status of a Job. It is `None` if the Job is finished or another controller manages it.
pub(crate) fn status(job: &Job, stage: Stage, inputs: &Inputs) -> Option<JobStatus> {
    let spec = job.spec.clone().unwrap_or_default();
    let old = job.status.clone().unwrap_or_default();
    if is_finished(&old) || spec.managed_by.as_deref().is_some_and(|manager| manager != JOB_CONTROLLER) {
        return None;
    }
    Some(match stage {
        _ if is_suspended(job) => suspended(old, &inputs.now),
        Stage::Begun => begun(old, &spec, &inputs.now),
        Stage::Succeeded => succeeded(begun(old, &spec, &inputs.now), &spec, &inputs.now),
        Stage::Failed => failed(begun(old, &spec, &inputs.now), &spec, &inputs.now),
    })
}

fn is_finished(status: &JobStatus) -> bool {
    let conditions = status.conditions.iter().flatten();
    let mut true_conditions = conditions.filter(|condition| condition.status == "True");
    true_conditions.any(|condition| [COMPLETE, FAILED].contains(&condition.type_.as_str()))
}

fn suspended(mut status: JobStatus, now: &Time) -> JobStatus {
    set(&mut status, SUSPENDED, "True", "JobSuspended", "Job suspended", now);
    JobStatus { active: None, ready: Some(0), start_time: None, ..status }
}

fn begun(mut status: JobStatus, spec: &JobSpec, now: &Time) -> JobStatus {
    let was_suspended = status.conditions.iter().flatten().any(|condition| condition.type_ == SUSPENDED);
    if was_suspended {
        set(&mut status, SUSPENDED, "False", "JobResumed", "Job resumed", now);
    }
    let parallel = spec.parallelism.unwrap_or(1);
    JobStatus {
        start_time: status.start_time.or_else(|| Some(now.clone())),
        active: count(spec.completions.map_or(parallel, |completions| completions.min(parallel))),
        ready: Some(0),
        terminating: Some(0),
        uncounted_terminated_pods: Some(UncountedTerminatedPods::default()),
        ..status
    }
}

fn succeeded(mut status: JobStatus, spec: &JobSpec, now: &Time) -> JobStatus {
    let (reason, message) = ("CompletionsReached", "Reached expected number of succeeded pods");
    set(&mut status, "SuccessCriteriaMet", "True", reason, message, now);
    set(&mut status, COMPLETE, "True", reason, message, now);
    let completions = spec.completions.or(spec.parallelism).unwrap_or(1);
    let start = status.start_time.as_ref().map_or(now.0, |start| start.0);
    JobStatus {
        active: None,
        succeeded: count(completions.max(status.succeeded.unwrap_or(0))),
        completion_time: Some(Time(now.0.max(start))),
        completed_indexes: is_indexed(spec)
            .then(|| indexes(completions))
            .filter(|indexes| !indexes.is_empty()),
        ..status
    }
}

fn failed(mut status: JobStatus, spec: &JobSpec, now: &Time) -> JobStatus {
    let (reason, message) = ("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    set(&mut status, "FailureTarget", "True", reason, message, now);
    set(&mut status, FAILED, "True", reason, message, now);
    let attempts = spec.backoff_limit.unwrap_or(6).saturating_add(1);
    JobStatus { active: None, failed: count(attempts.max(status.failed.unwrap_or(0))), ..status }
}

fn is_indexed(spec: &JobSpec) -> bool {
    spec.completion_mode.as_deref() == Some("Indexed")
}

/// All indexes of a Job in Kubernetes' notation: `0`, `0,1`, `0-4`.
fn indexes(completions: i32) -> String {
    match completions {
        ..=0 => String::new(),
        1 => "0".into(),
        2 => "0,1".into(),
        more => format!("0-{}", more - 1),
    }
}

fn set(status: &mut JobStatus, kind: &str, value: &str, reason: &str, message: &str, now: &Time) {
    let conditions = status.conditions.get_or_insert_default();
    let new = JobCondition {
        type_: kind.into(),
        status: value.into(),
        reason: Some(reason.into()),
        message: Some(message.into()),
        last_probe_time: Some(now.clone()),
        last_transition_time: Some(now.clone()),
    };
    match conditions.iter_mut().find(|old| old.type_ == kind) {
        Some(old) if old.status == value => {}
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
