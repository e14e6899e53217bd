//! From stored bytes to the form and encoding that the client accepts.

use bellwether_store::Revision;
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use super::Call;
use crate::body::Body;
use crate::negotiate::{Accepted, Encoding, Form};
use crate::object::{Meta, parse};
use crate::registry::Resource;
use crate::status::{Answer, Refusal};
use crate::table::{self, Include, Style};

/// A value as a YAML document.
pub(crate) fn to_yaml(value: &Value) -> String {
    serde_saphyr::to_string(value).unwrap_or_default()
}

/// The bytes of an object in the version that was asked for.
pub(super) fn versioned(resource: &Resource, stored: &Bytes, at: Revision) -> Bytes {
    if resource.sends_as_stored(at) {
        return stored.clone();
    }
    let object = resource.to_served(parse(stored));
    serde_json::to_vec(&object).unwrap_or_default().into()
}

/// How the tables of this request are written.
pub(super) fn style(call: &Call, version: crate::negotiate::MetaVersion) -> Answer<Style> {
    let include = Include::read(call.query.get("includeObject")).map_err(Refusal::bad_request)?;
    Ok(Style { version, include, now: call.server.clock.now() })
}

/// The revision of what was just written: newer than any definition.
const NOW: Revision = Revision(u64::MAX);

/// One object that was just written, as an answer.
pub(super) fn one(
    call: &Call,
    status: StatusCode,
    stored: &Bytes,
    accepted: Accepted,
) -> Answer<Response<Body>> {
    one_at(call, status, stored, NOW, accepted)
}

/// One object that was stored at a revision, as an answer.
pub(super) fn one_at(
    call: &Call,
    status: StatusCode,
    stored: &Bytes,
    at: Revision,
    accepted: Accepted,
) -> Answer<Response<Body>> {
    let bytes = match accepted.form {
        Form::Object => versioned(&call.resource, stored, at),
        Form::Metadata(version, _) => {
            serde_json::to_vec(&table::partial(parse(stored), version)).unwrap_or_default().into()
        }
        Form::Table(version) => {
            let object = parse(stored);
            let metadata = json!({"resourceVersion": object.meta_str("resourceVersion")});
            let rows = vec![table::row(&call.resource, object, style(call, version)?)];
            let table = table::table(version, metadata, table::columns(&call.resource), rows);
            serde_json::to_vec(&table).unwrap_or_default().into()
        }
    };
    Ok(respond(call, status, bytes, accepted.encoding))
}

/// JSON bytes as an answer in the encoding that the client accepts.
pub(super) fn respond(call: &Call, status: StatusCode, json: Bytes, encoding: Encoding) -> Response<Body> {
    let body = match encoding {
        Encoding::Json => Body::Chunks([json, Bytes::from_static(b"\n")].into()),
        Encoding::Yaml => {
            let value: Value = serde_json::from_slice(&json).unwrap_or_default();
            Body::from(to_yaml(&value).into_bytes())
        }
    };
    with_headers(call, status, body, encoding)
}

/// A body with the headers of an answer.
pub(super) fn with_headers(
    call: &Call,
    status: StatusCode,
    body: Body,
    encoding: Encoding,
) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let media = match encoding {
        Encoding::Json => "application/json",
        Encoding::Yaml => "application/yaml",
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    crate::status::warn(headers, &call.warnings);
    response
}
