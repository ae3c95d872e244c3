//! A service for one test, and a client that knows no more of HTTP than it needs.

use crate::support::{fewstep, task};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long anything may take that should not take long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A service that was started for a test, and ends with it.
pub(crate) struct Service {
    child: Child,
    pub(crate) address: String,
    lines: Receiver<String>,
}

impl Service {
    /// Starts the program with some flags, on any free port.
    pub(crate) fn start(flags: &[&str]) -> Self {
        let mut command = fewstep();
        command.arg("serve").args(flags);
        for (flag, value) in [("--bind", "127.0.0.1:0"), ("--threads", "2")] {
            if !flags.contains(&flag) {
                command.args([flag, value]);
            }
        }
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        let (send, lines) = channel();
        let errors = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let mut service = Self { child, address: String::new(), lines };
        let said = service.said("listening on http://");
        service.address = said.rsplit_once("http://").unwrap().1.to_owned();
        service
    }

    /// The next line on standard error that holds some words.
    pub(crate) fn said(&self, words: &str) -> String {
        let started = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(started.elapsed());
            let line = self.lines.recv_timeout(left).expect("the line comes in time");
            if line.contains(words) {
                return line;
            }
        }
    }

    /// Tells the program to end.
    pub(crate) fn terminate(&self) {
        let pid = self.child.id().to_string();
        let told = std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        assert!(told.success());
    }

    /// The code that the program ends with, and what it had still to say.
    pub(crate) fn wait(mut self) -> (Option<i32>, Vec<String>) {
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().unwrap() {
                let rest = self.lines.iter().collect();
                return (status.code(), rest);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the service does not end");
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(&self.address)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.connect().ask("GET", path, &[], b"")
    }

    /// Sends JSON to a route.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.connect().post(path, body)
    }

    /// A number among the metrics.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = self.get("/metrics").text();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} in\n{text}")).parse().unwrap()
    }

    /// Waits until a metric has some value.
    pub(crate) fn until(&self, name: &str, value: u64) {
        let started = Instant::now();
        while self.metric(name) != value {
            assert!(started.elapsed() < PATIENCE, "{name} is {}", self.metric(name));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection to a service.
pub(crate) struct Client {
    pub(crate) stream: BufReader<TcpStream>,
}

/// The head of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
}

impl Head {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.head.status
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("JSON: {}", self.text()))
    }

    /// The status, and the field of the problem that the answer must be.
    pub(crate) fn problem(&self) -> (u16, Option<String>) {
        let problem = self.json();
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let keys: Vec<&String> = problem.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["detail", "field", "status", "title", "type"]);
        assert_eq!(problem["status"], self.status());
        assert!(problem["type"].as_str().unwrap().starts_with("/problems/"));
        assert!(!problem["detail"].as_str().unwrap().is_empty());
        (self.status(), problem["field"].as_str().map(str::to_owned))
    }

    /// The report of one task, to the byte, and the rest of the answer.
    pub(crate) fn report(&self) -> (String, Value) {
        assert_eq!(self.status(), 200, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/json"));
        let text = self.text();
        let rest = text.strip_prefix("{\"report\":").unwrap();
        let json = self.json();
        let end = match json.get("adapter") {
            Some(_) => rest.rfind(",\"adapter\":").unwrap(),
            None => rest.len() - 1,
        };
        (rest[..end].to_owned(), json)
    }

    /// Whether the answer to one task came from an update that was there.
    pub(crate) fn hit(&self) -> bool {
        self.report().1["adapter"]["hit"].as_bool().unwrap()
    }
}

impl Client {
    pub(crate) fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    /// Sends bytes as they are; `false` if nobody takes them.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.get_mut().write_all(bytes).is_ok()
    }

    /// Sends a request with its length.
    pub(crate) fn start(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        if headers.iter().all(|(name, _)| *name != "Host") {
            head += "Host: localhost\r\n";
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("Content-Length: {}\r\n\r\n", body.len());
        self.send(head.as_bytes());
        self.send(body);
    }

    pub(crate) fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        self.start(method, path, headers, body);
        self.answer().expect("there is an answer")
    }

    /// Sends JSON and does not wait.
    pub(crate) fn start_post(&mut self, path: &str, body: &Value) {
        let headers = [("Content-Type", "application/json")];
        self.start("POST", path, &headers, body.to_string().as_bytes());
    }

    pub(crate) fn post(&mut self, path: &str, body: &Value) -> Answer {
        self.start_post(path, body);
        self.answer().expect("there is an answer")
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).ok()?;
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// The head of the next answer; `None` if the service has closed the connection.
    pub(crate) fn head(&mut self) -> Option<Head> {
        let status = self.line()?.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        Some(Head { status, headers })
    }

    /// The next piece of a body in pieces; `None` at its end.
    pub(crate) fn piece(&mut self) -> Option<Vec<u8>> {
        let length = usize::from_str_radix(&self.line()?, 16).unwrap();
        let mut piece = vec![0; length + 2];
        self.stream.read_exact(&mut piece).ok()?;
        piece.truncate(length);
        (length > 0).then_some(piece)
    }

    pub(crate) fn answer(&mut self) -> Option<Answer> {
        let head = self.head()?;
        let mut body = Vec::new();
        if head.header("transfer-encoding") == Some("chunked") {
            while let Some(piece) = self.piece() {
                body.extend(piece);
            }
        } else if let Some(length) = head.header("content-length") {
            body.resize(length.parse().unwrap(), 0);
            self.stream.read_exact(&mut body).ok()?;
        }
        Some(Answer { head, body })
    }

    /// Whether the service closes the connection without another word.
    pub(crate) fn closed(&mut self) -> bool {
        let mut byte = [0];
        matches!(self.stream.read(&mut byte), Ok(0) | Err(_))
    }
}

/// A request with one task.
pub(crate) fn one(task: &Value) -> Value {
    json!({ "task": task })
}

/// A request with some fields more.
pub(crate) fn with(task: &Value, options: &Value) -> Value {
    let mut body = one(task);
    let fields = options.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(fields);
    body
}

/// A digit task with another query.
pub(crate) fn query(id: &str, shift: usize, x: &str) -> Value {
    let mut task = task(id, shift);
    task["query"] = json!({ "x": x });
    task
}

/// How many examples keep a worker busy for some tenths of a second, and for seconds.
pub(crate) const LONG: usize = 24;
pub(crate) const VERY_LONG: usize = 30;

/// A list that takes a worker long enough to be looked at; whoever has seen enough goes away.
pub(crate) fn long_list() -> Value {
    let list: Vec<Value> = (0..30).map(|at| long_task(&format!("l{at}"), LONG)).collect();
    json!({"tasks": list, "reuse": false})
}

/// A task with a number of examples.
pub(crate) fn long_task(id: &str, examples: usize) -> Value {
    let mut task = task(id, 3);
    let all = (0..examples).map(|index| {
        let x = (index * 7 + index / 10) % 10;
        json!({"x": x.to_string(), "y": ((x + 3) % 10).to_string()})
    });
    task["examples"] = all.collect();
    task
}
