//! Rollouts: at what pace the clusters of a placement change. `strategy` is what people ask for; `plan` is whose turn it
//! is, and what the others wait for. Both are pure: a rollout is worked out anew at every step, from the add-ons alone.

mod plan;
mod strategy;

pub use plan::{Counts, Member, Plan, State, Waiting, is_stopped, plan};
pub use strategy::{Pace, Share, Strategy};
