//! The CRDs of all our kinds, and which clusters need each of them. `bellwether crds` prints and installs them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::addon::{AddOnDeploymentConfig, AddOnTemplate, ClusterManagementAddOn, ManagedClusterAddOn};
use crate::addons_managed::{Addon, AddonInstance, AddonOperator, rules};
use crate::cluster::{
    ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, Placement, PlacementDecision,
};
use crate::observability::ObservabilityAddon;
use crate::work::{AppliedManifestWork, ManifestWork};

/// Which clusters need a CRD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Only the hub.
    Hub,
    /// The hub and every spoke.
    EveryCluster,
    /// Every spoke, but not the hub.
    Spokes,
}

/// The CRD of one of our kinds.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The CustomResourceDefinition to install.
    pub crd: CustomResourceDefinition,
    /// The clusters that need it.
    pub place: Place,
}

impl Definition {
    fn of<K: CustomResourceExt>(place: Place) -> Self {
        let mut definition = Self { crd: K::crd(), place };
        definition.schemas().for_each(adapt_generated_schema);
        definition
    }

    /// Sets the default of `status.phase` for new objects.
    fn with_initial_phase(mut self, phase: &str) -> Self {
        let status = |root| property(root, "status");
        self.schemas().filter_map(status).for_each(|status| {
            status.default = Some(JSON(json!({"phase": phase})));
        });
        self
    }

    /// Sets CEL validation rules for the whole object.
    fn with_validation_rules(mut self, rules: &Value) -> Self {
        self.schemas().for_each(|root| {
            root.x_kubernetes_validations = serde_json::from_value(rules.clone()).ok();
        });
        self
    }

    fn schemas(&mut self) -> impl Iterator<Item = &mut JSONSchemaProps> {
        let versions = self.crd.spec.versions.iter_mut();
        versions.filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut())
    }

    /// The name of the CRD, `<plural>.<group>`.
    pub fn name(&self) -> &str {
        self.crd.metadata.name.as_deref().unwrap_or_default()
    }

    /// The CRD as a YAML document, without a leading `---`.
    pub fn yaml(&self) -> String {
        let document = serde_json::to_value(&self.crd).map(floats_to_integers).unwrap_or_default();
        serde_saphyr::to_string(&document).unwrap_or_default()
    }
}

/// Writes bounds such as `minimum: 0.0`, which are `f64` in Rust, as integers.
fn floats_to_integers(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (name, floats_to_integers(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(floats_to_integers).collect(),
        #[allow(
            clippy::cast_possible_truncation,
            reason = "the number has no fraction, and bounds are small"
        )]
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 => Value::from(float as i64),
            _ => Value::Number(number),
        },
        other => other,
    }
}

/// All CRDs, sorted by name.
pub fn crds() -> Vec<Definition> {
    let mut all = vec![
        Definition::of::<AddonInstance>(Place::EveryCluster),
        Definition::of::<Addon>(Place::EveryCluster)
            .with_initial_phase("Pending")
            .with_validation_rules(&rules::addon()),
        Definition::of::<AddonOperator>(Place::EveryCluster).with_initial_phase("Pending"),
        Definition::of::<ClusterManagementAddOn>(Place::Hub),
        Definition::of::<ManagedClusterAddOn>(Place::Hub),
        Definition::of::<AddOnTemplate>(Place::Hub),
        Definition::of::<AddOnDeploymentConfig>(Place::Hub),
        Definition::of::<ManifestWork>(Place::Hub),
        Definition::of::<AppliedManifestWork>(Place::Spokes),
        Definition::of::<ManagedCluster>(Place::Hub),
        Definition::of::<ManagedClusterSet>(Place::Hub),
        Definition::of::<ManagedClusterSetBinding>(Place::Hub).with_validation_rules(&binding_name_rule()),
        Definition::of::<Placement>(Place::Hub),
        Definition::of::<PlacementDecision>(Place::Hub),
        Definition::of::<ObservabilityAddon>(Place::EveryCluster),
    ];
    all.sort_by(|one, other| one.name().cmp(other.name()));
    all
}

fn binding_name_rule() -> Value {
    json!([{
        "rule": "self.metadata.name == self.spec.clusterSet",
        "message": "metadata.name must equal spec.clusterSet: a ManagedClusterSetBinding has the name of its ManagedClusterSet",
    }])
}

/// Adapts a generated schema to what Go clients send. They write `null` for unset fields, which the API server drops if
/// the field is not nullable, and they may omit `spec`, which is therefore required only if one of its fields is. The
/// title is removed because it only repeats the kind.
fn adapt_generated_schema(root: &mut JSONSchemaProps) {
    if property(root, "spec").is_none_or(|spec| spec.required.is_none()) {
        root.required = None;
    }
    root.title = None;
    for_each_schema(root, &mut |schema| {
        schema.nullable = None;
        schema.description = schema.description.take().map(on_one_line);
    });
}

fn property<'s>(schema: &'s mut JSONSchemaProps, name: &str) -> Option<&'s mut JSONSchemaProps> {
    schema.properties.as_mut()?.get_mut(name)
}

/// Joins the lines of a one-paragraph doc comment; `kubectl explain` wraps descriptions itself.
fn on_one_line(description: String) -> String {
    if description.contains("\n\n") { description } else { description.replace('\n', " ") }
}

fn for_each_schema(schema: &mut JSONSchemaProps, change: &mut impl FnMut(&mut JSONSchemaProps)) {
    change(schema);
    for property in schema.properties.iter_mut().flat_map(|properties| properties.values_mut()) {
        for_each_schema(property, change);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        for_each_schema(items, change);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        for_each_schema(values, change);
    }
}
