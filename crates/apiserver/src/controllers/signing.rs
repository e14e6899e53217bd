//! Signs approved requests for certificates of clients with the server's CA. Only the hub's: a certificate is good on every
//! logical cluster, and who approves in one of them has no say in the others. The group `system:masters` is never given.

use base64::Engine as _;
use serde_json::{Value, json};

use super::Ground;
use super::follow::{Follower, Seen};
use crate::authors::Author;
use crate::collection::{Collection, Location, UpdateRequest};
use crate::identity::MASTERS;
use crate::kinds::certificate::{self, APPROVED, CLIENT_SIGNER, DENIED, FAILED};
use crate::object::{Meta as _, Object, list, lookup, parse, text};
use crate::pki::Authority;
use crate::registry::{Resource, Subresource};

/// What a certificate of a client may be for.
const USAGES: [&str; 3] = ["client auth", "digital signature", "key encipherment"];

pub(super) async fn run(ground: Ground) {
    let registry = ground.cluster.registry(&ground.server);
    let Some(resource) = registry.find(certificate::GROUP, "v1", certificate::PLURAL) else { return };
    let mut requests = Follower::new(&ground, &resource.storage.space);
    loop {
        for seen in requests.next().await {
            let object = match &seen {
                Seen::Present(stored) => parse(stored.value()),
                Seen::Changed(event) if event.kind() == bellwether_store::EventKind::Put => {
                    parse(event.entry().value())
                }
                Seen::Changed(_) => continue,
            };
            if is_due(&object) {
                settle(&ground, resource, &object).await;
            }
        }
    }
}

/// Approved, ours to sign, and neither signed nor given up.
fn is_due(object: &Object) -> bool {
    text(object, "spec.signerName") == CLIENT_SIGNER
        && text(object, "status.certificate").is_empty()
        && certificate::has(object, APPROVED)
        && !certificate::has(object, DENIED)
        && !certificate::has(object, FAILED)
}

async fn settle(ground: &Ground, resource: &Resource, object: &Object) {
    let Some(authority) = &ground.server.authority else { return };
    let outcome = sign(authority, object);
    let collection = Collection { server: &ground.server, cluster: &ground.cluster, resource };
    let request = UpdateRequest::by(Author::CONTROLLERS, Some(Subresource::Status));
    let at = Location { namespace: "", name: object.name() };
    let written = collection
        .update(at, request, |old| {
            let mut object = old.cloned().unwrap_or_default();
            if is_due(&object) {
                note(&mut object, &outcome);
            }
            Ok(object)
        })
        .await;
    if let Err(refusal) = written
        && refusal.code() != 404
    {
        tracing::warn!(request = object.name(), %refusal, "a request for a certificate could not be answered");
    }
}

fn note(object: &mut Object, outcome: &Result<String, String>) {
    let status = object.entry("status").or_insert_with(|| json!({}));
    match outcome {
        Ok(certificate) => {
            let encoded = base64::engine::general_purpose::STANDARD.encode(certificate);
            crate::object::set(status, "certificate", encoded);
        }
        Err(problem) => {
            let failed = json!({
                "type": FAILED, "status": "True", "reason": "SignerValidationFailure", "message": problem,
            });
            if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
                conditions.push(failed);
            }
        }
    }
}

/// The certificate that a request asks for, or why there will be none.
fn sign(authority: &Authority, object: &Object) -> Result<String, String> {
    let usages: Vec<&str> = list(object, "spec.usages").iter().filter_map(Value::as_str).collect();
    if !usages.contains(&"client auth") || usages.iter().any(|usage| !USAGES.contains(usage)) {
        return Err(format!("usages did not match {}", USAGES.join(", ")));
    }
    let pem = certificate::request(object).ok_or("the request is no base64")?;
    let wanted = certificate::read(&pem)?;
    let groups = &wanted.organisations;
    if groups.iter().any(|group| group == MASTERS) {
        return Err(format!("no certificate is made for the group {MASTERS}"));
    }
    // Those names are given by the server itself, to its administrators and to the agents of spokes.
    let reserved = |name: &String| name.starts_with("bellwether:");
    if groups.iter().any(reserved) || wanted.user.as_ref().is_some_and(reserved) {
        return Err(
            "no certificate is made for users and groups whose names begin with bellwether:".to_owned()
        );
    }
    if groups.len() > 1 {
        return Err("a certificate with more than one organisation cannot be made".to_owned());
    }
    let seconds = lookup(object, "spec.expirationSeconds").and_then(Value::as_i64);
    authority.sign_client(&wanted.der, seconds).map_err(|error| error.to_string())
}
