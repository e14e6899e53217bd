//! The verbs: from a request on a resource to its answer. Each decodes what the client sent, lets the collection
//! decide, and renders the outcome in the form that the client accepts.

mod apply;
mod certificates;
mod conform;
mod delete;
mod json_patch;
mod patch;
mod read;
mod render;
mod reviews;
mod scale;
mod token;
mod warnings;
mod watch;
mod write;

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response};

use crate::access;
use crate::body::Body;
use crate::collection::{Collection, Location};
use crate::decode::{Expected, decode_expected, read_body};
use crate::identity::Identity;
use crate::negotiate::{self, Accepted, Content, Convertible, Encoding, Form, Many, PatchKind};
use crate::object::Object;
use crate::options::{DeleteOptions, ListOptions, WriteOptions, WriteVerb};
use crate::registry::{Resource, Subresource, Typing};
use crate::request::Query;
use crate::server::{Cluster, Server};
use crate::status::{Answer, Refusal};

pub(crate) use render::to_yaml;
pub(crate) use warnings::Warnings;
pub(crate) use write::NewName;

/// A request on a resource, with everything that is known before its body is read.
pub(crate) struct Call {
    pub(crate) server: Arc<Server>,
    pub(crate) cluster: Arc<Cluster>,
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
        let convertible = match (self.resource.review, &self.resource.typing) {
            (Some(_), _) => Convertible::No,
            (None, Typing::Builtin(_)) => Convertible::Yes,
            (None, Typing::Custom(_)) => Convertible::Custom,
        };
        negotiate::accept(&self.parts.headers, convertible)
    }

    /// Whether the author of a change may make it, beyond what the path says: whoever makes something new, by whatever
    /// verb, must be allowed to create, and nobody grants what they do not have.
    fn admit(&self, old: Option<&Object>, new: &Object) -> Answer<()> {
        certificates::admit(self, old, new)?;
        let creates = old.is_none() && self.parts.method != Method::POST;
        if !creates && self.resource.group != access::GROUP {
            return Ok(());
        }
        let policy = self.cluster.policy(&self.server);
        if creates {
            let on = access::On::Resource {
                group: &self.resource.group,
                resource: &self.resource.plural,
                subresource: self.subresource.as_deref().unwrap_or_default(),
                namespace: &self.namespace,
                name: self.name.as_deref().unwrap_or_default(),
            };
            let wish = access::Wish { verb: "create", on };
            if !policy.allows(&self.identity, &wish) {
                return Err(wish.refused(&self.identity.user, &policy.gaps(&self.identity, &self.namespace)));
            }
        }
        access::check_escalation(&policy, &self.identity, &self.resource, &self.namespace, old, new)
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
        (method, named, part) if !takes(&call, &method, named, part) => Err(Refusal::method_not_allowed()),
        (Method::GET | Method::HEAD, true, None | Some(Subresource::Status | Subresource::Approval)) => {
            read::get(&call, accepted).await
        }
        (Method::GET | Method::HEAD, true, Some(Subresource::Scale)) => scale::get(&call, accepted).await,
        (Method::PUT, true, Some(Subresource::Scale)) => {
            let content = negotiate::content(&call.parts.headers, &Typing::Builtin("autoscaling/v1.Scale"))?;
            let bytes = read_body(body).await?;
            let options = WriteOptions::read(&call.query, WriteVerb::Update)?;
            scale::update(&mut call, content, &bytes, scale::Wanted::Whole, options, accepted).await
        }
        (Method::PATCH, true, Some(Subresource::Scale)) => {
            let kind = negotiate::patch_kind(&call.parts.headers, &call.resource.typing)?;
            let bytes = read_body(body).await?;
            let options = WriteOptions::read(&call.query, patch_verb(kind))?;
            let content = Content::Text(Encoding::Json);
            scale::update(&mut call, content, &bytes, scale::Wanted::Patched(kind), options, accepted).await
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
            let content = negotiate::content(&call.parts.headers, &call.resource.typing)?;
            let bytes = read_body(body).await?;
            let options = WriteOptions::read(&call.query, WriteVerb::Create)?;
            match call.resource.review {
                Some(review) => reviews::answer(&call, review, content, &bytes, options, accepted).await,
                None => write::create(&mut call, content, &bytes, options, accepted).await,
            }
        }
        (Method::POST, true, Some(Subresource::Token)) => {
            let content = negotiate::content(&call.parts.headers, &call.resource.typing)?;
            let bytes = read_body(body).await?;
            let options = WriteOptions::read(&call.query, WriteVerb::Create)?;
            token::create(&mut call, content, &bytes, options, accepted).await
        }
        (Method::PUT, true, subresource) => {
            let content = negotiate::content(&call.parts.headers, &call.resource.typing)?;
            let bytes = read_body(body).await?;
            let options = WriteOptions::read(&call.query, WriteVerb::Update)?;
            write::update(&mut call, content, &bytes, options, subresource, accepted).await
        }
        (Method::PATCH, true, None | Some(Subresource::Status | Subresource::Approval)) => {
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

/// Reviews and tokens are made and nothing else.
fn takes(call: &Call, method: &Method, named: bool, subresource: Option<Subresource>) -> bool {
    match (call.resource.review, subresource) {
        (Some(_), _) => *method == Method::POST && !named,
        (None, Some(Subresource::Token)) => *method == Method::POST,
        _ => true,
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
        (Many::List | Many::BareList, false) => Err(Refusal::not_convertible(format!(
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
    // Options are Kubernetes' own, whatever they are for.
    let content = negotiate::content(&call.parts.headers, &Typing::Builtin("meta/v1.DeleteOptions"))?;
    let expected = Expected { api_version: "v1", kind: "DeleteOptions" };
    let decoded = decode_expected(&bytes, content, expected).map_err(Refusal::bad_request)?;
    DeleteOptions::read(&call.query, Some(decoded.value))
}
