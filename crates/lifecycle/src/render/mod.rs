//! From a version to the works of a cluster: variables are filled in, workloads get what the configurations ask for, and
//! the objects are split over as many works as they need. Pure: the same input makes the same bytes.

mod split;
mod variables;
mod workload;

use std::collections::BTreeMap;

use bellwether_api::addon::vocabulary::INSTALL_NAMESPACE;
use bellwether_api::addon::{AddOnDeploymentConfigSpec, AddOnTemplateSpec};
use bellwether_api::work::{
    FeedbackRule, FeedbackType, ManifestConfig, ManifestWorkSpec, ResourceIdentifier,
};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::works::{Wanted, work_name};
use variables::Variables;

/// Where credentials for the hub are found, where nobody says otherwise.
const HUB_KUBECONFIG: &str = "/managed/hub-kubeconfig/kubeconfig";

/// The manner in which objects are made of a version. **It is raised whenever the same input makes other bytes**: what is
/// made then changes on every cluster, and has to go by the rollouts instead of everywhere at once.
pub const MANNER: u32 = 1;

/// What the objects of a version depend on.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// The add-on.
    pub addon: &'a str,
    /// The cluster.
    pub cluster: &'a str,
    /// The namespace that the ManagedClusterAddOn asks for.
    pub install_namespace: Option<&'a str>,
    /// The version.
    pub template: &'a AddOnTemplateSpec,
    /// The configurations, the last of which counts where they differ.
    pub configs: &'a [&'a AddOnDeploymentConfigSpec],
}

/// Why the objects of a version cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// An object lacks what every object has.
    #[error("manifest {number}{what} has no {field}")]
    Incomplete {
        /// Its place in the template, from 0.
        number: usize,
        /// Which object it is, as far as that is known.
        what: String,
        /// What it lacks.
        field: &'static str,
    },
    /// A variable stands for nothing.
    #[error("manifest {number}{what}: the variable {{{{{name}}}}} has no value")]
    Unset {
        /// The place of the object in the template, from 0.
        number: usize,
        /// Which object it is.
        what: String,
        /// The variable.
        name: String,
    },
    /// An object is larger than a work may be.
    #[error("manifest {number}{what} has {size} bytes, and a work holds {limit}")]
    TooLarge {
        /// The place of the object in the template, from 0.
        number: usize,
        /// Which object it is.
        what: String,
        /// Its size.
        size: usize,
        /// What a work holds.
        limit: usize,
    },
    /// All objects together are more than a cluster is given.
    #[error("the objects have {size} bytes, and an add-on may have {limit}")]
    TooMuch {
        /// Their size.
        size: usize,
        /// The most.
        limit: usize,
    },
}

/// A work as it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// Its name.
    pub name: String,
    /// What is asked of the cluster.
    pub spec: ManifestWorkSpec,
    /// What that is, in short.
    pub digest: String,
}

impl Rendered {
    /// What it is to those who only compare.
    pub fn wanted(&self) -> Wanted {
        Wanted { name: self.name.clone(), digest: self.digest.clone() }
    }
}

/// Makes the works of a version for a cluster.
pub fn render(order: &Order<'_>) -> Result<Vec<Rendered>, RenderError> {
    let namespace = namespace(order);
    let variables = variables(order, namespace.name);
    let mut manifests = Vec::with_capacity(order.template.agent_spec.workload.manifests.len());
    for (number, manifest) in order.template.agent_spec.workload.manifests.iter().enumerate() {
        let mut manifest = manifest.clone();
        variables.fill_in(&mut manifest).map_err(|name| RenderError::Unset {
            number,
            what: described(&manifest),
            name,
        })?;
        complete(number, &manifest)?;
        if namespace.moves {
            move_to(&mut manifest, namespace.name);
        }
        for config in order.configs {
            workload::adapt(&mut manifest, order.addon, config);
        }
        manifests.push(manifest);
    }
    manifests.extend(workload::certificates(order.addon, namespace.name, order.configs));
    let parts = split::split(manifests)?;
    Ok(parts.into_iter().enumerate().map(|(number, manifests)| work(order, number, manifests)).collect())
}

/// What a work asks for, in short; equal for equal works, however they were written.
pub fn digest(spec: &ManifestWorkSpec) -> String {
    let bytes = serde_json::to_vec(&json!({
        "manifests": spec.workload.manifests,
        "configs": spec.manifest_configs,
        "delete": spec.delete_option,
    }));
    Sha256::digest(bytes.unwrap_or_default()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn work(order: &Order<'_>, number: usize, manifests: Vec<Value>) -> Rendered {
    let template = &order.template.agent_spec;
    let manifest_configs = configs(&template.manifest_configs, &manifests);
    let mut spec = ManifestWorkSpec {
        manifest_configs,
        delete_option: template.delete_option.clone(),
        ..Default::default()
    };
    spec.workload.manifests = manifests;
    Rendered { name: work_name(order.addon, number), digest: digest(&spec), spec }
}

/// The namespace of an add-on on its cluster.
struct Namespace<'a> {
    name: &'a str,
    /// Whether the objects of the template go there wherever it puts them.
    moves: bool,
}

/// What a configuration says moves all objects; what the ManagedClusterAddOn says is a variable and no more.
fn namespace<'a>(order: &Order<'a>) -> Namespace<'a> {
    let said = order.configs.iter().rev().find_map(|config| config.agent_install_namespace.as_deref());
    match said {
        Some(name) if !name.is_empty() => Namespace { name, moves: true },
        _ => Namespace { name: order.install_namespace.unwrap_or(INSTALL_NAMESPACE), moves: false },
    }
}

