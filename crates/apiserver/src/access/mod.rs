//! Who may do what: Kubernetes' RBAC. `wish` is what somebody wants, `rule` what a role allows, `policy` all roles and
//! bindings of a logical cluster, ready to be asked, `escalation` keeps people from granting what they do not have.
//! Nothing is allowed that no rule allows; who somebody is was decided before.

mod aggregation;
pub(crate) mod bootstrap;
mod escalation;
mod policy;
mod request;
mod rule;
mod wish;

pub(crate) use aggregation::{aggregated, is_aggregated};
pub(crate) use escalation::check as check_escalation;
pub(crate) use policy::{Policies, Policy};
pub(crate) use request::Asked;
pub(crate) use rule::Rule;
pub(crate) use wish::{On, Wish};

/// The API group of roles and bindings.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";
