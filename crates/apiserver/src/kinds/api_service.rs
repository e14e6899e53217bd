//! APIService: where Kubernetes would send the requests of a group to. Clients look for the kind; this server answers
//! everything itself, so there is none, and none can be made.

use super::cells::or;
use crate::field::FieldError;
use crate::object::{list, text};
use crate::registry::{Resource, Rules};
use crate::table::{Column, age, name};

pub(super) fn own(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::text("Service", |object, _| or(text(object, "spec.service.name"), "Local")),
            Column::text("Available", |object, _| {
                let conditions = list(object, "status.conditions").iter();
                let available = conditions
                    .rev()
                    .find(|condition| super::cells::text_of(condition, "type") == "Available");
                available.map_or("Unknown", |condition| super::cells::text_of(condition, "status")).into()
            }),
            age(),
        ],
        rules: Rules {
            validate: |_, _| {
                vec![FieldError::forbidden(
                    "spec",
                    "this server answers every group itself and sends none elsewhere",
                )]
            },
            ..Rules::default()
        },
        ..resource
    }
}
