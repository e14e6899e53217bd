//! The decisions of the fleet API: which reports are accepted ([`judge`]), the conditions computed from them ([`aggregate`]), and the
//! result of a batch of commands ([`Batch`]). It is pure: no database, no clock, no HTTP.

mod aggregate;
mod batch;
mod report;
mod same;

pub use aggregate::{Children, aggregate};
pub use batch::{Batch, Create, Owner, Patch, Refusal, Reported, Target};
pub use report::{Discard, Judgement, judge};
pub use same::same_json;
