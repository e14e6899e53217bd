//! How an add-on says that it is alive.
//!
//! An [`Instance`] is the add-on's `AddonInstance`, its place in the cluster. [`Instance::pulse`] stamps it once;
//! [`Instance::set_conditions`] also says how the add-on is. A [`Reporter`] repeats that as often as the instance asks
//! for, until it is stopped. Silence is noticed by others: see `checker`.
//!
//! The add-on's ServiceAccount needs two rights in its own namespace: `get` on `addoninstances` and `update` on
//! `addoninstances/status`.
//!
//! # Example
//!
//! ```no_run
//! use bellwether_conditions::{Desired, Reason, Status};
//! use bellwether_heartbeat::client::{Error, Instance, Reporter};
//! use bellwether_heartbeat::vocabulary::instance::HEALTHY;
//!
//! const COMPONENTS_UP: Reason = Reason::constant("ComponentsUp");
//! const COMPONENT_DOWN: Reason = Reason::constant("ComponentDown");
//!
//! # async fn add_on(client: kube::Client) -> Result<(), Error> {
//! let instance = Instance::in_namespace(client, "reference-addon");
//! let well = Desired::new(HEALTHY, Status::True, COMPONENTS_UP, "Reference Addon is operational.");
//! let reporter = Reporter::start(instance, vec![well]);
//!
//! // Whenever something changes, say so; it is sent at once and repeated from then on.
//! let down = Desired::new(HEALTHY, Status::False, COMPONENT_DOWN, "Component X is non-operational!");
//! reporter.set_conditions(vec![down]).await?;
//!
//! // Before the add-on ends, the last word is sent once more.
//! reporter.stop().await
//! # }
//! ```

mod edit;
mod error;
mod instance;
mod pace;
mod reporter;

pub use error::{Attempt, Error};
pub use instance::{Instance, Sent};
pub use reporter::{Failure, Health, Reporter};
