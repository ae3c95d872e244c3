//! The tool behind HTTP: tasks in requests, reports in answers, and a page that shows them.
//!
//! In: [`ServiceSettings`], models, and whatever clients send. Out: answers. Data flows one way: a
//! request is received and checked (`requests`), waits for its turn (`queue`), is answered by a
//! worker (`work`) that may find its update made already (`adapters`), and leaves (`answers`).
//! One thread does all input and output and never computes; workers compute and never wait for a
//! client. Everything has a limit ([`Limits`]).

mod access;
mod adapters;
mod answers;
mod connections;
mod faults;
mod fields;
mod limits;
mod log;
mod metrics;
mod page;
mod problems;
mod queue;
mod requests;
mod routes;
mod schema;
mod token;
mod work;

pub use limits::Limits;
pub use token::Token;

use crate::error::Error;
use adapters::Adapters;
use connections::Connections;
use fewstep_engine::Model;
use log::Log;
use metrics::Metrics;
use problems::Problem;
use queue::Queue;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use work::Job;

/// How many tasks of a list, for each worker, may be begun before its client takes an answer.
const AHEAD: usize = 4;

/// How long answers that are complete may take to leave when the service ends.
const PARTING: Duration = Duration::from_secs(2);

/// How the service is to be reached, and by whom.
#[derive(Debug)]
pub struct ServiceSettings {
    /// The address to listen on; port 0 is any that is free.
    pub address: SocketAddr,
    /// What clients must show, if anything.
    pub token: Option<Token>,
    /// Whether clients may come from elsewhere without a token.
    pub anonymous: bool,
    /// How many tasks are answered at the same time.
    pub threads: usize,
    /// How much of everything is taken.
    pub limits: Limits,
}

impl ServiceSettings {
    /// `Err` unless those who can reach the service may use it.
    ///
    /// # Errors
    ///
    /// [`Error::OpenToAll`] for an address that others can reach, without a token and without
    /// being told that this is meant.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep::{Error, serve::{Limits, ServiceSettings}};
    ///
    /// let address = "0.0.0.0:8080".parse().expect("it is one");
    /// let (token, limits) = (None, Limits::default());
    /// let settings = ServiceSettings { address, token, anonymous: false, threads: 1, limits };
    /// assert_eq!(settings.check(), Err(Error::OpenToAll { address }));
    /// ```
    pub fn check(&self) -> Result<(), Error> {
        if self.address.ip().is_loopback() || self.token.is_some() || self.anonymous {
            return Ok(());
        }
        Err(Error::OpenToAll { address: self.address })
    }
}

/// The models of a service; the first one is meant if none is named.
struct Models(Vec<NamedModel>);

/// A model under the name that requests give it.
struct NamedModel {
    name: String,
    model: Model,
}

impl Models {
    fn find(&self, name: Option<&str>) -> Result<&NamedModel, Problem> {
        let found = match name {
            Some(name) => self.0.iter().find(|known| known.name == name),
            None => self.0.first(),
        };
        found.ok_or_else(|| {
            let names: Vec<&str> = self.0.iter().map(|known| known.name.as_str()).collect();
            let detail = format!("unknown model: expected one of {}", names.join(", "));
            Problem::wrong("model", detail)
        })
    }
}

/// What all parts of a service share.
struct Shared {
    limits: Limits,
    threads: usize,
    token: Option<Token>,
    /// Whether only this machine can reach it, so that requests for other hosts are no honest ones.
    loopback: bool,
    models: OnceLock<Models>,
    queue: Arc<Queue<Job>>,
    adapters: Adapters,
    metrics: Metrics,
    log: Log,
    /// One for each byte of a body that may still come.
    room: Arc<Semaphore>,
    connections: Connections,
    draining: AtomicBool,
    /// No connection is taken any more.
    ended: Notify,
}

