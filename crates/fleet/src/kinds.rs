//! The kinds of resources, which are declared by the configuration and validated once at the start. Cluster and NodePool are built
//! in.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::json;

use crate::mapping::{Mapping, MappingConfig, MappingError};
use crate::vocabulary::{Vocabulary, adapter_condition};

/// The base path of the API.
pub const BASE_PATH: &str = "/api/hyperfleet/v1";
/// The segment under which resources of every kind are served.
const EVERY_KIND: &str = "resources";
/// The segment under which the OpenAPI document is served.
const DOCUMENT: &str = "openapi";
/// The segments that follow the ID of a resource.
const OF_A_RESOURCE: [&str; 2] = ["statuses", "force-delete"];
/// The largest value of name_max_len.
const MAX_NAME_LENGTH: usize = 100;

/// The configuration of a kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindConfig {
    /// The name, such as `Cluster`.
    pub kind: String,
    /// The path segment, such as `clusters`.
    pub plural: String,
    /// The kind of the owners of its resources.
    #[serde(default)]
    pub parent_kind: Option<String>,
    /// What happens to its resources when their owner is deleted.
    #[serde(default)]
    pub on_parent_delete: OnParentDelete,
    /// The minimum length of names.
    #[serde(default)]
    pub name_min_len: usize,
    /// The maximum length of names.
    #[serde(default = "default_name_max_len")]
    pub name_max_len: usize,
    /// The adapters whose reports decide whether a resource is ready.
    #[serde(default)]
    pub required_adapters: Vec<String>,
    /// The JSON schema of specs.
    #[serde(default)]
    pub spec_schema: Option<serde_json::Value>,
    /// Conditions in addition to the built-in ones.
    #[serde(default)]
    pub conditions: Vec<MappingConfig>,
}

fn default_name_max_len() -> usize {
    MAX_NAME_LENGTH
}

/// What happens to children when their owner is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnParentDelete {
    /// The owner cannot be deleted while there are children.
    #[default]
    Restrict,
    /// The children are deleted, too.
    Cascade,
}

/// A kind of resources.
#[derive(Debug)]
pub struct Kind {
    /// The name, such as `Cluster`.
    pub name: String,
    /// The path segment, such as `clusters`.
    pub plural: String,
    /// The kind of the owners of its resources.
    pub parent: Option<String>,
    /// What happens to its resources when their owner is deleted.
    pub on_parent_delete: OnParentDelete,
    /// The valid lengths of names.
    pub name_length: std::ops::RangeInclusive<usize>,
    /// The adapters whose reports decide whether a resource is ready, in the order of their conditions.
    pub required_adapters: Vec<String>,
    /// The validator of specs.
    pub spec_schema: Option<jsonschema::Validator>,
    /// The JSON schema of specs, as declared.
    pub declared_spec_schema: Option<serde_json::Value>,
    /// Conditions in addition to the built-in ones, ordered by type.
    pub mappings: Vec<Mapping>,
}

/// All kinds.
#[derive(Debug)]
pub struct Kinds {
    by_name: BTreeMap<String, Kind>,
    vocabulary: Vocabulary,
    rules: String,
}

