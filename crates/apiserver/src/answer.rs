//! The way from a request to an answer: who asks, may they, is there room, then the answer itself; and what is noted down
//! of it. Transport comes before (TLS or in process), and brings along what it knows of the caller.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt as _;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::access::{self, On};
use crate::audit;
use crate::authentication;
use crate::body::Body;
use crate::discovery;
use crate::health;
use crate::identity::Identity;
use crate::limits::{Cost, Room};
use crate::metrics;
use crate::object::set;
use crate::options::request_timeout;
use crate::registry::{Registry, Resource};
use crate::request::{Path, Query, ResourcePath, Target, percent_decode_path};
use crate::server::{Cluster, HUB, Server};
use crate::status::{Answer, Qualified, Refusal};
use crate::times;
use crate::verbs;
use crate::version;

/// How much of the path and of the client's name for itself is written down.
const URI_KEPT: usize = 2 * 1024;
const AGENT_KEPT: usize = 256;
/// The code of an answer that nobody waited for.
const CLIENT_GONE: u16 = 499;

/// What the transport knows of whoever asks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    /// By a certificate, or because it is one of us.
    pub(crate) identity: Option<Identity>,
    pub(crate) address: Option<IpAddr>,
}

/// What becomes known of a request on its way, for those who keep count.
#[derive(Default)]
struct Noted {
    cluster: String,
    user: Option<Identity>,
    /// Whom the user acts as.
    mask: Option<Identity>,
    verb: String,
    /// The resource that is asked for, if it is one.
    object: Option<Value>,
    /// The same, as long as it is one that is served.
    asked: Option<metrics::Asked>,
    decision: Option<Decision>,
}

/// A request under way, as the audit log will tell of it. One that its client gave up is told of as well: what it asked
/// for may have been done.
struct Trace {
    server: Arc<Server>,
    received: Timestamp,
    audit_id: HeaderValue,
    uri: String,
    agent: String,
    address: Option<IpAddr>,
    noted: Noted,
    is_written: bool,
}

impl Trace {
    /// What to write down, if anything; once.
    fn event(&mut self, code: u16) -> Option<Value> {
        if std::mem::replace(&mut self.is_written, true) {
            return None;
        }
        if !self.server.audit.is_kept() || !self.noted.matters(code) {
            return None;
        }
        let now = self.server.clock.now();
        let unwritten = match code {
            401 => self.server.audit.admits_stranger(now.as_second())?,
            _ => 0,
        };
        let mut event = self.noted.event(code, self.received, now);
        set(&mut event, "auditID", self.audit_id.to_str().unwrap_or_default());
        set(&mut event, "requestURI", self.uri.as_str());
        set(&mut event, "sourceIPs", json!(self.address.map(|address| address.to_string()).as_slice()));
        set(&mut event, "userAgent", self.agent.as_str());
        if let (true, Some(annotations)) = (unwritten > 0, event.get_mut("annotations")) {
            set(annotations, "bellwether.io/not-written-before", unwritten.to_string());
        }
        Some(event)
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        if let Some(event) = self.event(CLIENT_GONE) {
            self.server.audit.write_now(&event);
        }
    }
}

/// What the rules said.
enum Decision {
    Allowed,
    Refused(String),
}

