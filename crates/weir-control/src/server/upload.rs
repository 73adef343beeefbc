//! The bodies of requests: their form, and bounds for their length, their duration, and the memory
//! of all of them together.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::pool::Rank;
use super::reject::Reject;
use super::state::{State, stop};

/// The memory for bodies. It is divided, so that members of the group cannot take that of root.
#[derive(Debug)]
pub(super) struct Uploads {
    privileged: Arc<Semaphore>,
    others: Arc<Semaphore>,
}

impl Default for Uploads {
    fn default() -> Self {
        let budget = || Arc::new(Semaphore::new(BUDGET));
        Self { privileged: budget(), others: budget() }
    }
}

/// The memory that a body occupies, until this is dropped.
#[derive(Debug)]
pub(super) struct Upload {
    budget: Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
}

impl Upload {
    /// Makes room for further bytes.
    fn grow(&mut self, bytes: usize) -> Result<(), Reject> {
        let full = || {
            let text = format!(
                "the requests that are arriving take all of {} MiB now; try again in a moment",
                BUDGET >> 20
            );
            Reject::new(StatusCode::SERVICE_UNAVAILABLE, text)
        };
        let bytes = u32::try_from(bytes).map_err(|_| full())?;
        let more = Arc::clone(&self.budget).try_acquire_many_owned(bytes).map_err(|_| full())?;
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        Ok(())
    }
}

/// Reads the body of a request as JSON. The memory of the body counts until the [`Upload`] is
/// dropped.
pub(super) async fn json<T: DeserializeOwned>(
    state: &State,
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
    let budget = match request.extensions().get::<Rank>() {
        Some(Rank::Privileged) => &state.uploads.privileged,
        Some(Rank::Other) | None => &state.uploads.others,
    };
    let mut upload = Upload { budget: Arc::clone(budget), held: None };
    let mut stopped = state.stopped.clone();
    let bytes = tokio::select! {
        bytes = read(request.into_body(), &mut upload) => bytes?,
        () = stop(&mut stopped) => return Err(Reject::ending()),
    };
    let value = serde_json::from_slice(&bytes).map_err(|error| {
        Reject::new(StatusCode::BAD_REQUEST, format!("the body is not a request: {error}"))
    })?;
    Ok((value, upload))
}

async fn read(mut body: Body, upload: &mut Upload) -> Result<Vec<u8>, Reject> {
    let end = Instant::now() + WHOLE;
    let mut bytes = Vec::new();
    loop {
        let deadline = end.min(Instant::now() + PAUSE);
        let late = |_| {
            let text = format!(
                "the request did not arrive within {} s, or paused for {} s",
                WHOLE.as_secs(),
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

/// Maximum length of a request body, in bytes: a script of some hundred thousand lines.
const MOST_BODY: usize = 32 << 20;
/// Bytes of all bodies together that are arriving or wait to be parsed: two of the longest. Root and
/// the daemon's own user have one such budget, all other clients together have another one.
const BUDGET: usize = 2 * MOST_BODY;
/// Time limit for the arrival of a request body.
const WHOLE: Duration = Duration::from_secs(60);
/// Time limit for a pause during the arrival of a request body.
const PAUSE: Duration = Duration::from_secs(10);
