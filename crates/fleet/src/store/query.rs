//! The SQL of lists for both databases: filter, order, page, and total count.
//!
//! The columns of `resources` that hold text have the collation "C" in PostgreSQL, and these indexes are expected:
//!
//! | index | for |
//! |---|---|
//! | `resources(kind, created_time, id)` | the default list of a kind, in its order, and its count |
//! | `resources(owner_id, kind, created_time, id)` | the children of a resource |
//! | `resources(kind, name, id)` | lists by name |
//! | `resource_keys(field, value, kind, created_time, resource_id)` | searches for a value of a label, of a condition or in the spec |

use serde_json::Value;

use super::{Column, Direction, Order, Page, Query};
use crate::resource::Tenancy;
use crate::search::Filter;
use crate::search::keys::Key;
use crate::search::sql::{Builder, Dialect, Parameter};

/// The columns of a resource, in the order in which rows are read. Those of [`FROM`].
pub(crate) const COLUMNS: &str = "r.id, r.kind, r.name, r.href, r.owner_id, r.owner_kind, r.owner_href, r.spec, r.labels, \
    r.tenancy, r.generation, r.created_time, r.created_by, r.updated_time, r.updated_by, r.deleted_time, r.deleted_by, \
    s.conditions";
/// The tables of [`COLUMNS`].
pub(crate) const FROM: &str = "resources r JOIN resource_states s ON s.resource_id = r.id";

/// SQL with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Statement {
    pub(crate) sql: String,
    pub(crate) parameters: Vec<Parameter>,
}

/// How the resources of a list are found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum List<'a> {
    /// By a key, whose entries are in the order of the list.
    ByKey { key: Key, kind: &'a str, page: Page },
    /// By conditions on the resources.
    ByConditions(&'a Query),
}

/// Whether a resource of a kind has a long spec, so that keys do not find all resources: one row if there is one.
pub(crate) fn has_long_spec(kind: &str, dialect: Dialect) -> Statement {
    let mut builder = Builder::new(dialect);
    let matching = with_key(&Key::long_spec(), kind, &mut builder);
    Statement { sql: format!("SELECT 1 FROM {matching} LIMIT 1"), parameters: builder.parameters }
}

impl<'a> List<'a> {
    /// How to find the resources of a query.
    pub(crate) fn of(query: &'a Query) -> Self {
        let newest_first = Order { column: Column::CreatedTime, direction: Direction::Descending };
        let key = query.search.as_ref().and_then(Filter::key);
        match (key, &query.kind) {
            (Some(key), Some(kind))
                if query.owner.is_none() && query.tenancy.is_none() && query.order == [newest_first] =>
            {
                Self::ByKey { key, kind, page: query.page }
            }
            _ => Self::ByConditions(query),
        }
    }

    /// The kind whose long specs must be ruled out before the list is read by its key.
    pub(crate) fn kind_of_spec_key(&self) -> Option<&'a str> {
        match self {
            Self::ByKey { key, kind, .. } if key.is_of_spec() => Some(kind),
            Self::ByKey { .. } | Self::ByConditions(_) => None,
        }
    }

    /// The number of resources: one row with one integer.
    pub(crate) fn total(&self, dialect: Dialect) -> Statement {
        let mut builder = Builder::new(dialect);
        let sql = match self {
            Self::ByKey { key, kind, .. } => {
                format!("SELECT count(*) FROM {}", with_key(key, kind, &mut builder))
            }
            Self::ByConditions(query) => {
                format!("SELECT count(*) FROM resources r{}", matching(query, &mut builder))
            }
        };
        Statement { sql, parameters: builder.parameters }
    }

    /// The rows of the page: [`COLUMNS`] and `more`. `total` is the number of resources; without rows there is no statement.
    ///
    /// The page is found by narrow entries of an index, from the end that is nearer, and only its own rows are read whole.
    pub(crate) fn items(&self, total: u64, more: &str, dialect: Dialect) -> Option<Statement> {
        let page = match self {
            Self::ByKey { page, .. } => *page,
            Self::ByConditions(query) => query.page,
        };
        let window = Window::of(page, total)?;
        let mut builder = Builder::new(dialect);
        let (found, order) = match self {
            Self::ByKey { key, kind, .. } => {
                let direction = if window.from_end { "ASC" } else { "DESC" };
                let matching = with_key(key, kind, &mut builder);
                let found = format!(
                    "SELECT k.resource_id AS id FROM {matching} ORDER BY k.created_time {direction}, k.resource_id {direction}"
                );
                (found, "r.created_time DESC, r.id DESC".to_owned())
            }
            Self::ByConditions(query) => {
                let matching = matching(query, &mut builder);
                let order = order_by(&query.order, false, dialect);
                let mut page_order = order_by(&query.order, window.from_end, dialect);
                // A few rows are sorted. SQLite would scan all rows in their order instead; it uses no index to order by a
                // computed value.
                if dialect == Dialect::Sqlite && query.search.as_ref().is_some_and(Filter::matches_few) {
                    page_order = page_order.replace("r.", "+r.");
                }
                (format!("SELECT r.id FROM resources r{matching} ORDER BY {page_order}"), order)
            }
        };
        let limit = builder.push(Parameter::Integer(window.limit));
        let offset = builder.push(Parameter::Integer(window.offset));
        // SQLite keeps the order of a CROSS JOIN.
        let sql = format!(
            "SELECT {COLUMNS}{more} FROM ({found} LIMIT {limit} OFFSET {offset}) page CROSS JOIN {FROM} \
             WHERE r.id = page.id ORDER BY {order}"
        );
        Some(Statement { sql, parameters: builder.parameters })
    }
}

