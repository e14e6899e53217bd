//! CustomResourceDefinitions: says in their conditions what became of their names, and empties those that are being
//! deleted. What is served does not wait for this: it follows from the definitions themselves.

use std::time::Duration;

use bellwether_store::{Change, Expect, Write};
use serde_json::Value;

use super::Ground;
use super::follow::Follower;
use crate::authors::Author;
use crate::collection::{Collection, Location, UpdateRequest};
use crate::crd::{self, serve};
use crate::object::{Canonical, Meta, Object, parse};
use crate::options::DeleteOptions;
use crate::registry::Subresource;
use crate::status::Answer;
use crate::times;

/// Objects that finalizers hold back are looked at again soon, then less and less often.
const SOONEST: Duration = Duration::from_millis(50);
const LATEST: Duration = Duration::from_secs(5);

pub(super) async fn run(ground: Ground) {
    let mut follower = Follower::new(&ground, crd::SPACE);
    let mut waiting = false;
    let mut pause = SOONEST;
    loop {
        tokio::select! {
            _ = follower.next() => pause = SOONEST,
            () = tokio::time::sleep(pause), if waiting => pause = (pause * 2).min(LATEST),
        }
        match settle(&ground).await {
            Ok(left) => waiting = left,
            Err(refusal) => {
                tracing::warn!(%refusal, "a CustomResourceDefinition could not be settled yet");
                waiting = true;
            }
        }
    }
}

/// Brings every definition where it should be; whether some still wait.
async fn settle(ground: &Ground) -> Answer<bool> {
    let served = ground.cluster.served(&ground.server);
    let Some(resource) = served.registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    else {
        return Ok(false);
    };
    let definitions = Collection { server: &ground.server, cluster: &ground.cluster, resource };
    let mut waiting = false;
    for stored in ground.server.store.snapshot(&definitions.space()).iter() {
        let at = Location { namespace: "", name: stored.path() };
        let object = parse(stored.value());
        if let Some(acceptance) = served.acceptances.get(stored.path()) {
            report(ground, &definitions, at, acceptance).await?;
        }
        if object.is_being_deleted() && object.finalizers().contains(&crd::CLEANUP) {
            if empty(ground, stored.path()).await? {
                release(&definitions, at).await?;
            } else {
                waiting = true;
            }
        }
    }
    Ok(waiting)
}

async fn report(
    ground: &Ground,
    definitions: &Collection<'_>,
    at: Location<'_>,
    acceptance: &serve::Acceptance,
) -> Answer<()> {
    let now = times::seconds(ground.server.clock.now());
    let request = UpdateRequest::by(Author::SERVER, Some(Subresource::Status));
    let outcome = definitions
        .update(at, request, |old| {
            let mut object = old.cloned().unwrap_or_default();
            let status = object.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
            let status = serve::status(&status, acceptance, object.is_being_deleted(), &now);
            object.insert("status".into(), Value::Object(status));
            Ok(object)
        })
        .await;
    match outcome {
        Err(refusal) if refusal.code() == 404 => Ok(()),
        outcome => outcome.map(|_| ()),
    }
}

/// Deletes all objects of a definition; whether none is left.
async fn empty(ground: &Ground, name: &str) -> Answer<bool> {
    // A definition that has the name of a built-in kind was never served, and has no objects.
    if ground.server.builtins.all().iter().any(|resource| resource.storage.space == name) {
        return Ok(true);
    }
    let registry = ground.cluster.registry(&ground.server);
    let space = ground.cluster.space(name);
    let resource = registry.stored().find(|resource| resource.storage.space == name);
    for stored in ground.server.store.snapshot(&space).iter() {
        match resource {
            Some(resource) => {
                let collection = Collection { server: &ground.server, cluster: &ground.cluster, resource };
                let (namespace, name) = stored.path().rsplit_once('/').unwrap_or(("", stored.path()));
                match collection.delete(Location { namespace, name }, &DeleteOptions::plain()).await {
                    Err(refusal) if refusal.code() == 404 => {}
                    outcome => {
                        outcome?;
                    }
                }
            }
            // Nobody can reach objects of a kind that is not served, their finalizers' owners included.
            None => {
                let draft = Canonical::of(&parse(stored.value())).into_draft();
                let write = Write {
                    space: space.clone(),
                    path: stored.path().clone(),
                    expect: Expect::At(stored.revision()),
                    change: Change::Delete(draft),
                };
                let _ = ground.server.store.commit(write).await;
            }
        }
    }
    Ok(ground.server.store.snapshot(&space).is_empty())
}

async fn release(definitions: &Collection<'_>, at: Location<'_>) -> Answer<()> {
    let request = UpdateRequest::by(Author::SERVER, None);
    let outcome = definitions
        .update(at, request, |old| {
            let mut object: Object = old.cloned().unwrap_or_default();
            let kept = object.finalizers().into_iter().filter(|finalizer| *finalizer != crd::CLEANUP);
            let kept = kept.map(str::to_owned).collect();
            object.set_finalizers(kept);
            Ok(object)
        })
        .await;
    match outcome {
        Err(refusal) if refusal.code() == 404 => Ok(()),
        outcome => outcome.map(|_| ()),
    }
}
