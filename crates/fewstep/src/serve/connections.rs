//! Connections: taking them, not too many of them, and letting them go.
//!
//! A client must send heads in time and take what it is sent in time. When there are too many
//! connections, the one that has been idle for longest makes room for the next.

use super::{PARTING, Shared, routes};
use crate::error::Error;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::net::TcpListener;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tower_service::Service;

mod patient;

use patient::Patient;

/// What is kept of a head, or of an answer on its way out, in bytes.
const BUFFER: usize = 1 << 14;

/// Threads that read bodies, which takes some milliseconds for the largest ones.
const READERS: usize = 2;

/// How long to wait when the system has no connection to give.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a client that is still sending is listened to, so that it sees its answer.
const LINGER: Duration = Duration::from_secs(1);

/// Connections that are open.
pub(super) struct Connections {
    open: Mutex<BTreeMap<u64, Arc<Connection>>>,
    most: usize,
    /// Someone has left.
    left: Notify,
    clock: Arc<AtomicU64>,
}

/// A connection, as others see it.
struct Connection {
    number: u64,
    /// Requests that are being answered, and all there ever were.
    busy: AtomicUsize,
    seen: AtomicU64,
    /// When it began to wait for a request.
    idle_since: AtomicU64,
    /// It is to end.
    close: Notify,
    clock: Arc<AtomicU64>,
}

/// A request that is being answered; its connection is not idle.
pub(super) struct Visit(Arc<Connection>);

impl Visit {
    fn begin(connection: &Arc<Connection>) -> Arc<Self> {
        connection.busy.fetch_add(1, Ordering::SeqCst);
        connection.seen.fetch_add(1, Ordering::SeqCst);
        Arc::new(Self(Arc::clone(connection)))
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let now = self.0.clock.fetch_add(1, Ordering::SeqCst);
        self.0.idle_since.store(now, Ordering::SeqCst);
        self.0.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A connection's place among the others, until it ends.
struct Presence {
    shared: Arc<Shared>,
    connection: Arc<Connection>,
}

impl Drop for Presence {
    fn drop(&mut self) {
        let connections = &self.shared.connections;
        connections.open().remove(&self.connection.number);
        connections.left.notify_one();
    }
}

impl Connections {
    /// Room for `most` connections.
    pub(super) fn new(most: usize) -> Self {
        let (open, clock) = (Mutex::default(), Arc::default());
        Self { open, most, left: Notify::new(), clock }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many are open.
    pub(super) fn count(&self) -> usize {
        self.open().len()
    }

    /// Waits until there is room for one more; whoever is idle must go for it.
    async fn room(&self) {
        while self.count() >= self.most {
            let longest = {
                let open = self.open();
                let idle = open.values().filter(|other| other.busy.load(Ordering::SeqCst) == 0);
                idle.min_by_key(|other| other.idle_since.load(Ordering::SeqCst)).cloned()
            };
            if let Some(longest) = longest {
                longest.close.notify_one();
            }
            self.left.notified().await;
        }
    }

    fn enter(&self) -> Arc<Connection> {
        let number = self.clock.fetch_add(1, Ordering::SeqCst);
        let connection = Arc::new(Connection {
            number,
            busy: AtomicUsize::new(0),
            seen: AtomicU64::new(0),
            idle_since: AtomicU64::new(number),
            close: Notify::new(),
            clock: Arc::clone(&self.clock),
        });
        self.open().insert(number, Arc::clone(&connection));
        connection
    }

    /// Ends all connections, each after the answer that it is waiting for.
    async fn end(&self) {
        for connection in self.open().values() {
            connection.close.notify_one();
        }
        while self.count() > 0 {
            self.left.notified().await;
        }
    }
}

/// Starts the thread that talks to clients.
pub(super) fn talk(
    listener: TcpListener,
    shared: Arc<Shared>,
) -> Result<JoinHandle<()>, Error> {
    let failed =
        |error: std::io::Error| Error::Threads { threads: 1, reason: error.to_string() };
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().max_blocking_threads(READERS).build().map_err(failed)?;
    let listener = {
        let _inside = runtime.enter();
        tokio::net::TcpListener::from_std(listener).map_err(failed)?
    };
    let named = std::thread::Builder::new().name("http".to_owned());
    let talking = named.spawn(move || {
        runtime.block_on(serve(listener, &shared));
        // What clients still owe or are owed is given up.
        runtime.shutdown_background();
    });
    talking.map_err(failed)
}

/// Takes connections until the service ends.
async fn serve(listener: tokio::net::TcpListener, shared: &Arc<Shared>) {
    {
        let mut accepting = pin!(accept(listener, shared));
        let mut ended = pin!(shared.ended.notified());
        poll_fn(|context| {
            if ended.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            accepting.as_mut().poll(context)
        })
        .await;
    }
    let _ = timeout(PARTING, shared.connections.end()).await;
}

async fn accept(listener: tokio::net::TcpListener, shared: &Arc<Shared>) {
    let router = routes::router(shared);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                shared.connections.room().await;
                shared.metrics.connected();
                let connection = shared.connections.enter();
                let presence = Presence { shared: Arc::clone(shared), connection };
                tokio::spawn(converse(stream, router.clone(), presence));
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// Talks to one client until it or the service has had enough.
async fn converse(stream: TcpStream, router: Router, presence: Presence) {
    // Without it answers in several pieces wait for the network; nothing else depends on it.
    let _ = stream.set_nodelay(true);
    let patience = presence.shared.limits.receive_time;
    let connection = Arc::clone(&presence.connection);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Visit::begin(&connection));
        Box::pin(router.clone().call(request.map(Body::new)))
    });
    let mut talk = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(Patient::new(stream, patience)), service);
    let connection = &presence.connection;
    let mut close = pin!(connection.close.notified());
    let mut closing = false;
    let ended = poll_fn(|context| {
        if !closing && close.as_mut().poll(context).is_ready() {
            closing = true;
            if connection.seen.load(Ordering::SeqCst) == 0 {
                return Poll::Ready(false);
            }
            Pin::new(&mut talk).graceful_shutdown();
        }
        talk.poll_without_shutdown(context).map(|ended| ended.is_ok())
    })
    .await;
    if ended {
        let _ = timeout(LINGER, linger(talk.into_parts().io.into_inner())).await;
    }
}

/// Says that nothing more will come, and waits for the client to say so, too. To close at once
/// while it is still sending would take from it what it was sent.
async fn linger(mut stream: Patient) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut scrap = [0; 4096];
    while stream.read(&mut scrap).await.is_ok_and(|read| read > 0) {}
}
