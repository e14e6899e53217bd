//! `/scale`: how many there should be and how many there are, of whatever kind, in one form that autoscalers know.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use super::apply::Applied;
use super::{Call, render};
use crate::authors::Author;
use crate::body::Body;
use crate::collection::{Absent, UpdateRequest};
use crate::crd::Scale;
use crate::decode::{Expected, decode_expected};
use crate::field::FieldError;
use crate::managed::{Endpoint, Scaled};
use crate::negotiate::{Accepted, Content, PatchKind};
use crate::object::{Meta, Object, lookup, set};
use crate::options::WriteOptions;
use crate::registry::Typing;
use crate::selector::LabelSelector;
use crate::shape::BUILTINS;
use crate::status::{Answer, Qualified, Refusal};
use crate::times;

const KIND: Qualified<'static> = Qualified { group: "autoscaling", name: "Scale" };
const SCALE: Expected<'static> = Expected { api_version: "autoscaling/v1", kind: "Scale" };

pub(super) async fn get(call: &Call, accepted: Accepted) -> Answer<Response<Body>> {
    let at = call.location()?;
    let stored =
        call.collection().find(at).ok_or_else(|| Refusal::not_found(call.resource.qualified(), at.name))?;
    let object = call.resource.to_served(crate::object::parse(stored.value()));
    let paths = paths(call)?;
    if let Typing::Custom(_) = call.resource.typing {
        paths.check_present(&object).map_err(Refusal::internal)?;
    }
    Ok(answer(&document(paths, &object), accepted))
}

/// What the client wants the scale to be: all of it, or a change of it.
pub(super) enum Wanted {
    Whole,
    Patched(PatchKind),
}

pub(super) async fn update(
    call: &mut Call,
    content: Content,
    bytes: &Bytes,
    wanted: Wanted,
    options: WriteOptions,
    accepted: Accepted,
) -> Answer<Response<Body>> {
    let wish = Wish::read(content, bytes, &wanted)?;
    let manager = call.manager(&options);
    let paths = paths(call)?;
    let request = UpdateRequest {
        effect: options.effect,
        subresource: None,
        author: Author::Recorded,
        absent: Absent::ByKind,
    };
    let written = call
        .collection()
        .update(call.location()?, request, |old| {
            let Some(old) = old else {
                let name = call.name.as_deref().unwrap_or_default();
                return Err(Refusal::not_found(call.resource.qualified(), name));
            };
            let object = call.resource.to_served(old.clone());
            let scale = scaled(call, paths, &object, &wish, &manager, &options)?;
            let mut object = call.resource.to_stored(object);
            // The rules of a custom kind judge the count where it stands.
            if let Typing::Builtin(_) = call.resource.typing {
                check_count(&scale)?;
            }
            apply(paths, &scale, &mut object)?;
            record(call, paths, &scale, &mut object);
            Ok(object)
        })
        .await?;
    if let Wish::Applied(applied) = &wish {
        call.warnings.add(applied.judge(options.validation)?);
    }
    let paths = self::paths(call)?;
    let object = call.resource.to_served(crate::object::parse(&written.bytes));
    Ok(answer(&document(paths, &object), accepted))
}

