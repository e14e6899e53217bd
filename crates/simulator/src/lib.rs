//! Workloads that become ready although nothing runs them: Deployments, StatefulSets and DaemonSets become available
//! and Jobs complete after a delay, with the status that Kubernetes' own controllers would write. No pod is made, and
//! nothing but `/status` is written. For demonstrations and tests on clusters that have no nodes.
//!
//! `decide` says which status an object should have at a stage of its rollout; `controller` watches, waits and
//! writes. The stage depends on the time since the object was first seen in its generation, which is only in memory:
//! after a restart a rollout that was under way begins its delay anew, and one that was over stays so.

mod behaviour;
mod controller;
mod decide;
mod workload;

pub use behaviour::{ANNOTATION, Behaviour, Unreadable};
pub use controller::Simulator;