impl Server {
    /// Answers a request. A path that names no logical cluster is about the one that the transport is for.
    pub(crate) async fn answer<B>(
        self: Arc<Self>,
        home: &str,
        caller: Caller,
        request: Request<B>,
    ) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let begun = Instant::now();
        let (parts, body) = request.into_parts();
        let audit_id = audit_id(&parts.headers);
        let agent = parts.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
        let mut trace = Trace {
            server: self.clone(),
            received: self.clock.now(),
            audit_id: audit_id.clone(),
            uri: audit::shortened(parts.uri.path_and_query().map_or("/", |path| path.as_str()), URI_KEPT),
            agent: audit::shortened(agent.unwrap_or_default(), AGENT_KEPT),
            address: caller.address,
            noted: Noted::default(),
            is_written: false,
        };
        let answer = self.clone().route(home, caller.identity, parts, body, &mut trace.noted).await;
        let mut response = answer.unwrap_or_else(Refusal::into_response);
        let headers = response.headers_mut();
        headers.insert("audit-id", audit_id);
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));

        if let (Some(verbs::NewName(name)), Some(object)) =
            (response.extensions_mut().remove(), &mut trace.noted.object)
        {
            set(object, "name", name);
        }
        let code = response.status().as_u16();
        if let Some(asked) = &trace.noted.asked {
            self.metrics.count(asked, code, begun.elapsed());
        }
        if let Some(event) = trace.event(code) {
            self.audit.write(&event).await;
        }
        response
    }

    async fn route<B>(
        self: Arc<Self>,
        home: &str,
        identity: Option<Identity>,
        parts: Parts,
        body: B,
        noted: &mut Noted,
    ) -> Answer<Response<Body>>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        // The text of the path outlives the parts, which the verbs take along.
        let uri = parts.uri.clone();
        let path = Path::parse(uri.path());
        let query = Query::parse(uri.query());
        if let Target::Health { endpoint, check } = path.target {
            return Ok(health::answer(&self, endpoint, check, &query));
        }
        if self.is_closing() {
            return Err(Refusal::unavailable("the server is shutting down", Duration::from_secs(1)));
        }
        let name = path.cluster.unwrap_or(home);
        name.clone_into(&mut noted.cluster);
        let Some(cluster) = self.cluster(name) else {
            // A token is only ever good in the cluster that it is of.
            identity.ok_or_else(Refusal::unauthorized)?;
            return Err(Refusal::not_found(Qualified { group: "", name: "clusters" }, name));
        };
        let asked = access::Asked::read(&path, &parts, &query);
        noted.ask(&asked, &path.target);
        let identity = self.admit(&cluster, identity, &parts.headers, &asked, noted)?;
        let timeout = request_timeout(&query)?;
        let registry = cluster.registry(&self);
        if let Target::Resource(at) = &path.target {
            let Some(resource) = find(&registry, at).cloned() else {
                return not_served(&registry, at.group);
            };
            noted.resolve(at, &resource);
            let cost = Cost::of(&asked.verb);
            let room = self.limits.enter(&cluster.name, &identity, cost).await?;
            let response = self.ask(cluster, identity, resource, at, timeout, query, parts, body).await?;
            return Ok(held(response, cost, room));
        }
        self.document(&cluster, &registry, &path, &parts)
    }

    /// Who asks, if they may.
    fn admit(
        &self,
        cluster: &Cluster,
        identity: Option<Identity>,
        headers: &HeaderMap,
        asked: &access::Asked<'_>,
        noted: &mut Noted,
    ) -> Answer<Identity> {
        let identity = authentication::authenticate(self, cluster, identity, headers)?
            .ok_or_else(Refusal::unauthorized)?;
        noted.user = Some(identity.clone());
        let policy = cluster.policy(self);
        let masked =
            authentication::impersonated(&policy, identity.clone(), headers).inspect_err(|refusal| {
                noted.decision = Some(Decision::Refused(refusal.to_string()));
            })?;
        if masked != identity {
            noted.mask = Some(masked.clone());
        }
        let wish = asked.wish();
        if policy.allows(&masked, &wish) {
            noted.decision = Some(Decision::Allowed);
            return Ok(masked);
        }
        let why = policy.gaps(&masked, wish.namespace());
        noted.decision = Some(Decision::Refused(why.clone()));
        Err(wish.refused(&masked.user, &why))
    }

    /// Answers a request on a resource.
    #[allow(clippy::too_many_arguments, reason = "the parts of one request")]
    async fn ask<B>(
        self: Arc<Self>,
        cluster: Arc<Cluster>,
        identity: Identity,
        resource: Arc<Resource>,
        at: &ResourcePath<'_>,
        timeout: Duration,
        query: Query,
        parts: Parts,
        body: B,
    ) -> Answer<Response<Body>>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let warnings = verbs::Warnings::default();
        let call = verbs::Call {
            server: self,
            cluster,
            identity,
            resource,
            namespace: at.namespace.map(percent_decode_path).unwrap_or_default(),
            name: at.name.map(percent_decode_path),
            subresource: at.subresource.map(str::to_owned),
            query,
            parts,
            warnings: warnings.clone(),
        };
        let answer = tokio::time::timeout(timeout, verbs::answer(call, body)).await;
        let late = |_| Err(Refusal::timeout("request did not complete within the allotted timeout"));
        let mut response = answer.unwrap_or_else(late).unwrap_or_else(Refusal::into_response);
        warnings.write(response.headers_mut());
        Ok(response)
    }

    /// Answers a request for what is said of the server itself.
    fn document(
        &self,
        cluster: &Cluster,
        registry: &Registry,
        path: &Path<'_>,
        parts: &Parts,
    ) -> Answer<Response<Body>> {
        let published = |resource: &Resource| cluster.published(self, resource);
        match &path.target {
            Target::OpenIdConfiguration => {
                discovery::document(parts, authentication::service_accounts::configuration(&cluster.name))
            }
            Target::OpenIdKeys => Ok(discovery::keys(&self.signing_key.published())),
            // They are of all logical clusters.
            Target::Metrics if *cluster.name == *HUB => Ok(self.metrics_page()),
            Target::Version => discovery::document(parts, version::document()),
            Target::OpenApiV2 => discovery::openapi_v2(parts, &cluster.served(self), &published),
            Target::OpenApi { document } => {
                let prefix = path.cluster.map(|name| format!("/clusters/{name}")).unwrap_or_default();
                discovery::openapi(parts, &cluster.served(self), &published, &prefix, document.as_deref())
            }
            Target::Index => discovery::document(parts, discovery::index(registry)),
            Target::Groups(root) => discovery::groups(parts, registry, *root),
            Target::Group(group) => discovery::group(parts, registry, group),
            Target::GroupVersion { group, version } => discovery::resources(parts, registry, group, version),
            Target::Health { .. } | Target::Metrics | Target::Resource(_) | Target::Unknown => {
                Ok(page_not_found())
            }
        }
    }

    fn metrics_page(&self) -> Response<Body> {
        let text = self.metrics.text(&self.limits, self.store.revision().0);
        let mut response = Response::new(Body::from(text.into_bytes()));
        let media = HeaderValue::from_static(metrics::MEDIA_TYPE);
        response.headers_mut().insert(header::CONTENT_TYPE, media);
        response
    }
}

