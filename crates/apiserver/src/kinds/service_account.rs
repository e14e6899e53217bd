//! ServiceAccount: an identity for what runs in a namespace.

use crate::registry::{Resource, Rules};
use crate::table::{age, name};

pub(super) fn own(resource: Resource) -> Resource {
    Resource {
        columns: vec![name(), age()],
        rules: Rules { returns_deleted: true, ..Rules::default() },
        ..resource
    }
}
