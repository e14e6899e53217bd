//! SQL functions that SQLite lacks for searches: case-sensitive patterns, the text of JSON values, exact numbers.

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, Result};

use super::decimal::Decimal;
use super::pattern::{Case, Pattern};

/// Adds the functions to a connection. Each returns NULL for NULL.
///
/// - `bw_like(text, pattern)` and `bw_ilike(text, pattern)`;
/// - `bw_text(json)`: the text of a JSON scalar, NULL for anything else;
/// - `bw_compare(json, number)`: -1, 0 or 1 for a JSON number, or a JSON string that is a plain decimal number, below, at or
///   above a number; NULL for anything else.
pub fn register(connection: &Connection) -> Result<()> {
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function("bw_like", 2, flags, |context| like(context, Case::Sensitive))?;
    connection.create_scalar_function("bw_ilike", 2, flags, |context| like(context, Case::Insensitive))?;
    connection
        .create_scalar_function("bw_text", 1, flags, |context| Ok(text_at(context, 0)?.and_then(text_of)))?;
    connection.create_scalar_function("bw_compare", 2, flags, compare)
}

fn like(context: &Context<'_>, case: Case) -> Result<Option<bool>> {
    let Some(text) = text_at(context, 0)? else { return Ok(None) };
    let pattern = context.get_or_create_aux(1, |value: ValueRef<'_>| -> Result<Option<Pattern>> {
        Ok(value.as_str_or_null()?.and_then(|pattern| Pattern::parse(pattern, case)))
    })?;
    Ok(pattern.as_ref().as_ref().map(|pattern| pattern.matches(text)))
}

fn compare(context: &Context<'_>) -> Result<Option<i64>> {
    let Some(left) = text_at(context, 0)?.and_then(number_of) else { return Ok(None) };
    let right = context.get_or_create_aux(1, |value: ValueRef<'_>| -> Result<Option<Decimal>> {
        Ok(value.as_str_or_null()?.and_then(Decimal::of_text))
    })?;
    Ok(right.as_ref().as_ref().map(|right| left.compare(right) as i64))
}

fn text_at<'a>(context: &'a Context<'_>, index: usize) -> Result<Option<&'a str>> {
    context.get_raw(index).as_str_or_null().map_err(|error| Error::UserFunctionError(Box::new(error)))
}

fn text_of(json: &str) -> Option<String> {
    match json.as_bytes().first()? {
        b'"' => serde_json::from_str(json).ok(),
        b't' | b'f' => Some(json.to_owned()),
        _ => Decimal::of_json(json).map(|number| number.to_string()),
    }
}

fn number_of(json: &str) -> Option<Decimal> {
    match json.as_bytes().first()? {
        b'"' => Decimal::of_text(&serde_json::from_str::<String>(json).ok()?),
        _ => Decimal::of_json(json),
    }
}
