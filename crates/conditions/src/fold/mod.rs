//! Combines several reports into one condition.
//!
//! With [`severity`] the worst report decides, in any order of arrival. With [`generation`] each report is about one generation
//! of an object, and the object may change before all sources have reported.

pub mod generation;
pub mod severity;
