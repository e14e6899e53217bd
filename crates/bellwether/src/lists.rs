//! Reads objects of any kind in pages, and prints them as kubectl does.

use std::fmt::Debug;

use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::target::Target;

/// The number of objects in a page of a list.
const PAGE_SIZE: u32 = 500;
/// How often a list is started again after its continue token expired.
const MAX_LIST_ATTEMPTS: usize = 3;

/// The API resource of a kind.
pub(crate) fn resource<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

/// All objects of a kind.
pub(crate) async fn list_all<K>(target: &Target) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    list(target, &K::kind(&()), &Api::<K>::all(target.client.clone()), ListParams::default()).await
}

/// All pages of a list. A list whose continue token expired is started again.
pub(crate) async fn list<K>(
    target: &Target,
    kind: &str,
    api: &Api<K>,
    parameters: ListParams,
) -> anyhow::Result<Vec<K>>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut attempts = 1;
    let mut items = Vec::new();
    let mut page = parameters.clone().limit(PAGE_SIZE);
    loop {
        match api.list(&page).await {
            Ok(list) => {
                items.extend(list.items);
                match list.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => page = page.continue_token(&token),
                    None => return Ok(items),
                }
            }
            Err(kube::Error::Api(status)) if status.code == 410 && attempts < MAX_LIST_ATTEMPTS => {
                attempts += 1;
                items.clear();
                page = parameters.clone().limit(PAGE_SIZE);
            }
            Err(error) => return Err(target.explain_kind(&format!("list {kind}s"), error)),
        }
    }
}

/// Parses an object that was received as dynamic.
pub(crate) fn typed<K: DeserializeOwned>(object: &DynamicObject) -> anyhow::Result<K> {
    let read = serde_json::to_value(object).and_then(serde_json::from_value);
    read.map_err(|error| {
        let namespace = object.namespace().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let kind = object.types.as_ref().map(|types| types.kind.as_str()).unwrap_or("object");
        anyhow::anyhow!("{kind} {namespace}{} is invalid: {error}", object.name_any())
    })
}

/// A list as kubectl prints it.
pub(crate) fn as_list(objects: Vec<DynamicObject>) -> Value {
    let items: Vec<DynamicObject> = objects.into_iter().map(without_managed_fields).collect();
    json!({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}})
}

/// An object as kubectl prints it.
pub(crate) fn without_managed_fields(mut object: DynamicObject) -> DynamicObject {
    object.metadata.managed_fields = None;
    object
}

#[cfg(test)]
mod tests {
    use bellwether_api::addon::ManagedClusterAddOn;
    use bellwether_testkit::embedded;
    use k8s_openapi::api::core::v1::Namespace;
    use kube::api::PostParams;

    use super::*;

    #[tokio::test]
    async fn list_reads_all_pages() {
        let target = Target::in_process(embedded::in_process().await.client(), "hub");
        crate::crds::provide(&target, &bellwether_api::crds()).await.unwrap();
        let count = usize::try_from(PAGE_SIZE).unwrap() + 1;
        let namespaces: Api<Namespace> = Api::all(target.client.clone());
        for number in 0..count {
            let name = format!("c{number}");
            let namespace = json!({"metadata": {"name": name}});
            namespaces
                .create(&PostParams::default(), &serde_json::from_value(namespace).unwrap())
                .await
                .unwrap();
            let api: Api<ManagedClusterAddOn> = Api::namespaced(target.client.clone(), &name);
            for addon in ["hello", "other"] {
                api.create(&PostParams::default(), &ManagedClusterAddOn::new(addon, Default::default()))
                    .await
                    .unwrap();
            }
        }
        let addons: Api<ManagedClusterAddOn> = Api::all(target.client.clone());
        let hello = ListParams::default().fields("metadata.name=hello");
        assert_eq!(list_all::<ManagedClusterAddOn>(&target).await.unwrap().len(), 2 * count);
        let hello = list(&target, "ManagedClusterAddOn", &addons, hello).await.unwrap();
        assert_eq!(hello.len(), count);
        assert!(hello.iter().all(|object| object.name_any() == "hello"));
    }
}
