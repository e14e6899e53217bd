//! What every namespace has: an object that is made with the namespace, and made anew should somebody delete or
//! change it.

use serde_json::{Value, json};

use super::Ground;
use super::follow::{Follower, Seen};
use crate::authors::Author;
use crate::collection::{Collection, Location, UpdateRequest};
use crate::object::{Meta, Object, parse};
use crate::options::Effect;
use crate::registry::Resource;
use bellwether_store::EventKind;

/// An object that every namespace has.
pub(super) struct Provision {
    plural: &'static str,
    name: &'static str,
    object: Value,
    /// The part that is put back when it was changed.
    kept: Option<&'static str>,
}

pub(super) fn default_service_account() -> Provision {
    Provision {
        plural: "serviceaccounts",
        name: "default",
        object: json!({"kind": "ServiceAccount", "apiVersion": "v1"}),
        kept: None,
    }
}

pub(super) fn root_certificate(certificate: String) -> Provision {
    const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";
    Provision {
        plural: "configmaps",
        name: "kube-root-ca.crt",
        object: json!({
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {"annotations": {"kubernetes.io/description": DESCRIPTION}},
            "data": {"ca.crt": certificate},
        }),
        kept: Some("data"),
    }
}

pub(super) async fn run(ground: Ground, provision: Provision) {
    let registry = ground.cluster.registry(&ground.server);
    let Some(resource) = registry.find("", "v1", provision.plural) else { return };
    let mut namespaces = Follower::new(&ground, "namespaces");
    let mut objects = Follower::new(&ground, &resource.storage.space);
    loop {
        tokio::select! {
            seen = namespaces.next() => {
                for seen in seen {
                    let stored = match &seen {
                        Seen::Present(stored) => stored,
                        Seen::Changed(event) if event.kind() == EventKind::Put => event.entry(),
                        Seen::Changed(_) => continue,
                    };
                    if !stored.facts().deleting {
                        ensure(&ground, resource, &provision, stored.path()).await;
                    }
                }
            }
            seen = objects.next() => {
                for seen in seen {
                    let path = match &seen {
                        Seen::Present(stored) => stored.path(),
                        Seen::Changed(event) => event.entry().path(),
                    };
                    if let Some((namespace, name)) = path.split_once('/')
                        && name == provision.name {
                            ensure(&ground, resource, &provision, namespace).await;
                        }
                }
            }
        }
    }
}

async fn ensure(ground: &Ground, resource: &Resource, provision: &Provision, namespace: &str) {
    let collection = Collection { server: &ground.server, cluster: &ground.cluster, resource };
    let at = Location { namespace, name: provision.name };
    let outcome = match collection.find(at) {
        Some(stored) if is_kept(provision, &parse(stored.value())) => return,
        Some(_) => {
            let request = UpdateRequest::by(Author::CONTROLLERS, None);
            collection
                .update(at, request, |old| {
                    let mut object = old.cloned().unwrap_or_default();
                    if let Some(kept) = provision.kept {
                        object.insert(kept.into(), provision.object.get(kept).cloned().unwrap_or_default());
                    }
                    Ok(object)
                })
                .await
        }
        None => {
            collection
                .create(namespace, new_object(provision, namespace), Effect::Keep, Author::CONTROLLERS)
                .await
        }
    };
    match outcome {
        Ok(_) => {}
        // The namespace is gone or going, or somebody was faster: the next event tells.
        Err(refusal) if matches!(refusal.code(), 403 | 404 | 409) => {}
        Err(refusal) => {
            tracing::warn!(namespace, name = provision.name, %refusal, "a namespace lacks an object it should have");
        }
    }
}

fn new_object(provision: &Provision, namespace: &str) -> Object {
    let mut object = provision.object.as_object().cloned().unwrap_or_default();
    let meta = object.meta_mut();
    meta.insert("name".into(), provision.name.into());
    meta.insert("namespace".into(), namespace.into());
    object
}

fn is_kept(provision: &Provision, object: &Object) -> bool {
    provision.kept.is_none_or(|kept| object.get(kept) == provision.object.get(kept))
}
