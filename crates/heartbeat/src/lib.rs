//! Liveness of add-ons by heartbeat.
//!
//! An add-on sends a heartbeat by updating `status.lastHeartbeatTime` of its `AddonInstance`; `client` does that. With the
//! feature `controllers`, `checker` detects missing heartbeats and reports them in the condition `Healthy`, and `addon`
//! creates the namespaces and the instance of every `Addon`.

#[cfg(feature = "controllers")]
pub mod addon;
#[cfg(feature = "controllers")]
pub mod checker;
pub mod client;
pub mod duration;
#[cfg(feature = "controllers")]
mod lenient;
mod period;
pub mod vocabulary;

#[cfg(feature = "controllers")]
pub use lenient::LenientObject;
pub use period::{InvalidPeriod, Period};
