//! The source of metrics of every spoke: answers federation requests about the Deployments of the spoke.
//!
//! The annotation `bellwether.io/simulate` on the Service of the platform's Prometheus, or on the StatefulSet of that of user
//! workloads, makes it fail, never answer, or answer late.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::routing::get;
use bellwether_observability::operator::{PLATFORM_SERVICE, USER_WORKLOAD_STATEFUL_SET};
use bellwether_simulator::{ANNOTATION, Behaviour};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, ListParams};
use kube::{Client, Resource, ResourceExt as _};
use percent_encoding::percent_decode_str;

use super::exposition::{Selector, federate, series_of};

/// The largest number of Deployments that a source has series about.
const MAX_DEPLOYMENTS: u32 = 500;
/// How long a source that is to never answer keeps a request.
const NEVER: Duration = Duration::from_secs(3600);
/// The beginnings of the namespaces of the platform.
const PLATFORM_NAMESPACES: [&str; 3] = ["kube-", "openshift-", "open-cluster-management"];

type Clients = Arc<HashMap<String, Client>>;
type Failure = (StatusCode, String);

/// Whose metrics a source has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Platform,
    UserWorkloads,
}

impl Part {
    /// The part in the path of a request.
    fn parse(text: &str) -> Option<Self> {
        match text {
            "platform" => Some(Self::Platform),
            "user-workloads" => Some(Self::UserWorkloads),
            _ => None,
        }
    }
}

pub(super) fn routes(clients: HashMap<String, Client>) -> Router {
    Router::new().route("/{spoke}/{part}/federate", get(serve)).with_state(Arc::new(clients))
}

async fn serve(
    State(clients): State<Clients>,
    Path((spoke, part)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Result<String, Failure> {
    let unknown = || (StatusCode::NOT_FOUND, format!("there is no source {spoke}/{part}\n"));
    let client = clients.get(&spoke).ok_or_else(unknown)?;
    let part = Part::parse(&part).ok_or_else(unknown)?;
    let selectors = selectors(query.as_deref().unwrap_or_default());
    let selectors = selectors.map_err(|error| (StatusCode::BAD_REQUEST, error + "\n"))?;
    match behaviour(client, part).await? {
        Behaviour::Succeed => {}
        Behaviour::SucceedAfter(delay) => tokio::time::sleep(delay).await,
        Behaviour::Never => tokio::time::sleep(NEVER).await,
        Behaviour::Fail => {
            let message = format!("the annotation {ANNOTATION} makes this Prometheus fail\n");
            return Err((StatusCode::SERVICE_UNAVAILABLE, message));
        }
    }
    let deployments: Api<Deployment> = Api::all(client.clone());
    let listed =
        deployments.list(&ListParams::default().limit(MAX_DEPLOYMENTS)).await.map_err(unavailable)?;
    let mut items = listed.items;
    items.retain(|deployment| part == Part::Platform || !is_of_platform(deployment));
    Ok(federate(&series_of(&items), &selectors, Timestamp::now().as_millisecond()))
}

fn is_of_platform(deployment: &Deployment) -> bool {
    let namespace = deployment.namespace().unwrap_or_default();
    PLATFORM_NAMESPACES.iter().any(|start| namespace.starts_with(start))
}

/// The selectors in a query string: the parameters `match[]`.
fn selectors(query: &str) -> Result<Vec<Selector>, String> {
    let decoded = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let parameters = query.split('&').filter_map(|parameter| parameter.split_once('='));
    parameters
        .map(|(name, value)| (decoded(name), decoded(value)))
        .filter(|(name, _)| name == "match[]")
        .map(|(_, value)| Selector::parse(&value))
        .collect()
}

/// How the Prometheus is to behave. One that does not exist cannot answer.
async fn behaviour(client: &Client, part: Part) -> Result<Behaviour, Failure> {
    match part {
        Part::Platform => requested::<Service>(client, PLATFORM_SERVICE).await,
        Part::UserWorkloads => requested::<StatefulSet>(client, USER_WORKLOAD_STATEFUL_SET).await,
    }
}

async fn requested<K>(client: &Client, (namespace, name): (&str, &str)) -> Result<Behaviour, Failure>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let Some(object) = api.get_metadata_opt(name).await.map_err(unavailable)? else {
        let message = format!("{} {namespace}/{name} does not exist\n", K::kind(&()));
        return Err((StatusCode::SERVICE_UNAVAILABLE, message));
    };
    // An invalid value is ignored, as on workloads.
    Ok(object.annotations().get(ANNOTATION).and_then(|value| value.parse().ok()).unwrap_or_default())
}

fn unavailable(error: kube::Error) -> Failure {
    (StatusCode::SERVICE_UNAVAILABLE, format!("cannot read the objects of the spoke: {error}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_read_from_the_query() {
        let wanted =
            |texts: &[&str]| texts.iter().map(|text| Selector::parse(text)).collect::<Result<Vec<_>, _>>();
        let rows: [(&str, &[&str]); 4] = [
            ("", &[]),
            ("match[]=up&other=x", &["up"]),
            ("match%5B%5D=%7B__name__%3D%22up%22%7D&match[]=a", &[r#"{__name__="up"}"#, "a"]),
            ("flag&match[]=up{job=\"a+b\"}", &[r#"up{job="a b"}"#]),
        ];
        for (query, texts) in rows {
            assert_eq!(selectors(query), wanted(texts), "{query}");
        }
        assert!(selectors("match[]=%7B").is_err());
    }
}
