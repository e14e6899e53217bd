//! Discovery: which groups, versions and resources there are, in the plain form and in the aggregated one.

use std::sync::Arc;

use base64::Engine as _;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::answer::{not_served, page_not_found};
use crate::body::Body;
use crate::negotiate::{Convertible, Encoding, accept, wants_aggregated_discovery};
use crate::object;
use crate::object::set;
use crate::openapi;
use crate::registry::{Registry, Resource, Subresource, Typing, group_version};
use crate::request::Root;
use crate::server::Served;
use crate::status::{Answer, Refusal};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// Kubernetes names the verbs of custom kinds in an order of their own.
const CUSTOM_VERBS: [&str; 8] =
    ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];

/// Answers with a document, if it is asked for by reading.
pub(crate) fn document(parts: &Parts, document: Value) -> Answer<Response<Body>> {
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return Err(Refusal::method_not_allowed());
    }
    let accepted = accept(&parts.headers, Convertible::No)?;
    let (bytes, media) = match accepted.encoding {
        Encoding::Json => (object::document(&document), "application/json"),
        Encoding::Yaml => (crate::verbs::to_yaml(&document).into_bytes(), "application/yaml"),
    };
    let mut response = Response::new(Body::from(bytes));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    Ok(response)
}

/// `/`
pub(crate) fn index(registry: &Registry) -> Value {
    let mut paths = vec!["/api".to_owned(), "/apis".to_owned()];
    for (group, versions) in registry.groups() {
        if !group.is_empty() {
            paths.push(format!("/apis/{group}"));
        }
        for version in versions {
            paths.push(match group {
                "" => format!("/api/{version}"),
                group => format!("/apis/{group}/{version}"),
            });
        }
    }
    paths.extend(["/healthz", "/livez", "/readyz", "/version"].map(str::to_owned));
    paths.sort();
    json!({"paths": paths})
}

/// `/api` and `/apis`
pub(crate) fn groups(parts: &Parts, registry: &Registry, root: Root) -> Answer<Response<Body>> {
    if wants_aggregated_discovery(&parts.headers) {
        return aggregated(parts, registry, root);
    }
    let plain = match root {
        Root::Core => json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [],
        }),
        Root::Named => json!({
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": registry
                .groups()
                .into_iter()
                .filter(|(group, _)| !group.is_empty())
                .map(|(group, versions)| group_document(group, &versions))
                .collect::<Vec<_>>(),
        }),
    };
    document(parts, plain)
}

fn group_document(group: &str, versions: &[&str]) -> Value {
    let named = |version: &&str| json!({"groupVersion": group_version(group, version), "version": version});
    json!({
        "name": group,
        "versions": versions.iter().map(named).collect::<Vec<_>>(),
        "preferredVersion": versions.first().map(named),
    })
}

/// `/openid/v1/jwks`
pub(crate) fn keys(set: &Value) -> Response<Body> {
    let mut response = Response::new(set.to_string().into_bytes().into());
    let media = HeaderValue::from_static("application/jwk-set+json");
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    response
}

/// `/apis/<group>`
pub(crate) fn group(parts: &Parts, registry: &Registry, group: &str) -> Answer<Response<Body>> {
    let groups = registry.groups();
    let Some((name, versions)) = groups.iter().find(|(name, _)| *name == group && !name.is_empty()) else {
        return Ok(page_not_found());
    };
    let mut found = group_document(name, versions);
    set(&mut found, "kind", "APIGroup");
    set(&mut found, "apiVersion", "v1");
    document(parts, found)
}

/// `/api/v1` and `/apis/<group>/<version>`
pub(crate) fn resources(
    parts: &Parts,
    registry: &Registry,
    group: &str,
    version: &str,
) -> Answer<Response<Body>> {
    let mut listed = Vec::new();
    for resource in of_version(registry, group, version) {
        let mut entry = json!({
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.is_namespaced(),
            "kind": resource.kind,
            "verbs": verbs(resource),
        });
        if resource.review.is_none() {
            set(&mut entry, "storageVersionHash", storage_version_hash(resource));
        }
        add_names(&mut entry, resource);
        listed.push(entry);
        for subresource in &resource.subresources {
            let mut entry = json!({
                "name": format!("{}/{}", resource.plural, subresource.name()),
                "singularName": "",
                "namespaced": resource.is_namespaced(),
                "kind": resource.kind,
                "verbs": subresource_verbs(subresource.name()),
            });
            if let Some((group, version, kind)) = foreign_kind(*subresource) {
                set(&mut entry, "group", group);
                set(&mut entry, "version", version);
                set(&mut entry, "kind", kind);
            }
            listed.push(entry);
        }
    }
    if listed.is_empty() {
        return not_served(registry, group);
    }
    let found = json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version(group, version),
        "resources": listed,
    });
    document(parts, found)
}

/// The kind of what is sent to a subresource, where it is not the kind of the object.
fn foreign_kind(subresource: Subresource) -> Option<(&'static str, &'static str, &'static str)> {
    match subresource {
        Subresource::Scale => Some(("autoscaling", "v1", "Scale")),
        Subresource::Token => Some(("authentication.k8s.io", "v1", "TokenRequest")),
        Subresource::Status | Subresource::Finalize | Subresource::Approval => None,
    }
}

fn verbs(resource: &Resource) -> Vec<&'static str> {
    if resource.review.is_some() {
        return vec!["create"];
    }
    let verbs = match resource.typing {
        Typing::Custom(_) => CUSTOM_VERBS,
        Typing::Builtin(_) => VERBS,
    };
    verbs
        .into_iter()
        .filter(|verb| resource.rules.deletes_collections || *verb != "deletecollection")
        .collect()
}

