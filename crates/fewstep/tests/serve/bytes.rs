//! A report is the same to the byte, however it was asked for.

use crate::serve::client::{Service, with};
use crate::support::{printed, records, run_with_input, said, tasks};
use serde_json::{Value, json};

/// What the command line prints for a task.
fn command_line(command: &str, flags: &[&str], task: &Value) -> String {
    let mut words = vec![command, "-", "--json"];
    words.extend(flags);
    let output = run_with_input(&words, task.to_string().as_bytes());
    assert!(output.status.success(), "{}", said(&output));
    printed(&output).trim_end().to_owned()
}

#[test]
fn reports_are_those_of_the_command_line_to_the_byte() {
    let service = Service::start(&[]);
    let options: [(&str, &[&str], Value); 17] = [
        ("predict", &[], json!({})),
        ("decide", &[], json!({})),
        ("predict", &["--full"], json!({"full": true})),
        ("decide", &["--full"], json!({"full": true, "model": "builtin"})),
        ("predict", &["--policy", "paper"], json!({"policy": "paper"})),
        ("decide", &["--policy", "paper", "--full"], json!({"policy": "paper", "full": true})),
        ("predict", &["--coverage", "0.5"], json!({"coverage": 0.5})),
        ("predict", &["--horizon", "evidence"], json!({"horizon": "evidence"})),
        ("predict", &["--horizon", "8"], json!({"horizon": 8})),
        ("predict", &["--horizon", "8"], json!({"horizon": "8"})),
        ("predict", &["--dynamics", "linear"], json!({"dynamics": "linear"})),
        (
            "predict",
            &["--select", "query-aware", "--budget", "3", "--blocks", "value,output@all"],
            json!({"select": "query-aware", "budget": 3, "blocks": "value,output@all"}),
        ),
        (
            "predict",
            &["--horizons", "0,1,2,4,8", "--step-scale", "0.3"],
            json!({"horizons": [0, 1, 2, 4, 8], "step_scale": 0.3}),
        ),
        (
            "decide",
            &["--horizons", "0..12", "--horizon", "gibbs"],
            json!({"horizons": "0..12", "horizon": "gibbs"}),
        ),
        (
            "predict",
            &["--select", "random", "--budget", "2", "--seed", "7", "--loo-order", "tree"],
            json!({"select": "random", "budget": 2, "seed": 7, "loo_order": "tree"}),
        ),
        (
            "predict",
            &["--blocks", "lora-value@last2", "--lora-rank", "3", "--lora-first", "inputs"],
            json!({"blocks": "lora-value@last2", "lora_rank": 3, "lora_first": "inputs"}),
        ),
        (
            "predict",
            &["--bos", "never", "--max-tokens-per-example", "1", "--horizon", "bayes-gap"],
            json!({"bos": "never", "max_tokens_per_example": 1, "horizon": "bayes-gap"}),
        ),
    ];
    for (command, flags, options) in options {
        for task in records(&tasks(2)) {
            let expected = command_line(command, flags, &task);
            let answer = service.post(&format!("/v1/{command}"), &with(&task, &options));
            let (report, rest) = answer.report();
            assert_eq!(report, expected, "{command} {flags:?}");
            assert_eq!(rest.get("adapter").is_some(), command == "predict");
        }
    }
}

#[test]
fn a_second_time_and_without_reuse_the_report_is_the_same() {
    let service = Service::start(&[]);
    let task = &records(&tasks(1))[0];
    let first = service.post("/v1/predict", &with(task, &json!({})));
    let again = service.post("/v1/predict", &with(task, &json!({})));
    let alone = service.post("/v1/predict", &with(task, &json!({"reuse": false})));
    assert_eq!((first.hit(), again.hit()), (false, true));
    assert_eq!(first.report().0, again.report().0);
    assert_eq!(first.report().0, alone.report().0);
    assert_eq!(alone.report().1.get("adapter"), None);

    // The answer and the id are those of the request, not of the one before.
    let mut renamed = task.clone();
    renamed["id"] = json!("another");
    renamed["query"].as_object_mut().unwrap().remove("y");
    let (report, rest) = service.post("/v1/predict", &with(&renamed, &json!({}))).report();
    assert_eq!(report, command_line("predict", &[], &renamed));
    assert_eq!(rest["adapter"]["hit"], json!(true));
}
