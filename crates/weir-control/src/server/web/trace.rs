//! The trace of one packet through the rules.

use std::sync::Arc;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::json;

use super::hub::Hub;
use crate::dashboard::{TraceError, TraceQuestion};
use crate::server::askers::Unasked;
use crate::server::reject::Reject;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wish {
    /// The packet, as the user wrote it.
    packet: String,
    /// The lane that the packet takes; `None` for the first lane.
    #[serde(default)]
    lane: Option<String>,
    /// Whether rules with `prob` count as matching.
    #[serde(default)]
    prob: Prob,
}

/// Whether rules with `prob` count as matching.
#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Prob {
    /// They match.
    #[default]
    Match,
    /// They do not match, and the search passes over them.
    Pass,
}

/// Answers with the path of a packet.
pub(super) async fn answer(
    hub: &Hub,
    wish: Wish,
    unasked: fn(Unasked) -> Reject,
) -> Result<Response, Reject> {
    let source = Arc::clone(&hub.source);
    let Wish { packet, lane, prob } = wish;
    let question = TraceQuestion { packet, lane, lucky: prob == Prob::Match };
    let traced = hub.askers.run(move || source.trace(&question)).await.map_err(unasked)?;
    let refuse = |status, error: &TraceError| Err(Reject::new(status, error.to_string()));
    match traced {
        Ok(traced) => Ok(Json(traced).into_response()),
        Err(TraceError::Packet { message, start, end }) => {
            let body = json!({"error": message, "start": start, "end": end});
            Ok((StatusCode::UNPROCESSABLE_ENTITY, Json(body)).into_response())
        }
        Err(error @ TraceError::NoLane { .. }) => refuse(StatusCode::NOT_FOUND, &error),
        Err(error @ TraceError::Impossible(_)) => refuse(StatusCode::CONFLICT, &error),
        Err(error @ TraceError::NoAnswer(_)) => refuse(StatusCode::SERVICE_UNAVAILABLE, &error),
    }
}
