//! CEL validation rules of the Addon. Kubernetes rejects a CRD whose rules may cost too much, so the lists and strings that
//! the rules read have a maximum length in the schema.

use serde_json::{Value, json};

const OWN: &str = "olmOwnNamespace";
const ALL: &str = "olmAllNamespaces";
/// `namespace` is a reserved word in CEL; a field of that name is written `__namespace__`.
const SAME_NAMESPACE: &str = "self.__namespace__ == oldSelf.__namespace__";

/// Rules for the whole object. Only here can a rule read `metadata.name`.
pub(crate) fn addon() -> Value {
    [OWN, ALL]
        .map(|block| {
            let path = format!("self.spec.install.{block}");
            rule(
                format!(
                    "!has({path}) || !has({path}.additionalCatalogSources) || \
                     {path}.additionalCatalogSources.all(source, source.name != self.metadata.name)"
                ),
                format!(
                    ".spec.install.{block}.additionalCatalogSources: no source may be named like the Addon, \
                     because the catalog source of the Addon itself has that name"
                ),
            )
        })
        .into()
}

/// Rules for `spec`.
pub(super) fn spec() -> Value {
    [OWN, ALL]
        .map(|block| {
            let path = format!("self.install.{block}");
            rule(
                format!(
                    "!has({path}) || !has({path}.pullSecretName) || {path}.pullSecretName == '' || \
                     !has(self.secretPropagation) || self.secretPropagation.secrets.exists(secret, \
                     has(secret.destinationSecret.name) && secret.destinationSecret.name == {path}.pullSecretName)"
                ),
                format!(
                    ".spec.install.{block}.pullSecretName: not found as a destination in \
                     .spec.secretPropagation.secrets"
                ),
            )
        })
        .into()
}

/// Rules for `spec.install`.
pub(super) fn install() -> Value {
    let blocks = [("OLMOwnNamespace", OWN), ("OLMAllNamespaces", ALL), ("External", "external")];
    let mut rules = blocks
        .map(|(type_, block)| {
            rule(
                format!("self.type != '{type_}' || has(self.{block})"),
                format!(".spec.install.{block} is required when .spec.install.type is {type_}"),
            )
        })
        .to_vec();
    rules.push(rule(
        "[has(self.olmOwnNamespace), has(self.olmAllNamespaces), has(self.external)].filter(set, set).size() <= 1",
        ".spec.install.olmOwnNamespace, .spec.install.olmAllNamespaces and .spec.install.external are mutually \
         exclusive",
    ));
    rules.push(rule("self.type == oldSelf.type", ".spec.install.type is immutable"));
    rules.into()
}

/// Rules for the two OLM fields of `spec.install`.
pub(super) fn olm() -> Value {
    let message = ".spec.install is immutable, except for catalogSourceImage, channel, config, pullSecretName and \
                   additionalCatalogSources";
    json!([rule(format!("{SAME_NAMESPACE} && self.packageName == oldSelf.packageName"), message)])
}

/// Rules for `spec.install.external`.
pub(super) fn external() -> Value {
    json!([rule(SAME_NAMESPACE, ".spec.install.external.namespace is immutable")])
}

fn rule(rule: impl Into<String>, message: impl Into<String>) -> Value {
    json!({"rule": rule.into(), "message": message.into()})
}
