//! Reads certificates, keys and tokens from files. When they are read again is left to [`client`](super::client).

use std::path::Path;
use std::sync::Arc;

use http::HeaderValue;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::client::CredentialFiles;

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {what} from {path}: {cause}")]
pub struct CredentialError {
    what: &'static str,
    path: String,
    cause: String,
}

impl CredentialError {
    fn new(what: &'static str, path: &Path, cause: impl ToString) -> Self {
        Self { what, path: path.display().to_string(), cause: cause.to_string() }
    }
}

/// The TLS settings of a client.
pub(crate) fn client_config(
    is_https: bool,
    files: &CredentialFiles,
) -> Result<ClientConfig, CredentialError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| CredentialError::new("TLS settings", Path::new("the program"), error))?;
    let builder = builder.with_root_certificates(trusted_roots(is_https, files)?);
    let (Some(certificate), Some(key)) = (&files.certificate, &files.key) else {
        return Ok(builder.with_no_client_auth());
    };
    let certificates = read_certificates("the client certificate", certificate)?;
    let private_key = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| CredentialError::new("the private key of the client certificate", key, error))?;
    builder
        .with_client_auth_cert(certificates, private_key)
        .map_err(|error| CredentialError::new("the client certificate", certificate, error))
}

fn trusted_roots(is_https: bool, files: &CredentialFiles) -> Result<RootCertStore, CredentialError> {
    let mut roots = RootCertStore::empty();
    match &files.ca {
        Some(path) => {
            for certificate in read_certificates("CA certificates", path)? {
                roots
                    .add(certificate)
                    .map_err(|error| CredentialError::new("CA certificates", path, error))?;
            }
        }
        None if is_https => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        None => {}
    }
    Ok(roots)
}

fn read_certificates(
    what: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, CredentialError> {
    let certificates = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match certificates {
        Ok(certificates) if certificates.is_empty() => {
            Err(CredentialError::new(what, path, "it has no certificate in PEM format"))
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(CredentialError::new(what, path, error)),
    }
}

/// The header with the bearer token.
pub(crate) fn authorization(files: &CredentialFiles) -> Result<Option<HeaderValue>, CredentialError> {
    let Some(path) = &files.token else { return Ok(None) };
    let failed = |cause: String| CredentialError::new("the bearer token", path, cause);
    let token = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let token = token.trim();
    if token.is_empty() {
        return Err(failed("the file is empty".to_owned()));
    }
    let mut header = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| failed("it has characters that a token cannot have".to_owned()))?;
    header.set_sensitive(true);
    Ok(Some(header))
}
