//! The controllers that Kubernetes itself has and that clients count on: namespaces empty when they are deleted,
//! dependents follow their owners, every namespace has its ServiceAccount and its root certificate, events age, roles
//! are made of other roles.
//! Each is level-triggered, starts from what is stored, and can be switched off.

mod aggregation;
mod definitions;
mod event_ttl;
mod follow;
mod garbage;
mod namespaces;
mod provision;
mod signing;

use std::collections::HashSet;
use std::sync::Arc;

use tokio::task::JoinSet;

use crate::server::{Cluster, Server};

/// One of the server's own controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Controller {
    /// Empties namespaces that are being deleted, then lets them go.
    Namespaces,
    /// Deletes what has lost its owners; foreground and orphan deletion.
    GarbageCollector,
    /// Keeps a ServiceAccount `default` in every namespace.
    ServiceAccounts,
    /// Keeps a ConfigMap `kube-root-ca.crt` in every namespace.
    RootCertificates,
    /// Deletes events that are an hour old.
    EventTtl,
    /// Gives roles that are made of other roles the rules of those.
    RoleAggregation,
    /// Signs approved requests for certificates of clients.
    CertificateSigning,
}

/// Which of the server's own controllers run.
#[derive(Clone, Debug)]
pub struct Controllers(HashSet<Controller>);

impl Controllers {
    /// All of them: what a cluster has.
    pub fn all() -> Self {
        Self(HashSet::from([
            Controller::Namespaces,
            Controller::GarbageCollector,
            Controller::ServiceAccounts,
            Controller::RootCertificates,
            Controller::EventTtl,
            Controller::RoleAggregation,
            Controller::CertificateSigning,
        ]))
    }

    /// None of them: a bare API.
    pub fn none() -> Self {
        Self(HashSet::new())
    }

    /// All but one.
    #[must_use]
    pub fn without(mut self, controller: Controller) -> Self {
        self.0.remove(&controller);
        self
    }

    fn has(&self, controller: Controller) -> bool {
        self.0.contains(&controller)
    }
}

/// What a controller works on.
#[derive(Clone)]
pub(crate) struct Ground {
    pub(crate) server: Arc<Server>,
    pub(crate) cluster: Arc<Cluster>,
}

/// Runs the controllers for every logical cluster that there is or will be, until the server closes.
pub(crate) async fn run(server: Arc<Server>, controllers: Controllers) {
    let mut names = server.cluster_names.subscribe();
    let mut started: HashSet<String> = HashSet::new();
    let mut tasks = JoinSet::new();
    loop {
        let known = names.borrow_and_update().clone();
        for name in known {
            if let (true, Some(cluster)) = (started.insert(name.clone()), server.cluster(&name)) {
                start(&mut tasks, &controllers, Ground { server: server.clone(), cluster });
            }
        }
        tokio::select! {
            changed = names.changed() => if changed.is_err() { return },
            () = server.closed() => return,
        }
    }
}

fn start(tasks: &mut JoinSet<()>, controllers: &Controllers, ground: Ground) {
    // A definition without its conditions would be a lie: this one is part of the API, not an extra.
    tasks.spawn(definitions::run(ground.clone()));
    if controllers.has(Controller::Namespaces) {
        tasks.spawn(namespaces::run(ground.clone()));
    }
    if controllers.has(Controller::GarbageCollector) {
        tasks.spawn(garbage::run(ground.clone()));
    }
    if controllers.has(Controller::ServiceAccounts) {
        tasks.spawn(provision::run(ground.clone(), provision::default_service_account()));
    }
    if controllers.has(Controller::RootCertificates) {
        let certificate = ground.server.ca_certificate.clone();
        tasks.spawn(provision::run(ground.clone(), provision::root_certificate(certificate)));
    }
    if controllers.has(Controller::RoleAggregation) {
        tasks.spawn(aggregation::run(ground.clone()));
    }
    if controllers.has(Controller::CertificateSigning) && *ground.cluster.name == *crate::server::HUB {
        tasks.spawn(signing::run(ground.clone()));
    }
    if controllers.has(Controller::EventTtl) {
        tasks.spawn(event_ttl::run(ground));
    }
}
