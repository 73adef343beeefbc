//! The bodies of requests: their form, and bounds for their length and their duration.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::budget::{MOST_BODY, Upload, Uploads};
use super::pool::Rank;
use super::reject::Reject;
use super::stopping::stop;

/// Reads the body of a request as JSON. The memory of the body counts towards `uploads` until the
/// [`Upload`] is dropped.
pub(super) async fn json<T: DeserializeOwned>(
    uploads: &Uploads,
    stopped: &watch::Receiver<bool>,
    request: Request,
) -> Result<(T, Upload), Reject> {
    if !is_json(request.headers()) {
        return Err(Reject::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send JSON, with 'Content-Type: application/json'",
        ));
    }
    let length = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > MOST_BODY) {
        return Err(too_long());
    }
    let rank = request.extensions().get::<Rank>().copied().unwrap_or(Rank::Other);
    let mut upload = uploads.begin(rank);
    let mut stopped = stopped.clone();
    let bytes = tokio::select! {
        bytes = read(request.into_body(), &mut upload) => bytes?,
        () = stop(&mut stopped) => return Err(Reject::ending()),
    };
    let value = serde_json::from_slice(&bytes).map_err(|error| {
        Reject::new(StatusCode::BAD_REQUEST, format!("the body is not a request: {error}"))
    })?;
    Ok((value, upload))
}

/// Reads a body within the limits of length and time.
async fn read(mut body: Body, upload: &mut Upload) -> Result<Vec<u8>, Reject> {
    let end = Instant::now() + ARRIVE_WITHIN;
    let mut bytes = Vec::new();
    loop {
        let deadline = end.min(Instant::now() + PAUSE);
        let late = |_| {
            let text = format!(
                "the request did not arrive within {} s, or paused for {} s",
                ARRIVE_WITHIN.as_secs(),
                PAUSE.as_secs()
            );
            Reject::new(StatusCode::REQUEST_TIMEOUT, text)
        };
        let Some(frame) = timeout_at(deadline, body.frame()).await.map_err(late)? else {
            return Ok(bytes);
        };
        let frame = frame.map_err(|error| {
            Reject::new(StatusCode::BAD_REQUEST, format!("the body cannot be read: {error}"))
        })?;
        let Some(data) = frame.data_ref() else { continue };
        if bytes.len() + data.len() > MOST_BODY {
            return Err(too_long());
        }
        upload.grow(data.len())?;
        bytes.extend_from_slice(data);
    }
}

fn too_long() -> Reject {
    let text = format!("a request is at most {} MiB", MOST_BODY >> 20);
    Reject::new(StatusCode::PAYLOAD_TOO_LARGE, text)
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// Time limit for the arrival of a request body.
const ARRIVE_WITHIN: Duration = Duration::from_secs(60);
/// Time limit for a pause during the arrival of a request body.
const PAUSE: Duration = Duration::from_secs(10);
