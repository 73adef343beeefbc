//! The resources of the API. The routes and the OpenAPI document come from one list of handlers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State as Shared};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use weir_measure::document::{Document, Kind};
use weir_rules::command::ObjectKind;

use super::reject::Reject;
use super::state::State;
use super::{events, health, metrics, upload};
use crate::api::{
    self, CommandReply, CommandRequest, ConfigurationView, Cursor, EventSample, Health,
    InstancePage, LengthsView, NetConfigView, Page, PipeView, Problem, QueueView, RuleView,
    SchedView, SeverityView, TablePage, TableView,
};
use crate::owner::Onto;

type Server = Shared<Arc<State>>;
type Answer<T> = Result<Json<T>, Reject>;

/// The API description.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Weir",
        description = "Control of a running Weir. On TCP every request needs `Authorization: \
                       Bearer TOKEN`."
    ),
    components(schemas(EventSample, Problem))
)]
struct Description;

/// The OpenAPI document of every resource.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    resources().into_openapi()
}

/// Every resource: path, method and description come from the attribute of its handler.
fn resources() -> OpenApiRouter<Arc<State>> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(health))
        .routes(routes!(openapi_json))
        .routes(routes!(configuration))
        .routes(routes!(commands))
        .routes(routes!(pipes))
        .routes(routes!(pipe))
        .routes(routes!(pipe_instances))
        .routes(routes!(queues))
        .routes(routes!(queue))
        .routes(routes!(queue_instances))
        .routes(routes!(scheds))
        .routes(routes!(sched))
        .routes(routes!(sched_instances))
        .routes(routes!(rules))
        .routes(routes!(tables))
        .routes(routes!(table))
        .routes(routes!(netconfigs))
        .routes(routes!(lengths))
        .routes(routes!(events_stream))
        .routes(routes!(metrics_text))
}

pub(super) fn router(state: Arc<State>) -> Router {
    Router::from(resources())
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
        .layer(from_fn_with_state(Arc::clone(&state), tally))
        .with_state(state)
}

/// Counts requests by result.
async fn tally(Shared(state): Server, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let counter = match response.status().as_u16() {
        400..=499 => &state.tally.refused,
        500.. => &state.tally.failed,
        _ => &state.tally.served,
    };
    counter.fetch_add(1, Ordering::Relaxed);
    response
}

/// The state of the daemon.
#[utoipa::path(get, path = "/v1/health", responses((status = 200, body = Health)))]
async fn health(Shared(state): Server) -> Answer<Health> {
    // If the live loop does not answer in time, the lanes are missing.
    let lanes = state.quickly(|state| state.plane.lanes()).await;
    let bridges = health::with_lanes(state.plane.bridges(), &lanes);
    let (status, problems) = health::judge(&bridges, &lanes);
    Ok(Json(Health {
        status,
        problems,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision: state.owner.current().revision,
        uptime_ns: u64::try_from(state.uptime().as_nanos()).unwrap_or(u64::MAX),
        bridges,
    }))
}

/// This document.
#[utoipa::path(
    get,
    path = "/v1/openapi.json",
    responses((status = 200, description = "The API's description", body = serde_json::Value))
)]
async fn openapi_json() -> Json<utoipa::openapi::OpenApi> {
    Json(openapi())
}

/// The whole configuration.
#[utoipa::path(
    get,
    path = "/v1/configuration",
    responses((status = 200, body = ConfigurationView))
)]
async fn configuration(Shared(state): Server) -> Answer<ConfigurationView> {
    let view = state.blocking(|state| {
        let current = state.owner.current();
        api::configuration(current.revision, current.durable, &current.ruleset)
    });
    view.await.map(Json)
}

