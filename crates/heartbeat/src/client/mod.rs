//! The client with which an add-on sends heartbeats.
//!
//! An [`Instance`] is the `AddonInstance` of the add-on. [`Instance::send_heartbeat`] sends one heartbeat;
//! [`Instance::set_conditions`] also reports the health of the add-on. A [`Reporter`] repeats both at the period of the
//! instance until it is stopped. Missing heartbeats are detected elsewhere: see `checker`.
//!
//! The add-on's ServiceAccount needs two permissions in its own namespace: `get` on `addoninstances` and `update` on
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
//! let healthy = Desired::new(HEALTHY, Status::True, COMPONENTS_UP, "Reference Addon is operational.");
//! let reporter = Reporter::start(instance, vec![healthy]);
//!
//! // New conditions are sent at once, and repeated with every heartbeat from then on.
//! let down = Desired::new(HEALTHY, Status::False, COMPONENT_DOWN, "Component X is non-operational!");
//! reporter.set_conditions(vec![down]).await?;
//!
//! // A last heartbeat with the same conditions, before the add-on exits.
//! reporter.stop().await
//! # }
//! ```

mod edit;
mod error;
mod instance;
mod reporter;
mod timing;

pub use error::{Error, Operation};
pub use instance::{Instance, SentHeartbeat};
pub use reporter::{Failure, Health, Reporter};
