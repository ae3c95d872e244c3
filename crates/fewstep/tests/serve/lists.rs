//! Many tasks in a request: lines in order, each for itself.

use crate::serve::client::{Service, long_list, long_task};
use crate::support::{printed, run_with_input, task, tasks};
use serde_json::{Value, json};

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_list_is_answered_as_the_command_line_answers_a_file() {
    let service = Service::start(&[]);
    let file = tasks(7);
    let list: Vec<Value> = lines(&file);
    for command in ["predict", "decide"] {
        let printed = printed(&run_with_input(&[command, "-", "--json"], file.as_bytes()));
        let answer = service.post(&format!("/v1/{command}"), &json!({ "tasks": list }));
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
        let reports: Vec<String> = answer
            .text()
            .lines()
            .map(|line| {
                let rest = line.strip_prefix("{\"report\":").unwrap();
                let end = rest.rfind(",\"adapter\":").unwrap_or(rest.len() - 1);
                rest[..end].to_owned()
            })
            .collect();
        assert_eq!(reports, printed.lines().collect::<Vec<_>>());
    }
}

#[test]
fn a_task_that_fails_fails_in_its_place() {
    let service = Service::start(&["--examples", "6"]);
    let mut unknown = task("c", 1);
    unknown["examples"][2]["y"] = json!("no label");
    let mut misspelt = task("d", 1);
    misspelt["tempalte"] = json!("");
    let list = json!([task("a", 1), 7, unknown, misspelt, long_task("e", 7), task("f", 2),]);
    let answer = service.post("/v1/predict", &json!({ "tasks": list }));
    let found = lines(&answer.text());
    assert_eq!(found.len(), 6);
    assert_eq!(
        (&found[0]["report"]["id"], &found[5]["report"]["id"]),
        (&json!("a"), &json!("f"))
    );
    let failures = [
        (1, Value::Null, "column 1 of the task: invalid type"),
        (2, json!("c"), "y of example 2 is \"no label\"; it must be one of"),
        (3, json!("d"), "unknown field `tempalte`"),
        (4, json!("e"), "the task has 7 examples; this service takes at most 6"),
    ];
    for (place, id, error) in failures {
        let line = &found[place];
        assert_eq!(line.as_object().unwrap().len(), 3, "{line}");
        assert_eq!((&line["id"], &line["line"]), (&id, &json!(place + 1)));
        assert!(line["error"].as_str().unwrap().contains(error), "{line}");
    }
}

#[test]
fn lines_come_as_tasks_finish() {
    let service = Service::start(&["--threads", "1"]);
    let mut list = long_list();
    list["tasks"][0] = task("first", 1);
    let mut client = service.connect();
    client.start_post("/v1/predict", &list);
    assert_eq!(client.head().unwrap().status, 200);
    for id in ["first", "l1"] {
        let line: Value = serde_json::from_slice(&client.piece().unwrap()).unwrap();
        assert_eq!(line["report"]["id"], id);
    }
    assert!(service.metric("fewstep_queue_tasks") > 0, "the others still wait");
}

#[test]
fn a_list_says_what_it_is_refused_for() {
    let service = Service::start(&["--tasks", "2"]);
    let ask = |body: &Value| service.post("/v1/decide", body).problem();
    let field = |name: &str| Some(name.to_owned());
    assert_eq!(ask(&json!({"tasks": []})), (422, field("tasks")));
    assert_eq!(ask(&json!({"tasks": {}})), (422, field("tasks")));
    let one = task("a", 1);
    assert_eq!(ask(&json!({"tasks": [one, one, one]})), (413, field("tasks")));
    assert_eq!(ask(&json!({"tasks": [one], "task": one})), (422, field("tasks")));
    assert_eq!(
        ask(&json!({"tasks": [one], "budget": 0, "select": "trace-top"})),
        (422, field("budget"))
    );
    assert_eq!(service.post("/v1/decide", &json!({"tasks": [one, one]})).status(), 200);
}
