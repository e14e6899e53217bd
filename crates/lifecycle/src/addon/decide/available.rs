//! Computes the conditions Available and ManifestApplied of a ManagedClusterAddOn: the worst of all reports wins. Pure.
//! How far a change of version is, is left to `progress`.

use bellwether_api::addon::vocabulary::{AVAILABLE, MANIFEST_APPLIED};
use bellwether_conditions::{Condition, ConditionType, Desired, Reason, Status, shorten};

use crate::works::{Replicas, WorkState, WorkStates, Workload};

/// The maximum length of a condition message.
const MAX_MESSAGE_BYTES: usize = 1024;

/// Reasons of the conditions Available and ManifestApplied.
pub mod reason {
    /// The cluster is unreachable.
    pub const CLUSTER_LOST: &str = "ManagedClusterLeaseUpdateStopped";
    /// A ManifestWork does not exist yet.
    pub const NOT_FOUND: &str = "WorkNotFound";
    /// The agent has not reported on a ManifestWork yet.
    pub const NOT_REPORTED: &str = "WorkNotApplied";
    /// The agent could not apply an object.
    pub const APPLY_FAILED: &str = "WorkApplyFailed";
    /// An object does not exist on the cluster.
    pub const NOT_AVAILABLE: &str = "WorkNotAvailable";
    /// Not all replicas of a workload are updated and ready.
    pub const PROBE_UNAVAILABLE: &str = "ProbeUnavailable";
    /// The agent has not reported the status of a workload.
    pub const NO_PROBE: &str = "NoProbeResult";
    /// The add-on stopped sending heartbeats.
    pub const SILENT: &str = "HeartbeatTimeout";
    /// The add-on reports that it is unhealthy.
    pub const UNHEALTHY: &str = "AddonUnhealthy";
    /// All objects are available, and none of them is a workload.
    pub const APPLIED: &str = "WorkApplied";
    /// All workloads are available.
    pub const PROBE_AVAILABLE: &str = "ProbeAvailable";
    /// The add-on is available, and its condition Degraded is True.
    pub const DEGRADED: &str = "Degraded";

    /// Of ManifestApplied: all objects were applied.
    pub const MANIFESTS_APPLIED: &str = "AddonManifestApplied";
    /// Of ManifestApplied: an object could not be applied.
    pub const MANIFESTS_FAILED: &str = "ManifestWorkApplyFailed";
}

/// Everything that the condition Available depends on.
#[derive(Clone, Copy, Debug)]
pub struct AvailabilityInput<'a> {
    /// Whether the cluster is reachable.
    pub is_reachable: bool,
    /// The states of the ManifestWorks; `None` before there is a version.
    pub work_states: Option<&'a WorkStates>,
    /// The workloads in them.
    pub workloads: &'a [Workload],
    /// The condition Heartbeat, which the agent reports.
    pub heartbeat: Option<&'a Condition>,
    /// The condition Degraded.
    pub degraded: Option<&'a Condition>,
}

/// Computes the condition Available.
pub fn available_condition(input: &AvailabilityInput<'_>) -> Desired {
    let (status, reason, message) = fold_reports(input);
    Desired::new(
        ConditionType::constant(AVAILABLE),
        status,
        Reason::constant(reason),
        shorten(&message, MAX_MESSAGE_BYTES),
    )
}

fn fold_reports(input: &AvailabilityInput<'_>) -> (Status, &'static str, String) {
    if !input.is_reachable {
        let message = "The cluster is unreachable; the state of the add-on there is unknown.".to_owned();
        return (Status::Unknown, reason::CLUSTER_LOST, message);
    }
    let Some(work_states) = input.work_states else {
        return (Status::Unknown, reason::NOT_FOUND, "Nothing was deployed yet.".to_owned());
    };
    let describe = |condition: &Condition| format!("{}: {}", condition.reason, condition.message);
    worst_work(work_states)
        .or_else(|| input.workloads.iter().find_map(workload_problem))
        .or_else(|| match input.heartbeat {
            Some(heartbeat) if heartbeat.status == Status::Unknown => {
                Some((Status::Unknown, reason::SILENT, describe(heartbeat)))
            }
            Some(heartbeat) if heartbeat.status == Status::False => {
                Some((Status::False, reason::UNHEALTHY, describe(heartbeat)))
            }
            _ => None,
        })
        .or_else(|| {
            let degraded = input.degraded.filter(|degraded| degraded.is_true())?;
            Some((Status::True, reason::DEGRADED, describe(degraded)))
        })
        .unwrap_or_else(|| match input.workloads {
            [] => (Status::True, reason::APPLIED, "All objects are available.".to_owned()),
            workloads => (
                Status::True,
                reason::PROBE_AVAILABLE,
                format!("{} workload(s) are available.", workloads.len()),
            ),
        })
}

