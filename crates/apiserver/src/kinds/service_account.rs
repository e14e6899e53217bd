//! ServiceAccount: an identity for what runs in a namespace.

use super::{Names, describe};
use crate::registry::{Resource, Rules, Scope};
use crate::table::{age, name};

pub(super) fn resource() -> Resource {
    let names = Names {
        group: "",
        kind: "ServiceAccount",
        plural: "serviceaccounts",
        singular: "serviceaccount",
        short: &["sa"],
        shape: "core/v1.ServiceAccount",
    };
    Resource {
        columns: vec![name(), age()],
        ..describe(names, Scope::Namespaced, Rules { returns_deleted: true, ..Rules::default() })
    }
}
