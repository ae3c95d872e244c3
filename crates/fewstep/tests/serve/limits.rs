//! Everything has a limit, and says so.

use crate::serve::client::{Client, Service, VERY_LONG, long_list, long_task, one, with};
use crate::support::{printed, run, task};
use serde_json::{Value, json};
use std::io::Read;
use std::time::Duration;

const JSON: [(&str, &str); 1] = [("Content-Type", "application/json")];

#[test]
fn a_body_that_is_too_large_is_refused_however_it_comes() {
    let service = Service::start(&["--request-bytes", "5000"]);
    let padded = |bytes: usize| {
        let body = one(&task("a", 1)).to_string();
        [body.as_bytes(), &b" ".repeat(bytes - body.len())].concat()
    };
    let post = |body: &[u8]| service.connect().ask("POST", "/v1/decide", &JSON, body);
    assert_eq!(post(&padded(5000)).status(), 200);
    assert_eq!(post(&padded(5001)).problem(), (413, None));

    // In pieces, without a length.
    let mut client = service.connect();
    let head =
        "POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    client.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes());
    for _ in 0..6 {
        client.send(b"3e8\r\n");
        client.send(&[b' '; 1000]);
        client.send(b"\r\n");
    }
    assert_eq!(client.answer().unwrap().problem(), (413, None));

    // A gigabyte is refused by its length, and not taken.
    let mut client = service.connect();
    client.send(format!("{head}Content-Length: 1073741824\r\n\r\n").as_bytes());
    assert_eq!(client.answer().unwrap().problem(), (413, None));
    assert!(client.closed());

    // A client that sends on all the same still sees its answer.
    let mut client = service.connect();
    client.send(format!("{head}Content-Length: 33554432\r\n\r\n").as_bytes());
    for _ in 0..32 {
        client.send(&vec![b' '; 1 << 20]);
    }
    assert_eq!(client.answer().unwrap().problem(), (413, None));
}

#[test]
fn tasks_are_measured_before_they_are_answered() {
    let flags = ["--examples", "6", "--labels", "10", "--tokens", "40", "--memory", "5500000"];
    let service = Service::start(&flags);
    let ask = |task: &Value| service.post("/v1/predict", &one(task));
    let field = |name: &str| Some(name.to_owned());
    assert_eq!(ask(&task("a", 1)).status(), 200, "{}", ask(&task("a", 1)).text());
    assert_eq!(ask(&long_task("a", 7)).problem(), (413, field("task.examples")));
    let mut labels = task("a", 1);
    labels["labels"].as_array_mut().unwrap().push(json!({"text": "a", "value": 1}));
    assert_eq!(ask(&labels).problem(), (413, field("task.labels")));
    let mut tokens = task("a", 1);
    // Longer prompts show fewer examples, as long as one fits.
    tokens["template"] = json!("{x} to {y}");
    let roomy = Service::start(&["--tokens", "40"]);
    let fewer = roomy.post("/v1/predict", &one(&tokens)).json();
    let shown = fewer["report"]["geometry"]["shown"].as_u64();
    assert!(shown.is_some_and(|shown| (1..6).contains(&shown)), "{fewer}");
    tokens["template"] = json!("the digit that follows {x} in this list is {y}");
    let refused = ask(&tokens);
    assert_eq!(refused.problem(), (422, field("task.examples")));
    assert!(refused.text().contains("at most 40 are taken"), "{}", refused.text());
    let all =
        json!({"blocks": "value,output,query,key,mlp-up,mlp-down@all", "adjoint": "whole"});
    let refused = service.post("/v1/predict", &with(&task("a", 1), &all));
    assert_eq!(refused.problem(), (413, field("task.examples")));
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    let numbers: Vec<u64> =
        detail.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(
        numbers.len() == 2 && numbers[0] > 5_500_000 && numbers[1] == 5_500_000,
        "{detail}"
    );
}

#[test]
fn more_steps_than_allowed_are_not_begun() {
    let service = Service::start(&["--steps", "5"]);
    let ask = |options: Value| service.post("/v1/predict", &with(&task("a", 1), &options));
    assert_eq!(ask(json!({"horizon": 5})).status(), 200);
    assert_eq!(ask(json!({"horizon": 6})).problem(), (413, Some("horizon".to_owned())));
    assert_eq!(ask(json!({"horizons": "0..6"})).problem(), (413, Some("horizons".to_owned())));
}

#[test]
fn beyond_the_queue_requests_are_refused_and_told_when_to_come_again() {
    let service = Service::start(&["--threads", "1", "--queue", "3"]);
    let mut held: Vec<Client> = (0..3).map(|_| service.connect()).collect();
    for client in &mut held {
        client.start_post("/v1/predict", &long_list());
    }
    service.until("fewstep_queue_requests", 3);
    let refused = service.post("/v1/predict", &one(&task("b", 1)));
    assert_eq!(refused.problem(), (429, None));
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds));
    assert_eq!(service.metric("fewstep_refused_total{reason=\"queue\"}"), 1);
    assert_eq!(held[0].head().unwrap().status, 200);
    drop(held);
    service.until("fewstep_queue_requests", 0);
    assert_eq!(service.post("/v1/predict", &one(&task("b", 1))).status(), 200);
}

