//! The definitions of all our kinds, as they are installed, and the clusters that need them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use serde_json::Value;

use crate::addons_managed::AddonInstance;

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
        let mut crd = K::crd();
        for version in &mut crd.spec.versions {
            if let Some(root) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut())
            {
                as_clients_expect(root);
            }
        }
        Self { crd, place }
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
    let mut all = vec![Definition::of::<AddonInstance>(Place::EveryCluster)];
    all.sort_by(|one, other| one.name().cmp(other.name()));
    all
}

/// Go clients send `null` for what they leave out, and leave out the `spec` as they like: a `null` is dropped rather
/// than stored, and no spec is demanded. The title repeats the kind.
fn as_clients_expect(root: &mut JSONSchemaProps) {
    root.required =
        root.required.take().map(|required| required.into_iter().filter(|name| name != "spec").collect());
    if root.required.as_ref().is_some_and(Vec::is_empty) {
        root.required = None;
    }
    root.title = None;
    refuse_null(root);
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
