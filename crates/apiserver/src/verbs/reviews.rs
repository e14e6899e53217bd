//! Reviews: who somebody is and what they may do, asked by creating an object that is answered and not kept.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::conform::{Conformed, read_object};
use super::{Call, render};
use crate::access::{On, Rule, Wish};
use crate::authentication::service_accounts;
use crate::body::Body;
use crate::field::FieldError;
use crate::identity::Identity;
use crate::negotiate::{Accepted, Content};
use crate::object::{Meta, Object, list, lookup, text};
use crate::options::WriteOptions;
use crate::registry::Review;
use crate::status::{Answer, Refusal};
use crate::times;

pub(super) async fn answer(
    call: &Call,
    review: Review,
    content: Content,
    bytes: &Bytes,
    options: WriteOptions,
    accepted: Accepted,
) -> Answer<Response<Body>> {
    let Conformed { mut object, warnings } = read_object(call, content, bytes, options.validation)?;
    call.warnings.add(warnings);
    let status = match review {
        Review::Token => review_token(call, &object)?,
        Review::SelfSubject => {
            let now = times::seconds(call.server.clock.now());
            object = begun(&object);
            object.meta_mut().insert("creationTimestamp".into(), now.into());
            json!({"userInfo": user_info(&call.identity)})
        }
        Review::Access => {
            check_access(call, &object, true)?;
            judge(call, &subject(&object), &object)
        }
        Review::LocalAccess => {
            super::write::settle_namespace(call, &mut object)?;
            check_access(call, &object, true)?;
            check_local(call, &object)?;
            judge(call, &subject(&object), &object)
        }
        Review::SelfAccess => {
            check_access(call, &object, false)?;
            judge(call, &call.identity, &object)
        }
        Review::SelfRules => {
            let namespace = text(&object, "spec.namespace").to_owned();
            if namespace.is_empty() {
                return Err(Refusal::bad_request("no namespace on request"));
            }
            object = begun(&object);
            rules(call, &namespace)
        }
    };
    object.insert("status".into(), status);
    let object = call.resource.conform(object).map_err(Refusal::internal)?.object;
    let bytes = serde_json::to_vec(&object).unwrap_or_default().into();
    Ok(render::respond(StatusCode::CREATED, bytes, accepted.encoding))
}

/// An answer that repeats nothing of the question.
fn begun(object: &Object) -> Object {
    object
        .iter()
        .filter(|(key, _)| matches!(key.as_str(), "kind" | "apiVersion"))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn user_info(identity: &Identity) -> Value {
    let Identity { user, uid, groups, extra } = identity;
    json!({"username": user, "uid": uid, "groups": groups, "extra": extra})
}

fn review_token(call: &Call, object: &Object) -> Answer<Value> {
    let token = text(object, "spec.token");
    if token.is_empty() {
        return Err(Refusal::bad_request("token is required for TokenReview in authentication"));
    }
    let texts = |value: &Value| value.as_str().map(str::to_owned);
    let wanted: Vec<String> = list(object, "spec.audiences").iter().filter_map(texts).collect();
    Ok(match service_accounts::authenticate(&call.server, &call.cluster, token, &wanted) {
        Ok(bearer) => json!({
            "authenticated": true,
            "user": user_info(&bearer.identity),
            "audiences": bearer.audiences,
        }),
        Err(why) => json!({"user": {}, "error": why}),
    })
}

/// What the answer depends on, in the words of the question.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ResourceAttributes {
    namespace: String,
    verb: String,
    group: String,
    resource: String,
    subresource: String,
    name: String,
}

