//! The namespace deleter: a namespace that is being deleted is emptied, kind by kind, and released once nothing is
//! left. While finalizers hold objects back, the namespace's conditions say which.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bellwether_store::EventKind;
use serde_json::{Value, json};

use super::Ground;
use super::follow::{Follower, Seen};
use crate::authors::Author;
use crate::collection::{Collection, Location, UpdateRequest};
use crate::object::{Meta, Object, lookup, parse};
use crate::options::DeleteOptions;
use crate::registry::Subresource;
use crate::status::Answer;
use crate::times;

/// A namespace that could not be emptied is tried again soon, then less and less often.
const SOONEST: Duration = Duration::from_millis(50);
const LATEST: Duration = Duration::from_secs(5);
const CONTENT: &str = "kubernetes";

pub(super) async fn run(ground: Ground) {
    let mut follower = Follower::new(&ground, "namespaces");
    let mut waiting: BTreeSet<String> = BTreeSet::new();
    let mut pause = SOONEST;
    loop {
        tokio::select! {
            seen = follower.next() => {
                for seen in seen {
                    let stored = match &seen {
                        Seen::Present(stored) => stored,
                        Seen::Changed(event) if event.kind() == EventKind::Put => event.entry(),
                        Seen::Changed(event) => {
                            waiting.remove(&**event.entry().path());
                            continue;
                        }
                    };
                    if stored.facts().deleting && waiting.insert(stored.path().to_string()) {
                        pause = SOONEST;
                    }
                }
            }
            () = tokio::time::sleep(pause), if !waiting.is_empty() => {
                pause = (pause * 2).min(LATEST);
            }
        }
        let mut left = BTreeSet::new();
        for namespace in std::mem::take(&mut waiting) {
            match empty(&ground, &namespace).await {
                Ok(Outcome::Released) => {}
                Ok(Outcome::Waiting) => {
                    left.insert(namespace);
                }
                Err(refusal) => {
                    tracing::warn!(namespace, %refusal, "a namespace could not be emptied yet");
                    left.insert(namespace);
                }
            }
        }
        waiting = left;
    }
}

enum Outcome {
    Released,
    Waiting,
}

/// What is left in a namespace after a round of deletes.
#[derive(Default)]
struct Remains {
    /// Objects by resource.
    objects: BTreeMap<String, usize>,
    /// Objects by the finalizer that holds them.
    finalizers: BTreeMap<String, usize>,
}

async fn empty(ground: &Ground, namespace: &str) -> Answer<Outcome> {
    let registry = ground.cluster.registry(&ground.server);
    let Some(resource) = registry.find("", "v1", "namespaces") else { return Ok(Outcome::Released) };
    let namespaces = Collection { server: &ground.server, cluster: &ground.cluster, resource };
    let at = Location { namespace: "", name: namespace };
    let Some(stored) = namespaces.find(at) else { return Ok(Outcome::Released) };
    let object = parse(stored.value());
    if !has_content_finalizer(&object) {
        return Ok(Outcome::Released);
    }
    let remains = delete_content(ground, namespace).await?;
    if !remains.objects.is_empty() {
        report(ground, &namespaces, at, &remains).await?;
        return Ok(Outcome::Waiting);
    }
    let request = UpdateRequest::by(Author::CONTROLLERS, Some(Subresource::Finalize));
    namespaces
        .update(at, request, |old| {
            let mut object = old.cloned().unwrap_or_default();
            release(&mut object);
            Ok(object)
        })
        .await?;
    Ok(Outcome::Released)
}

fn has_content_finalizer(object: &Object) -> bool {
    lookup(object, "spec.finalizers")
        .and_then(Value::as_array)
        .is_some_and(|list| list.iter().any(|finalizer| finalizer == CONTENT))
}

fn release(object: &mut Object) {
    if let Some(Value::Object(spec)) = object.get_mut("spec")
        && let Some(Value::Array(list)) = spec.get_mut("finalizers")
    {
        list.retain(|finalizer| finalizer != CONTENT);
        if list.is_empty() {
            spec.remove("finalizers");
        }
    }
}

