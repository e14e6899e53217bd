//! The OpenAPI document of the fleet API. It is generated at start from the table of routes, the kinds and the types of responses,
//! and served as JSON and as an HTML page.

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

/// The path of the API's metadata.
pub(crate) const METADATA_PATH: &str = "/api/hyperfleet";
/// The path of the document as JSON.
pub(crate) const DOCUMENT_PATH: &str = "/api/hyperfleet/v1/openapi";
/// The path of the document as an HTML page.
pub(crate) const PAGE_PATH: &str = "/api/hyperfleet/v1/openapi.html";

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The environment variable BELLWETHER_BUILD_TIME of the build. Builds are otherwise reproducible, and do not know their time.
const BUILD_TIME: &str = match option_env!("BELLWETHER_BUILD_TIME") {
    Some(time) => time,
    None => "unknown",
};
/// The page runs no scripts and loads no other resources.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The documents that are served without authentication.
pub(crate) struct Document {
    metadata: Bytes,
    json: Bytes,
    page: Bytes,
}

impl Document {
    pub(crate) fn of(kinds: &Kinds) -> Self {
        let document = document(kinds);
        let metadata = json!({ "id": "hyperfleet", "kind": "API", "href": METADATA_PATH, "version": VERSION, "build_time": BUILD_TIME });
        Self {
            metadata: metadata.to_string().into(),
            json: document.to_string().into(),
            page: page::render(&document).into(),
        }
    }

    /// The response to a request for one of the documents.
    pub(super) fn answer(&self, path: &str, method: &Method) -> Option<Result<Response, Problem>> {
        const JSON: &str = "application/json";
        let (content, media_type) = match path {
            METADATA_PATH => (&self.metadata, JSON),
            DOCUMENT_PATH => (&self.json, JSON),
            PAGE_PATH => (&self.page, "text/html; charset=utf-8"),
            _ => return None,
        };
        if !matches!(*method, Method::GET | Method::HEAD) {
            let detail = format!("{method} is not allowed here; allowed methods: GET, HEAD");
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
                "Clusters, node pools and other configured kinds, below {BASE_PATH}, and whether their current generation is \
                 ready. Errors are problem details (RFC 9457) with a stable code for scripts. HEAD is allowed wherever GET is; \
                 a method that a path does not support is answered with 405 and the header Allow. An unknown parameter is \
                 answered with 400."
            ),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        // The configuration of the server decides whether credentials are required.
        "security": [{}, { "bearer": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "bearer": {
                "type": "http",
                "scheme": "bearer",
                "bearerFormat": "JWT",
                "description": "Required if authentication is enabled on the server, and otherwise ignored.",
            } },
            "schemas": schemas.components,
            "headers": operations::header_components(),
            "responses": operations::response_components(),
        },
    })
}
