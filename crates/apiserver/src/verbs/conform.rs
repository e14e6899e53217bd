//! From an object as a client wrote it to the stored form of its kind: the kind it claims, the types of its fields,
//! and what is odd about it.

use std::collections::HashSet;

use bytes::Bytes;
use serde_json::{Value, json};

use super::Call;
use crate::decode::{Decoded, Expected, decode, from_protobuf, key_paths};
use crate::field::FieldError;
use crate::negotiate::{Content, Encoding};
use crate::object::{Meta, Object};
use crate::options::FieldValidation;
use crate::protobuf::Envelope;
use crate::registry::{Registry, Resource, Typing};
use crate::status::{Answer, Qualified, Refusal};

/// An object in its stored form, and what the client is warned of.
pub(super) struct Conformed {
    pub(super) object: Object,
    pub(super) warnings: Vec<String>,
}

/// Why an object is not one of its kind.
pub(super) enum Misfit {
    /// It claims to be something else, or its fields are not what they must be.
    Unfit {
        /// The kind that it claims to be.
        kind: String,
        version: String,
        why: String,
    },
    /// It claims to be another kind of the group of a custom kind.
    OtherKind { found: String, expected: String, name: String },
    /// It is of the right kind, but in the words of another version.
    OtherVersion { found: String, expected: String },
}

impl Misfit {
    /// What is wrong, without the names of the kinds.
    pub(super) fn why(self) -> String {
        match self {
            Self::Unfit { why, .. } => why,
            Self::OtherKind { found, expected, .. } => {
                format!("kind: Invalid value: {found:?}: must be {expected}")
            }
            Self::OtherVersion { found, expected } => format!(
                "the API version in the data ({found}) does not match the expected API version ({expected})"
            ),
        }
    }

    fn refusal(self, resource: &Resource) -> Refusal {
        match self {
            Self::Unfit { kind, version, why } => Refusal::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {}: {why}",
                resource.kind
            )),
            Self::OtherKind { found, expected, name } => {
                let kind = Qualified { group: &resource.group, name: &found };
                let error = FieldError::invalid("kind", found.as_str(), format!("must be {expected}"));
                Refusal::invalid(kind, &name, &[error])
            }
            other => Refusal::bad_request(other.why()),
        }
    }
}

/// How many oddities of one object are named, as in Kubernetes.
const ODDITIES: usize = 100;

/// Something odd that is no error unless the client asked for it to be one.
struct Oddity {
    path: String,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Duplicate,
    Unknown,
}

impl std::fmt::Display for Oddity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self.what {
            What::Duplicate => "duplicate",
            What::Unknown => "unknown",
        };
        write!(f, "{what} field {:?}", self.path)
    }
}

/// The object in a body.
pub(super) fn read_object(
    call: &Call,
    content: Content,
    bytes: &Bytes,
    validation: FieldValidation,
) -> Answer<Conformed> {
    let (resource, registry) = (&call.resource, call.cluster.registry(&call.server));
    let Sent { object, duplicates } = match content {
        Content::Text(encoding) => from_text(resource, encoding, bytes)?,
        Content::Protobuf => from_message(resource, bytes)?,
    };
    let oddities = duplicates.into_iter().map(|path| Oddity { path, what: What::Duplicate }).collect();
    let order = |wanted: &HashSet<String>| match (content, &resource.typing) {
        (Content::Text(Encoding::Json), Typing::Builtin(_)) => key_paths(bytes, wanted),
        // Kubernetes names the oddities of custom kinds in the order in which it finds them.
        _ => Vec::new(),
    };
    conform_with(&registry, resource, object, oddities, validation, order)
        .map_err(|misfit| misfit.refusal(resource))
}

/// An object as it was sent, and the paths of keys that stand in it twice.
struct Sent {
    object: Object,
    duplicates: Vec<String>,
}

fn from_text(resource: &Resource, encoding: Encoding, bytes: &[u8]) -> Answer<Sent> {
    let unrecognized = |why: &str| {
        let why = format!("couldn't get version/kind; json parse error: {why}");
        unrecognized(resource, &why, bytes)
    };
    let Decoded { value, duplicates } = decode(bytes, encoding).map_err(|error| unrecognized(&error))?;
    let object = match value {
        Value::Object(object) => object,
        Value::Null => Object::new(),
        _ => return Err(unrecognized("the body is no object")),
    };
    for key in ["kind", "apiVersion"] {
        if let Some(found) = object.get(key).filter(|value| !(value.is_string() || value.is_null())) {
            let found = crate::shape::describe(found);
            return Err(unrecognized(&format!(
                "json: cannot unmarshal {found} into Go struct field .{key} of type string"
            )));
        }
    }
    Ok(Sent { object, duplicates })
}

/// Protobuf is read as the kind that it claims to be; whether that is the kind of the path is asked later.
fn from_message(resource: &Resource, bytes: &[u8]) -> Answer<Sent> {
    let envelope = Envelope::open(bytes).map_err(|why| unrecognized(resource, &why, bytes))?;
    let claim =
        |claimed: &str, expected: &str| if claimed.is_empty() { expected } else { claimed }.to_owned();
    let api_version = claim(&envelope.api_version, &resource.api_version());
    let kind = claim(&envelope.kind, &resource.kind);
    let object = from_protobuf(&envelope, Expected { api_version: &api_version, kind: &kind });
    let mut object = object
        .map_err(|why| {
            let version = api_version.rsplit('/').next().unwrap_or_default().to_owned();
            Misfit::Unfit { kind: kind.clone(), version, why }.refusal(resource)
        })?
        .unwrap_or_default();
    object.insert("apiVersion".into(), api_version.into());
    object.insert("kind".into(), kind.into());
    Ok(Sent { object, duplicates: Vec::new() })
}

