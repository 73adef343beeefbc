//! The resources of a session's control socket.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State as Shared};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use tokio::sync::watch;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::askers::{Askers, Unasked};
use super::budget::Uploads;
use super::metrics;
use super::reject::Reject;
use super::state::SAMPLE_AGE;
use super::tally::Tally;
use super::upload;
use crate::api::{ChangeReply, ChangeRequest, Problem, Readings, SessionView};
use crate::session::{Session, SessionError};

type Server = Shared<Arc<State>>;
/// An answer that several clients share, with its time.
type Shareable<T> = Mutex<Option<(Instant, Result<Arc<T>, SessionError>)>>;

struct State {
    session: Arc<dyn Session>,
    askers: Askers,
    uploads: Uploads,
    /// Becomes true when the server stops.
    stopped: watch::Receiver<bool>,
    tally: Arc<Tally>,
    results: Shareable<str>,
    readings: Shareable<Readings>,
}

/// The API description.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Weir: a session's links",
        description = "Control of the links that a command such as `weir run` runs, over its Unix \
                       socket."
    ),
    components(schemas(Problem))
)]
struct Description;

/// The OpenAPI document that describes all resources.
#[must_use]
pub fn session_openapi() -> utoipa::openapi::OpenApi {
    resources().into_openapi()
}

fn resources() -> OpenApiRouter<Arc<State>> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(openapi_json))
        .routes(routes!(metrics_text))
        .merge(links())
}

/// All resources except the description and the metrics.
fn links() -> OpenApiRouter<Arc<State>> {
    OpenApiRouter::new()
        .routes(routes!(view))
        .routes(routes!(change_all))
        .routes(routes!(change))
        .routes(routes!(reset_all))
        .routes(routes!(reset))
        .routes(routes!(results))
        .routes(routes!(readings))
        .routes(routes!(stop))
}

/// Builds the router for all resources of a session. Also returns the server's counters.
pub(super) fn router(
    session: Arc<dyn Session>,
    stopped: watch::Receiver<bool>,
) -> (Arc<Tally>, Router) {
    let state = State::new(session, stopped);
    let tally = Arc::clone(&state.tally);
    let router = Router::from(resources())
        .fallback(|| async {
            Reject::new(
                StatusCode::NOT_FOUND,
                "there is no such resource; /v1/openapi.json lists them",
            )
        })
        .method_not_allowed_fallback(|| async {
            Reject::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "this resource does not do that; /v1/openapi.json tells what it does",
            )
        })
        .layer(from_fn_with_state(Arc::clone(&state), count))
        .with_state(state);
    (tally, router)
}

/// Builds the router for all resources of a session except the description and the metrics, for a
/// server that has its own description and metrics.
pub(super) fn plain_router(session: Arc<dyn Session>, stopped: watch::Receiver<bool>) -> Router {
    Router::from(links()).with_state(State::new(session, stopped))
}

impl State {
    fn new(session: Arc<dyn Session>, stopped: watch::Receiver<bool>) -> Arc<Self> {
        Arc::new(Self {
            session,
            askers: Askers::default(),
            uploads: Uploads::default(),
            stopped,
            tally: Arc::default(),
            results: Mutex::default(),
            readings: Mutex::default(),
        })
    }

    /// Runs work that may wait for the thread that moves packets.
    async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, SessionError> + Send + 'static,
    ) -> Result<T, Reject> {
        let state = Arc::clone(self);
        match self.askers.run(move || work(&state)).await {
            Ok(done) => done.map_err(Reject::from),
            Err(Unasked::Late(_)) => Err(SessionError::Late.into()),
            Err(Unasked::Ending) => Err(SessionError::Ended.into()),
        }
    }
}

/// The kept answer if it is younger than [`SAMPLE_AGE`], or a new one.
fn shared<T: ?Sized>(
    kept: &Shareable<T>,
    make: impl FnOnce() -> Result<Arc<T>, SessionError>,
) -> Result<Arc<T>, SessionError> {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    match &*kept {
        Some((at, answer)) if at.elapsed() < SAMPLE_AGE => answer.clone(),
        _ => {
            let answer = make();
            *kept = Some((Instant::now(), answer.clone()));
            answer
        }
    }
}

impl From<SessionError> for Reject {
    fn from(error: SessionError) -> Self {
        let status = match &error {
            SessionError::NoSuchLink { .. } => StatusCode::NOT_FOUND,
            SessionError::Impossible(_) => StatusCode::CONFLICT,
            SessionError::Late => StatusCode::SERVICE_UNAVAILABLE,
            SessionError::Ended => StatusCode::GONE,
        };
        Self::new(status, error.to_string())
    }
}

/// Counts requests by result.
async fn count(Shared(state): Server, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let counter = match response.status().as_u16() {
        400..=499 => &state.tally.refused,
        500.. => &state.tally.failed,
        _ => &state.tally.served,
    };
    counter.fetch_add(1, Ordering::Relaxed);
    response
}

/// This document.
#[utoipa::path(
    get,
    path = "/v1/openapi.json",
    responses((status = 200, description = "The API's description", body = serde_json::Value))
)]
async fn openapi_json() -> Json<utoipa::openapi::OpenApi> {
    Json(session_openapi())
}

