//! Content negotiation: which form of the object the client wants back, and in what form it sent one.

use http::{HeaderMap, header};

use crate::registry::Typing;
use crate::status::{Answer, Refusal};

/// The media types an answer can have, as refusals list them.
const ANSWERS: [&str; 2] = ["application/json", "application/yaml"];
/// What bodies can be written in besides.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The form an object takes in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The object itself.
    Object,
    /// Only `metadata`, of one object or of a list of them.
    Metadata(MetaVersion, Many),
    /// Rows and columns for people.
    Table(MetaVersion),
}

/// Whether PartialObjectMetadata or a list of it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Many {
    One,
    List,
    /// A list for somebody who would rather have it as protobuf, where items do not say their kind.
    BareList,
}

/// The version of `meta.k8s.io` that a client asks a Table or PartialObjectMetadata in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetaVersion {
    V1,
    V1Beta1,
}

impl MetaVersion {
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The encoding of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
}

/// What the client accepts, decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) form: Form,
    pub(crate) encoding: Encoding,
}

impl Accepted {
    pub(crate) const JSON: Self = Self { form: Form::Object, encoding: Encoding::Json };
}

/// One media range of an Accept header.
struct Range<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: f32,
}

impl<'a> Range<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let parameters: Vec<(&str, &str)> =
            parts.map(|part| part.split_once('=').unwrap_or((part, ""))).collect();
        let quality = parameters
            .iter()
            .find(|(key, _)| *key == "q")
            .and_then(|(_, value)| value.parse().ok())
            .unwrap_or(1.0);
        Self { media, parameters, quality }
    }

    fn parameter(&self, key: &str) -> Option<&'a str> {
        self.parameters.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }
}

fn ranges(headers: &HeaderMap) -> Vec<Range<'_>> {
    let mut ranges: Vec<Range<'_>> = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|range| Range::parse(range.trim()))
        .filter(|range| !range.media.is_empty() && range.quality > 0.0)
        .collect();
    ranges.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    ranges
}

/// Which encodings and conversions a resource's answers may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Convertible {
    /// Objects: Table and PartialObjectMetadata are served.
    Yes,
    /// Objects of custom kinds: the same, but who takes none of it is told so in other words.
    Custom,
    /// Documents and reviews: only as they are.
    No,
}

/// Picks the first media type of the client's that can be served.
pub(crate) fn accept(headers: &HeaderMap, convertible: Convertible) -> Answer<Accepted> {
    let ranges = ranges(headers);
    if ranges.is_empty() {
        return Ok(Accepted::JSON);
    }
    let known = |range: &Range<'_>| range.media == PROTOBUF || encoding_of(range.media).is_some();
    let rather_protobuf = ranges.first().is_some_and(|range| range.media == PROTOBUF);
    let accepted = ranges.iter().find_map(|range| accept_range(range, convertible));
    let accepted = accepted.map(|accepted| match accepted.form {
        Form::Metadata(version, Many::List) if rather_protobuf => {
            Accepted { form: Form::Metadata(version, Many::BareList), ..accepted }
        }
        _ => accepted,
    });
    accepted.ok_or_else(|| match convertible == Convertible::Custom || ranges.iter().any(known) {
        true => Refusal::not_acceptable(&ANSWERS),
        false => Refusal::no_representation(&ANSWERS),
    })
}

fn encoding_of(media: &str) -> Option<Encoding> {
    match media {
        "application/json" | "*/*" | "application/*" => Some(Encoding::Json),
        "application/yaml" => Some(Encoding::Yaml),
        _ => None,
    }
}

fn accept_range(range: &Range<'_>, convertible: Convertible) -> Option<Accepted> {
    let encoding = encoding_of(range.media)?;
    let form = match range.parameter("as") {
        None => Form::Object,
        Some(form) => {
            let version = match (range.parameter("g"), range.parameter("v")) {
                (Some("meta.k8s.io"), Some("v1")) => MetaVersion::V1,
                (Some("meta.k8s.io"), Some("v1beta1")) => MetaVersion::V1Beta1,
                _ => return None,
            };
            match form {
                _ if convertible == Convertible::No => return None,
                "Table" => Form::Table(version),
                "PartialObjectMetadata" => Form::Metadata(version, Many::One),
                "PartialObjectMetadataList" => Form::Metadata(version, Many::List),
                _ => return None,
            }
        }
    };
    Some(Accepted { form, encoding })
}