impl Noted {
    fn ask(&mut self, asked: &access::Asked<'_>, target: &Target<'_>) {
        self.verb = asked.verb.clone().into_owned();
        let (Target::Resource(at), On::Resource { group, resource, subresource, namespace, name }) =
            (target, asked.wish().on)
        else {
            return;
        };
        let mut object = json!({"resource": resource, "apiVersion": at.version});
        for (key, text) in
            [("apiGroup", group), ("subresource", subresource), ("namespace", namespace), ("name", name)]
        {
            if !text.is_empty() {
                set(&mut object, key, text);
            }
        }
        self.object = Some(object);
    }

    fn resolve(&mut self, at: &ResourcePath<'_>, resource: &Resource) {
        let part = at.subresource.and_then(|name| resource.subresource(name));
        self.asked = Some(metrics::Asked {
            verb: self.verb.clone(),
            group: resource.group.clone(),
            version: resource.version.clone(),
            resource: resource.plural.clone(),
            subresource: part.map(|part| part.name().to_owned()).unwrap_or_default(),
        });
    }

    /// Documents that everybody may read are asked for all the time; what was refused is always of interest.
    fn matters(&self, code: u16) -> bool {
        self.object.is_some() || matches!(code, 401 | 403)
    }

    fn event(&self, code: u16, received: Timestamp, now: Timestamp) -> Value {
        let mut event = json!({
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "stage": if self.verb == "watch" && code == 200 { "ResponseStarted" } else { "ResponseComplete" },
            "verb": self.verb,
            "user": self.user.as_ref().map(audit::user).unwrap_or_else(|| json!({})),
            "responseStatus": {"metadata": {}, "code": code},
            "requestReceivedTimestamp": times::micros(received),
            "stageTimestamp": times::micros(now),
        });
        if let Some(mask) = &self.mask {
            set(&mut event, "impersonatedUser", audit::user(mask));
        }
        if let Some(object) = &self.object {
            set(&mut event, "objectRef", object.clone());
        }
        let mut annotations = json!({"bellwether.io/cluster": self.cluster});
        if let Some(decision) = &self.decision {
            let (word, why) = match decision {
                Decision::Allowed => ("allow", ""),
                Decision::Refused(why) => ("forbid", why.as_str()),
            };
            set(&mut annotations, "authorization.k8s.io/decision", word);
            set(&mut annotations, "authorization.k8s.io/reason", why);
        }
        set(&mut event, "annotations", annotations);
        event
    }
}

fn audit_id(headers: &HeaderMap) -> HeaderValue {
    match headers.get("audit-id") {
        Some(id) if id.len() <= 64 => id.clone(),
        _ => {
            HeaderValue::from_str(&uuid::Uuid::new_v4().to_string()).unwrap_or(HeaderValue::from_static("-"))
        }
    }
}

/// A watch has its room for as long as it lasts; everything else is done.
fn held(response: Response<Body>, cost: Cost, room: Room) -> Response<Body> {
    if cost != Cost::Watch {
        return response;
    }
    response.map(|body| match body {
        Body::Stream(frames) => Body::stream(frames.map(move |frame| {
            let _room = &room;
            frame
        })),
        whole => whole,
    })
}

/// The resource that a path names, if the path has the form that its scope asks for.
fn find<'r>(registry: &'r Registry, at: &crate::request::ResourcePath<'_>) -> Option<&'r Arc<Resource>> {
    let resource = registry.find(at.group, at.version, at.resource)?;
    let misfit = matches!(
        (resource.is_namespaced(), at.namespace, at.name),
        (true, None, Some(_)) | (false, Some(_), _)
    );
    (!misfit).then_some(resource)
}

/// The answer where nothing is served below a group: only a group that is served says so in a Status.
pub(crate) fn not_served(registry: &Registry, group: &str) -> Answer<Response<Body>> {
    if registry.all().iter().any(|resource| resource.group == group) {
        return Err(Refusal::nothing_here());
    }
    Ok(page_not_found())
}

/// What Kubernetes answers where nothing is served.
pub(crate) fn page_not_found() -> Response<Body> {
    let mut response = Response::new(Body::from("404 page not found\n"));
    *response.status_mut() = StatusCode::NOT_FOUND;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
