//! Many reports become one root condition.
//!
//! [`severity`] where the worst report decides and order in time does not matter; [`generation`] where
//! reports speak of generations of an object that moves on while they are under way.

pub mod generation;
pub mod severity;
