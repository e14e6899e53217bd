//! From the definitions that are stored to the kinds that are served: which names are accepted, and what each version
//! of a kind looks like. A pure function of the definitions, so that a kind is served the moment its definition is.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use bellwether_store::Revision;
use serde_json::{Map, Value, json};

use super::definition::{Definition, Names, Version, priority};
use super::shared::Schemas;
use crate::field::{FieldError, Wrong};
use crate::object::{Meta, Object, set};
use crate::registry::{
    Change, Generations, Registry, Resource, Rules, Scope, Storage, Subresource, Typing, group_version,
};
use crate::selector::Selectable;
use crate::table::{Column, age, name};

/// A stored definition.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) name: Arc<str>,
    pub(crate) created: Revision,
    pub(crate) revision: Revision,
    generation: i64,
    /// Nothing, if it cannot be served.
    definition: Option<Arc<Definition>>,
    pub(crate) deleting: bool,
}

impl Stored {
    /// Reads a stored definition. One that is known and of the same generation changed in nothing that is served.
    pub(crate) fn read(entry: &crate::collection::Stored, known: Option<&Self>, schemas: &Schemas) -> Self {
        let object = crate::object::parse(entry.value());
        let generation = object.generation();
        let known = known.filter(|known| known.generation == generation && known.created == entry.created());
        let definition = match known {
            Some(known) => known.definition.clone(),
            None => {
                let spec = object.get("spec").and_then(Value::as_object);
                spec.and_then(|spec| Definition::read(spec, entry.revision(), schemas)).map(Arc::new)
            }
        };
        Self {
            name: entry.path().clone(),
            created: entry.created(),
            revision: entry.revision(),
            generation,
            definition,
            deleting: object.is_being_deleted(),
        }
    }
}

/// What became of a definition's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Acceptance {
    Accepted(Names),
    /// The reason and the words of the condition.
    Refused {
        reason: &'static str,
        message: String,
        /// Those that nobody else has.
        accepted: Names,
    },
}

/// What the definitions make of a registry.
pub(crate) struct Served {
    pub(crate) registry: Registry,
    pub(crate) acceptances: BTreeMap<Arc<str>, Acceptance>,
}

/// The built-in kinds, and those that definitions add. Older definitions keep names that newer ones also want.
pub(crate) fn serve(builtins: &Registry, definitions: &[Stored]) -> Served {
    let mut by_age: Vec<&Stored> = definitions.iter().collect();
    by_age.sort_by_key(|stored| stored.created);
    // Nobody redefines a built-in kind: its objects are what the server itself goes by.
    let mut taken: Vec<(String, Names)> =
        builtins.all().iter().map(|resource| (resource.group.clone(), names_of(resource))).collect();
    let mut acceptances = BTreeMap::new();
    let mut accepted: Vec<(&Stored, &Definition)> = Vec::new();
    for stored in by_age {
        let Some(definition) = &stored.definition else { continue };
        let others = taken.iter().filter(|(group, _)| *group == definition.group).map(|(_, names)| names);
        let acceptance = accept(&definition.names, others);
        if let Acceptance::Accepted(names) = &acceptance {
            taken.push((definition.group.clone(), names.clone()));
            accepted.push((stored, definition));
        }
        acceptances.insert(stored.name.clone(), acceptance);
    }
    accepted.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    let custom = accepted.into_iter().flat_map(|(stored, definition)| resources(stored, definition));
    Served { registry: builtins.with(custom.map(Arc::new).collect()), acceptances }
}

fn names_of(resource: &Resource) -> Names {
    Names {
        plural: resource.plural.clone(),
        singular: resource.singular.clone(),
        short_names: resource.short_names.clone(),
        kind: resource.kind.clone(),
        list_kind: resource.list_kind.clone(),
        ..Names::default()
    }
}

