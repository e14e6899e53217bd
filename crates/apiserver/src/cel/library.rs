//! The functions of Kubernetes' libraries, as `kube-cel` has them, and the way there and back for values. The engine
//! that evaluates expressions is ours; this is all that it asks of the crate beside the parser.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use kube_cel::KubeCelExt as _;
use kube_cel::cel::Value as Foreign;
use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr};
use kube_cel::cel::objects::{Key as ForeignKey, Map as ForeignMap, OptionalValue};
use kube_cel::cel::{Context, ExecutionError};

use super::failure::Failure;
use super::value::{Key, Value};

static LIBRARY: LazyLock<Context<'static>> = LazyLock::new(|| Context::default().with_all());

/// The names of the arguments of a call; no function has more.
const ARGUMENTS: [&str; 4] = ["a", "b", "c", "d"];

/// Calls a function. `target` is what stands before the dot: a value, or the first part of the function's name.
pub(super) fn call<'a>(
    target: Target<'_, 'a>,
    function: &str,
    arguments: &[Value<'a>],
) -> Result<Value<'a>, Failure> {
    let mut context = LIBRARY.new_inner_scope();
    let mut variable = |name: &str, value: &Value<'a>| {
        context.add_variable_from_value(name, foreign(value));
        IdedExpr { id: 0, expr: Expr::Ident(name.to_owned()) }
    };
    let args = ARGUMENTS.iter().zip(arguments).map(|(name, value)| variable(name, value)).collect();
    let target = match target {
        Target::None => None,
        Target::Package(name) => Some(IdedExpr { id: 0, expr: Expr::Ident(name.to_owned()) }),
        Target::Value(value) => Some(variable("self", value)),
    };
    let call = CallExpr { func_name: function.to_owned(), target: target.map(Box::new), args };
    let call = IdedExpr { id: 0, expr: Expr::Call(call) };
    match catch_unwind(AssertUnwindSafe(|| context.resolve(&call))) {
        Ok(Ok(value)) => Ok(native(value)),
        // What the parser of a text has to say is not for people.
        Ok(Err(_)) if function == "duration" => Err(no_conversion("google.protobuf.Duration")),
        Ok(Err(_)) if function == "timestamp" => Err(no_conversion("google.protobuf.Timestamp")),
        Ok(Err(error)) => Err(failure(error)),
        Err(_) => Err(Failure::Other(format!("{function} failed"))),
    }
}

/// What stands before the dot of a call.
#[derive(Clone, Copy)]
pub(super) enum Target<'v, 'a> {
    None,
    Package(&'v str),
    Value(&'v Value<'a>),
}

fn no_conversion(wanted: &str) -> Failure {
    Failure::Other(format!("type conversion error from 'string' to '{wanted}'"))
}

fn failure(error: ExecutionError) -> Failure {
    match error {
        ExecutionError::FunctionError { message, .. } => Failure::Other(message),
        ExecutionError::IndexOutOfBounds(_) => Failure::Other("index out of bounds".into()),
        ExecutionError::Overflow(..) => Failure::Other("integer overflow".into()),
        _ => Failure::NoSuchOverload,
    }
}

pub(super) fn timestamp<'a>(text: &str) -> Option<Value<'a>> {
    call(Target::None, "timestamp", &[Value::made(text)]).ok().map(super::eval::in_utc)
}

pub(super) fn duration<'a>(text: &str) -> Option<Value<'a>> {
    call(Target::None, "duration", &[Value::made(text)]).ok()
}

pub(super) fn base64(text: &str) -> Option<Arc<[u8]>> {
    base64::engine::general_purpose::STANDARD.decode(text).ok().map(Into::into)
}

/// `+` and `-` of times and durations.
pub(super) fn add(a: &Foreign, b: &Foreign) -> Result<Value<'static>, Failure> {
    (a.clone() + b.clone()).map(native).map_err(failure)
}

