//! What is wrong with the defaults of a schema: each must be a value that its own schema knows and accepts.

use serde_json::Value;

use super::prune::has_unknown;
use super::{Schema, resources};
use crate::field::FieldError;

impl Schema {
    /// Checks all defaults of the schema of a kind. Those of fields without a name are not looked at, as in Kubernetes.
    pub(crate) fn default_errors(&self, path: &str) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(default) = &self.default {
            let mut resource = self.clone();
            resource.extensions.embedded_resource = true;
            check(&resource, default, &format!("{path}.default"), &mut errors);
        }
        visit_below(self, path, true, false, &mut errors);
        errors
    }
}

fn visit(schema: &Schema, path: &str, in_meta: bool, errors: &mut Vec<FieldError>) {
    let in_meta = in_meta && !schema.extensions.embedded_resource;
    if let Some(default) = &schema.default {
        let path = format!("{path}.default");
        if in_meta {
            errors.extend(schema.validate_default(default, &path));
        } else {
            check(schema, default, &path, errors);
        }
    }
    visit_below(schema, path, schema.extensions.embedded_resource, in_meta, errors);
}

fn visit_below(schema: &Schema, path: &str, resource: bool, in_meta: bool, errors: &mut Vec<FieldError>) {
    if let Some(items) = &schema.items {
        visit(items, &format!("{path}.items"), in_meta, errors);
    }
    for (name, property) in &schema.properties {
        let common = matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
        let path = format!("{path}.properties[{name}]");
        visit(property, &path, in_meta || (resource && common), errors);
    }
}

fn check(schema: &Schema, default: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if has_unknown(default, schema) {
        errors.push(FieldError::invalid(path, default.clone(), "must not have unknown fields"));
    }
    let mut coerced = default.clone();
    if let Err(error) = resources::coerce_value(&mut coerced, schema, path, &mut Vec::new()) {
        errors.push(error);
        return;
    }
    let mut found = Vec::new();
    resources::validate_value(&coerced, schema, path, &mut found);
    if found.is_empty() {
        found = schema.validate_default(&coerced, path);
    }
    errors.extend(found);
}