/// Executes commands: all of them, or none. A change that is answered with `applied` is in force
/// and, unless a notice says otherwise, on disk.
#[utoipa::path(
    post,
    path = "/v1/commands",
    request_body = CommandRequest,
    responses(
        (status = 200, description = "The commands were executed or checked", body = CommandReply),
        (status = 400, description = "The body is not a request", body = Problem),
        (status = 408, description = "The request took too long to arrive", body = Problem),
        (
            status = 413,
            description = "The request or the resulting configuration is too long",
            body = Problem
        ),
        (status = 415, description = "The request is not JSON", body = Problem),
        (
            status = 422,
            description = "Refused: the diagnostics say why, and nothing was changed",
            body = CommandReply
        ),
        (
            status = 503,
            description = "Too many requests wait, the loop that forwards packets does not \
                           answer, or the daemon is ending",
            body = Problem
        ),
        (status = 507, description = "The disk is full; nothing was changed", body = Problem)
    )
)]
async fn commands(
    Shared(state): Server,
    request: Request,
) -> Result<(StatusCode, Json<CommandReply>), Reject> {
    let (request, upload): (CommandRequest, _) =
        upload::json(&state.uploads, &state.stopped, request).await?;
    let script = upload.script(request.script.len()).await?;
    // The request keeps its part of the budget even if the client disconnects.
    let prepared = state.run_parser(move |state| {
        let prepared = state.owner.prepare(&request).holding(script);
        drop(upload);
        prepared
    });
    let prepared = prepared.await?;
    let reply = state.owner.submit(prepared, Onto::Current)?.get().await?;
    let refused =
        reply.diagnostics.iter().any(|diagnostic| diagnostic.severity == SeverityView::Error);
    Ok((if refused { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK }, Json(reply)))
}

/// The pipes.
#[utoipa::path(get, path = "/v1/pipes", responses((status = 200, body = Vec<PipeView>)))]
async fn pipes(Shared(state): Server) -> Answer<Vec<PipeView>> {
    state
        .blocking(|state| {
            let snapshot = state.sample()?;
            Ok(api::pipes(&state.owner.current().ruleset, &snapshot))
        })
        .await?
        .map(Json)
}

/// One pipe, for clients that need no other.
#[utoipa::path(
    get,
    path = "/v1/pipes/{number}",
    params(("number" = u16, Path, description = "The pipe", minimum = 0, maximum = 65_535)),
    responses(
        (status = 200, body = PipeView),
        (status = 400, description = "The path does not end in a number", body = Problem),
        (status = 404, description = "There is no such pipe", body = Problem)
    )
)]
async fn pipe(Shared(state): Server, number: Result<Path<u16>, PathRejection>) -> Answer<PipeView> {
    let Path(number) = number?;
    let view = state.blocking(move |state| {
        let ruleset = state.owner.current().ruleset;
        if !ruleset.pipes.contains_key(&number) {
            return Ok(None);
        }
        Ok::<_, Reject>(api::pipe(&ruleset, &*state.sample()?, number))
    });
    view.await??.map(Json).ok_or_else(|| missing(ObjectKind::Pipe, number))
}

/// The instances that a pipe's mask has created.
#[utoipa::path(
    get,
    path = "/v1/pipes/{number}/instances",
    params(("number" = u16, Path, description = "The pipe", minimum = 0, maximum = 65_535), Cursor),
    responses(
        (status = 200, body = InstancePage),
        (status = 400, description = "The number or the page is invalid", body = Problem),
        (status = 404, description = "There is no such pipe", body = Problem)
    )
)]
async fn pipe_instances(
    Shared(state): Server,
    number: Result<Path<u16>, PathRejection>,
    page: Result<Query<Cursor>, QueryRejection>,
) -> Answer<InstancePage> {
    instances(&state, ObjectKind::Pipe, number, page).await
}

/// The queues.
#[utoipa::path(get, path = "/v1/queues", responses((status = 200, body = Vec<QueueView>)))]
async fn queues(Shared(state): Server) -> Answer<Vec<QueueView>> {
    state
        .blocking(|state| {
            let snapshot = state.sample()?;
            Ok(api::queues(&state.owner.current().ruleset, &snapshot))
        })
        .await?
        .map(Json)
}

/// One queue, for clients that need no other.
#[utoipa::path(
    get,
    path = "/v1/queues/{number}",
    params(("number" = u16, Path, description = "The queue", minimum = 0, maximum = 65_535)),
    responses(
        (status = 200, body = QueueView),
        (status = 400, description = "The path does not end in a number", body = Problem),
        (status = 404, description = "There is no such queue", body = Problem)
    )
)]
async fn queue(
    Shared(state): Server,
    number: Result<Path<u16>, PathRejection>,
) -> Answer<QueueView> {
    let Path(number) = number?;
    let view = state.blocking(move |state| {
        let ruleset = state.owner.current().ruleset;
        if !ruleset.queues.contains_key(&number) {
            return Ok(None);
        }
        Ok::<_, Reject>(api::queue(&ruleset, &*state.sample()?, number))
    });
    view.await??.map(Json).ok_or_else(|| missing(ObjectKind::Queue, number))
}