fn variables(order: &Order<'_>, namespace: &str) -> Variables {
    let mut values = BTreeMap::from([("HUB_KUBECONFIG".to_owned(), HUB_KUBECONFIG.to_owned())]);
    for config in order.configs {
        values.extend(config.customized_variables.iter().map(|one| (one.name.clone(), one.value.clone())));
    }
    values.insert("CLUSTER_NAME".to_owned(), order.cluster.to_owned());
    values.insert("INSTALL_NAMESPACE".to_owned(), namespace.to_owned());
    Variables::new(values)
}

/// Every object has a kind and a name, or the cluster could not be asked for it.
fn complete(number: usize, manifest: &Value) -> Result<(), RenderError> {
    let rows = [("/apiVersion", "apiVersion"), ("/kind", "kind"), ("/metadata/name", "metadata.name")];
    for (path, field) in rows {
        let there = manifest.pointer(path).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
        if !there {
            return Err(RenderError::Incomplete { number, what: described(manifest), field });
        }
    }
    Ok(())
}

/// Which object it is, for people: ` (Deployment hello)`, or nothing.
fn described(manifest: &Value) -> String {
    let text = |path: &str| manifest.pointer(path).and_then(Value::as_str).unwrap_or_default();
    match (text("/kind"), text("/metadata/name")) {
        ("", "") => String::new(),
        (kind, name) => format!(" ({})", format!("{kind} {name}").trim()),
    }
}

/// Puts an object into another namespace, with the accounts that it names and the namespace that it is.
fn move_to(manifest: &mut Value, namespace: &str) {
    let kind = manifest.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    if let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) {
        if kind == "Namespace" {
            metadata.insert("name".to_owned(), namespace.into());
        } else if metadata.contains_key("namespace") {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
    }
    if matches!(kind.as_str(), "RoleBinding" | "ClusterRoleBinding") {
        let subjects = manifest.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten();
        for subject in subjects.filter_map(Value::as_object_mut).filter(|one| one.contains_key("namespace")) {
            subject.insert("namespace".to_owned(), namespace.into());
        }
    }
}

/// Kinds whose status tells whether they are up.
const WORKLOADS: [(&str, &str, &str); 4] = [
    ("apps", "Deployment", "deployments"),
    ("apps", "DaemonSet", "daemonsets"),
    ("apps", "StatefulSet", "statefulsets"),
    ("batch", "Job", "jobs"),
];

/// What is asked for the objects of one work: what the template says of them, and how workloads are.
fn configs(written: &[ManifestConfig], manifests: &[Value]) -> Vec<ManifestConfig> {
    let mut configs: Vec<ManifestConfig> = written.to_vec();
    for strategy in configs.iter_mut().filter_map(|config| config.update_strategy.as_mut()) {
        // What the API server would fill in, so that what is stored is what was asked for.
        if let Some(apply) = &mut strategy.server_side_apply
            && apply.field_manager.is_empty()
        {
            apply.field_manager = "work-agent".to_owned();
        }
    }
    for manifest in manifests {
        let text = |path: &str| manifest.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let group = text("/apiVersion").split_once('/').map_or("", |(group, _)| group);
        let known = WORKLOADS.iter().find(|(in_group, kind, _)| *in_group == group && *kind == text("/kind"));
        let Some((group, _, resource)) = known else { continue };
        let identifier = ResourceIdentifier {
            group: (*group).to_owned(),
            resource: (*resource).to_owned(),
            namespace: text("/metadata/namespace").to_owned(),
            name: text("/metadata/name").to_owned(),
        };
        let known = FeedbackRule { type_: FeedbackType::WellKnownStatus, json_paths: Vec::new() };
        match configs.iter_mut().find(|config| config.resource_identifier == identifier) {
            Some(config) if config.feedback_rules.contains(&known) => {}
            Some(config) => config.feedback_rules.push(known),
            None => configs.push(ManifestConfig {
                resource_identifier: identifier,
                feedback_rules: vec![known],
                update_strategy: None,
            }),
        }
    }
    configs
}

/// A part of an object, made where there is none.
fn part<'v>(object: &'v mut Map<String, Value>, name: &str) -> Option<&'v mut Map<String, Value>> {
    object.entry(name).or_insert_with(|| json!({})).as_object_mut()
}

/// A list in an object, made where there is none.
fn items<'v>(object: &'v mut Map<String, Value>, name: &str) -> Option<&'v mut Vec<Value>> {
    object.entry(name).or_insert_with(|| json!([])).as_array_mut()
}

#[cfg(test)]
mod tests;
