//! Searches from text to rows. The rows of `tests/data/search.json` are what any store, and the API, must answer alike.

mod fixture;
mod language;
mod malformed;
#[cfg(feature = "real-postgres")]
mod postgres;
mod rows;
