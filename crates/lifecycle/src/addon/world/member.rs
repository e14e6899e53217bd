//! How far a cluster is, to the rollout that it goes by: read from its ManagedClusterAddOn alone.

use std::sync::Arc;

use bellwether_api::addon::vocabulary::{AVAILABLE, DEGRADED, HEARTBEAT, PROGRESSING};
use bellwether_api::addon::{
    AddOnDeploymentConfig, AppliedConfig, ConfigReference, HashedConfig, ManagedClusterAddOn, SuccessCriteria,
};
use bellwether_runtime::ObjectName;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{Key, Management, World};
use crate::addon::decide::progress::{Course, Standing, wanted};
use crate::install::decide::Wish;
use crate::install::{Field, is_overridden, is_placed, is_placed_by, is_set_by_others};
use crate::rollout::{State, Strategy};

/// The only kind of configurations that templates are rendered with.
const CONFIG_GROUP: &str = "addon.open-cluster-management.io";
const CONFIG_RESOURCE: &str = "addondeploymentconfigs";
/// What a version is made of counts as its configuration: a template that is made anew under its name is another.
const TEMPLATE_RESOURCE: &str = "addontemplates";

/// The configurations of an add-on on a cluster, and what they were when they were read.
pub(super) struct Configs {
    pub(super) objects: Vec<Arc<AddOnDeploymentConfig>>,
    pub(super) references: Vec<AppliedConfig>,
}

impl Configs {
    /// Whether an add-on was last begun with these. A template that there is no more is no other.
    pub(super) fn are_those_of(&self, references: &[AppliedConfig]) -> bool {
        let template = |one: &&AppliedConfig| one.resource == TEMPLATE_RESOURCE;
        let same_template = match (self.references.iter().find(template), references.iter().find(template)) {
            (Some(now), Some(then)) => now == then,
            (None, _) => true,
            (Some(_), None) => false,
        };
        let others = |all: &[AppliedConfig]| -> Vec<AppliedConfig> {
            all.iter().filter(|one| !template(one)).cloned().collect()
        };
        same_template && others(&self.references) == others(references)
    }
}

impl World {
    /// How far a cluster is with what its placement asks for. One that has no ManagedClusterAddOn yet has not begun, nor
    /// has one whose ManagedClusterAddOn does not ask for it yet: **what is done with the version before is not done**.
    pub(super) fn state(
        &self,
        management: &Management,
        addon: &str,
        cluster: &str,
        wish: &Wish,
        strategy: &Result<Strategy, String>,
    ) -> State {
        if let Some(since) = self.begun.get(&Key::new(cluster, addon)) {
            return State::Changing(*since);
        }
        let found = self.addons.get(addon).and_then(|clusters| clusters.get(cluster));
        let Some(object) = found else { return State::Absent };
        if let Some(going) = &object.metadata.deletion_timestamp {
            return State::Changing(going.0);
        }
        if !is_placed(object) || is_overridden(object) {
            return State::Apart;
        }
        let begun_with = object.status.as_ref().map(|status| status.config_references.as_slice());
        let version = wanted(&object.spec.install_version, &management.catalogue);
        let same_configs = match self.configs_of(management, object) {
            Ok(configs) => configs.are_those_of(begun_with.unwrap_or_default()),
            // What cannot be read has not been begun, or has failed for that.
            Err(_) => true,
        };
        let criteria = strategy.as_ref().map(|strategy| strategy.criteria).unwrap_or_default();
        state_of(object, version.filter(|_| asks_for(object, wish)), same_configs, criteria)
    }

    /// The configurations that an add-on on a cluster names, and the defaults of kinds that it does not; in words what
    /// is missing.
    pub(super) fn configs_of(
        &self,
        management: &Management,
        object: &ManagedClusterAddOn,
    ) -> Result<Configs, String> {
        let named = &object.spec.configs;
        let defaults = management.object.spec.supported_configs.iter().filter_map(|supported| {
            let default = supported.default_config.as_ref()?;
            let taken =
                named.iter().any(|one| one.group == supported.group && one.resource == supported.resource);
            (!taken).then(|| ConfigReference {
                group: supported.group.clone(),
                resource: supported.resource.clone(),
                namespace: default.namespace.clone(),
                name: default.name.clone(),
            })
        });
        let mut configs = Configs { objects: Vec::new(), references: Vec::new() };
        let version = wanted(&object.spec.install_version, &management.catalogue);
        let template = version.and_then(|version| management.catalogue.template(version));
        if let Some((name, template)) = template.and_then(|name| Some((name, self.templates.get(name)?))) {
            let spec_hash = template.hash.clone();
            configs.references.push(AppliedConfig {
                group: CONFIG_GROUP.to_owned(),
                resource: TEMPLATE_RESOURCE.to_owned(),
                desired_config: HashedConfig { namespace: String::new(), name: name.to_owned(), spec_hash },
            });
        }
        for reference in named.iter().cloned().chain(defaults) {
            let ConfigReference { group, resource, namespace, name } = reference;
            if (group.as_str(), resource.as_str()) != (CONFIG_GROUP, CONFIG_RESOURCE) {
                return Err(format!(
                    "{resource}.{group} are no configurations of templates; {CONFIG_RESOURCE}.{CONFIG_GROUP} are"
                ));
            }
            let namespace =
                if namespace.is_empty() { object.namespace().unwrap_or_default() } else { namespace };
            let Some(found) = self.configs.get(&ObjectName::new(namespace.as_str(), name.as_str())) else {
                return Err(format!("there is no AddOnDeploymentConfig {namespace}/{name}"));
            };
            let desired_config = HashedConfig { namespace, name, spec_hash: found.hash.clone() };
            configs.references.push(AppliedConfig { group, resource, desired_config });
            configs.objects.push(found.object.clone());
        }
        Ok(configs)
    }
}

