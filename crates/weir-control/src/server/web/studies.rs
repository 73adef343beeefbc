//! The resources of studies: scenarios that the page simulates, the kernel's queues, and service
//! curves of schedulers.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State as Shared};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};

use super::gate::OwnPolicy;
use crate::dashboard::{NewStudy, Studies, StudyError, StudyPart, on_page};
use crate::server::budget::Uploads;
use crate::server::reject::Reject;
use crate::server::upload;

/// Studies, or the reason why there are none.
pub type StudiesOrWhy = Result<Arc<dyn Studies>, String>;

struct State {
    studies: StudiesOrWhy,
    uploads: Uploads,
    /// Limits the number of requests that wait for a process.
    asked: Arc<Semaphore>,
    /// Becomes true when the server stops.
    stopped: watch::Receiver<bool>,
    /// The Unix time, in ms, at which the clock of the page is 0.
    base_ms: i64,
}

type Server = Shared<Arc<State>>;

pub(super) fn router(
    studies: StudiesOrWhy,
    stopped: watch::Receiver<bool>,
    base_ms: i64,
) -> Router {
    let asked = Arc::new(Semaphore::new(MOST_ASKED));
    let state = State { studies, uploads: Uploads::default(), asked, stopped, base_ms };
    Router::new()
        .route("/v1/studies", get(list).post(start))
        .route("/v1/studies/check", post(check))
        .route("/v1/studies/compare", get(compare))
        .route("/v1/studies/{number}", delete(remove))
        .route("/v1/studies/{number}/report", get(report))
        .route("/v1/studies/{number}/results", get(results))
        .route("/v1/kernel", get(devices))
        .route("/v1/kernel/queues", get(kernel))
        .route("/v1/curves", get(curve_choice).post(curves))
        .with_state(Arc::new(state))
}

impl State {
    fn studies(&self) -> Result<&Arc<dyn Studies>, Reject> {
        self.studies.as_ref().map_err(|why| Reject::new(StatusCode::NOT_IMPLEMENTED, why.as_str()))
    }

    /// Runs work that waits for a process. Refuses the work if [`MOST_ASKED`] requests wait
    /// already.
    async fn ask(
        &self,
        work: impl FnOnce(&dyn Studies) -> Result<String, StudyError> + Send + 'static,
    ) -> Result<Response, Reject> {
        let studies = Arc::clone(self.studies()?);
        let place = Arc::clone(&self.asked).try_acquire_owned().map_err(|_| {
            let text = "too many requests wait for a process; try again";
            Reject::new(StatusCode::SERVICE_UNAVAILABLE, text).after("1")
        })?;
        let done = tokio::task::spawn_blocking(move || {
            let done = work(&*studies);
            drop(place);
            done
        });
        Ok(as_json(done.await.map_err(|_| Reject::ending())??))
    }
}

/// The studies, the examples and the limits.
async fn list(Shared(state): Server) -> Json<Value> {
    Json(match &state.studies {
        Ok(studies) => json!({
            "available": true, "why": null,
            "limits": studies.limits(),
            "examples": studies.examples(),
            "studies": studies.list(),
        }),
        Err(why) => json!({"available": false, "why": why, "examples": [], "studies": []}),
    })
}

