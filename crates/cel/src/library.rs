//! The functions of Kubernetes' libraries, which the crate `kube-cel` implements, and the conversion of values to its
//! types and back. The evaluator takes nothing else from it but the parser.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use kube_cel::KubeCelExt as _;
use kube_cel::cel::Value as LibraryValue;
use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr};
use kube_cel::cel::objects::{Key as LibraryKey, Map as LibraryMap, OptionalValue};
use kube_cel::cel::{Context, ExecutionError};

use crate::failure::Failure;
use crate::value::{Key, Value};

static LIBRARY: LazyLock<Context<'static>> = LazyLock::new(|| Context::default().with_all());

/// The names of the arguments of a call. No function has more.
const ARGUMENTS: [&str; 4] = ["a", "b", "c", "d"];

/// Calls a function.
pub(crate) fn call<'a>(
    target: Target<'_, 'a>,
    function: &str,
    arguments: &[Value<'a>],
) -> Result<Value<'a>, Failure> {
    let mut context = LIBRARY.new_inner_scope();
    let mut variable = |name: &str, value: &Value<'a>| {
        context.add_variable_from_value(name, to_library(value));
        IdedExpr { id: 0, expr: Expr::Ident(name.to_owned()) }
    };
    let args = ARGUMENTS.iter().zip(arguments).map(|(name, value)| variable(name, value)).collect();
    let target = match target {
        Target::None => None,
        Target::Namespace(name) => Some(IdedExpr { id: 0, expr: Expr::Ident(name.to_owned()) }),
        Target::Value(value) => Some(variable("self", value)),
    };
    let call = CallExpr { func_name: function.to_owned(), target: target.map(Box::new), args };
    let call = IdedExpr { id: 0, expr: Expr::Call(call) };
    match catch_unwind(AssertUnwindSafe(|| context.resolve(&call))) {
        Ok(Ok(value)) => Ok(from_library(value)),
        // The messages of the parsers of times do not help a reader.
        Ok(Err(_)) if function == "duration" => Err(conversion_error("google.protobuf.Duration")),
        Ok(Err(_)) if function == "timestamp" => Err(conversion_error("google.protobuf.Timestamp")),
        Ok(Err(error)) => Err(failure(error)),
        Err(_) => Err(Failure::Other(format!("{function} failed"))),
    }
}

/// What stands before the dot of a call: a value, or the namespace of the function.
#[derive(Clone, Copy)]
pub(crate) enum Target<'v, 'a> {
    None,
    Namespace(&'v str),
    Value(&'v Value<'a>),
}

fn conversion_error(wanted: &str) -> Failure {
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

pub(crate) fn timestamp<'a>(text: &str) -> Option<Value<'a>> {
    call(Target::None, "timestamp", &[Value::string(text)]).ok().map(crate::eval::in_utc)
}

pub(crate) fn duration<'a>(text: &str) -> Option<Value<'a>> {
    call(Target::None, "duration", &[Value::string(text)]).ok()
}

pub(crate) fn base64(text: &str) -> Option<Arc<[u8]>> {
    base64::engine::general_purpose::STANDARD.decode(text).ok().map(Into::into)
}

pub(crate) fn to_base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// `+` and `-` of times and durations.
pub(crate) fn add(a: &LibraryValue, b: &LibraryValue) -> Result<Value<'static>, Failure> {
    (a.clone() + b.clone()).map(from_library).map_err(failure)
}

pub(crate) fn subtract(a: &LibraryValue, b: &LibraryValue) -> Result<Value<'static>, Failure> {
    (a.clone() - b.clone()).map(from_library).map_err(failure)
}

fn to_library(value: &Value<'_>) -> LibraryValue {
    match value {
        Value::Null => LibraryValue::Null,
        Value::Bool(value) => LibraryValue::Bool(*value),
        Value::Int(value) => LibraryValue::Int(*value),
        Value::Uint(value) => LibraryValue::UInt(*value),
        Value::Double(value) => LibraryValue::Float(*value),
        Value::Str(text) => LibraryValue::String(Arc::new((*text).to_owned())),
        Value::String(text) => LibraryValue::String(Arc::new(text.as_ref().to_owned())),
        Value::Bytes(bytes) => LibraryValue::Bytes(Arc::new(bytes.to_vec())),
        Value::Items(..) | Value::List(_) => {
            let items = (0..value.items().unwrap_or(0)).filter_map(|index| value.item(index));
            LibraryValue::List(Arc::new(items.map(|item| to_library(&item)).collect()))
        }
        Value::Object(object, _, _) => map(object.keys().filter_map(|field| {
            let identifier = crate::names::escape(field)?;
            Some((LibraryKey::from(identifier.clone()), to_library(&value.field(&identifier)?)))
        })),
        Value::Metadata(_) => map(["name", "generateName"]
            .into_iter()
            .filter_map(|field| Some((LibraryKey::from(field), to_library(&value.field(field)?))))),
        Value::Entries(..) | Value::Map(_) => map(value
            .keys()
            .unwrap_or_default()
            .into_iter()
            .filter_map(|key| Some((library_key(&key), to_library(&value.entry(&key)?))))),
        Value::Optional(value) => LibraryValue::Opaque(Arc::new(match value {
            Some(value) => OptionalValue::of(to_library(value)),
            None => OptionalValue::none(),
        })),
        Value::Type(name) => LibraryValue::String(Arc::new(name.as_ref().to_owned())),
        Value::Library(value) => value.clone(),
    }
}

fn map(entries: impl Iterator<Item = (LibraryKey, LibraryValue)>) -> LibraryValue {
    let entries: HashMap<LibraryKey, LibraryValue> = entries.collect();
    LibraryValue::Map(LibraryMap { map: Arc::new(entries) })
}

fn library_key(key: &Key) -> LibraryKey {
    match key {
        Key::Bool(value) => LibraryKey::Bool(*value),
        Key::Int(value) => LibraryKey::Int(*value),
        Key::Uint(value) => LibraryKey::Uint(*value),
        Key::Text(text) => LibraryKey::from(text.as_ref()),
    }
}

fn from_library<'a>(value: LibraryValue) -> Value<'a> {
    match value {
        LibraryValue::Null => Value::Null,
        LibraryValue::Bool(value) => Value::Bool(value),
        LibraryValue::Int(value) => Value::Int(value),
        LibraryValue::UInt(value) => Value::Uint(value),
        LibraryValue::Float(value) => Value::Double(value),
        LibraryValue::String(text) => Value::string(text.as_str()),
        LibraryValue::Bytes(bytes) => Value::Bytes(bytes.as_slice().into()),
        LibraryValue::List(items) => Value::list(items.iter().cloned().map(from_library).collect()),
        LibraryValue::Map(map) => {
            let entries = map.map.iter().map(|(key, value)| {
                let key = match key {
                    LibraryKey::Bool(value) => Key::Bool(*value),
                    LibraryKey::Int(value) => Key::Int(*value),
                    LibraryKey::Uint(value) => Key::Uint(*value),
                    LibraryKey::String(text) => Key::Text(text.as_str().into()),
                };
                (key, from_library(value.clone()))
            });
            Value::Map(Arc::new(entries.collect()))
        }
        LibraryValue::Opaque(ref opaque) => match opaque.downcast_ref::<OptionalValue>() {
            Some(optional) => {
                Value::Optional(optional.value().map(|value| Arc::new(from_library(value.clone()))))
            }
            None => Value::Library(value),
        },
        other => Value::Library(other),
    }
}
