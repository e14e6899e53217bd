//! Reads the state of a cluster in its rollout from its ManagedClusterAddOn.
//! Which clusters may start is left to `rollout`.

use bellwether_api::addon::vocabulary::{AVAILABLE, DEGRADED, HEARTBEAT, PROGRESSING};
use bellwether_api::addon::{ManagedClusterAddOn, SuccessCriteria};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{AddonKey, HubCache, Management};
use crate::assignment::AddonRequest;
use crate::fields::{Field, is_installed_for, is_overridden, is_placed, is_set_by_others};
use crate::rollout::{State, Strategy};
use crate::standing::{ChangeState, Standing, requested_version};
use crate::version::Version;
use bellwether_conditions::kubernetes::find;

impl HubCache {
    /// The state of a cluster with respect to the request of its assigned placement. A cluster has not started if it has no
    /// ManagedClusterAddOn, or if its ManagedClusterAddOn does not have that request yet: **success with the previous version
    /// does not count as success with the new one**.
    pub(super) fn state(
        &self,
        management: &Management,
        addon: &str,
        cluster: &str,
        request: &AddonRequest,
        strategy: &Result<Strategy, String>,
    ) -> State {
        let key = AddonKey::new(cluster, addon);
        if let Some(since) = self.starting.get(&key) {
            return State::Changing(*since);
        }
        let Some(object) = self.addon(&key) else { return State::Absent };
        if let Some(deletion) = &object.metadata.deletion_timestamp {
            return State::Changing(deletion.0);
        }
        if !is_placed(object) || is_overridden(object) {
            return State::Overridden;
        }
        let applied = object.status.as_ref().map(|status| status.config_references.as_slice());
        let version = requested_version(object, &management.catalogue);
        let same_configs = match self.configs_of(management, object) {
            Ok(configs) => configs.are_same_as(applied.unwrap_or_default()),
            // If a configuration cannot be read, the change has not started, or it has failed because of that.
            Err(_) => true,
        };
        let criteria = strategy.as_ref().map(|strategy| strategy.criteria).unwrap_or_default();
        let version = version.as_ref().filter(|_| requests_same(object, request));
        state_of(object, version, same_configs, criteria)
    }
}

/// The state of a cluster with respect to a version, from its ManagedClusterAddOn. If its configurations differ from those
/// in its status, it has not started.
pub fn state_of(
    object: &ManagedClusterAddOn,
    version: Option<&Version>,
    same_configs: bool,
    criteria: SuccessCriteria,
) -> State {
    let Some(status) = &object.status else { return State::Waiting };
    let standing = Standing::read(status);
    if version.is_none() || version != standing.begun.as_ref() || !same_configs {
        return if matches!(standing.change, ChangeState::InProgress(_)) && standing.begun.is_some() {
            State::Diverted
        } else {
            State::Waiting
        };
    }
    let Some(progressing) = find(&status.conditions, PROGRESSING) else { return State::Waiting };
    match standing.change {
        ChangeState::InProgress(since) => State::Changing(since),
        ChangeState::TimedOut(_) => State::TimedOut,
        _ if standing.is_current() => {
            let generation = object.metadata.generation.unwrap_or_default();
            evaluate_criteria(criteria, &status.conditions, generation, progressing.last_transition_time.0)
        }
        ChangeState::Ended | ChangeState::InvalidVersion => State::Failed,
    }
}

