//! The configurations that an add-on on a cluster is rendered with, and their hashes, by which a change is noticed.

use std::sync::Arc;

use bellwether_api::addon::{
    AddOnDeploymentConfig, AppliedConfig, ConfigReference, HashedConfig, ManagedClusterAddOn,
};
use bellwether_runtime::ObjectName;
use kube::ResourceExt as _;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{HubCache, Management};
use crate::standing::requested_version;

/// The only kind of configuration that templates are rendered with.
const CONFIG_GROUP: &str = "addon.open-cluster-management.io";
const CONFIG_RESOURCE: &str = "addondeploymentconfigs";
/// A template counts as a configuration: one that is created again under its name is another.
const TEMPLATE_RESOURCE: &str = "addontemplates";

/// The configurations of an add-on on a cluster, and their hashes.
pub(crate) struct Configs {
    pub(crate) objects: Vec<Arc<AddOnDeploymentConfig>>,
    pub(crate) references: Vec<AppliedConfig>,
}

impl Configs {
    /// Whether these are the references of an add-on's status. A template that was deleted is not a change.
    pub(crate) fn are_same_as(&self, references: &[AppliedConfig]) -> bool {
        let is_template = |one: &&AppliedConfig| one.resource == TEMPLATE_RESOURCE;
        let same_template =
            match (self.references.iter().find(is_template), references.iter().find(is_template)) {
                (Some(now), Some(then)) => now == then,
                (None, _) => true,
                (Some(_), None) => false,
            };
        let others = |all: &[AppliedConfig]| -> Vec<AppliedConfig> {
            all.iter().filter(|one| !is_template(one)).cloned().collect()
        };
        same_template && others(&self.references) == others(references)
    }
}

/// An AddOnDeploymentConfig and the hash of its spec.
pub(crate) struct Config {
    pub(super) object: Arc<AddOnDeploymentConfig>,
    hash: String,
}

impl Config {
    pub(super) fn of(config: AddOnDeploymentConfig) -> Self {
        Self { hash: hash(&config.spec), object: Arc::new(config) }
    }
}

/// The hash of a spec.
pub(super) fn hash(spec: &impl Serialize) -> String {
    // By way of a value, whose members are sorted.
    let bytes = serde_json::to_value(spec).and_then(|spec| serde_json::to_vec(&spec));
    Sha256::digest(bytes.unwrap_or_default()).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl HubCache {
    /// The configurations that an add-on on a cluster names, and the defaults of the kinds that it does not name; or what is
    /// missing.
    pub(crate) fn configs_of(
        &self,
        management: &Management,
        object: &ManagedClusterAddOn,
    ) -> Result<Configs, String> {
        let named = &object.spec.configs;
        let defaults = management.object.spec.supported_configs.iter().filter_map(|supported| {
            let default = supported.default_config.as_ref()?;
            let is_named =
                named.iter().any(|one| one.group == supported.group && one.resource == supported.resource);
            (!is_named).then(|| ConfigReference {
                group: supported.group.clone(),
                resource: supported.resource.clone(),
                namespace: default.namespace.clone(),
                name: default.name.clone(),
            })
        });
        let mut configs = Configs { objects: Vec::new(), references: Vec::new() };
        let version = requested_version(object, &management.catalogue);
        let template = version.as_ref().and_then(|version| management.catalogue.template(version));
        if let Some((name, template)) = template.and_then(|name| Some((name, self.template(name)?))) {
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
                    "{resource}.{group} cannot configure a template; only {CONFIG_RESOURCE}.{CONFIG_GROUP} can"
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
