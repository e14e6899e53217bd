//! Renders the ManifestWorks of a version for a cluster: replaces variables, applies configurations to workloads and splits
//! the objects into ManifestWorks. Pure: the same input renders the same bytes. Writing them is left to `addon`.

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

use crate::works::{DesiredWork, work_name};
use variables::Variables;

/// The default value of the variable `HUB_KUBECONFIG`.
const DEFAULT_HUB_KUBECONFIG: &str = "/managed/hub-kubeconfig/kubeconfig";

/// The version of the rendering. **Increase it whenever the same input renders other bytes**: then the ManifestWorks change on
/// every cluster, and the rollouts must limit that change.
pub const RENDERING_VERSION: u32 = 1;

/// Everything that the rendered objects depend on.
#[derive(Clone, Copy, Debug)]
pub struct RenderInput<'a> {
    /// The add-on.
    pub addon: &'a str,
    /// The cluster.
    pub cluster: &'a str,
    /// `spec.installNamespace` of the ManagedClusterAddOn.
    pub install_namespace: Option<&'a str>,
    /// The template of the version.
    pub template: &'a AddOnTemplateSpec,
    /// The configurations; later ones take precedence.
    pub configs: &'a [&'a AddOnDeploymentConfigSpec],
}

/// Why a version cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// An object lacks a required field.
    #[error("manifest {number}{what} has no {field}")]
    Incomplete {
        /// Its index in the template.
        number: usize,
        /// Kind and name of the object, as far as it has them.
        what: String,
        /// The missing field.
        field: &'static str,
    },
    /// A variable has no value.
    #[error("manifest {number}{what}: the variable {{{{{name}}}}} has no value")]
    Unset {
        /// The index of the object in the template.
        number: usize,
        /// Kind and name of the object.
        what: String,
        /// The variable.
        name: String,
    },
    /// An object exceeds the size limit of a ManifestWork.
    #[error("manifest {number}{what} has {size} bytes; a ManifestWork may have at most {limit}")]
    TooLarge {
        /// The index of the object in the template.
        number: usize,
        /// Kind and name of the object.
        what: String,
        /// Its size.
        size: usize,
        /// The size limit of a ManifestWork.
        limit: usize,
    },
    /// All objects together exceed the size limit of an add-on.
    #[error("the objects have {size} bytes; an add-on may have at most {limit}")]
    TooMuch {
        /// Their size.
        size: usize,
        /// The size limit of an add-on.
        limit: usize,
    },
}

/// A rendered ManifestWork.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// Its name.
    pub name: String,
    /// Its spec.
    pub spec: ManifestWorkSpec,
    /// The digest of its spec.
    pub digest: String,
}

impl Rendered {
    /// The part that is compared with existing ManifestWorks.
    pub fn desired_work(&self) -> DesiredWork {
        DesiredWork { name: self.name.clone(), digest: self.digest.clone() }
    }
}

/// Renders the ManifestWorks of a version for a cluster.
pub fn render(input: &RenderInput<'_>) -> Result<Vec<Rendered>, RenderError> {
    let namespace = install_namespace(input);
    let variables = variables(input, namespace.name);
    let mut manifests = Vec::with_capacity(input.template.agent_spec.workload.manifests.len());
    for (number, manifest) in input.template.agent_spec.workload.manifests.iter().enumerate() {
        let mut manifest = manifest.clone();
        variables.replace_in(&mut manifest).map_err(|name| RenderError::Unset {
            number,
            what: describe(&manifest),
            name,
        })?;
        check_required_fields(number, &manifest)?;
        if namespace.overrides_template {
            move_to_namespace(&mut manifest, namespace.name);
        }
        for config in input.configs {
            workload::apply_config(&mut manifest, input.addon, config);
        }
        manifests.push(manifest);
    }
    manifests.extend(workload::ca_config_map(input.addon, namespace.name, input.configs));
    let parts = split::split(manifests)?;
    Ok(parts
        .into_iter()
        .enumerate()
        .map(|(number, manifests)| build_work(input, number, manifests))
        .collect())
}

/// A digest of the spec of a ManifestWork; equal for equal content.
pub fn digest(spec: &ManifestWorkSpec) -> String {
    let bytes = serde_json::to_vec(&json!({
        "manifests": spec.workload.manifests,
        "configs": spec.manifest_configs,
        "delete": spec.delete_option,
    }));
    Sha256::digest(bytes.unwrap_or_default()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn build_work(input: &RenderInput<'_>, number: usize, manifests: Vec<Value>) -> Rendered {
    let template = &input.template.agent_spec;
    let manifest_configs = manifest_configs(&template.manifest_configs, &manifests);
    let mut spec = ManifestWorkSpec {
        manifest_configs,
        delete_option: template.delete_option.clone(),
        ..Default::default()
    };
    spec.workload.manifests = manifests;
    Rendered { name: work_name(input.addon, number), digest: digest(&spec), spec }
}

/// The namespace of an add-on on its cluster.
struct Namespace<'a> {
    name: &'a str,
    /// Whether it replaces the namespaces in the template.
    overrides_template: bool,
}

/// The namespace of a configuration replaces that of all objects; that of the ManagedClusterAddOn is only the value of a
/// variable.
fn install_namespace<'a>(input: &RenderInput<'a>) -> Namespace<'a> {
    let configured = input.configs.iter().rev().find_map(|config| config.agent_install_namespace.as_deref());
    match configured {
        Some(name) if !name.is_empty() => Namespace { name, overrides_template: true },
        _ => Namespace {
            name: input.install_namespace.unwrap_or(INSTALL_NAMESPACE),
            overrides_template: false,
        },
    }
}

