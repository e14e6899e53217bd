//! Rollouts: at what pace the clusters of a placement change. `strategy` is what users ask for, `plan` which clusters may
//! start and what the others wait for. Both are pure: a rollout is planned from the objects at every step, and nothing
//! else is remembered.

mod plan;
mod strategy;
mod wait_reason;

pub use plan::{Counts, Member, Plan, State, Turn, Waiting, hold_all, plan};
pub use strategy::{Pace, Share, Strategy};
pub use wait_reason::WaitReason;
