//! Pure decisions about an add-on on one cluster: `progress` decides how far a change of version is (the table of
//! `spec/lifecycle.md` 3.3), `available` computes the condition Available. Reading and writing objects is left to the controller.

pub mod available;
pub mod progress;