/// Whether the success criteria are met, and since when.
fn evaluate_criteria(
    criteria: SuccessCriteria,
    conditions: &[Condition],
    generation: i64,
    applied: Timestamp,
) -> State {
    let unproven =
        |unmet_since: Timestamp, missing: String| State::Unproven { since: applied, unmet_since, missing };
    let required: &[(&str, &str)] = match criteria {
        SuccessCriteria::Applied => &[],
        SuccessCriteria::WorkloadAvailable => &[(AVAILABLE, "True")],
        SuccessCriteria::Healthy => &[(AVAILABLE, "True"), (HEARTBEAT, "True")],
        SuccessCriteria::Other => &[("", "True")],
    };
    let mut since = applied;
    for (type_, status) in required {
        match find(conditions, type_) {
            Some(condition) if condition.status == *status => {
                since = since.max(condition.last_transition_time.0);
            }
            Some(condition) => {
                let missing = format!("{type_} is {}/{}", condition.status, condition.reason);
                return unproven(applied.max(condition.last_transition_time.0), missing);
            }
            None => return unproven(applied, format!("{type_} is not reported")),
        }
    }
    if criteria == SuccessCriteria::Healthy {
        // The agent sets the generation when a heartbeat arrived since everything was applied; a new change removes it.
        let confirmed = find(conditions, HEARTBEAT).and_then(|condition| condition.observed_generation);
        if confirmed != Some(generation) {
            return unproven(applied, "no heartbeat since it was applied".to_owned());
        }
        if let Some(degraded) = find(conditions, DEGRADED).filter(|degraded| degraded.status == "True") {
            let unmet_since = since.max(degraded.last_transition_time.0);
            return unproven(unmet_since, format!("{DEGRADED} is True/{}", degraded.reason));
        }
    }
    State::Done(since)
}

/// Whether a ManagedClusterAddOn has the request of its placement, in the fields that the placement controls.
pub fn requests_same(object: &ManagedClusterAddOn, request: &AddonRequest) -> bool {
    let configs = object.spec.configs == request.configs || is_set_by_others(object, Field::Configs);
    Version::new(&object.spec.install_version) == request.version
        && configs
        && is_installed_for(object, &request.placement)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn success_depends_on_criteria_of_strategy() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let condition = |type_: &str, status: &str, second: i64, observed: Option<i64>| -> Condition {
            serde_json::from_value(json!({"type": type_, "status": status, "reason": "R", "message": "",
                "lastTransitionTime": at(second).to_string(), "observedGeneration": observed}))
            .unwrap()
        };
        let up = condition(AVAILABLE, "True", 20, None);
        let down = condition(AVAILABLE, "False", 20, None);
        let heartbeat = |observed| condition(HEARTBEAT, "True", 5, observed);
        let silent = condition(HEARTBEAT, "Unknown", 30, Some(2));
        let degraded = condition(DEGRADED, "True", 30, None);
        use SuccessCriteria::{Applied, Healthy, WorkloadAvailable};
        type Row = (&'static str, SuccessCriteria, Vec<Condition>, Result<i64, (i64, &'static str)>);
        let rows: Vec<Row> = vec![
            ("applied", Applied, vec![down.clone(), silent.clone(), degraded.clone()], Ok(10)),
            ("available", WorkloadAvailable, vec![up.clone(), silent.clone()], Ok(20)),
            ("not available", WorkloadAvailable, vec![down], Err((20, "Available is False/R"))),
            ("heartbeat since the change", Healthy, vec![up.clone(), heartbeat(Some(2))], Ok(20)),
            (
                "heartbeat before the change",
                Healthy,
                vec![up.clone(), heartbeat(None)],
                Err((10, "no heartbeat since it was applied")),
            ),
            (
                "heartbeat of another generation",
                Healthy,
                vec![up.clone(), heartbeat(Some(1))],
                Err((10, "no heartbeat since it was applied")),
            ),
            ("no heartbeat ever", Healthy, vec![up.clone()], Err((10, "Heartbeat is not reported"))),
            ("silent", Healthy, vec![up.clone(), silent], Err((30, "Heartbeat is Unknown/R"))),
            ("degraded", Healthy, vec![up, heartbeat(Some(2)), degraded], Err((30, "Degraded is True/R"))),
        ];
        for (case, criteria, conditions, expected) in rows {
            let expected = match expected {
                Ok(second) => State::Done(at(second)),
                Err((unmet, missing)) => {
                    State::Unproven { since: at(10), unmet_since: at(unmet), missing: missing.to_owned() }
                }
            };
            assert_eq!(evaluate_criteria(criteria, &conditions, 2, at(10)), expected, "{case}");
        }
    }
}
