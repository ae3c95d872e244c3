//! How a service begins and ends.

use crate::serve::client::{Client, LONG, Service, VERY_LONG, long_list, long_task, one};
use crate::support::task;
use fewstep::serve::{Limits, Service as Within, ServiceSettings};
use serde_json::{Value, json};

fn within() -> Within {
    let address = "127.0.0.1:0".parse().unwrap();
    let (token, limits) = (None, Limits::default());
    Within::start(ServiceSettings { address, token, anonymous: false, threads: 1, limits })
        .unwrap()
}

#[test]
fn until_there_are_models_the_service_lives_but_is_not_ready() {
    let service = within();
    let address = service.address().to_string();
    let get = |path: &str| Client::connect(&address).ask("GET", path, &[], b"");
    assert_eq!(get("/healthz").status(), 200);
    assert_eq!(get("/").status(), 200);
    for path in ["/readyz", "/v1/models"] {
        assert_eq!(get(path).problem(), (503, None), "{path}");
        assert!(get(path).text().contains("/problems/loading"));
    }
    let asked = Client::connect(&address).post("/v1/predict", &one(&task("a", 1)));
    assert_eq!((asked.problem(), asked.header("retry-after")), ((503, None), Some("1")));
    service.ready(vec![("builtin".to_owned(), fewstep::builtin().unwrap())]).unwrap();
    assert_eq!(get("/readyz").status(), 200);
    let asked = Client::connect(&address).post("/v1/predict", &one(&task("a", 1)));
    assert_eq!(asked.status(), 200);
    assert!(service.drain());
    assert!(std::net::TcpStream::connect(&address).is_err(), "nobody listens any more");
}

#[test]
fn a_signal_finishes_what_is_under_way_and_refuses_new_work() {
    let service = Service::start(&["--threads", "1"]);
    let mut list = service.connect();
    let tasks: Vec<Value> = (0..4).map(|at| long_task(&format!("l{at}"), LONG)).collect();
    list.start_post("/v1/predict", &json!({"tasks": tasks, "reuse": false}));
    let mut one_task = service.connect();
    one_task.start_post("/v1/predict", &one(&long_task("a", VERY_LONG)));
    service.until("fewstep_queue_requests", 2);
    let mut idle = service.connect();
    assert_eq!(idle.ask("GET", "/healthz", &[], b"").status(), 200);
    service.terminate();
    service.said("finishing what is under way");

    let ready = service.get("/readyz");
    assert_eq!(ready.problem(), (503, None));
    assert!(ready.text().contains("/problems/draining"));
    assert_eq!(service.get("/healthz").status(), 200);
    let refused = service.post("/v1/predict", &one(&task("b", 1)));
    assert_eq!((refused.problem(), refused.header("retry-after")), ((503, None), Some("1")));

    assert_eq!(one_task.answer().unwrap().status(), 200);
    let answer = list.answer().unwrap();
    let lines: Vec<Value> =
        answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    assert!(lines.iter().all(|line| line.get("report").is_some()), "{lines:?}");
    assert!(idle.closed());
    let (code, said) = service.wait();
    assert_eq!(code, Some(0), "{said:?}");
}

#[test]
fn a_service_that_has_nothing_to_do_ends_at_once() {
    let service = Service::start(&[]);
    let mut idle = service.connect();
    let mut used = service.connect();
    assert_eq!(used.ask("GET", "/healthz", &[], b"").status(), 200);
    service.terminate();
    assert!(idle.closed() && used.closed());
    assert_eq!(service.wait().0, Some(0));
}

#[test]
fn what_takes_longer_than_the_grace_is_left() {
    let service = Service::start(&["--threads", "1", "--grace-seconds", "0.1"]);
    let mut list = service.connect();
    list.start_post("/v1/predict", &long_list());
    assert_eq!(list.head().unwrap().status, 200);
    service.until("fewstep_tasks_under_way", 1);
    service.terminate();
    let mut lines = Vec::new();
    while let Some(piece) = list.piece() {
        lines.push(serde_json::from_slice::<Value>(&piece).unwrap());
    }
    assert!(lines.len() <= 30);
    if let Some(last) = lines.get(29) {
        assert!(last["error"].as_str().unwrap().contains("the service ended"), "{last}");
    }
    let (code, said) = service.wait();
    assert_eq!(code, Some(0));
    assert!(said.iter().any(|line| line.contains("took longer than 0.1 s")), "{said:?}");
}

#[test]
fn models_have_names_of_their_own() {
    let service = within();
    service.ready(vec![("builtin".to_owned(), fewstep::builtin().unwrap())]).unwrap();
    let two = vec![
        ("a".to_owned(), fewstep::builtin().unwrap()),
        ("a".to_owned(), fewstep::builtin().unwrap()),
    ];
    let refused = service.ready(two).unwrap_err();
    assert_eq!(refused, fewstep::Error::SameModel { name: "a".to_owned() });
    assert!(service.drain());
}