/// The most severe problem of any ManifestWork: failures come before states that are unknown.
fn worst_work(work_states: &WorkStates) -> Option<(Status, &'static str, String)> {
    let problems = work_states.desired.iter().filter_map(|(name, state)| {
        Some(match state {
            WorkState::Ready => return None,
            WorkState::NotApplied(why) => {
                (0, Status::False, reason::APPLY_FAILED, format!("work {name}: {why}"))
            }
            WorkState::NotAvailable(why) => {
                (1, Status::False, reason::NOT_AVAILABLE, format!("work {name}: {why}"))
            }
            WorkState::Missing => {
                (2, Status::Unknown, reason::NOT_FOUND, format!("work {name} does not exist."))
            }
            WorkState::Stale | WorkState::Pending => {
                let message =
                    format!("work {name}: the agent has not reported yet that all objects are available.");
                (3, Status::Unknown, reason::NOT_REPORTED, message)
            }
            WorkState::Unknown(why) => {
                (4, Status::Unknown, reason::NOT_REPORTED, format!("work {name}: {why}"))
            }
        })
    });
    problems.min_by_key(|(rank, ..)| *rank).map(|(_, status, reason, message)| (status, reason, message))
}

/// Whether a workload is not available yet and the agent will report when it is.
pub fn is_starting(workload: &Workload) -> bool {
    workload.has_feedback && workload_problem(workload).is_some()
}

/// Why a workload is not available, as status, reason and message; `None` if all its replicas are updated and ready.
fn workload_problem(workload: &Workload) -> Option<(Status, &'static str, String)> {
    let name = &workload.name;
    let unavailable =
        |message: String| Some((Status::False, reason::PROBE_UNAVAILABLE, format!("{name}: {message}")));
    match workload.replicas {
        None => {
            Some((Status::Unknown, reason::NO_PROBE, format!("{name}: no status has been reported yet.")))
        }
        Some(Replicas { desired, updated_and_old: Some((updated, _)), .. }) if updated < desired => {
            unavailable(format!("{updated} of {desired} replicas are updated."))
        }
        Some(Replicas { desired, ready, .. }) if ready < desired => {
            unavailable(format!("{ready} of {desired} replicas are ready."))
        }
        // The ready replicas may be the old ones.
        Some(Replicas { updated_and_old: Some((_, old @ 1..)), .. }) => {
            unavailable(format!("{old} old replicas are still running."))
        }
        Some(_) => None,
    }
}

