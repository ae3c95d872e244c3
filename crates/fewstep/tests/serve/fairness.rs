//! Long requests do not keep short ones waiting, nor does anybody keep the service busy who has
//! gone away.

use crate::serve::client::{LONG, Service, long_list, long_task, one, query};
use crate::support::task;
use serde_json::{Value, json};
use std::time::Duration;

#[test]
fn a_short_request_is_answered_while_a_long_list_runs() {
    let service = Service::start(&["--threads", "1"]);
    let mut list = service.connect();
    list.start_post("/v1/predict", &long_list());
    assert_eq!(list.head().unwrap().status, 200);
    service.until("fewstep_tasks_under_way", 1);
    for shift in 0..3 {
        assert_eq!(service.post("/v1/predict", &one(&task("short", shift))).status(), 200);
    }
    assert!(service.metric("fewstep_queue_tasks") > 15, "the list has hardly begun");
    assert!(list.piece().is_some());
}

#[test]
fn short_requests_do_not_starve_a_list() {
    let service = Service::start(&["--threads", "1", "--queue", "100"]);
    let mut list = service.connect();
    let tasks: Vec<Value> = (0..4).map(|at| query(&format!("l{at}"), at, "4")).collect();
    list.start_post("/v1/predict", &json!({ "tasks": tasks }));
    let mut others: Vec<_> = (0..40).map(|_| service.connect()).collect();
    for other in &mut others {
        other.start_post("/v1/predict", &json!({"task": long_task("s", 14), "reuse": false}));
    }
    assert_eq!(list.answer().unwrap().text().lines().count(), 4);
    assert!(service.metric("fewstep_queue_tasks") > 10, "most others still wait");
}

#[test]
fn what_nobody_waits_for_is_not_done() {
    let service = Service::start(&["--threads", "1"]);
    let mut list = service.connect();
    list.start_post("/v1/predict", &long_list());
    assert_eq!(list.head().unwrap().status, 200);
    service.until("fewstep_tasks_under_way", 1);
    let mut waiting = service.connect();
    waiting.start_post("/v1/predict", &json!({"task": long_task("a", LONG), "reuse": false}));
    service.until("fewstep_queue_requests", 2);
    drop(waiting);
    service.until("fewstep_queue_requests", 1);
    drop(list);
    service.until("fewstep_queue_requests", 0);
    service.until("fewstep_tasks_under_way", 0);
    assert!(service.metric("fewstep_tasks_total{result=\"answered\"}") < 15);
    assert!(service.metric("fewstep_tasks_total{result=\"dropped\"}") > 15);
    assert_eq!(service.metric("fewstep_waiting_bytes"), 0);
}

#[test]
fn a_client_that_does_not_read_holds_nobody_up_and_is_let_go() {
    let service = Service::start(&["--threads", "1", "--receive-seconds", "1"]);
    let mut list = service.connect();
    let tasks: Vec<Value> = (0..100).map(|at| long_task(&format!("l{at}"), 20)).collect();
    let body = json!({"tasks": tasks, "full": true, "blocks": "value@all"});
    list.start_post("/v1/decide", &body);
    // Megabytes of matrices come to a stop somewhere, and others are answered at once.
    for _ in 0..5 {
        assert_eq!(service.post("/v1/predict", &one(&task("short", 1))).status(), 200);
        std::thread::sleep(Duration::from_millis(100));
    }
    service.until("fewstep_queue_requests", 0);
    assert!(service.metric("fewstep_tasks_total{result=\"dropped\"}") > 10);
}
