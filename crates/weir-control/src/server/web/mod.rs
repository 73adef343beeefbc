//! The server of the web page: its files, its resources and its stream, on a TCP address of its
//! own.
//!
//! The page of the daemon and the pages of other commands differ only in their
//! [`Source`](crate::dashboard::Source).

mod files;
mod gate;
mod hub;
mod keeper;
mod plan;
mod report;
mod stream;
mod studies;
mod top;
mod trace;

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{Query, Request, State as Shared};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc, watch};

pub use gate::WebAccess;
pub use studies::StudiesOrWhy;

use super::askers::Unasked;
use super::budget::Uploads;
use super::reject::Reject;
use super::upload;
use crate::api::RuleView;
use crate::dashboard::{
    Edit, EditError, Edited, FIELDS, History, NoObject, Object, PlanView, Source, Span, thinned,
};
use crate::plane::NoAnswer;
use crate::session::Session;
use gate::{Gate, Right};
use hub::Hub;

/// The settings and parts of a page's server.
pub struct Web {
    /// The tokens and names.
    pub access: WebAccess,
    /// The running Weir, as the page sees it.
    pub source: Arc<dyn Source>,
    /// The session with its name.
    pub session: Arc<dyn Session>,
    /// Makes a report of a span of time, as one HTML document.
    pub report: fn(&Span) -> String,
    /// The studies of the page, or the reason why there are none.
    pub studies: StudiesOrWhy,
    /// The history in which the past of the objects survives a restart.
    pub history: Option<History>,
}

/// The state of the page's handlers.
struct State {
    hub: Arc<Hub>,
    session: Arc<dyn Session>,
    report: fn(&Span) -> String,
    /// When the session started, in ms since 1970.
    since_ms: i64,
    uploads: Uploads,
    /// Limits the number of tabs with a stream.
    tabs: Arc<Semaphore>,
    /// Limits the number of changes that are made or checked at once.
    edits: Semaphore,
    /// Limits the number of reports that are made at once.
    reports: Arc<Semaphore>,
    /// Becomes true when the server stops.
    stopped: watch::Receiver<bool>,
}

type Server = Shared<Arc<State>>;

/// Keeps a connection's place in its pool until the connection's stream has ended too.
#[derive(Clone)]
pub(super) struct Held(
    #[expect(dead_code, reason = "it is only held")] pub(super) Arc<dyn Any + Send + Sync>,
);

/// The router of a page: the page's own resources, then those of `api`, behind the gate. With
/// `of_session`, `api` is the API of a session. It has no resource for rules, so this router adds
/// one. The call starts a task that reads counters, so it must be made inside the runtime. The end
/// of the server waits while a clone of `open` exists.
pub(super) fn router(
    web: Web,
    api: Router,
    of_session: bool,
    bound: SocketAddr,
    stopped: &watch::Receiver<bool>,
    open: &mpsc::Sender<()>,
) -> Router {
    let mut history = web.history;
    let earlier = history.as_mut().map(|history| history.restore(|object| web.source.has(object)));
    let hub = Hub::new(web.source, earlier.unwrap_or_default());
    tokio::spawn(Arc::clone(&hub).collect(stopped.clone()));
    let base_ms = hub.base_ms();
    if let Some(history) = history {
        let (keeping, open) =
            (keeper::keep(Arc::clone(&hub), history, stopped.clone()), open.clone());
        tokio::spawn(async move {
            keeping.await;
            drop(open);
        });
    }
    let uptime_ms = web.session.view().uptime_ns / 1_000_000;
    let state = Arc::new(State {
        since_ms: hub.now_ms() - uptime_ms as i64,
        hub,
        session: web.session,
        report: web.report,
        uploads: Uploads::default(),
        tabs: Arc::new(Semaphore::new(MOST_TABS)),
        edits: Semaphore::new(MOST_EDITS),
        reports: Arc::new(Semaphore::new(MOST_REPORTS)),
        stopped: stopped.clone(),
    });
    let api = if of_session {
        api.route("/v1/rules", get(rules).with_state(Arc::clone(&state)))
    } else {
        api
    };
    let own = Router::new()
        .route("/v1/page", get(page))
        .route("/v1/objects", get(objects))
        .route("/v1/stream", get(open_stream))
        .route("/v1/change", post(change))
        .route("/v1/undo", post(undo))
        .route("/v1/changes", get(changes))
        .route("/v1/history", get(past))
        .route("/v1/trace", get(trace))
        .route("/v1/plan", get(show_plan).post(start_plan).delete(stop_plan))
        .route("/v1/report", get(report))
        .with_state(Arc::clone(&state));
    let studies = studies::router(web.studies, stopped.clone(), base_ms);
    Gate::new(web.access, bound, stopped.clone()).around(own.merge(studies).merge(api))
}

