//! The server itself: the store, the logical clusters, and the way from a request to an answer. Transport comes
//! before it (TLS or in process), and brings the identity along.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bellwether_store::{Clock, Health, Revision, Space, Store};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::watch;

use crate::authors::Author;
use crate::body::Body;
use crate::collection::{Collection, Stored};
use crate::crd;
use crate::discovery;
use crate::health;
use crate::identity::Identity;
use crate::kinds;
use crate::object::{Head, lookup};
use crate::openapi::Documents;
use crate::options::{Effect, request_timeout};
use crate::registry::{Registry, Resource};
use crate::request::{Path, Query, Target};
use crate::status::{Answer, Refusal};
use crate::verbs;
use crate::version;

/// The logical cluster that paths without a `/clusters/<name>` prefix belong to.
pub const HUB: &str = "hub";

/// A logical cluster: a keyspace and a registry of its own.
pub(crate) struct Cluster {
    pub(crate) name: Arc<str>,
    /// What is served, as of the newest change of the definitions.
    served: ArcSwap<Served>,
    /// Where the definitions are: every request asks whether they changed.
    definitions_space: Space,
    /// Definitions that were read, so that a change of one does not read all of them again.
    definitions: Mutex<HashMap<Arc<str>, crd::serve::Stored>>,
    /// Says that what is served changed.
    pub(crate) changes: watch::Sender<Revision>,
}

/// What a logical cluster serves.
pub(crate) struct Served {
    pub(crate) at: Revision,
    pub(crate) registry: Arc<Registry>,
    pub(crate) acceptances: BTreeMap<Arc<str>, crd::serve::Acceptance>,
    pub(crate) documents: Documents,
}

impl Cluster {
    fn new(name: &str, builtins: Arc<Registry>) -> Self {
        let served = Served {
            at: Revision(0),
            registry: builtins,
            acceptances: BTreeMap::new(),
            documents: Documents::default(),
        };
        Self {
            name: name.into(),
            definitions_space: Space::new(format!("{name}/{}", crd::SPACE)),
            served: ArcSwap::from_pointee(served),
            definitions: Mutex::default(),
            changes: watch::Sender::new(Revision(0)),
        }
    }

    /// The kinds that are served now.
    pub(crate) fn registry(&self, server: &Server) -> Arc<Registry> {
        self.served(server).registry.clone()
    }

    /// What is served now: as the definitions say, the moment they are stored.
    pub(crate) fn served(&self, server: &Server) -> Arc<Served> {
        let space = &self.definitions_space;
        let served = self.served.load_full();
        if served.at >= server.store.last_change(space) {
            return served;
        }
        let mut definitions = self.definitions.lock();
        let snapshot = server.store.snapshot(space);
        let at = server.store.last_change(space).min(snapshot.revision());
        if self.served.load().at < at {
            definitions.retain(|name, _| snapshot.get(name).is_some());
            for entry in snapshot.iter() {
                let known = definitions.get(entry.path());
                if known.is_none_or(|known| known.revision != entry.revision()) {
                    let read = crd::serve::Stored::read(entry, known, &server.schemas);
                    definitions.insert(entry.path().clone(), read);
                }
            }
            let all: Vec<crd::serve::Stored> = definitions.values().cloned().collect();
            let crd::serve::Served { registry, acceptances } = crd::serve::serve(&server.builtins, &all);
            let documents = Documents::default();
            self.served.store(Arc::new(Served { at, registry: Arc::new(registry), acceptances, documents }));
            self.changes.send_replace(at);
        }
        self.served.load_full()
    }

    /// The schema of a custom kind as its definition has it.
    pub(crate) fn published(&self, server: &Server, resource: &Resource) -> Value {
        let stored = server.store.get(&self.definitions_space, &resource.storage.space);
        let definition = stored.map(|stored| crate::object::parse(stored.value())).unwrap_or_default();
        let versions = lookup(&definition, "spec.versions").and_then(Value::as_array).into_iter().flatten();
        let of_version =
            |version: &&Value| version.get("name").and_then(Value::as_str) == Some(&resource.version);
        let schema = versions
            .into_iter()
            .find(of_version)
            .and_then(|version| version.pointer("/schema/openAPIV3Schema"));
        schema.cloned().unwrap_or_default()
    }

    /// A keyspace of this cluster.
    pub(crate) fn space(&self, name: &str) -> Space {
        Space::new(format!("{}/{name}", self.name))
    }

    /// A namespace, if it is there.
    pub(crate) fn namespace(&self, server: &Server, name: &str) -> Option<Stored> {
        server.store.get(&self.space("namespaces"), name)
    }
}

/// What all requests share.
pub(crate) struct Server {
    pub(crate) store: Store<Head>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) builtins: Arc<Registry>,
    /// The certificate of the CA, for `kube-root-ca.crt`.
    pub(crate) ca_certificate: String,
    /// The schemas that definitions of all clusters bring with them.
    schemas: crd::Schemas,
    clusters: RwLock<BTreeMap<String, Arc<Cluster>>>,
    /// Says which clusters there are, to the controllers.
    pub(crate) cluster_names: watch::Sender<Vec<String>>,
    pub(crate) closing: watch::Sender<bool>,
}

impl Server {
    pub(crate) fn new(store: Store<Head>, clock: Arc<dyn Clock>, ca_certificate: String) -> Self {
        Self {
            store,
            clock,
            builtins: Arc::new(kinds::builtins()),
            ca_certificate,
            schemas: crd::Schemas::default(),
            clusters: RwLock::default(),
            cluster_names: watch::Sender::new(Vec::new()),
            closing: watch::Sender::new(false),
        }
    }

