//! Roles that are made of other roles have the rules of those.

use serde_json::Value;

use super::Ground;
use super::follow::Follower;
use crate::access::{self, aggregated, is_aggregated};
use crate::authors::Author;
use crate::collection::{Collection, Location, UpdateRequest};
use crate::object::{Meta as _, Object, list, parse};
use crate::registry::Resource;

pub(super) async fn run(ground: Ground) {
    let registry = ground.cluster.registry(&ground.server);
    let Some(resource) = registry.find(access::GROUP, "v1", "clusterroles") else { return };
    let mut roles = Follower::new(&ground, &resource.storage.space);
    loop {
        // Which role changed does not matter: what counts is what all of them are now.
        roles.next().await;
        settle(&ground, resource).await;
    }
}

async fn settle(ground: &Ground, resource: &Resource) {
    let collection = Collection { server: &ground.server, cluster: &ground.cluster, resource };
    let read = || -> Vec<Object> {
        ground.server.store.snapshot(&collection.space()).iter().map(|stored| parse(stored.value())).collect()
    };
    let all = read();
    for role in all.iter().filter(|role| is_aggregated(role) && !is_settled(role, &all)) {
        let request = UpdateRequest::by(Author::CONTROLLERS, None);
        let settle = |old: Option<&Object>| {
            let mut role = old.cloned().unwrap_or_default();
            role.insert("rules".into(), aggregated(&role, &read()).into());
            Ok(role)
        };
        let outcome = collection.update(Location { namespace: "", name: role.name() }, request, settle).await;
        if let Err(refusal) = outcome
            && refusal.code() != 404
        {
            tracing::warn!(role = role.name(), %refusal, "a role lacks rules of the roles that it is made of");
        }
    }
}

fn is_settled(role: &Object, all: &[Object]) -> bool {
    list(role, "rules") == aggregated(role, all).as_slice() as &[Value]
}
