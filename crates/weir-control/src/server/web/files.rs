//! The files of the page, which are part of the program.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use crate::server::reject::Reject;

struct File {
    /// The path below the root.
    path: &'static str,
    /// The type of the content.
    kind: &'static str,
    /// A hash of the content.
    hash: &'static str,
    plain: &'static [u8],
    /// The content, compressed with gzip.
    packed: &'static [u8],
}

static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// The version of the page: a hash of its first document, which names all other files.
pub(super) fn version() -> &'static str {
    find("index.html").map_or("", |file| file.hash)
}

fn find(path: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.path == path)
}

pub(super) fn serve(method: &Method, path: &str, headers: &HeaderMap) -> Response {
    if method != Method::GET && method != Method::HEAD {
        return Reject::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "the files of the page only answer GET",
        )
        .into_response();
    }
    let path = path.trim_start_matches('/');
    let Some(file) = find(if path.is_empty() { "index.html" } else { path }) else {
        return Reject::new(StatusCode::NOT_FOUND, "the page has no such file").into_response();
    };
    let tag = format!("\"{}\"", file.hash);
    let known =
        headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok()).is_some_and(
            |tags| tags.split(',').any(|known| known.trim().trim_start_matches("W/") == tag),
        );
    let accepts_packed = headers
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| {
            let mut parts = coding.split(';').map(str::trim);
            let refused = |quality: &str| {
                quality.strip_prefix("q=").is_some_and(|q| q.parse::<f32>().is_ok_and(|q| q == 0.0))
            };
            parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"))
                && !parts.any(refused)
        });
    let bytes = if accepts_packed { file.packed } else { file.plain };
    let (status, body) = match (known, method == Method::HEAD) {
        (true, _) => (StatusCode::NOT_MODIFIED, Body::empty()),
        (false, true) => (StatusCode::OK, Body::empty()),
        (false, false) => (StatusCode::OK, Body::from(bytes)),
    };
    let mut response = (status, body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.kind));
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static(if is_named_by_hash(file.path) {
            "public, max-age=31536000, immutable"
        } else {
            "no-cache"
        }),
    );
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    if !known {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes.len()));
        if accepts_packed {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
    }
    response
}

/// Whether a name contains a hash of the content, as `app-0123abcd.js` does.
fn is_named_by_hash(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let Some((stem, _)) = name.rsplit_once('.') else { return false };
    let hash = stem.rsplit_once('-').map_or("", |(_, hash)| hash);
    hash.len() >= 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_with_a_hash_are_kept_for_ever() {
        assert!(is_named_by_hash("app-0123abcd.js") && is_named_by_hash("a/b-c-0123456789.css"));
        for name in ["index.html", "app.js", "app-lication.js", "app-0123abc.js", "app-0123abcd"] {
            assert!(!is_named_by_hash(name), "{name}");
        }
    }

    #[test]
    fn a_known_file_is_not_sent_again() {
        let get = |name: header::HeaderName, value: &str| {
            let headers = HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())]);
            serve(&Method::GET, "/", &headers)
        };
        let packed = get(header::ACCEPT_ENCODING, "br, gzip;q=0.8");
        assert_eq!(packed.headers()[header::CONTENT_ENCODING], "gzip");
        let tag = packed.headers()[header::ETAG].to_str().unwrap();
        assert_eq!(tag, format!("\"{}\"", version()));
        assert_eq!(get(header::IF_NONE_MATCH, tag).status(), StatusCode::NOT_MODIFIED);
        assert_eq!(get(header::IF_NONE_MATCH, "\"0\"").status(), StatusCode::OK);
        let plain = get(header::ACCEPT_ENCODING, "gzip;q=0, br");
        assert!(plain.headers().get(header::CONTENT_ENCODING).is_none());
        let none = HeaderMap::new();
        assert_eq!(serve(&Method::GET, "/../Cargo.toml", &none).status(), StatusCode::NOT_FOUND);
        assert_eq!(serve(&Method::POST, "/", &none).status(), StatusCode::METHOD_NOT_ALLOWED);
    }
}