/// Whether the client asks for aggregated discovery before plain discovery.
pub(crate) fn wants_aggregated_discovery(headers: &HeaderMap) -> bool {
    ranges(headers)
        .iter()
        .find_map(|range| match (range.media, range.parameter("as")) {
            ("application/json", Some("APIGroupDiscoveryList"))
                if range.parameter("g") == Some("apidiscovery.k8s.io")
                    && range.parameter("v") == Some("v2") =>
            {
                Some(true)
            }
            ("application/json" | "*/*" | "application/*", None) => Some(false),
            _ => None,
        })
        .unwrap_or(false)
}

/// The form of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Text(Encoding),
    /// An object of a built-in kind, in Kubernetes' envelope.
    Protobuf,
}

/// The form of a request body; protobuf needs the numbers of fields, which only built-in kinds have.
pub(crate) fn content(headers: &HeaderMap, typing: &Typing) -> Answer<Content> {
    let builtin = matches!(typing, Typing::Builtin(_));
    match media_type(headers) {
        "" | "application/json" => Ok(Content::Text(Encoding::Json)),
        "application/yaml" => Ok(Content::Text(Encoding::Yaml)),
        PROTOBUF if builtin => Ok(Content::Protobuf),
        _ => {
            let mut accepted = ANSWERS.to_vec();
            if builtin {
                accepted.push(PROTOBUF);
            }
            Err(Refusal::unsupported_media_type(&accepted))
        }
    }
}

/// The kinds of patch that are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// The kind of patch in a request body; strategic ones need to know the type, which only built-in kinds have.
pub(crate) fn patch_kind(headers: &HeaderMap, typing: &Typing) -> Answer<PatchKind> {
    const STRATEGIC: &str = "application/strategic-merge-patch+json";
    const APPLY: &str = "application/apply-patch+yaml";
    let builtin = matches!(typing, Typing::Builtin(_));
    match media_type(headers) {
        "application/json-patch+json" => Ok(PatchKind::Json),
        "application/merge-patch+json" => Ok(PatchKind::Merge),
        STRATEGIC if builtin => Ok(PatchKind::Strategic),
        APPLY => Ok(PatchKind::Apply),
        _ => {
            let mut accepted = vec!["application/json-patch+json", "application/merge-patch+json"];
            if builtin {
                accepted.push(STRATEGIC);
            }
            accepted.push(APPLY);
            Err(Refusal::unsupported_media_type(&accepted))
        }
    }
}

fn media_type(headers: &HeaderMap) -> &str {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .map(str::trim)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(accept_header: &str) -> Result<Accepted, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept_header.parse().unwrap());
        accept(&headers, Convertible::Yes).map_err(|refusal| refusal.code())
    }

    #[test]
    fn the_first_media_type_that_can_be_served_wins() {
        let json = |form| Ok(Accepted { form, encoding: Encoding::Json });
        for (header, expected) in [
            ("application/json", json(Form::Object)),
            ("*/*", json(Form::Object)),
            ("application/vnd.kubernetes.protobuf,application/json", json(Form::Object)),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
                json(Form::Table(MetaVersion::V1)),
            ),
            ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", json(Form::Table(MetaVersion::V1Beta1))),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                json(Form::Metadata(MetaVersion::V1, Many::List)),
            ),
            ("application/json;as=Odd;v=v1;g=meta.k8s.io,application/json", json(Form::Object)),
            (
                "application/json;q=0.2,application/yaml",
                Ok(Accepted { form: Form::Object, encoding: Encoding::Yaml }),
            ),
            ("application/vnd.kubernetes.protobuf", Err(406)),
            ("text/html", Err(406)),
        ] {
            assert_eq!(accepted(header), expected, "{header}");
        }
    }
}
