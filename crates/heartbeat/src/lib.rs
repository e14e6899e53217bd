//! Liveness of add-ons by heartbeat.
//!
//! An add-on beats by stamping the status of its `AddonInstance`; `client` is how. With the feature `controllers`:
//! `checker` notices silence and says so in the condition `Healthy`, and `addon` provides the instance of every
//! `Addon`.

#[cfg(feature = "controllers")]
pub mod addon;
#[cfg(feature = "controllers")]
pub mod checker;
pub mod client;
pub mod duration;
#[cfg(feature = "controllers")]
mod loose;
mod period;
pub mod vocabulary;

#[cfg(feature = "controllers")]
pub use loose::Loose;
pub use period::{Period, Shortcoming};
