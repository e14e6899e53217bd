//! Who asks for a certificate, and who may approve or answer such a request: the signer's name decides, beside the verb.

use super::Call;
use crate::access::{On, Wish};
use crate::identity::MASTERS;
use crate::kinds::certificate::{self, CLIENT_SIGNER};
use crate::object::{Meta as _, Object, text};
use crate::status::{Answer, Refusal};

fn is_about_certificates(call: &Call) -> bool {
    call.resource.group == certificate::GROUP && call.resource.plural == certificate::PLURAL
}

/// Says in a new request who makes it.
pub(super) fn sign_in(call: &Call, object: &mut Object) {
    if is_about_certificates(call) {
        certificate::sign_in(object, &call.identity);
    }
}

/// Whether a change of a request is admitted.
pub(super) fn admit(call: &Call, old: Option<&Object>, new: &Object) -> Answer<()> {
    if !is_about_certificates(call) {
        return Ok(());
    }
    let refused = |why: String| Err(Refusal::forbidden(call.resource.qualified(), new.name(), why));
    match (call.subresource.as_deref(), old) {
        (Some("approval"), Some(old)) if !may(call, "approve", old) => {
            let signer = text(old, "spec.signerName");
            refused(format!("user not permitted to approve requests with signerName {signer:?}"))
        }
        (Some("status"), Some(old)) if !may(call, "sign", old) => {
            let signer = text(old, "spec.signerName");
            refused(format!("user not permitted to sign requests with signerName {signer:?}"))
        }
        (None, None) if asks_for_masters(new) => {
            refused(format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"))
        }
        _ => Ok(()),
    }
}

fn asks_for_masters(object: &Object) -> bool {
    let groups = || Some(certificate::read(&certificate::request(object)?).ok()?.organisations);
    text(object, "spec.signerName") == CLIENT_SIGNER
        && groups().is_some_and(|groups| groups.iter().any(|group| group == MASTERS))
}

/// Whether the caller may do something for the signer of a request, or for all signers of its domain.
fn may(call: &Call, verb: &str, request: &Object) -> bool {
    let signer = text(request, "spec.signerName");
    let domain = format!("{}/*", signer.split('/').next().unwrap_or_default());
    let policy = call.cluster.policy(&call.server);
    [signer, domain.as_str()].iter().any(|name| {
        let on = On::Resource {
            group: certificate::GROUP,
            resource: "signers",
            subresource: "",
            namespace: "",
            name,
        };
        policy.allows(&call.identity, &Wish { verb, on })
    })
}
