//! The search language of lists: parsed with exact positions of errors, checked against the existing columns, and compiled to SQL with
//! parameters. No text of the caller becomes part of the SQL.
//!
//! A search is made of comparisons, `and`, `or`, `not` and parentheses; `not` binds before `and`, `and` before `or`.
//! Keywords are written in any case.
//!
//! ```text
//! name like 'prod-%' and generation >= 2 and deleted_time is null
//! labels.env in ['prod', 'stage'] or spec.release.version > 9
//! status.conditions.Ready = 'False' and status.conditions.Ready.last_updated_time < '2026-01-31T12:00:00Z'
//! ```
//!
//! | field | compared with | by |
//! |---|---|---|
//! | `id kind name href created_by updated_by deleted_by owner_id owner_kind` | text | everything |
//! | `generation` | an integer | everything but `like`, `ilike` |
//! | `created_time updated_time deleted_time` | RFC 3339 or a date (midnight UTC), quoted or not | everything but `like`, `ilike` |
//! | `labels.<key>` | text | everything |
//! | `spec.<key>.<key>…` | text, a number, `true` or `false` | everything; `like`, `ilike` with text only, `true` and `false` by `=` and `!=` only |
//! | `status.conditions.<Type>` | `'True'`, `'False'`, `'Unknown'` | `=`, and not below `not` |
//! | `status.conditions.<Type>.<time>`, `.observed_generation` | a time, an integer | `= != < <= > >=`, and not below `not` |
//!
//! "Everything" is `= != < <= > >=`, `in [a, b]`, `between a and b`, `like`, `ilike`, `is null` and `is not null`.
//!
//! - **Text** stands in `'…'`, `"…"` or backticks; the quote itself is written twice, or after a backslash (`\\'`), except
//!   between backticks. Text is ordered by its bytes. `ilike`
//!   knows the case of `a` to `z` only. In patterns `%` is any text, `_` one character, and `\` takes the next character
//!   as it is.
//! - **Numbers** are exact: `12`, `-1.5`, `4Gi` (Ki Mi Gi Ti Pi, k M G T P).
//! - **What is not there compares as unknown**, as in SQL: neither `labels.env = 'prod'` nor `labels.env != 'prod'` nor
//!   `not labels.env = 'prod'` finds a resource without that label; `labels.env is null` does. The same holds for times and
//!   owners that are not set, and for a path below `spec` that is missing or has no value of the kind it is compared with.
//! - **Below `spec`** only keys of objects are followed. A number finds JSON numbers and strings that are plain decimal
//!   numbers; text finds strings, numbers and booleans by how they are written; objects and lists have no text.
//!   `is null` means that there is nothing, or a JSON null.
//! - **The two conditions of the whole** are found by either of their names: `Ready` and `Reconciled`, `Available` and
//!   `LastKnownReconciled`.
//! - **Two constants** can be compared, as in `'1' = '1'`.
//! - A search has at most 4096 characters, and asks for at most 16 labels and conditions; a long list of values is better
//!   written with `in` than with `or`.

mod check;
mod decimal;
pub mod fields;
mod filter;
pub mod functions;
pub(crate) mod keys;
mod lexer;
pub(crate) mod literal;
mod order;
mod parser;
mod pattern;
pub(crate) mod sql;
#[cfg(test)]
mod tests;

pub use fields::Fields;
pub use filter::Filter;
pub use order::{StatusOrder, parse_order};

/// The maximum length of a search in characters.
pub const LONGEST: usize = 4096;

/// An error of a search, an order, or a selection of fields. The messages are sent to the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// A syntax error.
    #[error("failed to parse search query: column {column}: {problem}")]
    Syntax {
        /// The position, in characters from 1.
        column: usize,
        /// What was expected, and what was there.
        problem: String,
    },
    /// A valid expression that is not supported here.
    #[error("unsupported {what} at column {column}")]
    Unsupported {
        /// The position, in characters from 1.
        column: usize,
        /// The unsupported part.
        what: String,
    },
    /// A comparison that the field does not support.
    #[error("{problem} (column {column})")]
    Meaning {
        /// The position, in characters from 1.
        column: usize,
        /// What the field expects.
        problem: String,
    },
    /// An invalid order.
    #[error("invalid order format: {0}")]
    Order(String),
    /// Unknown fields.
    #[error("The following field(s) doesn't exist in `Resource`: {0}")]
    Fields(String),
}

/// Quotes text of the caller in an error message, shortened to a line.
fn quoted(text: &str) -> String {
    const LONGEST: usize = 80;
    let shown: String =
        text.chars().take(LONGEST).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    let rest = if text.chars().nth(LONGEST).is_some() { "…" } else { "" };
    format!("'{shown}{rest}'")
}
