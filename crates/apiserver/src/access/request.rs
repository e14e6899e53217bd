//! What a request wishes for, by its method and path.

use std::borrow::Cow;

use http::Method;
use http::request::Parts;

use super::wish::{On, Wish};
use crate::request::{Path, Query, ResourcePath, Target, percent_decode_path};

/// A request, in the terms of rules.
pub(crate) struct Asked<'a> {
    pub(crate) verb: Cow<'a, str>,
    on: Thing<'a>,
}

enum Thing<'a> {
    Path(&'a str),
    Resource { at: &'a ResourcePath<'a>, namespace: Cow<'a, str>, name: Cow<'a, str> },
}

impl<'a> Asked<'a> {
    /// What a request asks for.
    pub(crate) fn read(parsed: &'a Path<'a>, parts: &'a Parts, query: &'a Query) -> Self {
        let Target::Resource(at) = &parsed.target else {
            let method = parts.method.as_str().to_lowercase();
            return Self { verb: method.into(), on: Thing::Path(plain(parts.uri.path())) };
        };
        let decoded = |part: Option<&'a str>| part.map(percent_decode_path).unwrap_or_default();
        let mut name: Cow<'a, str> = decoded(at.name).into();
        let verb = verb(&parts.method, at.name.is_some(), query);
        if at.name.is_none()
            && matches!(verb, "list" | "watch")
            && let Some(only) = only_name(query)
        {
            name = only.into();
        }
        // A namespace is in itself: whoever has a role there may have rights to it.
        let namespace = match at.namespace {
            None if at.group.is_empty() && at.resource == "namespaces" => decoded(at.name),
            namespace => decoded(namespace),
        };
        Self { verb: verb.into(), on: Thing::Resource { at, namespace: namespace.into(), name } }
    }

    pub(crate) fn wish(&self) -> Wish<'_> {
        let on = match &self.on {
            Thing::Path(path) => On::Path(path),
            Thing::Resource { at, namespace, name } => On::Resource {
                group: at.group,
                resource: at.resource,
                subresource: at.subresource.unwrap_or_default(),
                namespace,
                name,
            },
        };
        Wish { verb: &self.verb, on }
    }
}

/// A path without its logical cluster.
fn plain(path: &str) -> &str {
    let Some(tail) = path.strip_prefix("/clusters/") else { return path };
    tail.find('/').and_then(|at| tail.get(at..)).unwrap_or("/")
}

fn verb(method: &Method, named: bool, query: &Query) -> &'static str {
    match (method.as_str(), named) {
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        ("GET" | "HEAD", true) => "get",
        ("GET" | "HEAD", false) if query.switch("watch").unwrap_or(false) => "watch",
        ("GET" | "HEAD", false) => "list",
        _ => "",
    }
}

/// The one name that a field selector asks for: a list of one object is as good as that object.
fn only_name(query: &Query) -> Option<&str> {
    let terms = query.get("fieldSelector")?.split(',');
    let name = |term: &str| -> Option<usize> {
        let rest = term.strip_prefix("metadata.name=")?;
        Some(term.len() - rest.strip_prefix('=').unwrap_or(rest).len())
    };
    let found = terms.filter_map(|term| name(term).and_then(|at| term.get(at..))).next()?;
    (!found.is_empty() && !found.contains(['/', '%']) && found != "." && found != "..").then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn wish(method: &str, uri: &str) -> String {
        let (parts, ()) = Request::builder().method(method).uri(uri).body(()).unwrap().into_parts();
        let path = Path::parse(parts.uri.path());
        let query = Query::parse(parts.uri.query());
        let asked = Asked::read(&path, &parts, &query);
        match asked.wish() {
            Wish { verb, on: On::Path(path) } => format!("{verb} {path}"),
            Wish { verb, on: On::Resource { group, resource, subresource, namespace, name } } => {
                format!("{verb} {group}|{resource}|{subresource}|{namespace}|{name}")
            }
        }
    }

    #[test]
    fn requests_are_wishes() {
        for (method, uri, expected) in [
            ("GET", "/api/v1/pods", "list |pods|||"),
            ("GET", "/api/v1/pods?watch=1", "watch |pods|||"),
            ("GET", "/api/v1/namespaces/a/pods/b", "get |pods||a|b"),
            ("GET", "/api/v1/namespaces/a/pods/b?watch=1", "get |pods||a|b"),
            ("HEAD", "/api/v1/namespaces/a/pods/b", "get |pods||a|b"),
            ("POST", "/api/v1/namespaces/a/pods", "create |pods||a|"),
            ("POST", "/api/v1/namespaces/a/serviceaccounts/s/token", "create |serviceaccounts|token|a|s"),
            ("PUT", "/apis/apps/v1/namespaces/a/deployments/d/scale", "update apps|deployments|scale|a|d"),
            ("PATCH", "/apis/x.io/v1/things/t/status", "patch x.io|things|status||t"),
            ("DELETE", "/api/v1/namespaces/a/pods", "deletecollection |pods||a|"),
            ("DELETE", "/api/v1/namespaces/a", "delete |namespaces||a|a"),
            ("GET", "/api/v1/namespaces/a", "get |namespaces||a|a"),
            ("GET", "/api/v1/namespaces", "list |namespaces|||"),
            ("GET", "/api/v1/secrets?fieldSelector=metadata.name%3Ds", "list |secrets|||s"),
            ("GET", "/api/v1/secrets?fieldSelector=type%3Dx,metadata.name==s", "list |secrets|||s"),
            ("GET", "/api/v1/secrets?fieldSelector=metadata.name!=s", "list |secrets|||"),
            ("GET", "/clusters/spoke-1/api/v1/namespaces/a/pods/b", "get |pods||a|b"),
            ("GET", "/clusters/spoke-1/version", "get /version"),
            ("GET", "/clusters/spoke-1", "get /"),
            ("POST", "/elsewhere", "post /elsewhere"),
            ("GET", "/openapi/v3/api/v1", "get /openapi/v3/api/v1"),
        ] {
            assert_eq!(wish(method, uri), expected, "{method} {uri}");
        }
    }
}
