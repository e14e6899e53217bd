//! What a request asks for: the logical cluster, and the resource, document or check that its path names.
//! Pure text work; whether the thing exists is decided later.

/// The path of a request, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Path<'a> {
    /// The logical cluster: `/clusters/<name>/…`, or `None` for the hub.
    pub(crate) cluster: Option<&'a str>,
    pub(crate) target: Target<'a>,
}

/// What a path leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    /// `/healthz`, `/livez`, `/readyz`, and one check below them.
    Health {
        endpoint: &'a str,
        check: Option<&'a str>,
    },
    Version,
    /// `/.well-known/openid-configuration`: where the keys of tokens are.
    OpenIdConfiguration,
    /// `/openid/v1/jwks`: the keys themselves.
    OpenIdKeys,
    /// `/metrics`
    Metrics,
    /// `/openapi/v2`
    OpenApiV2,
    /// `/openapi/v3`, and one document below it.
    OpenApi {
        document: Option<String>,
    },
    /// `/`
    Index,
    /// `/api` or `/apis`
    Groups(Root),
    /// `/apis/<group>`
    Group(&'a str),
    /// `/api/v1` or `/apis/<group>/<version>`
    GroupVersion {
        group: &'a str,
        version: &'a str,
    },
    Resource(ResourcePath<'a>),
    Unknown,
}

/// The two roots of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    /// `/api`: the core group.
    Core,
    /// `/apis`: every other group.
    Named,
}

/// A path below a group and version.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ResourcePath<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) resource: &'a str,
    pub(crate) name: Option<&'a str>,
    pub(crate) subresource: Option<&'a str>,
}

impl<'a> Path<'a> {
    /// Takes a request path apart.
    pub(crate) fn parse(path: &'a str) -> Self {
        let (cluster, rest) = match path.strip_prefix("/clusters/") {
            None => (None, path),
            Some(tail) => match tail.split_once('/') {
                Some((name, _)) => (Some(name), &tail[name.len()..]),
                None => (Some(tail), "/"),
            },
        };
        Self { cluster, target: Target::parse(rest) }
    }
}

impl<'a> Target<'a> {
    fn parse(path: &'a str) -> Self {
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        match segments.as_slice() {
            [""] => Self::Index,
            [endpoint @ ("healthz" | "livez" | "readyz")] => Self::Health { endpoint, check: None },
            [endpoint @ ("healthz" | "livez" | "readyz"), check] => {
                Self::Health { endpoint, check: Some(check) }
            }
            ["version"] => Self::Version,
            ["metrics"] => Self::Metrics,
            [".well-known", "openid-configuration"] => Self::OpenIdConfiguration,
            ["openid", "v1", "jwks"] => Self::OpenIdKeys,
            ["openapi", "v2"] => Self::OpenApiV2,
            ["openapi", "v3"] => Self::OpenApi { document: None },
            ["openapi", "v3", document @ ..] => Self::OpenApi { document: Some(document.join("/")) },
            ["api"] => Self::Groups(Root::Core),
            ["apis"] => Self::Groups(Root::Named),
            ["apis", group] => Self::Group(group),
            ["api", version] => Self::GroupVersion { group: "", version },
            ["apis", group, version] => Self::GroupVersion { group, version },
            ["api", version, rest @ ..] => Self::resource("", version, rest),
            ["apis", group, version, rest @ ..] => Self::resource(group, version, rest),
            _ => Self::Unknown,
        }
    }