/// A configuration, and what its spec is in short.
pub(super) struct Config {
    pub(super) object: Arc<AddOnDeploymentConfig>,
    hash: String,
}

impl Config {
    pub(super) fn of(config: AddOnDeploymentConfig) -> Self {
        Self { hash: hash(&config.spec), object: Arc::new(config) }
    }
}

/// What a spec is, in short.
pub(super) fn hash(spec: &impl Serialize) -> String {
    // By way of a value, whose members are in order.
    let bytes = serde_json::to_value(spec).and_then(|spec| serde_json::to_vec(&spec));
    Sha256::digest(bytes.unwrap_or_default()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// How far a cluster is with a version, from what its ManagedClusterAddOn says. Where the configurations are not those
/// that it was last begun with, it has not begun.
pub fn state_of(
    object: &ManagedClusterAddOn,
    version: Option<&str>,
    same_configs: bool,
    criteria: SuccessCriteria,
) -> State {
    let Some(status) = &object.status else { return State::Waiting };
    let standing = Standing::read(status);
    if version != Some(standing.begun.as_str()) || !same_configs {
        return if matches!(standing.course, Course::Since(_)) && !standing.begun.is_empty() {
            State::Diverted
        } else {
            State::Waiting
        };
    }
    let Some(progressing) = find(&status.conditions, PROGRESSING) else { return State::Waiting };
    match standing.course {
        Course::Since(since) => State::Changing(since),
        Course::TimedOut => State::TimedOut,
        _ if standing.current == standing.begun => {
            let generation = object.metadata.generation.unwrap_or_default();
            proven(criteria, &status.conditions, generation, progressing.last_transition_time.0)
        }
        Course::Over | Course::Invalid => State::Failed,
    }
}

/// Whether all is as the strategy wants it, and since when.
fn proven(criteria: SuccessCriteria, conditions: &[Condition], generation: i64, applied: Timestamp) -> State {
    let lacks = |unwell: Timestamp, lacks: String| State::Unproven { since: applied, unwell, lacks };
    let wanted: &[(&str, &str)] = match criteria {
        SuccessCriteria::Applied => &[],
        SuccessCriteria::WorkloadAvailable => &[(AVAILABLE, "True")],
        SuccessCriteria::Healthy => &[(AVAILABLE, "True"), (HEARTBEAT, "True")],
        SuccessCriteria::Other => &[("", "True")],
    };
    let mut since = applied;
    for (type_, status) in wanted {
        match find(conditions, type_) {
            Some(said) if said.status == *status => since = since.max(said.last_transition_time.0),
            said => {
                let words =
                    said.map_or("not said".to_owned(), |said| format!("{}/{}", said.status, said.reason));
                let unwell = said.map_or(applied, |said| applied.max(said.last_transition_time.0));
                return lacks(unwell, format!("{type_} is {words}"));
            }
        }
    }
    if criteria == SuccessCriteria::Healthy {
        // The agent names the generation when it has heard the add-on since all was applied; whatever begins takes that
        // back.
        let heard = find(conditions, HEARTBEAT).and_then(|said| said.observed_generation);
        if heard != Some(generation) {
            return lacks(applied, "no heartbeat since it was applied".to_owned());
        }
        if let Some(wrong) = find(conditions, DEGRADED).filter(|wrong| wrong.status == "True") {
            let unwell = since.max(wrong.last_transition_time.0);
            return lacks(unwell, format!("{DEGRADED} is True/{}", wrong.reason));
        }
    }
    State::Done(since)
}

/// Whether it asks for what its placement does, as far as that is the placement's to say.
pub(super) fn asks_for(object: &ManagedClusterAddOn, wish: &Wish) -> bool {
    let configs = object.spec.configs == wish.configs || is_set_by_others(object, Field::Configs);
    object.spec.install_version == wish.version && configs && is_placed_by(object, &wish.placement)
}

pub(super) fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
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
            ("never heard", Healthy, vec![up.clone()], Err((10, "Heartbeat is not said"))),
            ("silent", Healthy, vec![up.clone(), silent], Err((30, "Heartbeat is Unknown/R"))),
            ("degraded", Healthy, vec![up, beats(Some(2)), wrong], Err((30, "Degraded is True/R"))),
        ];
        for (sentence, criteria, conditions, wanted) in rows {
            let wanted = match wanted {
                Ok(second) => State::Done(at(second)),
                Err((unwell, lacks)) => {
                    State::Unproven { since: at(10), unwell: at(unwell), lacks: lacks.to_owned() }
                }
            };
            assert_eq!(proven(criteria, &conditions, 2, at(10)), wanted, "{sentence}");
        }
    }
}