/// The session of the page, and the features and limits of the server.
async fn page(Shared(state): Server, Extension(right): Extension<Right>) -> Json<Value> {
    let view = state.session.view();
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "page_version": files::version(),
        "access": right.name(),
        "name": view.name,
        "kind": view.kind,
        "program": view.program,
        "pid": view.pid,
        "since_ms": state.since_ms,
        "now_ms": state.hub.now_ms(),
        "language": state.hub.source.language(),
        "features": FEATURES,
        "limits": {
            "subscriptions": stream::MOST_SUBSCRIPTIONS,
            "messages_per_s": 30,
            "least_period_ms": stream::LEAST_PERIOD.as_millis() as u64,
            "greatest_period_ms": stream::GREATEST_PERIOD.as_millis() as u64,
            "full_resolution_s": crate::dashboard::RECENT_NS / 1_000_000_000,
            "top": stream::MOST_TOP,
            "objects": MOST_OBJECTS,
            "clients": MOST_TABS,
            "plan_steps": crate::dashboard::MOST_STEPS,
            "report_objects": report::MOST_OBJECTS,
        },
    }))
}

/// The objects that clients can watch.
async fn objects(Shared(state): Server) -> Result<Json<crate::dashboard::Objects>, Reject> {
    let source = Arc::clone(&state.hub.source);
    let objects = state.hub.askers.run(move || source.objects(MOST_OBJECTS)).await;
    objects.map(Json).map_err(unasked)
}

async fn open_stream(
    Shared(state): Server,
    Extension(right): Extension<Right>,
    Extension(held): Extension<Held>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let place = Arc::clone(&state.tabs).try_acquire_owned();
    let (hub, stopped) = (Arc::clone(&state.hub), state.stopped.clone());
    let name = state.session.view().name;
    upgrade
        .max_message_size(stream::MOST_MESSAGE)
        .max_frame_size(stream::MOST_MESSAGE)
        .max_write_buffer_size(MOST_BUFFERED)
        .on_upgrade(move |socket| async move {
            match place {
                Ok(place) => {
                    stream::serve(socket, hub, right, name, stopped).await;
                    drop(place);
                }
                Err(_) => stream::refuse(socket, "64 tabs are open already; close some").await,
            }
            drop(held);
        })
}

