//! `fewstep serve`: the service, from the flags to the signal that ends it.

use super::FEWSTEP;
use super::arguments::positive;
use super::console::{End, processors};
use super::run::load;
use crate::builtin::BUILTIN;
use crate::error::Error;
use crate::serve::{Limits, Service, ServiceSettings, Token};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// What the service is told to do.
#[derive(Debug, Args)]
pub(super) struct Serve {
    /// The address to listen on; port 0 picks a free port. An address that other machines can reach
    /// needs --token-file or --allow-anonymous
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    bind: SocketAddr,
    /// A file with the token that clients must send as Authorization: Bearer TOKEN
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Accept any client that can reach the address
    #[arg(long, conflicts_with = "token_file")]
    allow_anonymous: bool,
    /// A model: builtin, a directory, a GGUF file, or a hub id; may be repeated, and requests that
    /// name no model use the first
    #[arg(long, default_value = BUILTIN)]
    model: Vec<String>,
    /// Dequantise the weights of GGUF files when they are opened
    #[arg(long)]
    expand: bool,
    /// Number of tasks to work on at once [default: one per processor]
    #[arg(long, value_name = "N", value_parser = positive)]
    threads: Option<usize>,
    #[command(flatten)]
    limits: Bounds,
}

/// The defaults are those of [`Limits::default`].
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
struct Bounds {
    /// Bytes of a request's body
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = Limits::default().request_bytes)]
    request_bytes: usize,
    /// Bytes of the bodies of all unanswered requests
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = Limits::default().waiting_bytes)]
    waiting_bytes: usize,
    /// Tasks in a request
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = Limits::default().tasks)]
    tasks: usize,
    /// Examples of a task
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = Limits::default().examples)]
    examples: usize,
    /// Labels of a task
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = Limits::default().labels)]
    labels: usize,
    /// Tokens of a prompt, within the model's own limit
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = Limits::default().tokens)]
    tokens: usize,
    /// Steps that a request may ask for
    #[arg(long, value_name = "N", default_value_t = Limits::default().steps)]
    steps: u32,
    /// Bytes that observing a task may need beside the model, as estimated beforehand, for each thread
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().memory)]
    memory: u64,
    /// Requests that are waiting or in progress; further ones are told when to try again
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = Limits::default().queue)]
    queue: usize,
    /// Seconds from the end of a request to the end of its answer
    #[arg(long, value_name = "S", value_parser = seconds, default_value = "60")]
    answer_seconds: Duration,
    /// Seconds for the head of a request, for its body, and for a client to receive what it is sent
    #[arg(long, value_name = "S", value_parser = seconds, default_value = "10")]
    receive_seconds: Duration,
    /// Seconds for work in progress at shutdown
    #[arg(long, value_name = "S", value_parser = seconds, default_value = "30")]
    grace_seconds: Duration,
    /// Open connections
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = Limits::default().connections)]
    connections: usize,
    /// Updates kept for further queries on the same examples; 0 keeps none
    #[arg(long, value_name = "N", default_value_t = Limits::default().cache_entries)]
    cache_entries: usize,
    /// Bytes of all kept updates
    #[arg(long, value_name = "N", default_value_t = Limits::default().cache_bytes)]
    cache_bytes: usize,
}

pub(super) const EXAMPLES: &str = "\
POST /v1/decide and /v1/predict return the reports of decide --json and predict --json; GET
/openapi.json describes the interface, and GET / is a web page. On SIGTERM or an interrupt the
service finishes work in progress and rejects new work.

Examples:
  fewstep serve
  fewstep serve --model builtin --model distilgpt2 --threads 4
  fewstep serve --bind 0.0.0.0:8080 --token-file token.txt
  curl localhost:8080/v1/predict -H 'Content-Type: application/json' \\
    -d \"{\\\"task\\\": $(head -n 1 examples/digits.jsonl)}\"";

impl Bounds {
    fn limits(&self) -> Limits {
        let &Self {
            request_bytes,
            waiting_bytes,
            tasks,
            examples,
            labels,
            tokens,
            steps,
            memory,
            queue,
            answer_seconds,
            receive_seconds,
            grace_seconds,
            connections,
            cache_entries,
            cache_bytes,
        } = self;
        Limits {
            request_bytes,
            waiting_bytes,
            tasks,
            examples,
            labels,
            tokens,
            steps,
            memory,
            queue,
            answer_time: answer_seconds,
            receive_time: receive_seconds,
            grace: grace_seconds,
            connections,
            cache_entries,
            cache_bytes,
        }
    }
}

/// Seconds over 0, such as 0.5.
fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse::<f64>().ok().filter(|&seconds| seconds > 0.0 && seconds <= 1e6);
    number
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "it must be a number of seconds over 0 and at most a million".to_owned())
}

/// Serves until it is told to end.
pub(super) fn serve(arguments: &Serve) -> Result<End, Error> {
    let Serve { bind, token_file, allow_anonymous, model, expand, threads, limits } = arguments;
    let token = token_file.as_deref().map(Token::read).transpose()?;
    let settings = ServiceSettings {
        address: *bind,
        token,
        anonymous: *allow_anonymous,
        threads: threads.unwrap_or_else(processors),
        limits: limits.limits(),
    };
    let grace = settings.limits.grace.as_secs_f64();
    let told = listen();
    say_nothing_of_requests();
    let service = Service::start(settings)?;
    let mut models = Vec::new();
    for name in model {
        models.push((name.clone(), load(name, *expand)?));
    }
    service.ready(models)?;
    FEWSTEP.note(format!("listening on http://{}", service.address()));
    // The sender may be gone already; without signals the service runs until it is killed.
    let _ = told.recv();
    service.refuse();
    FEWSTEP.note("finishing what is under way; interrupt again to end at once");
    if !service.drain() {
        FEWSTEP.note(format!("what was under way took longer than {grace} s and was dropped"));
    }
    Ok(End::Done)
}

/// Hears of the first signal to end; the second one ends the program at once.
fn listen() -> mpsc::Receiver<()> {
    let (tell, told) = mpsc::channel();
    let first = AtomicBool::new(true);
    let listening = ctrlc::set_handler(move || {
        if !first.swap(false, Ordering::SeqCst) {
            std::process::exit(130);
        }
        let _ = tell.send(());
    });
    if listening.is_err() {
        FEWSTEP.note("signals cannot be noticed here and will end the service at once");
    }
    told
}

/// A panic says where, and not what: its message may hold words of a request.
fn say_nothing_of_requests() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        FEWSTEP.note(format!("the program made a mistake at {place}; please report it"));
    }));
}
