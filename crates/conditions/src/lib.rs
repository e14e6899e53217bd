//! The engine of Bellwether: status conditions, pure.
//!
//! Every job of Bellwether is the same loop: reports come in, one truthful condition goes out, silence counts,
//! and changes wait for it. This crate holds that loop once:
//!
//! | idea | question it answers |
//! |---|---|
//! | [`ConditionSet`] | what does this wish change, and since when does it hold? |
//! | [`guard`] | may this actor move the condition from where it stands? |
//! | [`fold::severity`] | which of many reports is the worst? |
//! | [`fold::generation`] | do all hold, at the same generation? |
//! | [`freshness`] | is the sender still alive, and when do I look again? |
//! | [`gate`] | may the change go on, and what does it wait for? |
//!
//! **Invariants.** Nothing here does I/O, reads a clock or knows a Kubernetes client: instants are handed in. A
//! refused, outdated or idle move is an outcome, not an error, and changes nothing. Names of jobs (which
//! conditions, which reasons, which actors) stay in the jobs.
//!
//! # Example
//!
//! An add-on falls silent; the silence becomes a condition, and the condition closes a gate.
//!
//! ```
//! use std::time::Duration;
//!
//! use bellwether_conditions::freshness::{Beat, Freshness};
//! use bellwether_conditions::gate::{Check, Finding, Gate, Ruling};
//! use bellwether_conditions::{ConditionSet, ConditionType, Desired, Outcome, Reason, Status, TransitionKey};
//!
//! const HEALTHY: ConditionType = ConditionType::constant("Healthy");
//!
//! let last_heard = "2024-05-01T06:07:53Z".parse()?;
//! let now = "2024-05-01T06:08:25Z".parse()?;
//! let beat = Beat::observe(None, last_heard, last_heard);
//! let mut conditions = ConditionSet::default();
//!
//! if Freshness::of_period(Duration::from_secs(10), 3).judge(Some(&beat), now).is_stale() {
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
//! let gate = Gate::evaluate(&checks, &[] as &[Ruling<&str>]);
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
mod names;
mod set;

pub use condition::{Condition, Desired, Status, shorten};
pub use names::{ConditionType, InvalidName, Reason};
pub use set::{ConditionSet, Outcome, TransitionKey};
