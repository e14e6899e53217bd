//! A CustomResourceDefinition that was checked, as the server uses it. Reading does not judge: what is missing or odd
//! was refused when the definition was written.

use std::cmp::Reverse;
use std::sync::Arc;

use bellwether_jsonpath::JsonPath;
use bellwether_store::Revision;
use serde_json::{Map, Value};

use super::shared::{Schemas, Shared};
use crate::cel::Rules;
use crate::field::FieldError;
use crate::numbers::Figure;
use crate::object::Object;
use crate::schema::Schema;

/// A definition, with its schemas and paths ready for use.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) group: String,
    pub(crate) names: Names,
    pub(crate) namespaced: bool,
    pub(crate) versions: Vec<Version>,
}

/// What a kind is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
}

/// One version of a kind.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) served: bool,
    pub(crate) storage: bool,
    /// What clients of a deprecated version are told.
    pub(crate) deprecation: Option<String>,
    pub(crate) schema: Arc<Schema>,
    /// The rules in the schema, ready for use once they are used.
    pub(crate) rules: Arc<Rules>,
    /// When the definition was last changed: objects from before may lack defaults that came with it.
    pub(crate) since: Revision,
    pub(crate) status: bool,
    pub(crate) scale: Option<Scale>,
    pub(crate) columns: Vec<PrinterColumn>,
    pub(crate) selectable: Vec<SelectableField>,
}

/// Where a kind keeps what `/scale` shows.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    pub(crate) spec_replicas: JsonPath,
    pub(crate) status_replicas: JsonPath,
    pub(crate) label_selector: Option<JsonPath>,
    spec_path: String,
    status_path: String,
    selector_path: Option<String>,
}

/// A column of the kind's table.
#[derive(Clone, Debug)]
pub(crate) struct PrinterColumn {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i64,
    pub(crate) path: JsonPath,
}

/// A field that objects can be selected by.
#[derive(Clone, Debug)]
pub(crate) struct SelectableField {
    /// As selectors name it: `spec.colour`.
    pub(crate) label: String,
    pub(crate) path: JsonPath,
}

impl Definition {
    /// Reads the `spec` of a stored definition; nothing, if it is not one that was checked.
    pub(crate) fn read(spec: &Map<String, Value>, since: Revision, schemas: &Schemas) -> Option<Self> {
        let names = Names::read(spec.get("names")?);
        let versions = spec.get("versions")?.as_array()?;
        let group = text(spec.get("group"));
        let versions: Option<Vec<Version>> = versions
            .iter()
            .map(|version| Version::read(version, &group, &names.kind, versions, since, schemas))
            .collect();
        Some(Self { group, names, namespaced: text(spec.get("scope")) == "Namespaced", versions: versions? })
    }

    /// The version in which objects are kept.
    pub(crate) fn storage(&self) -> Option<&Version> {
        self.versions.iter().find(|version| version.storage)
    }
}

impl Names {
    pub(crate) fn read(names: &Value) -> Self {
        Self {
            kind: text(names.get("kind")),
            list_kind: text(names.get("listKind")),
            plural: text(names.get("plural")),
            singular: text(names.get("singular")),
            short_names: texts(names.get("shortNames")),
            categories: texts(names.get("categories")),
        }
    }
}

impl Version {
    fn read(
        version: &Value,
        group: &str,
        kind: &str,
        all: &[Value],
        since: Revision,
        schemas: &Schemas,
    ) -> Option<Self> {
        let name = text(version.get("name"));
        let is = |key: &str| version.get(key) == Some(&Value::Bool(true));
        let Shared { schema, rules } = schemas.read(version.pointer("/schema/openAPIV3Schema")?)?;
        let deprecation = is("deprecated").then(|| match version.get("deprecationWarning") {
            Some(Value::String(words)) => words.clone(),
            _ => deprecation_words(group, &name, kind, all),
        });
        let columns = version.get("additionalPrinterColumns").and_then(Value::as_array);
        let selectable = version.get("selectableFields").and_then(Value::as_array);
        Some(Self {
            served: is("served"),
            storage: is("storage"),
            deprecation,
            schema,
            rules,
            since,
            status: version.pointer("/subresources/status").is_some_and(Value::is_object),
            scale: version.pointer("/subresources/scale").and_then(Scale::read),
            // A column that cannot be read ends the list, as in Kubernetes.
            columns: columns.into_iter().flatten().map_while(PrinterColumn::read).collect(),
            selectable: selectable.into_iter().flatten().filter_map(SelectableField::read).collect(),
            name,
        })
    }
}

