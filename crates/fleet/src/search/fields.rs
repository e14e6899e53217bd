//! The parameter `fields`: which fields of a resource the response has.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::SearchError;

/// A selection of fields of a resource. The ID is always included.
///
/// ```
/// use bellwether_fleet::search::Fields;
/// use serde_json::json;
///
/// let resource = json!({"id": "1", "name": "a", "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
/// let selected = Fields::parse(&["status.conditions.type"])?.apply(&resource);
/// assert_eq!(selected, json!({"id": "1", "status": {"conditions": [{"type": "Ready"}]}}));
/// # Ok::<(), bellwether_fleet::search::SearchError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields(Selection);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Selection {
    Everything,
    Only(BTreeMap<String, Selection>),
}

/// The fields below a field.
enum Shape {
    /// None.
    Scalar,
    /// These.
    Fields(&'static [(&'static str, Shape)]),
    /// One level of any keys, which may have dots.
    Keys,
    /// Any fields.
    Anything,
}

const CONDITION: Shape = Shape::Fields(&[
    ("type", Shape::Scalar),
    ("status", Shape::Scalar),
    ("reason", Shape::Scalar),
    ("message", Shape::Scalar),
    ("observed_generation", Shape::Scalar),
    ("created_time", Shape::Scalar),
    ("last_updated_time", Shape::Scalar),
    ("last_transition_time", Shape::Scalar),
]);

const RESOURCE: Shape = Shape::Fields(&[
    ("id", Shape::Scalar),
    ("kind", Shape::Scalar),
    ("name", Shape::Scalar),
    ("href", Shape::Scalar),
    (
        "owner_references",
        Shape::Fields(&[("id", Shape::Scalar), ("kind", Shape::Scalar), ("href", Shape::Scalar)]),
    ),
    ("spec", Shape::Anything),
    ("labels", Shape::Keys),
    ("tenancy", Shape::Keys),
    ("generation", Shape::Scalar),
    ("created_time", Shape::Scalar),
    ("created_by", Shape::Scalar),
    ("updated_time", Shape::Scalar),
    ("updated_by", Shape::Scalar),
    ("deleted_time", Shape::Scalar),
    ("deleted_by", Shape::Scalar),
    ("status", Shape::Fields(&[("conditions", CONDITION)])),
]);

/// The maximum number of names of a path.
const LONGEST_PATH: usize = 64;

impl Fields {
    /// Parses a selection: paths with dots, separated by commas or as several parts. A `*` at the end of a path selects all fields
    /// below.
    pub fn parse(parts: &[&str]) -> Result<Self, SearchError> {
        let mut selection = Selection::Only(BTreeMap::new());
        selection.add(&["id"]);
        let mut unknown: Vec<&str> = Vec::new();
        for path in parts.iter().flat_map(|part| part.split(',')).map(str::trim) {
            match names_of(path, &RESOURCE) {
                Some(names) => selection.add(&names),
                None if !unknown.contains(&path) => unknown.push(path),
                None => {}
            }
        }
        if unknown.is_empty() {
            return Ok(Self(selection));
        }
        let names: Vec<&str> =
            unknown.into_iter().map(|name| if name.is_empty() { "''" } else { name }).collect();
        Err(SearchError::Fields(names.join(", ")))
    }

    /// The selected fields of a resource, as far as they exist.
    pub fn apply(&self, resource: &Value) -> Value {
        self.0.apply(resource)
    }
}

/// The names of a path, without a `*` at its end; `None` if the field does not exist.
fn names_of<'a>(path: &'a str, shape: &Shape) -> Option<Vec<&'a str>> {
    let mut names = Vec::new();
    let (mut shape, mut rest) = (shape, Some(path));
    while let Some(path) = rest {
        let (name, after) = match (shape, path.split_once('.')) {
            (Shape::Keys, _) | (_, None) => (path, None),
            (_, Some((name, after))) => (name, Some(after)),
        };
        shape = match shape {
            Shape::Scalar => return None,
            _ if name.is_empty() || names.len() == LONGEST_PATH => return None,
            _ if name == "*" => return after.is_none().then_some(names),
            Shape::Fields(fields) => {
                fields.iter().find(|(field, _)| *field == name).map(|(_, shape)| shape)?
            }
            Shape::Keys => &Shape::Scalar,
            Shape::Anything => &Shape::Anything,
        };
        names.push(name);
        rest = after;
    }
    Some(names)
}

impl Selection {
    fn add(&mut self, names: &[&str]) {
        let Self::Only(fields) = self else { return };
        match names.split_first() {
            None => *self = Self::Everything,
            Some((name, rest)) => {
                fields.entry((*name).to_owned()).or_insert_with(|| Self::Only(BTreeMap::new())).add(rest);
            }
        }
    }

