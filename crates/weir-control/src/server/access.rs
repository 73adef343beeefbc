//! Access control: the kernel identifies clients of the Unix socket; clients on TCP must present a
//! token.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use tokio::net::UnixStream;

use super::pool::Rank;
use super::reject::Reject;

/// The users that may connect to the Unix socket: root, the daemon's user, and the members of a
/// group.
///
/// The socket's mode enforces the same restriction. This check remains in force if another program
/// changes the mode.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// The daemon's user.
    pub uid: u32,
    /// The group with access, if there is one.
    pub gid: Option<u32>,
    /// Returns the supplementary groups of a socket's peer, where the system can report them.
    pub groups_of: fn(BorrowedFd<'_>) -> io::Result<Vec<u32>>,
}

impl Access {
    /// Checks whether the peer of a connection may use the daemon, and returns its user and rank.
    /// The error states the reason of a refusal.
    pub(super) fn admit(&self, stream: &UnixStream) -> Result<(u32, Rank), String> {
        let peer = stream
            .peer_cred()
            .map_err(|error| format!("the system does not tell who you are: {error}"))?;
        if peer.uid() == 0 || peer.uid() == self.uid {
            return Ok((peer.uid(), Rank::Privileged));
        }
        let member = |gid| {
            peer.gid() == gid
                || (self.groups_of)(stream.as_fd()).is_ok_and(|groups| groups.contains(&gid))
        };
        if self.gid.is_some_and(member) {
            return Ok((peer.uid(), Rank::Other));
        }
        let others =
            self.gid.map(|gid| format!(", and members of group {gid}")).unwrap_or_default();
        Err(format!(
            "user {} may not use this socket; root and user {} may{others}",
            peer.uid(),
            self.uid
        ))
    }
}

/// A router that answers every request with the same refusal.
pub(super) fn refusing(status: StatusCode, why: &str) -> Router {
    let why: Arc<str> = why.into();
    Router::new().fallback(move || {
        let why = Arc::clone(&why);
        async move { Reject::new(status, &*why) }
    })
}

/// The secret that TCP clients must present.
#[derive(Clone)]
pub struct Token(Arc<[u8]>);

/// Why a token file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("the token file {} cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Other users have access to the file.
    #[error("the token file {} can be read by others; 'chmod 600' it", path.display())]
    Open {
        /// The file.
        path: PathBuf,
    },
    /// The content is not a valid token.
    #[error("the token in {} must be one line of {MIN_TOKEN} to {MAX_TOKEN} printable characters \
             without spaces; 'openssl rand -hex 32' makes one", path.display())]
    Form {
        /// The file.
        path: PathBuf,
    },
}

impl Token {
    /// Reads the token from the first and only line of a file.
    ///
    /// # Errors
    /// The file cannot be read, other users have access to it, or it holds no token.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let read = |source| TokenError::Read { path: path.to_owned(), source };
        let form = || TokenError::Form { path: path.to_owned() };
        let file = File::open(path).map_err(read)?;
        let meta = file.metadata().map_err(read)?;
        // A pipe from another program has no mode that matters.
        if meta.is_file() && meta.mode() & 0o077 != 0 {
            return Err(TokenError::Open { path: path.to_owned() });
        }
        let mut bytes = Vec::new();
        file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(read)?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(form());
        }
        let text = String::from_utf8(bytes).map_err(|_| form())?;
        let token = text.trim_end_matches(['\n', '\r']);
        Self::new(token).ok_or_else(form)
    }

    /// The token with this text; `None` if it has the wrong length or characters.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        let long = (MIN_TOKEN..=MAX_TOKEN).contains(&text.len());
        (plain && long).then(|| Self(text.as_bytes().into()))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether `given` equals the token, compared in constant time.
    pub(super) fn matches(&self, given: &[u8]) -> bool {
        Self::same(&self.0, given)
    }

    /// Whether two secrets are equal, compared in constant time.
    pub(super) fn same(own: &[u8], given: &[u8]) -> bool {
        let difference = own.iter().zip(given).fold(0, |differ, (a, b)| differ | (a ^ b));
        std::hint::black_box(difference) == 0 && own.len() == given.len()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Wraps a router so that every request must carry the token.
pub(super) fn with_token(router: Router, token: Token) -> Router {
    router.layer(from_fn_with_state(token, check_token))
}

async fn check_token(State(token): State<Token>, request: Request, next: Next) -> Response {
    let given = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    if given.is_some_and(|given| token.matches(given)) {
        return next.run(request).await;
    }
    let mut response = Reject::new(
        StatusCode::UNAUTHORIZED,
        "send the daemon's token: 'Authorization: Bearer TOKEN'",
    )
    .into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// Minimum length of a token. A shorter token can be guessed.
const MIN_TOKEN: usize = 16;
/// Maximum length of a token.
const MAX_TOKEN: usize = 1024;
/// Size in bytes of the largest token file: the longest token and a line break. The limit prevents
/// a device or a wrong name from exhausting the memory.
const MOST_BYTES: u64 = MAX_TOKEN as u64 + 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_token_matches_only_in_full() {
        let token = Token(b"0123456789abcdef".as_slice().into());
        assert!(token.matches(b"0123456789abcdef"));
        for other in [b"".as_slice(), b"0123456789abcde", b"0123456789abcdeg", b"0123456789abcdef0"]
        {
            assert!(!token.matches(other));
        }
        assert_eq!(format!("{token:?}"), "Token(…)");
    }

    #[test]
    fn a_token_file_must_be_private_and_hold_a_token() {
        let scratch = Scratch::new();
        let path = scratch.path().join("token");
        assert!(matches!(Token::read(&path), Err(TokenError::Read { .. })));
        fs::write(&path, "0123456789abcdef\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(Token::read(&path), Err(TokenError::Open { .. })));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(Token::read(&path).unwrap().matches(b"0123456789abcdef"));
        for text in ["short", "two words are no token", "0123456789abcdef\nand more\n"] {
            fs::write(&path, text).unwrap();
            assert!(matches!(Token::read(&path), Err(TokenError::Form { .. })), "{text}");
        }
        for (length, is_good) in [(MAX_TOKEN, true), (MAX_TOKEN + 1, false), (1 << 20, false)] {
            fs::write(&path, "a".repeat(length) + "\r\n").unwrap();
            assert_eq!(Token::read(&path).is_ok(), is_good, "{length} bytes");
        }
        fs::write(&path, b"\xff123456789abcdef").unwrap();
        assert!(matches!(Token::read(&path), Err(TokenError::Form { .. })));
    }

    #[test]
    fn a_token_file_without_an_end_is_refused() {
        let endless = Path::new("/dev/zero");
        assert!(matches!(Token::read(endless), Err(TokenError::Form { .. })));
    }
}
