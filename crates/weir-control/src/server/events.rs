//! The stream of counters: server-sent events, each with one sample.
//!
//! The channel between the sampler and the connection holds one sample. A reader that is slower
//! than the period therefore misses samples, and each sample reports how many were skipped.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use http_body_util::channel::{Channel, Sender};
use tokio::time::Instant;
use weir_measure::document::{Document, Kind};

use super::reject::Reject;
use super::state::State;
use crate::api::{EventQuery, EventSample};
use crate::plane::NoAnswer;

pub(super) fn stream(state: Arc<State>, query: EventQuery) -> Result<Response, Reject> {
    let period = query.period.unwrap_or(DEFAULT_PERIOD);
    if !(MIN_PERIOD..=MAX_PERIOD).contains(&period) {
        return Err(Reject::new(
            StatusCode::BAD_REQUEST,
            format!("`period` must be {MIN_PERIOD} to {MAX_PERIOD} milliseconds"),
        ));
    }
    if query.count.is_some_and(|count| count == 0 || i32::try_from(count).is_err()) {
        return Err(Reject::new(StatusCode::BAD_REQUEST, "`count` must be 1 to 2147483647"));
    }
    let (sender, body) = Channel::<Bytes>::new(1);
    tokio::spawn(feed(state, Duration::from_millis(period.into()), query.count, sender));
    let mut response = Response::new(Body::new(body));
    response.extensions_mut().insert(Endless);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Sends samples until `count` samples were sent, the client disconnects, or the server stops.
async fn feed(state: Arc<State>, period: Duration, count: Option<u32>, mut sender: Sender<Bytes>) {
    let mut stopped = state.stopped.clone();
    let mut next = Instant::now();
    let mut sent = 0u32;
    let mut skipped = 0u64;
    while count.is_none_or(|count| sent < count) {
        tokio::select! {
            () = tokio::time::sleep_until(next) => {}
            _ = stopped.changed() => return,
        }
        let taken = state.blocking(move |state| sample(state, skipped)).await;
        // If the loop does not answer, the reader misses a sample, and the stream continues.
        let (bytes, samples) = match taken {
            Ok(Ok(bytes)) => (bytes, 1),
            Ok(Err(_)) | Err(_) => (Bytes::from_static(NO_SAMPLE), 0),
        };
        let delivered = tokio::select! {
            delivered = sender.send_data(bytes) => delivered,
            _ = stopped.changed() => return,
        };
        if delivered.is_err() {
            // The client has disconnected.
            return;
        }
        sent = sent.saturating_add(samples);
        next += period;
        let late = Instant::now().saturating_duration_since(next);
        let periods = u64::try_from(late.as_nanos() / period.as_nanos().max(1)).unwrap_or(u64::MAX);
        next += period.saturating_mul(u32::try_from(periods).unwrap_or(u32::MAX));
        let missed = periods.saturating_add(u64::from(1 - samples));
        skipped = if samples == 1 { missed } else { skipped.saturating_add(missed) };
        state.tally.skipped.fetch_add(missed, Ordering::Relaxed);
    }
}

/// Marks an answer that continues until the client or the server ends it. A server that stops does
/// not wait for such an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Endless;

/// An event with the current counters.
fn sample(state: &State, skipped: u64) -> Result<Bytes, NoAnswer> {
    let snapshot = state.sample()?;
    let event = EventSample {
        at_ns: u64::try_from(state.uptime().as_nanos()).unwrap_or(u64::MAX),
        revision: state.owner.current().revision,
        skipped,
        links: snapshot.links.clone(),
        queues: snapshot.queues.clone(),
        rules: snapshot.rules.clone(),
        lanes: snapshot.lanes.clone(),
    };
    // Numbers and strings under string keys always serialise.
    let document = Document::new(Kind::Sample, &event);
    let json = serde_json::to_string(&document).unwrap_or_default();
    Ok(format!("event: sample\ndata: {json}\n\n").into())
}

/// The time between two samples if the request gives none, in milliseconds.
const DEFAULT_PERIOD: u32 = 1000;
/// The least time between two samples, in milliseconds.
const MIN_PERIOD: u32 = 50;
/// The greatest time between two samples, in milliseconds.
const MAX_PERIOD: u32 = 60_000;
/// A comment, which readers skip. It replaces a sample for which the loop gave no answer.
const NO_SAMPLE: &[u8] = b": the loop that forwards packets does not answer\n\n";
