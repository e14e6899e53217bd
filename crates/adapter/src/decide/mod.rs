//! Pure decisions: values of params, comparisons, what to do with an object, and what a payload says. Time is passed in.

mod drift;
mod job;
mod lookup;
mod operator;
mod param;
mod payload;
mod plan;

pub use job::{JOB_ATTEMPTS, JOB_RESULT_TTL, JOB_RUN_TIMEOUT};
pub use lookup::lookup;
pub use operator::Operator;
pub use param::convert;
pub use payload::{Built, Failure, build_payload};
pub use plan::{GENERATION, Plan, generation_of, plan};
