//! `/token`: a token for a ServiceAccount, made when somebody asks for it who may.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::{Value, json};

use super::conform::{Conformed, read_object};
use super::{Call, render};
use crate::authentication::service_accounts::{Bound, Grant, Reference, issuer};
use crate::body::Body;
use crate::collection::Stored;
use crate::field::FieldError;
use crate::kinds;
use crate::negotiate::{Accepted, Content};
use crate::object::{Meta, Object, list, lookup, parse, text};
use crate::options::{Effect, WriteOptions};
use crate::status::{Answer, Qualified, Refusal};
use crate::times;

/// How long a token lives when nobody says.
const LIFE: i64 = 60 * 60;
const SHORTEST: i64 = 10 * 60;
const LONGEST: i64 = 1 << 32;

const KIND: Qualified<'static> = Qualified { group: "authentication.k8s.io", name: "TokenRequest" };

pub(super) async fn create(
    call: &mut Call,
    content: Content,
    bytes: &Bytes,
    options: WriteOptions,
    accepted: Accepted,
) -> Answer<Response<Body>> {
    let at = call.location()?;
    let stored =
        call.collection().find(at).ok_or_else(|| Refusal::not_found(call.resource.qualified(), at.name))?;
    let account = Reference { name: at.name.to_owned(), uid: stored.facts().uid.to_string() };
    call.resource = Arc::new(kinds::token_request().ok_or_else(Refusal::nothing_here)?);
    let Conformed { mut object, warnings } = read_object(call, content, bytes, options.validation)?;
    call.warnings.add(warnings);
    check_names(call, &account, &object)?;
    let lives = lookup(&object, "spec.expirationSeconds").and_then(Value::as_i64).unwrap_or(LIFE);
    check_life(lives)?;
    let bound = bound(call, &account, &object)?;
    let texts = |value: &Value| value.as_str().map(str::to_owned);
    let mut audiences: Vec<String> = list(&object, "spec.audiences").iter().filter_map(texts).collect();
    if audiences.is_empty() {
        audiences = vec![issuer(&call.cluster.name)];
    }
    let now = call.server.clock.now();
    let reference = lookup(&object, "spec.boundObjectRef").cloned().unwrap_or_default();
    let metadata = json!({
        "name": account.name, "namespace": call.namespace, "uid": account.uid,
        "creationTimestamp": times::seconds(now),
    });
    let grant = Grant { namespace: &call.namespace, account, audiences: &audiences, bound, lives };
    let token = match options.effect {
        Effect::Keep => call
            .server
            .signing_key
            .sign(&grant.claims(&call.cluster.name, now.as_second()))
            .map_err(|error| Refusal::internal(error.to_string()))?,
        // A dry run must not hand out anything that works.
        Effect::DryRun => String::new(),
    };
    let ends = now.checked_add(SignedDuration::from_secs(lives)).unwrap_or(now);
    object.insert("metadata".into(), metadata);
    object.insert(
        "spec".into(),
        json!({"audiences": audiences, "expirationSeconds": lives, "boundObjectRef": reference}),
    );
    object.insert("status".into(), json!({"token": token, "expirationTimestamp": times::seconds(ends)}));
    let object = call.resource.conform(object).map_err(Refusal::internal)?.object;
    let bytes = serde_json::to_vec(&object).unwrap_or_default().into();
    Ok(render::respond(StatusCode::CREATED, bytes, accepted.encoding))
}

/// What a request says of its account must be true.
fn check_names(call: &Call, account: &Reference, object: &Object) -> Answer<()> {
    let wrong = |key: &str, value: &str| {
        let detail = format!("must match the service account {key} if specified");
        let error = FieldError::invalid(format!("metadata.{key}"), value, detail);
        Err(Refusal::invalid(KIND, &account.name, &[error]))
    };
    match (object.name(), object.namespace(), object.uid()) {
        (name, _, _) if !name.is_empty() && name != account.name => wrong("name", name),
        (_, namespace, _) if !namespace.is_empty() && namespace != call.namespace => {
            wrong("namespace", namespace)
        }
        (_, _, uid) if !uid.is_empty() && uid != account.uid => {
            let why = format!(
                "the UID in the token request ({uid}) does not match the UID of the service account ({})",
                account.uid
            );
            Err(Refusal::conflict(KIND, &account.name, why))
        }
        _ => Ok(()),
    }
}

fn check_life(seconds: i64) -> Answer<()> {
    let wrong = |detail: &str| {
        let error = FieldError::invalid("spec.expirationSeconds", seconds, detail);
        Err(Refusal::invalid(KIND, "", &[error]))
    };
    match seconds {
        ..SHORTEST => wrong("may not specify a duration less than 10 minutes"),
        SHORTEST..=LONGEST => Ok(()),
        _ => wrong("may not specify a duration larger than 2^32 seconds"),
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BoundObjectRef {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
}

/// The object that a token is to be bound to, if any; it must be there.
fn bound(call: &Call, account: &Reference, object: &Object) -> Answer<Option<Bound>> {
    let Some(reference) = lookup(object, "spec.boundObjectRef").filter(|value| value.is_object()) else {
        return Ok(None);
    };
    let asked: BoundObjectRef = serde_json::from_value(reference.clone()).unwrap_or_default();
    let found = |plural: &'static str, path: String| -> Answer<(Reference, Stored)> {
        let stored = call.server.store.get(&call.cluster.space(plural), &path);
        let stored =
            stored.ok_or_else(|| Refusal::not_found(Qualified { group: "", name: plural }, &asked.name))?;
        let uid = stored.facts().uid.to_string();
        if !asked.uid.is_empty() && asked.uid != uid {
            let why = format!(
                "the UID in the bound object reference ({}) does not match the UID in record. The object might have been deleted and then recreated",
                asked.uid
            );
            return Err(Refusal::conflict(Qualified { group: "", name: &asked.kind }, &asked.name, why));
        }
        Ok((Reference { name: asked.name.clone(), uid }, stored))
    };
    let local = format!("{}/{}", call.namespace, asked.name);
    let core = !asked.api_version.contains('/');
    match asked.kind.as_str() {
        "Secret" if core => Ok(Some(Bound::Secret(found("secrets", local)?.0))),
        "Node" if core => Ok(Some(Bound::Node(found("nodes", asked.name.clone())?.0))),
        "Pod" if core => {
            let (pod, stored) = found("pods", local)?;
            let pod_object = parse(stored.value());
            if text(&pod_object, "spec.serviceAccountName") != account.name {
                return Err(Refusal::bad_request(format!(
                    "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                    account.name
                )));
            }
            Ok(Some(Bound::Pod(pod, node_of(call, &pod_object))))
        }
        kind => {
            let (group, version) = asked.api_version.split_once('/').unwrap_or(("", &asked.api_version));
            Err(Refusal::bad_request(format!(
                "cannot bind token to object of type {group}/{version}, Kind={kind}"
            )))
        }
    }
}

/// The node that a pod is on: by its name alone, if there is no such node.
fn node_of(call: &Call, pod: &Object) -> Option<Reference> {
    let name = text(pod, "spec.nodeName");
    if name.is_empty() {
        return None;
    }
    let stored = call.server.store.get(&call.cluster.space("nodes"), name);
    let uid = stored.map(|node| node.facts().uid.to_string()).unwrap_or_default();
    Some(Reference { name: name.to_owned(), uid })
}
