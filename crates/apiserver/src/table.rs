//! Tables: what `kubectl get` prints. The columns of a kind are part of its description.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::negotiate::MetaVersion;
use crate::object::{Meta, Object};
use crate::registry::Resource;
use crate::times;

/// One column of a kind's table.
pub(crate) struct Column {
    name: &'static str,
    format: &'static str,
    priority: i32,
    cell: fn(&Object, Timestamp) -> Value,
}

impl Column {
    /// A column that is always shown.
    pub(crate) const fn text(name: &'static str, cell: fn(&Object, Timestamp) -> Value) -> Self {
        Self { name, format: "", priority: 0, cell }
    }

    /// A column that only wide output shows.
    pub(crate) const fn wide(name: &'static str, cell: fn(&Object, Timestamp) -> Value) -> Self {
        Self { name, format: "", priority: 1, cell }
    }

    /// The column holds the name of the object.
    pub(crate) const fn named(mut self) -> Self {
        self.format = "name";
        self
    }

    fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "type": "string",
            "format": self.format,
            "description": "",
            "priority": self.priority,
        })
    }
}

/// The column every table begins with.
pub(crate) const fn name() -> Column {
    Column { name: "Name", format: "name", priority: 0, cell: |object, _| object.name().into() }
}

/// How long ago the object was made.
pub(crate) const fn age() -> Column {
    Column::text("Age", |object, now| times::age(object.meta_str("creationTimestamp"), now).into())
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
    let cells: Vec<Value> = resource.columns.iter().map(|column| (column.cell)(&object, style.now)).collect();
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