fn variables(input: &RenderInput<'_>, namespace: &str) -> Variables {
    let mut values = BTreeMap::from([("HUB_KUBECONFIG".to_owned(), DEFAULT_HUB_KUBECONFIG.to_owned())]);
    for config in input.configs {
        values.extend(config.customized_variables.iter().map(|one| (one.name.clone(), one.value.clone())));
    }
    values.insert("CLUSTER_NAME".to_owned(), input.cluster.to_owned());
    values.insert("INSTALL_NAMESPACE".to_owned(), namespace.to_owned());
    Variables::new(values)
}

/// Checks the fields without which the agent could not apply an object.
fn check_required_fields(number: usize, manifest: &Value) -> Result<(), RenderError> {
    let rows = [("/apiVersion", "apiVersion"), ("/kind", "kind"), ("/metadata/name", "metadata.name")];
    for (path, field) in rows {
        let is_set = manifest.pointer(path).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
        if !is_set {
            return Err(RenderError::Incomplete { number, what: describe(manifest), field });
        }
    }
    Ok(())
}

/// Kind and name of an object for messages, ` (Deployment hello)`, or an empty string.
fn describe(manifest: &Value) -> String {
    let text = |path: &str| manifest.pointer(path).and_then(Value::as_str).unwrap_or_default();
    match (text("/kind"), text("/metadata/name")) {
        ("", "") => String::new(),
        (kind, name) => format!(" ({})", format!("{kind} {name}").trim()),
    }
}

/// Moves an object to another namespace, including the subjects of role bindings and Namespace objects.
fn move_to_namespace(manifest: &mut Value, namespace: &str) {
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

/// Kinds whose status feedback shows whether they are available.
const WORKLOADS: [(&str, &str, &str); 4] = [
    ("apps", "Deployment", "deployments"),
    ("apps", "DaemonSet", "daemonsets"),
    ("apps", "StatefulSet", "statefulsets"),
    ("batch", "Job", "jobs"),
];

/// The manifest configs of one ManifestWork: those of the template, and status feedback for all workloads.
fn manifest_configs(from_template: &[ManifestConfig], manifests: &[Value]) -> Vec<ManifestConfig> {
    let mut configs: Vec<ManifestConfig> = from_template.to_vec();
    for strategy in configs.iter_mut().filter_map(|config| config.update_strategy.as_mut()) {
        // Set the default of the API server here, so that the stored spec equals the rendered one.
        if let Some(apply) = &mut strategy.server_side_apply
            && apply.field_manager.is_empty()
        {
            apply.field_manager = "work-agent".to_owned();
        }
    }
    for manifest in manifests {
        let text = |path: &str| manifest.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let group = text("/apiVersion").split_once('/').map_or("", |(group, _)| group);
        let workload =
            WORKLOADS.iter().find(|(in_group, kind, _)| *in_group == group && *kind == text("/kind"));
        let Some((group, _, resource)) = workload else { continue };
        let identifier = ResourceIdentifier {
            group: (*group).to_owned(),
            resource: (*resource).to_owned(),
            namespace: text("/metadata/namespace").to_owned(),
            name: text("/metadata/name").to_owned(),
        };
        let rule = FeedbackRule { type_: FeedbackType::WellKnownStatus, json_paths: Vec::new() };
        match configs.iter_mut().find(|config| config.resource_identifier == identifier) {
            Some(config) if config.feedback_rules.contains(&rule) => {}
            Some(config) => config.feedback_rules.push(rule),
            None => configs.push(ManifestConfig {
                resource_identifier: identifier,
                feedback_rules: vec![rule],
                update_strategy: None,
            }),
        }
    }
    configs
}

/// A field that is an object, created if it is missing.
fn object_field<'v>(object: &'v mut Map<String, Value>, name: &str) -> Option<&'v mut Map<String, Value>> {
    object.entry(name).or_insert_with(|| json!({})).as_object_mut()
}

/// A field that is a list, created if it is missing.
fn list_field<'v>(object: &'v mut Map<String, Value>, name: &str) -> Option<&'v mut Vec<Value>> {
    object.entry(name).or_insert_with(|| json!([])).as_array_mut()
}

#[cfg(test)]
mod tests;
