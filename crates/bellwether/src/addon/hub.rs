//! What there is of an add-on, read from the hub in pages, however much it is. What it means is not decided here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use bellwether_api::addon::{ClusterManagementAddOn, ManagedClusterAddOn};
use bellwether_api::cluster::{Placement, PlacementDecision};
use bellwether_lifecycle::placement::{Decided, decided};
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::reach::Chosen;
use crate::target::Target;

/// How many objects are asked for at a time.
const PAGE: u32 = 500;
/// How often a list is begun again that took longer than its server remembers.
const ATTEMPTS: usize = 3;

/// An add-on with all that decides where it goes and how far it is.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    pub(super) addon: ClusterManagementAddOn,
    /// The same as it was sent, with what we do not know of.
    pub(super) sent: DynamicObject,
    /// What each of its placements has chosen, in their order.
    pub(super) chosen: Vec<Chosen>,
    /// By cluster.
    pub(super) instances: BTreeMap<String, ManagedClusterAddOn>,
}

/// A kind that is read.
pub(super) fn resource<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

/// Reads the add-on, which there must be.
pub(super) async fn addon(target: &Target, name: &str) -> anyhow::Result<DynamicObject> {
    if let Some(found) = addon_if_any(target, name).await? {
        return Ok(found);
    }
    let all = addons(target).await?;
    let names: Vec<String> = all.iter().map(ResourceExt::name_any).collect();
    anyhow::bail!("there is no add-on {name}{}", known(&names))
}

/// What there is instead of what was asked for.
pub(super) fn known(names: &[String]) -> String {
    match names {
        [] => ": there is none at all".to_owned(),
        names => {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            format!("; there are: {}", crate::output::some_of(&names, 10))
        }
    }
}

pub(super) async fn addon_if_any(target: &Target, name: &str) -> anyhow::Result<Option<DynamicObject>> {
    let api: Api<DynamicObject> = Api::all_with(target.client.clone(), &resource::<ClusterManagementAddOn>());
    match api.get(name).await {
        Ok(found) => Ok(Some(found)),
        // What was not found may be the add-on, or the kind; then all of the kind are not found either.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(target.explain(&format!("read the ClusterManagementAddOn {name}"), error)),
    }
}

pub(super) async fn addons(target: &Target) -> anyhow::Result<Vec<DynamicObject>> {
    let api = Api::all_with(target.client.clone(), &resource::<ClusterManagementAddOn>());
    all(target, "list ClusterManagementAddOns", &api, ListParams::default()).await
}

/// The add-on, or all, on their clusters.
pub(super) async fn instances(target: &Target, name: Option<&str>) -> anyhow::Result<Vec<DynamicObject>> {
    let api = Api::all_with(target.client.clone(), &resource::<ManagedClusterAddOn>());
    let parameters = name.map(by_name).unwrap_or_default();
    all(target, "list ManagedClusterAddOns", &api, parameters).await
}

fn by_name(name: &str) -> ListParams {
    ListParams::default().fields(&selector(name))
}

/// Selects objects of all namespaces by their name.
pub(super) fn selector(name: &str) -> String {
    format!("metadata.name={name}")
}

/// Everything about one add-on.
pub(super) async fn picture(target: &Target, name: &str) -> anyhow::Result<Picture> {
    let sent = addon(target, name).await?;
    let addon: ClusterManagementAddOn = typed(&sent)?;
    let instances = instances(target, Some(name)).await?;
    let instances = instances.iter().filter_map(readable).collect();
    let mut parts = Placements::default();
    for namespace in namespaces(&addon) {
        let client = || target.client.clone();
        let placements: Api<Placement> = Api::namespaced(client(), &namespace);
        let decisions: Api<PlacementDecision> = Api::namespaced(client(), &namespace);
        parts.placements.extend(all(target, "list Placements", &placements, ListParams::default()).await?);
        parts
            .decisions
            .extend(all(target, "list PlacementDecisions", &decisions, ListParams::default()).await?);
    }
    let chosen = parts.chosen(&addon);
    Ok(Picture { addon, sent, chosen, instances })
}

/// One that makes no sense spoils no other.
pub(super) fn readable(object: &DynamicObject) -> Option<(String, ManagedClusterAddOn)> {
    let read = typed(object).inspect_err(|why| eprintln!("{why}; it is left out")).ok()?;
    Some((object.namespace().unwrap_or_default(), read))
}

/// The namespaces of the placements of an add-on.
pub(super) fn namespaces(addon: &ClusterManagementAddOn) -> BTreeSet<String> {
    addon.spec.install_strategy.placements.iter().map(|placement| placement.namespace.clone()).collect()
}