/// Which version to use instead: the newest that is served and not deprecated.
fn deprecation_words(group: &str, version: &str, kind: &str, all: &[Value]) -> String {
    let good = |candidate: &&Value| {
        candidate.get("served") == Some(&Value::Bool(true))
            && candidate.get("deprecated") != Some(&Value::Bool(true))
    };
    let mut names: Vec<String> = all.iter().filter(good).map(|version| text(version.get("name"))).collect();
    names.sort_by_key(|name| Reverse(priority(name)));
    let words = format!("{group}/{version} {kind} is deprecated");
    match names.first() {
        Some(newest) if priority(newest) > priority(version) => {
            format!("{words}; use {group}/{newest} {kind}")
        }
        _ => words,
    }
}

/// How versions rank: stable before beta before alpha, then by number; anything else last, by name.
pub(crate) fn priority(version: &str) -> (u8, u64, u64, std::cmp::Reverse<String>) {
    let parsed = version.strip_prefix('v').and_then(|rest| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (major, rest) = rest.split_at(digits);
        let major: u64 = major.parse().ok()?;
        let (stability, minor) = match rest {
            "" => (3, "0"),
            rest => match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
                (Some(minor), _) => (2, minor),
                (_, Some(minor)) => (1, minor),
                _ => return None,
            },
        };
        let minor = if minor.is_empty() { 0 } else { minor.parse().ok()? };
        Some((stability, major, minor))
    });
    match parsed {
        Some((stability, major, minor)) => (stability, major, minor, std::cmp::Reverse(String::new())),
        None => (0, 0, 0, std::cmp::Reverse(version.to_owned())),
    }
}

impl Scale {
    /// Reads where the numbers are: `specReplicasPath`, `statusReplicasPath`, `labelSelectorPath`.
    pub(crate) fn read(scale: &Value) -> Option<Self> {
        let path = |key: &str| JsonPath::read(scale.get(key)?.as_str()?).ok();
        Some(Self {
            spec_replicas: path("specReplicasPath")?,
            status_replicas: path("statusReplicasPath")?,
            label_selector: path("labelSelectorPath"),
            spec_path: text(scale.get("specReplicasPath")),
            status_path: text(scale.get("statusReplicasPath")),
            selector_path: scale.get("labelSelectorPath").map(|path| text(Some(path))),
        })
    }
}

impl Scale {
    /// Whether an object says how many there should be; the words are Kubernetes' own.
    pub(crate) fn check_present(&self, object: &Object) -> Result<(), String> {
        match at(object, &self.spec_path) {
            Ok(Some(_)) => Ok(()),
            _ => Err(format!("the spec replicas field {:?} does not exist", self.spec_path)),
        }
    }

    /// What is wrong with the count that an object asks for.
    pub(crate) fn validate_spec(&self, object: &Object) -> Vec<FieldError> {
        count_error(object, &self.spec_path).into_iter().collect()
    }

    /// What is wrong with the count and the selector that an object tells.
    pub(crate) fn validate_status(&self, object: &Object) -> Vec<FieldError> {
        let selector = self.selector_path.as_ref().and_then(|path| match at(object, path) {
            Ok(None | Some(Value::String(_))) => None,
            Ok(Some(other)) => Some(FieldError::invalid(path, "", mistyped(path, other, "string"))),
            Err(why) => Some(FieldError::invalid(path, "", why)),
        });
        count_error(object, &self.status_path).into_iter().chain(selector).collect()
    }
}

