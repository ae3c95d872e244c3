//! What is wrong with a request, as RFC 9457 has it.
//!
//! In: an error, and what it is about. Out: a [`Problem`], which becomes an answer of the type
//! `application/problem+json` with the field at fault.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use serde::Serialize;
use std::borrow::Cow;

/// The type of an answer that says what is wrong.
pub(super) const PROBLEM_JSON: &str = "application/problem+json";

/// What is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) kind: Kind,
    detail: String,
    field: Option<String>,
    retry_after: Option<u64>,
}

/// The kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The body is no JSON.
    NotJson,
    /// A token is needed.
    Unauthorized,
    /// There is nothing of this name.
    NotFound,
    /// There is, but not for this method.
    MethodNotAllowed,
    /// The body did not come in time.
    SlowBody,
    /// Something is larger than this service takes.
    TooLarge,
    /// The body is said to be something else than JSON.
    NotJsonType,
    /// The request was meant for another host.
    OtherHost,
    /// The body is JSON, but no request.
    Wrong,
    /// Too many requests wait.
    Busy,
    /// The program made a mistake.
    Mistake,
    /// The service is about to end.
    Draining,
    /// Models are being loaded.
    Loading,
    /// The answer took too long.
    TooSlow,
}

impl Kind {
    /// Every kind.
    pub(super) const ALL: [Self; 14] = [
        Self::NotJson,
        Self::Unauthorized,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::SlowBody,
        Self::TooLarge,
        Self::NotJsonType,
        Self::OtherHost,
        Self::Wrong,
        Self::Busy,
        Self::Mistake,
        Self::Draining,
        Self::Loading,
        Self::TooSlow,
    ];

    /// Its status, its name (which is the last part of its type) and its title.
    pub(super) fn words(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::NotJson => (StatusCode::BAD_REQUEST, "not-json", "The body is no JSON"),
            Self::Unauthorized => {
                (StatusCode::UNAUTHORIZED, "unauthorized", "A bearer token is needed")
            }
            Self::NotFound => (StatusCode::NOT_FOUND, "not-found", "There is nothing here"),
            Self::MethodNotAllowed => {
                (StatusCode::METHOD_NOT_ALLOWED, "method", "This method has no meaning here")
            }
            Self::SlowBody => {
                (StatusCode::REQUEST_TIMEOUT, "slow-body", "The body did not come in time")
            }
            Self::TooLarge => {
                (StatusCode::PAYLOAD_TOO_LARGE, "too-large", "The request is too large")
            }
            Self::NotJsonType => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "not-json-type",
                "The body must be application/json",
            ),
            Self::OtherHost => (
                StatusCode::MISDIRECTED_REQUEST,
                "other-host",
                "The request is meant for another host",
            ),
            Self::Wrong => {
                (StatusCode::UNPROCESSABLE_ENTITY, "wrong", "The request cannot be answered")
            }
            Self::Busy => (StatusCode::TOO_MANY_REQUESTS, "busy", "Too many requests wait"),
            Self::Mistake => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "mistake",
                "The program made a mistake on this task",
            ),
            Self::Draining => {
                (StatusCode::SERVICE_UNAVAILABLE, "draining", "The service is about to end")
            }
            Self::Loading => {
                (StatusCode::SERVICE_UNAVAILABLE, "loading", "Models are being loaded")
            }
            Self::TooSlow => {
                (StatusCode::SERVICE_UNAVAILABLE, "too-slow", "The answer took too long")
            }
        }
    }
}

impl Problem {
    /// A problem of some kind, in words.
    pub(super) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        debug_assert!(!detail.is_empty(), "a problem is explained");
        Self { kind, detail, field: None, retry_after: None }
    }

    /// A field of the request that cannot be taken.
    pub(super) fn wrong(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(Kind::Wrong, detail).at(field)
    }

    /// The same problem with the field at fault.
    pub(super) fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// The same problem; it may be gone in so many seconds.
    pub(super) fn again_in(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// The answer's JSON.
    pub(super) fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Members<'a> {
            r#type: Cow<'a, str>,
            title: &'a str,
            status: u16,
            detail: &'a str,
            field: Option<&'a str>,
        }
        let (status, name, title) = self.kind.words();
        let members = Members {
            r#type: format!("/problems/{name}").into(),
            title,
            status: status.as_u16(),
            detail: &self.detail,
            field: self.field.as_deref(),
        };
        serde_json::to_string(&members).expect("every member can be written")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.to_json()));
        *response.status_mut() = self.kind.words().0;
        let mut set = |name: HeaderName, value: HeaderValue| {
            response.headers_mut().insert(name, value);
        };
        set(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if let Some(seconds) = self.retry_after {
            set(RETRY_AFTER, seconds.into());
        }
        if self.kind == Kind::Unauthorized {
            set(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
