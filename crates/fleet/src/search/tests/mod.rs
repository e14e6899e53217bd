//! Searches from text to rows.
