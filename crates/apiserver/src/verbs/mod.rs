//! The verbs: from a request on a resource to its answer. Each decodes what the client sent, lets the collection
//! decide, and renders the outcome in the form that the client accepts.

mod apply;
mod conform;
mod delete;
mod json_patch;
mod patch;
mod read;
mod render;
mod scale;
mod warnings;
mod watch;
mod write;

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response};

use crate::body::Body;
use crate::collection::{Collection, Location};
use crate::decode::{decode, read_body};
use crate::identity::Identity;
use crate::negotiate::{self, Accepted, Convertible, Encoding, Form, Many, PatchKind};
use crate::options::{DeleteOptions, ListOptions, WriteOptions, WriteVerb};
use crate::registry::{Resource, Subresource};
use crate::request::Query;
use crate::server::{Cluster, Server};
use crate::status::{Answer, Refusal};

pub(crate) use render::to_yaml;
pub(crate) use warnings::Warnings;

/// A request on a resource, with everything that is known before its body is read.
pub(crate) struct Call {
    pub(crate) server: Arc<Server>,
    pub(crate) cluster: Arc<Cluster>,
    #[allow(dead_code, reason = "rules of access will ask for it")]
    pub(crate) identity: Identity,
    pub(crate) resource: Arc<Resource>,
    /// Empty: the cluster scope, or all namespaces.
    pub(crate) namespace: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    pub(crate) query: Query,
    pub(crate) parts: Parts,
    /// What the client is told beside the answer.
    pub(crate) warnings: Warnings,
}

impl Call {
    fn collection(&self) -> Collection<'_> {
        Collection { server: &self.server, cluster: &self.cluster, resource: &self.resource }
    }

    fn location(&self) -> Answer<Location<'_>> {
        let name = self.name.as_deref().ok_or_else(Refusal::method_not_allowed)?;
        Ok(Location { namespace: &self.namespace, name })
    }

    /// Whether the kind is still served.
    fn is_served(&self) -> bool {
        let (group, version, plural) = (&self.resource.group, &self.resource.version, &self.resource.plural);
        self.cluster.registry(&self.server).find(group, version, plural).is_some()
    }

    /// Who writes: whom the client names, else what it calls itself.
    fn manager(&self, options: &WriteOptions) -> String {
        let agent = self.parts.headers.get(http::header::USER_AGENT).and_then(|agent| agent.to_str().ok());
        options.manager(agent.unwrap_or_default())
    }

    fn accepted(&self) -> Answer<Accepted> {
        negotiate::accept(&self.parts.headers, Convertible::Yes)
    }
}

/// Answers a request on a resource.
pub(crate) async fn answer<B>(mut call: Call, body: B) -> Answer<Response<Body>>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let subresource = match call.subresource.as_deref() {
        None => None,
        Some(name) => match call.resource.subresource(name) {
            Some(subresource) => Some(subresource),
            None => return Err(Refusal::nothing_here()),
        },
    };
    let accepted = call.accepted()?;
    call.warnings.add(call.resource.deprecation.clone());
    check_form(&call, accepted.form)?;
    match (call.parts.method.clone(), call.name.is_some(), subresource) {
        (Method::GET | Method::HEAD, true, None | Some(Subresource::Status)) => {
            read::get(&call, accepted).await
        }
        (Method::GET | Method::HEAD, true, Some(Subresource::Scale)) => scale::get(&call, accepted).await,
        (Method::PUT, true, Some(Subresource::Scale)) => {
            let encoding = negotiate::content(&call.parts.headers)?;
            let bytes = read_body(body).await?;
            let options = WriteOptions::read(&call.query, WriteVerb::Update)?;
            scale::update(&mut call, encoding, &bytes, scale::Wanted::Whole, options, accepted).await
        }
        (Method::PATCH, true, Some(Subresource::Scale)) => {
            let kind = negotiate::patch_kind(&call.parts.headers, &call.resource.typing)?;
            let bytes = read_body(body).await?;
            let options = WriteOptions::read(&call.query, patch_verb(kind))?;
            scale::update(&mut call, Encoding::Json, &bytes, scale::Wanted::Patched(kind), options, accepted)
                .await
        }
        (Method::GET | Method::HEAD, false, None) => {
            let options = ListOptions::read(&call.query)?;
            if options.watch {
                watch::watch(call, options, accepted).await
            } else {
                read::list(call, options, accepted).await
            }
        }
        (Method::POST, false, None) if in_namespace_if_namespaced(&call) => {
            let encoding = negotiate::content(&call.parts.headers)?;
            let bytes = read_body(body).await?;
            let options = WriteOptions::read(&call.query, WriteVerb::Create)?;
            write::create(&mut call, encoding, &bytes, options, accepted).await
        }
        (Method::PUT, true, subresource) => {
            let encoding = negotiate::content(&call.parts.headers)?;
            let bytes = read_body(body).await?;
            let options = WriteOptions::read(&call.query, WriteVerb::Update)?;
            write::update(&mut call, encoding, &bytes, options, subresource, accepted).await
        }
        (Method::PATCH, true, None | Some(Subresource::Status)) => {
            let kind = negotiate::patch_kind(&call.parts.headers, &call.resource.typing)?;
            let bytes = read_body(body).await?;
            let options = WriteOptions::read(&call.query, patch_verb(kind))?;
            match kind {
                PatchKind::Apply => apply::apply(&mut call, &bytes, options, subresource, accepted).await,
                kind => patch::patch(&mut call, kind, &bytes, options, subresource, accepted).await,
            }
        }
        (Method::DELETE, named, None) if named || can_be_emptied(&call) => {
            let options = delete_options(&call, body).await?;
            if named {
                delete::delete(&call, &options, accepted).await
            } else {
                delete::delete_collection(call, &options, accepted).await
            }
        }
        _ => Err(Refusal::method_not_allowed()),
    }
}

fn patch_verb(kind: PatchKind) -> WriteVerb {
    if kind == PatchKind::Apply { WriteVerb::Apply } else { WriteVerb::Patch }
}

/// Metadata of one object can be asked of one object, and a list of it only of a list. A watch is of single objects.
fn check_form(call: &Call, form: Form) -> Answer<()> {
    let Form::Metadata(_, many) = form else { return Ok(()) };
    let lists = call.name.is_none()
        && call.parts.method != Method::POST
        && !call.query.switch("watch").unwrap_or(false);
    let go_type = call.resource.go_type();
    match (many, lists) {
        (Many::One, true) => Err(Refusal::not_convertible(format!(
            "you requested PartialObjectMetadata, but the requested object is a list (*{go_type}List)"
        ))),
        (Many::List, false) => Err(Refusal::not_convertible(format!(
            "you requested PartialObjectMetadataList, but the requested object is not a list (*{go_type})"
        ))),
        _ => Ok(()),
    }
}

/// Objects of a namespaced kind are made and emptied in one namespace at a time.
fn in_namespace_if_namespaced(call: &Call) -> bool {
    !(call.resource.is_namespaced() && call.namespace.is_empty())
}

fn can_be_emptied(call: &Call) -> bool {
    call.resource.rules.deletes_collections && in_namespace_if_namespaced(call)
}

async fn delete_options<B>(call: &Call, body: B) -> Answer<DeleteOptions>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let bytes = read_body(body).await?;
    if bytes.is_empty() {
        return DeleteOptions::read(&call.query, None);
    }
    let encoding = negotiate::content(&call.parts.headers)?;
    let decoded = decode(&bytes, encoding).map_err(Refusal::bad_request)?;
    DeleteOptions::read(&call.query, Some(decoded.value))
}
