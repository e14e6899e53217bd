//! The SQL of lists.

use super::{Column, Direction, Query};
use crate::resource::Tenancy;

/// The columns of a resource, in the order in which rows are read.
pub(super) const COLUMNS: &str = "r.id, r.kind, r.name, r.href, r.owner_id, r.owner_kind, r.owner_href, r.spec, r.labels, \
    r.tenancy, r.generation, r.created_time, r.created_by, r.updated_time, r.updated_by, r.deleted_time, r.deleted_by";

/// Which database the SQL is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Sqlite,
    #[cfg(feature = "postgres")]
    Postgres,
}

/// A value that the SQL refers to by its place.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Parameter {
    Text(String),
    Integer(i64),
}

/// SQL and its values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Statement {
    pub(super) sql: String,
    pub(super) parameters: Vec<Parameter>,
}

/// One page, and the count of all.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ListStatements {
    pub(super) items: Statement,
    pub(super) total: Statement,
}

/// The statements of a list.
pub(super) fn list(query: &Query, dialect: Dialect) -> ListStatements {
    let mut parameters = Vec::new();
    let mut conditions = vec!["TRUE".to_owned()];
    let place = |parameters: &mut Vec<Parameter>, value: Parameter| {
        parameters.push(value);
        match dialect {
            Dialect::Sqlite => format!("?{}", parameters.len()),
            #[cfg(feature = "postgres")]
            Dialect::Postgres => format!("${}", parameters.len()),
        }
    };
    if let Some(kind) = &query.kind {
        conditions.push(format!("r.kind = {}", place(&mut parameters, Parameter::Text(kind.clone()))));
    }
    if let Some(owner) = query.owner {
        conditions
            .push(format!("r.owner_id = {}", place(&mut parameters, Parameter::Text(owner.to_string()))));
    }
    if let Some(tenancy) = &query.tenancy {
        conditions
            .push(format!("r.tenancy = {}", place(&mut parameters, Parameter::Text(canonical(tenancy)))));
    }
    let filter = conditions.join(" AND ");
    let total = Statement {
        sql: format!("SELECT count(*) FROM resources r WHERE {filter}"),
        parameters: parameters.clone(),
    };
    let size = place(&mut parameters, Parameter::Integer(i64::from(query.page.size)));
    let offset = i64::try_from(query.page.offset()).unwrap_or(i64::MAX);
    let offset = place(&mut parameters, Parameter::Integer(offset));
    let sql = format!(
        "SELECT {COLUMNS} FROM resources r WHERE {filter} ORDER BY {} LIMIT {size} OFFSET {offset}",
        order(query)
    );
    ListStatements { items: Statement { sql, parameters }, total }
}

fn canonical(tenancy: &Tenancy) -> String {
    serde_json::to_string(tenancy).unwrap_or_default()
}

fn order(query: &Query) -> String {
    let keys = query.order.iter().map(|order| {
        let direction = match order.direction {
            Direction::Ascending => "ASC NULLS FIRST",
            Direction::Descending => "DESC NULLS LAST",
        };
        format!("{} {direction}", name(order.column))
    });
    keys.chain(["r.id DESC".to_owned()]).collect::<Vec<_>>().join(", ")
}

fn name(column: Column) -> &'static str {
    match column {
        Column::Id => "r.id",
        Column::Kind => "r.kind",
        Column::Name => "r.name",
        Column::Href => "r.href",
        Column::Generation => "r.generation",
        Column::CreatedTime => "r.created_time",
        Column::CreatedBy => "r.created_by",
        Column::UpdatedTime => "r.updated_time",
        Column::UpdatedBy => "r.updated_by",
        Column::DeletedTime => "r.deleted_time",
        Column::DeletedBy => "r.deleted_by",
        Column::OwnerId => "r.owner_id",
        Column::OwnerKind => "r.owner_kind",
    }
}
