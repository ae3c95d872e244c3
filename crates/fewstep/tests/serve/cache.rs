//! Adapt once, ask many times.

use crate::serve::client::{Answer, Service, one, query, with};
use crate::support::{printed, run_with_input, said, task};
use serde_json::{Value, json};

fn id(answer: &Answer) -> String {
    answer.report().1["adapter"]["id"].as_str().unwrap().to_owned()
}

fn predict(service: &Service, task: &Value) -> Answer {
    service.post("/v1/predict", &one(task))
}

#[test]
fn a_further_query_costs_one_pass_and_is_what_a_saved_adapter_would_give() {
    let service = Service::start(&[]);
    let ask = |full: bool, id: &str, x: &str| {
        let options = json!({ "full": full, "dynamics": "steps" });
        service.post("/v1/predict", &with(&query(id, 7, x), &options))
    };
    let (first, second) = (ask(false, "a", "4"), ask(false, "b", "6"));
    assert!(!first.hit() && second.hit());
    assert_eq!(id(&first), id(&second));
    let (_, answer) = second.report();
    assert_eq!(answer["report"]["which"]["rule"], "adapter");
    assert_eq!(answer["report"]["passes"], json!({"forward": 1, "backward": 0}));

    // The command line, with the update in a file.
    let directory = tempfile::tempdir().unwrap();
    let adapters = directory.path().to_str().unwrap();
    let input = query("a", 7, "4").to_string();
    let flags = ["predict", "-", "--dynamics", "steps", "--save-adapter", adapters];
    let made = run_with_input(&flags, input.as_bytes());
    assert!(made.status.success(), "{}", said(&made));
    let file = format!("{adapters}/a.safetensors");
    let input = query("b", 7, "6").to_string();
    let applied =
        run_with_input(&["predict", "-", "--json", "--adapter", &file], input.as_bytes());
    // It asks the model as it is, too; so does the service if everything is to be said.
    let both = printed(&applied);
    let (missed, full) = (ask(true, "a", "4"), ask(true, "b", "6"));
    assert!(!missed.hit() && full.hit());
    assert_eq!(full.report().0, both.trim_end());
    let mut alone: Value = serde_json::from_str(&both).unwrap();
    assert!(alone["prediction"]["icl"].is_f64());
    alone["prediction"]["icl"] = Value::Null;
    alone["passes"]["forward"] = json!(1);
    let said = alone["lines"]["prediction"].as_str().unwrap();
    let (_, rest) = said.split_once(" without adapting").unwrap();
    alone["lines"]["prediction"] = json!(format!("– without adapting{rest}"));
    assert_eq!(answer["report"], alone);

    assert_eq!(service.metric("fewstep_adapter_hits_total"), 2);
    assert_eq!(service.metric("fewstep_adapter_misses_total"), 2);
    assert_eq!(service.metric("fewstep_adapters"), 2);
    assert!(service.metric("fewstep_adapter_bytes") > 1000);
}

/// By the linearised model a further query is answered as if it had been the first, but for rounding:
/// the default policy does not look at it. With whole adjoints the update is kept, and with local ones
/// what was observed, so that a report says all that the first says.
#[test]
fn a_further_query_is_answered_by_the_linearised_model() {
    for adjoint in ["local", "whole"] {
        further_queries_are_answered_as_if_they_were_the_first(adjoint);
    }
}

fn further_queries_are_answered_as_if_they_were_the_first(adjoint: &str) {
    let service = Service::start(&[]);
    let ask = |x: &str, reuse: bool| {
        let task = query("a", 7, x);
        let options = json!({ "reuse": reuse, "adjoint": adjoint });
        service.post("/v1/predict", &with(&task, &options))
    };
    assert!(!ask("4", true).hit());
    for x in ["0", "6", "9"] {
        let (further, alone) = (ask(x, true), ask(x, false));
        assert!(further.hit());
        let (further, alone) = (further.report().1, alone.report().1);
        let [further, alone] = [further, alone].map(|mut answer| answer["report"].take());
        assert_eq!(further["passes"], json!({"forward": 1, "backward": 1}));
        let fields = |report: &Value| report.as_object().unwrap().keys().cloned().collect();
        let [fields, expected]: [Vec<String>; 2] = [fields(&further), fields(&alone)];
        if adjoint == "local" {
            assert_eq!(fields, expected);
            assert_eq!(further["when"]["adapt"], alone["when"]["adapt"]);
            assert_eq!(further["how_far"]["horizon"], alone["how_far"]["horizon"]);
        } else {
            assert_eq!(further["which"]["rule"], "adapter");
        }
        assert_eq!(further["which"]["selected"], alone["which"]["selected"]);
        let number = |report: &Value, name: &str| report["prediction"][name].as_f64().unwrap();
        for name in ["icl", "linear", "adapted"] {
            let (found, expected) = (number(&further, name), number(&alone, name));
            assert!((found - expected).abs() < 1e-5, "{x}, {name}: {found} {expected}");
        }
        assert!((number(&alone, "linear") - number(&alone, "icl")).abs() > 1e-3, "{x}");
    }
}