async fn start(Shared(state): Server, request: Request) -> Result<Response, Reject> {
    let (study, _): (NewStudy, _) = upload::json(&state.uploads, &state.stopped, request).await?;
    let number = state.studies()?.start(study)?;
    Ok((StatusCode::ACCEPTED, Json(json!({"number": number}))).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    text: String,
}

/// Checks a scenario.
async fn check(Shared(state): Server, request: Request) -> Result<Response, Reject> {
    let (Text { text }, upload) = upload::json(&state.uploads, &state.stopped, request).await?;
    state
        .ask(move |studies| {
            let checked = studies.check(&text);
            drop(upload);
            checked
        })
        .await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    left: u64,
    right: u64,
}

async fn compare(
    Shared(state): Server,
    pair: Result<Query<Pair>, QueryRejection>,
) -> Result<Response, Reject> {
    let Query(Pair { left, right }) = pair?;
    state.ask(move |studies| studies.compare(left, right)).await
}

/// Ends or forgets a study.
async fn remove(
    Shared(state): Server,
    number: Result<Path<u64>, PathRejection>,
) -> Result<StatusCode, Reject> {
    let Path(number) = number?;
    state.studies()?.remove(number)?;
    Ok(StatusCode::NO_CONTENT)
}

/// The report of a study. All clients share one copy of it. The scripts of the report have none of
/// the page's rights: they cannot read the page's cookie or send requests.
async fn report(
    Shared(state): Server,
    number: Result<Path<u64>, PathRejection>,
) -> Result<Response, Reject> {
    let Path(number) = number?;
    let report = state.studies()?.part(number, StudyPart::Report)?;
    let mut response = Body::from(Bytes::from_owner(report)).into_response();
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, html);
    response.extensions_mut().insert(OwnPolicy(REPORT));
    Ok(response)
}

async fn results(
    Shared(state): Server,
    number: Result<Path<u64>, PathRejection>,
) -> Result<Response, Reject> {
    let Path(number) = number?;
    let results = state.studies()?.part(number, StudyPart::Results)?;
    let mut response = as_json(Bytes::from_owner(results));
    let file = format!("attachment; filename=\"study-{number}.json\"");
    if let Ok(file) = HeaderValue::from_str(&file) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, file);
    }
    Ok(response)
}

/// The network devices of this machine.
async fn devices(Shared(state): Server) -> Result<Response, Reject> {
    state.ask(|studies| studies.devices()).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Device {
    device: String,
    #[serde(default)]
    after: u64,
}

/// The readings of a device's queues. The queues are read only while clients ask.
async fn kernel(
    Shared(state): Server,
    device: Result<Query<Device>, QueryRejection>,
) -> Result<Json<Value>, Reject> {
    let Query(Device { device, after }) = device?;
    let mut view = state.studies()?.kernel(&device, after)?;
    for point in &mut view.points {
        point.t_ms = state.base_ms as f64 + on_page(point.at_ns) as f64 / 1e6;
    }
    Ok(Json(json!(view)))
}

/// The schedulers for which curves can be computed, and the limits.
async fn curve_choice(Shared(state): Server) -> Result<Json<Value>, Reject> {
    let choice = state.studies()?.curve_choice();
    Ok(Json(json!({
        "algorithms": choice.algorithms,
        "limits": {
            "algorithms": choice.most_algorithms,
            "flows": choice.most_flows,
            "packets": choice.most_packets,
        },
    })))
}

async fn curves(Shared(state): Server, request: Request) -> Result<Response, Reject> {
    let (wanted, _): (Value, _) = upload::json(&state.uploads, &state.stopped, request).await?;
    state.ask(move |studies| studies.curves(&wanted.to_string())).await
}

fn as_json(text: impl Into<Body>) -> Response {
    let mut response = text.into().into_response();
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

impl From<StudyError> for Reject {
    fn from(error: StudyError) -> Self {
        let status = match &error {
            StudyError::Unknown(_) => StatusCode::NOT_FOUND,
            StudyError::Busy(_) => StatusCode::CONFLICT,
            StudyError::Wrong(_) => StatusCode::BAD_REQUEST,
            StudyError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}

/// Maximum number of requests that wait for a process at one time; each takes a thread of the
/// server.
const MOST_ASKED: usize = 4;
/// The policy of a report. The report is a document of its own origin; it runs only the scripts and
/// styles inside it, and may save files.
const REPORT: &str = "sandbox allow-scripts allow-downloads allow-modals; default-src 'none'; \
                      script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      img-src data: blob:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";