    /// A logical cluster by name.
    pub(crate) fn cluster(&self, name: &str) -> Option<Arc<Cluster>> {
        self.clusters.read().get(name).cloned()
    }

    /// Serves a logical cluster, with the objects that every cluster has from its start.
    pub(crate) async fn add_cluster(&self, name: &str) -> Answer<()> {
        let cluster = Arc::new(Cluster::new(name, self.builtins.clone()));
        self.bootstrap(&cluster).await?;
        self.clusters.write().insert(name.to_owned(), cluster);
        let names = self.clusters.read().keys().cloned().collect();
        self.cluster_names.send_replace(names);
        Ok(())
    }

    async fn bootstrap(&self, cluster: &Cluster) -> Answer<()> {
        for name in kinds::FIRST_NAMESPACES {
            self.ensure(cluster, "namespaces", "", kinds::first_namespace(name)).await?;
        }
        self.ensure(cluster, "services", "default", kinds::kubernetes_service()).await
    }

    async fn ensure(
        &self,
        cluster: &Cluster,
        plural: &str,
        namespace: &str,
        object: crate::object::Object,
    ) -> Answer<()> {
        let registry = cluster.registry(self);
        let Some(resource) = registry.find("", "v1", plural) else { return Ok(()) };
        let collection = Collection { server: self, cluster, resource };
        match collection.create(namespace, object, Effect::Keep, Author::SERVER).await {
            Err(refusal) if refusal.reason() != "AlreadyExists" => Err(refusal),
            _ => Ok(()),
        }
    }

    /// Begins the end: no new request is taken and watches finish.
    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Resolves when the server closes.
    pub(crate) async fn closed(&self) {
        // An error means that the sender is gone, and with it the server.
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Answers a request of somebody, or of nobody that is known. A path that names no logical cluster is about
    /// the one that the transport is for.
    pub(crate) async fn answer<B>(
        self: Arc<Self>,
        home: &str,
        identity: Option<Identity>,
        request: Request<B>,
    ) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let audit_id = match request.headers().get("audit-id") {
            Some(id) if id.len() <= 64 => id.clone(),
            _ => HeaderValue::from_str(&uuid::Uuid::new_v4().to_string())
                .unwrap_or(HeaderValue::from_static("-")),
        };
        let mut response = match self.route(home, identity, request).await {
            Ok(response) => response,
            Err(refusal) => refusal.into_response(),
        };
        let headers = response.headers_mut();
        headers.insert("audit-id", audit_id);
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
        response
    }

    async fn route<B>(
        self: Arc<Self>,
        home: &str,
        identity: Option<Identity>,
        request: Request<B>,
    ) -> Answer<Response<Body>>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let path = Path::parse(parts.uri.path());
        let query = Query::parse(parts.uri.query());
        if let Target::Health { endpoint, check } = path.target {
            return Ok(health::answer(&self, endpoint, check, &query));
        }
        let identity = identity.ok_or_else(Refusal::unauthorized)?;
        if self.is_closing() {
            return Err(Refusal::unavailable("the server is shutting down", Duration::from_secs(1)));
        }
        let name = path.cluster.unwrap_or(home);
        let Some(cluster) = self.cluster(name) else {
            let clusters = crate::status::Qualified { group: "", name: "clusters" };
            return Err(Refusal::not_found(clusters, name));
        };
        let registry = cluster.registry(&self);
        let published = |resource: &Resource| cluster.published(&self, resource);
        match path.target {
            Target::Version => discovery::document(&parts, version::document()),
            Target::OpenApiV2 => discovery::openapi_v2(&parts, &cluster.served(&self), &published),
            Target::OpenApi { document } => {
                let prefix = path.cluster.map(|name| format!("/clusters/{name}")).unwrap_or_default();
                discovery::openapi(&parts, &cluster.served(&self), &published, &prefix, document.as_deref())
            }
            Target::Index => discovery::document(&parts, discovery::index(&registry)),
            Target::Groups(root) => discovery::groups(&parts, &registry, root),
            Target::Group(group) => discovery::group(&parts, &registry, group),
            Target::GroupVersion { group, version } => {
                discovery::resources(&parts, &registry, group, version)
            }
            Target::Resource(at) => {
                let Some(resource) = find(&registry, &at) else { return not_served(&registry, at.group) };
                let resource: Arc<Resource> = resource.clone();
                let timeout = request_timeout(&query)?;
                let warnings = verbs::Warnings::default();
                let call = verbs::Call {
                    server: self.clone(),
                    cluster,
                    identity,
                    resource,
                    namespace: at.namespace.map(crate::request::percent_decode_path).unwrap_or_default(),
                    name: at.name.map(crate::request::percent_decode_path),
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
            Target::Health { .. } | Target::Unknown => Ok(page_not_found()),
        }
    }

    /// Why only a restart can help, if that is so.
    pub(crate) fn failure(&self) -> Option<String> {
        match self.store.health() {
            Health::Failed { reason } => Some(reason),
            Health::Serving | Health::ReadOnly { .. } => None,
        }
    }

    /// Why writes are refused at the moment, if they are.
    pub(crate) fn trouble(&self) -> Option<String> {
        match self.store.health() {
            Health::Serving => None,
            Health::ReadOnly { reason } | Health::Failed { reason } => Some(reason),
        }
    }
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
