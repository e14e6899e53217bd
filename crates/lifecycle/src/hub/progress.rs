//! How far a cluster is in its rollout, read from its ManagedClusterAddOn alone.

use bellwether_api::addon::vocabulary::{AVAILABLE, DEGRADED, HEARTBEAT, PROGRESSING};
use bellwether_api::addon::{ManagedClusterAddOn, SuccessCriteria};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{AddonKey, HubCache, Management};
use crate::assignment::AddonRequest;
use crate::fields::{Field, is_installed_for, is_overridden, is_placed, is_set_by_others};
use crate::rollout::{State, Strategy};
use crate::standing::{Course, Standing, requested_version};
use crate::version::Version;
use bellwether_conditions::kubernetes::find;

impl HubCache {
    /// How far a cluster is with what its assigned placement asks for. One without a ManagedClusterAddOn has not begun, nor
    /// has one whose ManagedClusterAddOn does not ask for it yet: **what is done with the version before is not done**.
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
            // A configuration that cannot be read was not begun with, or the change failed for that.
            Err(_) => true,
        };
        let criteria = strategy.as_ref().map(|strategy| strategy.criteria).unwrap_or_default();
        let version = version.as_ref().filter(|_| requests_same(object, request));
        state_of(object, version, same_configs, criteria)
    }
}

/// How far a cluster is with a version, from its ManagedClusterAddOn. With other configurations than those of its status it
/// has not begun.
pub fn state_of(
    object: &ManagedClusterAddOn,
    version: Option<&Version>,
    same_configs: bool,
    criteria: SuccessCriteria,
) -> State {
    let Some(status) = &object.status else { return State::Waiting };
    let standing = Standing::read(status);
    if version.is_none() || version != standing.begun.as_ref() || !same_configs {
        return if matches!(standing.course, Course::Since(_)) && standing.begun.is_some() {
            State::Diverted
        } else {
            State::Waiting
        };
    }
    let Some(progressing) = find(&status.conditions, PROGRESSING) else { return State::Waiting };
    match standing.course {
        Course::Since(since) => State::Changing(since),
        Course::TimedOut(_) => State::TimedOut,
        _ if standing.is_current() => {
            let generation = object.metadata.generation.unwrap_or_default();
            proven(criteria, &status.conditions, generation, progressing.last_transition_time.0)
        }
        Course::Over | Course::Invalid => State::Failed,
    }
}

/// Whether the success criteria are met, and since when.
fn proven(criteria: SuccessCriteria, conditions: &[Condition], generation: i64, applied: Timestamp) -> State {
    let unproven =
        |unmet_since: Timestamp, missing: String| State::Unproven { since: applied, unmet_since, missing };
    let wanted: &[(&str, &str)] = match criteria {
        SuccessCriteria::Applied => &[],
        SuccessCriteria::WorkloadAvailable => &[(AVAILABLE, "True")],
        SuccessCriteria::Healthy => &[(AVAILABLE, "True"), (HEARTBEAT, "True")],
        SuccessCriteria::Other => &[("", "True")],
    };
    let mut since = applied;
    for (type_, status) in wanted {
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

/// Whether a ManagedClusterAddOn asks for what its placement does, in the fields that the placement decides.
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
    fn success_is_what_the_strategy_says_it_is() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let condition = |type_: &str, status: &str, second: i64, observed: Option<i64>| -> Condition {
            serde_json::from_value(json!({"type": type_, "status": status, "reason": "R", "message": "",
                "lastTransitionTime": at(second).to_string(), "observedGeneration": observed}))
            .unwrap()
        };
        let up = condition(AVAILABLE, "True", 20, None);
        let down = condition(AVAILABLE, "False", 20, None);
        let beats = |observed| condition(HEARTBEAT, "True", 5, observed);
        let silent = condition(HEARTBEAT, "Unknown", 30, Some(2));
        let wrong = condition(DEGRADED, "True", 30, None);
        use SuccessCriteria::{Applied, Healthy, WorkloadAvailable};
        type Row = (&'static str, SuccessCriteria, Vec<Condition>, Result<i64, (i64, &'static str)>);
        let rows: Vec<Row> = vec![
            ("applied", Applied, vec![down.clone(), silent.clone(), wrong.clone()], Ok(10)),
            ("up", WorkloadAvailable, vec![up.clone(), silent.clone()], Ok(20)),
            ("not up", WorkloadAvailable, vec![down], Err((20, "Available is False/R"))),
            ("heard since", Healthy, vec![up.clone(), beats(Some(2))], Ok(20)),
            (
                "heard before",
                Healthy,
                vec![up.clone(), beats(None)],
                Err((10, "no heartbeat since it was applied")),
            ),
            (
                "heard of another generation",
                Healthy,
                vec![up.clone(), beats(Some(1))],
                Err((10, "no heartbeat since it was applied")),
            ),
            ("never heard", Healthy, vec![up.clone()], Err((10, "Heartbeat is not reported"))),
            ("silent", Healthy, vec![up.clone(), silent], Err((30, "Heartbeat is Unknown/R"))),
            ("degraded", Healthy, vec![up, beats(Some(2)), wrong], Err((30, "Degraded is True/R"))),
        ];
        for (sentence, criteria, conditions, wanted) in rows {
            let wanted = match wanted {
                Ok(second) => State::Done(at(second)),
                Err((unmet, missing)) => {
                    State::Unproven { since: at(10), unmet_since: at(unmet), missing: missing.to_owned() }
                }
            };
            assert_eq!(proven(criteria, &conditions, 2, at(10)), wanted, "{sentence}");
        }
    }
}
