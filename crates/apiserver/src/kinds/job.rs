//! Job and CronJob: stored, defaulted, checked and printed. Nothing runs them.

use serde_json::{Map, Value};

use super::cells::{each_text, number, or_none, selector};
use super::defaults::{Row, To, each, fill};
use super::workload::{containers, images, not_negative, selects};
use super::{blank_status, keep_status_apart, pod_spec};
use crate::field::FieldError;
use crate::object::{Meta, Object, lookup, text};
use crate::registry::{Change, Generations, Resource, Rules, Subresource};
use crate::selector::Selectable;
use crate::table::{Column, age, name};
use crate::times;

const JOB_NAME: usize = 63;
/// A CronJob's name, and eleven characters that its jobs add to it.
const CRON_JOB_NAME: usize = 52;
const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
const CRON_TEMPLATE: &str = "spec.jobTemplate.spec.template.spec";

pub(super) fn job(resource: Resource) -> Resource {
    Resource {
        selectable: vec![Selectable::number("status.successful", &["status.succeeded"])],
        columns: vec![
            name(),
            Column::text("Status", |object, _| state(object).into()),
            Column::text("Completions", |object, _| completions(object).into()),
            Column::text("Duration", |object, now| {
                let begun = text(object, "status.startTime");
                let ended = times::parse(text(object, "status.completionTime")).unwrap_or(now);
                if begun.is_empty() { "".into() } else { times::age(begun, ended).into() }
            }),
            age(),
            containers(),
            images(),
            selects(),
        ],
        rules: Rules {
            generations: Generations::Content,
            default: |object, _| default_job(object),
            prepare_create: |object, resource| {
                select_own_pods(object);
                blank_status(object, resource);
            },
            prepare_update: keep_status_apart,
            validate: validate_job,
            ..Rules::default()
        },
        ..resource
    }
}

pub(super) fn cron_job(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::text("Schedule", |object, _| text(object, "spec.schedule").into()),
            Column::text("Timezone", |object, _| or_none(text(object, "spec.timeZone"))),
            Column::boolean("Suspend", |object, _| {
                let suspended = lookup(object, "spec.suspend") == Some(&Value::Bool(true));
                if suspended { "True".into() } else { "False".into() }
            }),
            Column::integer("Active", |object, _| {
                lookup(object, "status.active").and_then(Value::as_array).map_or(0, Vec::len).into()
            }),
            Column::text("Last Schedule", |object, now| match text(object, "status.lastScheduleTime") {
                "" => "<none>".into(),
                last => times::age(last, now).into(),
            }),
            age(),
            Column::wide("Containers", |object, _| {
                each_text(object, "spec.jobTemplate.spec.template.spec.containers", "name")
            }),
            Column::wide("Images", |object, _| {
                each_text(object, "spec.jobTemplate.spec.template.spec.containers", "image")
            }),
            Column::wide("Selector", |object, _| selector(object, "spec.jobTemplate.spec.selector")),
        ],
        rules: Rules {
            generations: Generations::Content,
            default: |object, _| {
                fill(object, CRON_JOB);
                each(object, CRON_TEMPLATE, &mut pod_spec::default);
            },
            prepare_create: blank_status,
            prepare_update: keep_status_apart,
            validate: validate_cron_job,
            ..Rules::default()
        },
        ..resource
    }
}

const JOB: &[Row] = &[
    ("spec", "backoffLimit", To::Number(6)),
    ("spec", "completionMode", To::Text("NonIndexed")),
    ("spec", "manualSelector", To::No),
    ("spec", "podReplacementPolicy", To::Text("TerminatingOrFailed")),
    ("spec", "suspend", To::No),
];
const CRON_JOB: &[Row] = &[
    ("spec", "concurrencyPolicy", To::Text("Allow")),
    ("spec", "failedJobsHistoryLimit", To::Number(1)),
    ("spec", "successfulJobsHistoryLimit", To::Number(3)),
    ("spec", "suspend", To::No),
];

fn default_job(object: &mut Object) {
    each(object, "spec", &mut |spec| {
        // A number of completions without parallelism, or neither, means one at a time.
        if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
            spec.insert("completions".into(), 1.into());
        }
        spec.entry("parallelism").or_insert_with(|| 1.into());
    });
    fill(object, JOB);
    each(object, "spec.template.spec", &mut pod_spec::default);
}