/// The entries of a page in an ordered index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    /// Whether entries are counted from the last one.
    from_end: bool,
    limit: i64,
    offset: i64,
}

impl Window {
    /// The window of a page among `total` entries; `None` if the page is empty.
    fn of(page: Page, total: u64) -> Option<Self> {
        let offset = page.offset();
        let limit = u64::from(page.size).min(total.saturating_sub(offset));
        let after = total.checked_sub(offset + limit).filter(|_| limit > 0)?;
        let from_end = after < offset;
        let skipped = if from_end { after } else { offset };
        Some(Self { from_end, limit: i64::try_from(limit).ok()?, offset: i64::try_from(skipped).ok()? })
    }
}

fn with_key(key: &Key, kind: &str, builder: &mut Builder) -> String {
    let [field, value, kind] = [&key.field, &key.value, kind].map(|text| builder.text(text));
    format!("resource_keys k WHERE k.field = {field} AND k.value = {value} AND k.kind = {kind}")
}

/// A tenancy as stored: compact JSON, sorted by key.
pub(crate) fn tenancy_text(tenancy: &Tenancy) -> String {
    let member = |(key, value): (&String, &String)| (key.clone(), Value::String(value.clone()));
    Value::Object(tenancy.iter().map(member).collect()).to_string()
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
fn order_by(orders: &[Order], reversed: bool, dialect: Dialect) -> String {
    let newest_first = Order { column: Column::Id, direction: Direction::Descending };
    let has_id = orders.iter().any(|order| order.column == Column::Id);
    let last = (!has_id).then_some(&newest_first);
    let keys = orders.iter().chain(last).map(|order| {
        let order = if reversed { order.reversed() } else { *order };
        order_key(order, dialect)
    });
    keys.collect::<Vec<_>>().join(", ")
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

impl Order {
    fn reversed(self) -> Self {
        let direction = match self.direction {
            Direction::Ascending => Direction::Descending,
            Direction::Descending => Direction::Ascending,
        };
        Self { direction, ..self }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_read_from_the_nearer_end() {
        let window = |number, size, total| {
            let window = Window::of(Page { number, size }, total)?;
            Some((window.from_end, window.limit, window.offset))
        };
        let rows = [
            ((1, 100, 100_000), Some((false, 100, 0))),
            ((500, 100, 100_000), Some((false, 100, 49_900))),
            ((501, 100, 100_000), Some((true, 100, 49_900))),
            ((1000, 100, 100_000), Some((true, 100, 0))),
            ((1000, 100, 99_950), Some((true, 50, 0))),
            ((1001, 100, 100_000), None),
            ((1, 100, 0), None),
            ((1, 100, 7), Some((false, 7, 0))),
            ((u32::MAX, u32::MAX, 5), None),
        ];
        for ((number, size, total), expected) in rows {
            assert_eq!(window(number, size, total), expected, "page {number} of {size} among {total}");
        }
    }
}