fn judge(call: &Call, subject: &Identity, object: &Object) -> Value {
    let policy = call.cluster.policy(&call.server);
    let spec = |path: &str| lookup(object, path).cloned();
    let verdict = match spec("spec.resourceAttributes") {
        Some(attributes) => {
            let it: ResourceAttributes = serde_json::from_value(attributes).unwrap_or_default();
            let on = On::Resource {
                group: &it.group,
                resource: &it.resource,
                subresource: &it.subresource,
                namespace: &it.namespace,
                name: &it.name,
            };
            policy.judge(subject, &Wish { verb: &it.verb, on })
        }
        None => {
            let (verb, path) = (
                text(object, "spec.nonResourceAttributes.verb"),
                text(object, "spec.nonResourceAttributes.path"),
            );
            policy.judge(subject, &Wish { verb, on: On::Path(path) })
        }
    };
    json!({"allowed": verdict.allowed, "reason": verdict.reason})
}

/// Whom a review is about.
fn subject(object: &Object) -> Identity {
    let texts = |value: &Value| value.as_str().map(str::to_owned);
    Identity {
        user: text(object, "spec.user").to_owned(),
        uid: text(object, "spec.uid").to_owned(),
        groups: list(object, "spec.groups").iter().filter_map(texts).collect(),
        ..Identity::default()
    }
}

fn check_access(call: &Call, object: &Object, names_subject: bool) -> Answer<()> {
    let mut errors = Vec::new();
    let given = |key: &str| lookup(object, &format!("spec.{key}")).filter(|value| value.is_object());
    match (given("resourceAttributes"), given("nonResourceAttributes")) {
        (Some(_), Some(path)) => errors.push(FieldError::invalid(
            "spec.nonResourceAttributes",
            path.clone(),
            "cannot be specified in combination with resourceAttributes",
        )),
        (None, None) => errors.push(FieldError::invalid(
            "spec.resourceAttributes",
            Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => {}
    }
    if names_subject && text(object, "spec.user").is_empty() && list(object, "spec.groups").is_empty() {
        errors.push(FieldError::invalid("spec.user", "", "at least one of user or group must be specified"));
    }
    let has_metadata = object.meta().is_some_and(|meta| {
        meta.iter().any(|(key, value)| {
            !value.is_null() && key != "managedFields" && !(names_subject && key == "namespace")
        })
    });
    if has_metadata {
        let metadata = object.get("metadata").cloned().unwrap_or_default();
        errors.push(FieldError::invalid("metadata", metadata, "must be empty"));
    }
    refuse(call, &errors)
}

fn check_local(call: &Call, object: &Object) -> Answer<()> {
    let mut errors = Vec::new();
    let namespace = text(object, "spec.resourceAttributes.namespace");
    if lookup(object, "spec.resourceAttributes").is_some() && namespace != call.namespace {
        let detail = "must match metadata.namespace";
        errors.push(FieldError::invalid("spec.resourceAttributes.namespace", namespace, detail));
    }
    if let Some(path) = lookup(object, "spec.nonResourceAttributes") {
        let detail = "disallowed on this kind of request";
        errors.push(FieldError::invalid("spec.nonResourceAttributes", path.clone(), detail));
    }
    refuse(call, &errors)
}

fn refuse(call: &Call, errors: &[FieldError]) -> Answer<()> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Refusal::invalid(call.resource.qualified_kind(), "", errors))
}

fn rules(call: &Call, namespace: &str) -> Value {
    let policy = call.cluster.policy(&call.server);
    let all: Vec<&Rule> = policy.rules_of(&call.identity, namespace).collect();
    let resources = all.iter().filter(|rule| !rule.resources.is_empty());
    let urls = all.iter().filter(|rule| !rule.non_resource_urls.is_empty());
    let gaps = policy.gaps(&call.identity, namespace);
    json!({
        "resourceRules": resources.map(|rule| json!({
            "verbs": rule.verbs, "apiGroups": rule.api_groups, "resources": rule.resources,
            "resourceNames": rule.resource_names,
        })).collect::<Vec<_>>(),
        "nonResourceRules": urls.map(|rule| json!({
            "verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls,
        })).collect::<Vec<_>>(),
        "incomplete": false,
        "evaluationError": gaps.trim_start_matches("RBAC: "),
    })
}