/// The instances that a queue's mask has created.
#[utoipa::path(
    get,
    path = "/v1/queues/{number}/instances",
    params(
        ("number" = u16, Path, description = "The queue", minimum = 0, maximum = 65_535),
        Cursor
    ),
    responses(
        (status = 200, body = InstancePage),
        (status = 400, description = "The number or the page is invalid", body = Problem),
        (status = 404, description = "There is no such queue", body = Problem)
    )
)]
async fn queue_instances(
    Shared(state): Server,
    number: Result<Path<u16>, PathRejection>,
    page: Result<Query<Cursor>, QueryRejection>,
) -> Answer<InstancePage> {
    instances(&state, ObjectKind::Queue, number, page).await
}

/// The schedulers.
#[utoipa::path(get, path = "/v1/scheds", responses((status = 200, body = Vec<SchedView>)))]
async fn scheds(Shared(state): Server) -> Answer<Vec<SchedView>> {
    state
        .blocking(|state| {
            let snapshot = state.sample()?;
            Ok(api::scheds(&state.owner.current().ruleset, &snapshot))
        })
        .await?
        .map(Json)
}

/// One scheduler, for clients that need no other.
#[utoipa::path(
    get,
    path = "/v1/scheds/{number}",
    params(("number" = u16, Path, description = "The scheduler", minimum = 0, maximum = 65_535)),
    responses(
        (status = 200, body = SchedView),
        (status = 400, description = "The path does not end in a number", body = Problem),
        (status = 404, description = "There is no such scheduler", body = Problem)
    )
)]
async fn sched(
    Shared(state): Server,
    number: Result<Path<u16>, PathRejection>,
) -> Answer<SchedView> {
    let Path(number) = number?;
    let view = state.blocking(move |state| {
        let ruleset = state.owner.current().ruleset;
        if !ruleset.scheds.contains_key(&number) {
            return Ok(None);
        }
        Ok::<_, Reject>(api::sched(&ruleset, &*state.sample()?, number))
    });
    view.await??.map(Json).ok_or_else(|| missing(ObjectKind::Sched, number))
}

/// The instances that a scheduler's mask has created.
#[utoipa::path(
    get,
    path = "/v1/scheds/{number}/instances",
    params(
        ("number" = u16, Path, description = "The scheduler", minimum = 0, maximum = 65_535),
        Cursor
    ),
    responses(
        (status = 200, body = InstancePage),
        (status = 400, description = "The number or the page is invalid", body = Problem),
        (status = 404, description = "There is no such scheduler", body = Problem)
    )
)]
async fn sched_instances(
    Shared(state): Server,
    number: Result<Path<u16>, PathRejection>,
    page: Result<Query<Cursor>, QueryRejection>,
) -> Answer<InstancePage> {
    instances(&state, ObjectKind::Sched, number, page).await
}

/// The rules in the order of evaluation, the default rule last.
#[utoipa::path(get, path = "/v1/rules", responses((status = 200, body = Vec<RuleView>)))]
async fn rules(Shared(state): Server) -> Answer<Vec<RuleView>> {
    state
        .blocking(|state| {
            let snapshot = state.sample()?;
            Ok(api::rules(&state.owner.current().ruleset, &snapshot))
        })
        .await?
        .map(Json)
}

/// The tables.
#[utoipa::path(get, path = "/v1/tables", responses((status = 200, body = Vec<TableView>)))]
async fn tables(Shared(state): Server) -> Answer<Vec<TableView>> {
    state.blocking(|state| api::tables(&state.owner.current().ruleset)).await.map(Json)
}