/// Each name is judged for itself; of several that are taken, the last in this order is told.
fn accept<'n>(wanted: &Names, others: impl Iterator<Item = &'n Names>) -> Acceptance {
    let mut called: Vec<&String> = Vec::new();
    let mut kinds: Vec<&String> = Vec::new();
    for other in others {
        called.extend([&other.plural, &other.singular].into_iter().chain(&other.short_names));
        kinds.extend([&other.kind, &other.list_kind]);
    }
    let in_use = |name: &str| format!("{name:?} is already in use");
    let mut accepted = Names { categories: wanted.categories.clone(), ..Names::default() };
    let mut refused = None;
    let mut judge = |taken: &[&String], name: &String, place: &mut String, reason: &'static str| {
        if taken.contains(&name) {
            refused = Some((reason, in_use(name)));
        } else {
            *place = name.clone();
        }
    };
    judge(&called, &wanted.plural, &mut accepted.plural, "PluralConflict");
    judge(&called, &wanted.singular, &mut accepted.singular, "SingularConflict");
    let conflicts: Vec<&String> = wanted.short_names.iter().filter(|short| called.contains(short)).collect();
    let mut shorts = String::new();
    if let Some(first) = conflicts.first() {
        judge(&called, first, &mut shorts, "ShortNamesConflict");
    } else {
        accepted.short_names = wanted.short_names.clone();
    }
    judge(&kinds, &wanted.kind, &mut accepted.kind, "KindConflict");
    judge(&kinds, &wanted.list_kind, &mut accepted.list_kind, "ListKindConflict");
    match refused {
        Some((reason, message)) => Acceptance::Refused { reason, message, accepted },
        None => Acceptance::Accepted(accepted),
    }
}

/// One resource a served version, the highest first.
fn resources(stored: &Stored, definition: &Definition) -> Vec<Resource> {
    let Some(storage) = definition.storage() else { return Vec::new() };
    let mut versions: Vec<&Version> = definition.versions.iter().filter(|version| version.served).collect();
    versions.sort_by_key(|version| Reverse(priority(&version.name)));
    versions.into_iter().map(|version| resource(stored, definition, version, storage)).collect()
}

fn resource(stored: &Stored, definition: &Definition, version: &Version, storage: &Version) -> Resource {
    let names = &definition.names;
    let mut columns = vec![name()];
    if version.columns.is_empty() {
        columns.push(age());
    }
    columns.extend(version.columns.iter().map(Column::printer));
    let selectable = version.selectable.iter();
    Resource {
        group: definition.group.clone(),
        version: version.name.clone(),
        kind: names.kind.clone(),
        list_kind: names.list_kind.clone(),
        plural: names.plural.clone(),
        singular: names.singular.clone(),
        short_names: names.short_names.clone(),
        categories: names.categories.clone(),
        scope: if definition.namespaced { Scope::Namespaced } else { Scope::Cluster },
        subresources: subresources(version),
        review: None,
        scale: version.scale.clone(),
        typing: Typing::Custom(Arc::new(version.clone())),
        storage: Storage {
            space: stored.name.to_string(),
            api_version: group_version(&definition.group, &storage.name),
            typing: Typing::Custom(Arc::new(storage.clone())),
        },
        view: &[],
        conversion: None,
        rules: Rules {
            unconditional_update: false,
            generations: Generations::Content,
            default,
            prepare_create,
            prepare_update,
            validate,
            warn,
            qualified_finalizers: false,
            closed_to_new: stored.deleting,
            ..Rules::default()
        },
        selectable: selectable
            .map(|field| Selectable::found(field.label.clone(), field.path.clone()))
            .collect(),
        columns,
        deprecation: version.deprecation.clone(),
    }
}

fn subresources(version: &Version) -> Vec<Subresource> {
    let status = version.status.then_some(Subresource::Status);
    status.into_iter().chain(version.scale.as_ref().map(|_| Subresource::Scale)).collect()
}

fn custom(resource: &Resource) -> Option<&Version> {
    match &resource.typing {
        Typing::Custom(version) => Some(version),
        Typing::Builtin(_) => None,
    }
}

fn default(object: &mut Object, resource: &Resource) {
    if let Some(version) = custom(resource) {
        version.schema.default_object(object);
    }
}

