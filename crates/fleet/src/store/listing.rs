//! The SQL of lists.

pub(super) use super::query::{COLUMNS, list};
pub(super) use crate::search::sql::Dialect;
