//! Values as JSON: the results of expressions, the arguments of functions that an environment adds, and the functions
//! `toJson` and `dig`.

use kube_cel::cel::Value as LibraryValue;
use serde_json::{Number, Value as Json};

use crate::eval::{Evaluation, Outcome};
use crate::failure::Failure;
use crate::functions::Call;
use crate::library;
use crate::names;
use crate::native::to_text;
use crate::value::{Key, Value};

/// The most bytes that `toJson` returns.
const MAX_JSON_TEXT: usize = 1024 * 1024;

impl<'a> Evaluation<'a> {
    /// A value as JSON, charged by its size: values share their parts, so JSON can be much larger than the value.
    pub(crate) fn json_of(&mut self, value: &Value<'a>) -> Result<Json, Failure> {
        self.charge(1)?;
        if let Some(text) = value.as_str() {
            self.charge((text.len() as u64).div_ceil(10))?;
            return Ok(Json::String(text.to_owned()));
        }
        let not_json = || Failure::Other(format!("{} cannot be converted to JSON", value.type_name()));
        match value {
            Value::Null | Value::Optional(None) => Ok(Json::Null),
            Value::Bool(value) => Ok(Json::Bool(*value)),
            Value::Int(value) => Ok((*value).into()),
            Value::Uint(value) => Ok((*value).into()),
            Value::Double(value) => Number::from_f64(*value).map(Json::Number).ok_or_else(not_json),
            Value::Bytes(bytes) => {
                self.charge((bytes.len() as u64).div_ceil(10))?;
                Ok(Json::String(library::to_base64(bytes)))
            }
            Value::Items(..) | Value::List(_) => {
                let items = (0..value.items().unwrap_or(0)).filter_map(|index| value.item(index));
                items.map(|item| self.json_of(&item)).collect::<Result<_, _>>().map(Json::Array)
            }
            Value::Entries(..) | Value::Map(_) => {
                let keys = value.keys().unwrap_or_default().into_iter();
                self.object(keys.filter_map(|key| Some((key_text(&key), value.entry(&key)?))))
            }
            Value::Object(object, _, _) => self.object(object.keys().filter_map(|field| {
                let identifier = names::escape(field)?;
                Some((field.clone(), value.field(&identifier)?))
            })),
            Value::Metadata(_) => self.object(
                ["name", "generateName"]
                    .into_iter()
                    .filter_map(|field| Some((field.to_owned(), value.field(field)?))),
            ),
            Value::Optional(Some(inner)) => self.json_of(inner),
            Value::Type(name) => Ok(Json::String(name.as_ref().to_owned())),
            Value::Library(LibraryValue::Timestamp(_) | LibraryValue::Duration(_)) => {
                let text = to_text(value).ok_or_else(not_json)?;
                Ok(Json::String(text.as_str().unwrap_or_default().to_owned()))
            }
            Value::Library(_) | Value::Str(_) | Value::String(_) => Err(not_json()),
        }
    }

    fn object(&mut self, entries: impl Iterator<Item = (String, Value<'a>)>) -> Result<Json, Failure> {
        entries
            .map(|(key, value)| Ok((key, self.json_of(&value)?)))
            .collect::<Result<_, _>>()
            .map(Json::Object)
    }

    /// `toJson(x)`: a value as the text of its JSON.
    pub(crate) fn json_text(&mut self, value: &Value<'a>) -> Outcome<'a> {
        let text = self.json_of(value)?.to_string();
        if text.len() > MAX_JSON_TEXT {
            return Err(Failure::Other(format!("toJson: the text has more than {MAX_JSON_TEXT} bytes")));
        }
        Ok(Value::string(text))
    }

    /// `dig(x, 'a.b.0')`: the value at a path of keys and indices; null, if there is none.
    pub(crate) fn dig(&mut self, value: &Value<'a>, path: &str) -> Outcome<'a> {
        let mut found = value.clone();
        for segment in path.split('.') {
            self.charge(1)?;
            let next = match found.items() {
                Some(_) => segment.parse().ok().and_then(|index| found.item(index)),
                None => found.entry(&Key::Text(segment.into())),
            };
            match next {
                Some(next) => found = next,
                None => return Ok(Value::Null),
            }
        }
        Ok(found)
    }

    /// Calls a function that the environment adds.
    pub(crate) fn call_custom(&mut self, name: &str, parameters: &[Value<'a>]) -> Outcome<'a> {
        let arguments = parameters.iter().map(|value| self.json_of(value)).collect::<Result<_, _>>()?;
        let function = self.functions.custom.get(name).ok_or(Failure::NoSuchOverload)?;
        let call = Call { arguments, inputs: self.inputs };
        let result = (function.implementation)(&call).map_err(Failure::Other)?;
        let value = Value::from_json(result);
        self.charge(value.copy_cost(self.remaining()))?;
        Ok(value)
    }
}

fn key_text(key: &Key) -> String {
    match key {
        Key::Bool(value) => value.to_string(),
        Key::Int(value) => value.to_string(),
        Key::Uint(value) => value.to_string(),
        Key::Text(text) => text.as_ref().to_owned(),
    }
}
