//! Reads the objects of add-ons from the hub. What they mean is decided in `bellwether_lifecycle`.

use bellwether_api::addon::{
    AddOnDeploymentConfig, AddOnTemplate, ClusterManagementAddOn, ManagedClusterAddOn,
};
use bellwether_api::cluster::{ManagedCluster, Placement, PlacementDecision};
use bellwether_lifecycle::hub::HubCache;
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams};

use crate::lists::{list, list_all, resource, typed};
use crate::target::Target;

/// An add-on with all objects that decide where it is installed and how far its rollouts are, planned as the lifecycle
/// controller plans them.
pub(super) struct HubSnapshot {
    pub(super) addon: ClusterManagementAddOn,
    /// The same as it was received, with fields that this version does not know.
    pub(super) received: DynamicObject,
    pub(super) cache: HubCache,
}

impl HubSnapshot {
    pub(super) async fn read(target: &Target, name: &str) -> anyhow::Result<Self> {
        let received = addon(target, name).await?;
        let addon: ClusterManagementAddOn = typed(&received)?;
        let mut cache = HubCache::default();
        let (templates, configs, placements, decisions, clusters, addons) = futures::try_join!(
            list_all::<AddOnTemplate>(target),
            list_all::<AddOnDeploymentConfig>(target),
            list_all::<Placement>(target),
            list_all::<PlacementDecision>(target),
            list_all::<ManagedCluster>(target),
            managed_addons(target, Some(name)),
        )?;
        templates.into_iter().for_each(|one| cache.apply_template(one));
        configs.into_iter().for_each(|one| cache.apply_config(one));
        placements.into_iter().for_each(|one| cache.apply_placement(one));
        decisions.into_iter().for_each(|one| cache.apply_decision(one));
        clusters.iter().for_each(|one| cache.apply_cluster(one));
        for object in &addons {
            match typed(object) {
                Ok(addon) => cache.apply_addon(addon),
                // One invalid object does not affect the others.
                Err(error) => eprintln!("warning: {error}; it is ignored"),
            }
        }
        cache.apply_management(addon.clone());
        cache.plan(name, Timestamp::now());
        Ok(Self { addon, received, cache })
    }

    pub(super) fn name(&self) -> String {
        self.addon.name_any()
    }
}

/// Reads a ClusterManagementAddOn; an error if it does not exist.
pub(super) async fn addon(target: &Target, name: &str) -> anyhow::Result<DynamicObject> {
    if let Some(found) = find_addon(target, name).await? {
        return Ok(found);
    }
    let all = addons(target).await?;
    let names: Vec<String> = all.iter().map(ResourceExt::name_any).collect();
    anyhow::bail!("there is no add-on {name}{}", existing(&names))
}

/// The end of a message about an add-on that does not exist: the add-ons that do.
pub(super) fn existing(names: &[String]) -> String {
    match names {
        [] => ": there is none at all".to_owned(),
        names => {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            format!("; there are: {}", crate::output::name_some(&names, 10))
        }
    }
}

pub(super) async fn find_addon(target: &Target, name: &str) -> anyhow::Result<Option<DynamicObject>> {
    let api: Api<DynamicObject> = Api::all_with(target.client.clone(), &resource::<ClusterManagementAddOn>());
    match api.get(name).await {
        Ok(found) => Ok(Some(found)),
        // Either the add-on or its CRD does not exist; the list that follows tells which.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(target.explain(&format!("read the ClusterManagementAddOn {name}"), error)),
    }
}

/// All ClusterManagementAddOns.
pub(super) async fn addons(target: &Target) -> anyhow::Result<Vec<DynamicObject>> {
    let api = Api::all_with(target.client.clone(), &resource::<ClusterManagementAddOn>());
    list(target, "ClusterManagementAddOn", &api, ListParams::default()).await
}

/// The ManagedClusterAddOns of one add-on, or of all.
pub(super) async fn managed_addons(
    target: &Target,
    name: Option<&str>,
) -> anyhow::Result<Vec<DynamicObject>> {
    let api = Api::all_with(target.client.clone(), &resource::<ManagedClusterAddOn>());
    let by_name = |name: &str| ListParams::default().fields(&format!("metadata.name={name}"));
    list(target, "ManagedClusterAddOn", &api, name.map(by_name).unwrap_or_default()).await
}

#[cfg(test)]
pub(super) mod tests {
    use bellwether_testkit::embedded;

    use super::*;

    /// A hub with our CRDs.
    pub(in crate::addon) async fn hub_with_crds() -> Target {
        let target = Target::in_process(embedded::in_process().await.client(), "hub");
        crate::crds::provide(&target, &bellwether_api::crds()).await.unwrap();
        target
    }

    #[tokio::test]
    async fn missing_crds_are_reported_with_the_command_that_installs_them() {
        let target = Target::in_process(embedded::in_process().await.client(), "hub");
        let message = managed_addons(&target, None).await.unwrap_err().to_string();
        assert!(message.contains("bellwether crds --install"), "{message}");
        let message = addon(&target, "hello").await.unwrap_err().to_string();
        assert!(message.contains("bellwether crds --install"), "{message}");
    }
}