/// Placements and their decisions.
#[derive(Default)]
pub(super) struct Placements {
    pub(super) placements: Vec<Placement>,
    pub(super) decisions: Vec<PlacementDecision>,
}

impl Placements {
    /// What each placement of an add-on has chosen.
    pub(super) fn chosen(&self, addon: &ClusterManagementAddOn) -> Vec<Chosen> {
        let wanted = &addon.spec.install_strategy.placements;
        let choose = |wanted: &bellwether_api::addon::PlacementStrategy| {
            let is_it = |one: &&Placement| {
                one.name_any() == wanted.name && one.namespace().as_deref() == Some(&wanted.namespace)
            };
            let Some(found) = self.placements.iter().find(is_it) else { return Chosen::Missing };
            let in_namespace =
                |one: &&PlacementDecision| one.namespace().as_deref() == Some(&wanted.namespace);
            let decisions: Vec<&PlacementDecision> = self.decisions.iter().filter(in_namespace).collect();
            match decided(found, &decisions) {
                Decided::Complete(clusters) => Chosen::These(clusters),
                Decided::Unknown(why) => Chosen::Unknown(why.to_string()),
            }
        };
        wanted.iter().map(choose).collect()
    }
}

/// What was sent, as what it should be.
pub(super) fn typed<K: DeserializeOwned>(object: &DynamicObject) -> anyhow::Result<K> {
    let read = serde_json::to_value(object).and_then(serde_json::from_value);
    read.map_err(|why| {
        let namespace = object.namespace().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let kind = object.types.as_ref().map(|types| types.kind.as_str()).unwrap_or("object");
        anyhow::anyhow!("{kind} {namespace}{} makes no sense: {why}", object.name_any())
    })
}

/// All pages of a list. One that took longer than the server remembers is begun again.
async fn all<K>(
    target: &Target,
    attempt: &str,
    api: &Api<K>,
    parameters: ListParams,
) -> anyhow::Result<Vec<K>>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut begun = 1;
    let mut items = Vec::new();
    let mut page = parameters.clone().limit(PAGE);
    loop {
        match api.list(&page).await {
            Ok(list) => {
                items.extend(list.items);
                match list.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => page = page.continue_token(&token),
                    None => return Ok(items),
                }
            }
            Err(kube::Error::Api(status)) if status.code == 410 && begun < ATTEMPTS => {
                begun += 1;
                items.clear();
                page = parameters.clone().limit(PAGE);
            }
            Err(error) => return Err(target.explain_kind(attempt, error)),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use bellwether_testkit::embedded;
    use k8s_openapi::api::core::v1::Namespace;
    use kube::api::PostParams;
    use serde_json::json;

    use super::*;

    /// A hub that serves our kinds.
    pub(in crate::addon) async fn served() -> Target {
        let target = Target::in_process(embedded::in_process().await.client(), "hub");
        crate::crds::provide(&target, &bellwether_api::crds()).await.unwrap();
        target
    }

    #[tokio::test]
    async fn however_many_there_are_all_are_read() {
        let target = served().await;
        let many = usize::try_from(PAGE).unwrap() + 1;
        let namespaces: Api<Namespace> = Api::all(target.client.clone());
        for number in 0..many {
            let name = format!("c{number}");
            let namespace = json!({"metadata": {"name": name}});
            namespaces
                .create(&PostParams::default(), &serde_json::from_value(namespace).unwrap())
                .await
                .unwrap();
            let instances: Api<ManagedClusterAddOn> = Api::namespaced(target.client.clone(), &name);
            for addon in ["hello", "other"] {
                instances
                    .create(&PostParams::default(), &ManagedClusterAddOn::new(addon, Default::default()))
                    .await
                    .unwrap();
            }
        }
        assert_eq!(instances(&target, None).await.unwrap().len(), 2 * many);
        let hello = instances(&target, Some("hello")).await.unwrap();
        assert_eq!(hello.len(), many);
        assert!(hello.iter().all(|object| object.name_any() == "hello"));
    }

    #[tokio::test]
    async fn a_cluster_that_has_no_such_kinds_is_told_what_to_do() {
        let target = Target::in_process(embedded::in_process().await.client(), "hub");
        let words = instances(&target, None).await.unwrap_err().to_string();
        assert!(words.contains("bellwether crds --install"), "{words}");
        let words = addon(&target, "hello").await.unwrap_err().to_string();
        assert!(words.contains("bellwether crds --install"), "{words}");
    }
}