/// A new object has no status yet but what the schema gives it, if status has an endpoint of its own.
fn prepare_create(object: &mut Object, resource: &Resource) {
    if custom(resource).is_some_and(|version| version.status) {
        object.remove("status");
        default(object, resource);
    }
}

fn prepare_update(object: &mut Object, change: Change<'_>) {
    if !custom(change.resource).is_some_and(|version| version.status) {
        return;
    }
    if change.subresource != Some(Subresource::Status) {
        change.keep(object, "status");
        return;
    }
    // All but the status, and who wrote it, stays as it is stored.
    let status = object.remove("status");
    let revision = object.meta_str("resourceVersion").to_owned();
    let managers = object.meta_mut().remove("managedFields");
    *object = change.old.cloned().unwrap_or_default();
    object.remove("status");
    if let Some(status) = status {
        object.insert("status".into(), status);
    }
    let meta = object.meta_mut();
    meta.insert("resourceVersion".into(), revision.into());
    match managers {
        Some(managers) => meta.insert("managedFields".into(), managers),
        None => meta.remove("managedFields"),
    };
}

fn validate(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    let Some(version) = custom(change.resource) else { return Vec::new() };
    let schema = &version.schema;
    let mut errors = match (change.subresource, change.old) {
        (Some(Subresource::Status), old) => validate_status(object, old, version),
        (_, None) => schema.validate(object),
        (_, Some(old)) => schema.validate_update(object, old),
    };
    if let Some(scale) = &version.scale {
        if change.subresource != Some(Subresource::Status) {
            errors.extend(scale.validate_spec(object));
        }
        errors.extend(scale.validate_status(object));
    }
    if version.rules.any(schema) {
        if errors.iter().any(blocks_rules) {
            errors.push(FieldError::invalid("<nil>", Value::Null, RULES_SKIPPED));
        } else {
            errors.extend(version.rules.judge(schema, object, change.old));
        }
    }
    errors
}

const RULES_SKIPPED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

/// Rules speak of objects whose fields are there and of the right type and size.
fn blocks_rules(error: &FieldError) -> bool {
    matches!(
        error.wrong,
        Wrong::NotSupported | Wrong::Required | Wrong::TooLong | Wrong::TooMany | Wrong::TypeInvalid
    )
}

/// Through the endpoint of the status, only the status is looked at, as something of its own.
fn validate_status(object: &Object, old: Option<&Object>, version: &Version) -> Vec<FieldError> {
    let mut errors = version.schema.validate_part("status", object, old);
    errors.extend(version.schema.validate_lists(object, old));
    errors
}

/// Finalizers that could get into each other's way are pointed out.
fn warn(object: &Object, change: Change<'_>) -> Vec<String> {
    const FIELD: &str = "metadata.finalizers";
    if change.subresource.is_some() {
        return Vec::new();
    }
    let known = change.old.map(Meta::finalizers).unwrap_or_default();
    let mut new: Vec<&str> =
        object.finalizers().into_iter().filter(|finalizer| !known.contains(finalizer)).collect();
    new.sort_unstable();
    new.dedup();
    new.into_iter()
        .filter(|finalizer| !matches!(*finalizer, "orphan" | "foregroundDeletion" | "kubernetes"))
        .filter(|finalizer| !finalizer.contains('/'))
        .map(|finalizer| {
            let how = if finalizer.contains('.') { " including a path (/)" } else { "" };
            format!(
                "{FIELD}: {finalizer:?}: prefer a domain-qualified finalizer name{how} to avoid accidental conflicts with other finalizer writers"
            )
        })
        .collect()
}