/// The session with its links.
#[utoipa::path(get, path = "/v1/session", responses((status = 200, body = SessionView)))]
async fn view(Shared(state): Server) -> Json<SessionView> {
    Json(state.session.view())
}

/// Changes all links. Replaces the settings that the field `words` names; all other settings stay.
#[utoipa::path(
    patch,
    path = "/v1/links",
    request_body = ChangeRequest,
    responses(
        (status = 200, description = "The change is in force", body = ChangeReply),
        (status = 409, description = "Impossible while the links run", body = Problem),
        (status = 422, description = "Refused: nothing was changed", body = ChangeReply),
    )
)]
async fn change_all(Shared(state): Server, request: Request) -> Result<Response, Reject> {
    apply(state, None, request).await
}

/// Changes one link, or several with commas between their names. Replaces the settings that the
/// field `words` names; all other settings stay.
#[utoipa::path(
    patch,
    path = "/v1/links/{name}",
    params(("name" = String, Path, description = "The link")),
    request_body = ChangeRequest,
    responses(
        (status = 200, description = "The change is in force", body = ChangeReply),
        (status = 404, description = "There is no such link", body = Problem),
        (status = 409, description = "Impossible while the link runs", body = Problem),
        (status = 422, description = "Refused: nothing was changed", body = ChangeReply),
    )
)]
async fn change(
    Shared(state): Server,
    name: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Reject> {
    let Path(name) = name?;
    apply(state, Some(name), request).await
}

/// Applies a change to the links that `link` names, or to all links.
async fn apply(
    state: Arc<State>,
    link: Option<String>,
    request: Request,
) -> Result<Response, Reject> {
    let (change, upload): (ChangeRequest, _) =
        upload::json(&state.uploads, &state.stopped, request).await?;
    let done = state.ask(move |state| {
        let reply = state.session.change(link.as_deref(), &change);
        drop(upload);
        reply
    });
    Ok(reply(done.await?))
}

/// Puts all links back to the specifications of the session's start.
#[utoipa::path(
    post,
    path = "/v1/reset",
    responses((status = 200, description = "The change is in force", body = ChangeReply))
)]
async fn reset_all(Shared(state): Server) -> Result<Response, Reject> {
    state.ask(|state| state.session.reset(None)).await.map(reply)
}

/// Puts one link, or several with commas between their names, back to the specification of the
/// session's start.
#[utoipa::path(
    post,
    path = "/v1/links/{name}/reset",
    params(("name" = String, Path, description = "The link")),
    responses(
        (status = 200, description = "The change is in force", body = ChangeReply),
        (status = 404, description = "There is no such link", body = Problem),
    )
)]
async fn reset(
    Shared(state): Server,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, Reject> {
    let Path(name) = name?;
    state.ask(move |state| state.session.reset(Some(&name))).await.map(reply)
}

fn reply(reply: ChangeReply) -> Response {
    let status = if reply.applied { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    (status, Json(reply)).into_response()
}

/// The results so far: a results document of kind `run`.
#[utoipa::path(
    get,
    path = "/v1/results",
    responses((status = 200, description = "The results document", body = serde_json::Value))
)]
async fn results(Shared(state): Server) -> Result<Response, Reject> {
    let results = |state: &State| state.session.results().map(Arc::from);
    let text = state.ask(move |state| shared(&state.results, || results(state))).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text.to_string()).into_response())
}

/// The counters of all links since the start. The difference of two readings is what happened in
/// between.
#[utoipa::path(get, path = "/v1/readings", responses((status = 200, body = Readings)))]
async fn readings(Shared(state): Server) -> Result<Response, Reject> {
    let readings = |state: &State| state.session.readings().map(Arc::new);
    let readings = state.ask(move |state| shared(&state.readings, || readings(state))).await?;
    Ok(Json(&*readings).into_response())
}

/// The counters of all links for Prometheus and compatible tools: in the OpenMetrics text format,
/// or in the classic text format for clients that prefer `text/plain`.
#[utoipa::path(
    get,
    path = "/metrics",
    responses((
        status = 200,
        description = "OpenMetrics",
        body = String,
        content_type = "application/openmetrics-text"
    ))
)]
async fn metrics_text(Shared(state): Server, headers: HeaderMap) -> Result<Response, Reject> {
    let format = metrics::Format::of(&headers);
    let take = |state: &State| state.session.readings().map(Arc::new);
    let readings = state.ask(move |state| shared(&state.readings, || take(state))).await?;
    let view = state.session.view();
    let text = metrics::of_sessions(&[(view, Readings::clone(&readings))], format);
    Ok(([(header::CONTENT_TYPE, format.content_type())], text).into_response())
}

/// Ends the session as SIGTERM does: its program is asked to end, and the results are written.
#[utoipa::path(
    post,
    path = "/v1/stop",
    responses((status = 202, description = "The session is ending"))
)]
async fn stop(Shared(state): Server) -> StatusCode {
    state.session.stop();
    StatusCode::ACCEPTED
}
