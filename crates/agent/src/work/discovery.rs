//! Finds out which kinds the cluster serves, by API discovery. Kinds that were found are cached; a kind that was not
//! found is requested again in every reconcile, because its CRD may be part of the same ManifestWork.

use std::collections::HashMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::Client;
use parking_lot::Mutex;

use super::decide::manifest::{KindName, ServedKind};

/// A cache of the served kinds that ManifestWorks use.
pub(crate) struct KindDiscovery {
    client: Client,
    found: Mutex<HashMap<KindName, ServedKind>>,
}

/// The discovery responses of one pass over a ManifestWork, by apiVersion, so that each apiVersion is requested at most
/// once per pass.
#[derive(Default)]
pub(crate) struct DiscoveryResponses(HashMap<String, Vec<APIResource>>);

impl KindDiscovery {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, found: Mutex::default() }
    }

    /// How the cluster serves a kind; nothing if it does not.
    pub(crate) async fn find(
        &self,
        kind: &KindName,
        responses: &mut DiscoveryResponses,
    ) -> Result<Option<ServedKind>, kube::Error> {
        if let Some(served) = self.found.lock().get(kind) {
            return Ok(Some(served.clone()));
        }
        let version = kind.api_version();
        if !responses.0.contains_key(&version) {
            let listed = self.list(&kind.group, &version).await?;
            responses.0.insert(version.clone(), listed);
        }
        let found = responses.0.get(&version).and_then(|listed| find_in_list(kind, listed));
        if let Some(served) = &found {
            self.found.lock().insert(kind.clone(), served.clone());
        }
        Ok(found)
    }

    /// Removes a kind from the cache, because its CRD may have changed.
    pub(crate) fn invalidate(&self, kind: &KindName) {
        self.found.lock().remove(kind);
    }

    /// The versions in which a group serves a resource, except one.
    pub(crate) async fn other_versions(
        &self,
        group: &str,
        resource: &str,
        except: &str,
    ) -> Result<Vec<String>, kube::Error> {
        if group.is_empty() {
            return Ok(Vec::new());
        }
        let groups = self.client.list_api_groups().await?.groups;
        let found = groups.into_iter().find(|found| found.name == group);
        let versions = found.into_iter().flat_map(|found| found.versions);
        let mut served = Vec::new();
        for version in versions.filter(|version| version.version != except) {
            let listed = self.list(group, &version.group_version).await?;
            if listed.iter().any(|listed| listed.name == resource) {
                served.push(version.version);
            }
        }
        Ok(served)
    }

    async fn list(&self, group: &str, version: &str) -> Result<Vec<APIResource>, kube::Error> {
        let listed = if group.is_empty() {
            self.client.list_core_api_resources(version).await
        } else {
            self.client.list_api_group_resources(version).await
        };
        match listed {
            Ok(listed) => Ok(listed.resources),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

fn find_in_list(kind: &KindName, listed: &[APIResource]) -> Option<ServedKind> {
    let found = listed.iter().find(|listed| listed.kind == kind.kind && !listed.name.contains('/'))?;
    let status = format!("{}/status", found.name);
    Some(ServedKind {
        name: kind.clone(),
        plural: found.name.clone(),
        namespaced: found.namespaced,
        has_status: listed.iter().any(|listed| listed.name == status),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_is_found_by_its_name_and_not_by_its_subresources() {
        let listed = |name: &str, kind: &str| APIResource {
            name: name.into(),
            kind: kind.into(),
            namespaced: true,
            ..APIResource::default()
        };
        let list = [
            listed("deployments/scale", "Scale"),
            listed("deployments/status", "Deployment"),
            listed("deployments", "Deployment"),
            listed("widgets", "Widget"),
        ];
        let kind = |kind: &str| KindName { group: "apps".into(), version: "v1".into(), kind: kind.into() };
        let found =
            |name: &str| find_in_list(&kind(name), &list).map(|found| (found.plural, found.has_status));
        assert_eq!(found("Deployment"), Some(("deployments".into(), true)));
        assert_eq!(found("Widget"), Some(("widgets".into(), false)));
        assert_eq!(found("Scale"), None);
    }
}
