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
    pub(super) kind: ProblemKind,
    detail: String,
    field: Option<String>,
    retry_after: Option<u64>,
}

/// What kind of problem it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProblemKind {
    /// The body is not JSON.
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
    /// The body is JSON, but not a request.
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

impl ProblemKind {
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

    /// What is said about it.
    pub(super) fn words(self) -> ProblemWords {
        let (status, name, title) = match self {
            Self::NotJson => (400, "not-json", "The body is not JSON"),
            Self::Unauthorized => (401, "unauthorized", "A bearer token is needed"),
            Self::NotFound => (404, "not-found", "There is nothing here"),
            Self::MethodNotAllowed => (405, "method", "This method has no meaning here"),
            Self::SlowBody => (408, "slow-body", "The body did not come in time"),
            Self::TooLarge => (413, "too-large", "The request is too large"),
            Self::NotJsonType => (415, "not-json-type", "The body must be application/json"),
            Self::OtherHost => (421, "other-host", "The request is meant for another host"),
            Self::Wrong => (422, "wrong", "The request cannot be answered"),
            Self::Busy => (429, "busy", "Too many requests wait"),
            Self::Mistake => (500, "mistake", "The program made a mistake on this task"),
            Self::Draining => (503, "draining", "The service is about to end"),
            Self::Loading => (503, "loading", "Models are being loaded"),
            Self::TooSlow => (503, "too-slow", "The answer took too long"),
        };
        let status = StatusCode::from_u16(status).expect("it has three digits");
        ProblemWords { status, name, title }
    }
}

/// What is said about problems of a kind.
pub(super) struct ProblemWords {
    pub(super) status: StatusCode,
    /// The last part of its type.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
}

impl Problem {
    /// A problem of some kind, in words.
    pub(super) fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        debug_assert!(!detail.is_empty(), "a problem is explained");
        Self { kind, detail, field: None, retry_after: None }
    }

    /// A field of the request that cannot be taken.
    pub(super) fn wrong(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::Wrong, detail).at(field)
    }

    /// The same problem with the field at fault.
    pub(super) fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// The same problem; it may be gone after this number of seconds.
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
        let ProblemWords { status, name, title } = self.kind.words();
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
        *response.status_mut() = self.kind.words().status;
        let mut set = |name: HeaderName, value: HeaderValue| {
            response.headers_mut().insert(name, value);
        };
        set(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if let Some(seconds) = self.retry_after {
            set(RETRY_AFTER, seconds.into());
        }
        if self.kind == ProblemKind::Unauthorized {
            set(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