/// The conditions and names of a definition's status, given what became of its names.
pub(crate) fn status(
    old: &Map<String, Value>,
    acceptance: &Acceptance,
    deleting: bool,
    now: &str,
) -> Map<String, Value> {
    let mut status = old.clone();
    let before = old.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let was_established =
        before.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True");
    let mut conditions = before.clone();
    let (accepted, established) = match acceptance {
        Acceptance::Accepted(names) => {
            status.insert("acceptedNames".into(), accepted_names(names));
            (
                ("True", "NoConflicts", "no conflicts found".to_owned()),
                ("True", "InitialNamesAccepted", "the initial names have been accepted".to_owned()),
            )
        }
        Acceptance::Refused { reason, message, accepted } => {
            status.insert("acceptedNames".into(), accepted_names(accepted));
            let established = if was_established {
                ("True", "InitialNamesAccepted", "the initial names have been accepted".to_owned())
            } else {
                ("False", "NotAccepted", "not all names are accepted".to_owned())
            };
            (("False", *reason, message.clone()), established)
        }
    };
    upsert(&mut conditions, "NamesAccepted", accepted, now);
    upsert(&mut conditions, "Established", established, now);
    if deleting {
        let words = "CustomResource deletion is in progress".to_owned();
        upsert(&mut conditions, "Terminating", ("True", "InstanceDeletionInProgress", words), now);
    }
    status.insert("conditions".into(), conditions.into());
    status
}

fn accepted_names(names: &Names) -> Value {
    let mut value = json!({"kind": names.kind, "plural": names.plural});
    for (key, name) in [("listKind", &names.list_kind), ("singular", &names.singular)] {
        if !name.is_empty() {
            set(&mut value, key, name.as_str());
        }
    }
    if !names.short_names.is_empty() {
        set(&mut value, "shortNames", json!(names.short_names));
    }
    if !names.categories.is_empty() {
        set(&mut value, "categories", json!(names.categories));
    }
    value
}

fn upsert(
    conditions: &mut Vec<Value>,
    kind: &str,
    (status, reason, message): (&str, &str, String),
    now: &str,
) {
    let old = conditions.iter_mut().find(|condition| condition["type"] == kind);
    let since = match &old {
        Some(old) if old["status"] == status => old["lastTransitionTime"].clone(),
        _ => now.into(),
    };
    let condition = json!({
        "type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message,
    });
    match old {
        Some(old) => *old = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(name: &str, created: u64, change: impl FnOnce(&mut Value)) -> Stored {
        let mut spec = json!({
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        });
        change(&mut spec);
        Stored {
            name: name.into(),
            created: Revision(created),
            generation: 1,
            revision: Revision(created),
            definition: Definition::read(spec.as_object().unwrap(), Revision(created), &Schemas::default())
                .map(Arc::new),
            deleting: false,
        }
    }

    #[test]
    fn a_definition_serves_its_versions_the_highest_first() {
        let definitions = [stored("widgets.example.com", 1, |spec| {
            spec["versions"] = json!([
                {"name": "v1alpha1", "served": true, "schema": {"openAPIV3Schema": {"type": "object"}}},
                {"name": "v2", "served": false, "schema": {"openAPIV3Schema": {"type": "object"}}},
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}},
            ]);
        })];
        let served = serve(&Registry::new(Vec::new()), &definitions);
        let versions: Vec<&str> =
            served.registry.all().iter().map(|resource| resource.version.as_str()).collect();
        assert_eq!(versions, ["v1", "v1alpha1"]);
    }

    #[test]
    fn the_older_definition_keeps_a_name_that_two_want() {
        let definitions = [
            stored("gadgets.example.com", 2, |spec| spec["names"]["plural"] = "gadgets".into()),
            stored("widgets.example.com", 1, |_| {}),
        ];
        let served = serve(&Registry::new(Vec::new()), &definitions);
        assert!(matches!(served.acceptances["widgets.example.com"], Acceptance::Accepted(_)));
        let Acceptance::Refused { reason, message, accepted } = &served.acceptances["gadgets.example.com"]
        else {
            panic!("both are accepted");
        };
        assert_eq!((*reason, message.as_str()), ("ListKindConflict", "\"WidgetList\" is already in use"));
        assert_eq!(accepted, &Names { plural: "gadgets".into(), ..Names::default() });
        assert_eq!(served.registry.all().len(), 1);
    }
}
