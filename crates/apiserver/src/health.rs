//! `/healthz`, `/livez` and `/readyz`: open to everybody, one line a check when asked for it.

use http::{HeaderValue, Response, StatusCode, header};

use crate::answer::page_not_found;
use crate::body::Body;
use crate::request::Query;
use crate::server::Server;

/// One thing that is checked. What exactly is wrong is for the log: strangers may ask here.
struct Check {
    name: &'static str,
    well: bool,
}

fn checks(server: &Server, endpoint: &str) -> Vec<Check> {
    // A full disk is no reason to restart the server, which answers reads: only readiness suffers from it.
    let stored = if endpoint == "readyz" { server.trouble().is_none() } else { server.failure().is_none() };
    let mut checks = vec![Check { name: "ping", well: true }, Check { name: "etcd", well: stored }];
    if endpoint == "readyz" {
        checks.push(Check { name: "shutdown", well: !server.is_closing() });
    }
    checks
}

/// Answers a health request.
pub(crate) fn answer(server: &Server, endpoint: &str, check: Option<&str>, query: &Query) -> Response<Body> {
    let mut checks = checks(server, endpoint);
    if let Some(name) = check {
        checks.retain(|check| check.name == name);
        if checks.is_empty() {
            return page_not_found();
        }
    }
    let excluded: Vec<&str> = query.all("exclude").collect();
    let mut lines = String::new();
    let mut healthy = true;
    for check in &checks {
        lines.push_str(&match check.well {
            _ if excluded.contains(&check.name) => format!("[+]{} excluded: ok\n", check.name),
            true => format!("[+]{} ok\n", check.name),
            false => {
                healthy = false;
                format!("[-]{} failed: reason withheld\n", check.name)
            }
        });
    }
    let verbose = query.get("verbose").is_some();
    let text = match (healthy, verbose && check.is_none()) {
        (true, false) => "ok".to_owned(),
        (true, true) => format!("{lines}{endpoint} check passed\n"),
        (false, _) => format!("{lines}{endpoint} check failed\n"),
    };
    let mut response = Response::new(Body::from(text.into_bytes()));
    if !healthy {
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
