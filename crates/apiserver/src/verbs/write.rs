//! Create and replace: the whole object comes from the client.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde::Deserialize;

use super::conform::{Conformed, read_object};
use super::{Call, certificates, render};
use crate::authors::Author;
use crate::body::Body;
use crate::collection::{Absent, UpdateRequest};
use crate::negotiate::{Accepted, Content};
use crate::object::{Meta, Object};
use crate::options::WriteOptions;
use crate::registry::Subresource;
use crate::status::{Answer, Refusal};

pub(super) async fn create(
    call: &mut Call,
    content: Content,
    bytes: &Bytes,
    options: WriteOptions,
    accepted: Accepted,
) -> Answer<Response<Body>> {
    let Conformed { mut object, warnings } = read_object(call, content, bytes, options.validation)?;
    call.warnings.add(warnings);
    if !object.meta_str("resourceVersion").is_empty() {
        return Err(Refusal::bad_request("resourceVersion should not be set on objects to be created"));
    }
    settle_namespace(call, &mut object)?;
    certificates::sign_in(call, &mut object);
    call.admit(None, &object)?;
    let manager = call.manager(&options);
    let author = Author::Manager(&manager);
    let written = call.collection().create(&call.namespace, object, options.effect, author).await?;
    call.warnings.add(written.warnings);
    let mut response = render::one(call, StatusCode::CREATED, &written.bytes, accepted)?;
    if call.server.audit.is_kept() {
        response.extensions_mut().insert(NewName(name_in(&written.bytes)));
    }
    Ok(response)
}

/// The name of what a request made, for those who write down what happened.
#[derive(Clone)]
pub(crate) struct NewName(pub(crate) String);

fn name_in(bytes: &[u8]) -> String {
    #[derive(Default, Deserialize)]
    struct Named {
        #[serde(default)]
        metadata: Name,
    }
    #[derive(Default, Deserialize)]
    struct Name {
        #[serde(default)]
        name: String,
    }
    serde_json::from_slice::<Named>(bytes).unwrap_or_default().metadata.name
}

pub(super) async fn update(
    call: &mut Call,
    content: Content,
    bytes: &Bytes,
    options: WriteOptions,
    subresource: Option<Subresource>,
    accepted: Accepted,
) -> Answer<Response<Body>> {
    let Conformed { object, warnings } = read_object(call, content, bytes, options.validation)?;
    call.warnings.add(warnings);
    check_name(call, &object)?;
    let manager = call.manager(&options);
    let author = Author::Manager(&manager);
    let request = UpdateRequest { effect: options.effect, subresource, author, absent: Absent::ByKind };
    let written = call
        .collection()
        .update(call.location()?, request, |old| {
            let mut object = object.clone();
            settle_namespace(call, &mut object)?;
            call.admit(old, &object)?;
            Ok(object)
        })
        .await?;
    call.warnings.add(written.warnings);
    let status = if written.created { StatusCode::CREATED } else { StatusCode::OK };
    render::one(call, status, &written.bytes, accepted)
}

/// The namespace of the path is the object's, unless it names another.
pub(super) fn settle_namespace(call: &Call, object: &mut Object) -> Answer<()> {
    let named = object.namespace();
    if !call.resource.is_namespaced() {
        object.meta_mut().remove("namespace");
    } else if named.is_empty() {
        object.meta_mut().insert("namespace".into(), call.namespace.clone().into());
    } else if named != call.namespace {
        return Err(Refusal::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// An object that is put somewhere must say the name of the path.
pub(super) fn check_name(call: &Call, object: &Object) -> Answer<()> {
    let at = call.location()?;
    if object.name().is_empty() {
        return Err(Refusal::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            at.name
        )));
    }
    if object.name() != at.name {
        return Err(Refusal::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            object.name(),
            at.name
        )));
    }
    Ok(())
}
