//! From the bytes of a request body to a JSON value: JSON, YAML or protobuf, at most 3 MiB, a bounded depth, and a
//! note of every key that stands twice (the value keeps the last, as Kubernetes does).

use std::collections::HashSet;
use std::fmt;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::negotiate::{Content, Encoding};
use crate::object::Object;
use crate::protobuf::Envelope;
use crate::shape::BUILTINS;
use crate::status::{Answer, Refusal};

/// The largest request body.
pub(crate) const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// Reads a body to its end, but no further than the limit.
pub(crate) async fn read_body<B>(body: B) -> Answer<Bytes>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => {
            Err(Refusal::too_large(BODY_LIMIT))
        }
        Err(error) => Err(Refusal::bad_request(format!("the request body could not be read: {error}"))),
    }
}

/// A decoded body.
pub(crate) struct Decoded {
    pub(crate) value: Value,
    /// Paths of keys that stand more than once in their object.
    pub(crate) duplicates: Vec<String>,
}

/// Decodes a body; the error says in words what is wrong with the text.
pub(crate) fn decode(bytes: &[u8], encoding: Encoding) -> Result<Decoded, String> {
    let mut duplicates = Vec::new();
    let value = match encoding {
        Encoding::Json => {
            let mut json = serde_json::Deserializer::from_slice(bytes);
            let value = Node { trail: Trail::ROOT, duplicates: &mut duplicates }
                .deserialize(&mut json)
                .and_then(|value| json.end().map(|()| value));
            value.map_err(|error| json_words(&error))?
        }
        Encoding::Yaml => {
            let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
            let value = serde_saphyr::from_str::<Value>(text).map_err(|error| error.to_string())?;
            check_paths(&value, 0)?;
            value
        }
    };
    Ok(Decoded { value, duplicates })
}

/// A kind that a body is of, unless it says otherwise.
#[derive(Clone, Copy)]
pub(crate) struct Expected<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
}

/// Decodes a body that is no object of the resource of its path, such as options or a scale. Its kind and version
/// are for the caller to check: of another kind than the expected, protobuf has nothing but these.
pub(crate) fn decode_expected(
    bytes: &[u8],
    content: Content,
    expected: Expected<'_>,
) -> Result<Decoded, String> {
    match content {
        Content::Text(encoding) => decode(bytes, encoding),
        Content::Protobuf => {
            let envelope = Envelope::open(bytes)?;
            let claimed = if envelope.kind.is_empty() { expected.kind } else { &envelope.kind };
            let mut object = match claimed == expected.kind {
                true => from_protobuf(&envelope, expected)?.unwrap_or_default(),
                false => Object::new(),
            };
            for (key, claim) in [("apiVersion", &envelope.api_version), ("kind", &envelope.kind)] {
                object.insert(key.into(), claim.as_str().into());
            }
            Ok(Decoded { value: object.into(), duplicates: Vec::new() })
        }
    }
}

/// The fields of an object in protobuf, by the numbers that they have in its kind; `None` if nobody knows the kind.
pub(crate) fn from_protobuf(envelope: &Envelope<'_>, kind: Expected<'_>) -> Result<Option<Object>, String> {
    let (group, version) = kind.api_version.split_once('/').unwrap_or(("", kind.api_version));
    match BUILTINS.type_of(group, version, kind.kind) {
        Some(type_name) => {
            let object = envelope.object(&BUILTINS, type_name)?;
            object.iter().try_for_each(|(key, below)| check_paths(below, key.len()))?;
            Ok(Some(object))
        }
        None => Ok(None),
    }
}

/// What is wrong with a text that is no JSON. Where a text is cut off, the words are Go's: clients meet that one.
pub(crate) fn json_words(error: &serde_json::Error) -> String {
    if error.is_eof() { "unexpected end of JSON input".into() } else { error.to_string() }
}

/// How long the keys that lead to a value may be, all together: messages quote them, and a body has many values.
const PATH_LIMIT: usize = 4096;

fn too_long() -> String {
    format!("the keys that lead to a value have more than {PATH_LIMIT} bytes")
}

/// Refuses a document in which a value is too far away.
pub(crate) fn check_paths(value: &Value, length: usize) -> Result<(), String> {
    if length > PATH_LIMIT {
        return Err(too_long());
    }
    match value {
        Value::Object(map) => map.iter().try_for_each(|(key, below)| check_paths(below, length + key.len())),
        Value::Array(items) => items.iter().try_for_each(|below| check_paths(below, length)),
        _ => Ok(()),
    }
}

/// The way to a value: its text is made only when somebody asks for it.
#[derive(Clone, Copy)]
struct Trail<'a> {
    above: Option<&'a Trail<'a>>,
    step: Step<'a>,
    /// Of all keys on the way.
    length: usize,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Key(&'a str),
    Item(usize),
}

impl<'a> Trail<'a> {
    const ROOT: Self = Trail { above: None, step: Step::Root, length: 0 };

    fn key(&'a self, key: &'a str) -> Result<Self, String> {
        let length = self.length + key.len();
        if length > PATH_LIMIT {
            return Err(too_long());
        }
        Ok(Trail { above: Some(self), step: Step::Key(key), length })
    }

    fn item(&'a self, index: usize) -> Self {
        Trail { above: Some(self), step: Step::Item(index), length: self.length }
    }
}

