//! The state tables of the add-on, pure: [`transition`] says which reason may replace which, [`state`] says which standard
//! condition two reasons make.

pub mod state;
pub mod transition;
