//! An add-on on its clusters: how far each is, what it waits for, and what is to be done.
//!
//! `decide` has the tables; `world` is what the watches have shown and what follows from it; `controller`
//! watches, `reconcile` writes; `summary` is the add-on as a whole.

mod controller;
pub mod decide;
mod reconcile;
mod summary;

pub mod world;

pub use controller::{NAME, run};
