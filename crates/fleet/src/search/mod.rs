//! The search language of lists: parsed with exact positions of what is wrong, checked against the columns there are, and
//! compiled to SQL with parameters. No text of the caller ever becomes part of the SQL.

/// A search that was understood.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter;