async fn delete_content(ground: &Ground, namespace: &str) -> Answer<Remains> {
    let registry = ground.cluster.registry(&ground.server);
    let prefix = format!("{namespace}/");
    let mut remains = Remains::default();
    for resource in registry.stored().filter(|resource| resource.is_namespaced()) {
        let collection = Collection { server: &ground.server, cluster: &ground.cluster, resource };
        for stored in ground.server.store.snapshot(&collection.space()).prefix(&prefix) {
            let name = stored.path().strip_prefix(&prefix).unwrap_or_default();
            let at = Location { namespace, name };
            match collection.delete(at, &DeleteOptions::plain()).await {
                Err(refusal) if refusal.reason() == "NotFound" => {}
                outcome => {
                    outcome?;
                }
            }
        }
        for stored in ground.server.store.snapshot(&collection.space()).prefix(&prefix) {
            *remains.objects.entry(format!("{}.{}", resource.plural, resource.group)).or_default() += 1;
            for finalizer in parse(stored.value()).finalizers() {
                *remains.finalizers.entry(finalizer.to_owned()).or_default() += 1;
            }
        }
    }
    Ok(remains)
}

/// Says in the namespace's conditions what it waits for; writes only when that changed.
async fn report(
    ground: &Ground,
    namespaces: &Collection<'_>,
    at: Location<'_>,
    remains: &Remains,
) -> Answer<()> {
    let now = times::seconds(ground.server.clock.now());
    let conditions = conditions(remains);
    let request = UpdateRequest::by(Author::CONTROLLERS, Some(Subresource::Status));
    namespaces
        .update(at, request, |old| {
            let mut object = old.cloned().unwrap_or_default();
            let Some(Value::Object(status)) = object.get_mut("status") else { return Ok(object) };
            let before = status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
            let after: Vec<Value> = conditions.iter().map(|wanted| wanted.over(&before, &now)).collect();
            status.insert("conditions".into(), after.into());
            Ok(object)
        })
        .await?;
    Ok(())
}

struct Wanted {
    kind: &'static str,
    status: &'static str,
    reason: &'static str,
    message: String,
}

impl Wanted {
    /// The condition as it is to be, with the time of its last transition kept when it did not change.
    fn over(&self, before: &[Value], now: &str) -> Value {
        let old = before.iter().find(|condition| condition["type"] == self.kind);
        let since = match old {
            Some(old) if old["status"] == self.status => old["lastTransitionTime"].clone(),
            _ => now.into(),
        };
        json!({
            "type": self.kind,
            "status": self.status,
            "lastTransitionTime": since,
            "reason": self.reason,
            "message": self.message,
        })
    }
}

fn conditions(remains: &Remains) -> Vec<Wanted> {
    let listed = |counts: &BTreeMap<String, usize>, suffix: &str| {
        let parts: Vec<String> =
            counts.iter().map(|(what, count)| format!("{what}{suffix} {count} resource instances")).collect();
        parts.join(", ")
    };
    let good =
        |kind, reason, message: &str| Wanted { kind, status: "False", reason, message: message.into() };
    let mut wanted = vec![
        good(
            "NamespaceDeletionDiscoveryFailure",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        good(
            "NamespaceDeletionGroupVersionParsingFailure",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        good(
            "NamespaceDeletionContentFailure",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        Wanted {
            kind: "NamespaceContentRemaining",
            status: "True",
            reason: "SomeResourcesRemain",
            message: format!("Some resources are remaining: {}", listed(&remains.objects, " has")),
        },
    ];
    wanted.push(if remains.finalizers.is_empty() {
        good(
            "NamespaceFinalizersRemaining",
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
        )
    } else {
        Wanted {
            kind: "NamespaceFinalizersRemaining",
            status: "True",
            reason: "SomeFinalizersRemain",
            message: format!(
                "Some content in the namespace has finalizers remaining: {}",
                listed(&remains.finalizers, " in")
            ),
        }
    });
    wanted
}
