//! The condition engine: pure functions that set, guard, combine and age status conditions.
//!
//! All controllers do the same: they receive reports, write one condition, detect missing reports, and delay changes until
//! conditions hold. The rules for that are in this crate:
//!
//! | module | question it answers |
//! |---|---|
//! | [`ConditionSet`] | What does this update change, and does the transition time change? |
//! | [`guard`] | May this writer change the condition from its current reason to another? |
//! | [`fold::severity`] | Which of several reports is the worst? |
//! | [`fold::generation`] | Do all sources report success for the same generation? |
//! | [`freshness`] | Is the last heartbeat recent enough, and when does it become stale? |
//! | [`gate`] | May a change proceed, and what does it wait for? |
//!
//! **Invariants.** Nothing here does I/O, reads a clock or uses a Kubernetes client: timestamps are parameters. A denied or
//! outdated update is a result, not an error, and changes nothing. This crate does not define condition types, reasons or
//! writers; its users do.
//!
//! # Example
//!
//! An add-on stops sending heartbeats. The timeout becomes a condition, and the condition closes a gate.
//!
//! ```
//! use std::time::Duration;
//!
//! use bellwether_conditions::freshness::{Beat, Freshness};
//! use bellwether_conditions::gate::{Check, Finding, Gate, RiskDecision};
//! use bellwether_conditions::{ConditionSet, ConditionType, Desired, Outcome, Reason, Status, TransitionKey};
//!
//! const HEALTHY: ConditionType = ConditionType::constant("Healthy");
//!
//! let last_heartbeat = "2024-05-01T06:07:53Z".parse()?;
//! let now = "2024-05-01T06:08:25Z".parse()?;
//! let heartbeat = Beat::observe(None, last_heartbeat, last_heartbeat);
//! let mut conditions = ConditionSet::default();
//!
//! if Freshness::of_period(Duration::from_secs(10), 3).judge(Some(&heartbeat), now).is_stale() {
//!     let timeout = Desired::new(
//!         HEALTHY,
//!         Status::Unknown,
//!         Reason::constant("HeartbeatTimeout"),
//!         "Addon failed to send heartbeat.",
//!     );
//!     let outcome = conditions.upsert(timeout.observed_at(1), TransitionKey::Status, now);
//!     assert_eq!(outcome, Outcome::Added);
//! }
//!
//! let checks = [Check::must_hold("cluster1", Finding::of_condition(&conditions, &HEALTHY, 1))];
//! let gate = Gate::evaluate(&checks, &[] as &[RiskDecision<&str>]);
//! assert_eq!(
//!     gate.describe_unmet(),
//!     "cluster1: Healthy is Unknown: HeartbeatTimeout: Addon failed to send heartbeat.",
//! );
//! # Ok::<(), jiff::Error>(())
//! ```

mod condition;
pub mod fold;
pub mod freshness;
pub mod gate;
pub mod guard;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
mod names;
mod set;

pub use condition::{Condition, Desired, Status, shorten};
pub use names::{ConditionType, InvalidName, Reason};
pub use set::{ConditionSet, Outcome, TransitionKey};