#[test]
fn updates_are_not_shared_between_prompts_or_options() {
    let service = Service::start(&[]);
    let base = query("a", 7, "4");
    assert!(!predict(&service, &base).hit());
    assert!(predict(&service, &query("b", 7, "5")).hit());
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut task = query("c", 7, "5");
        change(&mut task);
        predict(&service, &task).hit()
    };
    assert!(!changed(&|task| task["template"] = json!("{x}=>{y}")));
    assert!(!changed(&|task| task["separator"] = json!(";")));
    assert!(!changed(&|task| task["labels"][9]["value"] = json!(0.99)));
    assert!(!changed(&|task| task["examples"][0]["y"] = json!("1")));
    assert!(!changed(&|task| task["examples"].as_array_mut().unwrap().swap(0, 1)));
    assert!(!changed(&|task| drop(task["examples"].as_array_mut().unwrap().pop())));
    for options in [
        json!({"horizon": "evidence"}),
        json!({"horizon": 8}),
        json!({"horizon": 8, "step_scale": 0.2}),
        json!({"blocks": "value@last1"}),
        json!({"select": "random", "budget": 2}),
        json!({"select": "random", "budget": 2, "seed": 1}),
        json!({"horizons": "0..7"}),
        json!({"loo_order": "tree"}),
        json!({"bos": "never"}),
        json!({"max_tokens_per_example": 3}),
        json!({"full": true}),
        json!({"blocks": "lora-value@last2"}),
        json!({"blocks": "lora-value@last2", "lora_rank": 2}),
        json!({"blocks": "lora-value@last2", "lora_first": "inputs"}),
    ] {
        let ask = |x: &str| service.post("/v1/predict", &with(&query("d", 7, x), &options));
        assert!(!ask("4").hit(), "{options}");
        assert!(ask("5").hit(), "{options}");
    }
}

#[test]
fn where_a_rule_looks_at_the_query_each_query_has_its_own_update() {
    let service = Service::start(&[]);
    for options in [
        json!({"select": "query-aware", "budget": 2}),
        json!({"select": "query-score", "budget": 2}),
        json!({"horizon": "bayes-gap"}),
    ] {
        let ask = |x: &str| service.post("/v1/predict", &with(&query("d", 7, x), &options));
        assert!(!ask("4").hit() && !ask("5").hit(), "{options}");
        assert!(ask("4").hit() && ask("5").hit(), "{options}");
        assert_ne!(id(&ask("4")), id(&ask("5")), "{options}");
        assert!(ask("5").report().1["report"]["when"]["adapt"].is_boolean());
    }
}

#[test]
fn an_update_that_is_deleted_is_made_again() {
    let service = Service::start(&[]);
    let first = predict(&service, &query("a", 7, "4"));
    let path = format!("/v1/adapters/{}", id(&first));
    let delete = |path: &str| service.connect().ask("DELETE", path, &[], b"");
    assert_eq!(delete(&path).status(), 204);
    assert_eq!(delete(&path).problem(), (404, None));
    assert_eq!(delete("/v1/adapters/none").problem(), (404, None));
    assert_eq!(delete("/v1/adapters/%FF").problem(), (404, None));
    assert_eq!(service.metric("fewstep_adapters"), 0);
    assert_eq!(service.metric("fewstep_adapter_bytes"), 0);
    assert!(!predict(&service, &query("a", 7, "5")).hit());
}

#[test]
fn what_was_used_least_recently_goes_first() {
    let service = Service::start(&["--cache-entries", "2"]);
    let ask = |shift| predict(&service, &query("a", shift, "4")).hit();
    assert!(!ask(1) && !ask(2) && ask(1));
    assert!(!ask(3), "2 has to go");
    assert!(ask(1) && ask(3) && !ask(2));
    assert_eq!(service.metric("fewstep_adapters"), 2);
    assert_eq!(service.metric("fewstep_adapter_evicted_total"), 2);
}

#[test]
fn updates_never_take_more_bytes_than_they_may() {
    // Steps in all candidate blocks: all updates have the same size.
    let update_all = |service: &Service, shift| {
        service.post(
            "/v1/predict",
            &with(&task("a", shift), &json!({"horizon": "8", "select": "all"})),
        );
    };
    let service = Service::start(&[]);
    update_all(&service, 1);
    let each = service.metric("fewstep_adapter_bytes");
    let most = (each * 5 / 2).to_string();
    let service = Service::start(&["--cache-bytes", &most]);
    for shift in 0..6 {
        update_all(&service, shift);
        assert!(service.metric("fewstep_adapter_bytes") <= each * 5 / 2);
    }
    assert_eq!(service.metric("fewstep_adapters"), 2);
    // One that would not fit by itself is not kept, and everything goes on.
    let service = Service::start(&["--cache-bytes", "100"]);
    assert!(!predict(&service, &task("a", 1)).hit() && !predict(&service, &task("a", 1)).hit());
    assert_eq!(service.metric("fewstep_adapters"), 0);
    let service = Service::start(&["--cache-entries", "0"]);
    assert!(!predict(&service, &task("a", 1)).hit() && !predict(&service, &task("a", 1)).hit());
}

#[test]
fn what_a_fresh_answer_would_refuse_is_refused_with_an_update_there() {
    let service = Service::start(&[]);
    predict(&service, &task("a", 7));
    let mut wrong = task("a", 7);
    wrong["query"]["y"] = json!("no label");
    assert_eq!(predict(&service, &wrong).problem(), (422, Some("task.query.y".to_owned())));
    let mut wrong = task("a", 7);
    wrong["query"]["x"] = json!("5".repeat(5000));
    assert_eq!(predict(&service, &wrong).problem(), (422, Some("task.examples".to_owned())));
}

#[test]
fn many_queries_on_the_same_examples_adapt_once_even_at_the_same_time() {
    let service = Service::start(&[]);
    let tasks: Vec<Value> =
        (0..10).map(|x| query(&format!("q{x}"), 7, &x.to_string())).collect();
    let answer = service.post("/v1/predict", &json!({ "tasks": tasks }));
    let hits: Vec<bool> = answer
        .text()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["adapter"]["hit"] == true)
        .collect();
    assert_eq!(hits.len(), 10);
    assert_eq!(hits.iter().filter(|hit| !**hit).count(), 1, "{hits:?}");
    assert!(!hits[0], "the first one makes it");
}
