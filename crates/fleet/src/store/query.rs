//! The SQL of lists for both databases: filter, order, page, and total count.
//!
//! The columns of `resources` that hold text have the collation "C" in PostgreSQL, and these indexes are expected:
//!
//! | index | for |
//! |---|---|
//! | `resources(kind, created_time, id)` | the default list of a kind, in its order, and its count |
//! | `resources(owner_id, kind, created_time, id)` | the children of a resource |
//! | `resources(kind, name, id)` | lists by name |
//! | `resource_conditions(type, status, resource_id)` | searches by the status of a condition |
//! | `resource_conditions(resource_id, type)`, unique | the same from the other end |
//! | `resource_labels(key, value, resource_id)` | searches by a label |
//! | `resource_labels(resource_id, key)`, unique | the same from the other end, and below `not` |

use serde_json::Value;

use super::{Column, Direction, Order, Query};
use crate::resource::Tenancy;
use crate::search::Filter;
use crate::search::sql::{Builder, Dialect, Parameter};

/// The columns of `resources`, in the order in which rows are read.
pub(crate) const COLUMNS: &str = "r.id, r.kind, r.name, r.href, r.owner_id, r.owner_kind, r.owner_href, r.spec, r.labels, \
    r.tenancy, r.generation, r.created_time, r.created_by, r.updated_time, r.updated_by, r.deleted_time, r.deleted_by";

/// SQL with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Statement {
    pub(crate) sql: String,
    pub(crate) parameters: Vec<Parameter>,
}

/// The two queries of a list.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ListStatements {
    /// The rows of the page: [`COLUMNS`].
    pub(crate) items: Statement,
    /// How many rows match: one row with one integer.
    pub(crate) total: Statement,
}

/// The SQL of a list.
pub(crate) fn list(query: &Query, dialect: Dialect) -> ListStatements {
    ListStatements { items: items(query, dialect), total: total(query, dialect) }
}

/// A tenancy as stored: compact JSON, sorted by key.
pub(crate) fn tenancy_text(tenancy: &Tenancy) -> String {
    let member = |(key, value): (&String, &String)| (key.clone(), Value::String(value.clone()));
    Value::Object(tenancy.iter().map(member).collect()).to_string()
}

fn items(query: &Query, dialect: Dialect) -> Statement {
    let mut builder = Builder::new(dialect);
    let matching = matching(query, &mut builder);
    let order = order_by(&query.order, dialect);
    let few = query.search.as_ref().is_some_and(Filter::matches_few);
    // A few rows are sorted. SQLite would scan all rows in their order instead; it uses no index to order by a computed value.
    let page_order = match dialect {
        Dialect::Sqlite if few => order.replace("r.", "+r."),
        Dialect::Sqlite | Dialect::Postgres => order.clone(),
    };
    let limit = builder.push(Parameter::Integer(query.page.size.into()));
    let offset = builder.push(Parameter::Integer(query.page.offset().try_into().unwrap_or(i64::MAX)));
    // The page is found by narrow entries of an index; only its own rows are read whole. SQLite keeps the order of a CROSS JOIN.
    let page =
        format!("SELECT r.id FROM resources r{matching} ORDER BY {page_order} LIMIT {limit} OFFSET {offset}");
    let sql = format!(
        "SELECT {COLUMNS} FROM ({page}) page CROSS JOIN resources r WHERE r.id = page.id ORDER BY {order}"
    );
    Statement { sql, parameters: builder.parameters }
}

fn total(query: &Query, dialect: Dialect) -> Statement {
    let mut builder = Builder::new(dialect);
    let sql = format!("SELECT count(*) FROM resources r{}", matching(query, &mut builder));
    Statement { sql, parameters: builder.parameters }
}

fn matching(query: &Query, builder: &mut Builder) -> String {
    let mut conditions = Vec::new();
    if let Some(kind) = &query.kind {
        conditions.push(format!("r.kind = {}", builder.text(kind)));
    }
    if let Some(owner) = query.owner {
        conditions.push(format!("r.owner_id = {}", builder.text(owner.to_string())));
    }
    if let Some(tenancy) = &query.tenancy {
        conditions.push(format!("r.tenancy = {}", builder.text(tenancy_text(tenancy))));
    }
    if let Some(search) = &query.search {
        conditions.push(search.sql(builder));
    }
    if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) }
}

/// The keys of the order and then the ID, newest first, so that the order is total and pages are stable.
fn order_by(orders: &[Order], dialect: Dialect) -> String {
    let newest_first = Order { column: Column::Id, direction: Direction::Descending };
    let has_id = orders.iter().any(|order| order.column == Column::Id);
    let last = (!has_id).then_some(&newest_first);
    orders.iter().chain(last).map(|order| order_key(*order, dialect)).collect::<Vec<_>>().join(", ")
}

fn order_key(order: Order, dialect: Dialect) -> String {
    let column = order.column;
    let collation = match (column.kind(), dialect) {
        (ColumnKind::Text, Dialect::Postgres) => " COLLATE \"C\"",
        _ => "",
    };
    // The databases order NULL differently; here NULL is the greatest value, as in PostgreSQL.
    let (direction, nulls) = match order.direction {
        Direction::Ascending => ("ASC", " NULLS LAST"),
        Direction::Descending => ("DESC", " NULLS FIRST"),
    };
    let nulls = if column.is_optional() { nulls } else { "" };
    format!("r.{}{collation} {direction}{nulls}", column.name())
}

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    Text,
    Integer,
    Time,
}

impl Column {
    pub(crate) const ALL: [Self; 13] = [
        Self::Id,
        Self::Kind,
        Self::Name,
        Self::Href,
        Self::Generation,
        Self::CreatedTime,
        Self::CreatedBy,
        Self::UpdatedTime,
        Self::UpdatedBy,
        Self::DeletedTime,
        Self::DeletedBy,
        Self::OwnerId,
        Self::OwnerKind,
    ];

    /// The name in the API and in the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Kind => "kind",
            Self::Name => "name",
            Self::Href => "href",
            Self::Generation => "generation",
            Self::CreatedTime => "created_time",
            Self::CreatedBy => "created_by",
            Self::UpdatedTime => "updated_time",
            Self::UpdatedBy => "updated_by",
            Self::DeletedTime => "deleted_time",
            Self::DeletedBy => "deleted_by",
            Self::OwnerId => "owner_id",
            Self::OwnerKind => "owner_kind",
        }
    }

    /// Finds a column by name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|column| column.name() == name)
    }

    /// All names, for error messages.
    pub(crate) fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    pub(crate) fn kind(self) -> ColumnKind {
        match self {
            Self::Generation => ColumnKind::Integer,
            Self::CreatedTime | Self::UpdatedTime | Self::DeletedTime => ColumnKind::Time,
            Self::Id | Self::Kind | Self::Name | Self::Href | Self::OwnerId | Self::OwnerKind => {
                ColumnKind::Text
            }
            Self::CreatedBy | Self::UpdatedBy | Self::DeletedBy => ColumnKind::Text,
        }
    }

    fn is_optional(self) -> bool {
        matches!(self, Self::DeletedTime | Self::DeletedBy | Self::OwnerId | Self::OwnerKind)
    }
}
