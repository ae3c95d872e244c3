//! What may be asked for, and who answers.

use super::access;
use super::answers::{self, json_response};
use super::metrics::{Elsewhere, Refusal};
use super::page;
use super::problems::{Problem, ProblemKind};
use super::requests::{Request as Work, Verb};
use super::schema;
use super::{Models, NamedModel, Shared};
use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing::{delete, get, post};
use fewstep_core::Policy;
use serde::Serialize;
use serde_json::json;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

/// What a route says.
type RouteResult = Result<Response<Body>, Problem>;

/// All routes.
pub(super) fn router(shared: &Arc<Shared>) -> Router {
    let schema: Arc<str> = schema::document(&shared.limits, shared.token.is_some()).into();
    let openapi = move || async move { json_response(schema.to_string()) };
    Router::new()
        .route("/", get(page::index))
        .route("/page.js", get(page::script))
        .route("/page.css", get(page::style))
        .route("/page/{file}", get(page::part))
        .route("/healthz", get(|| async { "alive\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(openapi))
        .route("/v1/models", get(models))
        .route("/v1/decide", post(decide))
        .route("/v1/predict", post(predict))
        .route("/v1/adapters/{id}", delete(forget))
        .method_not_allowed_fallback(|| async {
            Problem::new(
                ProblemKind::MethodNotAllowed,
                "the header Allow names the methods there are",
            )
        })
        .fallback(|| async {
            Problem::new(ProblemKind::NotFound, "GET /openapi.json says what there is")
        })
        .layer(from_fn_with_state(Arc::clone(shared), access::guard))
        .with_state(Arc::clone(shared))
}

/// The models, unless the service is about to end or has just begun.
fn ready(shared: &Shared) -> Result<&Models, Problem> {
    if shared.draining.load(Ordering::SeqCst) {
        return Err(answers::draining(shared));
    }
    shared.models.get().ok_or_else(|| {
        Problem::new(ProblemKind::Loading, "there are no models yet; try again in a moment")
            .again_in(1)
    })
}

async fn readyz(State(shared): State<Arc<Shared>>) -> Result<&'static str, Problem> {
    ready(&shared).map(|_| "ready\n")
}

async fn metrics(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    let all = shared.limits.waiting_bytes;
    let elsewhere = Elsewhere {
        queue: shared.queue.length(),
        adapters: shared.adapters.counts(),
        connections: shared.connections.count(),
        waiting_bytes: all.saturating_sub(shared.room.available_permits()),
    };
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(CONTENT_TYPE, kind)], shared.metrics.text(&elsewhere))
}

/// What requests may name.
#[derive(Serialize)]
struct Offered {
    models: Vec<serde_json::Value>,
    policies: NamedPolicies,
}

/// The policies that have a name.
#[derive(Serialize)]
struct NamedPolicies {
    default: Policy,
    paper: Policy,
}

async fn models(State(shared): State<Arc<Shared>>) -> RouteResult {
    let Models(models) = ready(&shared)?;
    let describe = |(place, NamedModel { name, model }): (usize, &NamedModel)| {
        let config = model.config();
        json!({
            "name": name,
            "layers": config.layers,
            "heads": config.heads,
            "key_value_heads": config.key_value_heads(),
            "width": config.width,
            "positions": config.positions,
            "vocabulary": config.vocabulary,
            "default": place == 0,
        })
    };
    let models: Vec<_> = models.iter().enumerate().map(describe).collect();
    // Policies keep the order of fields that reports have.
    let policies = NamedPolicies { default: Policy::default(), paper: Policy::paper() };
    let offered = Offered { models, policies };
    Ok(json_response(serde_json::to_string(&offered).expect("every field can be written")))
}

async fn forget(
    State(shared): State<Arc<Shared>>,
    id: Result<Path<String>, axum::extract::rejection::PathRejection>,
) -> Result<StatusCode, Problem> {
    match id {
        Ok(Path(id)) if shared.adapters.remove(&id) => Ok(StatusCode::NO_CONTENT),
        _ => {
            let detail = "no update of this id is kept; it may have made room for others";
            Err(Problem::new(ProblemKind::NotFound, detail))
        }
    }
}

async fn decide(State(shared): State<Arc<Shared>>, request: Request) -> RouteResult {
    work(shared, Verb::Decide, request).await
}

async fn predict(State(shared): State<Arc<Shared>>, request: Request) -> RouteResult {
    work(shared, Verb::Predict, request).await
}

/// Receives a request, checks it and has it answered.
async fn work(shared: Arc<Shared>, verb: Verb, request: Request) -> RouteResult {
    ready(&shared)?;
    check_type(request.headers())?;
    let Received { body, held } = receive(&shared, request).await?;
    let reader = Arc::clone(&shared);
    let reading = tokio::task::spawn_blocking(move || {
        Work::read(&body, verb, ready(&reader)?, &reader.limits)
    });
    let read = reading.await.map_err(|_| {
        Problem::new(ProblemKind::Mistake, "the request could not be read; please report it")
    })?;
    answers::answer(&shared, read?, held).await
}

/// `Err` unless the body is said to be JSON; a page from elsewhere cannot say so unasked.
fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let kind = kind.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    if kind.eq_ignore_ascii_case(b"application/json") {
        return Ok(());
    }
    let detail = "send a header: Content-Type: application/json";
    Err(Problem::new(ProblemKind::NotJsonType, detail))
}

/// A request that has come in.
struct Received {
    body: Vec<u8>,
    /// Its share of what may wait.
    held: OwnedSemaphorePermit,
}

async fn receive(shared: &Shared, request: Request) -> Result<Received, Problem> {
    let most = shared.limits.request_bytes;
    let too_large = || {
        let detail = format!("the body has more than {most} bytes; send several requests");
        Problem::new(ProblemKind::TooLarge, detail)
    };
    let length = request.headers().get(CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > most) {
        return Err(too_large());
    }
    let mut held = take_room(shared, 0)?;
    let (mut body, mut bytes) = (request.into_body(), Vec::new());
    let receiving = async {
        while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
        {
            let frame = frame.map_err(|_| {
                Problem::new(ProblemKind::NotJson, "the body could not be received")
            })?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > most {
                return Err(too_large());
            }
            held.merge(take_room(shared, data.len())?);
            bytes.extend_from_slice(&data);
        }
        Ok(())
    };
    let patience = shared.limits.receive_time;
    timeout(patience, receiving).await.map_err(|_| {
        let seconds = patience.as_secs_f64();
        Problem::new(ProblemKind::SlowBody, format!("the body must come within {seconds} s"))
    })??;
    Ok(Received { body: bytes, held })
}

/// A share of what may wait.
fn take_room(shared: &Shared, bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    Arc::clone(&shared.room).try_acquire_many_owned(bytes).map_err(|_| {
        shared.metrics.refused(Refusal::Bytes);
        let most = shared.limits.waiting_bytes;
        let detail = format!("the requests that wait have {most} bytes together already");
        Problem::new(ProblemKind::Busy, detail).again_in(answers::wait(shared))
    })
}