fn subresource_verbs(name: &str) -> &'static [&'static str] {
    match name {
        // A namespace's finalizers can only be replaced.
        "finalize" => &["update"],
        "token" => &["create"],
        _ => &SUBRESOURCE_VERBS,
    }
}

fn add_names(entry: &mut Value, resource: &Resource) {
    if !resource.short_names.is_empty() {
        set(entry, "shortNames", json!(resource.short_names));
    }
    if !resource.categories.is_empty() {
        set(entry, "categories", json!(resource.categories));
    }
}

fn of_version<'r>(
    registry: &'r Registry,
    group: &str,
    version: &str,
) -> impl Iterator<Item = &'r Arc<Resource>> {
    registry.all().iter().filter(move |resource| resource.group == group && resource.version == version)
}

/// A fingerprint of the form in which a kind is stored.
fn storage_version_hash(resource: &Resource) -> String {
    let (group, version) = match resource.storage.api_version.split_once('/') {
        Some((group, version)) => (group, version),
        None => ("", resource.storage.api_version.as_str()),
    };
    let digest = Sha256::digest(format!("{group}/{version}/{}", resource.kind));
    base64::engine::general_purpose::STANDARD.encode(digest.get(..8).unwrap_or_default())
}

/// `/openapi/v3` and the documents below it
pub(crate) fn openapi(
    parts: &Parts,
    served: &Served,
    published: openapi::Published<'_>,
    prefix: &str,
    document_path: Option<&str>,
) -> Answer<Response<Body>> {
    let Some(path) = document_path else {
        return document(parts, served.documents.index(&served.registry, prefix));
    };
    let Some(found) = served.documents.get(&served.registry, published, path) else {
        return Err(Refusal::nothing_here());
    };
    Ok(tagged(parts, found.bytes, &found.hash, "application/json"))
}

/// The type that clients of the protobuf form ask for, and the one that they are told.
const V2_ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// `/openapi/v2`
pub(crate) fn openapi_v2(
    parts: &Parts,
    served: &Served,
    published: openapi::Published<'_>,
) -> Answer<Response<Body>> {
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return Err(Refusal::method_not_allowed());
    }
    let accepts = parts.headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let asked = accepts.flat_map(|value| value.split(',')).find_map(|media| {
        match media.split(';').next().unwrap_or_default().trim() {
            V2_ASKED | V2_PROTOBUF => Some(openapi::Encoding::Protobuf),
            "application/json" | "application/*" | "*/*" => Some(openapi::Encoding::Json),
            _ => None,
        }
    });
    let encoding = match asked {
        Some(encoding) => encoding,
        None if !parts.headers.contains_key(header::ACCEPT) => openapi::Encoding::Json,
        None => return Err(Refusal::not_acceptable(&["application/json", V2_ASKED])),
    };
    let media = if encoding == openapi::Encoding::Json { "application/json" } else { V2_PROTOBUF };
    let found = served.documents.v2(&served.registry, published, encoding);
    Ok(tagged(parts, found.bytes, &found.hash, media))
}

fn aggregated(parts: &Parts, registry: &Registry, root: Root) -> Answer<Response<Body>> {
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return Err(Refusal::method_not_allowed());
    }
    let items: Vec<Value> = registry
        .groups()
        .into_iter()
        .filter(|(group, _)| group.is_empty() == (root == Root::Core))
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .into_iter()
                .map(|version| {
                    json!({
                        "version": version,
                        "resources": of_version(registry, group, version)
                            .map(|resource| aggregated_resource(resource))
                            .collect::<Vec<_>>(),
                        "freshness": "Current",
                    })
                })
                .collect();
            let metadata = if group.is_empty() {
                json!({"creationTimestamp": null})
            } else {
                json!({"name": group, "creationTimestamp": null})
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    let list = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    });
    let bytes = object::document(&list);
    let hash: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02X}")).collect();
    Ok(tagged(parts, bytes.into(), &hash, AGGREGATED))
}

/// A document that clients keep until its hash changes.
fn tagged(parts: &Parts, bytes: Bytes, hash: &str, media: &'static str) -> Response<Body> {
    let etag = HeaderValue::from_str(&format!("\"{hash}\"")).unwrap_or(HeaderValue::from_static("\"\""));
    let known = parts.headers.get(header::IF_NONE_MATCH) == Some(&etag);
    let mut response = Response::new(if known { Body::empty() } else { Body::from(bytes) });
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(header::ETAG, etag);
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

fn aggregated_resource(resource: &Resource) -> Value {
    // Group and version are left empty where they are those of the list.
    let kind = json!({"group": "", "version": "", "kind": resource.kind});
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": kind,
        "scope": if resource.is_namespaced() { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": verbs(resource),
    });
    add_names(&mut entry, resource);
    if !resource.subresources.is_empty() {
        let subresources: Vec<Value> = resource
            .subresources
            .iter()
            .map(|subresource| {
                let kind = match foreign_kind(*subresource) {
                    Some((group, version, kind)) => json!({"group": group, "version": version, "kind": kind}),
                    None => kind.clone(),
                };
                json!({
                    "subresource": subresource.name(),
                    "responseKind": kind,
                    "verbs": subresource_verbs(subresource.name()),
                })
            })
            .collect();
        set(&mut entry, "subresources", subresources);
    }
    entry
}
