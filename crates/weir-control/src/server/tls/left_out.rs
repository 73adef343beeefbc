//! Replaces TLS in a program that is built without it.

use std::io;
use std::path::Path;
use std::time::SystemTime;

use tokio::io::{AsyncRead, AsyncWrite};

use super::{TlsError, Validity};

/// TLS, which this program does not have.
#[derive(Clone, Debug)]
pub enum Tls {}

impl Tls {
    /// Refuses the files.
    ///
    /// # Errors
    /// Always.
    pub fn read(_certificate: &Path, _key: &Path) -> Result<Self, TlsError> {
        Err(TlsError::LeftOut)
    }

    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn reload(&self) -> Result<(), TlsError> {
        match *self {}
    }

    /// Never called.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        match *self {}
    }

    /// Never called.
    #[must_use]
    pub fn validity(&self, _now: SystemTime) -> Validity {
        match *self {}
    }

    pub(in crate::server) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        _stream: S,
    ) -> io::Result<S> {
        match *self {}
    }
}
