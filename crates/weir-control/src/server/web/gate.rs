//! Who may use the page's server.
//!
//! A browser sends requests to this server on behalf of any page that it shows, so three things
//! are checked. The `Host` must be a name of this server: a page of another name that resolves to
//! this address (DNS rebinding) is refused. A change, and the stream, must not come from a page of
//! another `Origin`. And every request for a resource, except a login, needs the token, or the
//! cookie that the token is exchanged for; the cookie is `HttpOnly` and `SameSite=Strict`.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use super::files;
use crate::server::access::Token;
use crate::server::budget::Uploads;
use crate::server::reject::Reject;
use crate::server::tls::Tls;
use crate::server::upload;

/// The rights of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    /// Everything.
    Full,
    /// Reading only.
    Read,
}

impl Right {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Read => "read",
        }
    }
}

/// The content security policy of an answer that is a separate document, such as a report. It
/// replaces the policy of the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnPolicy(pub(super) &'static str);

/// The secrets and names of a page's server.
#[derive(Clone, Debug)]
pub struct WebAccess {
    /// The token with all rights.
    pub full: Token,
    /// The token that permits reading only.
    pub read: Token,
    /// Further names of this server, such as that of a proxy in front of it. The port is optional.
    pub hosts: Vec<String>,
    /// The encryption. If there is one, browsers send cookies over TLS only.
    pub tls: Option<Tls>,
}

/// The checks of one server.
pub(super) struct Gate {
    access: WebAccess,
    /// The address on which the server listens.
    bound: SocketAddr,
    /// The name of the cookie.
    cookie: String,
    /// The values of the cookie for all rights and for reading: a hash of each token, so that a
    /// cookie does not reveal its token.
    values: [String; 2],
    /// Limits the wrong tokens.
    wrong: Mutex<Bucket>,
    uploads: Uploads,
    /// Becomes true when the server stops.
    stopped: watch::Receiver<bool>,
}

/// How many wrong tokens the server still answers before it tells clients to wait. The number grows
/// with time.
struct Bucket {
    left: f64,
    /// When `left` was computed.
    at: Instant,
}

impl Bucket {
    /// Takes one wrong token; false if none is left.
    fn take(&mut self) -> bool {
        let now = Instant::now();
        let more = now.duration_since(self.at).as_secs_f64() * WRONG_PER_SECOND;
        (self.left, self.at) = ((self.left + more).min(WRONG_AT_ONCE), now);
        let some = self.left >= 1.0;
        self.left -= f64::from(u8::from(some));
        some
    }
}

impl Gate {
    pub(super) fn new(
        access: WebAccess,
        bound: SocketAddr,
        stopped: watch::Receiver<bool>,
    ) -> Arc<Self> {
        let value = |token: &Token, right: Right| {
            let hash = Sha256::new()
                .chain_update(b"weir page ")
                .chain_update(right.name())
                .chain_update([0])
                .chain_update(token.bytes())
                .finalize();
            hash.iter().map(|byte| format!("{byte:02x}")).collect()
        };
        let values = [value(&access.full, Right::Full), value(&access.read, Right::Read)];
        Arc::new(Self {
            cookie: format!("weir-{}", bound.port()),
            values,
            wrong: Mutex::new(Bucket { left: WRONG_AT_ONCE, at: Instant::now() }),
            access,
            bound,
            uploads: Uploads::default(),
            stopped,
        })
    }

    /// Wraps a router with the checks. Paths below `/v1/` and the path `/metrics` are resources.
    /// All other paths are files of the page.
    pub(super) fn around(self: &Arc<Self>, router: Router) -> Router {
        router.layer(from_fn_with_state(Arc::clone(self), check))
    }

