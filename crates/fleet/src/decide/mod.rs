//! What the fleet API decides, pure: which reports count ([`judge`]), what they add up to ([`aggregate`]), and what a batch
//! of commands makes of the resources it found ([`Batch`]). No database, no clock, no HTTP.

mod aggregate;
mod batch;
mod report;
mod same;

pub use aggregate::{Children, aggregate};
pub use batch::{Batch, Create, Owner, Patch, Refusal, Reported, Target};
pub use report::{Discard, Judgement, judge};
pub use same::same_json;
