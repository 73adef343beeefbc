//! Requests for timed plans, and their answers.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::json;

use crate::dashboard::{PlanError, PlanView, Source, on_page};
use crate::server::reject::Reject;

/// A plan to check or to start.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wish {
    text: String,
    #[serde(default)]
    check_only: bool,
}

/// Checks or starts a plan. The call may block.
pub(super) fn answer(source: &dyn Source, wish: &Wish) -> Result<PlanView, PlanError> {
    if wish.check_only { source.check_plan(&wish.text) } else { source.start_plan(&wish.text) }
}

/// A plan with its start in ms since 1970. `base_ms` is the time in ms since 1970 at which the
/// page's clock is 0.
pub(super) fn shown(mut plan: PlanView, base_ms: i64) -> Json<PlanView> {
    let began = (plan.began_ns > 0).then_some(plan.began_ns);
    plan.began_ms = began.map(|ns| base_ms + (on_page(ns) / 1_000_000) as i64);
    Json(plan)
}

/// The answer for a plan that is refused, with the line of a wrong step.
pub(super) fn refused(error: &PlanError) -> Response {
    let status = match error {
        PlanError::Step { .. } | PlanError::Whole(_) => StatusCode::UNPROCESSABLE_ENTITY,
        PlanError::Busy => StatusCode::CONFLICT,
        PlanError::Impossible(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    if let PlanError::Step { line, message, diagnostics } = error {
        let body = json!({"error": message, "line": line, "diagnostics": diagnostics});
        return (status, Json(body)).into_response();
    }
    Reject::new(status, error.to_string()).into_response()
}