fn unrecognized(resource: &Resource, why: &str, bytes: &[u8]) -> Refusal {
    Refusal::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {why} ({})",
        resource.kind,
        summary(bytes)
    ))
}

/// Conforms an object that the server put together from a patch.
pub(super) fn conform(call: &Call, object: Object, validation: FieldValidation) -> Result<Conformed, Misfit> {
    let registry = call.cluster.registry(&call.server);
    conform_with(&registry, &call.resource, object, Vec::new(), validation, |_| Vec::new())
}

fn conform_with(
    registry: &Registry,
    resource: &Resource,
    mut object: Object,
    mut oddities: Vec<Oddity>,
    validation: FieldValidation,
    order: impl FnOnce(&HashSet<String>) -> Vec<String>,
) -> Result<Conformed, Misfit> {
    check_kind(registry, resource, &mut object)?;
    let unfit =
        |why: String| Misfit::Unfit { kind: resource.kind.clone(), version: resource.version.clone(), why };
    // That nobody owns anything is said by an empty list. The shape drops it, as Kubernetes does with that of an object
    // of a custom kind.
    let managers = object.meta().and_then(|meta| meta.get("managedFields"));
    let disowned =
        matches!(resource.typing, Typing::Builtin(_)) && managers.is_some_and(|list| *list == json!([]));
    let mut conformed = resource.conform(object).map_err(unfit)?;
    if disowned {
        conformed.object.meta_mut().insert("managedFields".into(), json!([]));
    }
    oddities.extend(conformed.unknown.into_iter().map(|path| Oddity { path, what: What::Unknown }));
    oddities.truncate(ODDITIES);
    let warnings = match validation {
        FieldValidation::Ignore => Vec::new(),
        _ if oddities.is_empty() => Vec::new(),
        FieldValidation::Warn => in_order(oddities, order),
        FieldValidation::Strict => {
            let words = in_order(oddities, order).join(", ");
            return Err(unfit(format!("strict decoding error: {words}")));
        }
    };
    let stored = resource.to_stored(conformed.object);
    if !resource.is_view() || matches!(resource.typing, Typing::Custom(_)) {
        return Ok(Conformed { object: stored, warnings });
    }
    let mut conformed = resource.conform_stored(stored).map_err(unfit)?;
    if disowned {
        conformed.object.meta_mut().insert("managedFields".into(), json!([]));
    }
    Ok(Conformed { object: conformed.object, warnings })
}

/// Oddities in the words for the client, in the order of the document where that is known.
fn in_order(mut oddities: Vec<Oddity>, order: impl FnOnce(&HashSet<String>) -> Vec<String>) -> Vec<String> {
    let order = order(&oddities.iter().map(|oddity| oddity.path.clone()).collect());
    oddities.sort_by_cached_key(|oddity| {
        let mut places = order.iter().enumerate().filter(|(_, path)| **path == oddity.path);
        // A key is a duplicate where it stands for the second time.
        let place = if oddity.what == What::Duplicate { places.nth(1) } else { places.next() };
        place.map_or(usize::MAX, |(place, _)| place)
    });
    oddities.iter().map(Oddity::to_string).collect()
}

/// The kind and version that an object claims must be the ones of the path; none is as good as the right one.
fn check_kind(registry: &Registry, resource: &Resource, object: &mut Object) -> Result<(), Misfit> {
    let text = |key: &str, default: &str| match object.get(key).and_then(Value::as_str) {
        None | Some("") => default.to_owned(),
        Some(text) => text.to_owned(),
    };
    let expected = resource.api_version();
    let (api_version, kind) = (text("apiVersion", &expected), text("kind", &resource.kind));
    if kind == resource.kind && api_version == expected {
        object.insert("apiVersion".into(), expected.into());
        object.insert("kind".into(), kind.into());
        return Ok(());
    }
    let version = api_version.rsplit('/').next().unwrap_or_default().to_owned();
    if let Typing::Custom(_) = resource.typing {
        return Err(match api_version == expected {
            true => {
                let name = object.name().to_owned();
                Misfit::OtherKind { found: kind, expected: resource.kind.clone(), name }
            }
            false => Misfit::OtherVersion { found: api_version, expected },
        });
    }
    Err(match registry.find_kind(&api_version, &kind) {
        Some(other) if other.storage.space == resource.storage.space => {
            Misfit::OtherVersion { found: api_version, expected }
        }
        Some(_) => {
            let why =
                format!("converting ({version}.{kind}) to ({}): unknown conversion", resource.go_type());
            Misfit::Unfit { kind, version, why }
        }
        None => {
            let why = format!("no kind {kind:?} is registered for version {api_version:?}");
            Misfit::Unfit { kind, version, why }
        }
    })
}

/// The beginning of a body, for messages: text when it looks like an object, else hexadecimal.
fn summary(bytes: &[u8]) -> String {
    const SHOWN: usize = 30;
    let head = bytes.get(..SHOWN).unwrap_or(bytes);
    let more = if bytes.len() > SHOWN { " ..." } else { "" };
    match bytes.first() {
        None => "<empty>".into(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(head)),
        Some(_) => {
            let hex: String = head.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{hex}{more}")
        }
    }
}
