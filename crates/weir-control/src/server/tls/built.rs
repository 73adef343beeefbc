//! TLS with rustls: versions 1.2 and 1.3, for clients without certificates.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use webpki::{EndEntityCert, KeyUsage};

use super::{TlsError, Validity};

/// A certificate with its key. Clones share the certificate and its later replacements.
#[derive(Clone)]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    current: Arc<Current>,
    config: Arc<ServerConfig>,
}

/// The certificate in use.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.get())
    }
}

impl Current {
    fn get(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Tls {
    /// Reads a certificate with those of its issuers, and its key, each from a file in PEM form.
    ///
    /// # Errors
    /// A file cannot be read, does not hold what it should, or the two do not belong together. An
    /// expired certificate is no error: see [`Self::validity`].
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let current = Arc::new(Current(RwLock::new(load(certificate, key, &provider)?)));
        let unusable = |reason: rustls::Error| TlsError::Certificate {
            path: certificate.to_owned(),
            reason: reason.into(),
        };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        Ok(Self { certificate, key, current, config: Arc::new(config) })
    }

    /// Reads the files again. New connections use the new certificate. If reading fails, nothing
    /// changes.
    ///
    /// # Errors
    /// See [`Self::read`].
    pub fn reload(&self) -> Result<(), TlsError> {
        let new = load(&self.certificate, &self.key, self.config.crypto_provider())?;
        *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// The DNS names for which the certificate is valid, without wildcard names (`*.`).
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let certified = self.current.get();
        let Some(first) = certified.cert.first() else { return Vec::new() };
        let Ok(certificate) = EndEntityCert::try_from(first) else { return Vec::new() };
        let names = certificate.valid_dns_names().filter(|name| !name.contains('*'));
        names.map(str::to_owned).collect()
    }

    /// For how long the certificate is valid.
    #[must_use]
    pub fn validity(&self, now: SystemTime) -> Validity {
        let certified = self.current.get();
        let Some(first) = certified.cert.first() else { return Validity::Valid };
        let Ok(certificate) = EndEntityCert::try_from(first) else { return Validity::Valid };
        let moment = |time: UnixTime| UNIX_EPOCH + Duration::from_secs(time.as_secs());
        match (fault(&certificate, now), fault(&certificate, now + SOON)) {
            (Some(webpki::Error::CertNotValidYet { not_before, .. }), _) => {
                Validity::NotYet(moment(not_before))
            }
            (Some(webpki::Error::CertExpired { not_after, .. }), _) => {
                Validity::Expired(moment(not_after))
            }
            (_, Some(webpki::Error::CertExpired { not_after, .. })) => {
                Validity::EndsSoon(moment(not_after))
            }
            _ => Validity::Valid,
        }
    }

    /// Agrees on encryption with the client, and returns the encrypted stream over `stream`.
    pub(in crate::server) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> io::Result<TlsStream<S>> {
        TlsAcceptor::from(Arc::clone(&self.config)).accept(stream).await
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tls({})", self.certificate.display())
    }
}

/// Reads a certificate and its key, and checks both.
fn load(
    certificate: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, TlsError> {
    let text = read(certificate)?.0;
    let unusable = |reason: Box<dyn std::error::Error + Send + Sync>| TlsError::Certificate {
        path: certificate.to_owned(),
        reason,
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.map_err(|error| unusable(error.into()))?;
    let Some(first) = chain.first() else {
        return Err(TlsError::NoCertificate { path: certificate.to_owned() });
    };
    let parsed = EndEntityCert::try_from(first).map_err(|error| unusable(error.into()))?;
    if let Some(error @ webpki::Error::InvalidCertValidity) = fault(&parsed, SystemTime::now()) {
        return Err(unusable(error.into()));
    }
    let (text, mode) = read(key)?;
    let unusable = |reason: Box<dyn std::error::Error + Send + Sync>| TlsError::Key {
        path: key.to_owned(),
        reason,
    };
    if is_encrypted(&text) {
        return Err(TlsError::Encrypted { path: key.to_owned() });
    }
    let own = PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::NoKey { path: key.to_owned() },
        error => unusable(error.into()),
    })?;
    if mode & 0o007 != 0 {
        return Err(TlsError::Open { path: key.to_owned() });
    }
    let own = provider.key_provider.load_private_key(own);
    let own = own.map_err(|error| unusable(error.into()))?;
    let certified = CertifiedKey::new(chain, own);
    certified.keys_match().map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            TlsError::Mismatch { certificate: certificate.to_owned(), key: key.to_owned() }
        }
        error => unusable(error.into()),
    })?;
    Ok(Arc::new(certified))
}

/// The first fault of a certificate at a time. No issuer is trusted here, so every certificate has
/// a fault. The time is checked first.
fn fault(certificate: &EndEntityCert<'_>, time: SystemTime) -> Option<webpki::Error> {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (time, usage) = (UnixTime::since_unix_epoch(since), KeyUsage::server_auth());
    certificate.verify_for_usage(&[], &[], &[], time, usage, None, None).err()
}

/// Whether a text in PEM form has an encrypted key, in PKCS #8 or in OpenSSL's older form.
fn is_encrypted(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED")
}

/// The content and the mode of a file.
fn read(path: &Path) -> Result<(Vec<u8>, u32), TlsError> {
    let failed = |source| TlsError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    let mut content = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut content).map_err(failed)?;
    if content.len() as u64 > MOST_BYTES {
        return Err(TlsError::TooLong { path: path.to_owned(), most: MOST_BYTES });
    }
    // A pipe from another program has no mode that matters.
    Ok((content, if meta.is_file() { meta.mode() } else { 0 }))
}

/// The longest file: a chain of more than a hundred certificates.
const MOST_BYTES: u64 = 256 << 10;
/// How long before its end a certificate counts as [`Validity::EndsSoon`].
const SOON: Duration = Duration::from_secs(14 * 86_400);