/// What is sent as a scale must not claim to be something else.
fn check_claim(sent: &Value) -> Answer<()> {
    let text = |key: &str, expected| match sent.get(key).and_then(Value::as_str) {
        None | Some("") => expected,
        Some(text) => text,
    };
    let (api_version, kind) = (text("apiVersion", SCALE.api_version), text("kind", SCALE.kind));
    if (api_version, kind) == (SCALE.api_version, SCALE.kind) {
        return Ok(());
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let why = match BUILTINS.type_of(group, version, kind) {
        Some(_) => format!("converting ({version}.{kind}) to (autoscaling.Scale): unknown conversion"),
        None => format!("no kind {kind:?} is registered for version {api_version:?}"),
    };
    Err(Refusal::bad_request(format!("{kind} in version {version:?} cannot be handled as a Scale: {why}")))
}

/// What the client sent, read.
enum Wish {
    Whole(Value),
    Patched(PatchKind, Value),
    Applied(Applied),
}

impl Wish {
    fn read(content: Content, bytes: &Bytes, wanted: &Wanted) -> Answer<Self> {
        let sent = || Ok(decode_expected(bytes, content, SCALE).map_err(Refusal::bad_request)?.value);
        Ok(match wanted {
            Wanted::Whole => {
                let scale = sent()?;
                check_claim(&scale)?;
                Self::Whole(scale)
            }
            Wanted::Patched(PatchKind::Apply) => Self::Applied(Applied::read(bytes)?),
            Wanted::Patched(kind) => Self::Patched(*kind, sent()?),
        })
    }
}

/// The scale that the client wants, with who owns its count.
fn scaled(
    call: &Call,
    paths: &Scale,
    object: &Object,
    wish: &Wish,
    manager: &str,
    options: &WriteOptions,
) -> Answer<Value> {
    let registry = || call.cluster.registry(&call.server);
    let endpoint = Endpoint::scale(times::seconds(call.server.clock.now()), &registry);
    let mut live = document(paths, object);
    let count = paths.spec_replicas.fields().unwrap_or_default();
    let place = Scaled { api_version: &call.resource.api_version(), count: &count };
    let entries = place.to_scale(entries(object));
    if let Value::Object(live) = &mut live
        && !entries.is_empty()
    {
        live.meta_mut().insert("managedFields".into(), entries.into());
    }
    let shaped = |value: Value| match value {
        Value::Object(scale) => {
            BUILTINS.conform("autoscaling/v1.Scale", scale).map(|conformed| conformed.object)
        }
        _ => Err("a Scale must be an object".to_owned()),
    };
    let new = match wish {
        Wish::Applied(applied) => {
            let merged = super::apply::merged(&endpoint, Some(&live), &applied.object, options)?;
            return shaped(merged).map(Value::Object).map_err(Refusal::bad_request);
        }
        Wish::Whole(sent) => shaped(sent.clone()).map_err(Refusal::bad_request)?,
        Wish::Patched(kind, patch) => {
            shaped(patched(live.clone(), *kind, patch)?).map_err(Refusal::misfit_after_patch)?
        }
    };
    let mut new = Value::Object(new);
    for (key, value) in [("apiVersion", "autoscaling/v1"), ("kind", "Scale")] {
        set(&mut new, key, value);
    }
    endpoint.record(Some(&live), &mut new, manager);
    Ok(new)
}

fn entries(object: &Object) -> &[Value] {
    let entries = object.meta().and_then(|meta| meta.get("managedFields")).and_then(Value::as_array);
    entries.map(Vec::as_slice).unwrap_or_default()
}

/// Who owns the count of the scale owns the field of the object where it stands.
fn record(call: &Call, paths: &Scale, scale: &Value, object: &mut Object) {
    let count = paths.spec_replicas.fields().unwrap_or_default();
    let place = Scaled { api_version: &call.resource.api_version(), count: &count };
    let owned = scale.as_object().map(entries).unwrap_or_default();
    let merged = place.to_object(entries(object), owned);
    match merged.is_empty() {
        true => object.meta_mut().remove("managedFields"),
        false => object.meta_mut().insert("managedFields".into(), merged.into()),
    };
}

fn paths(call: &Call) -> Answer<&Scale> {
    call.resource.scale.as_ref().ok_or_else(Refusal::method_not_allowed)
}

fn answer(document: &Value, accepted: Accepted) -> Response<Body> {
    let json = serde_json::to_vec(document).unwrap_or_default().into();
    render::respond(StatusCode::OK, json, accepted.encoding)
}

fn document(paths: &Scale, object: &Object) -> Value {
    let whole = Value::Object(object.clone());
    let count = |path: &bellwether_jsonpath::JsonPath| {
        path.find(&whole).first().and_then(|found| found.as_i64()).unwrap_or(0)
    };
    let mut metadata = Map::new();
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.meta().and_then(|meta| meta.get(key)) {
            metadata.insert(key.into(), value.clone());
        }
    }
    let mut status = json!({"replicas": count(&paths.status_replicas)});
    let selector = paths.label_selector.as_ref().and_then(|path| path.find(&whole).first().copied().cloned());
    match selector {
        Some(Value::String(text)) => set(&mut status, "selector", text),
        // The oldest kinds have nothing but labels for a selector.
        Some(Value::Object(labels)) if !labels.is_empty() && labels.values().all(Value::is_string) => {
            let selector = json!({"matchLabels": labels});
            set(&mut status, "selector", LabelSelector::of(&selector).to_string());
        }
        Some(whole @ Value::Object(_)) => set(&mut status, "selector", LabelSelector::of(&whole).to_string()),
        _ => {}
    }
    let replicas = count(&paths.spec_replicas);
    let spec = if replicas == 0 { json!({}) } else { json!({"replicas": replicas}) };
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}

fn patched(mut scale: Value, kind: PatchKind, patch: &Value) -> Answer<Value> {
    match (kind, patch) {
        (PatchKind::Json, Value::Array(operations)) => super::json_patch::apply(&mut scale, operations)?,
        (PatchKind::Merge | PatchKind::Strategic, Value::Object(_)) => {
            ::json_patch::merge(&mut scale, patch);
        }
        _ => return Err(Refusal::bad_request("error decoding patch: it has the wrong form")),
    }
    Ok(scale)
}

fn check_count(scale: &Value) -> Answer<()> {
    let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
    if replicas >= 0 {
        return Ok(());
    }
    let name = scale.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let error = FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
    Err(Refusal::invalid(KIND, name, &[error]))
}

/// Sets the wanted count, if the author of the scale saw the object as it is.
fn apply(paths: &Scale, scale: &Value, object: &mut Object) -> Answer<()> {
    let Value::Object(scale) = scale else {
        return Err(Refusal::bad_request("a Scale must be an object"));
    };
    let replicas = lookup(scale, "spec.replicas").and_then(Value::as_i64).unwrap_or(0);
    for key in ["uid", "resourceVersion"] {
        if !scale.meta_str(key).is_empty() {
            object.meta_mut().insert(key.into(), scale.meta_str(key).into());
        }
    }
    let fields = paths.spec_replicas.fields().unwrap_or_default();
    let Some((last, parents)) = fields.split_last() else { return Ok(()) };
    let mut place = object;
    for parent in parents {
        let entry = place.entry(*parent).or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(inner) = entry else {
            return Err(Refusal::internal(format!("{parent} is no object")));
        };
        place = inner;
    }
    place.insert((*last).to_owned(), replicas.into());
    Ok(())
}
