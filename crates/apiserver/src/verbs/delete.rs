//! Delete and deletecollection.

use http::{Response, StatusCode};

use super::{Call, read, render};
use crate::body::Body;
use crate::collection::{Deleted, Location};
use crate::negotiate::{Accepted, Form};
use crate::object::{Meta, parse};
use crate::options::{DeleteOptions, ListOptions};
use crate::status::{Answer, gone};

pub(super) async fn delete(
    call: &Call,
    options: &DeleteOptions,
    accepted: Accepted,
) -> Answer<Response<Body>> {
    match call.collection().delete(call.location()?, options).await? {
        Deleted::Pending(bytes) => {
            let status = if options.legacy_cascade { StatusCode::ACCEPTED } else { StatusCode::OK };
            render::one(call, status, &bytes, accepted)
        }
        Deleted::Gone(bytes) if call.resource.rules.returns_deleted => {
            render::one(call, StatusCode::OK, &bytes, accepted)
        }
        Deleted::Gone(bytes) => {
            let object = parse(&bytes);
            let status = gone(call.resource.qualified(), object.name(), object.uid());
            Ok(render::respond(StatusCode::OK, status, accepted.encoding))
        }
    }
}

pub(super) async fn delete_collection(
    call: Call,
    options: &DeleteOptions,
    accepted: Accepted,
) -> Answer<Response<Body>> {
    let list = ListOptions::read(&call.query)?;
    let page = read::select(&call, &list).await?;
    for entry in &page.entries {
        let (namespace, name) = entry.path().rsplit_once('/').unwrap_or(("", entry.path()));
        match call.collection().delete(Location { namespace, name }, options).await {
            // Somebody else deleted it first: the outcome is what was asked for.
            Err(refusal) if refusal.reason() == "NotFound" => {}
            outcome => {
                outcome?;
            }
        }
    }
    // A Table of what was deleted is of no use to anybody; Kubernetes answers with the list.
    let accepted = Accepted {
        form: if matches!(accepted.form, Form::Metadata(..)) { accepted.form } else { Form::Object },
        ..accepted
    };
    read::render(&call, page, accepted)
}
