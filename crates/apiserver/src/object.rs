//! An object as the server handles it: a JSON map in memory, canonical bytes in the store. The bytes begin with
//! kind and apiVersion, all maps are sorted, and the resourceVersion stands at a known offset, so that equal
//! bytes mean equal objects and the revision is spliced in at commit.

use bellwether_store::{Draft, Facts};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};

/// An object, or any part of one.
pub(crate) type Object = Map<String, Value>;

/// Reading and changing the parts that every object has.
pub(crate) trait Meta {
    fn meta(&self) -> Option<&Object>;
    fn meta_mut(&mut self) -> &mut Object;

    fn meta_str(&self, key: &str) -> &str {
        self.meta().and_then(|meta| meta.get(key)).and_then(Value::as_str).unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.meta_str("name")
    }

    fn namespace(&self) -> &str {
        self.meta_str("namespace")
    }

    fn uid(&self) -> &str {
        self.meta_str("uid")
    }

    fn generation(&self) -> i64 {
        self.meta().and_then(|meta| meta.get("generation")).and_then(Value::as_i64).unwrap_or(0)
    }

    fn set_generation(&mut self, generation: i64) {
        if generation > 0 {
            self.meta_mut().insert("generation".into(), generation.into());
        } else {
            self.meta_mut().remove("generation");
        }
    }

    fn is_being_deleted(&self) -> bool {
        !self.meta_str("deletionTimestamp").is_empty()
    }

    fn finalizers(&self) -> Vec<&str> {
        self.meta()
            .and_then(|meta| meta.get("finalizers"))
            .and_then(Value::as_array)
            .map(|list| list.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default()
    }

    fn set_finalizers(&mut self, finalizers: Vec<String>) {
        if finalizers.is_empty() {
            self.meta_mut().remove("finalizers");
        } else {
            self.meta_mut().insert("finalizers".into(), finalizers.into());
        }
    }
}

impl Meta for Object {
    fn meta(&self) -> Option<&Object> {
        self.get("metadata").and_then(Value::as_object)
    }

    fn meta_mut(&mut self) -> &mut Object {
        if !matches!(self.get("metadata"), Some(Value::Object(_))) {
            self.insert("metadata".into(), Value::Object(Map::new()));
        }
        match self.get_mut("metadata") {
            Some(Value::Object(meta)) => meta,
            _ => unreachable!("metadata was made an object above"),
        }
    }
}

/// Follows a dotted path of plain keys.
pub(crate) fn lookup<'a>(object: &'a Object, path: &str) -> Option<&'a Value> {
    let mut keys = path.split('.');
    let first = object.get(keys.next()?)?;
    keys.try_fold(first, |value, key| value.get(key))
}

/// Sets a key of a JSON object; anything else stays as it is.
pub(crate) fn set(document: &mut Value, key: &str, value: impl Into<Value>) {
    if let Value::Object(map) = document {
        map.insert(key.into(), value.into());
    }
}