    /// The right of a request; `None` if it has neither a token nor a cookie of this server.
    fn right(&self, headers: &HeaderMap) -> Option<Right> {
        let bearer = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        if let Some(token) = bearer {
            return self.right_of_token(token);
        }
        let cookies = headers.get_all(header::COOKIE).iter();
        let mut pairs = cookies
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));
        let (_, value) = pairs.find(|(name, _)| *name == self.cookie)?;
        let is = |own: &str| Token::same(own.as_bytes(), value.as_bytes());
        match (is(&self.values[0]), is(&self.values[1])) {
            (true, _) => Some(Right::Full),
            (_, true) => Some(Right::Read),
            _ => None,
        }
    }

    fn right_of_token(&self, given: &[u8]) -> Option<Right> {
        match (self.access.full.matches(given), self.access.read.matches(given)) {
            (true, _) => Some(Right::Full),
            (_, true) => Some(Right::Read),
            _ => None,
        }
    }

    /// Whether a host with or without a port is a name of this server.
    fn is_own_host(&self, host: &str) -> bool {
        let name = without_port(host);
        if self
            .access
            .hosts
            .iter()
            .any(|own| own.eq_ignore_ascii_case(host) || own.eq_ignore_ascii_case(name))
            || name.eq_ignore_ascii_case("localhost")
            || self.is_in_certificate(name)
        {
            return true;
        }
        // Only a name can be rebound to another address. Every address that leads to this server
        // is therefore accepted.
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        address.is_ok_and(|address| {
            address.is_loopback() || self.bound.ip().is_unspecified() || address == self.bound.ip()
        })
    }

    /// Whether the certificate says that this server has this name.
    fn is_in_certificate(&self, name: &str) -> bool {
        let names = self.access.tls.iter().flat_map(Tls::names);
        names.into_iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// Refuses a request for the wrong host, and a change or stream from a page of another server.
    fn admit(&self, request: &Request) -> Result<(), Reject> {
        let headers = request.headers();
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = match (hosts.next().map(HeaderValue::to_str), hosts.next()) {
            (Some(Ok(host)), None) => host,
            _ => return Err(Reject::new(StatusCode::BAD_REQUEST, "send one Host")),
        };
        let named = request.uri().authority().map_or(host, |authority| authority.as_str());
        if !self.is_own_host(host) || !self.is_own_host(named) {
            let text = "this server has another name; --allowed-host NAME adds one, such as that \
                        of a proxy";
            return Err(Reject::new(StatusCode::FORBIDDEN, text));
        }
        let is_change = request.method() != Method::GET && request.method() != Method::HEAD;
        if !is_change && !headers.contains_key(header::UPGRADE) {
            return Ok(());
        }
        let foreign = || {
            let text = "a page of another server asks for this; only Weir's own page may";
            Err(Reject::new(StatusCode::FORBIDDEN, text))
        };
        for origin in headers.get_all(header::ORIGIN) {
            let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
            if !authority.is_some_and(|(_, authority)| is_same_host(authority, host)) {
                return foreign();
            }
        }
        match headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes) {
            None | Some(b"same-origin" | b"none") => Ok(()),
            Some(_) => foreign(),
        }
    }

    /// Exchanges a token for a cookie.
    async fn login(&self, request: Request) -> Result<Response, Reject> {
        let (Login { token }, _) = upload::json(&self.uploads, &self.stopped, request).await?;
        let Some(right) = self.right_of_token(token.as_bytes()) else {
            let left = self.wrong.lock().unwrap_or_else(PoisonError::into_inner).take();
            if left {
                return Err(Reject::new(StatusCode::UNAUTHORIZED, "this is not the token"));
            }
            let text = "too many wrong tokens; wait a second";
            return Err(Reject::new(StatusCode::TOO_MANY_REQUESTS, text).after("1"));
        };
        let value = &self.values[usize::from(right == Right::Read)];
        Ok(self.set_cookie(value, ""))
    }

    /// An answer that sets the cookie. `more` has further attributes of the cookie.
    fn set_cookie(&self, value: &str, more: &str) -> Response {
        let secure = if self.access.tls.is_some() { "; Secure" } else { "" };
        let cookie =
            format!("{}={value}; HttpOnly; SameSite=Strict; Path=/{secure}{more}", self.cookie);
        let mut response = StatusCode::NO_CONTENT.into_response();
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            response.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        response
    }

    /// Answers a request: with a file of the page, a login or logout, or a resource.
    async fn answer(&self, mut request: Request, next: Next) -> Result<Response, Reject> {
        self.admit(&request)?;
        let path = request.uri().path();
        if !path.starts_with("/v1/") && path != "/metrics" {
            return Ok(files::serve(request.method(), path, request.headers()));
        }
        if request.method() == Method::POST && path == "/v1/login" {
            return self.login(request).await;
        }
        let Some(right) = self.right(request.headers()) else {
            let text = "open the page at the address with the token that was printed, or send \
                        'Authorization: Bearer TOKEN'";
            return Err(Reject::new(StatusCode::UNAUTHORIZED, text));
        };
        if request.method() == Method::POST && path == "/v1/logout" {
            return Ok(self.set_cookie("", "; Max-Age=0"));
        }
        let only_reads = matches!(*request.method(), Method::GET | Method::HEAD);
        if right == Right::Read && !only_reads {
            return Err(Reject::new(
                StatusCode::FORBIDDEN,
                "this token only permits reading; it cannot change anything",
            ));
        }
        request.extensions_mut().insert(right);
        Ok(next.run(request).await)
    }
}

/// Answers a request, and adds the security headers.
async fn check(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let is_api = request.uri().path().starts_with("/v1/");
    let mut response = gate.answer(request, next).await.unwrap_or_else(Reject::into_response);
    let own = response.extensions().get::<OwnPolicy>().copied();
    let headers = response.headers_mut();
    for (name, value) in SECURITY {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if let Some(OwnPolicy(policy)) = own {
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    }
    if is_api {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    token: String,
}

/// A host without its port. Brackets of an IPv6 address stay.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            let is_bare_ipv6 = name.contains(':') && !name.ends_with(']');
            if is_bare_ipv6 { host } else { name }
        }
        _ => host,
    }
}

