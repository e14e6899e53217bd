//! Simulates the status of workloads on clusters without nodes, for demos and tests: Deployments, StatefulSets and DaemonSets
//! become available and Jobs complete after a delay, with the status that the controllers of Kubernetes would write. It creates
//! no pods, and writes only `/status`.
//!
//! `decide` computes the status of an object at a stage of its rollout; `controller` watches, waits and writes. The stage depends
//! on how long ago the current generation of the object was first seen, which is kept only in memory: after a restart, a rollout
//! in progress starts its delay again, and a finished rollout stays finished.

mod behaviour;
mod controller;
mod decide;
mod workload;

pub use behaviour::{ANNOTATION, Behaviour, Unreadable};
pub use controller::Simulator;
