//! Reviews: questions about identity and access. They are asked and answered, and never kept.

use crate::registry::{Resource, Review};

pub(super) fn token(resource: Resource) -> Resource {
    asked(resource, Review::Token)
}

pub(super) fn self_subject(resource: Resource) -> Resource {
    asked(resource, Review::SelfSubject)
}

pub(super) fn access(resource: Resource) -> Resource {
    asked(resource, Review::Access)
}

pub(super) fn local_access(resource: Resource) -> Resource {
    asked(resource, Review::LocalAccess)
}

pub(super) fn self_access(resource: Resource) -> Resource {
    asked(resource, Review::SelfAccess)
}

pub(super) fn self_rules(resource: Resource) -> Resource {
    asked(resource, Review::SelfRules)
}

fn asked(resource: Resource, review: Review) -> Resource {
    Resource { review: Some(review), ..resource }
}
