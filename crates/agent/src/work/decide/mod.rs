//! What is to be done for a work, and what is to be said of it. All of it is pure.

pub(super) mod feedback;
pub(super) mod manifest;
pub(super) mod order;
pub(super) mod owners;
pub(super) mod record;
pub(super) mod removal;
pub(super) mod report;
pub(super) mod rules;
pub(super) mod settled;
pub(super) mod step;