/// Checks or makes a change.
async fn change(Shared(state): Server, request: Request) -> Result<Response, Reject> {
    let (edit, upload): (Edit, _) = upload::json(&state.uploads, &state.stopped, request).await?;
    edited(&state, move |source| {
        let edited = source.edit(&edit);
        drop(upload);
        edited
    })
    .await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Undo {
    /// The number of the change.
    change: u64,
}

async fn undo(Shared(state): Server, request: Request) -> Result<Response, Reject> {
    let (Undo { change }, _) = upload::json(&state.uploads, &state.stopped, request).await?;
    edited(&state, move |source| source.undo(change)).await
}

/// Runs a change on another thread, because it may wait for the disk and for the loop.
async fn edited(
    state: &State,
    work: impl FnOnce(&dyn Source) -> Result<Edited, EditError> + Send + 'static,
) -> Result<Response, Reject> {
    let _permit = state.edits.acquire().await.map_err(|_| Reject::ending())?;
    let source = Arc::clone(&state.hub.source);
    let done = tokio::task::spawn_blocking(move || work(&*source)).await;
    let edited = done.map_err(|_| Reject::ending())??;
    let status = if edited.accepted { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    Ok((status, Json(edited)).into_response())
}

async fn changes(Shared(state): Server) -> Json<Value> {
    let (changes, more) = state.hub.changes(0);
    Json(json!({"changes": changes, "more": more}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Past {
    object: String,
    from_ms: i64,
    to_ms: i64,
    /// The maximum number of points in the answer.
    #[serde(default)]
    points: Option<usize>,
}

async fn past(
    Shared(state): Server,
    span: Result<Query<Past>, QueryRejection>,
) -> Result<Response, Reject> {
    let Query(span) = span?;
    let object: Object = span
        .object
        .parse()
        .map_err(|error: NoObject| Reject::new(StatusCode::BAD_REQUEST, error.to_string()))?;
    let (from, to) = (state.hub.clock_ns(span.from_ms), state.hub.clock_ns(span.to_ms));
    let most = span.points.unwrap_or(600).clamp(1, MOST_POINTS);
    let points = state.hub.past(&object, from, |points| {
        thinned(points.into_iter().filter(|point| point.at_ns <= to), most)
    });
    let mut text = format!("{{\"fields\":{},\"points\":[", json!(FIELDS));
    for (n, point) in points.iter().enumerate() {
        if n > 0 {
            text.push(',');
        }
        point.write(state.hub.base_ms(), &mut text);
    }
    text.push_str("]}");
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

async fn rules(Shared(state): Server) -> Result<Json<Vec<RuleView>>, Reject> {
    let source = Arc::clone(&state.hub.source);
    let views = state.hub.askers.run(move || source.rule_views()).await.map_err(unasked)??;
    Ok(Json(views))
}

/// The path of a packet through the rules.
async fn trace(
    Shared(state): Server,
    wish: Result<Query<trace::Wish>, QueryRejection>,
) -> Result<Response, Reject> {
    trace::answer(&state.hub, wish?.0, unasked).await
}

/// The plan that runs, or the last one.
async fn show_plan(Shared(state): Server) -> Json<PlanView> {
    plan::shown(state.hub.source.plan(), state.hub.base_ms())
}

/// Checks or starts a plan.
async fn start_plan(Shared(state): Server, request: Request) -> Result<Response, Reject> {
    let (wish, upload): (plan::Wish, _) =
        upload::json(&state.uploads, &state.stopped, request).await?;
    let _permit = state.edits.acquire().await.map_err(|_| Reject::ending())?;
    let source = Arc::clone(&state.hub.source);
    let work = move || {
        let answer = plan::answer(&*source, &wish);
        drop(upload);
        answer
    };
    match tokio::task::spawn_blocking(work).await.map_err(|_| Reject::ending())? {
        Ok(view) => Ok(plan::shown(view, state.hub.base_ms()).into_response()),
        Err(error) => Ok(plan::refused(&error)),
    }
}

async fn stop_plan(Shared(state): Server) -> Result<Json<PlanView>, Reject> {
    let source = Arc::clone(&state.hub.source);
    let work = move || {
        source.stop_plan();
        source.plan()
    };
    let view = tokio::task::spawn_blocking(work).await.map_err(|_| Reject::ending())?;
    Ok(plan::shown(view, state.hub.base_ms()))
}

/// A report of a span of time, as a file.
async fn report(
    Shared(state): Server,
    wish: Result<Query<report::Wish>, QueryRejection>,
) -> Result<Response, Reject> {
    let Query(wish) = wish?;
    let objects = wish.objects()?;
    // The work holds the permit until the report is made, even if no client waits for the report.
    let permit = Arc::clone(&state.reports).acquire_owned().await.map_err(|_| Reject::ending())?;
    let hub = Arc::clone(&state.hub);
    let view = state.session.view();
    let write = state.report;
    let work = move || {
        let made = report::make(&hub, &wish, &objects, (view.name, view.program), write);
        drop(permit);
        made
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| Reject::ending())?
}

fn unasked(unasked: Unasked) -> Reject {
    match unasked {
        Unasked::Late(within) => NoAnswer::Late { within }.into(),
        Unasked::Ending => Reject::ending(),
    }
}

impl From<EditError> for Reject {
    fn from(error: EditError) -> Self {
        let status = match &error {
            EditError::Unknown(_) => StatusCode::NOT_FOUND,
            EditError::Impossible(_) => StatusCode::CONFLICT,
            EditError::NotSaved { full: true, .. } => StatusCode::INSUFFICIENT_STORAGE,
            EditError::NotSaved { .. } => StatusCode::INTERNAL_SERVER_ERROR,
            EditError::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, error.to_string())
    }
}

/// The parts of the page that this server supports.
const FEATURES: &[&str] = &[
    "stream", "change", "undo", "changes", "top", "rules", "history", "trace", "plan", "report",
    "studies",
];
/// Maximum number of tabs with a stream.
const MOST_TABS: usize = 64;
/// Maximum number of objects in a list.
const MOST_OBJECTS: usize = 1000;
/// Maximum number of points of a past.
const MOST_POINTS: usize = 2000;
/// Maximum number of changes that are made or checked at once; further changes wait.
const MOST_EDITS: usize = 2;
/// Maximum number of reports that are made at once; further reports wait.
const MOST_REPORTS: usize = 1;
/// Maximum number of bytes that a stream keeps for a client that does not take them, beyond one
/// message.
const MOST_BUFFERED: usize = 256 << 10;
