//! The server itself: the store, the logical clusters, what is there from the start. How a request is answered is in
//! `answer`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arc_swap::ArcSwap;
use bellwether_store::{Clock, Health, Revision, Space, Store};
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::watch;

use crate::access::{self, Policies, Policy};
use crate::audit::AuditLog;
use crate::authentication::SigningKey;
use crate::authors::Author;
use crate::collection::{Collection, Location, Stored, UpdateRequest};
use crate::compaction::Pages;
use crate::crd;
use crate::kinds;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::object::{Head, Meta as _, lookup, parse};
use crate::openapi::Documents;
use crate::options::Effect;
use crate::pki::Authority;
use crate::registry::{Registry, Resource};
use crate::status::Answer;

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
    /// Who may do what.
    policies: Policies,
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
            policies: Policies::new(name),
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

    /// Who may do what now: as the roles and bindings say, the moment they are stored.
    pub(crate) fn policy(&self, server: &Server) -> Arc<Policy> {
        self.policies.current(&server.store)
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
    /// Signs certificates of clients, if this server has a CA.
    pub(crate) authority: Option<Authority>,
    /// Signs the tokens of ServiceAccounts.
    pub(crate) signing_key: SigningKey,
    /// The schemas that definitions of all clusters bring with them.
    schemas: crd::Schemas,
    clusters: RwLock<BTreeMap<String, Arc<Cluster>>>,
    /// Says which clusters there are, to the controllers.
    pub(crate) cluster_names: watch::Sender<Vec<String>>,
    pub(crate) closing: watch::Sender<bool>,
    pub(crate) limits: Limits,
    pub(crate) metrics: Metrics,
    pub(crate) audit: AuditLog,
    pub(crate) pages: Pages,
}

impl Server {
    pub(crate) fn new(
        store: Store<Head>,
        clock: Arc<dyn Clock>,
        ca_certificate: String,
        authority: Option<Authority>,
        signing_key: SigningKey,
        audit: AuditLog,
    ) -> Self {
        Self {
            store,
            clock,
            builtins: Arc::new(kinds::builtins()),
            ca_certificate,
            authority,
            signing_key,
            schemas: crd::Schemas::default(),
            clusters: RwLock::default(),
            cluster_names: watch::Sender::new(Vec::new()),
            closing: watch::Sender::new(false),
            limits: Limits::default(),
            metrics: Metrics::default(),
            audit,
            pages: Pages::default(),
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
        // All at once: one after the other, each would wait for its own sync.
        let namespaces = kinds::FIRST_NAMESPACES
            .map(|name| self.ensure(cluster, ("", "namespaces"), "", kinds::first_namespace(name)));
        let rules = access::bootstrap::FIRST.iter().map(|first| async {
            self.ensure(cluster, (access::GROUP, first.plural), "", first.object.clone()).await?;
            self.complete(cluster, first).await
        });
        futures::try_join!(futures::future::try_join_all(namespaces), futures::future::try_join_all(rules))?;
        self.ensure(cluster, ("networking.k8s.io", "servicecidrs"), "", kinds::first_service_cidr()).await?;
        self.ensure(cluster, ("", "services"), "default", kinds::kubernetes_service()).await
    }

    async fn ensure(
        &self,
        cluster: &Cluster,
        (group, plural): (&str, &str),
        namespace: &str,
        object: crate::object::Object,
    ) -> Answer<()> {
        let registry = cluster.registry(self);
        let Some(resource) = registry.find(group, "v1", plural) else { return Ok(()) };
        let collection = Collection { server: self, cluster, resource };
        let at = Location { namespace, name: object.name() };
        if collection.find(at).is_some() {
            return Ok(());
        }
        match collection.create(namespace, object, Effect::Keep, Author::SERVER).await {
            Err(refusal) if refusal.reason() != "AlreadyExists" => Err(refusal),
            _ => Ok(()),
        }
    }

    /// Gives a role or binding back what it should have from the start.
    async fn complete(&self, cluster: &Cluster, first: &access::bootstrap::First) -> Answer<()> {
        let registry = cluster.registry(self);
        let Some(resource) = registry.find(access::GROUP, "v1", first.plural) else { return Ok(()) };
        let collection = Collection { server: self, cluster, resource };
        let at = Location { namespace: "", name: first.object.name() };
        let Some(stored) = collection.find(at) else { return Ok(()) };
        if access::bootstrap::completed(&parse(stored.value()), &first.object).is_none() {
            return Ok(());
        }
        let request = UpdateRequest::by(Author::SERVER, None);
        let complete = |old: Option<&crate::object::Object>| {
            let old = old.cloned().unwrap_or_default();
            Ok(access::bootstrap::completed(&old, &first.object).unwrap_or(old))
        };
        collection.update(at, request, complete).await.map(|_| ())
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
