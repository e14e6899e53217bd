//! The lifecycle of Jobs: a Job cannot be changed, so a new run is a new Job.
//!
//! | live Job | plan |
//! |---|---|
//! | another generation | recreate |
//! | runs | keep; the report says Unknown |
//! | runs longer than its run timeout | recreate, as after a failure |
//! | succeeded | keep, until its result is older than its time to live |
//! | failed | recreate after a backoff that doubles with every failure |
//!
//! Both times are annotations of the Job, so that configurations of other frameworks load unchanged.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::plan::Plan;
use crate::config::parse_duration;

/// The annotation with the number of failures before this Job.
pub const JOB_ATTEMPTS: &str = "bellwether.io/job-attempts";
/// The annotation with the duration for which the result of a successful Job is used. Without it, it is used for ever.
pub const JOB_RESULT_TTL: &str = "bellwether.io/job-result-ttl";
/// The annotation with the duration after which a running Job counts as failed. Without it, a Job may run for ever.
pub const JOB_RUN_TIMEOUT: &str = "bellwether.io/job-run-timeout";

const FIRST_BACKOFF: Duration = Duration::from_secs(10);
const MAX_BACKOFF: Duration = Duration::from_secs(600);

pub(super) fn is_job(object: &Value) -> bool {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    text("kind") == "Job" && text("apiVersion").starts_with("batch/")
}

/// What a Job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobState {
    Running { since: Option<Timestamp> },
    Succeeded { at: Option<Timestamp> },
    Failed { at: Option<Timestamp> },
}

fn state(job: &Value) -> JobState {
    let time = |value: Option<&Value>| value.and_then(Value::as_str).and_then(|text| text.parse().ok());
    let conditions = job.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    for condition in
        conditions.filter(|condition| condition.get("status").and_then(Value::as_str) == Some("True"))
    {
        let at = time(condition.get("lastTransitionTime"));
        match condition.get("type").and_then(Value::as_str) {
            Some("Complete" | "SuccessCriteriaMet") => {
                return JobState::Succeeded { at: time(job.pointer("/status/completionTime")).or(at) };
            }
            Some("Failed" | "FailureTarget") => return JobState::Failed { at },
            _ => {}
        }
    }
    let started = time(job.pointer("/status/startTime"));
    JobState::Running { since: started.or(time(job.pointer("/metadata/creationTimestamp"))) }
}

fn annotation<'j>(job: &'j Value, name: &str) -> Option<&'j str> {
    job.pointer("/metadata/annotations")?.get(name)?.as_str()
}

/// Decides what to do with a live Job.
pub(super) fn plan(live: &Value, is_changed: bool, now: Timestamp) -> Plan {
    if is_changed {
        return Plan::Recreate { reason: "the Job is for another generation".into(), attempts: 0 };
    }
    let attempts: u32 = annotation(live, JOB_ATTEMPTS).and_then(|text| text.parse().ok()).unwrap_or(0);
    let limit = |name: &str| annotation(live, name).and_then(parse_duration);
    let is_older =
        |since: Option<Timestamp>, limit: Duration| since.is_some_and(|since| has_passed(since, limit, now));
    match state(live) {
        JobState::Running { since } => match limit(JOB_RUN_TIMEOUT) {
            Some(limit) if is_older(since, limit) => {
                let reason = format!("the Job has been running for longer than {limit:?}");
                Plan::Recreate { reason, attempts: attempts.saturating_add(1) }
            }
            _ => Plan::Keep { reason: "the Job is running".into() },
        },
        JobState::Succeeded { at } => match limit(JOB_RESULT_TTL) {
            Some(limit) if is_older(at, limit) => Plan::Recreate {
                reason: format!("the result of the Job is older than {limit:?}"),
                attempts: 0,
            },
            _ => Plan::Keep { reason: "the Job succeeded, and its result is used".into() },
        },
        JobState::Failed { at } => {
            let attempts = attempts.saturating_add(1);
            let backoff = backoff(attempts);
            if at.is_none_or(|at| has_passed(at, backoff, now)) {
                return Plan::Recreate { reason: format!("the Job failed, attempt {attempts}"), attempts };
            }
            Plan::Keep {
                reason: format!("the Job failed; it is created again {backoff:?} after the failure"),
            }
        }
    }
}

fn has_passed(since: Timestamp, limit: Duration, now: Timestamp) -> bool {
    let passed = now.duration_since(since);
    passed >= limit.try_into().unwrap_or(jiff::SignedDuration::MAX)
}

fn backoff(attempts: u32) -> Duration {
    let factor = 1_u32.checked_shl(attempts.saturating_sub(1)).unwrap_or(u32::MAX);
    FIRST_BACKOFF.saturating_mul(factor).min(MAX_BACKOFF)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn job(annotations: Value, status: Value) -> Value {
        json!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "j", "creationTimestamp": at(0).to_string(), "annotations": annotations}, "status": status})
    }

    fn ended(kind: &str, seconds: i64) -> Value {
        json!({"conditions": [{"type": kind, "status": "True", "lastTransitionTime": at(seconds).to_string()}]})
    }

    #[test]
    fn every_row_of_the_table() {
        let attempts = |n: &str| json!({JOB_ATTEMPTS: n});
        let rows = [
            ("runs", job(json!({}), json!({})), false, 1_000_000, "keep"),
            ("runs within its timeout", job(json!({JOB_RUN_TIMEOUT: "10m"}), json!({})), false, 599, "keep"),
            (
                "runs beyond its timeout",
                job(json!({JOB_RUN_TIMEOUT: "10m"}), json!({})),
                false,
                600,
                "recreate 1",
            ),
            ("another generation while it runs", job(json!({}), json!({})), true, 1, "recreate 0"),
            ("succeeded", job(json!({}), ended("Complete", 5)), false, 1_000_000, "keep"),
            (
                "succeeded within its TTL",
                job(json!({JOB_RESULT_TTL: "1h"}), ended("Complete", 0)),
                false,
                3599,
                "keep",
            ),
            (
                "succeeded beyond its TTL",
                job(json!({JOB_RESULT_TTL: "1h"}), ended("Complete", 0)),
                false,
                3600,
                "recreate 0",
            ),
            ("failed just now", job(json!({}), ended("Failed", 100)), false, 109, "keep"),
            ("failed before the backoff", job(json!({}), ended("Failed", 100)), false, 110, "recreate 1"),
            ("failed again just now", job(attempts("2"), ended("Failed", 100)), false, 139, "keep"),
            (
                "failed again before the backoff",
                job(attempts("2"), ended("Failed", 100)),
                false,
                140,
                "recreate 3",
            ),
            ("failed many times", job(attempts("60"), ended("Failed", 100)), false, 699, "keep"),
            (
                "failed many times, long ago",
                job(attempts("60"), ended("Failed", 100)),
                false,
                700,
                "recreate 61",
            ),
        ];
        for (what, live, is_changed, now, expected) in rows {
            let decided = match plan(&live, is_changed, at(now)) {
                Plan::Recreate { attempts, .. } => format!("recreate {attempts}"),
                Plan::Keep { .. } => "keep".to_owned(),
                other => format!("{other:?}"),
            };
            assert_eq!(decided, expected, "{what}");
        }
    }
}
