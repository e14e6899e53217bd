//! What the state of a pod is in a word, from the states of its containers. Pure.

use jiff::Timestamp;
use serde_json::Value;

use crate::object::{Meta, Object, list, text};
use crate::times;

/// A pod in brief.
pub(super) struct PodState {
    pub(super) reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<String>,
}

impl PodState {
    pub(super) fn ready(&self) -> String {
        format!("{}/{}", self.ready, self.total)
    }

    /// How often containers were started again, and how long ago that was.
    pub(super) fn restarted(&self, now: Timestamp) -> String {
        match (&self.last_restart, self.restarts) {
            (Some(last), restarts) if restarts > 0 => {
                format!("{restarts} ({} ago)", times::age(last, now))
            }
            (_, restarts) => restarts.to_string(),
        }
    }

    fn count(&mut self, container: &Value) {
        self.restarts += container.get("restartCount").and_then(Value::as_i64).unwrap_or(0);
        let ended = container.pointer("/lastState/terminated/finishedAt").and_then(Value::as_str);
        // Times in one form compare as texts.
        self.last_restart = self.last_restart.take().max(ended.map(str::to_owned));
    }
}

/// The state of a pod.
pub(super) fn of(pod: &Object) -> PodState {
    let mut state = PodState {
        reason: first_reason(pod),
        ready: 0,
        total: list(pod, "spec.containers").len()
            + list(pod, "spec.initContainers").iter().filter(|c| stays(c)).count(),
        restarts: 0,
        last_restart: None,
    };
    let initializing = initialize(pod, &mut state);
    if !initializing || condition(pod, "Initialized") {
        run(pod, &mut state);
    }
    let over = matches!(text(pod, "status.phase"), "Succeeded" | "Failed");
    if pod.is_being_deleted() && text(pod, "status.reason") == "NodeLost" {
        state.reason = "Unknown".to_owned();
    } else if pod.is_being_deleted() && !over {
        state.reason = "Terminating".to_owned();
    }
    state
}

/// How many of the conditions that a pod waits for hold.
pub(super) fn gates(pod: &Object) -> String {
    let gates = list(pod, "spec.readinessGates");
    if gates.is_empty() {
        return String::new();
    }
    let holds = |gate: &&Value| {
        gate.get("conditionType").and_then(Value::as_str).is_some_and(|kind| condition(pod, kind))
    };
    format!("{}/{}", gates.iter().filter(holds).count(), gates.len())
}

fn first_reason(pod: &Object) -> String {
    const GATED: &str = "SchedulingGated";
    let gated = list(pod, "status.conditions").iter().any(|condition| {
        condition.get("type").and_then(Value::as_str) == Some("PodScheduled")
            && condition.get("reason").and_then(Value::as_str) == Some(GATED)
    });
    let reason = match (gated, text(pod, "status.reason")) {
        (true, _) => GATED,
        (false, "") => text(pod, "status.phase"),
        (false, reason) => reason,
    };
    reason.to_owned()
}

/// Goes through the containers that must end before the others begin; whether one of them has not.
fn initialize(pod: &Object, state: &mut PodState) -> bool {
    let declared = list(pod, "spec.initContainers");
    for (at, container) in list(pod, "status.initContainerStatuses").iter().enumerate() {
        state.count(container);
        let name = container.get("name");
        let sidecar = declared.iter().any(|declared| declared.get("name") == name && stays(declared));
        let terminated = container.pointer("/state/terminated");
        let waiting = container.pointer("/state/waiting/reason").and_then(Value::as_str).unwrap_or_default();
        match terminated {
            Some(end) if exit_code(end) == 0 => continue,
            _ if sidecar && container.get("started") == Some(&Value::Bool(true)) => {
                state.ready += usize::from(is_ready(container));
                continue;
            }
            Some(end) => state.reason = format!("Init:{}", ending(end)),
            None if !waiting.is_empty() && waiting != "PodInitializing" => {
                state.reason = format!("Init:{waiting}");
            }
            None => state.reason = format!("Init:{at}/{}", declared.len()),
        }
        return true;
    }
    false
}

