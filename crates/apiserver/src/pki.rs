//! The server's own certificates: a CA made on first start, and below it a certificate to serve with and those of its
//! clients, all renewed before they end. Private keys never leave the directory.

use std::fs;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use time::{Duration, OffsetDateTime};

use crate::identity::{ADMINS, MASTERS};

const CA_LIFE: Duration = Duration::days(3650);
const LIFE: Duration = Duration::days(365);
/// A certificate is renewed when less than this part of its life is left.
const RENEW_AT: i32 = 5;

/// What went wrong with the certificates.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file could not be read or written.
    #[error("cannot {action} {path}: {source}")]
    File {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A file holds something else than it should.
    #[error("{path} is not usable: {detail}; move it away to have a new one made")]
    Unusable {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// A certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
}

/// A certificate and its key, as PEM.
#[derive(Clone)]
pub struct Credential {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential").finish_non_exhaustive()
    }
}

/// The certificates of a server.
#[derive(Clone, Debug)]
pub struct Pki {
    /// The CA's certificate, as PEM.
    pub ca: String,
    /// What the server shows.
    pub serving: Credential,
    /// What the administrator shows: a name and a group that roles are bound to.
    pub admin: Credential,
    /// What opens every door, for the day on which the rules themselves are broken.
    pub master: Credential,
    /// The key that signs tokens, as PEM.
    pub signing_key: String,
    /// The CA itself.
    authority: Credential,
}

impl Pki {
    /// Reads the certificates in a directory, and makes those that are missing, ending or for other addresses.
    pub fn load_or_create(dir: &Path, addresses: &[IpAddr]) -> Result<Self, PkiError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(|source| file_error("create", dir, source))?;
        let ca = load_or_make_ca(dir)?;
        let names = serving_names(addresses);
        let serving = credential(dir, "server", &ca, Purpose::Serving(&names))?;
        let admin = credential(dir, "admin", &ca, ADMIN)?;
        let master = credential(dir, "master", &ca, MASTER)?;
        let signing_key = load_or_make_signing_key(dir)?;
        Ok(Self { ca: ca.certificate.clone(), serving, admin, master, signing_key, authority: ca })
    }

    /// The CA, as the server wants it to sign certificates of its clients.
    pub fn authority(&self) -> Authority {
        Authority(self.authority.clone())
    }

    /// Somebody's certificate in a directory: the one that is there, or a new one.
    pub fn client(&self, dir: &Path, name: &str, user: &str, group: &str) -> Result<Credential, PkiError> {
        credential(dir, name, &self.authority, Purpose::Client { user, group })
    }

    /// Certificates that live in memory only, for tests and embedding.
    pub fn ephemeral(addresses: &[IpAddr]) -> Result<Self, PkiError> {
        let ca = make_ca()?;
        let names = serving_names(addresses);
        Ok(Self {
            serving: issue(&ca, Purpose::Serving(&names))?,
            admin: issue(&ca, ADMIN)?,
            master: issue(&ca, MASTER)?,
            signing_key: KeyPair::generate()?.serialize_pem(),
            ca: ca.certificate.clone(),
            authority: ca,
        })
    }
}

/// A CA that signs what its clients ask for.
#[derive(Clone, Debug)]
pub struct Authority(Credential);

impl Authority {
    /// The certificate of a client for a request, which lives for as many seconds or a year. Of what the request asks
    /// for, only its subject and its key count.
    pub(crate) fn sign_client(&self, request: &[u8], seconds: Option<i64>) -> Result<String, PkiError> {
        let mut request = CertificateSigningRequestParams::from_der(&request.into())?;
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        params.distinguished_name = std::mem::take(&mut request.params.distinguished_name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, seconds.map_or(LIFE, Duration::seconds).min(LIFE));
        request.params = params;
        let issuer = Issuer::from_ca_cert_pem(&self.0.certificate, KeyPair::from_pem(&self.0.key)?)?;
        Ok(request.signed_by(&issuer)?.pem())
    }
}

const ADMIN: Purpose<'static> = Purpose::Client { user: "admin", group: ADMINS };
const MASTER: Purpose<'static> = Purpose::Client { user: "bellwether:break-glass", group: MASTERS };

/// What a certificate is for.
#[derive(Clone, Copy)]
enum Purpose<'a> {
    Serving(&'a [String]),
    Client { user: &'a str, group: &'a str },
}

fn serving_names(addresses: &[IpAddr]) -> Vec<String> {
    let mut names: Vec<String> = [
        "localhost",
        "127.0.0.1",
        "::1",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ]
    .map(str::to_owned)
    .to_vec();
    if let Some(host) = fs::read_to_string("/etc/hostname").ok().map(|name| name.trim().to_owned()) {
        let valid = !host.is_empty()
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.');
        if valid {
            names.push(host);
        }
    }
    for address in addresses {
        let address = address.to_string();
        if !address.starts_with("0.0.0.0") && !names.contains(&address) {
            names.push(address);
        }
    }
    names
}

