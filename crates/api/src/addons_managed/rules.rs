//! What an Addon must satisfy beyond its schema, as CEL. Kubernetes refuses a definition whose rules may cost too
//! much, which is why the lists and texts that are looked through have bounds.

use serde_json::{Value, json};

const OWN: &str = "olmOwnNamespace";
const ALL: &str = "olmAllNamespaces";
/// `namespace` is a word of CEL's own, and written so where a field has that name.
const SAME_NAMESPACE: &str = "self.__namespace__ == oldSelf.__namespace__";

/// Rules of the whole object; only here is its name known.
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
                     because its own catalog source is"
                ),
            )
        })
        .into()
}

/// Rules of the spec.
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
                    ".spec.install.{block}.pullSecretName: not found as a destination in .spec.secretPropagation"
                ),
            )
        })
        .into()
}

/// Rules of how an add-on is installed.
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

/// Rules of an installation by OLM.
pub(super) fn olm() -> Value {
    let message = ".spec.install is immutable, except for catalogSourceImage, channel, config, pullSecretName and \
                   additionalCatalogSources";
    json!([rule(format!("{SAME_NAMESPACE} && self.packageName == oldSelf.packageName"), message)])
}

/// Rules of an installation that is somebody else's.
pub(super) fn external() -> Value {
    json!([rule(SAME_NAMESPACE, ".spec.install.external.namespace is immutable")])
}

fn rule(rule: impl Into<String>, message: impl Into<String>) -> Value {
    json!({"rule": rule.into(), "message": message.into()})
}