/// The labels by which a job knows its pods, unless it brings its own selector.
fn select_own_pods(object: &mut Object) {
    if lookup(object, "spec.manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    let (uid, name) = (object.uid().to_owned(), object.name().to_owned());
    let own = [
        (CONTROLLER_UID, uid.clone()),
        ("batch.kubernetes.io/job-name", name.clone()),
        ("controller-uid", uid.clone()),
        ("job-name", name),
    ];
    let label = |meta: &mut Object| {
        let labels = meta.entry("labels").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(labels) = labels {
            labels.extend(own.iter().map(|(key, value)| ((*key).to_owned(), value.clone().into())));
        }
    };
    label(object.meta_mut());
    each(object, "spec.template.metadata", &mut |meta| label(meta));
    each(object, "spec", &mut |spec| {
        let selector = spec.entry("selector").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(selector) = selector {
            let labels = selector.entry("matchLabels").or_insert_with(|| Value::Object(Map::new()));
            crate::object::set(labels, CONTROLLER_UID, uid.clone());
        }
    });
}

fn state(object: &Object) -> &'static str {
    let conditions = lookup(object, "status.conditions").and_then(Value::as_array);
    let is = |kind: &str| {
        conditions.into_iter().flatten().any(|condition| {
            condition.get("type").and_then(Value::as_str) == Some(kind)
                && condition.get("status").and_then(Value::as_str) == Some("True")
        })
    };
    match () {
        () if is("Complete") => "Complete",
        () if is("Failed") => "Failed",
        () if object.is_being_deleted() => "Terminating",
        () if is("Suspended") => "Suspended",
        () if is("FailureTarget") => "FailureTarget",
        () if is("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(object: &Object) -> String {
    let succeeded = number(object, "status.succeeded");
    let parallelism = number(object, "spec.parallelism");
    match lookup(object, "spec.completions").and_then(Value::as_i64) {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    }
}

fn validate_job(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    if change.subresource == Some(Subresource::Status) {
        return Vec::new();
    }
    let mut errors = Vec::new();
    too_long(object, JOB_NAME, &mut errors);
    not_negative(
        object,
        &[
            "spec.parallelism",
            "spec.completions",
            "spec.activeDeadlineSeconds",
            "spec.backoffLimit",
            "spec.ttlSecondsAfterFinished",
        ],
        &mut errors,
    );
    validate_template(object, "spec.template.spec", &mut errors);
    let Some(old) = change.old else { return errors };
    for field in ["spec.completions", "spec.selector", "spec.template", "spec.completionMode"] {
        let now = lookup(object, field);
        if now != lookup(old, field) {
            let now = now.cloned().unwrap_or(Value::Null);
            errors.push(FieldError::invalid(field, now, "field is immutable"));
        }
    }
    errors
}

fn validate_cron_job(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    if change.subresource == Some(Subresource::Status) {
        return Vec::new();
    }
    let mut errors = Vec::new();
    too_long(object, CRON_JOB_NAME, &mut errors);
    const SCHEDULE: &str = "spec.schedule";
    match text(object, SCHEDULE) {
        "" => errors.push(FieldError::required(SCHEDULE, "")),
        schedule => {
            if let Some(problem) = schedule_problem(schedule) {
                errors.push(FieldError::invalid(SCHEDULE, schedule, problem));
            }
        }
    }
    const POLICIES: [&str; 3] = ["Allow", "Forbid", "Replace"];
    let policy = text(object, "spec.concurrencyPolicy");
    if !POLICIES.contains(&policy) {
        errors.push(FieldError::not_supported("spec.concurrencyPolicy", policy, &POLICIES));
    }
    not_negative(
        object,
        &["spec.successfulJobsHistoryLimit", "spec.failedJobsHistoryLimit", "spec.startingDeadlineSeconds"],
        &mut errors,
    );
    validate_template(object, CRON_TEMPLATE, &mut errors);
    errors
}

/// Five fields, or one of the words that stand for them.
fn schedule_problem(schedule: &str) -> Option<String> {
    if schedule.starts_with('@') {
        return None;
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    (fields.len() != 5)
        .then(|| format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")))
}

fn too_long(object: &Object, limit: usize, errors: &mut Vec<FieldError>) {
    if object.name().len() > limit {
        let detail = format!("must be no more than {limit} characters");
        errors.push(FieldError::invalid("metadata.name", object.name(), detail));
    }
}

fn validate_template(object: &Object, path: &str, errors: &mut Vec<FieldError>) {
    errors.extend(pod_spec::validate(lookup(object, path), path));
    let field = format!("{path}.restartPolicy");
    if matches!(text(object, &field), "Always" | "") {
        errors.push(FieldError::required(field, "valid values: \"OnFailure\", \"Never\""));
    }
}