fn make_ca() -> Result<Credential, PkiError> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.distinguished_name.push(DnType::CommonName, "bellwether-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    set_validity(&mut params, CA_LIFE);
    let certificate = params.self_signed(&key)?;
    Ok(Credential { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn issue(ca: &Credential, purpose: Purpose<'_>) -> Result<Credential, PkiError> {
    let issuer = Issuer::from_ca_cert_pem(&ca.certificate, KeyPair::from_pem(&ca.key)?)?;
    let key = KeyPair::generate()?;
    let mut params = match purpose {
        Purpose::Serving(names) => {
            let mut params = CertificateParams::new(names.to_vec())?;
            params.distinguished_name.push(DnType::CommonName, "bellwether");
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            params
        }
        Purpose::Client { user, group } => {
            let mut params = CertificateParams::new(Vec::<String>::new())?;
            params.distinguished_name.push(DnType::CommonName, user);
            params.distinguished_name.push(DnType::OrganizationName, group);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            params
        }
    };
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, LIFE);
    let certificate = params.signed_by(&key, &issuer)?;
    Ok(Credential { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn set_validity(params: &mut CertificateParams, life: Duration) {
    let now = OffsetDateTime::now_utc();
    // A client's clock may be a little behind.
    params.not_before = now - Duration::minutes(5);
    params.not_after = now + life;
}

fn load_or_make_ca(dir: &Path) -> Result<Credential, PkiError> {
    if let Some(ca) = read(dir, "ca")? {
        check_pair(&dir.join("ca.crt"), &ca)?;
        return Ok(ca);
    }
    // Half of a CA beside what it signed is what a careless copy leaves: a new one in its place would end every
    // credential there is. A key alone is a first start that did not come to its end.
    let is_there = |name: &str| dir.join(name).exists();
    if is_there("ca.crt") || (is_there("ca.key") && is_there("admin.crt")) {
        let path = dir.join(if is_there("ca.crt") { "ca.crt" } else { "ca.key" });
        return Err(PkiError::Unusable { path, detail: "its other half is missing".to_owned() });
    }
    let ca = make_ca()?;
    write(dir, "ca", &ca)?;
    Ok(ca)
}

fn load_or_make_signing_key(dir: &Path) -> Result<String, PkiError> {
    let path = dir.join("sa.key");
    if let Some(found) = read_file(&path)? {
        KeyPair::from_pem(&found)
            .map_err(|error| PkiError::Unusable { path: path.clone(), detail: error.to_string() })?;
        return Ok(found);
    }
    let made = KeyPair::generate()?.serialize_pem();
    write_private(&path, made.as_bytes())?;
    Ok(made)
}

fn credential(dir: &Path, name: &str, ca: &Credential, purpose: Purpose<'_>) -> Result<Credential, PkiError> {
    if let Some(found) = read(dir, name)? {
        let path = dir.join(format!("{name}.crt"));
        check_pair(&path, &found)?;
        if is_fresh(&path, &found, ca, purpose)? {
            return Ok(found);
        }
    }
    let made = issue(ca, purpose)?;
    write(dir, name, &made)?;
    Ok(made)
}

fn check_pair(path: &Path, credential: &Credential) -> Result<(), PkiError> {
    let unusable = |detail: String| PkiError::Unusable { path: path.to_owned(), detail };
    let key = KeyPair::from_pem(&credential.key).map_err(|error| unusable(format!("its key: {error}")))?;
    let (_, pem) = x509_parser::pem::parse_x509_pem(credential.certificate.as_bytes())
        .map_err(|error| unusable(error.to_string()))?;
    let certificate = pem.parse_x509().map_err(|error| unusable(error.to_string()))?;
    use rcgen::PublicKeyData as _;
    if certificate.public_key().raw != key.subject_public_key_info() {
        return Err(unusable("certificate and key do not belong together".into()));
    }
    Ok(())
}

/// Whether a certificate is of this CA, for these names, and lives long enough.
fn is_fresh(
    path: &Path,
    credential: &Credential,
    ca: &Credential,
    purpose: Purpose<'_>,
) -> Result<bool, PkiError> {
    let unusable = |detail: String| PkiError::Unusable { path: path.to_owned(), detail };
    let (_, pem) = x509_parser::pem::parse_x509_pem(credential.certificate.as_bytes())
        .map_err(|error| unusable(error.to_string()))?;
    let certificate = pem.parse_x509().map_err(|error| unusable(error.to_string()))?;
    let (_, ca_pem) = x509_parser::pem::parse_x509_pem(ca.certificate.as_bytes())
        .map_err(|error| unusable(error.to_string()))?;
    let ca = ca_pem.parse_x509().map_err(|error| unusable(error.to_string()))?;
    let key_id = |certificate: &x509_parser::certificate::X509Certificate<'_>, authority: bool| {
        certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
            x509_parser::extensions::ParsedExtension::SubjectKeyIdentifier(id) if !authority => {
                Some(id.0.to_vec())
            }
            x509_parser::extensions::ParsedExtension::AuthorityKeyIdentifier(id) if authority => {
                id.key_identifier.as_ref().map(|id| id.0.to_vec())
            }
            _ => None,
        })
    };
    if key_id(&certificate, true) != key_id(&ca, false) {
        return Ok(false);
    }
    let now = OffsetDateTime::now_utc();
    let left = certificate.validity().not_after.to_datetime() - now;
    if left < LIFE / RENEW_AT {
        return Ok(false);
    }
    match purpose {
        Purpose::Serving(names) => Ok(names.iter().all(|name| covers(&certificate, name))),
        Purpose::Client { user, group } => Ok(certifies(&certificate, user, group)),
    }
}

fn certifies(certificate: &x509_parser::certificate::X509Certificate<'_>, user: &str, group: &str) -> bool {
    let subject = certificate.subject();
    let is_user = subject.iter_common_name().any(|name| name.as_str() == Ok(user));
    is_user && subject.iter_organization().any(|name| name.as_str() == Ok(group))
}

fn covers(certificate: &x509_parser::certificate::X509Certificate<'_>, name: &str) -> bool {
    use x509_parser::extensions::GeneralName;
    let Ok(Some(alternatives)) = certificate.subject_alternative_name() else { return false };
    let address: Option<Vec<u8>> = name.parse::<IpAddr>().ok().map(|address| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    });
    alternatives.value.general_names.iter().any(|alternative| match (alternative, &address) {
        (GeneralName::DNSName(found), None) => *found == name,
        (GeneralName::IPAddress(found), Some(address)) => *found == address.as_slice(),
        _ => false,
    })
}

fn file_error(action: &'static str, path: &Path, source: std::io::Error) -> PkiError {
    PkiError::File { action, path: path.to_owned(), source }
}

fn read_file(path: &Path) -> Result<Option<String>, PkiError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(file_error("read", path, source)),
    }
}

