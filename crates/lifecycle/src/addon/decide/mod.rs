//! What becomes of an add-on on one cluster: pure functions from what was read to what is to be said and done.
//!
//! `works` tells where each work stands, `progress` has the table of `spec/lifecycle.md` 3.3, `available` folds all that
//! is known into one condition.

pub mod available;
pub mod progress;
