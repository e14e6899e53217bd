//! The status of the observability add-on: whether a cluster forwards its metrics to the hub, without flapping.
//!
//! Three writers report about the add-on in its `ObservabilityAddon`: the endpoint operator, which deploys the metrics
//! collectors, and the two collectors. Each reports the state of a collector as the reason of a condition; a guard decides which
//! writer may replace which reason. The status controller combines the reasons into one standard condition that is True.
//!
//! | module | what it does |
//! |---|---|
//! | [`cluster_state`] | the state of a cluster as the hub shows it to people; pure |
//! | [`collector`] | the metrics collector, from Prometheus to the hub |
//! | [`vocabulary`] | components, reasons and condition types, and their spellings |
//! | [`decide`] | which change of a reason is allowed, and which state two reasons make; pure |
//! | [`operator`] | the endpoint operator of a cluster: runs the collectors that the add-on describes |
//! | [`status`] | the status controller of a cluster: the state of the add-on, and its copy on the hub |
//! | [`mirror`] | shows the state in the ManagedClusterAddOn of the hub |
//! | [`metrics`] | what the controllers report about themselves |
//! | [`reporter`] | the one way to report a reason |

pub mod cluster_state;
pub mod collector;
pub mod decide;
pub mod metrics;
pub mod mirror;
pub mod operator;
pub mod reporter;
pub mod status;
pub mod vocabulary;
mod yaml;
