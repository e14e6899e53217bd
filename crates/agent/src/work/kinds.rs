//! Which kinds a cluster serves. What was found is remembered; what was not is asked for anew at every visit, as the
//! definition of a kind may come with the very work that needs it.

use std::collections::HashMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::Client;
use parking_lot::Mutex;

use super::decide::manifest::{KindName, Served};

/// The kinds of a cluster, as far as works name them.
pub(crate) struct Kinds {
    client: Client,
    known: Mutex<HashMap<KindName, Served>>,
}

/// What was asked for in one visit, so that a group that is not served is asked for once.
#[derive(Default)]
pub(crate) struct Lookups(HashMap<String, Vec<APIResource>>);

impl Kinds {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, known: Mutex::default() }
    }

    /// How a kind is served, if it is.
    pub(crate) async fn find(
        &self,
        kind: &KindName,
        lookups: &mut Lookups,
    ) -> Result<Option<Served>, kube::Error> {
        if let Some(served) = self.known.lock().get(kind) {
            return Ok(Some(served.clone()));
        }
        let version = kind.api_version();
        if !lookups.0.contains_key(&version) {
            let listed = self.list(&kind.group, &version).await?;
            lookups.0.insert(version.clone(), listed);
        }
        let found = lookups.0.get(&version).and_then(|listed| served(kind, listed));
        if let Some(served) = &found {
            self.known.lock().insert(kind.clone(), served.clone());
        }
        Ok(found)
    }

    /// Forgets a kind, as its definition may have changed.
    pub(crate) fn doubt(&self, kind: &KindName) {
        self.known.lock().remove(kind);
    }

    /// The versions in which a group serves a resource, other than one.
    pub(crate) async fn other_versions(
        &self,
        group: &str,
        resource: &str,
        but: &str,
    ) -> Result<Vec<String>, kube::Error> {
        if group.is_empty() {
            return Ok(Vec::new());
        }
        let groups = self.client.list_api_groups().await?.groups;
        let found = groups.into_iter().find(|found| found.name == group);
        let versions = found.into_iter().flat_map(|found| found.versions);
        let mut served = Vec::new();
        for version in versions.filter(|version| version.version != but) {
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

fn served(kind: &KindName, listed: &[APIResource]) -> Option<Served> {
    let found = listed.iter().find(|listed| listed.kind == kind.kind && !listed.name.contains('/'))?;
    let status = format!("{}/status", found.name);
    Some(Served {
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
    fn a_kind_is_found_by_its_name_and_not_by_its_subresources() {
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
        let found = |name: &str| served(&kind(name), &list).map(|found| (found.plural, found.has_status));
        assert_eq!(found("Deployment"), Some(("deployments".into(), true)));
        assert_eq!(found("Widget"), Some(("widgets".into(), false)));
        assert_eq!(found("Scale"), None);
    }
}