pub(super) fn subtract(a: &Foreign, b: &Foreign) -> Result<Value<'static>, Failure> {
    (a.clone() - b.clone()).map(native).map_err(failure)
}

fn foreign(value: &Value<'_>) -> Foreign {
    match value {
        Value::Null => Foreign::Null,
        Value::Bool(value) => Foreign::Bool(*value),
        Value::Int(value) => Foreign::Int(*value),
        Value::Uint(value) => Foreign::UInt(*value),
        Value::Double(value) => Foreign::Float(*value),
        Value::Text(text) => Foreign::String(Arc::new((*text).to_owned())),
        Value::Made(text) => Foreign::String(Arc::new(text.as_ref().to_owned())),
        Value::Bytes(bytes) => Foreign::Bytes(Arc::new(bytes.to_vec())),
        Value::Items(..) | Value::List(_) => {
            let items = (0..value.items().unwrap_or(0)).filter_map(|at| value.item(at));
            Foreign::List(Arc::new(items.map(|item| foreign(&item)).collect()))
        }
        Value::Object(object, _, _) => map(object.keys().filter_map(|field| {
            let identifier = super::names::escape(field)?;
            Some((ForeignKey::from(identifier.clone()), foreign(&value.field(&identifier)?)))
        })),
        Value::Metadata(_) => map(["name", "generateName"]
            .into_iter()
            .filter_map(|field| Some((ForeignKey::from(field), foreign(&value.field(field)?))))),
        Value::Entries(..) | Value::Map(_) => map(value
            .keys()
            .unwrap_or_default()
            .into_iter()
            .filter_map(|key| Some((foreign_key(&key), foreign(&value.entry(&key)?))))),
        Value::Optional(value) => Foreign::Opaque(Arc::new(match value {
            Some(value) => OptionalValue::of(foreign(value)),
            None => OptionalValue::none(),
        })),
        Value::Type(name) => Foreign::String(Arc::new(name.as_ref().to_owned())),
        Value::Foreign(value) => value.clone(),
    }
}

fn map(entries: impl Iterator<Item = (ForeignKey, Foreign)>) -> Foreign {
    let entries: HashMap<ForeignKey, Foreign> = entries.collect();
    Foreign::Map(ForeignMap { map: Arc::new(entries) })
}

fn foreign_key(key: &Key) -> ForeignKey {
    match key {
        Key::Bool(value) => ForeignKey::Bool(*value),
        Key::Int(value) => ForeignKey::Int(*value),
        Key::Uint(value) => ForeignKey::Uint(*value),
        Key::Text(text) => ForeignKey::from(text.as_ref()),
    }
}

fn native<'a>(value: Foreign) -> Value<'a> {
    match value {
        Foreign::Null => Value::Null,
        Foreign::Bool(value) => Value::Bool(value),
        Foreign::Int(value) => Value::Int(value),
        Foreign::UInt(value) => Value::Uint(value),
        Foreign::Float(value) => Value::Double(value),
        Foreign::String(text) => Value::made(text.as_str()),
        Foreign::Bytes(bytes) => Value::Bytes(bytes.as_slice().into()),
        Foreign::List(items) => Value::list(items.iter().cloned().map(native).collect()),
        Foreign::Map(map) => {
            let entries = map.map.iter().map(|(key, value)| {
                let key = match key {
                    ForeignKey::Bool(value) => Key::Bool(*value),
                    ForeignKey::Int(value) => Key::Int(*value),
                    ForeignKey::Uint(value) => Key::Uint(*value),
                    ForeignKey::String(text) => Key::Text(text.as_str().into()),
                };
                (key, native(value.clone()))
            });
            Value::Map(Arc::new(entries.collect()))
        }
        Foreign::Opaque(ref opaque) => match opaque.downcast_ref::<OptionalValue>() {
            Some(optional) => Value::Optional(optional.value().map(|value| Arc::new(native(value.clone())))),
            None => Value::Foreign(value),
        },
        other => Value::Foreign(other),
    }
}
