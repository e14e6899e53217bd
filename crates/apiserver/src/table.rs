//! Tables: what `kubectl get` prints. The columns of a kind are part of its description.

use std::borrow::Cow;

use bellwether_jsonpath::JsonPath;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::crd::PrinterColumn;
use crate::negotiate::MetaVersion;
use crate::object::{Meta, Object};
use crate::registry::Resource;
use crate::times;

/// One column of a kind's table.
pub(crate) struct Column {
    name: Cow<'static, str>,
    kind: Cow<'static, str>,
    format: Cow<'static, str>,
    description: Cow<'static, str>,
    priority: i64,
    cell: Cell,
}

/// Where the cells of a column come from.
enum Cell {
    Computed(fn(&Object, Timestamp) -> Value),
    /// What a path leads to.
    Found(JsonPath),
}

impl Column {
    /// A column that is always shown.
    pub(crate) const fn text(name: &'static str, cell: fn(&Object, Timestamp) -> Value) -> Self {
        Self::computed(name, "string", "", 0, cell)
    }

    /// A column of whole numbers.
    pub(crate) const fn integer(name: &'static str, cell: fn(&Object, Timestamp) -> Value) -> Self {
        Self::computed(name, "integer", "", 0, cell)
    }

    /// A column of yes and no.
    pub(crate) const fn boolean(name: &'static str, cell: fn(&Object, Timestamp) -> Value) -> Self {
        Self::computed(name, "boolean", "", 0, cell)
    }

    /// A column that only wide output shows.
    pub(crate) const fn wide(name: &'static str, cell: fn(&Object, Timestamp) -> Value) -> Self {
        Self::computed(name, "string", "", 1, cell)
    }

    const fn computed(
        name: &'static str,
        kind: &'static str,
        format: &'static str,
        priority: i64,
        cell: fn(&Object, Timestamp) -> Value,
    ) -> Self {
        Self {
            name: Cow::Borrowed(name),
            kind: Cow::Borrowed(kind),
            format: Cow::Borrowed(format),
            description: Cow::Borrowed(""),
            priority,
            cell: Cell::Computed(cell),
        }
    }

    /// A column that a CustomResourceDefinition asks for.
    pub(crate) fn printer(column: &PrinterColumn) -> Self {
        Self {
            name: column.name.clone().into(),
            kind: column.kind.clone().into(),
            format: column.format.clone().into(),
            description: column.description.clone().into(),
            priority: column.priority,
            cell: Cell::Found(column.path.clone()),
        }
    }

    /// The column holds the name of the object.
    pub(crate) fn named(mut self) -> Self {
        self.format = Cow::Borrowed("name");
        self
    }

    fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }

    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        match (&self.cell, object) {
            (Cell::Computed(compute), Value::Object(object)) => compute(object, now),
            (Cell::Computed(_), _) => Value::Null,
            (Cell::Found(path), object) => found_cell(&path.find(object), &self.kind, now),
        }
    }
}

/// A found value as a cell of a type; what does not fit the type is left empty.
fn found_cell(found: &[&Value], kind: &str, now: Timestamp) -> Value {
    let Some(first) = found.first() else { return Value::Null };
    match (kind, first) {
        ("integer", Value::Number(number)) => number.as_i64().map_or(Value::Null, Value::from),
        ("number", Value::Number(number)) => number.as_f64().map_or(Value::Null, Value::from),
        ("boolean", Value::Bool(value)) => (*value).into(),
        ("date", Value::String(text)) => match times::age(text, now) {
            unknown if unknown == "<unknown>" && !text.is_empty() => "<invalid>".into(),
            age => age.into(),
        },
        // Of several values only the first is shown.
        ("string", first) => text_of(first).into(),
        _ => Value::Null,
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The column every table begins with.
pub(crate) const fn name() -> Column {
    Column::computed("Name", "string", "name", 0, |object, _| object.name().into())
}

/// How long ago the object was made.
pub(crate) const fn age() -> Column {
    Column::text("Age", |object, now| times::age(object.meta_str("creationTimestamp"), now).into())
}

/// When the object was made.
pub(crate) const fn created_at() -> Column {
    Column::computed("Created At", "date", "", 0, |object, _| object.meta_str("creationTimestamp").into())
}

/// How much of each object a row carries along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Object,
}

impl Include {
    /// Reads `?includeObject=`.
    pub(crate) fn read(text: Option<&str>) -> Result<Self, String> {
        match text {
            None | Some("" | "Metadata") => Ok(Self::Metadata),
            Some("None") => Ok(Self::Nothing),
            Some("Object") => Ok(Self::Object),
            Some(other) => Err(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', 'Object', 'None', or empty"
            )),
        }
    }
}

/// How tables are written for one request.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    pub(crate) version: MetaVersion,
    pub(crate) include: Include,
    pub(crate) now: Timestamp,
}

/// The column definitions of a kind.
pub(crate) fn columns(resource: &Resource) -> Value {
    resource.columns.iter().map(Column::definition).collect()
}

/// The row of one object, which comes in its stored form.
pub(crate) fn row(resource: &Resource, object: Object, style: Style) -> Value {
    let value = Value::Object(object);
    let cells: Vec<Value> = resource.columns.iter().map(|column| column.cell(&value, style.now)).collect();
    let object = match value {
        Value::Object(object) => object,
        _ => Object::new(),
    };
    match style.include {
        Include::Nothing => json!({"cells": cells, "object": null}),
        Include::Metadata => json!({"cells": cells, "object": partial(object, style.version)}),
        Include::Object => json!({"cells": cells, "object": resource.to_served(object)}),
    }
}

/// A whole table around rows.
pub(crate) fn table(version: MetaVersion, metadata: Value, columns: Value, rows: Vec<Value>) -> Value {
    json!({
        "kind": "Table",
        "apiVersion": version.api_version(),
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": rows,
    })
}

/// An object with nothing but its metadata.
pub(crate) fn partial(mut object: Object, version: MetaVersion) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": version.api_version(),
        "metadata": object.remove("metadata").unwrap_or_default(),
    })
}