/// The text at a dotted path, or nothing.
pub(crate) fn text<'a>(object: &'a Object, path: &str) -> &'a str {
    lookup(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The items of the list at a dotted path, or none.
pub(crate) fn list<'a>(object: &'a Object, path: &str) -> &'a [Value] {
    lookup(object, path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Canonical bytes, and the offset at which the resourceVersion belongs.
pub(crate) struct Canonical {
    pub(crate) bytes: Vec<u8>,
    pub(crate) offset: usize,
}

impl Canonical {
    /// Writes an object without its resourceVersion.
    pub(crate) fn of(object: &Object) -> Self {
        let mut bytes = Vec::with_capacity(512);
        let mut offset = 0;
        bytes.push(b'{');
        for key in ["kind", "apiVersion"] {
            write_entry(&mut bytes, key, object.get(key).unwrap_or(&Value::Null));
        }
        bytes.extend_from_slice(b",\"metadata\":{\"resourceVersion\":\"");
        offset += bytes.len();
        bytes.push(b'"');
        for (key, value) in object.meta().into_iter().flatten() {
            if key != "resourceVersion" {
                write_entry(&mut bytes, key, value);
            }
        }
        bytes.push(b'}');
        for (key, value) in object {
            if !matches!(key.as_str(), "kind" | "apiVersion" | "metadata") {
                write_entry(&mut bytes, key, value);
            }
        }
        bytes.push(b'}');
        Self { bytes, offset }
    }

    /// The bytes with a resourceVersion in place.
    pub(crate) fn stamped(&self, revision: &str) -> Bytes {
        let (before, after) = self.bytes.split_at(self.offset.min(self.bytes.len()));
        [before, revision.as_bytes(), after].concat().into()
    }

    /// Whether these are the bytes of an object at a revision, but for the revision itself.
    pub(crate) fn equals(&self, stamped: &[u8], revision: &str) -> bool {
        let (before, after) = self.bytes.split_at(self.offset.min(self.bytes.len()));
        let rest = stamped.strip_prefix(before).and_then(|rest| rest.strip_prefix(revision.as_bytes()));
        rest == Some(after)
    }

    /// For the store, which stamps it with the revision of its commit.
    pub(crate) fn into_draft(self) -> Draft {
        Draft::new(self.bytes, self.offset)
    }
}

fn write_entry(bytes: &mut Vec<u8>, key: &str, value: &Value) {
    if bytes.last() != Some(&b'{') {
        bytes.push(b',');
    }
    // Writing JSON to memory cannot fail: keys are strings and the values came from JSON.
    let _ = serde_json::to_writer(&mut *bytes, key);
    bytes.push(b':');
    let _ = crate::numbers::write_json(&mut *bytes, value);
}

/// A document as Kubernetes writes one: kind and apiVersion first, and a line end.
pub(crate) fn document(value: &Value) -> Vec<u8> {
    let Value::Object(map) = value else { return serde_json::to_vec(value).unwrap_or_default() };
    let mut bytes = vec![b'{'];
    for key in ["kind", "apiVersion"] {
        if let Some(value) = map.get(key) {
            write_entry(&mut bytes, key, value);
        }
    }
    for (key, value) in map {
        if !matches!(key.as_str(), "kind" | "apiVersion") {
            write_entry(&mut bytes, key, value);
        }
    }
    bytes.extend_from_slice(b"}\n");
    bytes
}

/// Parses bytes that the server wrote itself.
pub(crate) fn parse(bytes: &[u8]) -> Object {
    serde_json::from_slice(bytes).unwrap_or_default()
}

/// What the server wants to know of a stored object without parsing all of it.
#[derive(Debug, Default)]
pub(crate) struct Head {
    pub(crate) uid: Box<str>,
    pub(crate) labels: Vec<(Box<str>, Box<str>)>,
    pub(crate) owners: Vec<Owner>,
    pub(crate) deleting: bool,
}

/// An owner reference.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Owner {
    pub(crate) api_version: Box<str>,
    pub(crate) kind: Box<str>,
    pub(crate) name: Box<str>,
    pub(crate) uid: Box<str>,
    #[serde(default)]
    pub(crate) block_owner_deletion: Option<bool>,
}

#[derive(Default, Deserialize)]
struct HeadOnly {
    #[serde(default)]
    metadata: HeadMeta,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HeadMeta {
    uid: Box<str>,
    labels: std::collections::BTreeMap<Box<str>, Box<str>>,
    owner_references: Vec<Owner>,
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}

impl Facts for Head {
    fn derive(value: &Bytes) -> Self {
        let HeadOnly { metadata } = serde_json::from_slice(value).unwrap_or_default();
        Self {
            uid: metadata.uid,
            labels: metadata.labels.into_iter().collect(),
            owners: metadata.owner_references,
            deleting: metadata.deletion_timestamp.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Object {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn canonical_bytes_begin_with_the_kind_and_take_the_revision() {
        let object = object(json!({
            "data": {"b": "2", "a": "1"}, "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "x", "resourceVersion": "old"},
        }));
        assert_eq!(
            Canonical::of(&object).stamped("42"),
            r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"42","name":"x"},"data":{"a":"1","b":"2"}}"#
        );
    }

    #[test]
    fn the_head_holds_what_selectors_and_garbage_collection_ask() {
        let bytes = Bytes::from_static(
            br#"{"metadata":{"uid":"u","labels":{"b":"2","a":"1"},"deletionTimestamp":"t","ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"o"}]}}"#,
        );
        let head = Head::derive(&bytes);
        assert_eq!(&*head.uid, "u");
        assert_eq!(head.labels.len(), 2);
        assert!(head.deleting);
        assert_eq!(&*head.owners[0].uid, "o");
    }
}