/// Whether two hosts with or without their default ports are the same.
fn is_same_host(one: &str, other: &str) -> bool {
    let plain = |host: &str| {
        let host = host.strip_suffix(":80").or_else(|| host.strip_suffix(":443")).unwrap_or(host);
        host.to_ascii_lowercase()
    };
    plain(one) == plain(other)
}

/// The header with which browsers report whether a page of this server sent the request.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Number of wrong tokens that are answered before clients are told to wait.
const WRONG_AT_ONCE: f64 = 10.0;
/// Number of further wrong tokens that are answered in each second.
const WRONG_PER_SECOND: f64 = 1.0;
/// Headers of every answer. They forbid content from other servers, frames, and guesses about
/// content types.
const SECURITY: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
         font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("x-frame-options", "DENY"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn gate(bound: &str, hosts: &[&str]) -> Arc<Gate> {
        let token = |text: &str| Token::new(text).unwrap();
        let access = WebAccess {
            full: token("0123456789abcdef"),
            read: token("fedcba9876543210"),
            hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
            tls: None,
        };
        Gate::new(access, bound.parse().unwrap(), watch::channel(false).1)
    }

    fn is_admitted(gate: &Gate, method: Method, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::builder().method(method).uri("/v1/change");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        gate.admit(&request.body(Body::empty()).unwrap()).is_ok()
    }

    #[test]
    fn only_own_names_are_served() {
        let gate_ = gate("127.0.0.1:8080", &["lab.example", "proxy.example:8443"]);
        let own = [
            "127.0.0.1:8080",
            "localhost:9",
            "LOCALHOST",
            "[::1]:8080",
            "lab.example:1",
            "lab.example",
            "proxy.example:8443",
            "127.0.0.2",
        ];
        for host in own {
            assert!(is_admitted(&gate_, Method::GET, &[("host", host)]), "{host}");
        }
        for host in [
            "evil.example:8080",
            "192.0.2.1:8080",
            "localhost.evil.example",
            "",
            "proxy.example",
            "127.0.0.1.evil.example:8080",
        ] {
            assert!(!is_admitted(&gate_, Method::GET, &[("host", host)]), "{host}");
        }
        assert!(!is_admitted(&gate_, Method::GET, &[]));
        let two = [("host", "localhost"), ("host", "localhost")];
        assert!(!is_admitted(&gate_, Method::GET, &two));
        let all = gate("0.0.0.0:8080", &[]);
        assert!(is_admitted(&all, Method::GET, &[("host", "192.0.2.1:8080")]));
        assert!(!is_admitted(&all, Method::GET, &[("host", "evil.example:8080")]));
    }

    #[test]
    fn changes_and_streams_come_from_the_own_page() {
        let gate = gate("127.0.0.1:8080", &[]);
        let host = ("host", "localhost:8080");
        let post = |more| is_admitted(&gate, Method::POST, &[host, more]);
        assert!(post(("origin", "http://localhost:8080")));
        assert!(post(("origin", "https://localhost:8080")), "a proxy may end the encryption");
        assert!(post(("sec-fetch-site", "same-origin")));
        for origin in
            ["http://evil.example", "http://localhost:3000", "null", "http://127.0.0.1:8080"]
        {
            assert!(!post(("origin", origin)), "{origin}");
            let stream = [host, ("upgrade", "websocket"), ("origin", origin)];
            assert!(!is_admitted(&gate, Method::GET, &stream), "{origin}");
        }
        assert!(!post(("sec-fetch-site", "same-site")));
        assert!(is_admitted(&gate, Method::GET, &[host, ("origin", "http://evil.example")]));
    }

    #[test]
    fn a_cookie_has_the_rights_of_its_token() {
        let gate = gate("127.0.0.1:8080", &[]);
        let right = |name: HeaderName, value: &str| {
            let headers = HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())]);
            gate.right(&headers)
        };
        assert_eq!(right(header::AUTHORIZATION, "Bearer 0123456789abcdef"), Some(Right::Full));
        assert_eq!(right(header::AUTHORIZATION, "Bearer fedcba9876543210"), Some(Right::Read));
        assert_eq!(right(header::AUTHORIZATION, "Bearer 0123456789abcdee"), None);
        let [full, read] = &gate.values;
        let cookie = |value: &str| right(header::COOKIE, &format!("a=b; weir-8080={value}; c=d"));
        assert_eq!((cookie(full), cookie(read)), (Some(Right::Full), Some(Right::Read)));
        assert_eq!((cookie(""), cookie("0123456789abcdef")), (None, None));
        assert_eq!(right(header::COOKIE, &format!("weir-8081={full}")), None);
    }

    #[test]
    fn after_some_wrong_tokens_clients_must_wait() {
        let mut bucket = Bucket { left: WRONG_AT_ONCE, at: Instant::now() };
        let taken = (0..100).filter(|_| bucket.take()).count();
        assert!((10..100).contains(&taken), "{taken}");
    }
}