/// An error of the configuration of kinds.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum KindError {
    #[error("a kind has no name: `kind` and `plural` must not be empty")]
    Nameless,
    #[error(
        "the kind {kind} is not a valid name: it must have letters and digits, start with a capital letter, and have at most 63 characters"
    )]
    KindName { kind: String },
    #[error(
        "the plural {plural:?} of {kind} is not a valid path segment: it must have lower-case letters, digits and dashes, and start with a letter"
    )]
    PluralName { kind: String, plural: String },
    #[error("the kind {0} is declared twice")]
    Twice(String),
    #[error("the plural {0} is declared for two kinds")]
    PluralTwice(String),
    #[error(
        "the plural `{0}` is reserved, as are `resources`, `openapi`, `statuses` and `force-delete`; use another one"
    )]
    Reserved(String),
    #[error("the parent_kind {parent} of {kind} is not declared")]
    UnknownParent { kind: String, parent: String },
    #[error("the parent kinds of {0} form a cycle")]
    Cycle(String),
    #[error(
        "{kind} has name_min_len {min} and name_max_len {max}: name_max_len must be from 1 to {MAX_NAME_LENGTH}, and not less than name_min_len"
    )]
    NameLength { kind: String, min: usize, max: usize },
    #[error(
        "{kind} requires the adapter {adapter:?} twice, or two adapters with the same condition {condition}"
    )]
    AdapterTwice { kind: String, adapter: String, condition: String },
    #[error("{kind} requires an adapter with an empty name")]
    AdapterNameless { kind: String },
    #[error("the spec_schema of {kind} is not a JSON schema: {cause}")]
    Schema { kind: String, cause: String },
    #[error(
        "the condition {type_:?} of {kind} is declared twice, or is a built-in condition; use another type"
    )]
    ConditionTaken { kind: String, type_: String },
    #[error("the condition {type_:?} of {kind}: {source}")]
    Mapping { kind: String, type_: String, source: MappingError },
}

impl Kinds {
    /// The built-in kinds and those of the configuration. A declared kind replaces a built-in one of the same name.
    pub fn new(declared: Vec<KindConfig>, vocabulary: Vocabulary) -> Result<Self, KindError> {
        let mut configs = declared;
        for built_in in built_in() {
            if !configs.iter().any(|config| config.kind == built_in.kind) {
                configs.push(built_in);
            }
        }
        let rules = rules_of(&configs, vocabulary);
        let mut by_name = BTreeMap::new();
        let mut plurals = BTreeSet::new();
        for config in configs {
            if !plurals.insert(config.plural.clone()) {
                return Err(KindError::PluralTwice(config.plural));
            }
            let kind = Kind::new(config, vocabulary)?;
            if let Some(earlier) = by_name.insert(kind.name.clone(), kind) {
                return Err(KindError::Twice(earlier.name));
            }
        }
        let kinds = Self { by_name, vocabulary, rules };
        kinds.iter().try_for_each(|kind| kinds.check_ancestry(kind))?;
        Ok(kinds)
    }

    fn check_ancestry(&self, kind: &Kind) -> Result<(), KindError> {
        let mut below = kind;
        for _ in 0..=self.by_name.len() {
            let Some(parent) = &below.parent else { return Ok(()) };
            below = self.get(parent).ok_or_else(|| KindError::UnknownParent {
                kind: below.name.clone(),
                parent: parent.clone(),
            })?;
        }
        Err(KindError::Cycle(kind.name.clone()))
    }

    /// A kind by its name.
    pub fn get(&self, name: &str) -> Option<&Kind> {
        self.by_name.get(name)
    }

    /// All kinds, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = &Kind> {
        self.by_name.values()
    }

    /// The kinds whose parent kind this is.
    pub fn children_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Kind> {
        self.iter().filter(move |kind| kind.parent.as_deref() == Some(name))
    }

    /// The rules by which conditions are computed, as text: equal rules compute equal conditions from equal reports.
    pub fn rules(&self) -> &str {
        &self.rules
    }

    /// The names of the combined conditions.
    pub fn vocabulary(&self) -> Vocabulary {
        self.vocabulary
    }
}

