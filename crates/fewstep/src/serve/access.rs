//! What happens to every request on its way in and out: who may come in, what is written down, and
//! what every answer says to browsers.

use super::Shared;
use super::connections::Visit;
use super::problems::{Problem, ProblemKind};
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderValue, Method, Response, StatusCode};
use axum::middleware::Next;
use axum::response::IntoResponse;
use hyper::body::{Frame, SizeHint};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

/// What a browser may do with the page: use what comes from here, and nothing else.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; object-src 'none'";

/// What counts as the status of a request whose client went away before it was answered.
const GONE: u16 = 499;

/// Headers of every answer.
const HEADERS: [(HeaderName, &str); 4] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-store"),
];

/// Lets a request in, or not, and keeps account of it.
pub(super) async fn guard(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
    next: Next,
) -> Response<Body> {
    let mut account = Account::open(&shared, &mut request);
    let mut response = match check(&shared, &request, account.route.as_ref()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    account.status = Some(response.status());
    response.map(|body| Body::new(Accounted { body, _account: account }))
}

/// `Err` unless the request is meant for this service and may use it.
fn check(
    shared: &Shared,
    request: &Request,
    route: Option<&MatchedPath>,
) -> Result<(), Problem> {
    let host = request.headers().get(HOST).map(HeaderValue::as_bytes);
    let host = request.uri().authority().map(|own| own.as_str().as_bytes()).or(host);
    if shared.loopback && host.is_some_and(|host| !is_own(host)) {
        let detail = "only localhost and loopback addresses are served here";
        return Err(Problem::new(ProblemKind::OtherHost, detail));
    }
    let Some(token) = &shared.token else { return Ok(()) };
    // Whoever asks for what is not there gets no further answer either.
    let open =
        ["/", "/page.js", "/page.css", "/page/{file}", "/healthz", "/readyz", "/openapi.json"];
    let given = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
    if route.is_some_and(|route| open.contains(&route.as_str()))
        || given.is_some_and(|given| token.is_in(given))
    {
        return Ok(());
    }
    let detail = "send the service's token in a header: Authorization: Bearer TOKEN";
    Err(Problem::new(ProblemKind::Unauthorized, detail))
}

/// Whether a `Host` names this machine from within. A page from elsewhere whose name was made to
/// lead here names its own.
fn is_own(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, "")) => (name, ""),
        Some((name, rest)) => match rest.strip_prefix(':') {
            Some(port) => (name, port),
            None => return false,
        },
        None => host.rsplit_once(':').unwrap_or((host, "")),
    };
    port.bytes().all(|byte| byte.is_ascii_digit())
        && (name.eq_ignore_ascii_case("localhost")
            || name.parse().is_ok_and(|address: IpAddr| address.is_loopback()))
}

/// What is written down about a request when it is over.
struct Account {
    shared: Arc<Shared>,
    method: Method,
    route: Option<MatchedPath>,
    status: Option<StatusCode>,
    started: Instant,
    /// While it is there, the connection is not idle.
    _visit: Option<Arc<Visit>>,
}

impl Account {
    fn open(shared: &Arc<Shared>, request: &mut Request) -> Self {
        #[allow(clippy::disallowed_methods, reason = "the service tells how long things took")]
        let started = Instant::now();
        Self {
            shared: Arc::clone(shared),
            method: request.method().clone(),
            route: request.extensions().get().cloned(),
            status: None,
            started,
            _visit: request.extensions_mut().remove(),
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let Self { shared, method, route, status, started, .. } = self;
        let route = route.as_ref().map(MatchedPath::as_str);
        let gone = StatusCode::from_u16(GONE).expect("it has three digits");
        let (status, took) = (status.unwrap_or(gone), started.elapsed());
        shared.metrics.request(method, route, status, took);
        shared.log.request(method, route, status, took);
    }
}

/// A body whose end is the end of its request.
struct Accounted {
    body: Body,
    _account: Account,
}

impl HttpBody for Accounted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_its_own() {
        for own in [
            "localhost",
            "LocalHost:8080",
            "127.0.0.1",
            "127.0.0.1:1",
            "127.1.2.3:80",
            "[::1]",
            "[::1]:8080",
        ] {
            assert!(is_own(own.as_bytes()), "{own}");
        }
        for other in [
            "",
            "example.org",
            "localhost.example.org",
            "127.0.0.1.example.org",
            "192.168.0.1",
            "[::2]:80",
            "[::1]x",
            "localhost:80a",
            "0.0.0.0",
            "\u{e9}",
        ] {
            assert!(!is_own(other.as_bytes()), "{other}");
        }
    }
}