/// A service that is running.
///
/// # Examples
///
/// ```
/// use fewstep::serve::{Limits, Service, ServiceSettings};
/// use std::io::{Read, Write};
///
/// let address = "127.0.0.1:0".parse().expect("it is one");
/// let (token, limits) = (None, Limits::default());
/// let settings = ServiceSettings { address, token, anonymous: false, threads: 1, limits };
/// let service = Service::start(settings)?;
/// service.ready(vec![("builtin".to_owned(), fewstep::builtin()?)])?;
///
/// let mut stream = std::net::TcpStream::connect(service.address()).expect("it listens");
/// let request = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
/// stream.write_all(request.as_bytes()).expect("it reads");
/// let mut answer = String::new();
/// stream.read_to_string(&mut answer).expect("it answers");
/// assert!(answer.starts_with("HTTP/1.1 200 OK"));
/// assert!(service.drain());
/// # Ok::<(), fewstep::Error>(())
/// ```
#[must_use = "a service that nobody holds goes on for ever"]
pub struct Service {
    shared: Arc<Shared>,
    address: SocketAddr,
    /// The thread that talks to clients.
    talking: JoinHandle<()>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Service")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Service {
    /// Begins to listen. Until there are models, nothing but whether it lives is answered.
    ///
    /// # Errors
    ///
    /// Those of [`ServiceSettings::check`], [`Error::Listen`] if the address cannot be had, and
    /// [`Error::Threads`].
    pub fn start(settings: ServiceSettings) -> Result<Self, Error> {
        settings.check()?;
        let ServiceSettings { address, token, anonymous: _, threads, limits } = settings;
        let refused = |error: std::io::Error| Error::Listen { address, kind: error.kind() };
        let listener = TcpListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let own = listener.local_addr().map_err(refused)?;
        let shared = Arc::new(Shared {
            limits,
            threads,
            token,
            loopback: own.ip().is_loopback(),
            models: OnceLock::new(),
            queue: Arc::new(Queue::new(limits.queue, AHEAD * threads)),
            adapters: Adapters::new(limits.cache_entries, limits.cache_bytes),
            metrics: Metrics::default(),
            log: Log::to_standard_error(),
            room: Arc::new(Semaphore::new(limits.waiting_bytes.min(Semaphore::MAX_PERMITS))),
            connections: Connections::new(limits.connections),
            draining: AtomicBool::new(false),
            ended: Notify::new(),
        });
        let talking = connections::talk(listener, Arc::clone(&shared))?;
        Ok(Self { shared, address: own, talking })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes models and begins to answer; the first one is meant if a request names none.
    ///
    /// # Errors
    ///
    /// [`Error::Threads`] if workers cannot be started, [`Error::SameModel`] if two have one name.
    pub fn ready(&self, models: Vec<(String, Model)>) -> Result<(), Error> {
        for (place, (name, _)) in models.iter().enumerate() {
            if models[..place].iter().any(|(other, _)| other == name) {
                return Err(Error::SameModel { name: name.clone() });
            }
        }
        work::start(&self.shared)?;
        let limits = &self.shared.limits;
        let limited = models.into_iter().map(|(name, model)| {
            let model =
                model.with_memory_limit(limits.memory).with_longest_prompt(limits.tokens);
            NamedModel { name, model }
        });
        // Whoever is ready twice keeps the first models.
        let _ = self.shared.models.set(Models(limited.collect()));
        Ok(())
    }

    /// Refuses new work from now on; what is under way goes on.
    pub fn refuse(&self) {
        self.shared.draining.store(true, Ordering::SeqCst);
    }

    /// Refuses new work, finishes what is under way, and ends; `false` if that took too long and
    /// something was left.
    pub fn drain(self) -> bool {
        self.refuse();
        let Self { shared, talking, .. } = self;
        let finished = shared.queue.drained(shared.limits.grace);
        shared.queue.close();
        shared.ended.notify_one();
        // It ends by itself, once answers have left or had time to.
        let _ = talking.join();
        finished
    }
}
