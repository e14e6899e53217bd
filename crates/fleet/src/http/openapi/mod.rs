//! The OpenAPI document of the fleet: written at start from the table of routes, the kinds there are and the types of the
//! wire, and served as it is and as a page to read.

mod operations;
mod page;
mod schemas;
#[cfg(test)]
mod tests;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Method, header};
use axum::response::Response;
use serde_json::{Value, json};

use super::problem::{Code, Problem};
use crate::kinds::{BASE_PATH, Kinds};

/// Where the API says what it is.
pub(crate) const METADATA_PATH: &str = "/api/hyperfleet";
/// Where the document is.
pub(crate) const DOCUMENT_PATH: &str = "/api/hyperfleet/v1/openapi";
/// Where it can be read.
pub(crate) const PAGE_PATH: &str = "/api/hyperfleet/v1/openapi.html";

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The page runs nothing and fetches nothing.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What is served to whoever asks, without knowing who it is.
pub(crate) struct Document {
    metadata: Bytes,
    json: Bytes,
    page: Bytes,
}

impl Document {
    pub(crate) fn of(kinds: &Kinds) -> Self {
        let document = document(kinds);
        let metadata =
            json!({ "id": "hyperfleet", "kind": "API", "href": METADATA_PATH, "version": VERSION });
        Self {
            metadata: metadata.to_string().into(),
            json: document.to_string().into(),
            page: page::render(&document).into(),
        }
    }

    /// The answer to a request at one of its paths.
    pub(super) fn answer(&self, path: &str, method: &Method) -> Option<Result<Response, Problem>> {
        const JSON: &str = "application/json";
        let (content, media_type) = match path {
            METADATA_PATH => (&self.metadata, JSON),
            DOCUMENT_PATH => (&self.json, JSON),
            PAGE_PATH => (&self.page, "text/html; charset=utf-8"),
            _ => return None,
        };
        if !matches!(*method, Method::GET | Method::HEAD) {
            let detail = format!("{method} cannot be done here; what can be is GET, HEAD");
            return Some(Err(Problem {
                allow: Some("GET, HEAD".to_owned()),
                ..Problem::new(Code::NoMethod, detail)
            }));
        }
        let mut response = Response::new(Body::from(content.clone()));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if path == PAGE_PATH {
            headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
        }
        Some(Ok(response))
    }
}

fn document(kinds: &Kinds) -> Value {
    let schemas = schemas::Schemas::of(kinds);
    let paths = operations::paths(kinds, &schemas);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Fleet API",
            "version": VERSION,
            "description": format!(
                "Clusters, node pools and the other kinds that are configured, below {BASE_PATH}, and whether they are ready \
                 at the generation that was asked for. What is not done is answered with problem details (RFC 9457); each \
                 has a code that scripts can rely on. Every GET can be a HEAD; a method that a path does not have is \
                 answered with 405 and the header Allow. A parameter that is not known is answered with 400."
            ),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        // With or without: which of the two, the configuration of the server says.
        "security": [{}, { "bearer": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "bearer": {
                "type": "http",
                "scheme": "bearer",
                "bearerFormat": "JWT",
                "description": "Where the server wants to know who asks. One that does not, does not look at it.",
            } },
            "schemas": schemas.components,
            "headers": operations::header_components(),
            "responses": operations::response_components(),
        },
    })
}
