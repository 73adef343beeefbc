//! A refused request: its status and the reason, as every handler returns them.

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::api::Problem;
use crate::owner::OwnerError;
use crate::plane::NoAnswer;

/// A request that is refused, and why.
#[derive(Debug)]
pub(super) struct Reject {
    status: StatusCode,
    error: String,
    /// The number of seconds after which to try again.
    after: Option<&'static str>,
}

impl Reject {
    pub(super) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into(), after: None }
    }

    /// The same refusal, with the number of seconds after which to try again.
    pub(super) fn after(self, seconds: &'static str) -> Self {
        Self { after: Some(seconds), ..self }
    }

    pub(super) fn ending() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the daemon is ending")
    }
}

impl IntoResponse for Reject {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(Problem { error: self.error })).into_response();
        if let Some(seconds) = self.after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(seconds));
        }
        response
    }
}

impl From<NoAnswer> for Reject {
    fn from(error: NoAnswer) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
    }
}

impl From<QueryRejection> for Reject {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(StatusCode::BAD_REQUEST, rejection.body_text())
    }
}

impl From<PathRejection> for Reject {
    fn from(rejection: PathRejection) -> Self {
        Self::new(StatusCode::BAD_REQUEST, rejection.body_text())
    }
}

impl From<OwnerError> for Reject {
    fn from(error: OwnerError) -> Self {
        let status = match &error {
            OwnerError::Busy | OwnerError::Ended | OwnerError::NoAnswer(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            OwnerError::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            OwnerError::NotSaved { full: true, .. } => StatusCode::INSUFFICIENT_STORAGE,
            OwnerError::NotSaved { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}
