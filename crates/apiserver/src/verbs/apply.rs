//! Apply: the client says all that it wants an object to be, and what it said before and no longer says goes away,
//! unless others own it. Who owns what is decided in `managed`.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::Value;

use super::conform::conform;
use super::patch::check_uid;
use super::write::{check_name, settle_namespace};
use super::{Call, certificates, render};
use crate::authors::Author;
use crate::body::Body;
use crate::collection::{Absent, UpdateRequest};
use crate::decode::decode;
use crate::managed::{Applying, Endpoint, Refused};
use crate::negotiate::{Accepted, Encoding};
use crate::object::{Meta, Object};
use crate::options::{FieldValidation, WriteOptions, parse_revision};
use crate::registry::{Change, Subresource, Typing};
use crate::shape::BUILTINS;
use crate::status::{Answer, Refusal};

/// What a client applies.
pub(super) struct Applied {
    pub(super) object: Value,
    /// What is odd about the text of it.
    oddity: Option<String>,
}

impl Applied {
    /// Reads the body of an apply: YAML, of which JSON is a part.
    pub(super) fn read(bytes: &Bytes) -> Answer<Self> {
        let bad = |why: String| Refusal::bad_request(format!("error decoding YAML: {why}"));
        let (value, oddity) = match decode(bytes, Encoding::Json) {
            Ok(decoded) if decoded.duplicates.is_empty() => (decoded.value, None),
            Ok(decoded) => (decoded.value, read_yaml(bytes).map_err(bad)?.1),
            Err(_) => read_yaml(bytes).map_err(bad)?,
        };
        let object = match value {
            Value::Object(_) => value,
            Value::Null => Value::Object(Object::new()),
            other => {
                let found = crate::shape::describe(&other);
                return Err(bad(format!(
                    "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
                )));
            }
        };
        Ok(Self { object, oddity })
    }

    /// What the client is warned of; a refusal, if it wants to be strict.
    pub(super) fn judge(&self, validation: FieldValidation) -> Answer<Option<String>> {
        match (validation, &self.oddity) {
            (FieldValidation::Strict, Some(why)) => {
                let lead = "error converting YAML to JSON: yaml: unmarshal errors:";
                Err(Refusal::bad_request(format!("error strict decoding YAML: {lead}\n  {why}")))
            }
            (FieldValidation::Warn, oddity) => Ok(oddity.clone()),
            _ => Ok(None),
        }
    }
}

/// A YAML document, and what is odd about it: of a key that stands twice in an object, the last counts.
fn read_yaml(bytes: &[u8]) -> Result<(Value, Option<String>), String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let error = match serde_saphyr::from_str::<Value>(text) {
        Ok(value) => return Ok((value, None)),
        Err(error) => error,
    };
    let serde_saphyr::Error::DuplicateMappingKey { key, location } = error.without_snippet() else {
        return Err(error.to_string());
    };
    let key = key.as_deref().unwrap_or_default();
    let oddity = format!("line {}: key {key:?} already set in map", location.line());
    let options = serde_saphyr::options! { duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins };
    let value = serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())?;
    Ok((value, Some(oddity)))
}

pub(super) async fn apply(
    call: &mut Call,
    bytes: &Bytes,
    options: WriteOptions,
    subresource: Option<Subresource>,
    accepted: Accepted,
) -> Answer<Response<Body>> {
    let applied = Applied::read(bytes)?;
    let at = call.location()?;
    let request = UpdateRequest {
        effect: options.effect,
        subresource,
        author: Author::Recorded,
        absent: Absent::Creates,
    };
    let written = call
        .collection()
        .update(at, request, |old| {
            let collection = call.collection();
            let registry = || call.cluster.registry(&call.server);
            let since = match old {
                Some(old) => {
                    Some(bellwether_store::Revision(parse_revision(old.meta_str("resourceVersion"))?))
                }
                None => None,
            };
            let endpoint = collection.endpoint(subresource, since, &registry);
            let live = old.map(|old| Value::Object(call.resource.to_served(old.clone())));
            let merged = merged(&endpoint, live.as_ref(), &applied.object, &options)?;
            let mut object = shaped(call, merged)?;
            call.warnings.add(applied.judge(options.validation)?);
            check_absent(call, &object, old)?;
            settle_namespace(call, &mut object)?;
            check_name(call, &object)?;
            if let Some(old) = old {
                check_uid(call, &object, old)?;
            }
            if old.is_none() {
                certificates::sign_in(call, &mut object);
            }
            call.admit(old, &object)?;
            check_nulls(call, &object, old, subresource)?;
            Ok(object)
        })
        .await?;
    call.warnings.add(written.warnings);
    let status = if written.created { StatusCode::CREATED } else { StatusCode::OK };
    render::one(call, status, &written.bytes, accepted)
}

