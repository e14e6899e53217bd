//! The index of the operator: the add-on on both sides, what the cluster has to collect from, and the collectors.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bellwether_runtime::{DirtyKeys, ObjectName};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::DynamicObject;
use kube::core::PartialObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use super::allowlist::{Allowlist, PLATFORM_KEY, USER_WORKLOAD_KEY};
use super::decide::Presence;
use super::render::deployment_name;
use crate::vocabulary::Component;

/// The one key: all collectors of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Collectors;

impl fmt::Display for Collectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the metrics collectors")
    }
}

/// What `hub-info.yaml` says of the hub.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct HubInfo {
    /// The address to which metrics are written.
    #[serde(alias = "endpoint")]
    pub(super) observatorium_api_endpoint: String,
}

#[derive(Default)]
pub(super) struct Index {
    local: Option<Arc<DynamicObject>>,
    on_hub: Option<Arc<DynamicObject>>,
    platform: bool,
    user_workloads: bool,
    hub_info: Option<Result<HubInfo, String>>,
    /// The data of each ConfigMap with allowlists.
    allowlists: BTreeMap<ObjectName, BTreeMap<String, String>>,
    /// The generation of each Deployment.
    deployments: BTreeMap<String, i64>,
    pub(super) dirty: DirtyKeys<Collectors>,
}

/// What a reconcile decides by.
#[derive(Clone)]
pub(super) struct Inputs {
    pub(super) local: Option<Arc<DynamicObject>>,
    pub(super) on_hub: Option<Arc<DynamicObject>>,
    pub(super) platform: Presence,
    pub(super) user_workloads: Presence,
    pub(super) hub_info: Option<Result<HubInfo, String>>,
    pub(super) allowlists: BTreeMap<ObjectName, BTreeMap<String, String>>,
}

impl Index {
    pub(super) fn inputs(&self) -> Inputs {
        let presence = |is_present| if is_present { Presence::Present } else { Presence::Absent };
        Inputs {
            local: self.local.clone(),
            on_hub: self.on_hub.clone(),
            platform: presence(self.platform),
            user_workloads: presence(self.user_workloads),
            hub_info: self.hub_info.clone(),
            allowlists: self.allowlists.clone(),
        }
    }

    /// The add-on of the cluster. Its status, which this controller reports in, is no reason to reconcile.
    pub(super) fn set_local(&mut self, addon: Option<DynamicObject>) {
        let addon = addon.map(Arc::new);
        if relevant(self.local.as_deref()) != relevant(addon.as_deref()) {
            self.dirty.enqueue(Collectors);
        }
        self.local = addon;
    }

    pub(super) fn set_on_hub(&mut self, addon: Option<DynamicObject>) {
        let addon = addon.map(Arc::new);
        if relevant(self.on_hub.as_deref()) != relevant(addon.as_deref()) {
            self.dirty.enqueue(Collectors);
        }
        self.on_hub = addon;
    }

    pub(super) fn set_platform(&mut self, is_present: bool) {
        if std::mem::replace(&mut self.platform, is_present) != is_present {
            self.dirty.enqueue(Collectors);
        }
    }

    pub(super) fn set_user_workloads(&mut self, is_present: bool) {
        if std::mem::replace(&mut self.user_workloads, is_present) != is_present {
            self.dirty.enqueue(Collectors);
        }
    }

    pub(super) fn set_hub_info(&mut self, secret: Option<&Secret>) {
        let info = secret.map(parse_hub_info);
        if self.hub_info != info {
            self.hub_info = info;
            self.dirty.enqueue(Collectors);
        }
    }

    pub(super) fn apply_allowlist(&mut self, map: ConfigMap) {
        let name = ObjectName::of(&map);
        let data = map.data.unwrap_or_default();
        if self.allowlists.get(&name) != Some(&data) {
            self.allowlists.insert(name, data);
            self.dirty.enqueue(Collectors);
        }
    }

    pub(super) fn delete_allowlist(&mut self, name: &ObjectName) {
        if self.allowlists.remove(name).is_some() {
            self.dirty.enqueue(Collectors);
        }
    }

    /// A Deployment of a collector was created or changed, perhaps by somebody else.
    pub(super) fn apply_deployment(&mut self, deployment: &PartialObjectMeta<Deployment>) {
        let name = deployment.metadata.name.clone().unwrap_or_default();
        let generation = deployment.metadata.generation.unwrap_or_default();
        if self.deployments.insert(name, generation) != Some(generation) {
            self.dirty.enqueue(Collectors);
        }
    }

    pub(super) fn delete_deployment(&mut self, name: &str) {
        if self.deployments.remove(name).is_some() {
            self.dirty.enqueue(Collectors);
        }
    }

    /// The Deployment of a component has this generation, after this controller applied it. Returns whether it changed.
    pub(super) fn record_applied(&mut self, component: Component, generation: i64) -> bool {
        self.deployments.insert(deployment_name(component), generation) != Some(generation)
    }
}

/// The part of an add-on that the operator acts on: the rest of its metadata changes with every status.
#[derive(PartialEq)]
struct Relevant<'a> {
    spec: Option<&'a Value>,
    deletion: Option<&'a Time>,
    finalizers: Option<&'a Vec<String>>,
    uid: Option<&'a String>,
}

fn relevant(addon: Option<&DynamicObject>) -> Option<Relevant<'_>> {
    let addon = addon?;
    let ObjectMeta { deletion_timestamp, finalizers, uid, .. } = &addon.metadata;
    Some(Relevant {
        spec: addon.data.get("spec"),
        deletion: deletion_timestamp.as_ref(),
        finalizers: finalizers.as_ref(),
        uid: uid.as_ref(),
    })
}

fn parse_hub_info(secret: &Secret) -> Result<HubInfo, String> {
    const KEY: &str = "hub-info.yaml";
    let data = secret.data.as_ref().and_then(|data| data.get(KEY));
    let data = data.ok_or_else(|| format!("has no key {KEY}"))?;
    let text = std::str::from_utf8(&data.0).map_err(|_| format!("{KEY} is not UTF-8"))?;
    crate::yaml::parse(text).map_err(|error| format!("{KEY}: {error}"))
}

impl Inputs {
    /// The series that a collector forwards; an error names the ConfigMap that is invalid.
    pub(super) fn allowlist(&self, component: Component, addon_namespace: &str) -> Result<Allowlist, String> {
        let key = match component {
            Component::Platform => PLATFORM_KEY,
            Component::UserWorkload => USER_WORKLOAD_KEY,
        };
        let mut all = Allowlist::default();
        for (name, data) in &self.allowlists {
            let Some(yaml) = data.get(key) else { continue };
            let is_users = component == Component::UserWorkload && &*name.namespace != addon_namespace;
            let limited_to = is_users.then_some(&*name.namespace);
            let list = Allowlist::parse(yaml, limited_to)
                .map_err(|error| format!("ConfigMap {name}, key {key}: {error}"))?;
            all.extend(list);
        }
        Ok(all)
    }
}