/// Goes through the containers proper, of which the first has the last word.
fn run(pod: &Object, state: &mut PodState) {
    (state.restarts, state.last_restart) = (0, None);
    let declared = list(pod, "spec.initContainers");
    for container in list(pod, "status.initContainerStatuses") {
        let name = container.get("name");
        if declared.iter().any(|declared| declared.get("name") == name && stays(declared)) {
            state.count(container);
        }
    }
    let mut running = false;
    let mut failure = None;
    for container in list(pod, "status.containerStatuses").iter().rev() {
        state.count(container);
        let waiting = container.pointer("/state/waiting/reason").and_then(Value::as_str).unwrap_or_default();
        if !waiting.is_empty() {
            state.reason = waiting.to_owned();
        } else if let Some(end) = container.pointer("/state/terminated") {
            state.reason = ending(end);
            if exit_code(end) != 0 {
                failure = Some(state.reason.clone());
            }
        } else if is_ready(container) && container.pointer("/state/running").is_some() {
            running = true;
            state.ready += 1;
        }
    }
    if state.reason == "Completed" {
        match failure {
            _ if running && condition(pod, "Ready") => state.reason = "Running".to_owned(),
            Some(failure) => state.reason = failure,
            None if running => state.reason = "NotReady".to_owned(),
            None => {}
        }
    }
}

/// Whether an init container runs beside the others rather than before them.
fn stays(container: &Value) -> bool {
    container.get("restartPolicy").and_then(Value::as_str) == Some("Always")
}

fn is_ready(container: &Value) -> bool {
    container.get("ready") == Some(&Value::Bool(true))
}

fn exit_code(end: &Value) -> i64 {
    end.get("exitCode").and_then(Value::as_i64).unwrap_or(0)
}

fn ending(end: &Value) -> String {
    let reason = end.get("reason").and_then(Value::as_str).unwrap_or_default();
    match end.get("signal").and_then(Value::as_i64).unwrap_or(0) {
        _ if !reason.is_empty() => reason.to_owned(),
        0 => format!("ExitCode:{}", exit_code(end)),
        signal => format!("Signal:{signal}"),
    }
}

fn condition(pod: &Object, kind: &str) -> bool {
    list(pod, "status.conditions").iter().any(|condition| {
        condition.get("type").and_then(Value::as_str) == Some(kind)
            && condition.get("status").and_then(Value::as_str) == Some("True")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_is_told_in_a_word() {
        let running = json!({"name": "a", "ready": true, "state": {"running": {}}});
        let crashed = json!({"name": "a", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"finishedAt": "2026-01-01T00:00:00Z"}}});
        let done = json!({"name": "a", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
        let killed = json!({"name": "b", "state": {"terminated": {"exitCode": 137, "signal": 9}}});
        for (status, ready, reason, restarts) in [
            (json!({"phase": "Pending"}), "0/1", "Pending", "0"),
            (json!({"phase": "Running", "containerStatuses": [running]}), "1/1", "Running", "0"),
            (
                json!({"phase": "Running", "containerStatuses": [crashed]}),
                "0/1",
                "CrashLoopBackOff",
                "3 (60s ago)",
            ),
            (json!({"phase": "Succeeded", "containerStatuses": [done]}), "0/1", "Completed", "0"),
            (json!({"phase": "Failed", "containerStatuses": [killed]}), "0/1", "Signal:9", "0"),
            (json!({"phase": "Failed", "reason": "Evicted"}), "0/1", "Evicted", "0"),
            (
                json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}),
                "0/1",
                "Init:0/1",
                "0",
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 2}}}]}),
                "0/1",
                "Init:ExitCode:2",
                "0",
            ),
        ] {
            let pod = json!({"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]}, "status": status});
            let state = of(pod.as_object().unwrap());
            let now = "2026-01-01T00:01:00Z".parse().unwrap();
            assert_eq!(
                (state.ready().as_str(), state.reason.as_str(), state.restarted(now).as_str()),
                (ready, reason, restarts),
                "{status}"
            );
        }
    }
}
