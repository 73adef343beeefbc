//! TLS for the web page, by a certificate that the user gives.
//!
//! Without the feature `tls`, a [`Tls`] cannot be made, and no code for it is built.

#[cfg(feature = "tls")]
mod built;
#[cfg(not(feature = "tls"))]
mod left_out;

use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

#[cfg(feature = "tls")]
pub use built::Tls;
#[cfg(not(feature = "tls"))]
pub use left_out::Tls;

/// Why a certificate or its key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// This program has no TLS.
    #[error(
        "this weir is built without TLS; build it with the feature tls, or put a proxy with TLS in \
         front (docs/web.md)"
    )]
    LeftOut,
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file is too long for what it should hold.
    #[error("{} is longer than a certificate or key can be ({most} bytes)", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The greatest length.
        most: u64,
    },
    /// Every user can read the key.
    #[error("the key {} can be read by every user; 'chmod o-rwx' it", path.display())]
    Open {
        /// The file.
        path: PathBuf,
    },
    /// The file has no certificate.
    #[error(
        "{} holds no certificate; it must have the form PEM (BEGIN CERTIFICATE), with the \
         certificate of this server first and those of its issuers after it",
        path.display()
    )]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The file has no key.
    #[error(
        "{} holds no private key in the form PEM (BEGIN PRIVATE KEY); name its file with --web-key",
        path.display()
    )]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// The key has a passphrase.
    #[error(
        "the key in {} is encrypted, and Weir asks for no passphrase; 'openssl pkey -in FILE -out \
         NEW' writes it without one",
        path.display()
    )]
    Encrypted {
        /// The file.
        path: PathBuf,
    },
    /// The certificate is not usable.
    #[error("the certificate in {} cannot be used: {reason}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The key is not usable.
    #[error(
        "the key in {} cannot be used: {reason}; Weir takes RSA keys of 2048 to 8192 bits, ECDSA \
         keys on P-256 and P-384, and Ed25519 keys",
        path.display()
    )]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The key is that of another certificate.
    #[error(
        "the key in {} does not belong to the certificate in {}: compare 'openssl pkey -pubout -in \
         KEY' with 'openssl x509 -noout -pubkey -in CERTIFICATE'",
        key.display(),
        certificate.display()
    )]
    Mismatch {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
}

/// For how long a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// For at least two weeks.
    Valid,
    /// Until this moment, which comes within two weeks.
    EndsSoon(SystemTime),
    /// Until this moment, which has passed: browsers refuse the certificate.
    Expired(SystemTime),
    /// From this moment on, which has not come: browsers refuse the certificate.
    NotYet(SystemTime),
}