    fn resource(group: &'a str, version: &'a str, rest: &[&'a str]) -> Self {
        if rest.iter().any(|segment| segment.is_empty()) {
            return Self::Unknown;
        }
        let path = |namespace, resource, name, subresource| {
            Self::Resource(ResourcePath { group, version, namespace, resource, name, subresource })
        };
        match *rest {
            // A namespace's own subresources look like resources inside of it.
            ["namespaces", name, subresource @ ("status" | "finalize")] => {
                path(None, "namespaces", Some(name), Some(subresource))
            }
            ["namespaces", namespace, resource] => path(Some(namespace), resource, None, None),
            ["namespaces", namespace, resource, name] => path(Some(namespace), resource, Some(name), None),
            ["namespaces", namespace, resource, name, subresource] => {
                path(Some(namespace), resource, Some(name), Some(subresource))
            }
            [resource] => path(None, resource, None, None),
            [resource, name] => path(None, resource, Some(name), None),
            [resource, name, subresource] => path(None, resource, Some(name), Some(subresource)),
            _ => Self::Unknown,
        }
    }
}

/// The query of a request, decoded, in order.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Decodes `a=b&c=d`.
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (percent_decode(key), percent_decode(value))
                })
                .collect(),
        )
    }

    /// The first value of a parameter.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The first value of a parameter, when it is there and not empty.
    pub(crate) fn filled(&self, key: &str) -> Option<&str> {
        self.get(key).filter(|value| !value.is_empty())
    }

    /// All values of a parameter.
    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// A switch, as Kubernetes reads one: anything but `false` and `0` turns it on.
    pub(crate) fn switch(&self, key: &str) -> Option<bool> {
        self.get(key).map(|value| !(value == "0" || value.eq_ignore_ascii_case("false")))
    }

    /// A whole number; the error is the message for the client.
    pub(crate) fn number(&self, key: &str) -> Result<Option<i64>, String> {
        match self.filled(key) {
            None => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|_| format!("strconv.ParseInt: parsing {text:?}: invalid syntax")),
        }
    }
}

/// Decodes `%41` in a path, where `+` is itself.
pub(crate) fn percent_decode_path(text: &str) -> String {
    percent_decode(&text.replace('+', "%2B"))
}

/// Decodes `%41` and `+`; bytes that are no UTF-8 become replacement characters, which no name or selector allows.
pub(crate) fn percent_decode(text: &str) -> String {
    if !text.contains(['%', '+']) {
        return text.to_owned();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let mut ahead = rest.clone();
                let digits = (ahead.next().and_then(hex), ahead.next().and_then(hex));
                match digits {
                    (Some(high), Some(low)) => {
                        bytes.push(high * 16 + low);
                        rest = ahead;
                    }
                    _ => bytes.push(b'%'),
                }
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(path: &str) -> String {
        match Path::parse(path) {
            Path { cluster, target: Target::Resource(it) } => format!(
                "{}|{}|{}|{}|{}|{}|{}",
                cluster.unwrap_or("-"),
                it.group,
                it.version,
                it.namespace.unwrap_or("-"),
                it.resource,
                it.name.unwrap_or("-"),
                it.subresource.unwrap_or("-")
            ),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn resource_paths_are_taken_apart() {
        for (path, expected) in [
            ("/api/v1/configmaps", "-||v1|-|configmaps|-|-"),
            ("/api/v1/namespaces", "-||v1|-|namespaces|-|-"),
            ("/api/v1/namespaces/a", "-||v1|-|namespaces|a|-"),
            ("/api/v1/namespaces/a/finalize", "-||v1|-|namespaces|a|finalize"),
            ("/api/v1/namespaces/a/configmaps", "-||v1|a|configmaps|-|-"),
            ("/api/v1/namespaces/a/configmaps/b", "-||v1|a|configmaps|b|-"),
            ("/apis/g.io/v1/namespaces/a/things/b/status", "-|g.io|v1|a|things|b|status"),
            ("/clusters/spoke-1/apis/g.io/v1/things/b", "spoke-1|g.io|v1|-|things|b|-"),
        ] {
            assert_eq!(resource(path), expected, "{path}");
        }
    }

    #[test]
    fn a_path_with_an_empty_segment_leads_nowhere() {
        for path in ["/api/v1/namespaces//configmaps", "/apis/g/v1/x//y", "/elsewhere", "/api/v1/a/b/c/d/e/f"]
        {
            assert_eq!(Path::parse(path).target, Target::Unknown, "{path}");
        }
    }

    #[test]
    fn a_cluster_alone_is_its_index() {
        assert_eq!(Path::parse("/clusters/x"), Path { cluster: Some("x"), target: Target::Index });
        assert_eq!(Path::parse("/clusters/x/readyz").cluster, Some("x"));
    }

    #[test]
    fn queries_are_decoded() {
        let query = Query::parse(Some("labelSelector=a%3Db%2Cc+in&watch&x=%zz&dryRun=All&dryRun=No"));
        assert_eq!(query.get("labelSelector"), Some("a=b,c in"));
        assert_eq!(query.switch("watch"), Some(true));
        assert_eq!(query.get("x"), Some("%zz"));
        assert_eq!(query.all("dryRun").collect::<Vec<_>>(), ["All", "No"]);
        assert!(query.number("x").is_err());
    }
}