    fn apply(&self, value: &Value) -> Value {
        match (self, value) {
            (Self::Only(fields), Value::Object(object)) => Value::Object(select(fields, object)),
            (Self::Only(_), Value::Array(items)) => {
                let has_parts = |item: &&Value| item.is_object() || item.is_array();
                Value::Array(items.iter().filter(has_parts).map(|item| self.apply(item)).collect())
            }
            (_, value) => value.clone(),
        }
    }
}

fn select(fields: &BTreeMap<String, Selection>, object: &Map<String, Value>) -> Map<String, Value> {
    let wanted = |(name, value): (&String, &Value)| match fields.get(name)? {
        Selection::Only(_) if !value.is_object() && !value.is_array() => None,
        selection => Some((name.clone(), selection.apply(value))),
    };
    object.iter().filter_map(wanted).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn resource() -> Value {
        json!({
            "id": "1",
            "kind": "Cluster",
            "name": "a",
            "owner_references": {"id": "0", "kind": "Fleet", "href": "/fleets/0"},
            "spec": {"region": "eu", "release": {"version": 9, "channel": "stable"}, "pools": [{"name": "x", "size": 1}, 7]},
            "labels": {"app.kubernetes.io/name": "n", "env": "prod"},
            "generation": 1,
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Available", "status": "False"}]},
        })
    }

    #[rstest]
    #[case::the_id_is_always_there(&["name"], json!({"id": "1", "name": "a"}))]
    #[case::a_list(&["name, kind"], json!({"id": "1", "name": "a", "kind": "Cluster"}))]
    #[case::repeated(&["name", "kind"], json!({"id": "1", "name": "a", "kind": "Cluster"}))]
    #[case::what_is_not_set_is_not_there(&["deleted_time"], json!({"id": "1"}))]
    #[case::a_whole_object(&["labels"], json!({"id": "1", "labels": {"app.kubernetes.io/name": "n", "env": "prod"}}))]
    #[case::a_label_with_dots(&["labels.app.kubernetes.io/name"], json!({"id": "1", "labels": {"app.kubernetes.io/name": "n"}}))]
    #[case::below_spec(&["spec.release.version"], json!({"id": "1", "spec": {"release": {"version": 9}}}))]
    #[case::a_list_below_spec(&["spec.pools.name"], json!({"id": "1", "spec": {"pools": [{"name": "x"}]}}))]
    #[case::missing_below_spec(&["spec.other.x"], json!({"id": "1", "spec": {}}))]
    #[case::below_a_scalar(&["spec.region.x"], json!({"id": "1", "spec": {}}))]
    #[case::a_star(&["spec.release.*"], json!({"id": "1", "spec": {"release": {"version": 9, "channel": "stable"}}}))]
    #[case::a_star_below_labels(&["labels.*"], json!({"id": "1", "labels": {"app.kubernetes.io/name": "n", "env": "prod"}}))]
    #[case::the_owner(&["owner_references.kind"], json!({"id": "1", "owner_references": {"kind": "Fleet"}}))]
    #[case::into_lists(&["status.conditions.type"], json!({"id": "1", "status": {"conditions": [{"type": "Ready"}, {"type": "Available"}]}}))]
    #[case::parent_includes_its_fields(&["status.conditions.type,status.conditions"], json!({"id": "1", "status": resource()["status"]}))]
    #[case::parent_includes_its_fields_in_either_order(&["status", "status.conditions.type"], json!({"id": "1", "status": resource()["status"]}))]
    #[case::everything(&["*"], resource())]
    fn fields_are_selected(#[case] parts: &[&str], #[case] expected: Value) {
        assert_eq!(Fields::parse(parts).unwrap().apply(&resource()), expected);
    }

    #[rstest]
    #[case::a_field("x", "x")]
    #[case::several("x, name, y,x", "x, y")]
    #[case::below_a_scalar("name.x", "name.x")]
    #[case::a_star_below_a_scalar("name.*", "name.*")]
    #[case::below_a_known_object("status.phase", "status.phase")]
    #[case::below_a_condition("status.conditions.x", "status.conditions.x")]
    #[case::below_the_owner("owner_references.name", "owner_references.name")]
    #[case::a_star_inside("spec.*.x", "spec.*.x")]
    #[case::a_dot_at_the_end("spec.", "spec.")]
    #[case::two_dots("spec..x", "spec..x")]
    #[case::no_key("labels.", "labels.")]
    #[case::nothing("", "''")]
    #[case::upper_case("Name", "Name")]
    fn unknown_field_is_an_error_that_names_it(#[case] part: &str, #[case] named: &str) {
        let expected = format!("The following field(s) doesn't exist in `Resource`: {named}");
        assert_eq!(Fields::parse(&[part]).unwrap_err().to_string(), expected);
    }

    #[test]
    fn too_long_path_is_an_error() {
        let path = format!("spec{}", ".a".repeat(5000));
        assert!(Fields::parse(&[&path]).is_err());
    }
}