fn read(dir: &Path, name: &str) -> Result<Option<Credential>, PkiError> {
    let certificate = read_file(&dir.join(format!("{name}.crt")))?;
    let key = read_file(&dir.join(format!("{name}.key")))?;
    Ok(match (certificate, key) {
        (Some(certificate), Some(key)) => Some(Credential { certificate, key }),
        // A crash between the two leaves a key alone: both are made anew.
        _ => None,
    })
}

fn write(dir: &Path, name: &str, credential: &Credential) -> Result<(), PkiError> {
    // The key first: a certificate is only ever there with its key.
    let _ = fs::remove_file(dir.join(format!("{name}.crt")));
    write_private(&dir.join(format!("{name}.key")), credential.key.as_bytes())?;
    write_private(&dir.join(format!("{name}.crt")), credential.certificate.as_bytes())
}

/// Writes a file that only its owner can read, whole or not at all.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), PkiError> {
    let temporary = path.with_extension("tmp");
    let _ = fs::remove_file(&temporary);
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&temporary, path));
    written.map_err(|source| file_error("write", path, source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn certificates_are_made_once_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let first = Pki::load_or_create(dir.path(), &[]).unwrap();
        let second = Pki::load_or_create(dir.path(), &[]).unwrap();
        assert_eq!(first.ca, second.ca);
        assert_eq!(first.serving.certificate, second.serving.certificate);
        for name in ["ca.key", "ca.crt", "server.key", "admin.key", "master.key", "sa.key"] {
            let mode = fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn a_new_address_gets_a_new_serving_certificate_under_the_same_ca() {
        let dir = tempfile::tempdir().unwrap();
        let first = Pki::load_or_create(dir.path(), &[]).unwrap();
        let second = Pki::load_or_create(dir.path(), &["10.1.2.3".parse().unwrap()]).unwrap();
        assert_eq!(first.ca, second.ca);
        assert_ne!(first.serving.certificate, second.serving.certificate);
        assert_eq!(first.admin.certificate, second.admin.certificate);
    }

    #[test]
    fn half_of_a_ca_is_not_replaced_but_a_first_start_is_begun_again() {
        for missing in ["ca.crt", "ca.key"] {
            let dir = tempfile::tempdir().unwrap();
            Pki::load_or_create(dir.path(), &[]).unwrap();
            fs::remove_file(dir.path().join(missing)).unwrap();
            let error = Pki::load_or_create(dir.path(), &[]).unwrap_err().to_string();
            assert!(error.contains("its other half is missing"), "{error}");
        }
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("ca.key"), "half").unwrap();
        Pki::load_or_create(dir.path(), &[]).unwrap();
    }

    #[test]
    fn a_damaged_file_is_named_and_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        Pki::load_or_create(dir.path(), &[]).unwrap();
        fs::write(dir.path().join("ca.crt"), "garbage").unwrap();
        let error = Pki::load_or_create(dir.path(), &[]).unwrap_err().to_string();
        assert!(error.contains("ca.crt is not usable"), "{error}");
        assert_eq!(fs::read_to_string(dir.path().join("ca.crt")).unwrap(), "garbage");
    }
}
