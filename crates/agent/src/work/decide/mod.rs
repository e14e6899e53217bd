//! The decisions of the work agent: which objects to write or delete, what to record, and what to report. All of it is
//! pure.

pub(super) mod action;
pub(super) mod applied_resources;
pub(super) mod deletion;
pub(super) mod drift;
pub(super) mod feedback;
pub(super) mod manifest;
pub(super) mod object_options;
pub(super) mod order;
pub(super) mod owners;
pub(super) mod status;