/// A table with its entries.
#[utoipa::path(
    get,
    path = "/v1/tables/{name}",
    params(("name" = String, Path, description = "The table"), Page),
    responses(
        (status = 200, body = TablePage),
        (status = 400, description = "The name or the page is invalid", body = Problem),
        (status = 404, description = "There is no such table", body = Problem)
    )
)]
async fn table(
    Shared(state): Server,
    name: Result<Path<String>, PathRejection>,
    page: Result<Query<Page>, QueryRejection>,
) -> Answer<TablePage> {
    let Path(name) = name?;
    let (offset, limit) = span(page)?;
    let missing = format!("there is no table {name}; /v1/tables lists those there are");
    let view = state.blocking(move |state| {
        api::table_page(&state.owner.current().ruleset, &name, offset, limit)
    });
    view.await?.map(Json).ok_or_else(|| Reject::new(StatusCode::NOT_FOUND, missing))
}

/// The links that `netconfig` created.
#[utoipa::path(get, path = "/v1/netconfigs", responses((status = 200, body = Vec<NetConfigView>)))]
async fn netconfigs(Shared(state): Server) -> Answer<Vec<NetConfigView>> {
    state.blocking(|state| api::netconfigs(&state.owner.current().ruleset)).await.map(Json)
}

/// The current length of each pipe, scheduler and queue. Unlike counters, lengths are read anew for
/// each request, so a client may poll them at its own pace. It should keep its connection open. The
/// answer is a document of results: it begins with `schema` and `kind`.
#[utoipa::path(get, path = "/v1/lengths", responses((status = 200, body = LengthsView)))]
async fn lengths(Shared(state): Server) -> Answer<Document<LengthsView>> {
    let view = state.blocking(|state| {
        let lengths = state.plane.lengths()?;
        Ok::<_, Reject>(api::lengths(&state.owner.current().ruleset, lengths))
    });
    let view = view.await??;
    Ok(Json(Document::new(Kind::Lengths, view)))
}

/// Counters as a stream of server-sent events, each an `EventSample` in JSON. A slow reader
/// receives fewer events, and one that reads nothing is disconnected.
#[utoipa::path(
    get,
    path = "/v1/events",
    params(api::EventQuery),
    responses(
        (
            status = 200,
            description = "A stream of `EventSample`s",
            body = String,
            content_type = "text/event-stream"
        ),
        (status = 400, description = "The query is invalid", body = Problem)
    )
)]
async fn events_stream(
    Shared(state): Server,
    query: Result<Query<api::EventQuery>, QueryRejection>,
) -> Result<Response, Reject> {
    let Query(query) = query?;
    events::stream(state, query)
}

/// Counters for Prometheus and compatible tools: in the OpenMetrics text format, or in the classic
/// text format for clients that prefer `text/plain`.
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
    // Only the counters come from the loop, so the text is written without the loop's time limit.
    let snapshot = state.blocking(State::sample).await??;
    let text = state.run_formatter(move |state| metrics::render(state, &snapshot, format)).await?;
    Ok(([(header::CONTENT_TYPE, format.content_type())], text).into_response())
}

/// A page of the instances of a pipe, queue or scheduler.
async fn instances(
    state: &Arc<State>,
    kind: ObjectKind,
    number: Result<Path<u16>, PathRejection>,
    page: Result<Query<Cursor>, QueryRejection>,
) -> Answer<InstancePage> {
    let Path(number) = number?;
    let Query(cursor) = page?;
    let (after, limit) = cursor.span().ok_or_else(bad_limit)?;
    let view = state.blocking(move |state| {
        let ruleset = state.owner.current().ruleset;
        let exists = match kind {
            ObjectKind::Pipe => ruleset.pipes.contains_key(&number),
            ObjectKind::Queue => ruleset.queues.contains_key(&number),
            ObjectKind::Sched => ruleset.scheds.contains_key(&number),
        };
        exists.then(|| state.plane.instances(kind, number, after, limit))
    });
    Ok(Json(view.await?.ok_or_else(|| missing(kind, number))??))
}

fn missing(kind: ObjectKind, number: u16) -> Reject {
    Reject::new(StatusCode::NOT_FOUND, format!("there is no {} {number}", kind.word()))
}

fn span(page: Result<Query<Page>, QueryRejection>) -> Result<(usize, usize), Reject> {
    let Query(page) = page?;
    page.span().ok_or_else(bad_limit)
}

fn bad_limit() -> Reject {
    Reject::new(
        StatusCode::BAD_REQUEST,
        "`limit` must be 1 to 10000, and the start of a page a number from an earlier page",
    )
}