impl fmt::Display for Trail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(above) = self.above {
            above.fmt(f)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Item(index) => write!(f, "[{index}]"),
            Step::Key(key) => {
                let first = self.above.is_none_or(|above| matches!(above.step, Step::Root));
                write!(f, "{}{key}", if first { "" } else { "." })
            }
        }
    }
}

/// Those of the wanted paths that a JSON document has, in the order in which they stand there.
pub(crate) fn key_paths(bytes: &[u8], wanted: &HashSet<String>) -> Vec<String> {
    let last: HashSet<&str> = wanted.iter().filter_map(|path| path.rsplit('.').next()).collect();
    let mut sought = Sought { wanted, last, found: Vec::new() };
    // What was decoded before cannot fail now; and if it did, the order would only be incomplete.
    let _ = Order { trail: Trail::ROOT, sought: &mut sought }
        .deserialize(&mut serde_json::Deserializer::from_slice(bytes));
    sought.found
}

struct Sought<'a> {
    wanted: &'a HashSet<String>,
    /// What the wanted paths end with.
    last: HashSet<&'a str>,
    found: Vec<String>,
}

/// One value whose keys are looked at.
struct Order<'a, 'w> {
    trail: Trail<'a>,
    sought: &'a mut Sought<'w>,
}

impl<'de> DeserializeSeed<'de> for Order<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Order<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        let mut index = 0;
        loop {
            let trail = self.trail.item(index);
            match access.next_element_seed(Order { trail, sought: self.sought })? {
                Some(()) => index += 1,
                None => return Ok(()),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        while let Some(key) = access.next_key::<String>()? {
            let trail = self.trail.key(&key).map_err(A::Error::custom)?;
            // Keys may have dots in them: their last part is what a path ends with.
            if self.sought.last.contains(key.rsplit('.').next().unwrap_or_default()) {
                let path = trail.to_string();
                if self.sought.wanted.contains(&path) {
                    self.sought.found.push(path);
                }
            }
            access.next_value_seed(Order { trail, sought: self.sought })?;
        }
        Ok(())
    }
}

/// One value on its way in, with the path that leads to it.
struct Node<'a> {
    trail: Trail<'a>,
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        serde_json::Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a JSON number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let trail = self.trail.item(items.len());
            match access.next_element_seed(Node { trail, duplicates: self.duplicates })? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let trail = self.trail.key(&key).map_err(A::Error::custom)?;
            let value = access.next_value_seed(Node { trail, duplicates: self.duplicates })?;
            if map.contains_key(&key) {
                if self.duplicates.len() >= 100 {
                    return Err(A::Error::custom("more than 100 duplicate fields"));
                }
                self.duplicates.push(trail.to_string());
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_two_equal_keys_counts_and_both_are_named() {
        let decoded = decode(br#"{"a":1,"spec":{"x":1,"x":2},"l":[{"k":1,"k":2}]}"#, Encoding::Json).unwrap();
        assert_eq!(decoded.value, serde_json::json!({"a": 1, "spec": {"x": 2}, "l": [{"k": 2}]}));
        assert_eq!(decoded.duplicates, ["spec.x", "l[0].k"]);
    }

    #[test]
    fn keys_are_known_in_the_order_of_the_document() {
        let wanted = ["b", "b.z", "b.a[0].k", "a", "c"].map(str::to_owned).into();
        let paths = key_paths(br#"{"b":{"z":1,"a":[{"k":1}]},"a":2,"b":3}"#, &wanted);
        assert_eq!(paths, ["b", "b.z", "b.a[0].k", "a", "b"]);
    }

    #[test]
    fn a_value_that_is_too_far_away_is_refused() {
        let key = format!(r#"{{"{}": "#, "k".repeat(1000));
        let far = format!("{}1{}", key.repeat(5), "}".repeat(5));
        for encoding in [Encoding::Json, Encoding::Yaml] {
            let error = decode(far.as_bytes(), encoding).err().unwrap();
            assert!(error.contains("more than 4096 bytes"), "{error}");
        }
        assert!(decode(format!(r#"{{"{}":1}}"#, "k".repeat(PATH_LIMIT)).as_bytes(), Encoding::Json).is_ok());
    }

    #[test]
    fn text_that_is_no_value_is_refused() {
        let deep = "[".repeat(100_000);
        for text in ["", "{", "{]", "nul", "{\"a\":1}x", deep.as_str()] {
            assert!(decode(text.as_bytes(), Encoding::Json).is_err(), "{:.20}", text);
        }
        assert!(decode(b"\xff\xfe", Encoding::Yaml).is_err());
        assert!(decode(b"a: [1, 2", Encoding::Yaml).is_err());
    }

    #[test]
    fn numbers_keep_their_kind() {
        let decoded = decode(b"[1, -1, 18446744073709551615, 1.5]", Encoding::Json).unwrap();
        assert_eq!(decoded.value, serde_json::json!([1, -1, 18_446_744_073_709_551_615_u64, 1.5]));
    }

    #[test]
    fn yaml_becomes_the_same_value() {
        let decoded = decode(b"a: 1\nb: [x, 'y']\nc: {d: null, e: true}\n", Encoding::Yaml).unwrap();
        assert_eq!(decoded.value, serde_json::json!({"a": 1, "b": ["x", "y"], "c": {"d": null, "e": true}}));
    }

    #[test]
    fn a_yaml_bomb_is_refused_not_expanded() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let refer = vec![format!("*a{}", level - 1); 10].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{refer}]\n"));
        }
        assert!(decode(bomb.as_bytes(), Encoding::Yaml).is_err());
    }
}