/// Computes the condition ManifestApplied over all ManifestWorks; `None` until the agent has reported on all of them.
pub fn manifest_applied_condition(work_states: &WorkStates) -> Option<Desired> {
    let type_ = ConditionType::constant(MANIFEST_APPLIED);
    if let Some((work, why)) = work_states.failure() {
        let message = shorten(&format!("work {work}: {why}"), MAX_MESSAGE_BYTES);
        return Some(Desired::new(type_, Status::False, Reason::constant(reason::MANIFESTS_FAILED), message));
    }
    let is_reported =
        |state: &WorkState| !matches!(state, WorkState::Missing | WorkState::Stale | WorkState::Pending);
    let all_reported = work_states.desired.iter().all(|(_, state)| is_reported(state));
    let message = match work_states.desired.as_slice() {
        [] => "no manifest need to apply",
        _ => "manifests of addon are applied successfully",
    };
    all_reported
        .then(|| Desired::new(type_, Status::True, Reason::constant(reason::MANIFESTS_APPLIED), message))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn work_states(states: &[WorkState]) -> WorkStates {
        let desired = states.iter().enumerate().map(|(number, state)| (format!("w{number}"), state.clone()));
        WorkStates { desired: desired.collect(), surplus: vec![] }
    }

    fn condition(status: Status, reason: &'static str) -> Condition {
        Desired::new(ConditionType::constant("X"), status, Reason::constant(reason), "message")
            .since(Timestamp::UNIX_EPOCH)
    }

    fn workload(replicas: Option<(i64, i64)>) -> Workload {
        let replicas = replicas.map(|(ready, desired)| Replicas { desired, ready, updated_and_old: None });
        Workload { name: "Deployment hello/hello".to_owned(), replicas, has_feedback: true }
    }

    #[test]
    fn workload_is_available_when_all_replicas_are_updated_and_ready() {
        let replicas = |desired, ready, updated_and_old| Some(Replicas { desired, ready, updated_and_old });
        let rows = [
            (None, Some("no status has been reported yet.")),
            (replicas(3, 3, None), None),
            (replicas(3, 2, None), Some("2 of 3 replicas are ready.")),
            (replicas(0, 0, Some((0, 0))), None),
            (replicas(3, 3, Some((0, 3))), Some("0 of 3 replicas are updated.")),
            (replicas(3, 3, Some((3, 3))), Some("3 old replicas are still running.")),
            (replicas(3, 2, Some((3, 0))), Some("2 of 3 replicas are ready.")),
            (replicas(3, 3, Some((3, 0))), None),
        ];
        for (replicas, expected) in rows {
            let workload = Workload { name: "w".to_owned(), replicas, has_feedback: true };
            let problem = workload_problem(&workload).map(|(_, _, message)| message);
            assert_eq!(problem, expected.map(|message| format!("w: {message}")), "{replicas:?}");
            assert_eq!(is_starting(&workload), expected.is_some(), "{replicas:?}");
            assert!(
                !is_starting(&Workload { has_feedback: false, ..workload }),
                "{replicas:?}, without feedback"
            );
        }
    }

    #[test]
    fn available_condition_reports_worst_problem() {
        let ready = work_states(&[WorkState::Ready]);
        let rejected =
            work_states(&[WorkState::Pending, WorkState::Missing, WorkState::NotApplied("no".into())]);
        let deleted = work_states(&[WorkState::Pending, WorkState::NotAvailable("deleted".into())]);
        let pending = work_states(&[WorkState::Ready, WorkState::Pending]);
        let up = [workload(Some((2, 2)))];
        let down = [workload(Some((2, 2))), workload(Some((1, 2)))];
        let unreported = [workload(None)];
        let silent = condition(Status::Unknown, "HeartbeatTimeout");
        let unhealthy = condition(Status::False, "OutOfMemory");
        let alive = condition(Status::True, "ReceivingHeartbeats");
        let degraded = condition(Status::True, "Degraded");
        let healthy = AvailabilityInput {
            is_reachable: true,
            work_states: Some(&ready),
            workloads: &[],
            heartbeat: None,
            degraded: None,
        };
        let rows: Vec<(AvailabilityInput<'_>, &str)> = vec![
            (
                AvailabilityInput { is_reachable: false, ..healthy },
                "Unknown/ManagedClusterLeaseUpdateStopped: The cluster is unreachable; the state of the add-on there is unknown.",
            ),
            (
                AvailabilityInput { work_states: None, ..healthy },
                "Unknown/WorkNotFound: Nothing was deployed yet.",
            ),
            (
                AvailabilityInput { work_states: Some(&rejected), ..healthy },
                "False/WorkApplyFailed: work w2: no",
            ),
            (
                AvailabilityInput { work_states: Some(&deleted), ..healthy },
                "False/WorkNotAvailable: work w1: deleted",
            ),
            (
                AvailabilityInput { work_states: Some(&pending), heartbeat: Some(&unhealthy), ..healthy },
                "Unknown/WorkNotApplied: work w1: the agent has not reported yet that all objects are available.",
            ),
            (
                AvailabilityInput { workloads: &down, heartbeat: Some(&silent), ..healthy },
                "False/ProbeUnavailable: Deployment hello/hello: 1 of 2 replicas are ready.",
            ),
            (
                AvailabilityInput { workloads: &unreported, ..healthy },
                "Unknown/NoProbeResult: Deployment hello/hello: no status has been reported yet.",
            ),
            (
                AvailabilityInput {
                    workloads: &up,
                    heartbeat: Some(&silent),
                    degraded: Some(&degraded),
                    ..healthy
                },
                "Unknown/HeartbeatTimeout: HeartbeatTimeout: message",
            ),
            (
                AvailabilityInput { heartbeat: Some(&unhealthy), ..healthy },
                "False/AddonUnhealthy: OutOfMemory: message",
            ),
            (
                AvailabilityInput { workloads: &up, degraded: Some(&degraded), ..healthy },
                "True/Degraded: Degraded: message",
            ),
            (
                AvailabilityInput { workloads: &up, heartbeat: Some(&alive), ..healthy },
                "True/ProbeAvailable: 1 workload(s) are available.",
            ),
            (healthy, "True/WorkApplied: All objects are available."),
        ];
        for (input, expected) in rows {
            let found = available_condition(&input);
            assert_eq!(format!("{}/{}: {}", found.status, found.reason, found.message), expected);
        }
    }

    #[test]
    fn manifest_applied_requires_a_report_on_each_manifest_work() {
        let rows: Vec<(WorkStates, Option<&str>)> = vec![
            (work_states(&[]), Some("True: no manifest need to apply")),
            (
                work_states(&[WorkState::Ready, WorkState::NotAvailable("deleted".into())]),
                Some("True: manifests of addon are applied successfully"),
            ),
            (work_states(&[WorkState::Ready, WorkState::Pending]), None),
            (
                work_states(&[WorkState::NotApplied("no".into()), WorkState::Ready]),
                Some("False: work w0: no"),
            ),
        ];
        for (work_states, expected) in rows {
            let found = manifest_applied_condition(&work_states)
                .map(|condition| format!("{}: {}", condition.status, condition.message));
            assert_eq!(found.as_deref(), expected);
        }
    }
}