#[test]
fn all_bodies_together_are_bounded() {
    let service = Service::start(&["--waiting-bytes", "3000", "--receive-seconds", "30"]);
    let mut slow = service.connect();
    let head = "POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Content-Length: 4000\r\n\r\n";
    slow.send(head.as_bytes());
    slow.send(&[b' '; 2500]);
    service.until("fewstep_waiting_bytes", 2500);
    let refused = service.post("/v1/decide", &one(&task("a", 1)));
    assert_eq!(refused.problem(), (429, None));
    assert!(refused.header("retry-after").is_some());
    drop(slow);
    service.until("fewstep_waiting_bytes", 0);
    assert_eq!(service.post("/v1/decide", &one(&task("a", 1))).status(), 200);
}

#[test]
fn an_answer_that_takes_too_long_is_given_up() {
    let service = Service::start(&["--threads", "1", "--answer-seconds", "0.05"]);
    let long = |id: &str| long_task(id, VERY_LONG);
    // Whole adjoints take several times as long.
    let whole = json!({"adjoint": "whole", "reuse": false});
    let refused = service.post("/v1/predict", &with(&long("a"), &whole));
    assert_eq!(refused.problem(), (503, None));
    assert!(refused.text().contains("/problems/too-slow"));
    assert!(refused.header("retry-after").is_some());

    let list: Vec<Value> = (0..8).map(|at| long(&format!("l{at}"))).collect();
    let answer = service
        .post("/v1/predict", &json!({"tasks": list, "adjoint": "whole", "reuse": false}));
    assert_eq!(answer.status(), 200);
    let lines: Vec<Value> =
        answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 8, "every task has its line");
    let last = &lines[7];
    assert_eq!((&last["id"], &last["line"]), (&json!("l7"), &json!(8)));
    assert!(last["error"].as_str().unwrap().contains("no answer within 0.05 s"), "{last}");
    assert_eq!(service.metric("fewstep_refused_total{reason=\"time\"}"), 2);
    // The task that was under way ends by itself, and nobody hears of it.
    service.until("fewstep_tasks_under_way", 0);
    assert_eq!(service.metric("fewstep_queue_tasks"), 0);
}

#[test]
fn slow_clients_are_let_go() {
    let service = Service::start(&["--receive-seconds", "0.3"]);
    // Nothing, half a head, a head letter by letter, and half a body.
    let mut silent = service.connect();
    let mut half = service.connect();
    half.send(b"GET /healthz HTTP/1.1\r\nHost: local");
    let mut body = service.connect();
    let head = "POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Content-Length: 100\r\n\r\n{\"task\"";
    body.send(head.as_bytes());
    assert_eq!(body.answer().unwrap().problem(), (408, None));
    assert!(silent.closed() && half.closed() && body.closed());
    let mut drop_by_drop = service.connect();
    let letters = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ".bytes();
    for letter in letters.chain(std::iter::repeat_n(b'x', 1000)) {
        std::thread::sleep(Duration::from_millis(10));
        if !drop_by_drop.send(&[letter]) {
            break;
        }
    }
    assert!(drop_by_drop.closed());
    // One that asks again in time is kept, one that does not is not.
    let mut kept = service.connect();
    for _ in 0..4 {
        assert_eq!(kept.ask("GET", "/healthz", &[], b"").status(), 200);
        std::thread::sleep(Duration::from_millis(150));
    }
    assert!(kept.closed());
    assert_eq!(service.get("/healthz").status(), 200);
}

#[test]
fn idle_connections_make_room_for_others() {
    let service = Service::start(&["--connections", "8", "--receive-seconds", "600"]);
    let mut idle: Vec<Client> = (0..50).map(|_| service.connect()).collect();
    for shift in 0..5 {
        assert_eq!(service.post("/v1/predict", &one(&task("a", shift))).status(), 200);
    }
    assert!(service.metric("fewstep_connections") <= 9);
    assert!(idle[0].closed(), "it has been idle for longest");
    // One that is being answered is not idle.
    let mut busy = service.connect();
    busy.start_post("/v1/predict", &one(&long_task("a", VERY_LONG)));
    service.until("fewstep_queue_requests", 1);
    let _more: Vec<Client> = (0..50).map(|_| service.connect()).collect();
    assert_eq!(busy.answer().unwrap().status(), 200);
}

#[test]
fn heads_that_are_too_large_are_refused() {
    let service = Service::start(&[]);
    let mut client = service.connect();
    client.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ");
    client.send(&vec![b'x'; 1 << 20]);
    client.send(b"\r\n\r\n");
    let mut answer = String::new();
    let _ = client.stream.read_to_string(&mut answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    assert_eq!(service.get("/healthz").status(), 200);
}

#[test]
fn every_limit_is_a_flag_with_its_default_in_the_help() {
    let help = printed(&run(&["serve", "--help"]));
    let flags = [
        "request-bytes",
        "waiting-bytes",
        "tasks",
        "examples",
        "labels",
        "tokens",
        "steps",
        "memory",
        "queue",
        "answer-seconds",
        "receive-seconds",
        "grace-seconds",
        "connections",
        "cache-entries",
        "cache-bytes",
    ];
    for flag in flags {
        let at =
            help.find(&format!("--{flag} <")).unwrap_or_else(|| panic!("{flag} in {help}"));
        let end = help[at + 2..].find("\n      --").map_or(help.len(), |end| at + 2 + end);
        assert!(help[at..end].contains("[default:"), "{flag}");
    }
}