/// What an apply makes of what is there.
pub(super) fn merged(
    endpoint: &Endpoint<'_>,
    live: Option<&Value>,
    applied: &Value,
    options: &WriteOptions,
) -> Answer<Value> {
    let text = |key: &str| applied.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if !endpoint.serves(api_version, kind) {
        let group = if api_version.contains('/') { "" } else { "/" };
        return Err(Refusal::bad_request(format!("invalid object type: {group}{api_version}, Kind={kind}")));
    }
    let manager = options.field_manager.as_deref().unwrap_or_default();
    let applying = Applying { applied, manager, force: options.force };
    endpoint.apply(live, applying).map_err(|refused| match refused {
        Refused::Conflicts { message, causes } => Refusal::apply_conflict(message, causes),
        Refused::Wrong(why) => Refusal::bad_request(why),
    })
}

/// The merged object in its stored form. Unlike what is put or patched, objects of custom kinds keep their nulls.
fn shaped(call: &Call, merged: Value) -> Answer<Object> {
    let Value::Object(mut object) = merged else {
        return Err(Refusal::bad_request("what is applied leaves no object"));
    };
    let Typing::Custom(version) = &call.resource.typing else {
        let conformed = conform(call, object, FieldValidation::Ignore);
        return conformed.map(|conformed| conformed.object).map_err(|misfit| {
            Refusal::bad_request(format!("failed to convert new object to proper version: {}", misfit.why()))
        });
    };
    if let Some(Value::Object(metadata)) = object.remove("metadata") {
        let metadata = BUILTINS.conform("meta/v1.ObjectMeta", metadata).map_err(Refusal::bad_request)?;
        object.insert("metadata".into(), Value::Object(metadata.object));
    }
    crate::schema::prune(&mut object, &version.schema);
    crate::schema::coerce(&mut object, &version.schema)
        .map_err(|error| Refusal::bad_request(error.to_string()))?;
    Ok(call.resource.to_stored(object))
}

/// Nulls that are applied, or left where all of a list was taken away, are refused where a custom kind allows none; in
/// what is put or patched they would be as good as nothing.
fn check_nulls(
    call: &Call,
    object: &Object,
    old: Option<&Object>,
    subresource: Option<Subresource>,
) -> Answer<()> {
    let Typing::Custom(version) = &call.resource.typing else { return Ok(()) };
    let change = Change { resource: &call.resource, old, subresource, now: call.server.clock.now() };
    let mut candidate = object.clone();
    match old {
        Some(_) => (call.resource.rules.prepare_update)(&mut candidate, change),
        None if version.status => {
            candidate.remove("status");
        }
        None => {}
    }
    let Some(filled) = version.schema.with_misplaced_nulls(&candidate) else { return Ok(()) };
    let errors = (call.resource.rules.validate)(&filled, change);
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Refusal::invalid(call.resource.qualified_kind(), object.name(), &errors)),
    }
}

/// Who names a uid means an object that is there.
fn check_absent(call: &Call, object: &Object, old: Option<&Object>) -> Answer<()> {
    if old.is_some() || object.uid().is_empty() {
        return Ok(());
    }
    let why = format!(
        "uid mismatch: the provided object specified uid {}, and no existing object was found",
        object.uid()
    );
    Err(Refusal::conflict(call.resource.qualified(), call.location()?.name, why))
}