fn count_error(object: &Object, path: &str) -> Option<FieldError> {
    let count = match at(object, path) {
        Ok(None) => return None,
        Ok(Some(value)) => match value.as_i64() {
            Some(count) => count,
            None => return Some(FieldError::invalid(path, 0, mistyped(path, value, "int64"))),
        },
        Err(why) => return Some(FieldError::invalid(path, 0, why)),
    };
    match i32::try_from(count) {
        Ok(0..) => None,
        _ if count < 0 => Some(FieldError::invalid(path, count, "should be a non-negative integer")),
        _ => {
            let words = format!("should be less than or equal to {}", i32::MAX);
            Some(FieldError::invalid(path, count, words))
        }
    }
}

/// The value at a plain path; the error says what stands in the way.
fn at<'o>(object: &'o Object, path: &str) -> Result<Option<&'o Value>, String> {
    let keys: Vec<&str> = path.trim_start_matches('.').split('.').collect();
    let mut found: Option<&Value> = None;
    for (depth, key) in keys.iter().enumerate() {
        found = match (depth, found) {
            (0, _) => object.get(*key),
            (_, Some(Value::Object(map))) => map.get(*key),
            (_, Some(Value::Null)) | (_, None) => return Ok(None),
            (_, Some(other)) => {
                let so_far = keys.get(..=depth).unwrap_or_default().join(".");
                return Err(mistyped(&format!(".{so_far}"), other, "map[string]interface{}"));
            }
        };
        if found.is_none() {
            return Ok(None);
        }
    }
    Ok(found)
}

fn mistyped(path: &str, found: &Value, wanted: &str) -> String {
    let kind = match found {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if matches!(Figure::of(number), Figure::Integer(_)) => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    format!("{path} accessor error: {} is of the type {kind}, expected {wanted}", as_go_prints(found))
}

/// A value as it stands in Kubernetes' messages about its type.
fn as_go_prints(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => Figure::of(number).to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(as_go_prints).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| format!("{key}:{}", as_go_prints(value)));
            format!("map[{}]", fields.collect::<Vec<_>>().join(" "))
        }
    }
}

impl PrinterColumn {
    fn read(column: &Value) -> Option<Self> {
        Some(Self {
            name: text(column.get("name")),
            kind: text(column.get("type")),
            format: text(column.get("format")),
            description: text(column.get("description")),
            priority: column.get("priority").and_then(Value::as_i64).unwrap_or(0),
            path: JsonPath::read(column.get("jsonPath")?.as_str()?).ok()?,
        })
    }
}

impl SelectableField {
    fn read(field: &Value) -> Option<Self> {
        let path = field.get("jsonPath")?.as_str()?;
        Some(Self { label: path.trim_start_matches('.').to_owned(), path: JsonPath::read(path).ok()? })
    }
}

fn text(value: Option<&Value>) -> String {
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn texts(value: Option<&Value>) -> Vec<String> {
    let list = value.and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn versions_rank_by_stability_then_number() {
        let mut versions = vec![
            "v1alpha1",
            "foo1",
            "v10",
            "v2beta1",
            "v1",
            "v11alpha2",
            "v3beta1",
            "foo10",
            "v12alpha1",
            "v2",
        ];
        versions.sort_by_key(|name| Reverse(priority(name)));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v3beta1", "v2beta1", "v12alpha1", "v11alpha2", "v1alpha1", "foo1", "foo10"]
        );
    }

    #[test]
    fn a_definition_is_read_whole() {
        let spec = json!({
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget", "shortNames": ["w"]},
            "versions": [
                {"name": "v1beta1", "served": true, "deprecated": true, "schema": {"openAPIV3Schema": {"type": "object"}}},
                {
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                    "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                    "additionalPrinterColumns": [{"name": "Colour", "type": "string", "jsonPath": ".spec.colour"}],
                    "selectableFields": [{"jsonPath": ".spec.colour"}],
                },
            ],
        });
        let definition =
            Definition::read(spec.as_object().unwrap(), Revision(0), &Schemas::default()).unwrap();
        assert_eq!(definition.storage().unwrap().name, "v1");
        let [old, new] = definition.versions.as_slice() else { panic!("two versions") };
        assert_eq!(
            old.deprecation.as_deref(),
            Some("example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget")
        );
        assert!(new.status && new.scale.is_some() && !old.status);
        assert_eq!(new.columns[0].name, "Colour");
        assert_eq!(new.selectable[0].label, "spec.colour");
    }
}
