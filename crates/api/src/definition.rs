//! The definitions of all our kinds, as they are installed, and the clusters that need them.

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
use crate::work::{AppliedManifestWork, ManifestWork};

/// Which clusters need a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The hub alone.
    Hub,
    /// The hub and every spoke.
    EveryCluster,
    /// Every spoke, and not the hub.
    Spokes,
}

/// A definition of one of our kinds.
#[derive(Clone, Debug)]
pub struct Definition {
    /// What is sent to the API server.
    pub crd: CustomResourceDefinition,
    /// Where it belongs.
    pub place: Place,
}

impl Definition {
    fn of<K: CustomResourceExt>(place: Place) -> Self {
        let mut definition = Self { crd: K::crd(), place };
        definition.schemas().for_each(as_clients_expect);
        definition
    }

    /// The same, with a phase in the status of every new object.
    fn beginning_in_phase(mut self, phase: &str) -> Self {
        let status = |root| property(root, "status");
        self.schemas().filter_map(status).for_each(|status| {
            status.default = Some(JSON(json!({"phase": phase})));
        });
        self
    }

    /// The same, with rules for the whole object.
    fn with_rules(mut self, rules: &Value) -> Self {
        self.schemas().for_each(|root| {
            root.x_kubernetes_validations = serde_json::from_value(rules.clone()).ok();
        });
        self
    }

    fn schemas(&mut self) -> impl Iterator<Item = &mut JSONSchemaProps> {
        let versions = self.crd.spec.versions.iter_mut();
        versions.filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut())
    }

    /// Its name, `<plural>.<group>`.
    pub fn name(&self) -> &str {
        self.crd.metadata.name.as_deref().unwrap_or_default()
    }

    /// As a YAML document, without the `---` before it.
    pub fn yaml(&self) -> String {
        let document = serde_json::to_value(&self.crd).map(whole_numbers).unwrap_or_default();
        serde_saphyr::to_string(&document).unwrap_or_default()
    }
}

/// Bounds are floating-point numbers to Rust; to a reader `minimum: 0` says all.
fn whole_numbers(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (name, whole_numbers(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(whole_numbers).collect(),
        #[allow(clippy::cast_possible_truncation, reason = "it has no fraction, and bounds are small")]
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 => Value::from(float as i64),
            _ => Value::Number(number),
        },
        other => other,
    }
}

/// Every definition, sorted by name.
pub fn crds() -> Vec<Definition> {
    let mut all = vec![
        Definition::of::<AddonInstance>(Place::EveryCluster),
        Definition::of::<Addon>(Place::EveryCluster)
            .beginning_in_phase("Pending")
            .with_rules(&rules::addon()),
        Definition::of::<AddonOperator>(Place::EveryCluster).beginning_in_phase("Pending"),
        Definition::of::<ClusterManagementAddOn>(Place::Hub),
        Definition::of::<ManagedClusterAddOn>(Place::Hub),
        Definition::of::<AddOnTemplate>(Place::Hub),
        Definition::of::<AddOnDeploymentConfig>(Place::Hub),
        Definition::of::<ManifestWork>(Place::Hub),
        Definition::of::<AppliedManifestWork>(Place::Spokes),
        Definition::of::<ManagedCluster>(Place::Hub),
        Definition::of::<ManagedClusterSet>(Place::Hub),
        Definition::of::<ManagedClusterSetBinding>(Place::Hub).with_rules(&bound_by_name()),
        Definition::of::<Placement>(Place::Hub),
        Definition::of::<PlacementDecision>(Place::Hub),
    ];
    all.sort_by(|one, other| one.name().cmp(other.name()));
    all
}

fn bound_by_name() -> Value {
    json!([{
        "rule": "self.metadata.name == self.spec.clusterSet",
        "message": "the name of a ManagedClusterSetBinding is that of its set: .spec.clusterSet",
    }])
}

/// Go clients send `null` for what they leave out, and leave out the `spec` as they like: a `null` is dropped rather
/// than stored, and no spec is demanded where an empty one would do. The title repeats the kind.
fn as_clients_expect(root: &mut JSONSchemaProps) {
    if property(root, "spec").is_none_or(|spec| spec.required.is_none()) {
        root.required = None;
    }
    root.title = None;
    refuse_null(root);
}

fn property<'s>(schema: &'s mut JSONSchemaProps, name: &str) -> Option<&'s mut JSONSchemaProps> {
    schema.properties.as_mut()?.get_mut(name)
}

fn refuse_null(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    let properties = schema.properties.iter_mut().flat_map(|properties| properties.values_mut());
    properties.for_each(refuse_null);
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        refuse_null(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        refuse_null(values);
    }
}