impl Kind {
    fn new(config: KindConfig, vocabulary: Vocabulary) -> Result<Self, KindError> {
        check_names(&config)?;
        let kind = config.kind;
        let own: BTreeSet<String> = own_conditions(&kind, &config.required_adapters)?;
        let spec_schema = match &config.spec_schema {
            None => None,
            Some(schema) => Some(
                jsonschema::validator_for(schema)
                    .map_err(|error| KindError::Schema { kind: kind.clone(), cause: error.to_string() })?,
            ),
        };
        let mut mappings: BTreeMap<String, Mapping> = BTreeMap::new();
        for mapping in config.conditions {
            let type_ = mapping.type_.clone();
            if own.contains(&type_) || vocabulary.is_root(&type_) || mappings.contains_key(&type_) {
                return Err(KindError::ConditionTaken { kind, type_ });
            }
            let compiled = Mapping::compile(mapping).map_err(|source| KindError::Mapping {
                kind: kind.clone(),
                type_: type_.clone(),
                source,
            })?;
            mappings.insert(type_, compiled);
        }
        Ok(Self {
            name: kind,
            plural: config.plural,
            parent: config.parent_kind,
            on_parent_delete: config.on_parent_delete,
            name_length: config.name_min_len.max(1)..=config.name_max_len,
            required_adapters: config.required_adapters,
            spec_schema,
            declared_spec_schema: config.spec_schema,
            mappings: mappings.into_values().collect(),
        })
    }
}

/// Increase it when the computation of conditions changes, so that stored conditions are computed again.
const RULES_VERSION: u32 = 1;

fn rules_of(configs: &[KindConfig], vocabulary: Vocabulary) -> String {
    let kinds: BTreeMap<&str, serde_json::Value> = configs
        .iter()
        .map(|config| {
            let rules =
                json!({"required_adapters": config.required_adapters, "conditions": config.conditions});
            (config.kind.as_str(), rules)
        })
        .collect();
    json!({"version": RULES_VERSION, "vocabulary": vocabulary, "kinds": kinds}).to_string()
}

fn check_names(config: &KindConfig) -> Result<(), KindError> {
    let KindConfig { kind, plural, name_min_len: min, name_max_len: max, .. } = config;
    if kind.is_empty() || plural.is_empty() {
        return Err(KindError::Nameless);
    }
    let capital = kind.starts_with(|first: char| first.is_ascii_uppercase());
    if !capital || kind.len() > 63 || !kind.chars().all(|letter| letter.is_ascii_alphanumeric()) {
        return Err(KindError::KindName { kind: kind.clone() });
    }
    if plural == EVERY_KIND || plural == DOCUMENT || OF_A_RESOURCE.contains(&plural.as_str()) {
        return Err(KindError::Reserved(plural.clone()));
    }
    let fits = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    if !plural.starts_with(|first: char| first.is_ascii_lowercase()) || !plural.chars().all(fits) {
        return Err(KindError::PluralName { kind: kind.clone(), plural: plural.clone() });
    }
    if *max > MAX_NAME_LENGTH || *max == 0 || min > max {
        return Err(KindError::NameLength { kind: kind.clone(), min: *min, max: *max });
    }
    Ok(())
}

/// The conditions of required adapters.
fn own_conditions(kind: &str, adapters: &[String]) -> Result<BTreeSet<String>, KindError> {
    let mut own = BTreeSet::new();
    for adapter in adapters {
        if adapter.is_empty() {
            return Err(KindError::AdapterNameless { kind: kind.to_owned() });
        }
        let condition = adapter_condition(adapter);
        if !own.insert(condition.clone()) {
            let (kind, adapter) = (kind.to_owned(), adapter.clone());
            return Err(KindError::AdapterTwice { kind, adapter, condition });
        }
    }
    Ok(own)
}

fn built_in() -> [KindConfig; 2] {
    let root = |kind: &str, plural: &str, longest| KindConfig {
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        parent_kind: None,
        on_parent_delete: OnParentDelete::Cascade,
        name_min_len: 3,
        name_max_len: longest,
        required_adapters: Vec::new(),
        spec_schema: None,
        conditions: Vec::new(),
    };
    let cluster = root("Cluster", "clusters", 53);
    let node_pool =
        KindConfig { parent_kind: Some("Cluster".to_owned()), ..root("NodePool", "nodepools", 15) };
    [cluster, node_pool]
}
